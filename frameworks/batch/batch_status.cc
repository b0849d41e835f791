// How jobs go on and end: statuses, results, slices given free, new attempts.
#include <algorithm>
#include <charconv>

#include "common/core/hooks.h"
#include "common/world/log.h"
#include "frameworks/batch/batch.h"
#include "frameworks/batch/ending.h"

namespace bourse::batch {
namespace {

constexpr Duration kClockStep = seconds(1);  // what clocks of two hosts, or a disciplined one, may differ by; more was set by hand

struct TaskName {
  JobId job;
  std::uint64_t index = 0;
  std::uint32_t attempt = 0;
  bool step = false;
};

// "12.0.1", "12.7.2"; with ".sN" a step of it.
std::optional<TaskName> parse_task(const std::string& text) {
  TaskName out;
  std::uint64_t part[3] = {};
  const char* at = text.data();
  const char* end = at + text.size();
  for (int i = 0; i < 3; ++i) {
    auto [next, error] = std::from_chars(at, end, part[i]);
    if (error != std::errc()) return std::nullopt;
    at = next;
    if (i < 2 && (at == end || *at++ != '.')) return std::nullopt;
  }
  out.step = at != end;
  out.job = JobId(part[0]), out.index = part[1], out.attempt = static_cast<std::uint32_t>(part[2]);
  return out;
}

}  // namespace

// --- statuses ------------------------------------------------------------------------------------------------------

void Batch::update(const TaskUpdate& e) {
  if (e.sequence.value != 0) {
    StreamMark& mark = streams_[{e.agent, e.stream}];
    mark.seen = std::max(mark.seen, e.sequence);
    mark.dirty = true;
    if (hooks::mutant("batch.ack_before_durable")) out_->session.push_back(AckStatus{e.agent, e.stream, e.sequence});
    flush_later();
  }
  const TaskStatus& status = e.status;
  if (status.task.str().starts_with("recover.")) {
    std::uint64_t round = 0;
    const std::string prefix = "recover." + std::to_string(incarnation_.value) + ".";
    if (status.task.str().starts_with(prefix)) {
      for (char c : status.task.str().substr(prefix.size())) {
        if (c < '0' || c > '9') break;  // the agent's number follows
        round = round * 10 + static_cast<std::uint64_t>(c - '0');
      }
      agent_answered(e.agent, static_cast<std::uint32_t>(std::min<std::uint64_t>(round, 9)));
    }
    return;
  }
  const auto name = parse_task(status.task.str());
  if (!name) return;
  if (name->step) return step_update(e);
  Job* job = jobs_.find(name->job);
  auto old_run = [&] {  // of another attempt, or of a job that is no more: nothing of it may go on
    if (is_terminal(status.state)) return;
    Kill kill;
    kill.agent = e.agent, kill.task = status.task;
    out_->session.push_back(KillTask{kill});
  };
  if (job == nullptr || job->ending) return old_run();
  std::uint64_t rank = 0;
  if (job->array) {
    const auto found = job->array->rank(name->index);
    if (!found || job->array->ended().contains(*found)) return old_run();
    rank = *found;
  }
  if (name->attempt != attempt_of(*job, rank)) return old_run();
  auto it = runs_.find(job->number(rank));
  if (it == runs_.end()) {
    // Launched by an earlier life, and its hint was lost. Or it waits for a record of its next attempt.
    if (status.state == TaskState::kNeverStarted) return;
    if (job->array ? !job->array->is_waiting(rank) : job->state != JobState::kPending) return;
    Run& run = note_run(*job, rank, name->attempt, true);
    run.agents = {e.agent};
    run.state = JobState::kRunning;
    if (Slice* slice = alloc_.find(e.slice)) {
      Slice same;
      same.id = slice->id;
      same.kind = {layouts_.at(run.layout).key, job->spec->uid};
      same.apart = job->spec->reservation != nullptr;
      find_slice(run, job->number(rank), std::move(same));
    } else {
      run.slices = {e.slice};
    }
    it = runs_.find(job->number(rank));
    qualify(*job);
  }
  Run& run = it->second;
  if (run.recovered) {
    run.recovered = false;
    // Who follows is counted when it has its turn.
    if (!run.follows) {
      std::vector<Planner::Holding> holdings;
      for (const SliceId& id : run.slices)
        if (const Slice* slice = alloc_.find(id); slice != nullptr && !slice->apart)
          holdings.push_back({alloc_.node(slice->agent), slice->amount});
      alloc_.planner().start(it->first, run.end_at, std::move(holdings));
      order_.started(it->first, *job, run.launched_wall);
    }
  }
  if (status.state == TaskState::kRunning || status.state == TaskState::kStaging) {
    if (status.state == TaskState::kRunning) {
      const bool heard = run.started.count() > 0;
      run.started = status.started.count() > 0 ? status.started : now_.wall;
      if (run.started_mono.count() == 0)  // of an earlier life: as long ago as the wall clock says
        run.started_mono =
            now_.mono - (run.launched_mono == kNoLimit ? std::max(now_.wall - run.started, Duration{0}) : Duration{0});
      const bool news = run.state != JobState::kRunning && run.state != JobState::kCompleting;
      if (news) run.state = JobState::kRunning;
      if (trace_) trace_way(run, run.started, {});
      if (news) changed(run_info(*job, run, false), job->id, false);
      if (job->spec->mail != 0 && !heard) {
        if (run.launched_mono != kNoLimit) mail_begin(*job, run);
        mail_parts(*job, it->first, run);
      }
      if (waiters_.contains(job->id)) target_changed(job->id);
    }
    return;
  }
  finish(run, status);
}

void Batch::free_slices(Run& run) {
  const std::uint64_t number = jobs_.find(run.job)->number(run.rank);
  refuse_waiting_steps(number);
  for (const SliceId& id : run.slices) {
    Slice* slice = alloc_.find(id);
    if (slice == nullptr || slice->run == 0) continue;
    if (slice->run != number) {
      alloc_.unfollow(*slice, number);
      continue;
    }
    if (!slice->ahead.empty() && !slice->releasing) {
      let_follow(*slice);
      continue;
    }
    alloc_.vacate(*slice, now_.mono);
    // A step may still be ending in it; and a slice of an earlier life whose size never came is of no use.
    const bool once = options_.slice_idle == Duration{0} || slice->unhealthy || slice->recalled;  // or batch.slice_reuse = false
    if (once || run.steps > 0 || slice->amount.cpus.value == 0) release(*slice, Duration{0});
  }
  if (run.gang.value != 0) gangs_.erase(run.gang);
  dirty_ = true;
}

void Batch::release(Slice& slice, Duration grace) {
  if (slice.releasing) return;
  alloc_.release(slice);
  out_->session.push_back(ReleaseSlice{slice.id, grace});
}

void Batch::bump(Job& job, std::uint64_t rank, bool ran) {
  const std::uint32_t attempt = attempt_of(job, rank) + (hooks::mutant("batch.requeue_same_attempt") ? 0 : 1);
  const std::uint32_t restarts = restarts_of(job, rank) + (ran ? 1 : 0);
  const bool hold = attempt > options_.attempts_max;
  if (!job.array) {
    job.attempt = attempt, job.restarts = restarts;
    job.doubt = false;
  } else {
    if (!job.retries) job.retries = std::make_unique<std::map<std::uint64_t, ArrayRetry>>();
    (*job.retries)[rank] = {attempt, restarts};
  }
  if (hold) job.held_admin = true;
  // The first few at once, then slower: an agent that refuses everything must not be a busy loop.
  if (attempt > 4) job.not_before = now_.mono + seconds(1) * std::min<std::int64_t>(attempt, 30);
  gathered_.records.push_back(encode(Record(AttemptRecord{job.id, rank, attempt, restarts, hold})));
  gathered_.attempts.emplace_back(job.id, rank);
  flush_soon();
}

void Batch::requeue(Run& run, bool ran, const std::string& why) {
  Job& job = *jobs_.find(run.job);
  const std::uint64_t rank = run.rank, number = job.number(rank);
  if (run.cancelled) {
    TaskStatus status;
    status.task = run.task, status.state = TaskState::kKilled, status.ended = now_.wall;
    return finish(run, status);
  }
  out_->log(log_text(LogLevel::kInfo, "requeued", {{"task", run.task.str()}, {"reason", why}}));
  if (trace_) trace_requeue(job, run, why);
  if (ran && mails(job, MailOn::kRequeue)) mail(job, MailOn::kRequeue, run_info(job, run, true), why);
  alloc_.planner().finish(number);
  order_.ended(number, now_.wall);
  free_slices(run);
  runs_.erase(number);
  if (troubles_.size() < kTroublesMax || troubles_.contains(job.id)) troubles_[job.id] = why;
  demand_soon(true);                                   // the master has taken it off with what was accepted for it
  if (!job.array) job.state = JobState::kConfiguring;  // until its new attempt is on record
  bump(job, rank, ran);
}

// The agent's two wall times say it best, unless the clock was set in between: then what has passed here since the launch.
Duration Batch::ran_for(const Run& run, Duration started, Duration ended) const {
  const Duration by_wall = started.count() > 0 ? ended - started : Duration{0};
  const Duration passed = now_.mono - run.launched_mono;
  const Duration step = (now_.wall - run.launched_wall) - passed;
  if (run.launched_mono == kNoLimit) return std::max(by_wall, Duration{0});  // of an earlier life
  return step < -kClockStep || step > kClockStep ? passed : std::clamp(by_wall, Duration{0}, passed + kClockStep);
}

void Batch::finish(Run& run, const TaskStatus& status) {
  Job& job = *jobs_.find(run.job);
  const std::uint64_t number = job.number(run.rank);
  if (status.state == TaskState::kNeverStarted)
    return requeue(run, false, status.message.empty() ? "it had not started" : status.message);
  // Its slice was taken from under it while it waited there.
  const bool unheard =
      run.in_turn && run.started.count() == 0 && status.started.count() == 0 && !run.cancelled && !run.requeue_asked;
  if (unheard && (status.state == TaskState::kKilled || status.state == TaskState::kPreempted))
    return requeue(run, false, "its slice was taken back before its turn");
  const bool lost = status.state == TaskState::kLost || run.node_failed, preempted = status.state == TaskState::kPreempted;
  const bool again = job.spec->requeue && run.restarts < options_.requeue_max;
  if (lost && again) return requeue(run, true, status.message.empty() ? "its node failed" : status.message);
  if (run.requeue_asked && status.state == TaskState::kKilled) return requeue(run, true, "asked for");
  if (preempted && again)
    return requeue(run, true,
                   run.recalled.empty() && status.message.empty()
                       ? "preempted"
                       : "preempted: " + (run.recalled.empty() ? status.message : run.recalled));

  JobInfo info = run_info(job, run, true);
  info.started = status.started.count() > 0 ? status.started : run.started;
  info.ended = status.ended.count() > 0 ? status.ended : now_.wall;
  info.elapsed = ran_for(run, info.started, info.ended);
  info.cpu = status.cpu, info.mem_peak = status.mem_peak;
  info.exit_code = status.exit_code, info.exit_signal = status.signal;
  info.reason_text = status.message;
  auto set = [&](JobState state, Reason reason) { info.state = state, info.reason = reason; };
  switch (status.state) {
    case TaskState::kExited:
      if (status.exit_code == 0)
        set(JobState::kCompleted, Reason::kNone);
      else
        set(JobState::kFailed, Reason::kNonZeroExit);
      break;
    case TaskState::kSignaled:
      set(JobState::kFailed, Reason::kRaisedSignal);
      break;
    case TaskState::kFailedStart:
      set(JobState::kFailed, Reason::kLaunchFailed);
      info.exit_code = 0, info.exit_signal = 53;  // what Slurm's users know for it
      break;
    case TaskState::kKilled:
      set(JobState::kCancelled, Reason::kCancelled);
      if (run.outstayed && !run.cancelled) {
        set(JobState::kTimeout, Reason::kTimeLimit);
        info.reason_text = "reservation " + layouts_.at(run.layout).reservation + " has ended";
      }
      break;
    case TaskState::kTimeLimit:
      set(JobState::kTimeout, Reason::kTimeLimit);
      if (info.exit_signal == 0 && info.exit_code == 0) info.exit_signal = 15;
      break;
    case TaskState::kOutOfMemory:
      set(JobState::kOutOfMemory, Reason::kOutOfMemory);
      break;
    case TaskState::kPreempted:
      set(JobState::kPreempted, Reason::kNone);
      if (info.reason_text.empty()) info.reason_text = run.recalled;
      break;
    case TaskState::kLost:
      set(JobState::kNodeFail, Reason::kNodeFail);
      break;
    default:
      set(JobState::kFailed, Reason::kUnknownExit);
      break;
  }
  if ((lost || preempted) && job.spec->requeue && run.restarts > 0)
    info.reason_text += (info.reason_text.empty() ? "" : "; ") + std::string("it had been queued again ") +
                        std::to_string(run.restarts) + " times already (batch.requeue_max)";
  if (run.node_failed && info.state == JobState::kCancelled) set(JobState::kNodeFail, Reason::kNodeFail);
  if (run.cancelled && info.state == JobState::kCancelled && !run.cancel_reason.empty()) info.reason_text = run.cancel_reason;

  if (info.started.count() > 0 && !run.slices.empty())
    if (const Slice* slice = alloc_.find(run.slices.front()); slice != nullptr && slice->run == number)
      note_pace(slice->kind, info.elapsed);

  Ended note;
  note.job = job.id, note.first = note.last = run.rank;
  note.ok = info.state == JobState::kCompleted;
  if (trace_) trace_over(job, run, info.started, info.ended, note.ok ? "" : how_it_ended(info).front());
  alloc_.planner().finish(number);
  order_.ended(number, now_.wall);
  free_slices(run);
  if (job.array)
    job.array->ended(run.rank, run.rank, note.ok);
  else
    job.state = JobState::kCompleting;
  note.whole = !job.array || job.array->finished();
  if (note.whole) job.ending = true;
  note.info = std::move(info);
  runs_.erase(number);
  gathered_.ends.push_back(std::move(note));
  flush_later();
  qualify(job);
}

void Batch::ended(Ended note) {
  Job* job = jobs_.find(note.job);
  ended_ += note.last - note.first + 1;
  if (job == nullptr) return;
  if (trace_) trace_ended(*job, note);
  mail_end(*job, note);
  outcomes_.note(job->number(note.first), job->number(note.last), note.ok);
  if (note.whole && job->array) {
    target_changed(note.job);  // while its tasks can still be told apart
    outcomes_.note(job->id.value, job->id.value, job->array->all_ok());
  }
  if (note.whole) erase_job(note.job);
  changed(note.info, note.job, note.whole);
  target_changed(note.job);
  if (note.whole) waiters_.erase(note.job);
}

}  // namespace bourse::batch
