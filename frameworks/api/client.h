// The client actor: session, reconnect, acknowledgement, reconciliation. It exists once. See "One client".
//
// A step function like every other, owned by its outer driver (the C API in production, the simulator's framework host in
// simulation). Events from the master go in through step(); what the framework should know comes out as SessionEvents; what
// the framework says goes in through command(). It promises: each status once per (agent, stream, sequence) and in order; accepts
// and acknowledgements survive reconnects; after a new leader the demand is published again and every slice and task is
// reconciled without the framework's doing.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/core/actor.h"

namespace bourse {

struct ClientOptions {
  FrameworkId framework;
  RoleName role;
  Duration failover_timeout{0};  // 0: the cluster's default
  bool watch_agents = false;
  bool manual_acks = true;  // false: every TaskUpdate is acknowledged once delivered
  std::size_t masters = 1;  // that its driver knows
};

class Client {
 public:
  explicit Client(ClientOptions options);
  ~Client();
  // Started, Received, PeerLost and TimerFired of its own timers (kind >= kClientTimers) are its events.
  void step(Time now, const Event& event, Actions& out, std::vector<SessionEvent>& up);
  void command(Time now, const SessionCommand& command, Actions& out, std::vector<SessionEvent>& up);

  // What LaunchTask does, for a driver that need not copy the specification. kLimit: too many wait to be sent; kGone: ended.
  Result<> launch(const AgentId& agent, const SliceId& slice, const TaskId& task, const TaskSpec& spec, Actions& out,
                  std::vector<SessionEvent>& up);

  static constexpr std::uint32_t kClientTimers = 0x4000'0000;
  [[nodiscard]] std::uint64_t make_slice_number();  // (incarnation << 24) + counter
  [[nodiscard]] GangId make_gang();
  [[nodiscard]] Sequence last_accept() const;  // of the latest AcceptOffers
  [[nodiscard]] bool ended() const;            // refused, or said goodbye: commands have no effect any more
  [[nodiscard]] bool connected() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bourse
