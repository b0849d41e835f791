// Status updates to frameworks: one sequenced, acknowledged stream per framework, resent until acknowledged.
//
// An entry is recorded in the checkpoint before it is sent. Terminal states leave at once, except where more tasks wait for their turn
// in the slice (nobody waits for that word then, and the host tells several at a time: they gather); others wait kHold for the end of a
// short task, which then takes their place, so that a task of a few milliseconds costs one message instead of two. At most
// kWindow entries are under way; without progress for kResendEvery the stream goes back to the first unacknowledged one and
// sends kProbe until an acknowledgement comes. An acknowledgement of nothing new sends it back at once: a gap was seen. An entry that was sent is never changed. Owned by the agent actor.
#pragma once

#include <deque>
#include <map>
#include <vector>

#include "agent/turn.h"

namespace bourse {

class StatusStreams {
 public:
  static constexpr std::size_t kUnacknowledgedMax =
      400'000;  // of one framework; beyond, reports are dropped (Reconcile finds them)
  static constexpr std::uint64_t kWindow = 2'000, kProbe = 16;
  static constexpr Duration kHold = milliseconds(5), kGather = milliseconds(1), kResendEvery = seconds(10),
                            kGoBackEvery = milliseconds(100);
  static constexpr Duration kKeep = std::chrono::hours(8 * 24);  // longer than the default failover_timeout

  explicit StatusStreams(AgentId agent) : agent_(std::move(agent)) {}
  [[nodiscard]] StreamId stream() const { return stream_; }
  // The host went down, perhaps with sequences that were sent and of which no record is left: they must not be used again. A
  // new stream begins with the ends that are not acknowledged, from 1; all else of before is obsolete, for nothing runs any more.
  // Answers each framework's old sequences in their new order. A restored IdentityRecord with another stream does the same.
  using Renumbered = std::map<FrameworkId, std::vector<Sequence>>;
  Renumbered renew(StreamId stream);

  // Adds an entry and answers its sequence; 0 when the stream is full. `previous` is the task's entry before (0: none): where
  // that is not terminal and was never sent, the new one takes its place.
  // more_follow: an end that can wait, for others wait in its slice.
  Sequence add(Turn& turn, const FrameworkId& framework, const SliceId& slice, const TaskStatus& status, Sequence previous,
               bool more_follow = false);
  struct Acked {
    Sequence sequence;
    TaskStatus status;
  };
  std::vector<Acked> ack(Turn& turn, const FrameworkId& framework, StreamId stream, Sequence through);
  [[nodiscard]] bool acked(const FrameworkId& framework, Sequence sequence) const;

  void session_up(Turn& turn);                                // everything unacknowledged is sent again
  void resend(Turn& turn, const FrameworkId& framework);      // the framework came back and asks
  void resend_due(Turn& turn, const FrameworkId& framework);  // timers
  void flush_due(Turn& turn);
  [[nodiscard]] std::size_t unacknowledged() const;
  [[nodiscard]] bool idle(const FrameworkId& framework) const;

  void restore(const StatusRecord& record);
  std::vector<Acked> restore(const AckedRecord& record);
  void snapshot(std::vector<CheckpointRecord>& out) const;
  // For a framework that is gone for ever: nobody has acknowledged anything for kKeep.
  [[nodiscard]] bool abandoned(Time now, const FrameworkId& framework) const;
  void drop(Turn& turn, const FrameworkId& framework);

 private:
  struct Entry {
    SliceId slice;
    TaskStatus status;
  };
  struct Stream {
    std::deque<Entry> unacked;  // front has sequence acked + 1
    std::uint64_t acked = 0;
    std::uint64_t cursor = 0;    // last sent in this session
    std::uint64_t sent = 0;      // highest ever sent
    std::uint64_t released = 0;  // may leave up to here
    std::uint64_t window = kWindow;
    Duration progress{0};
    Duration gone_back{0};  // when an acknowledgement of nothing new last sent us back
    bool timer = false;
    [[nodiscard]] std::uint64_t last() const { return acked + unacked.size(); }
  };
  void pump(Turn& turn, const FrameworkId& framework, Stream& s);

  AgentId agent_;
  StreamId stream_;
  std::map<FrameworkId, Stream> streams_;
  Duration flush_at_{-1};  // -1: not armed
};

}  // namespace bourse
