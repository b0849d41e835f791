#include "common/core/hooks.h"
#include "common/world/log.h"
#include "frameworks/api/client_impl.h"

namespace bourse {

void Client::Impl::receive(Time now, const Message& message, Actions& out, Up& up) {
  if (const auto* no = std::get_if<Refused>(&message.body); no != nullptr && no->not_leading) {
    // Whatever its epoch: a follower may not have heard of the leadership that we have.
    if (phase != Phase::kHello && phase != Phase::kKnock && phase != Phase::kUp && phase != Phase::kLeaving) return;
    return leave(out, up, "this master does not lead: " + no->reason, search.elsewhere(*no));
  }
  if (message.epoch < epoch_seen) return;  // a deposed leader
  epoch_seen = message.epoch;
  last_heard = now.mono;
  if (phase == Phase::kLeaving && std::holds_alternative<Refused>(message.body)) {
    finish(Phase::kEnded, out);
    up.emplace_back(SessionDown{"goodbye"});
  }
  if (phase == Phase::kKnock && std::holds_alternative<Refused>(message.body)) return say_hello(out);  // it leads: it wants a hello
  if (phase != Phase::kHello && phase != Phase::kUp) return;
  if (const auto* yes = std::get_if<Welcome>(&message.body)) return welcome(now, message, *yes, out, up);
  if (const auto* no = std::get_if<Refused>(&message.body)) return refused(*no, out, up);
  if (phase != Phase::kUp) return;  // of the session before: what matters is told again after the Welcome
  if (message.epoch != session_epoch) {
    say_hello(out);  // another leader, where we have not said hello yet
    return;
  }
  std::visit([&](const auto& body) { on(now, body, out, up); }, message.body);
}

void Client::Impl::refused(const Refused& body, Actions& out, Up& up) {
  const bool stranger = body.reason.starts_with("say hello first");
  if (phase == Phase::kUp) {
    // Not known any more, or fenced: the answer to the next hello tells which.
    if (body.code == Code::kGone || body.code == Code::kDenied || body.code == Code::kVersion) {
      say_hello(out);
    } else {
      out.log(log_text(LogLevel::kWarn, "refused",
                       {{"code", std::string(code_text(body.code))}, {"reason", body.reason}, {"action", "ignoring"}}));
    }
    return;
  }
  if (stranger) return;  // an answer to what was sent before the hello
  switch (body.code) {
    case Code::kGone:
    case Code::kDenied:
    case Code::kVersion:
    case Code::kInvalid:
    case Code::kUnsupported:
      out.log(
          log_text(LogLevel::kError, "session_refused", {{"code", std::string(code_text(body.code))}, {"reason", body.reason}}));
      finish(Phase::kRefused, out);
      up.emplace_back(SessionRefused{body.code, body.reason});
      return;
    default:
      silent(out, up, body.reason);
  }
}

void Client::Impl::on(Time now, const Offers& body, Actions& out, Up& up) {
  for (const Offer& offer : body.offers)
    if (offers.made(offer, now.mono)) up.emplace_back(OfferMade{offer});
  arm_offers(now, out);
}

void Client::Impl::on(Time, const OffersEnded& body, Actions&, Up& up) {
  for (const auto& item : body.items)
    if (offers.ended(item.offer)) up.emplace_back(OfferEnded{item.offer, item.end});
}

void Client::Impl::on(Time, const AcceptReply& body, Actions& out, Up& up) {
  const auto accept = offers.answered(body.sequence);
  if (!accept) return;  // answered before
  std::string gang_failure;
  for (const auto& item : accept->items) {
    Code code = Code::kInvalid;
    std::string reason = "the master did not answer for this offer";
    for (const auto& answer : body.items)
      if (answer.offer == item.offer) code = answer.code, reason = answer.reason;
    up.emplace_back(AcceptAnswered{body.sequence, item.offer, code, reason});
    if (code != Code::kOk) offers.ended(item.offer);  // kept open for its rest
    for (const auto& slice : item.slices) {
      const SliceTable::Entry* entry = slices.find(slice.number);
      if (!entry || entry->stage == SliceTable::Stage::kUp) continue;  // it exists, whatever a late answer says
      if (code == Code::kOk) {
        slices.promised(slice.number);
        continue;
      }
      bool known = false;
      if (slices.gone(slice.number, known) == SliceTable::GangNews::kFailed && gang_failure.empty()) gang_failure = reason;
      refuse_waiting({options.framework, slice.number}, "its slice was refused: " + reason, up);
    }
  }
  if (!gang_failure.empty()) fail_gang(accept->gang, gang_failure, out, up);
}

void Client::Impl::on(Time, const SliceUp& body, Actions& out, Up& up) {
  if (body.spec.id.framework != options.framework) return;
  const std::uint64_t number = body.spec.id.number;
  const SliceTable::Entry* before = slices.find(number);
  const bool report = !before || before->stage == SliceTable::Stage::kUp;  // not the answer to an accept of this session
  const bool again = before && before->stage == SliceTable::Stage::kUp && before->confirmed;  // its agent has come back
  const SliceTable::GangNews news = slices.up(body.agent, body.spec);
  SliceTable::Entry& entry = *slices.find(number);
  if (entry.releasing) {  // given back already; the master may not have heard
    send(out, ReleaseSlices{{body.spec.id}, entry.grace});
    return;
  }
  // An agent that came to a new leader after us: what we asked at our Welcome had nowhere to go.
  if (report && reported.insert(body.agent).second) reconcile(body.agent, out);
  if (again && !hooks::mutant("client.kill_not_repeated")) {
    if (returned.empty()) out.arm({kReturnTimer, 0, {}}, kReturnGather);
    returned.insert(body.agent);
  }
  up.emplace_back(SliceReady{body.agent, body.spec, body.unhealthy});
  if (news == SliceTable::GangNews::kReady) {
    const GangId gang = entry.gang;
    const auto members = slices.drop_gang(gang);
    up.emplace_back(GangReady{gang});
    for (std::uint64_t member : members) send_waiting({options.framework, member}, out);
  } else if (!slices.gang_waits(entry.gang)) {
    send_waiting(body.spec.id, out);
  }
}

void Client::Impl::on(Time, const SliceGone& body, Actions& out, Up& up) {
  if (body.slice.framework != options.framework) return;
  const std::uint64_t number = body.slice.number;
  const SliceTable::Entry* entry = slices.find(number);
  if (!entry && slices.seen_gone(number)) return;  // told before
  const GangId gang = entry ? entry->gang : GangId{};
  bool known = false;
  const auto news = slices.gone(number, known);
  refuse_waiting(body.slice, body.reason.empty() ? "its slice is gone" : "its slice is gone: " + body.reason, up);
  up.emplace_back(SliceLost{body.agent, body.slice, body.end, body.reason});
  // The agent may have forgotten the tasks too, and will then say nothing of them unless asked.
  if (body.end == SliceEnd::kUnknown || body.end == SliceEnd::kHostReboot || body.end == SliceEnd::kAgentLost) {
    tasks.doubt(body.agent, body.slice);
    if (!tasks.on(body.agent).empty()) reconcile(body.agent, out);
  }
  if (news == SliceTable::GangNews::kFailed) fail_gang(gang, body.reason, out, up);
}

void Client::Impl::on(Time, const SliceRevoking& body, Actions&, Up& up) {
  if (body.slice.framework == options.framework) up.emplace_back(SliceRecalled{body.slice, body.grace, body.reason});
}

void Client::Impl::on(Time now, const StatusUpdate& body, Actions& out, Up& up) {
  if (body.framework != options.framework) return;
  const auto verdict = streams.seen(body.agent, body.stream, body.sequence, body.first);
  bool no_news = false;
  if (verdict == StatusStreams::Verdict::kDeliver && is_terminal(body.status.state)) {
    const TaskTable::Entry* entry = tasks.find(body.status.task);
    // An agent that has told us of a task and now does not know it (it names no slice) has had its end acknowledged: by the life
    // before this one, whose acknowledgement was on its way to the agent as this life was on its way to ask. That life had it
    // recorded.
    const bool forgotten = body.status.state == TaskState::kNeverStarted && body.slice.number == 0 && entry &&
                           entry->heard.value != 0 && entry->heard == body.stream;
    no_news = (forgotten || tasks.was_told(body.status.task)) && !hooks::mutant("client.end_told_twice");
  }
  if (no_news) {
    tasks.told(body.status.task);
    if (streams.skip(body.agent, body.stream, body.sequence)) want_acks(now, out);
    return;
  }
  if (verdict == StatusStreams::Verdict::kDeliver) {
    if (is_terminal(body.status.state)) {
      tasks.told(body.status.task);
    } else if (!tasks.was_told(body.status.task)) {
      TaskTable::Entry& entry = tasks.put(body.status.task, body.agent, body.slice);
      entry.confirmed = true;
      entry.heard = body.stream;
      if (auto it = patience.find(body.agent); it != patience.end()) patience.erase(it);
    }
    up.emplace_back(TaskUpdate{body.agent, body.stream, body.sequence, body.slice, body.status});
    if (!options.manual_acks) streams.acknowledge(body.agent, body.stream, body.sequence);
  }
  if (verdict == StatusStreams::Verdict::kGap) {
    out.log(log_text(LogLevel::kInfo, "status_gap",
                     {{"agent", body.agent.str()},
                      {"sequence", std::to_string(body.sequence.value)},
                      {"first", std::to_string(body.first.value)},
                      {"then", "waiting for the agent to send again"}}));
  }
  if (!streams.acks_waiting()) return;
  if (verdict == StatusStreams::Verdict::kDeliver)
    want_acks(now, out);
  else
    want_flush(out);
}

void Client::Impl::on(Time, const LaunchRefused& body, Actions&, Up& up) {
  const TaskTable::Entry* entry = tasks.find(body.task);
  if (!entry || entry->confirmed) return;  // an earlier copy of the launch got through
  never_started(body.agent, body.slice, body.task, body.reason, up);
}

void Client::Impl::on(Time, const AgentsUpdate& body, Actions& out, Up& up) {
  if (body.snapshot) {
    if (!agents_snapshot) agents_snapshot.emplace();
    if (agents_snapshot->size() + body.agents.size() > kAgentsMax) {
      out.log(
          log_text(LogLevel::kError, "agents_dropped", {{"reason", "more agents than the library keeps"}, {"action", "ignoring"}}));
      agents_snapshot.reset();
      return;
    }
    agents_snapshot->insert(agents_snapshot->end(), body.agents.begin(), body.agents.end());
    if (body.more) return;
    agents_version = body.version;
    up.emplace_back(AgentsChanged{true, std::move(*agents_snapshot)});
    agents_snapshot.reset();
    return;
  }
  if (agents_version && body.version <= *agents_version) return;
  if (!agents_version || body.version != agents_version->next()) {
    agents_version.reset();
    say_hello(out);  // a gap: the next Welcome starts with a snapshot
    return;
  }
  agents_version = body.version;
  up.emplace_back(AgentsChanged{false, body.agents});
}

void Client::Impl::on(Time, const ExplainReply& body, Actions&, Up& up) {
  if (explains.erase(body.tag) != 0) up.emplace_back(Explained{body});
}

// All or none: what the gang has elsewhere goes back, and what waited for it never starts.
void Client::Impl::fail_gang(GangId gang, const std::string& reason, Actions& out, Up& up) {
  std::vector<SliceId> give_back;
  for (std::uint64_t number : slices.drop_gang(gang)) {
    SliceTable::Entry& entry = *slices.find(number);
    refuse_waiting({options.framework, number}, "its gang failed: " + reason, up);
    if (entry.releasing) continue;
    entry.releasing = true;
    give_back.push_back({options.framework, number});
  }
  if (!give_back.empty()) send(out, ReleaseSlices{std::move(give_back), Duration{0}});
  up.emplace_back(GangFailed{gang, reason});
}

void Client::Impl::refuse_waiting(const SliceId& slice, const std::string& reason, Up& up) {
  for (const TaskId& task : tasks.waiting_in(slice)) never_started(tasks.find(task)->agent, slice, task, reason, up);
}

void Client::Impl::send_waiting(const SliceId& slice, Actions& out) {
  for (const TaskId& task : tasks.waiting_in(slice)) {
    std::string trace;
    Launch launch = tasks.sent(task, trace);
    TaskTable::Entry& entry = *tasks.find(task);
    entry.round = round;
    send(out, std::move(launch), std::move(trace));
    if (entry.kill) send(out, *entry.kill);
  }
}

void Client::Impl::never_started(const AgentId& agent, const SliceId& slice, const TaskId& task, std::string reason, Up& up) {
  TaskUpdate update{agent, {}, {}, slice, {}};
  update.status.task = task;
  update.status.state = TaskState::kNeverStarted;
  update.status.message = std::move(reason);
  tasks.told(task);
  up.emplace_back(std::move(update));
}

}  // namespace bourse
