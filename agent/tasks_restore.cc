// The half of TaskTable that a restart needs: from records to tables and back.
#include "agent/tasks.h"

namespace bourse {

void TaskTable::restore(const TaskRecord& record) {
  Task& task = insert(record.task, record.slice);
  task.limits = record.limits;
  leased_ = leased_ || task.limits.fence_lease;
  task.payload = record.payload;
  task.phase = Phase::kWaiting;
  task.ran = true;  // it may have been handed to the host: only the host knows
  task.restored = true;
}

void TaskTable::restore(const StartedRecord& record) {
  Task* task = find(record.task);
  if (task == nullptr) return;
  task->phase = Phase::kRunning;
  task->started_mono = record.mono;
  task->started_wall = record.wall;
  task->payload = {};
}

void TaskTable::restore(const EndingRecord& record) {
  Task* task = find(record.task);
  if (task == nullptr) return;
  task->cause = record.cause;
  task->kill_at = record.kill_at;
  task->why = record.why;
}

void TaskTable::restore(const StatusRecord& record) {
  const TaskKey key{record.framework, record.status.task};
  Task* task = find(key);
  const bool terminal = is_terminal(record.status.state);
  if (task == nullptr && (record.status.state == TaskState::kNeverStarted || record.slice.number == 0)) {
    remember_never(key);
    never_[key] = record.sequence;
    return;
  }
  if (task == nullptr) {
    if (!terminal) return;
    task = &insert(key, record.slice);  // refused, or a snapshot's
    task->ran = true;                   // perhaps: the host must forget it in any case
  }
  task->last_sequence = record.sequence;
  if (!terminal) return;
  task->last = record.status;
  mark_ended(*task);
}

void TaskTable::restore(const TombstoneRecord& record) {
  const TaskKey key{record.framework, record.status.task};
  if (record.slice.number == 0) {
    remember_never(key);
    return;
  }
  Task& task = insert(key, record.slice);
  task.last = record.status;
  mark_ended(task);
  if (Task* there = find(key); there != nullptr) {
    InSlice& in = by_slice_[record.slice];
    in.unacked.erase(key.task);
    in.remembered.push_back(key.task);
  }
}

void TaskTable::restore_acked(const FrameworkId& framework, const std::vector<StatusStreams::Acked>& acked) {
  for (const StatusStreams::Acked& one : acked) {
    Task* task = find({framework, one.status.task});
    if (task == nullptr || task->phase != Phase::kEnded || task->last_sequence != one.sequence) continue;
    InSlice& in = by_slice_[task->slice];
    in.unacked.erase(task->key.task);
    in.remembered.push_back(task->key.task);
    if (in.remembered.size() > kTombstonesMax) {
      const TaskId oldest = in.remembered.front();
      in.remembered.pop_front();
      erase({framework, oldest});
    }
  }
}

// Those that are not in the new stream need no acknowledgement: Sequence 0 counts as acknowledged.
void TaskTable::renumber(const StatusStreams::Renumbered& renumbered) {
  std::map<std::pair<FrameworkId, Sequence>, Sequence> now;
  for (const auto& [framework, old] : renumbered)
    for (std::size_t i = 0; i < old.size(); ++i) now[{framework, old[i]}] = Sequence(i + 1);
  const auto renew = [&](const FrameworkId& framework, Sequence& sequence) {
    const auto found = now.find({framework, sequence});
    sequence = found == now.end() ? Sequence{} : found->second;
  };
  for (auto& [key, task] : tasks_) renew(key.framework, task.last_sequence);
  for (auto& [key, sequence] : never_) renew(key.framework, sequence);
}

void TaskTable::restored(Turn& turn) {
  std::vector<SliceId> gone;
  for (const auto& [slice, in] : by_slice_)
    if (slices_.find(slice) == nullptr) gone.push_back(slice);
  for (const SliceId& slice : gone) slice_gone(slice);
  for (auto& [key, task] : tasks_) {
    if (task.phase == Phase::kEnded) continue;
    slices_.task_begun(task.slice, task.limits.user);
    arm(turn, task);
  }
}

void TaskTable::snapshot_tasks(std::vector<CheckpointRecord>& out) const {
  // By handle: the order in which waiting tasks are started must survive.
  for (const auto& [handle, key] : handles_) {
    const Task& task = tasks_.at(key);
    if (task.phase == Phase::kEnded) continue;
    out.emplace_back(TaskRecord{key, task.slice, task.limits, task.payload});
    if (task.phase == Phase::kRunning) out.emplace_back(StartedRecord{key, task.started_mono, task.started_wall});
    if (task.cause != TaskState::kStaging) out.emplace_back(EndingRecord{key, task.cause, task.kill_at, task.why});
  }
}

void TaskTable::snapshot_tombstones(std::vector<CheckpointRecord>& out) const {
  for (const auto& [slice, in] : by_slice_)
    for (const TaskId& id : in.remembered)
      if (const auto it = tasks_.find({slice.framework, id}); it != tasks_.end())
        out.emplace_back(TombstoneRecord{slice.framework, slice, it->second.last});
  for (const TaskKey& key : never_order_) {
    TaskStatus status;
    status.task = key.task;
    status.state = TaskState::kNeverStarted;
    out.emplace_back(TombstoneRecord{key.framework, SliceId{key.framework, 0}, status});
  }
}

std::vector<TaskKey> TaskTable::active() const {
  std::vector<TaskKey> keys;
  for (const auto& [key, task] : tasks_)
    if (task.phase != Phase::kEnded) keys.push_back(key);
  return keys;
}

std::vector<TaskId> TaskTable::for_hello(const SliceId& slice) const {
  std::vector<TaskId> ids;
  const auto it = by_slice_.find(slice);
  if (it == by_slice_.end()) return ids;
  ids.assign(it->second.active.begin(), it->second.active.end());
  ids.insert(ids.end(), it->second.unacked.begin(), it->second.unacked.end());
  return ids;
}

}  // namespace bourse
