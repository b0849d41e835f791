// Whom a peer of the masters asks next, and when: the rule that agents and frameworks share.
//
// A value inside of a session (agent/session.h, frameworks/api/client.h), which tells it what happened and does what it answers.
// No clock and no randomness: waits are spread by a hash of who asks, in which life, for the how-manieth time, so that ten
// thousand peers of a leader that died do not come to the next one in the same millisecond.
//
// The rule. A master that gave no answer is left for the next; after a round of all of them in vain the waits double, up to
// kBackOffMax. A master that does not lead but says who does sends us there. One that knows of no leader is asked again, shortly and
// cheaply: with a Heartbeat ("knock"), which a leader answers by asking for a hello; after kKnocks of them the next one is asked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/core/ids.h"
#include "common/core/messages.h"
#include "common/core/time.h"

namespace bourse {

class MasterSearch {
 public:
  static constexpr Duration kBackOffMin = milliseconds(100), kBackOffMax = seconds(5);
  static constexpr Duration kSpread = milliseconds(100);      // over which peers that are sent elsewhere arrive there
  static constexpr Duration kKnockEvery = milliseconds(700);  // a master answers such questions twice a second at most
  static constexpr std::uint32_t kKnocks = 3;

  struct Next {
    Duration wait{0};        // then speak
    bool reconnect = false;  // to `leader`, or where that is empty to the next one; now, so that the connection is there in time
    std::string leader;
    bool knock = false;  // with a Heartbeat rather than a hello
  };

  // `who` differs between peers; `masters`: how many are known to begin with.
  explicit MasterSearch(std::string who, std::size_t masters = 1) : who_(std::move(who)) { know(masters); }
  void start(Incarnation incarnation) { incarnation_ = incarnation; }
  void know(std::size_t masters) { masters_ = masters == 0 ? 1 : static_cast<std::uint32_t>(masters); }

  Next silent();                      // it gave no answer, fell silent, or its connection was lost
  Next elsewhere(const Refused& no);  // it does not lead: no.not_leading
  [[nodiscard]] Duration busy();      // it refused for another reason that passes: the same one is asked again after this
  void found();                       // it leads, and has welcomed us
  [[nodiscard]] std::uint32_t attempt() const { return attempt_; }  // since it was found last

 private:
  [[nodiscard]] Duration spread(Duration least, Duration most) const;
  [[nodiscard]] Duration back_off(std::uint32_t round) const;

  std::string who_;
  Incarnation incarnation_;
  std::uint32_t masters_ = 1;
  std::uint32_t attempt_ = 0;  // masters left or asked again
  std::uint32_t silent_ = 0;   // of those, in a row, without any answer
  std::uint32_t knocks_ = 0;   // at the one at hand
  std::string named_;          // as the leader, last,
  std::uint32_t named_often_ = 0;
};

}  // namespace bourse
