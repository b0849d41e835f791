#include "common/core/hooks.h"
#include "common/wire/wire.h"
#include "common/world/log.h"
#include "frameworks/api/client_impl.h"

namespace bourse {

// Sent at the end of the turn, so that a framework may set it after each change. It accounts for the accepts made before it
// was set, not for those that leave in the same turn after it: those the master takes off. See "Demand accounting".
void Client::Impl::command(Time, const SetDemand& body, Actions& out, Up&) {
  demand.emplace();
  demand->version = Version((incarnation.value << 24) + ++demand_version);
  demand->last_accept = offers.last_accept();
  demand->wildcard = body.wildcard;
  demand->lines = body.lines;
  demand_dirty = true;
  want_flush(out);
}

void Client::Impl::command(Time, const AcceptOffers& body, Actions& out, Up& up) {
  if (offers.unanswered().size() >= kAcceptsMax) {
    for (const auto& item : body.accept.items)
      up.emplace_back(AcceptAnswered{{}, item.offer, Code::kLimit, "too many accepts wait for an answer"});
    return;
  }
  const Accept& accept = offers.accept(body.accept);
  for (const auto& item : accept.items)
    for (const auto& slice : item.slices) slices.asked(slice.number, accept.gang);
  if (phase == Phase::kUp) send(out, accept, body.trace);
}

void Client::Impl::command(Time, const DeclineOffers& body, Actions& out, Up&) {
  Decline decline;
  for (const auto& item : body.items)
    if (offers.ended(item.offer)) decline.items.push_back(item);
  // Not repeated: an offer whose decline is lost ends by its TTL.
  if (!decline.items.empty() && phase == Phase::kUp) send(out, std::move(decline));
}

void Client::Impl::command(Time, const LaunchTask& body, Actions& out, Up& up) {
  auto done = launch(body.agent, body.slice, body.task, body.spec, out, up);
  if (!done && !tasks.find(body.task)) never_started(body.agent, body.slice, body.task, done.error().text(), up);
}

bool Client::Impl::launch_must_wait(const SliceId& slice) const {
  if (phase != Phase::kUp) return true;
  const auto it = slices.all().find(slice.number);
  if (it == slices.all().end()) return last_heard - welcomed < kReportWait;  // perhaps about to be reported
  const SliceTable::Entry& entry = it->second;
  return slices.gang_waits(entry.gang) || (entry.stage == SliceTable::Stage::kUp && !entry.confirmed);
}

Result<> Client::Impl::launch(const AgentId& agent, const SliceId& slice, const TaskId& task, const TaskSpec& spec, Actions& out,
                              Up& up) {
  if (slices.seen_gone(slice.number) || (slices.find(slice.number) && slices.find(slice.number)->releasing)) {
    if (!tasks.find(task)) never_started(agent, slice, task, "its slice is gone", up);
    return {};
  }
  const TaskTable::Entry* known = tasks.find(task);
  // Asked about while its launch waited for a record: the agent has said that it will never start, and keeps its word.
  if (known == nullptr && tasks.was_told(task)) return {};
  if (known && (known->waiting || known->agent != agent)) return {};  // launched before
  const bool wait = launch_must_wait(slice);
  if (wait && tasks.waiting() >= TaskTable::kWaitingMax)
    return Error(Code::kLimit, "task " + task.value + ": " + std::to_string(TaskTable::kWaitingMax) + " launches wait to be sent");
  TaskTable::Entry& entry = tasks.put(task, agent, slice);
  entry.round = round;
  if (wait)
    tasks.wait(task, wire::encode_task(spec), spec.trace);
  else
    send(out, Launch{agent, slice, task, wire::encode_task(spec)}, spec.trace);
  return {};
}

void Client::Impl::command(Time, const KillTask& body, Actions& out, Up& up) {
  Kill kill = body.kill;
  kill.framework = options.framework;
  TaskTable::Entry* entry = tasks.find(kill.task);
  if (entry == nullptr && tasks.was_told(kill.task)) return;  // it has ended; this crossed the news
  if (entry && entry->waiting && kill.signal == 0) {
    never_started(entry->agent, SliceId(entry->slice), kill.task, "killed before it was sent", up);
    return;
  }
  const bool up_now = phase == Phase::kUp && !(entry && entry->waiting);
  // Ending is repeated until the end is known; a plain signal is sent once, since twice is not the same. So is taking back: what comes
  // of its loss is that the task has its turn.
  if (kill.unstarted_only) {
  } else if (kill.signal == 0) {
    tasks.put(kill.task, kill.agent, {}).kill = kill;
  } else if (!up_now) {
    out.log(log_text(LogLevel::kWarn, "signal_dropped",
                     {{"task", kill.task.value}, {"reason", "not connected"}, {"action", "ignoring"}}));
  }
  if (up_now) send(out, std::move(kill));
}

void Client::Impl::command(Time now, const AckStatus& body, Actions& out, Up&) {
  if (streams.acknowledge(body.agent, body.stream, body.through)) want_acks(now, out);
}

void Client::Impl::command(Time, const ReleaseSlice& body, Actions& out, Up& up) {
  if (slices.seen_gone(body.slice.number)) return;
  SliceTable::Entry& entry = slices.put(body.slice.number);
  entry.releasing = true;
  entry.grace = body.grace;
  refuse_waiting(body.slice, "its slice was given back", up);
  const GangId gang = entry.gang;
  if (phase == Phase::kUp) send(out, ReleaseSlices{{body.slice}, body.grace});
  if (slices.gang_waits(gang)) fail_gang(gang, "one of its slices was given back", out, up);
}

void Client::Impl::command(Time, const ReconcileTasks& body, Actions& out, Up&) {
  for (const TaskId& task : body.tasks)
    if (!tasks.find(task) && !tasks.was_told(task)) tasks.put(task, body.agent, {}).round = round;
  if (phase == Phase::kUp) reconcile(body.agent, out);
}

void Client::Impl::command(Time, const DeclareTasksLost& body, Actions& out, Up&) {
  std::vector<TaskId> open;
  for (const TaskId& task : body.tasks)
    if (tasks.find(task) || !tasks.was_told(task)) open.push_back(task);
  for (const TaskId& task : open) tasks.put(task, body.agent, {}).declared_lost = true;  // repeated until the end is told
  if (phase == Phase::kUp && !open.empty()) send(out, DeclareLost{body.agent, options.framework, std::move(open)});
}

void Client::Impl::command(Time, const Explain& body, Actions& out, Up& up) {
  if (explains.size() >= kExplainsMax) {
    Explained no;
    no.reply.tag = body.tag;
    no.reply.code = Code::kLimit;
    up.emplace_back(std::move(no));
    return;
  }
  explains[body.tag] = body.line;
  if (phase == Phase::kUp) send(out, ExplainQuery{body.tag, options.framework, body.line});
}

void Client::Impl::command(Time now, const EndSession& body, Actions& out, Up& up) {
  if (goodbye) return;
  goodbye = body.forever;
  if (phase == Phase::kUp) {
    flush(now, out);
    say_goodbye(out);
  } else if (!body.forever) {  // silence says the same. For ever must reach a master: nothing else would end the tasks
    finish(Phase::kEnded, out);
    up.emplace_back(SessionDown{"goodbye"});
  }
}

}  // namespace bourse
