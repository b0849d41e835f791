#include "common/sim/host.h"

#include <algorithm>
#include <csignal>

namespace bourse::sim {

Host::Host(EventQueue& queue, Rng rng, AgentId agent, Inventory inventory, HostOptions options, const Planner& planner,
           Executions& truth)
    : queue_(queue),
      rng_(rng),
      agent_(std::move(agent)),
      inventory_(std::move(inventory)),
      options_(options),
      planner_(planner),
      truth_(truth),
      boot_id_(agent_.value + "-boot-1") {}

// Never within the call that caused it: the agent's answer may change the tables that are being walked.
void Host::post(Event event) {
  if (post_) queue_.after(Duration(0), [post = post_, event = std::move(event)] { post(event); });
}

void Host::later(Duration most, std::function<void()> call) {
  last_ = std::max(last_, queue_.now() + Duration(rng_.between(1, std::max<std::int64_t>(most.count(), 1))));
  queue_.at(last_, [this, boot = boots_, call = std::move(call)] {
    if (boot == boots_) call();
  });
}

void Host::act(const HostAction& action) {
  if (!launcher_up_ && !std::holds_alternative<RunProbe>(action)) return;  // the agent asks again when there is a successor
  std::visit([this](const auto& a) { on(a); }, action);
}

namespace {
// The agent counts generations, not its host.
Resources no_generations(Resources amount) {
  for (DeviceShare& share : amount.devices) share.generation = {};
  return amount;
}
}  // namespace

void Host::on(const CarveSlice& action) {
  later(options_.carve_max, [this, spec = action.spec] {
    if (!slices_.contains(spec.id)) {
      const auto total = no_generations(inventory_.total);
      Resources sum = no_generations(used());
      // A slice whose device has gone keeps its name; that takes nothing from anybody.
      std::erase_if(sum.devices, [&total](const DeviceShare& share) {
        return std::none_of(total.devices.begin(), total.devices.end(),
                            [&](const DeviceShare& there) { return there.device == share.device; });
      });
      bool fits = sum.add(no_generations(spec.resources)) && total.contains(sum);
      if (spec.revocable) {  // lent ones stand beside the others, and are not split by node
        const Resources others = lent();
        fits = others.cpus.value + spec.resources.cpus.value <= total.cpus.value &&
               others.mem.value + spec.resources.mem.value <= total.mem.value;
      }
      if (!fits) {
        if (on_violation) on_violation(spec.id, "slices of " + agent_.value + " add up to more than the host has");
      }
      slices_[spec.id] = spec;
    }
    post(SliceCarved{spec.id, {}});
  });
}

void Host::on(const EraseSlice& action) {
  for (auto& [key, task] : tasks_) {
    if (task.slice == action.slice && task.running) end(key, SIGKILL);
  }
  later(options_.carve_max, [this, slice = action.slice] {
    for (auto& [key, task] : tasks_) {
      if (task.slice == slice && task.running) end(key, SIGKILL);
    }
    slices_.erase(slice);
    post(SliceErased{slice});
  });
}

void Host::on(const StartTask& action) {
  const auto known = tasks_.find(action.task);
  if (known != tasks_.end()) {
    if (known->second.running) post(TaskStarted{action.task, ++pids_});
    if (known->second.ended) report_end(action.task, known->second);
    return;
  }
  Task& fresh = tasks_[action.task];
  fresh.slice = action.slice;
  fresh.order = ++orders_;
  later(options_.start_max, [this, key = action.task, spec = action.spec] { started(key, spec); });
}

void Host::started(const TaskKey& key, const TaskSpec& spec) {
  const auto it = tasks_.find(key);
  if (it == tasks_.end()) return;
  if (!slices_.contains(it->second.slice)) {
    tasks_.erase(it);
    post(TaskStartFailed{key, "its slice is not on this host", false});
    return;
  }
  if (spec.in_turn && !has_turn(it->second)) {
    it->second.in_turn = spec;
    return;
  }
  it->second.in_turn.reset();
  const TaskPlan plan = planner_(key, spec);
  if (!plan.start_error.empty()) {
    const SliceId slice = it->second.slice;
    tasks_.erase(it);
    post(TaskStartFailed{key, plan.start_error, false});
    next_in_turn(slice);
    return;
  }
  Task& task = it->second;
  task.running = true;
  task.started = queue_.now();
  task.ignores_term = plan.ignores_term;
  task.out_of_memory = plan.out_of_memory;
  Execution& truth = truth_[key];
  truth.agent = agent_;
  ++truth.starts;
  truth.started = queue_.now();
  if (on_started) on_started(key, truth);
  task.end = queue_.after(plan.run, [this, key, status = plan.wait_status, boot = boots_] {
    if (boot == boots_) end(key, status);
  });
  post(TaskStarted{key, ++pids_});
}

// Nobody whom its slice was given earlier is left, and nobody else runs in it.
bool Host::has_turn(const Task& task) const {
  return std::none_of(tasks_.begin(), tasks_.end(), [&](const auto& item) {
    const Task& other = item.second;
    return other.slice == task.slice && !other.ended && (other.running || other.order < task.order);
  });
}

void Host::next_in_turn(const SliceId& slice) {
  for (const auto& [key, task] : tasks_) {
    if (task.slice != slice || !task.in_turn || !has_turn(task)) continue;
    later(options_.start_max, [this, key = key] {
      const auto it = tasks_.find(key);
      if (it != tasks_.end() && it->second.in_turn) started(key, TaskSpec(*it->second.in_turn));
    });
    return;
  }
}

void Host::forget_waiting() {
  std::erase_if(tasks_, [](const auto& item) { return item.second.in_turn.has_value(); });
}

void Host::end(const TaskKey& key, std::int32_t wait_status) {
  const auto it = tasks_.find(key);
  if (it == tasks_.end() || !it->second.running) return;
  Task& task = it->second;
  queue_.cancel(task.end);
  task.running = false;
  task.ended = true;
  task.wait_status = wait_status;
  task.ended_at = queue_.now();
  Execution& truth = truth_[key];
  truth.ended = queue_.now();
  truth.wait_status = wait_status;
  if (on_ended) on_ended(key, truth);
  report_end(key, task);
  next_in_turn(task.slice);
}

void Host::report_end(const TaskKey& key, const Task& task) {
  TaskEnded ended;
  ended.task = key;
  ended.wait_status = task.wait_status;
  ended.out_of_memory = task.out_of_memory;
  ended.cpu = task.ended_at - task.started;
  post(std::move(ended));
}

void Host::on(const SignalTask& action) {
  const auto it = tasks_.find(action.task);
  if (it == tasks_.end() || it->second.ended) return;
  if (it->second.in_turn && (action.signal == 0 || action.signal == SIGTERM || action.signal == SIGKILL)) {
    const SliceId slice = it->second.slice;
    tasks_.erase(it);
    post(TaskStartFailed{action.task, "taken back before it was started", true});
    return next_in_turn(slice);
  }
  if (action.signal == SIGKILL || (action.signal == SIGTERM && !it->second.ignores_term)) {
    later(milliseconds(1), [this, key = action.task, signal = action.signal] { end(key, signal); });
  }
}

void Host::on(const ForgetTask& action) {
  const auto it = tasks_.find(action.task);
  if (it != tasks_.end() && it->second.ended) tasks_.erase(it);
}

void Host::on(const RunProbe& action) {
  queue_.after(options_.probe, [this, boot = boots_, probe = action.probe] {
    if (boot != boots_) return;
    probe_death.empty() ? post(ProbeDone{probe, inventory_, {}}) : post(ProbeDone{probe, {}, probe_death});
  });
}

void Host::on(const MeasureUsage&) {
  if (!usage_of) return;
  UsageSample sample;
  for (const auto& [id, spec] : slices_) sample.slices.push_back(usage_of(spec, queue_.now()));
  post(std::move(sample));
  post(PressureSample{pressure_permille, "host", false});
}

void Host::press(std::int32_t permille) {
  pressure_permille = permille;
  post(PressureSample{permille, "host", true});
}

void Host::set_inventory(Inventory inventory) {
  inventory_ = std::move(inventory);
  post(HardwareChanged{"the simulator says so"});
}

void Host::agent_started() {
  if (!launcher_up_) return;  // launcher_returns() tells
  forget_waiting();           // the agent asks for them again
  later(milliseconds(2), [this] {
    HostTasks all;
    all.rebooted = rebooted_;
    rebooted_ = false;
    for (const auto& [key, task] : tasks_) {
      if (task.running) all.running.push_back(key);
    }
    post(std::move(all));
    std::vector<TaskKey> ended;
    for (const auto& [key, task] : tasks_) {
      if (task.ended) ended.push_back(key);
    }
    for (const TaskKey& key : ended) {
      const auto it = tasks_.find(key);
      if (it != tasks_.end()) report_end(key, it->second);
    }
  });
}

void Host::reboot() {
  for (auto& [key, task] : tasks_) {
    queue_.cancel(task.end);
    truth_[key].vanished = true;
  }
  for (auto& [key, truth] : truth_) {
    if (truth.agent == agent_) truth.vanished = true;  // the agent's memory of it may be gone as well
  }
  slices_.clear();
  tasks_.clear();
  ++boots_;
  boot_id_ = agent_.value + "-boot-" + std::to_string(boots_);
  booted_ = queue_.now();
  rebooted_ = true;
  launcher_up_ = true;
}

void Host::launcher_lost() {
  launcher_up_ = false;
  post(LauncherLost{});
}

void Host::launcher_returns() {
  if (launcher_up_) return;
  launcher_up_ = true;
  // Requests that the old one had read but not carried out are gone with it.
  std::erase_if(tasks_, [](const auto& item) { return !item.second.running && !item.second.ended; });
  agent_started();
}

Resources Host::used() const {
  Resources sum;
  for (const auto& [id, spec] : slices_)
    if (!spec.revocable) (void)!sum.add(spec.resources);
  return sum;
}

Resources Host::lent() const {
  Resources sum;
  for (const auto& [id, spec] : slices_)
    if (spec.revocable) (void)!sum.add(spec.resources);
  return sum;
}

}  // namespace bourse::sim
