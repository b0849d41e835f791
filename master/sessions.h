// Who is behind a connection. A PeerId is worth nothing without a hello; the hello makes it a session.
//
// Owned by the master. Also how silence is noticed: one heap of deadlines, looked at when the earliest is due, moved on by
// what was heard meanwhile, so a message costs one store.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>

#include "common/core/ids.h"
#include "common/core/time.h"
#include "master/deadlines.h"

namespace bourse::house {

enum Who : std::uint8_t { kNobody = 0, kAgent = 1, kFramework = 2, kReader = 4, kOperator = 8, kStranger = 16 };

struct Session {
  PeerId peer;
  Who who = kNobody;
  std::uint32_t row = 0;  // in the table of agents or frameworks
  std::string identity;   // as the key said at the hello
  Duration heard{0};      // mono
  Duration beaten{0};     // when it was last sent a heartbeat
  std::string from = {};  // where its hello came from, for the log
};

class SessionTable {
 public:
  static constexpr std::size_t kSessionsMax = 200'000;  // beyond, a hello is refused (kLimit)
  static constexpr std::size_t kStrangersMax = 1024;    // remembered for "once per peer and minute"
  static constexpr Duration kAnswerEvery = milliseconds(200);

  [[nodiscard]] Session* find(PeerId peer);
  Session* open(Session session, Duration timeout);  // replaces what the peer was; null when full
  void close(PeerId peer) { sessions_.erase(peer.value); }
  [[nodiscard]] std::size_t size() const { return sessions_.size(); }
  // The next session that has been silent for `timeout`; 0 when there is none. The caller closes it.
  PeerId next_silent(Duration now, Duration timeout);
  // True once per peer and minute. When the memory is full it is emptied: better a line too many than none.
  bool may_log(PeerId peer, Duration now);
  // Whether a stranger is told once more to say hello: it may send much without reading any of our answers.
  bool may_answer(PeerId peer, Duration now);

  Deadlines<std::uint64_t> deadlines;

 private:
  std::unordered_map<std::uint64_t, Session> sessions_;
  bool once(std::map<std::uint64_t, Duration>& last, PeerId peer, Duration now, Duration every);

  std::map<std::uint64_t, Duration> logged_, answered_;
};

// Does the key's identity ("agent:h1", "agent:*") allow acting as `kind`:`name`?
[[nodiscard]] bool covers(const std::string& identity, std::string_view kind, std::string_view name);
// Do the roles of a key ("physics,chemistry"; "": any) cover `role`, by its own name or that of one above it?
[[nodiscard]] bool covers_role(std::string_view roles, std::string_view role);

}  // namespace bourse::house
