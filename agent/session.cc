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

bool AgentSession::admit(Time now, Actions& out, const Message& message, bool& newer) {
  newer = false;
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
  attempt_ = hellos_ = 0;
  cluster_ = welcome.cluster;
  heartbeat_ = welcome.heartbeat;
  peer_timeout_ = welcome.peer_timeout;
  out.disarm(timer_key(AgentTimer::kHello));
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
    out.disarm(timer_key(AgentTimer::kHeartbeat));
    out.arm(timer_key(AgentTimer::kHello), kRefusedRetry);
    return;
  }
  out.log(
      log_text(LogLevel::kInfo, "refused_by_master", {{"code", std::string(code_text(refused.code))}, {"reason", refused.reason}}));
  if (phase_ == Phase::kUp) {  // the master was restarted: it asks for a hello
    begin(now, out);
    return;
  }
  ++attempt_;
  phase_ = Phase::kBackOff;
  out.arm(timer_key(AgentTimer::kHello), back_off());
}

Duration AgentSession::back_off() const {
  Duration wait = kBackOffMin;
  for (std::uint32_t i = 1; i < attempt_ && wait < kBackOffMax; ++i) wait *= 2;
  wait = std::min(wait, kBackOffMax);
  // Jitter of up to a quarter, from what differs between agents and attempts (FNV-1a): no randomness in actors.
  std::uint64_t hash = 1469598103934665603ULL;
  auto mix = [&](std::uint64_t byte) { hash = (hash ^ (byte & 0xff)) * 1099511628211ULL; };
  for (const char c : agent_.str()) mix(static_cast<unsigned char>(c));
  for (unsigned i = 0; i < 8; ++i) mix(incarnation_.value >> (8 * i));
  mix(attempt_);
  return wait + Duration(static_cast<std::int64_t>(hash % static_cast<std::uint64_t>(wait.count() / 4 + 1)));
}

void AgentSession::lost(Time, Actions& out, const char* why) {
  if (phase_ == Phase::kIdle || phase_ == Phase::kBackOff) return;
  ++attempt_;
  // A master that stays away is told at the 1st, 2nd, 4th, 8th ... attempt.
  if ((attempt_ & (attempt_ - 1)) == 0)
    out.log(log_text(LogLevel::kInfo, "master_lost", {{"reason", why}, {"attempt", std::to_string(attempt_)}}));
  phase_ = Phase::kBackOff;
  hellos_ = 0;
  out.reconnect = true;
  out.disarm(timer_key(AgentTimer::kHeartbeat));
  out.arm(timer_key(AgentTimer::kHello), back_off());
}

void AgentSession::mute(Actions& out) {
  if (phase_ == Phase::kIdle) return;
  phase_ = Phase::kBackOff;
  hellos_ = 0;
  out.disarm(timer_key(AgentTimer::kHeartbeat));
  out.disarm(timer_key(AgentTimer::kHello));
}

AgentSession::Tick AgentSession::hello_due(Time now, Actions& out) {
  if (phase_ == Phase::kHello && hellos_ >= kHellosPerMaster) {
    lost(now, out, "no answer to hello");
    return Tick::kLost;
  }
  if (phase_ == Phase::kHello || phase_ == Phase::kBackOff) hello(now, out);
  return Tick::kNothing;
}

AgentSession::Tick AgentSession::heartbeat_due(Time now, Actions& out) {
  if (phase_ != Phase::kUp) return Tick::kNothing;
  if (peer_timeout_ > Duration(0) && now.mono - last_heard_ >= peer_timeout_) {
    lost(now, out, "silence");
    return Tick::kLost;
  }
  if (now.mono - last_sent_ >= heartbeat_) say(now, out, Heartbeat{now.wall});
  Duration next = last_sent_ + heartbeat_ - now.mono;
  if (peer_timeout_ > Duration(0)) next = std::min(next, last_heard_ + peer_timeout_ - now.mono);
  out.arm(timer_key(AgentTimer::kHeartbeat), std::max<Duration>(next, milliseconds(1)));
  return Tick::kNothing;
}

}  // namespace bourse
