#include "frameworks/api/client.h"

#include <algorithm>
#include <utility>

#include "common/core/hooks.h"
#include "common/world/log.h"
#include "frameworks/api/client_impl.h"

namespace bourse {

Message Client::Impl::make(Body body, std::string trace) const {
  return {epoch_seen, incarnation, std::move(trace), std::move(body)};
}

void Client::Impl::send(Actions& out, Body body, std::string trace) {
  sent_since_tick = true;
  out.send(kMasterPeer, make(std::move(body), std::move(trace)));
}

void Client::Impl::say_hello(Actions& out) {
  phase = Phase::kHello;
  ++hellos;
  FrameworkHello hello;
  hello.framework = options.framework;
  hello.role = options.role;
  hello.incarnation = incarnation;
  hello.failover_timeout = options.failover_timeout;
  hello.watch_agents = options.watch_agents;
  // Not those of unanswered accepts: the accept is repeated, and until then the master need not know them.
  for (const auto& [number, entry] : slices.all())
    if (entry.stage != SliceTable::Stage::kAsked) hello.slices.push_back({options.framework, number});
  send(out, std::move(hello));
  out.arm({kHelloTimer, 0, {}}, kHelloEvery);
}

// To a master that did not lead a moment ago: cheaper than the hello. One that leads by now asks for that.
void Client::Impl::knock(Time now, Actions& out) {
  phase = Phase::kKnock;
  ++hellos;
  send(out, Heartbeat{now.wall});
  out.arm({kHelloTimer, 0, {}}, kHelloEvery);
}

void Client::Impl::leave(Actions& out, Up& up, const std::string& reason, const MasterSearch::Next& next) {
  if (announced) {
    announced = false;
    up.emplace_back(SessionDown{reason});
    out.log(log_text(LogLevel::kWarn, "session_lost", {{"reason", reason}, {"action", "retrying"}}));
  }
  slices.session_lost();
  tasks.session_lost();
  phase = Phase::kWait;
  hellos = 0;
  knock_next = next.knock;
  if (next.reconnect) {
    out.reconnect = true;
    out.leader = next.leader;
  }
  out.disarm({kHeartbeatTimer, 0, {}});
  out.disarm({kSilenceTimer, 0, {}});
  out.disarm({kRepeatTimer, 0, {}});
  out.arm({kHelloTimer, 0, {}}, next.wait);
}

void Client::Impl::finish(Phase final_phase, Actions& out) {
  phase = final_phase;
  announced = false;
  for (std::uint32_t kind :
       {kHelloTimer, kHeartbeatTimer, kSilenceTimer, kOfferTimer, kFlushTimer, kRepeatTimer, kAckTimer, kReturnTimer})
    out.disarm({kind, 0, {}});
}

// A goodbye has no answer of its own. Whatever follows it is refused as a stranger's, so a heartbeat behind it brings the proof.
void Client::Impl::say_goodbye(Actions& out) {
  if (phase != Phase::kLeaving) hellos = 0;
  phase = Phase::kLeaving;
  ++hellos;
  send(out, Goodbye{*goodbye});
  send(out, Heartbeat{});
  out.disarm({kSilenceTimer, 0, {}});
  out.arm({kHelloTimer, 0, {}}, kHelloEvery);
}

void Client::Impl::timer(Time now, const TimerKey& key, Actions& out, Up& up) {
  switch (static_cast<Timer>(key.kind)) {
    case kHelloTimer:
      if (phase == Phase::kWait) {
        if (knock_next)
          knock(now, out);
        else
          say_hello(out);
      } else if (phase == Phase::kHello || phase == Phase::kKnock) {
        if (hellos >= kHellosPerMaster)
          silent(out, up, "no answer to hello");
        else if (phase == Phase::kKnock)
          knock(now, out);
        else
          say_hello(out);
      } else if (phase == Phase::kLeaving) {
        if (hellos < kGoodbyesMax) {
          say_goodbye(out);
        } else {
          finish(Phase::kEnded, out);
          up.emplace_back(SessionDown{"goodbye, which the master may not have heard"});
        }
      }
      break;
    case kHeartbeatTimer:
      if (phase != Phase::kUp) break;
      // Also when it says much else: what its clock says.
      if (!sent_since_tick || ++ticks_without_wall >= kWallEvery) {
        ticks_without_wall = 0;
        send(out, Heartbeat{now.wall});
      }
      sent_since_tick = false;
      out.arm({kHeartbeatTimer, 0, {}}, heartbeat / 2);
      break;
    case kSilenceTimer: {
      if (phase != Phase::kUp) break;
      const Duration quiet = now.mono - last_heard;
      if (quiet >= peer_timeout)
        silent(out, up, "the master has been silent for " + format_duration(quiet));
      else
        out.arm({kSilenceTimer, 0, {}}, peer_timeout - quiet);
      break;
    }
    case kOfferTimer:
      offers_armed.reset();
      for (OfferId id : offers.expired(now.mono)) up.emplace_back(OfferEnded{id, OfferEnd::kExpired});
      arm_offers(now, out);
      break;
    case kAckTimer:
      acks_armed = false;
      if (phase == Phase::kUp) flush(now, out);
      break;
    case kFlushTimer:
      flush_armed = false;
      if (phase == Phase::kUp) flush(now, out);
      break;
    case kReturnTimer: {
      const std::set<AgentId> agents = std::exchange(returned, {});
      if (phase != Phase::kUp || agents.empty()) break;
      repeat_orders(out, &agents);
      for (const AgentId& agent : agents) reconcile(agent, out);  // launches that were lost, among others
      break;
    }
    case kRepeatTimer:
      if (phase != Phase::kUp) break;
      for (const auto& [sequence, accept] : offers.unanswered()) send(out, accept);
      reconcile_round(out);
      // Whatever waits for a slice that was not reported by now: the master decides.
      for (const SliceId& slice : tasks.waiting_slices()) {
        const SliceTable::Entry* entry = slices.find(slice.number);
        if (!entry || !slices.gang_waits(entry->gang)) send_waiting(slice, out);
      }
      out.arm({kRepeatTimer, 0, {}}, kRepeatEvery);
      break;
  }
}

void Client::Impl::welcome(Time now, const Message& message, const Welcome& body, Actions& out, Up& up) {
  const bool new_leader = message.epoch != session_epoch;
  if (new_leader && session_epoch.value != 0)
    for (OfferId id : offers.take_all()) up.emplace_back(OfferEnded{id, OfferEnd::kRescinded});
  session_epoch = message.epoch;
  phase = Phase::kUp;
  hellos = 0;
  search.found();
  if (!body.masters.empty()) {
    search.know(body.masters.size());
    out.masters = body.masters;
  }
  welcomed = now.mono;
  if (body.heartbeat > Duration{0}) heartbeat = body.heartbeat;
  if (body.peer_timeout > Duration{0}) peer_timeout = body.peer_timeout;
  out.disarm({kHelloTimer, 0, {}});
  out.arm({kHeartbeatTimer, 0, {}}, heartbeat / 2);
  out.arm({kSilenceTimer, 0, {}}, peer_timeout);
  out.arm({kRepeatTimer, 0, {}}, kRepeatEvery);
  agents_version.reset();
  agents_snapshot.reset();
  if (!announced || new_leader) {
    announced = true;
    up.emplace_back(SessionUp{message.epoch, body.cluster});
    out.log(log_text(LogLevel::kInfo, "session_up", {{"cluster", body.cluster}, {"epoch", std::to_string(message.epoch.value)}}));
  }
  resync(now, out);
}

// Everything that a master, the same or another, may not have got. All of it is harmless to say twice.
void Client::Impl::resync(Time now, Actions& out) {
  if (!hooks::mutant("client.accept_not_repeated"))
    for (const auto& [sequence, accept] : offers.unanswered()) send(out, accept);
  std::map<Duration, std::vector<SliceId>> releases;
  std::set<AgentId> agents = tasks.agents();
  for (const auto& [number, entry] : slices.all()) {
    if (entry.releasing) releases[entry.grace].push_back({options.framework, number});
    if (!entry.agent.empty()) agents.insert(entry.agent);
  }
  for (auto& [grace, list] : releases) send(out, ReleaseSlices{std::move(list), grace});
  streams.repeat_all();
  demand_dirty = demand.has_value();
  flush(now, out);
  for (const SliceId& slice : tasks.waiting_slices()) {  // behind its accept, or else once the slice is reported
    const SliceTable::Entry* entry = slices.find(slice.number);
    if (entry && entry->stage == SliceTable::Stage::kAsked && !slices.gang_waits(entry->gang)) send_waiting(slice, out);
  }
  repeat_orders(out, nullptr);
  returned.clear();
  reported.clear();
  patience.clear();
  tasks.session_lost();  // also where the session was never left: a new leader may not know the agents yet that are asked here
  for (const AgentId& agent : agents) reconcile(agent, out);
  for (const auto& [tag, line] : explains) send(out, ExplainQuery{tag, options.framework, line});
  if (goodbye) say_goodbye(out);
}

void Client::Impl::repeat_orders(Actions& out, const std::set<AgentId>* only) {
  std::map<AgentId, std::vector<TaskId>> lost;
  for (const auto& [task, entry] : tasks.all()) {
    if (only != nullptr && !only->contains(entry.agent)) continue;
    if (entry.declared_lost) lost[entry.agent].push_back(task);
    if (entry.kill && !entry.waiting) send(out, *entry.kill);
  }
  for (auto& [agent, list] : lost) send(out, DeclareLost{agent, options.framework, std::move(list)});
}

void Client::Impl::flush(Time now, Actions& out) {
  if (demand_dirty && demand) {
    demand_dirty = false;
    Demand said = *demand;
    if (hooks::mutant("client.demand_double_counts")) said.last_accept = offers.last_accept();
    send(out, std::move(said));
  }
  if (streams.acks_waiting()) acks_said = now.mono;
  unsaid_acks = 0;
  for (auto& ack : streams.take_acks()) send(out, StatusAck{std::move(ack.agent), options.framework, ack.stream, ack.through});
}

void Client::Impl::want_flush(Actions& out) {
  if (flush_armed || phase != Phase::kUp) return;
  flush_armed = true;
  out.arm({kFlushTimer, 0, {}}, Duration{0});
}

void Client::Impl::want_acks(Time now, Actions& out) {
  if (++unsaid_acks >= kAckStatusesMax || now.mono >= acks_said + kAckGather) return want_flush(out);
  if (acks_armed || phase != Phase::kUp) return;
  acks_armed = true;
  out.arm({kAckTimer, 0, {}}, acks_said + kAckGather - now.mono);
}

void Client::Impl::arm_offers(Time now, Actions& out) {
  const auto next = offers.next_expiry();
  // A timer that comes early for nothing is cheaper than one moved with each offer.
  if (!next || (offers_armed && *offers_armed <= *next)) return;
  offers_armed = next;
  out.arm({kOfferTimer, 0, {}}, std::max(*next - now.mono, Duration{0}));
}

void Client::Impl::reconcile(const AgentId& agent, Actions& out) {
  send(out, Reconcile{agent, options.framework, tasks.on(agent)});
}

// Tasks that nobody has told us of for a whole round: a launch or an answer was lost, or the agent is away. Asked again,
// and less often the longer it is silent.
void Client::Impl::reconcile_round(Actions& out) {
  for (const AgentId& agent : tasks.unconfirmed_agents(round)) {
    Patience& p = patience[agent];
    if (round < p.next_round) continue;
    p.next_round = round + p.step;
    p.step = std::min<std::uint64_t>(p.step * 2, 32);
    reconcile(agent, out);
  }
  ++round;
}

// --- Client ----------------------------------------------------------------------------------------------------------

Client::Client(ClientOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Client::~Client() = default;

void Client::step(Time now, const Event& event, Actions& out, std::vector<SessionEvent>& up) {
  Impl& im = *impl_;
  if (ended()) return;
  if (const auto* received = std::get_if<Received>(&event)) {
    im.receive(now, received->message, out, up);
  } else if (const auto* fired = std::get_if<TimerFired>(&event)) {
    if (fired->key.kind >= kClientTimers) im.timer(now, fired->key, out, up);
  } else if (const auto* started = std::get_if<Started>(&event)) {
    if (im.phase != Impl::Phase::kNew) return;
    im.incarnation = started->incarnation;
    im.search.start(im.incarnation);
    im.say_hello(out);
  } else if (std::holds_alternative<PeerLost>(event)) {
    if (im.phase == Impl::Phase::kUp || im.phase == Impl::Phase::kHello || im.phase == Impl::Phase::kKnock) {
      im.silent(out, up, "connection lost");
    } else if (im.phase == Impl::Phase::kWait || im.phase == Impl::Phase::kLeaving) {
      out.reconnect = true;  // whom we were about to ask cannot be reached: when the time comes, another is asked
    }
  }
}

void Client::command(Time now, const SessionCommand& command, Actions& out, std::vector<SessionEvent>& up) {
  if (ended()) return;
  std::visit([&](const auto& body) { impl_->command(now, body, out, up); }, command);
}

Result<> Client::launch(const AgentId& agent, const SliceId& slice, const TaskId& task, const TaskSpec& spec, Actions& out,
                        std::vector<SessionEvent>& up) {
  if (ended()) return Error(Code::kGone, "the session has ended");
  return impl_->launch(agent, slice, task, spec, out, up);
}

std::uint64_t Client::make_slice_number() { return (impl_->incarnation.value << 24) + ++impl_->numbers; }
GangId Client::make_gang() { return GangId((impl_->incarnation.value << 24) + ++impl_->gangs); }
Sequence Client::last_accept() const { return impl_->offers.last_accept(); }
bool Client::ended() const { return impl_->phase == Impl::Phase::kRefused || impl_->phase == Impl::Phase::kEnded; }
bool Client::connected() const { return impl_->phase == Impl::Phase::kUp; }

}  // namespace bourse
