// One agent in a test's hands: its log, timers and host are kept here and outlive it, its messages are collected.
#pragma once

#include <csignal>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "agent/agent.h"
#include "common/wire/wire.h"

namespace bourse::testing {

inline TopologyNode pu(std::uint32_t index) { return TopologyNode{"pu", index, {}, 0, {}, {}}; }

// Two NUMA nodes of two cores with two threads each: PUs 0-3 and 4-7, 8 GiB a node.
inline Inventory two_nodes() {
  Inventory inventory;
  inventory.topology.type = "machine";
  for (std::uint32_t node = 0; node < 2; ++node) {
    TopologyNode numa{"numa", node, {}, 8LL << 30, {}, {}};
    for (std::uint32_t core = 0; core < 2; ++core)
      numa.children.push_back(TopologyNode{"core", core, {}, 0, {}, {pu(node * 4 + core * 2), pu(node * 4 + core * 2 + 1)}});
    inventory.topology.children.push_back(numa);
    inventory.total.numa.push_back({node, MilliCpus{4000}, Bytes{8LL << 30}});
  }
  inventory.total.cpus = MilliCpus{8000};
  inventory.total.mem = Bytes{16LL << 30};
  return inventory;
}

// What stays on the host when the agent dies: processes, and ends nobody was told of.
struct FakeHost {
  bool automatic = true;  // answers at once; else only remembers
  bool start_fails = false, carve_fails = false, ignores_sigterm = false;
  std::set<TaskKey> running;
  std::map<TaskKey, TaskEnded> ended;  // not forgotten
  std::map<TaskKey, int> started;      // how often it was really started
  std::map<TaskKey, TaskSpec> specs;
  std::vector<std::pair<TaskKey, int>> signals;
  std::vector<SliceSpec> carved;
};

class Rig {
 public:
  explicit Rig(std::string boot = "boot-1") : boot_(std::move(boot)) {
    now.mono = seconds(1000), now.wall = seconds(1'700'000'000);
  }

  Time now;
  Inventory hardware = two_nodes();               // what its probe finds
  std::map<std::string, std::string> probe_dies;  // how, by probe
  bool probe_hangs = false;                       // no answer at all
  std::vector<ProbePlan> probes = {"hwloc"};
  LendSettings lend;
  std::function<UsageSample()> usage;      // answers MeasureUsage
  std::map<std::string, Inventory> finds;  // of probes other than hwloc
  FakeHost host;
  std::unique_ptr<Agent> agent;
  std::string snapshot;
  std::vector<std::string> records;
  std::vector<Message> sent;  // since clear()
  std::vector<HostAction> host_actions;
  std::vector<std::string> logs;
  std::string went_to;               // the leader that the last reconnect named
  std::vector<std::string> masters;  // it was told of
  bool reconnected = false, stopped = false, fail_appends = false;
  Epoch epoch{7};
  int steps = 0, die_after = -1;  // crash when this many steps have been taken (-1: never)

  void boot(const std::string& name) { boot_ = name; }

  // Given: an agent that runs and was welcomed.
  void start(bool welcome = true) {
    AgentOptions options;
    options.id = AgentId("h1");
    options.boot_id = boot_;
    options.settings.probes = probes;
    options.settings.lend = lend;
    agent = std::make_unique<Agent>(options);
    timers_.clear();
    queue_.clear();
    incarnation_ = incarnation_.next();
    step(Started{incarnation_, snapshot, records});
    HostTasks tasks;
    tasks.running.assign(host.running.begin(), host.running.end());
    step(std::move(tasks));
    for (const auto& [key, ended] : std::map<TaskKey, TaskEnded>(host.ended)) step(ended);
    if (welcome) say(Welcome{kProtocolVersion, "c1", seconds(5), seconds(30), {}});
  }
  void crash() { agent.reset(); }
  void restart(bool welcome = true) {
    crash();
    start(welcome);
  }
  void reboot(const std::string& name) {
    crash();
    host.running.clear();
    host.ended.clear();
    boot_ = name;
    now.mono = seconds(10);  // the clock begins anew
  }

  void say(Body body) { step(Received{kMasterPeer, {}, Message{epoch, {}, {}, std::move(body)}}); }
  void say(Epoch from, Body body) { step(Received{kMasterPeer, {}, Message{from, {}, {}, std::move(body)}}); }

  void step(Event event) {
    queue_.push_back(std::move(event));
    if (busy_) return;
    busy_ = true;
    while (!queue_.empty() && agent) {
      const Event next = std::move(queue_.front());
      queue_.pop_front();
      one(next);
    }
    busy_ = false;
  }

  // Lets time pass, firing what is due on the way.
  void pass(Duration d) {
    const Duration until = now.mono + d;
    while (agent) {
      auto next = timers_.end();
      for (auto it = timers_.begin(); it != timers_.end(); ++it)
        if (it->second <= until && (next == timers_.end() || it->second < next->second)) next = it;
      if (next == timers_.end()) break;
      const Duration at = std::max(next->second, now.mono);
      now.wall += at - now.mono;
      now.mono = at;
      const TimerKey key = next->first;
      timers_.erase(next);
      step(TimerFired{key});
    }
    now.wall += until - now.mono;
    now.mono = until;
  }
  // The same, with a master that is heard every second.
  void pass_heard(Duration d) {
    for (; d > Duration(0); d -= seconds(1)) {
      pass(seconds(1));
      say(Heartbeat{});
    }
  }
  [[nodiscard]] std::size_t armed() const { return timers_.size(); }

  // The process of a task ends on the host.
  void process_ends(const TaskKey& key, int wait_status, bool known = true, bool oom = false) {
    if (host.running.erase(key) == 0) return;
    TaskEnded ended;
    ended.task = key;
    ended.known = known;
    ended.wait_status = wait_status;
    ended.out_of_memory = oom;
    ended.cpu = milliseconds(30);
    ended.mem_peak = Bytes{4096};
    host.ended[key] = ended;
    if (agent) step(ended);
  }

  template <class T>
  [[nodiscard]] std::vector<T> all() const {
    std::vector<T> found;
    for (const Message& m : sent)
      if (const T* body = std::get_if<T>(&m.body)) found.push_back(*body);
    return found;
  }
  [[nodiscard]] std::vector<TaskState> states(const std::string& task) const {
    std::vector<TaskState> found;
    for (const StatusUpdate& update : all<StatusUpdate>())
      if (update.status.task == TaskId(task)) found.push_back(update.status.state);
    return found;
  }
  [[nodiscard]] TaskStatus last_status(const std::string& task) const {
    TaskStatus found;
    for (const StatusUpdate& update : all<StatusUpdate>())
      if (update.status.task == TaskId(task)) found = update.status;
    return found;
  }
  void clear() { sent.clear(), host_actions.clear(), host.signals.clear(); }
  void ack_all(const std::string& framework = "batch") {
    Sequence last;
    StreamId stream;
    for (const StatusUpdate& update : all<StatusUpdate>())
      if (update.framework.str() == framework) last = std::max(last, update.sequence), stream = update.stream;
    if (last != Sequence{}) say(StatusAck{AgentId("h1"), FrameworkId(framework), stream, last});
  }

 private:
  void one(const Event& event) {
    if (die_after >= 0 && steps >= die_after) {
      crash();
      return;
    }
    ++steps;
    Actions out;
    out.ticket = static_cast<Ticket>(steps);
    agent->step(now, event, out);
    const bool appends = !out.appends.empty() || !out.compact.empty();
    if (fail_appends && appends) {
      queue_.push_back(AppendFailed{out.ticket, "no space left on device"});
      out.sends.clear();
    } else {
      for (Append& append : out.appends) records.push_back(std::move(append.record));
      if (!out.compact.empty()) snapshot = out.compact, records.clear();
      if (appends) queue_.push_back(Durable{out.ticket});
    }
    for (Arm& arm : out.arms) timers_[arm.key] = now.mono + arm.after;
    for (const TimerKey& key : out.disarms) timers_.erase(key);
    for (Send& send : out.sends) sent.push_back(std::move(send.message));
    logs.insert(logs.end(), out.logs.begin(), out.logs.end());
    reconnected = reconnected || out.reconnect;
    if (out.reconnect) went_to = out.leader;
    if (!out.masters.empty()) masters = out.masters;
    stopped = stopped || out.stop;
    for (const HostAction& action : out.host) act(action);
  }

  void act(const HostAction& action) {
    host_actions.push_back(action);
    if (const auto* run = std::get_if<RunProbe>(&action)) {
      const auto death = probe_dies.find(run->probe);
      if (death != probe_dies.end()) {
        queue_.push_back(ProbeDone{run->probe, {}, death->second});
      } else if (!probe_hangs || run->probe == "hwloc") {
        queue_.push_back(ProbeDone{run->probe, run->probe == "hwloc" ? hardware : finds[run->probe], {}});
      }
    }
    if (const auto* start = std::get_if<StartTask>(&action)) {
      host.specs[start->task] = start->spec;
      if (!host.automatic) return;
      if (host.start_fails) {
        queue_.push_back(TaskStartFailed{start->task, "chdir /x: No such file or directory"});
      } else if (host.ended.count(start->task) != 0) {
        queue_.push_back(host.ended[start->task]);
      } else {
        if (host.running.insert(start->task).second) ++host.started[start->task];
        queue_.push_back(TaskStarted{start->task, 100});
      }
    }
    if (const auto* signal = std::get_if<SignalTask>(&action)) {
      host.signals.emplace_back(signal->task, signal->signal);
      const bool deadly = signal->signal == SIGKILL || (signal->signal == SIGTERM && !host.ignores_sigterm);
      if (host.automatic && deadly && host.running.count(signal->task) != 0) {
        host.running.erase(signal->task);
        TaskEnded ended;
        ended.task = signal->task;
        ended.wait_status = signal->signal;
        host.ended[signal->task] = ended;
        queue_.push_back(ended);
      }
    }
    if (std::holds_alternative<MeasureUsage>(action) && usage) queue_.push_back(usage());
    if (const auto* forget = std::get_if<ForgetTask>(&action)) host.ended.erase(forget->task);
    if (const auto* carve = std::get_if<CarveSlice>(&action)) {
      host.carved.push_back(carve->spec);
      if (host.automatic) queue_.push_back(SliceCarved{carve->spec.id, host.carve_fails ? "mkdir: Permission denied" : ""});
    }
    if (const auto* erase = std::get_if<EraseSlice>(&action); erase != nullptr && host.automatic)
      queue_.push_back(SliceErased{erase->slice});
  }

  std::string boot_;
  Incarnation incarnation_{100};
  std::map<TimerKey, Duration> timers_;
  std::deque<Event> queue_;
  bool busy_ = false;
};

inline SliceId slice_id(std::uint64_t number, const std::string& framework = "batch") { return {FrameworkId(framework), number}; }
inline TaskKey task_key(const std::string& task, const std::string& framework = "batch") {
  return {FrameworkId(framework), TaskId(task)};
}

inline SliceSpec slice_spec(std::uint64_t number, std::int64_t milli = 1000, std::uint32_t node = 0) {
  SliceSpec spec;
  spec.id = slice_id(number);
  spec.resources.cpus = MilliCpus{milli};
  spec.resources.mem = Bytes{1LL << 30};
  spec.resources.numa = {{node, MilliCpus{milli}, Bytes{1LL << 30}}};
  return spec;
}

inline TaskSpec task_spec(const std::string& user = "alice") {
  TaskSpec spec;
  spec.user = user;
  spec.uid = spec.gid = 1000;
  spec.argv = {"/bin/true"};
  spec.directory = "/";
  spec.kill_grace = seconds(10);
  return spec;
}

inline Launch launch(const std::string& task, std::uint64_t slice, const TaskSpec& spec = task_spec()) {
  return Launch{AgentId("h1"), slice_id(slice), TaskId(task), wire::encode_task(spec)};
}
inline CarveSlices carve(std::vector<SliceSpec> specs) { return CarveSlices{std::move(specs), false, {}}; }
inline Kill kill_task(const std::string& task) {
  Kill kill;
  kill.agent = AgentId("h1");
  kill.framework = FrameworkId("batch");
  kill.task = TaskId(task);
  return kill;
}
inline Reconcile reconcile(std::vector<std::string> tasks) {
  Reconcile r{AgentId("h1"), FrameworkId("batch"), {}};
  for (const std::string& task : tasks) r.tasks.push_back(TaskId(task));
  return r;
}

}  // namespace bourse::testing
