// The model of one agent's host: launcher, slices and tasks. They outlive the agent process, and die with the host.
//
// What it promises an agent is what agent/launcher/protocol.h promises: every request is idempotent, ends are kept until they
// are forgotten, and after a restart HostTasks comes first and then the ends.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "common/core/action.h"
#include "common/core/event.h"
#include "common/core/rng.h"
#include "common/sim/queue.h"

namespace bourse::sim {

// How a task will go, decided by the test or the trace when it is started.
struct TaskPlan {
  Duration run = seconds(1);
  std::int32_t wait_status = 0;  // as wait(2)
  std::string start_error;       // not empty: it never runs
  bool ignores_term = false;
  bool out_of_memory = false;
};
using Planner = std::function<TaskPlan(const TaskKey&, const TaskSpec&)>;

// What really happened to a task, wherever it was: the truth that statuses are checked against.
struct Execution {
  AgentId agent;
  std::uint32_t starts = 0;
  Duration started{-1}, ended{-1};
  std::int32_t wait_status = 0;
  bool vanished = false;  // its host lost power
};
using Executions = std::map<TaskKey, Execution>;

struct HostOptions {
  Duration carve_max = milliseconds(3), start_max = milliseconds(3), probe = milliseconds(20);
};

class Host {
 public:
  Host(EventQueue& queue, Rng rng, AgentId agent, Inventory inventory, HostOptions options, const Planner& planner,
       Executions& truth);

  // Where its events go: to the agent's current life, or nowhere.
  void attach(std::function<void(Event)> post) { post_ = std::move(post); }
  void act(const HostAction& action);
  void agent_started();  // HostTasks, then ends that were not forgotten
  void agent_died() { post_ = nullptr; }

  void reboot();                            // power lost: all of it is gone
  void launcher_lost();                     // requests go nowhere until
  void launcher_returns();                  // its successor has read the exit log
  void set_inventory(Inventory inventory);  // hardware came, went or changed, and the kernel says so
  std::string probe_death;                  // not empty: how every run of a probe ends

  [[nodiscard]] const std::string& boot_id() const { return boot_id_; }
  [[nodiscard]] Duration boot_time() const { return booted_; }
  [[nodiscard]] const Inventory& inventory() const { return inventory_; }
  [[nodiscard]] std::size_t slices() const { return slices_.size(); }
  [[nodiscard]] std::size_t tasks() const { return tasks_.size(); }  // running, or ended and not forgotten
  [[nodiscard]] Resources used() const;                              // by slices that exist, but those that are lent
  [[nodiscard]] Resources lent() const;                              // by revocable ones
  // What a slice uses, when it is measured; not set: nothing is measured. And memory pressure, which press() also tells at once.
  std::function<UsageSample::Slice(const SliceSpec&, Duration now)> usage_of;
  std::int32_t pressure_permille = 0;
  void press(std::int32_t permille);
  std::function<void(const TaskKey&, const Execution&)> on_started, on_ended;  // for checkers
  std::function<void(const SliceId&, const std::string&)> on_violation;        // a request that no host could carry out

 private:
  struct Task {
    SliceId slice;
    bool running = false, ended = false;
    std::int32_t wait_status = 0;
    bool out_of_memory = false, ignores_term = false;
    Duration started{0}, ended_at{0};
    EventQueue::Handle end;
    std::uint64_t order = 0;            // of the requests
    std::optional<TaskSpec> in_turn{};  // it waits for its turn
  };
  [[nodiscard]] bool has_turn(const Task& task) const;
  void next_in_turn(const SliceId& slice);
  void forget_waiting();
  void post(Event event);
  // On this boot only, and in the order of the requests: the launcher's socket is first in, first out.
  void later(Duration most, std::function<void()> call);
  void started(const TaskKey& key, const TaskSpec& spec);
  void end(const TaskKey& key, std::int32_t wait_status);
  void report_end(const TaskKey& key, const Task& task);
  void on(const CarveSlice& action);
  void on(const EraseSlice& action);
  void on(const StartTask& action);
  void on(const SignalTask& action);
  void on(const ForgetTask& action);
  void on(const RunProbe& action);
  void on(const MeasureUsage& action);
  template <class Other>
  void on(const Other&) {}  // limits, leases and warm instances: nothing of them is modelled

  EventQueue& queue_;
  Rng rng_;
  AgentId agent_;
  Inventory inventory_;
  HostOptions options_;
  const Planner& planner_;
  Executions& truth_;
  std::function<void(Event)> post_;
  std::map<SliceId, SliceSpec> slices_;
  std::map<TaskKey, Task> tasks_;
  std::uint64_t boots_ = 1;
  Duration last_{0};
  std::string boot_id_;
  Duration booted_{0};
  bool rebooted_ = false, launcher_up_ = true;
  std::int64_t pids_ = 1000;
  std::uint64_t orders_ = 0;
};

}  // namespace bourse::sim
