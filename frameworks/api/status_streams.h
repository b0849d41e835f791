// What was delivered and acknowledged of each agent's status stream. Owned by the client actor. See "Status stream".
//
// Sequences start at 1 and the agent resends from its first unacknowledged one, which every update names. A life of a framework
// that meets a stream in its middle begins there: delivering the first that comes, and then acknowledging it, would lose the
// unacknowledged ones before it. From an agent that does not name it, nothing is delivered until a resend has shown it.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "common/core/ids.h"

namespace bourse::api {

class StatusStreams {
 public:
  enum class Verdict : std::uint8_t { kDeliver, kDuplicate, kGap };
  // `first` is the agent's first unacknowledged one (0: it does not say).
  Verdict seen(const AgentId& agent, StreamId stream, Sequence sequence, Sequence first);
  // The framework has it safe. Bounded by what was delivered. True when that is news.
  bool acknowledge(const AgentId& agent, StreamId stream, Sequence through);
  // Delivered to nobody: counts as acknowledged as soon as everything before it is. True when that is news.
  bool skip(const AgentId& agent, StreamId stream, Sequence sequence);
  void repeat(const AgentId& agent, StreamId stream);  // the agent may not have our acknowledgement
  void repeat_all();                                   // a new session
  struct Ack {
    AgentId agent;
    StreamId stream;
    Sequence through;
  };
  std::vector<Ack> take_acks();  // to be sent now
  [[nodiscard]] bool acks_waiting() const { return !dirty_.empty(); }

 private:
  struct State;
  static bool advance(State& state, Sequence through);
  static constexpr std::size_t kStreamsPerAgent = 4;  // an agent has one; older ones linger for late messages
  using Key = std::pair<AgentId, StreamId>;
  struct State {
    Sequence next;   // to be delivered; 0: not known yet
    Sequence first;  // met, while `next` is not known
    Sequence acked;
    std::set<Sequence> skipped;  // beyond `acked`
    bool nudged = false;         // asked for a resend since the last delivery; once is enough
    std::uint64_t order = 0;     // of first sight
  };
  std::map<Key, State> streams_;
  std::set<Key> dirty_;
  std::uint64_t order_ = 0;
};

}  // namespace bourse::api
