#include "agent/session.h"

#include <algorithm>

#include "common/core/hooks.h"
#include "common/world/log.h"

namespace bourse {

void AgentSession::say(Time now, Actions& out, Body body, std::string trace) {
  if (phase_ != Phase::kHello && phase_ != Phase::kUp) return;
  last_sent_ = now.mono;
  out.send(kMasterPeer, Message{epoch_, incarnation_, std::move(trace), std::move(body)});
}

void AgentSession::hello(Time now, Actions& out) {
  phase_ = Phase::kHello;
  ++hellos_;
  say(now, out, make_hello_());
  out.arm(timer_key(AgentTimer::kHello), kHelloEvery);
}

void AgentSession::begin(Time now, Actions& out) {
  hellos_ = 0;
  if (phase_ == Phase::kUp) out.disarm(timer_key(AgentTimer::kHeartbeat));
  hello(now, out);
}

// To a master that did not lead a moment ago: cheaper than the hello. One that leads by now asks for that.
void AgentSession::knock(Time now, Actions& out) {
  phase_ = Phase::kKnock;
  ++hellos_;
  last_sent_ = now.mono;
  out.send(kMasterPeer, Message{epoch_, incarnation_, {}, Heartbeat{now.wall}});
  out.arm(timer_key(AgentTimer::kHello), kHelloEvery);
}

bool AgentSession::admit(Time now, Actions& out, const Message& message, bool& newer) {
  newer = false;
  if (const auto* no = std::get_if<Refused>(&message.body); no != nullptr && no->not_leading) {
    elsewhere(now, out, *no);  // whatever its epoch: a follower may not have heard of the leadership that we have
    return false;
  }
  if (message.epoch < epoch_ && !hooks::mutant("agent.ignores_epoch_order")) return false;
  last_heard_ = now.mono;
  if (message.epoch > epoch_) {
    epoch_ = message.epoch;
    newer = true;
    // A leader that has not had our hello knows nothing of us; what it says to others' state cannot be acted on.
    const bool greets = std::holds_alternative<Welcome>(message.body) || std::holds_alternative<Refused>(message.body);
    if (!greets && phase_ == Phase::kUp) {
      begin(now, out);
      return false;
    }
  }
  return true;
}

bool AgentSession::welcome(Time now, Actions& out, const Welcome& welcome) {
  if (phase_ == Phase::kIdle || phase_ == Phase::kBackOff) return false;  // late answer of a master that we have left
  const bool was_up = phase_ == Phase::kUp;
  phase_ = Phase::kUp;
  hellos_ = 0;
  search_.found();
  if (!welcome.masters.empty()) {
    search_.know(welcome.masters.size());
    out.masters = welcome.masters;
  }
  cluster_ = welcome.cluster;
  heartbeat_ = welcome.heartbeat;
  peer_timeout_ = welcome.peer_timeout;
  fence_ = welcome.fence > Duration(0) ? welcome.fence : peer_timeout_;
  out.disarm(timer_key(AgentTimer::kHello));
  out.disarm(timer_key(AgentTimer::kFence));
  fence_armed_ = false;
  if (heartbeat_ > Duration(0)) out.arm(timer_key(AgentTimer::kHeartbeat), heartbeat_);
  last_sent_ = now.mono;
  return !was_up;
}

void AgentSession::refused(Time now, Actions& out, const Refused& refused) {
  if (phase_ == Phase::kIdle || phase_ == Phase::kBackOff) return;
  if (refused.code == Code::kVersion || refused.code == Code::kDenied) {
    out.log(log_text(LogLevel::kError, "refused_by_master",
                     {{"code", std::string(code_text(refused.code))}, {"reason", refused.reason}, {"retry", "30s"}}));
    phase_ = Phase::kBackOff;
    knock_ = false;
    out.disarm(timer_key(AgentTimer::kHeartbeat));
    out.arm(timer_key(AgentTimer::kHello), kRefusedRetry);
    return;
  }
  out.log(
      log_text(LogLevel::kInfo, "refused_by_master", {{"code", std::string(code_text(refused.code))}, {"reason", refused.reason}}));
  if (phase_ == Phase::kUp || phase_ == Phase::kKnock) {  // the master was restarted, or leads by now: it asks for a hello
    begin(now, out);
    return;
  }
  phase_ = Phase::kBackOff;
  knock_ = false;
  out.arm(timer_key(AgentTimer::kHello), search_.busy());
}

// A search that takes long is told at the 1st, 2nd, 4th, 8th ... attempt.
static bool worth_a_line(std::uint32_t attempt) { return (attempt & (attempt - 1)) == 0; }

void AgentSession::wait_for(Time now, const MasterSearch::Next& next, Actions& out) {
  if (fence_ > Duration(0) && !fence_armed_)
    out.arm(timer_key(AgentTimer::kFence), std::max<Duration>(last_heard_ + fence_ - now.mono, Duration(0)));
  fence_armed_ = fence_ > Duration(0);
  phase_ = Phase::kBackOff;
  knock_ = next.knock;
  hellos_ = 0;
  if (next.reconnect) {
    out.reconnect = true;
    out.leader = next.leader;
  }
  out.disarm(timer_key(AgentTimer::kHeartbeat));
  out.arm(timer_key(AgentTimer::kHello), next.wait);
}

void AgentSession::elsewhere(Time now, Actions& out, const Refused& refused) {
  if (phase_ == Phase::kIdle || phase_ == Phase::kBackOff) return;
  MasterSearch::Next next = search_.elsewhere(refused);
  if (hooks::mutant("agent.ignores_named_leader")) next.leader.clear();
  if (worth_a_line(search_.attempt()))
    out.log(log_text(LogLevel::kInfo, "not_the_leader",
                     {{"reason", refused.reason},
                      {"leader", refused.leader.empty() ? "unknown" : refused.leader},
                      {"attempt", std::to_string(search_.attempt())}}));
  wait_for(now, next, out);
}

void AgentSession::lost(Time now, Actions& out, const char* why) {
  const MasterSearch::Next next = search_.silent();
  if (phase_ == Phase::kIdle ||
      phase_ == Phase::kBackOff) {  // whom we meant to ask cannot be reached: another, when the time comes
    out.reconnect = true;
    return;
  }
  if (worth_a_line(search_.attempt()))
    out.log(log_text(LogLevel::kInfo, "master_lost", {{"reason", why}, {"attempt", std::to_string(search_.attempt())}}));
  wait_for(now, next, out);
}

void AgentSession::mute(Actions& out) {
  if (phase_ == Phase::kIdle) return;
  phase_ = Phase::kBackOff;
  hellos_ = 0;
  out.disarm(timer_key(AgentTimer::kHeartbeat));
  out.disarm(timer_key(AgentTimer::kHello));
}

void AgentSession::hello_due(Time now, Actions& out) {
  const bool asked = phase_ == Phase::kHello || phase_ == Phase::kKnock;
  if (asked && hellos_ >= kHellosPerMaster && !hooks::mutant("agent.waits_for_silent_master"))
    return lost(now, out, "no answer to hello");
  if (phase_ == Phase::kKnock || (phase_ == Phase::kBackOff && knock_)) {
    knock(now, out);
  } else if (phase_ == Phase::kHello || phase_ == Phase::kBackOff) {
    hello(now, out);
  }
}

void AgentSession::heartbeat_due(Time now, Actions& out) {
  if (phase_ != Phase::kUp) return;
  if (peer_timeout_ > Duration(0) && now.mono - last_heard_ >= peer_timeout_) {
    lost(now, out, "silence");
    return;
  }
  Counters figures;
  if (make_figures_ && now.mono - last_figures_ >= heartbeat_) figures = make_figures_();
  if (!figures.empty()) last_figures_ = now.mono;
  // Also when it says much else: what its clock says.
  if (now.mono - last_sent_ >= heartbeat_ || !figures.empty() || now.mono - last_wall_ >= kWallEvery * heartbeat_) {
    last_wall_ = now.mono;
    say(now, out, Heartbeat{now.wall, false, std::move(figures)});
  }
  Duration next = last_sent_ + heartbeat_ - now.mono;
  if (peer_timeout_ > Duration(0)) next = std::min(next, last_heard_ + peer_timeout_ - now.mono);
  out.arm(timer_key(AgentTimer::kHeartbeat), std::max<Duration>(next, milliseconds(1)));
}

}  // namespace bourse
