#include "agent/tasks.h"

#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <optional>

#include "agent/tracer.h"
#include "common/core/hooks.h"
#include "common/wire/wire.h"
#include "common/world/log.h"

namespace bourse {

namespace {

// What an adapter reads and writes by itself is locked memory. A job's own limit comes from whoever submitted it and knows nothing of
// that; it is only ever raised.
void raise_memory_lock(TaskSpec& spec, std::uint64_t bytes) {
  if (bytes == 0) return;
  for (const Rlimit& limit : spec.rlimits)
    if (limit.resource == RLIMIT_MEMLOCK && limit.soft >= bytes) return;
  std::erase_if(spec.rlimits, [](const Rlimit& limit) { return limit.resource == RLIMIT_MEMLOCK; });
  spec.rlimits.push_back({RLIMIT_MEMLOCK, bytes, bytes});
}

constexpr const char* kLeaseOver = "the leader was not heard for the lease";

}  // namespace

TaskTable::Task* TaskTable::find(const TaskKey& key) {
  const auto it = tasks_.find(key);
  return it == tasks_.end() ? nullptr : &it->second;
}

TaskTable::Task& TaskTable::insert(const TaskKey& key, const SliceId& slice) {
  Task& task = tasks_[key];
  if (task.handle == 0) {
    task.key = key;
    task.slice = slice;
    task.handle = next_handle_++;
    handles_[task.handle] = key;
    by_slice_[slice].active.insert(key.task);
  }
  return task;
}

void TaskTable::erase(const TaskKey& key) {
  const auto it = tasks_.find(key);
  if (it == tasks_.end()) return;
  if (const auto in = by_slice_.find(it->second.slice); in != by_slice_.end()) {
    in->second.active.erase(key.task);
    in->second.unacked.erase(key.task);
    if (in->second.active.empty() && in->second.unacked.empty() && in->second.remembered.empty()) by_slice_.erase(in);
  }
  handles_.erase(it->second.handle);
  tasks_.erase(it);
}

TaskStatus TaskTable::status_of(const Task& task, TaskState state) const {
  TaskStatus status;
  status.task = task.key.task;
  status.state = state;
  status.started = task.started_wall;
  return status;
}

// --- from frameworks ---------------------------------------------------------------------------------------------------

void TaskTable::launch(Turn& turn, const Launch& message) {
  const TaskKey key{message.slice.framework, message.task};
  if (Task* known = find(key); known != nullptr) {
    if (!hooks::mutant("agent.starts_known_task_again")) {
      report(turn, *known);
      return;
    }
    if (auto spec = wire::decode_task(message.payload)) turn.host(StartTask{key, known->slice, *std::move(spec), {}});
    return;
  }
  if (never_.count(key) != 0) return never(turn, key, message.slice, "this agent was told before that it must not start");
  const SliceTable::Slice* slice = slices_.find(message.slice);
  if (slice == nullptr || slice->phase == SliceTable::Phase::kReleasing || slice->phase == SliceTable::Phase::kErasing)
    return never(turn, key, message.slice,
                 "slice " + to_text(message.slice) + (slice == nullptr ? " is not on this agent" : " is being released"));
  if (tasks_.size() >= kTasksMax)
    return never(turn, key, message.slice, "this agent remembers " + std::to_string(kTasksMax) + " tasks, its limit");
  auto spec = wire::decode_task(message.payload);
  if (!spec) return refuse(turn, key, message.slice, "the task's specification cannot be read: " + spec.error().text());
  if (slice->active > 0 && slice->user != spec->user)
    return refuse(turn, key, message.slice,
                  "slice " + to_text(message.slice) + " is in use by " + slice->user + ", a task of " + spec->user +
                      " cannot run in it at the same time");
  if (slice->active >= kActiveMax)
    return refuse(turn, key, message.slice,
                  "slice " + to_text(message.slice) + " has " + std::to_string(kActiveMax) + " tasks, its limit");

  const bool ready = slice->phase == SliceTable::Phase::kUp;
  Task& task = insert(key, message.slice);
  task.limits = TaskLimits{spec->user,        spec->time_limit,      spec->kill_grace,  spec->warn_before,
                           spec->warn_signal, spec->warn_shell_only, spec->fence_lease, spec->priority};
  leased_ = leased_ || task.limits.fence_lease;
  task.payload = message.payload;
  task.spec = std::make_unique<TaskSpec>(*std::move(spec));
  slices_.task_begun(message.slice, task.limits.user);
  turn.record(TaskRecord{key, message.slice, task.limits, task.payload});
  if (ready) start(turn, task);
}

void TaskTable::add_environment(const Turn& turn, const Task& task, StartTask& start) const {
  TaskSpec& spec = start.spec;
  std::vector<std::pair<std::string, std::string>> ours = {
      {"BOURSE_TASK_ID", task.key.task.str()}, {"BOURSE_FRAMEWORK", task.key.framework.str()}, {"BOURSE_AGENT", agent_.str()},
      {"BOURSE_SLICE", to_text(task.slice)},   {"BOURSE_CLUSTER", turn.session.cluster()},     {"TRACEPARENT", spec.trace},
  };
  if (const SliceTable::Slice* slice = slices_.find(task.slice); slice != nullptr)
    for (auto& variable : slices_.inventory().device_environment(slice->spec)) ours.push_back(std::move(variable));
  if (!spec.trace.empty() || !collector_.empty()) {
    const auto theirs = [&](std::string_view name) -> std::optional<std::string> {
      for (const std::string& variable : spec.env)
        if (variable.size() > name.size() && variable[name.size()] == '=' && variable.starts_with(name))
          return variable.substr(name.size() + 1);
      return std::nullopt;
    };
    ours.emplace_back("OTEL_RESOURCE_ATTRIBUTES", resource_attributes(theirs("OTEL_RESOURCE_ATTRIBUTES").value_or(""),
                                                                      turn.session.cluster(), agent_, task.key));
    // Who has a collector of his own keeps it.
    if (!collector_.empty() && !theirs("OTEL_EXPORTER_OTLP_ENDPOINT")) ours.emplace_back("OTEL_EXPORTER_OTLP_ENDPOINT", collector_);
  }
  // A job submitted from within a job exports the outer one's: ours replace them. TRACEPARENT stays where we have none.
  std::erase_if(spec.env, [&](const std::string& variable) {
    if (variable.empty()) return false;
    const std::string_view name = std::string_view(variable).substr(0, variable.find('='));
    const bool goes = std::any_of(ours.begin(), ours.end(), [&](const auto& one) {
      return name == one.first && !(one.second.empty() && name == "TRACEPARENT");
    });
    if (goes) start.replaced.push_back(variable);
    return goes;
  });
  for (const auto& [name, value] : ours) {
    if (value.empty()) continue;
    spec.env.push_back(name + "=" + value);
    ++start.own_variables;
  }
}

namespace {

// What a guest sees of its slice: a part of a core is one.
std::uint32_t cores_of(const SliceSpec& spec) {
  constexpr std::int64_t kCore = 1000;
  return static_cast<std::uint32_t>(spec.cpuset.empty() ? (spec.resources.cpus.value + kCore - 1) / kCore
                                                        : static_cast<std::int64_t>(spec.cpuset.size()));
}

}  // namespace

void TaskTable::start(Turn& turn, Task& task) {
  if (!task.spec) {
    auto spec = wire::decode_task(task.payload);
    if (!spec) {
      TaskStatus status = status_of(task, TaskState::kFailedStart);
      status.message = "the task's specification cannot be read: " + spec.error().text();
      return finish(turn, task, std::move(status));
    }
    task.spec = std::make_unique<TaskSpec>(*std::move(spec));
  }
  const bool first = task.phase == Phase::kWaiting && !task.restored;
  bool later = false;
  task.phase = Phase::kStarting;
  task.ran = true;
  task.started_mono = turn.now.mono;  // asked for; until its start is told
  task.in_turn = task.spec->in_turn;
  TaskSpec spec = std::move(*task.spec);  // asked for again, it comes from the payload
  task.spec.reset();
  StartTask start{task.key, task.slice, std::move(spec)};
  add_environment(turn, task, start);
  const SliceTable::Slice* slice = slices_.find(task.slice);
  if (slice != nullptr && !hooks::mutant("agent.no_memory_lock"))
    raise_memory_lock(start.spec, slices_.inventory().memory_lock(slice->spec));
  if (start.spec.kind == TaskKind::kContainer && slice != nullptr)
    start.device_nodes = slices_.inventory().device_nodes(slice->spec);
  // Without one the launcher refuses, unless it has started the task already.
  if (start.spec.kind == TaskKind::kMicroVm && slice != nullptr) start.hypervisor = slices_.inventory().hypervisor(slice->spec);
  // Its devices are not known ahead. One that was asked for before runs, or it does not: only the host knows, and it is not counted twice.
  if (warm_ != nullptr && warm_->on() && first && slice != nullptr && start.device_nodes.empty()) {
    const WarmGuest guest{start.hypervisor, slice->spec.resources.mem, cores_of(slice->spec)};
    if (const std::string pool = pool_name(start.spec, guest); !pool.empty()) {
      start.warm = warm_->claim(turn.now.mono, pool, start.spec, guest);
      later = true;
    }
  }
  turn.host(std::move(start));
  if (later) turn.host(KeepWarm{warm_->wanted()}), warm_->asked(turn.now.mono);
}

void TaskTable::start_waiting(Turn& turn, const SliceId& slice) {
  const auto in = by_slice_.find(slice);
  if (in == by_slice_.end()) return;
  std::vector<Task*> ready;
  for (const TaskId& id : in->second.active)
    if (Task* task = find({slice.framework, id});
        task != nullptr && task->phase == Phase::kWaiting && task->cause == TaskState::kStaging)
      ready.push_back(task);
  // In the order in which they came.
  std::sort(ready.begin(), ready.end(), [](const Task* a, const Task* b) { return a->handle < b->handle; });
  std::vector<TaskKey> keys;
  for (const Task* task : ready) keys.push_back(task->key);
  for (const TaskKey& key : keys)
    if (Task* task = find(key); task != nullptr) start(turn, *task);
}

void TaskTable::kill(Turn& turn, const Kill& message) {
  const TaskKey key{message.framework, message.task};
  Task* task = find(key);
  if (task == nullptr) return never(turn, key, SliceId{message.framework, 0}, "this agent does not know it");
  if (task->phase == Phase::kEnded) return report(turn, *task);
  if (message.unstarted_only) return take_back(turn, *task);
  if (message.signal != 0 && message.signal != SIGKILL) {
    if (task->phase != Phase::kRunning) return;
    task->asked_signal = message.signal;
    turn.host(SignalTask{key, message.signal, !message.first_process_only});
    return;
  }
  const Duration grace = message.signal == SIGKILL     ? Duration(0)
                         : message.grace < Duration(0) ? task->limits.kill_grace
                                                       : message.grace;
  begin_end(turn, *task, message.preempt ? TaskState::kPreempted : TaskState::kKilled, grace, {}, message.first_process_only);
}

// Only the host knows whether it has been started: its answer is TaskStartFailed, or there is none and the task goes on.
void TaskTable::take_back(Turn& turn, Task& task) {
  if (task.phase == Phase::kStarting) turn.host(SignalTask{task.key, 0, false});
  if (task.phase != Phase::kWaiting || task.restored) return;
  TaskStatus status = status_of(task, TaskState::kNeverStarted);
  status.message = "taken back before it was started";
  finish(turn, task, std::move(status));
}

void TaskTable::begin_end(Turn& turn, Task& task, TaskState cause, Duration grace, const std::string& why,
                          bool first_process_only) {
  if (task.phase == Phase::kEnded) return;
  if (task.phase == Phase::kWaiting && !task.restored) {
    TaskStatus status = status_of(task, cause);
    status.message = why.empty() ? "ended before it was started" : why;
    return finish(turn, task, std::move(status));
  }
  const Duration due = grace >= kNoLimit - turn.now.mono ? kNoLimit : turn.now.mono + grace;
  const bool first = task.cause == TaskState::kStaging;
  if (!first && (task.killed || due >= task.kill_at)) return;  // asked before; only a shorter grace changes anything
  if (first) {
    task.cause = cause;
    task.why = why;
  }
  task.kill_at = due;
  turn.record(EndingRecord{task.key, task.cause, task.kill_at, task.why});
  if (grace <= Duration(0)) {
    task.killed = true;
    turn.host(SignalTask{task.key, SIGKILL, true});
  } else if (first) {
    turn.host(SignalTask{task.key, SIGTERM, !first_process_only});
  }
  arm(turn, task);
}

void TaskTable::end_all(Turn& turn, const SliceId& slice, TaskState cause, Duration grace, const std::string& why) {
  const auto in = by_slice_.find(slice);
  if (in == by_slice_.end()) return;
  const std::set<TaskId> ids = in->second.active;
  for (const TaskId& id : ids)
    if (Task* task = find({slice.framework, id}); task != nullptr) begin_end(turn, *task, cause, grace, why);
}

std::vector<TaskTable::Lent> TaskTable::lent() const {
  std::vector<Lent> out;
  for (const auto& [id, slice] : slices_.all()) {
    if (!slice.spec.revocable) continue;
    const auto in = by_slice_.find(id);
    if (in == by_slice_.end()) continue;
    for (const TaskId& task_id : in->second.active) {
      const auto found = tasks_.find(TaskKey{id.framework, task_id});
      if (found == tasks_.end() || found->second.phase == Phase::kEnded || found->second.cause != TaskState::kStaging) continue;
      const Task& task = found->second;
      out.push_back({task.key, id, task.limits.priority, task.limits.warn_signal, task.limits.warn_shell_only, task.handle});
    }
  }
  std::sort(out.begin(), out.end(),
            [](const Lent& a, const Lent& b) { return std::pair(a.priority, b.handle) < std::pair(b.priority, a.handle); });
  return out;
}

void TaskTable::preempt(Turn& turn, const TaskKey& key, const std::string& why) {
  if (Task* task = find(key); task != nullptr) begin_end(turn, *task, TaskState::kPreempted, Duration(0), why);
}

void TaskTable::fail_waiting(Turn& turn, const SliceId& slice, const std::string& why) {
  const auto in = by_slice_.find(slice);
  if (in == by_slice_.end()) return;
  const std::set<TaskId> ids = in->second.active;
  for (const TaskId& id : ids) {
    Task* task = find({slice.framework, id});
    if (task == nullptr || task->phase == Phase::kEnded) continue;
    TaskStatus status = status_of(*task, TaskState::kFailedStart);
    status.message = why;
    finish(turn, *task, std::move(status));
  }
}

void TaskTable::fence(Turn& turn) {
  std::vector<TaskKey> keys;
  for (const auto& [key, task] : tasks_)
    if (task.limits.fence_lease && task.phase != Phase::kEnded) keys.push_back(key);
  for (const TaskKey& key : keys)
    if (Task* task = find(key); task != nullptr) begin_end(turn, *task, TaskState::kKilled, task->limits.kill_grace, kLeaseOver);
}

void TaskTable::reconcile(Turn& turn, const Reconcile& message) {
  streams_.resend(turn, message.framework);
  std::set<TaskId> listed;
  for (const TaskId& id : message.tasks) {
    if (!listed.insert(id).second) continue;
    const TaskKey key{message.framework, id};
    if (Task* task = find(key); task != nullptr) {
      report(turn, *task);
    } else {
      never(turn, key, SliceId{message.framework, 0}, "this agent does not know it");
    }
  }
  std::vector<TaskKey> rest;
  for (auto it = tasks_.lower_bound({message.framework, TaskId{}}); it != tasks_.end() && it->first.framework == message.framework;
       ++it)
    if (it->second.phase != Phase::kEnded && listed.count(it->first.task) == 0) rest.push_back(it->first);
  for (const TaskKey& key : rest) report(turn, *find(key));
}

void TaskTable::declare_lost(Turn& turn, const DeclareLost& message) {
  for (const TaskId& id : message.tasks) {
    const TaskKey key{message.framework, id};
    TaskStatus status;
    status.task = id;
    status.state = TaskState::kLost;
    status.message = "declared lost by its framework";
    if (Task* task = find(key); task != nullptr) {
      if (task->phase == Phase::kEnded) {
        report(turn, *task);
        continue;
      }
      if (task->phase != Phase::kWaiting || task->restored) turn.host(SignalTask{key, SIGKILL, true});
      status.started = task->started_wall;
      finish(turn, *task, std::move(status));
    } else if (never_.count(key) == 0) {
      remember_never(key);
      never_[key] = streams_.add(turn, key.framework, SliceId{key.framework, 0}, status, {});
    }
  }
}

void TaskTable::ack(Turn& turn, const StatusAck& message) {
  for (const StatusStreams::Acked& one : streams_.ack(turn, message.framework, message.stream, message.through)) {
    Task* task = find({message.framework, one.status.task});
    if (task == nullptr || task->phase != Phase::kEnded || task->last_sequence != one.sequence) continue;
    if (task->ran) turn.host(ForgetTask{task->key});
    acknowledged(*task);
  }
}

// --- what is told ------------------------------------------------------------------------------------------------------

// The current state, unless it is in the stream already and not acknowledged: then it comes again by itself.
void TaskTable::report(Turn& turn, Task& task) {
  if (!streams_.acked(task.key.framework, task.last_sequence)) return;
  const TaskState state = task.phase == Phase::kRunning ? TaskState::kRunning : TaskState::kStaging;
  const TaskStatus status = task.phase == Phase::kEnded ? task.last : status_of(task, state);
  const bool remembered = task.phase == Phase::kEnded;
  const Sequence sequence = streams_.add(turn, task.key.framework, task.slice, status, task.last_sequence);
  if (sequence == Sequence(0)) return;
  task.last_sequence = sequence;
  if (!remembered) return;
  InSlice& in = by_slice_[task.slice];
  in.unacked.insert(task.key.task);
  std::erase(in.remembered, task.key.task);
}

void TaskTable::remember_never(const TaskKey& key) {
  if (!never_.emplace(key, Sequence{}).second) return;
  never_order_.push_back(key);
  if (never_order_.size() <= kNeverMax) return;
  never_.erase(never_order_.front());
  never_order_.pop_front();
}

void TaskTable::never(Turn& turn, const TaskKey& key, const SliceId& slice, const std::string& why) {
  const auto it = never_.find(key);
  if (it != never_.end() && !streams_.acked(key.framework, it->second)) return;  // being told
  TaskStatus status;
  status.task = key.task;
  status.state = TaskState::kNeverStarted;
  status.message = why;
  remember_never(key);
  never_[key] = streams_.add(turn, key.framework, slice, status, {});
}

void TaskTable::refuse(Turn& turn, const TaskKey& key, const SliceId& slice, const std::string& why) {
  Task& task = insert(key, slice);
  TaskStatus status = status_of(task, TaskState::kFailedStart);
  status.message = why;
  slices_.task_begun(slice, slices_.find(slice)->user);  // finish() counts it off again
  finish(turn, task, std::move(status));
}

void TaskTable::finish(Turn& turn, Task& task, TaskStatus status) {
  if (status.ended == Duration(0) && (status.started > Duration(0) || task.phase == Phase::kRunning)) status.ended = turn.now.wall;
  if (task.phase == Phase::kRunning) turn.out.disarm(timer_key(AgentTimer::kTask, task.handle));
  const SliceId slice = task.slice;
  task.last = std::move(status);
  task.last_sequence = streams_.add(turn, task.key.framework, slice, task.last, task.last_sequence, status_can_wait(task));
  mark_ended(task);
  slices_.task_over(turn, slice);
}

// Others wait in the slice for their turn: whoever sent them does not need to know yet that this one has ended.
bool TaskTable::status_can_wait(const Task& ended) const {
  if (ended.phase != Phase::kRunning) return false;  // it did not run: whoever took it back wants to know
  const auto in = by_slice_.find(ended.slice);
  return in != by_slice_.end() && std::ranges::any_of(in->second.active, [&](const TaskId& id) {
           const auto it = tasks_.find({ended.key.framework, id});
           return it != tasks_.end() && it->second.phase == Phase::kStarting && it->second.in_turn;
         });
}

void TaskTable::mark_ended(Task& task) {
  task.phase = Phase::kEnded;
  task.spec.reset();
  task.payload = {};
  InSlice& in = by_slice_[task.slice];
  in.active.erase(task.key.task);
  in.unacked.insert(task.key.task);
  if (hooks::mutant("agent.no_tombstone")) erase(TaskKey(task.key));
}

void TaskTable::acknowledged(Task& task) {
  InSlice& in = by_slice_[task.slice];
  in.unacked.erase(task.key.task);
  in.remembered.push_back(task.key.task);
  const FrameworkId framework = task.key.framework;
  const SliceId slice = task.slice;
  if (slices_.find(slice) == nullptr) {
    slice_gone(slice);
  } else if (in.remembered.size() > kTombstonesMax) {
    const TaskId oldest = in.remembered.front();
    in.remembered.pop_front();
    erase({framework, oldest});
  }
}

void TaskTable::slice_gone(const SliceId& slice) {
  const auto it = by_slice_.find(slice);
  if (it == by_slice_.end()) return;
  const std::deque<TaskId> ids = std::move(it->second.remembered);
  it->second.remembered.clear();
  for (const TaskId& id : ids) erase({slice.framework, id});
}

// --- from the host -------------------------------------------------------------------------------------------------------

void TaskTable::started(Turn& turn, const TaskStarted& event) {
  Task* task = find(event.task);
  if (task == nullptr || task->phase == Phase::kEnded) {  // declared lost meanwhile, or of a checkpoint that is no more
    turn.host(SignalTask{event.task, SIGKILL, true});
    return;
  }
  if (task->phase == Phase::kRunning) return;
  task->phase = Phase::kRunning;
  task->ran = true;
  task->restored = false;
  task->started_mono = turn.now.mono;
  task->started_wall = turn.now.wall;
  task->spec.reset();
  task->payload = {};
  turn.record(StartedRecord{task->key, task->started_mono, task->started_wall});
  task->last_sequence =
      streams_.add(turn, task->key.framework, task->slice, status_of(*task, TaskState::kRunning), task->last_sequence);
  if (task->cause != TaskState::kStaging)  // its end was asked for while it was being started
    turn.host(SignalTask{task->key, task->kill_at <= turn.now.mono ? SIGKILL : SIGTERM, true});
  arm(turn, *task);
}

void TaskTable::start_failed(Turn& turn, const TaskStartFailed& event) {
  Task* task = find(event.task);
  if (task == nullptr || task->phase == Phase::kEnded) return;
  const TaskState plain = event.withdrawn ? TaskState::kNeverStarted : TaskState::kFailedStart;
  TaskStatus status = status_of(*task, task->cause == TaskState::kStaging ? plain : task->cause);
  status.message = event.withdrawn && !task->why.empty() ? task->why : event.reason;
  finish(turn, *task, std::move(status));
}

void TaskTable::ended(Turn& turn, const TaskEnded& event) {
  Task* task = find(event.task);
  if (task == nullptr) {
    turn.host(ForgetTask{event.task});
    return;
  }
  if (task->phase == Phase::kEnded) {
    if (streams_.acked(task->key.framework, task->last_sequence)) turn.host(ForgetTask{event.task});
    return;
  }
  if (task->phase != Phase::kRunning) {  // so short that only its end is told; or it ran between two lives of this agent
    const bool asked = task->phase == Phase::kStarting && task->started_mono > Duration(0);
    task->phase = Phase::kRunning;
    task->ran = true;
    task->started_wall =
        event.started > Duration(0) ? event.started : turn.now.wall - (asked ? turn.now.mono - task->started_mono : Duration(0));
  }
  TaskStatus status = status_of(*task, TaskState::kUnknownExit);
  status.ended = event.ended;
  status.cpu = event.cpu;
  status.mem_peak = event.mem_peak;
  status.message = task->why;
  if (event.known && WIFEXITED(event.wait_status)) status.exit_code = WEXITSTATUS(event.wait_status);
  if (event.known && WIFSIGNALED(event.wait_status)) status.signal = WTERMSIG(event.wait_status);
  const bool success = event.known && WIFEXITED(event.wait_status) && status.exit_code == 0;
  if (task->cause != TaskState::kStaging) {
    status.state = task->cause;
  } else if (event.fenced) {
    status.state = TaskState::kKilled;
    status.message = kLeaseOver;
  } else if (event.out_of_memory && !success) {
    status.state = TaskState::kOutOfMemory;
    const SliceTable::Slice* slice = slices_.find(task->slice);
    const Bytes limit = slice != nullptr ? slice->spec.resources.mem : Bytes{};
    status.message = "out of memory: it used " + format_size(event.mem_peak) +
                     (limit.value > 0 ? " of the " + format_size(limit) + " that its slice has" : std::string());
  } else if (!event.known) {
    status.message = "it ended while no process watched that could have known how";
  } else if (WIFSIGNALED(event.wait_status)) {
    status.state = status.signal == task->asked_signal ? TaskState::kKilled : TaskState::kSignaled;
  } else {
    status.state = TaskState::kExited;
    if (event.out_of_memory) status.message = "one of its processes was ended for want of memory";
  }
  finish(turn, *task, std::move(status));
}

void TaskTable::host_tasks(Turn& turn, const HostTasks& event) {
  const std::set<TaskKey> running(event.running.begin(), event.running.end());
  for (const TaskKey& key : running) {
    Task* task = find(key);
    if (task == nullptr || task->phase != Phase::kRunning) started(turn, TaskStarted{key, 0});
  }
  bool settle = false;
  std::vector<std::pair<std::uint64_t, TaskKey>> again;  // by handle: some wait for their turn
  for (auto& [key, task] : tasks_) {
    task.missing = task.phase == Phase::kRunning && running.count(key) == 0;
    settle = settle || task.missing || task.restored;
    if (task.phase == Phase::kStarting) again.emplace_back(task.handle, key);
    if (task.phase == Phase::kRunning && !task.missing && task.cause != TaskState::kStaging) {
      turn.host(SignalTask{key, task.kill_at <= turn.now.mono ? SIGKILL : SIGTERM, true});
      arm(turn, task);
    }
  }
  // Starting is idempotent: the launcher answers for a task that it knows.
  start_again(turn, std::move(again));
  if (settle) turn.out.arm(timer_key(AgentTimer::kSettle), kSettle);
}

void TaskTable::host_retry(Turn& turn) {
  std::vector<std::pair<std::uint64_t, TaskKey>> again;
  for (const auto& [key, task] : tasks_)
    if (task.phase == Phase::kStarting) again.emplace_back(task.handle, key);
  start_again(turn, std::move(again));
}

void TaskTable::start_again(Turn& turn, std::vector<std::pair<std::uint64_t, TaskKey>> tasks) {
  std::sort(tasks.begin(), tasks.end());
  for (const auto& [handle, key] : tasks) {
    if (Task* task = find(key); task != nullptr && task->phase == Phase::kStarting) start(turn, *task);
  }
}

void TaskTable::settle_due(Turn& turn) {
  std::vector<TaskKey> unknown, killed;
  for (auto& [key, task] : tasks_) {
    if (task.missing && task.phase == Phase::kRunning) unknown.push_back(key);
    if (task.restored && task.phase == Phase::kWaiting && task.cause != TaskState::kStaging) killed.push_back(key);
    task.restored = false;
  }
  for (const TaskKey& key : unknown) ended(turn, TaskEnded{key, false, 0, false, {}, {}});
  for (const TaskKey& key : killed) {
    Task& task = *find(key);
    turn.host(SignalTask{key, SIGKILL, true});
    TaskStatus status = status_of(task, task.cause);
    status.message = task.why;
    finish(turn, task, std::move(status));
  }
}

void TaskTable::reboot(Turn& turn) {
  std::vector<TaskKey> keys;
  for (const auto& [key, task] : tasks_)
    if (task.phase != Phase::kEnded && task.restored) keys.push_back(key);
  for (const TaskKey& key : keys) {
    Task& task = *find(key);
    TaskStatus status = status_of(task, TaskState::kLost);
    status.message = "host rebooted";
    finish(turn, task, std::move(status));
  }
}

// --- time ------------------------------------------------------------------------------------------------------------------

void TaskTable::arm(Turn& turn, const Task& task) const {
  if (task.phase == Phase::kEnded || task.phase == Phase::kWaiting) return;
  Duration due = kNoLimit;
  if (task.cause != TaskState::kStaging) {
    if (!task.killed) due = task.kill_at;
  } else if (task.phase == Phase::kRunning && task.limits.time_limit < kNoLimit - task.started_mono &&
             !hooks::mutant("agent.no_time_limit")) {
    due = task.started_mono + task.limits.time_limit;
    if (task.limits.warn_signal != 0 && !task.warned) due = std::min(due, due - task.limits.warn_before);
  }
  if (due != kNoLimit) turn.out.arm(timer_key(AgentTimer::kTask, task.handle), std::max(due - turn.now.mono, Duration(0)));
}

void TaskTable::task_due(Turn& turn, std::uint64_t handle) {
  const auto it = handles_.find(handle);
  Task* task = it == handles_.end() ? nullptr : find(it->second);
  if (task == nullptr || task->phase == Phase::kEnded) return;
  if (task->cause != TaskState::kStaging) {
    if (!task->killed && turn.now.mono >= task->kill_at) {
      task->killed = true;
      turn.host(SignalTask{task->key, SIGKILL, true});
    }
  } else if (task->phase == Phase::kRunning && task->limits.time_limit != kNoLimit) {
    const Duration limit_at = task->started_mono + task->limits.time_limit;
    if (turn.now.mono >= limit_at)
      return begin_end(turn, *task, TaskState::kTimeLimit, task->limits.kill_grace,
                       "time limit of " + format_duration(task->limits.time_limit));
    if (task->limits.warn_signal != 0 && !task->warned && turn.now.mono >= limit_at - task->limits.warn_before) {
      task->warned = true;
      turn.host(SignalTask{task->key, task->limits.warn_signal, !task->limits.warn_shell_only});
    }
  }
  arm(turn, *task);
}

}  // namespace bourse
