// The agent's side of its session with the master: hello, epochs, heartbeat, silence, the next master.
//
// States: not begun (inventory unknown) -> hello sent, repeated every second -> up, after Welcome. Silence of
// Welcome.peer_timeout, kHellosPerMaster hellos without an answer, or a master that does not lead, lead to another one; which and when
// is common/core/master_search.h's rule. Owned by the agent actor; tells its owner through the return values.
#pragma once

#include <functional>
#include <string>

#include "common/core/actor.h"
#include "common/core/master_search.h"

namespace bourse {

// The agent's timers, one enum for all its tables.
enum class AgentTimer : std::uint32_t {
  kHello = 1,
  kHeartbeat,
  kHold,
  kIdle,
  kTask,
  kSettle,
  kFlush,
  kResend,
  kRepair,
  kProbe,
  kFence,
  kLend,
  kWarm
};

inline TimerKey timer_key(AgentTimer kind, std::uint64_t a = 0, std::string name = {}) {
  return TimerKey{static_cast<std::uint32_t>(kind), a, std::move(name)};
}

class AgentSession {
 public:
  AgentSession(AgentId agent, std::size_t masters) : agent_(std::move(agent)), search_("agent " + agent_.str(), masters) {}
  using MakeHello = std::function<AgentHello()>;
  void on_hello(MakeHello make) { make_hello_ = std::move(make); }
  void on_figures(std::function<Counters()> make) { make_figures_ = std::move(make); }  // with heartbeats; empty: nothing to count
  void start(Incarnation incarnation) {
    incarnation_ = incarnation;
    search_.start(incarnation);
  }

  [[nodiscard]] bool begun() const { return phase_ != Phase::kIdle; }
  [[nodiscard]] bool up() const { return phase_ == Phase::kUp; }
  [[nodiscard]] Epoch epoch() const { return epoch_; }
  [[nodiscard]] const std::string& cluster() const { return cluster_; }
  [[nodiscard]] Incarnation incarnation() const { return incarnation_; }
  void restore_epoch(Epoch epoch) { epoch_ = std::max(epoch_, epoch); }
  void restore_cluster(std::string cluster) { cluster_ = std::move(cluster); }

  void begin(Time now, Actions& out);  // says hello; again: once more, with a fresh snapshot
  // May this message of a master be acted on? False: an older leadership's, or not from a master. `newer` is set when its
  // epoch must be remembered.
  bool admit(Time now, Actions& out, const Message& message, bool& newer);
  // True when the session was not up before.
  bool welcome(Time now, Actions& out, const Welcome& welcome);
  void refused(Time now, Actions& out, const Refused& refused);
  void lost(Time now, Actions& out, const char* why);  // leaves this master
  // Says nothing until begin(): what it would say may not be on record. For the master it is silent, and after a while unreachable.
  void mute(Actions& out);
  // For how long no leader may be heard before tasks with fence = lease are ended; 0: not known. AgentTimer::kFence fires then.
  [[nodiscard]] Duration fence() const { return fence_; }
  // Until when such tasks may run; 0: not known.
  [[nodiscard]] Duration lease_until() const { return fence_ > Duration(0) ? last_heard_ + fence_ : Duration(0); }
  void hello_due(Time now, Actions& out);
  void heartbeat_due(Time now, Actions& out);

  // Sends to the master once hello has been said (what follows the snapshot is a delta to it); dropped before, because the
  // hello will say it.
  void say(Time now, Actions& out, Body body, std::string trace = {});

 private:
  enum class Phase { kIdle, kBackOff, kKnock, kHello, kUp };  // kKnock: a master that did not lead is asked whether it does now
  static constexpr Duration kHelloEvery = seconds(1), kRefusedRetry = seconds(30);
  static constexpr std::uint32_t kHellosPerMaster = 5;
  static constexpr int kWallEvery = 6;  // heartbeats
  void hello(Time now, Actions& out);
  void knock(Time now, Actions& out);
  void wait_for(Time now, const MasterSearch::Next& next, Actions& out);
  void elsewhere(Time now, Actions& out, const Refused& refused);

  AgentId agent_;
  MasterSearch search_;
  Incarnation incarnation_;
  MakeHello make_hello_;
  std::function<Counters()> make_figures_;
  Duration last_figures_{0};
  Phase phase_ = Phase::kIdle;
  Epoch epoch_;
  std::string cluster_;
  std::uint32_t hellos_ = 0;
  bool knock_ = false;        // after the back-off, rather than a hello
  bool fence_armed_ = false;  // since the last Welcome
  Duration heartbeat_{0}, peer_timeout_{0}, fence_{0}, last_sent_{0}, last_heard_{0}, last_wall_{0};
};

}  // namespace bourse
