// The tasks of this agent: accepted, started, watched over, ended, remembered.
//
// A task id is started at most once: ids of tasks that ended are kept (tombstones) until their slice is gone and their end is
// acknowledged, the last kTombstonesMax of a long-lived slice. What a task's end is called goes by its cause: a task that ends
// after its time limit ended by it, whatever its exit code. Owned by the agent actor.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "agent/slices.h"
#include "agent/status_stream.h"
#include "agent/warm_pools.h"

namespace bourse {

class TaskTable {
 public:
  static constexpr std::size_t kTasksMax = 200'000;      // active and remembered
  static constexpr std::uint32_t kActiveMax = 20'000;    // in one slice, waiting ones included
  static constexpr std::size_t kTombstonesMax = 20'000;  // acknowledged ones of one slice
  static constexpr std::size_t kNeverMax = 20'000;       // ids that must never start
  static constexpr Duration kSettle = seconds(5);        // after the host came back, for ends it has to tell

  TaskTable(AgentId agent, Duration default_grace, SliceTable& slices, StatusStreams& streams)
      : agent_(std::move(agent)), default_grace_(default_grace), slices_(slices), streams_(streams) {}
  void set_default_grace(Duration grace) { default_grace_ = grace; }
  void use_warm(WarmPools* pools) { warm_ = pools; }
  void set_collector(std::string endpoint) { collector_ = std::move(endpoint); }  // for tasks that are traced

  void launch(Turn& turn, const Launch& message);
  void kill(Turn& turn, const Kill& message);
  void reconcile(Turn& turn, const Reconcile& message);
  void declare_lost(Turn& turn, const DeclareLost& message);
  void ack(Turn& turn, const StatusAck& message);

  void start_waiting(Turn& turn, const SliceId& slice);  // its slice is up
  void end_all(Turn& turn, const SliceId& slice, TaskState cause, Duration grace, const std::string& why);
  void fail_waiting(Turn& turn, const SliceId& slice, const std::string& why);
  void slice_gone(const SliceId& slice);
  void fence(Turn& turn);                                // the leader is not heard: ends tasks with fence_lease
  [[nodiscard]] bool leased() const { return leased_; }  // whether there has been any task with fence_lease

  void started(Turn& turn, const TaskStarted& event);
  void start_failed(Turn& turn, const TaskStartFailed& event);
  void ended(Turn& turn, const TaskEnded& event);
  void host_tasks(Turn& turn, const HostTasks& event);
  void host_retry(Turn& turn);  // actions of a step may have been lost: asks again for what is outstanding
  void settle_due(Turn& turn);
  void task_due(Turn& turn, std::uint64_t handle);
  void reboot(Turn& turn);  // everything restored and not ended is lost

  void restore(const TaskRecord& record);
  void restore(const StartedRecord& record);
  void restore(const EndingRecord& record);
  void restore(const StatusRecord& record);
  void restore(const TombstoneRecord& record);
  void restore_acked(const FrameworkId& framework, const std::vector<StatusStreams::Acked>& acked);
  void restored(Turn& turn);
  void renumber(const StatusStreams::Renumbered& renumbered);
  void snapshot_tasks(std::vector<CheckpointRecord>& out) const;
  void snapshot_tombstones(std::vector<CheckpointRecord>& out) const;

  // Tasks of revocable slices that nobody has asked to end, in the order in which they go under pressure: the lowest priority first,
  // among equals the youngest.
  struct Lent {
    TaskKey task;
    SliceId slice;
    std::int32_t priority = 0, warn_signal = 0;
    bool warn_shell_only = false;
    std::uint64_t handle = 0;
  };
  [[nodiscard]] std::vector<Lent> lent() const;
  void preempt(Turn& turn, const TaskKey& key, const std::string& why);  // at once: its memory is needed

  [[nodiscard]] std::vector<TaskKey> active() const;
  [[nodiscard]] std::vector<TaskId> for_hello(const SliceId& slice) const;

 private:
  enum class Phase { kWaiting, kStarting, kRunning, kEnded };
  struct Task {
    TaskKey key;
    SliceId slice;
    std::uint64_t handle = 0;
    Phase phase = Phase::kWaiting;
    TaskLimits limits;
    std::string payload;             // until started: the checkpoint's
    std::unique_ptr<TaskSpec> spec;  // until started
    Duration started_mono{0}, started_wall{0};
    TaskState cause = TaskState::kStaging;  // kStaging: nobody asked for its end
    Duration kill_at{0};
    bool killed = false;  // SIGKILL was sent
    bool warned = false, missing = false, restored = false, ran = false;
    bool in_turn = false;  // starts when those before it in its slice have ended
    std::string why;
    std::int32_t asked_signal = 0;
    TaskStatus last;
    Sequence last_sequence;
  };
  struct InSlice {
    std::set<TaskId> active;
    std::deque<TaskId> remembered;  // ended and acknowledged, oldest first
    std::set<TaskId> unacked;       // ended
  };

  Task* find(const TaskKey& key);
  Task& insert(const TaskKey& key, const SliceId& slice);
  void erase(const TaskKey& key);
  void start(Turn& turn, Task& task);
  void begin_end(Turn& turn, Task& task, TaskState cause, Duration grace, const std::string& why, bool first_process_only = false);
  void take_back(Turn& turn, Task& task);
  void start_again(Turn& turn, std::vector<std::pair<std::uint64_t, TaskKey>> tasks);
  void finish(Turn& turn, Task& task, TaskStatus status);
  void refuse(Turn& turn, const TaskKey& key, const SliceId& slice, const std::string& why);
  void never(Turn& turn, const TaskKey& key, const SliceId& slice, const std::string& why);
  void report(Turn& turn, Task& task);
  void arm(Turn& turn, const Task& task) const;
  [[nodiscard]] bool status_can_wait(const Task& ended) const;
  void mark_ended(Task& task);
  void acknowledged(Task& task);
  void remember_never(const TaskKey& key);
  [[nodiscard]] TaskStatus status_of(const Task& task, TaskState state) const;
  void add_environment(const Turn& turn, const Task& task, StartTask& start) const;

  AgentId agent_;
  Duration default_grace_;
  std::string collector_;
  SliceTable& slices_;
  StatusStreams& streams_;
  WarmPools* warm_ = nullptr;
  std::map<TaskKey, Task> tasks_;
  std::map<std::uint64_t, TaskKey> handles_;
  std::uint64_t next_handle_ = 1;
  bool leased_ = false;
  std::map<SliceId, InSlice> by_slice_;
  std::map<TaskKey, Sequence> never_;  // and the status that said so
  std::deque<TaskKey> never_order_;
};

}  // namespace bourse
