#include "cluster.h"

#include <algorithm>
#include <cstdio>

#include "agent/agent.h"
#include "common/core/fnv.h"

namespace bourse::sim {

Inventory host_inventory(const std::string& name, std::uint32_t cores, std::uint32_t nodes) {
  Inventory inventory;
  inventory.version = Version(1);
  inventory.topology.type = "machine";
  inventory.topology.name = name;
  std::uint32_t pu = 0;
  for (std::uint32_t n = 0; n < nodes; ++n) {
    TopologyNode numa;
    numa.type = "numa";
    numa.index = n;
    numa.amount = std::int64_t{cores} << 30;
    NumaAmount amount{n, MilliCpus{1000 * std::int64_t{cores}}, Bytes{std::int64_t{cores} << 30}};
    for (std::uint32_t c = 0; c < cores; ++c) {
      TopologyNode core, unit;
      core.type = "core";
      core.index = pu;
      unit.type = "pu";
      unit.index = pu++;
      core.children.push_back(unit);
      numa.children.push_back(core);
    }
    inventory.topology.children.push_back(numa);
    inventory.total.cpus.value += amount.cpus.value;
    inventory.total.mem.value += amount.mem.value;
    inventory.total.numa.push_back(amount);
  }
  inventory.labels = {{"host", name}, {"arch", "x86_64"}};
  return inventory;
}

void add_agents(World& world, std::uint32_t count, std::uint32_t masters) {
  for (std::uint32_t i = 1; i <= count; ++i) {
    const AgentId id("h" + std::to_string(i));
    world.add_agent(id, host_inventory(id.value, 2, i % 2 == 0 ? 2 : 1), [id, masters](const std::string& boot_id) {
      AgentOptions agent;
      agent.masters = masters;
      agent.id = id;
      agent.boot_id = boot_id;
      agent.settings.probes = {"hwloc"};
      return std::make_unique<Agent>(agent);
    });
  }
}

namespace {

// What happened, one line an event, for whoever looks at a seed (BOURSE_SIM_LOG=1).
class Printer final : public Observer {
 public:
  explicit Printer(World& world) : world_(world) { world.observe(*this); }
  void stepped(Node& node, const Event& event) override {
    std::visit([&](const auto& e) { on(node, e); }, event);
  }

 private:
  void line(const Node& node, const std::string& text) {
    std::fprintf(stderr, "%14.6f %-8s %s\n", static_cast<double>(world_.now().count()) / 1e6, node.name().c_str(), text.c_str());
  }
  static std::string about(const Launch& b) { return b.task.value + " in " + to_text(b.slice); }
  static std::string about(const Kill& b) { return b.task.value; }
  static std::string about(const StatusUpdate& b) {
    return b.framework.value + "/" + b.status.task.value + " " + std::string(task_state_text(b.status.state)) +
           " stream=" + std::to_string(b.stream.value) + " sequence=" + std::to_string(b.sequence.value);
  }
  static std::string about(const StatusAck& b) {
    return b.framework.value + " on " + b.agent.value + " stream=" + std::to_string(b.stream.value) +
           " through=" + std::to_string(b.through.value);
  }
  static std::string about(const Reconcile& b) {
    std::string out = b.framework.value + " on " + b.agent.value;
    for (const TaskId& id : b.tasks) out += " " + id.value;
    return out;
  }
  static std::string about(const LaunchRefused& b) { return b.task.value + " " + b.reason; }
  static std::string about(const SliceUp& b) { return to_text(b.spec.id) + " on " + b.agent.value; }
  static std::string about(const SliceGone& b) { return to_text(b.slice) + " on " + b.agent.value + " " + b.reason; }
  static std::string about(const CarveSlices& b) {
    std::string out = b.hold ? "hold" : "";
    for (const SliceSpec& s : b.slices) out += " " + to_text(s.id);
    return out;
  }
  static std::string about(const GangHeld& b) {
    return b.framework.value + " gang=" + std::to_string(b.gang.value) + " " + b.reason;
  }
  static std::string about(const CommitGang& b) { return b.framework.value + " gang=" + std::to_string(b.gang.value); }
  static std::string about(const AbortGang& b) { return b.framework.value + " gang=" + std::to_string(b.gang.value); }
  static std::string about(const ReleaseSlices& b) {
    std::string out;
    for (const SliceId& s : b.slices) out += " " + to_text(s);
    return out;
  }
  static std::string about(const Accept& b) {
    std::string out = "sequence=" + std::to_string(b.sequence.value) + " gang=" + std::to_string(b.gang.value);
    for (const Accept::Item& i : b.items) {
      out += " offer=" + std::to_string(i.offer.value);
      for (const Accept::Slice& s : i.slices) out += " #" + std::to_string(s.number);
    }
    return out;
  }
  static std::string about(const AcceptReply& b) {
    std::string out = "sequence=" + std::to_string(b.sequence.value);
    for (const AcceptReply::Item& i : b.items) out += " " + std::string(code_text(i.code)) + " " + i.reason;
    return out;
  }
  static std::string about(const Offers& b) {
    std::string out;
    for (const Offer& o : b.offers)
      out +=
          " " + std::to_string(o.id.value) + " line=" + std::to_string(o.line) + " " + o.agent.value + " " + to_text(o.resources);
    return out;
  }
  static std::string about(const Demand& b) {
    std::string out = "version=" + std::to_string(b.version.value);
    for (const DemandLine& l : b.lines) out += " " + std::to_string(l.id) + "x" + std::to_string(l.count);
    return out;
  }
  static std::string about(const Refused& b) { return b.reason; }
  template <class Other>
  static std::string about(const Other&) {
    return {};
  }
  void on(Node& node, const Received& e) {
    if (std::holds_alternative<Heartbeat>(e.message.body)) return;
    line(node, "< " + std::string(body_name(e.message.body)) + " " +
                   std::visit([](const auto& b) { return about(b); }, e.message.body) + " peer=" + std::to_string(e.peer.value) +
                   " epoch=" + std::to_string(e.message.epoch.value));
  }
  void on(Node& node, const Started& e) { line(node, "started incarnation=" + std::to_string(e.incarnation.value)); }
  void on(Node& node, const TaskStarted& e) { line(node, "task started " + to_text(e.task)); }
  void on(Node& node, const TaskStartFailed& e) { line(node, "start failed " + to_text(e.task) + " " + e.reason); }
  void on(Node& node, const TaskEnded& e) {
    line(node, "task ended " + to_text(e.task) + " status=" + std::to_string(e.wait_status));
  }
  void on(Node& node, const SliceCarved& e) { line(node, "carved " + to_text(e.slice) + " " + e.error); }
  void on(Node& node, const SliceErased& e) { line(node, "erased " + to_text(e.slice)); }
  void on(Node& node, const HostTasks& e) {
    std::string out;
    for (const TaskKey& key : e.running) out += " " + to_text(key);
    line(node, "host tasks" + out + (e.rebooted ? " rebooted" : ""));
  }
  void on(Node& node, const LauncherLost&) { line(node, "launcher lost"); }
  void on(Node& node, const PeerLost& e) { line(node, "peer lost " + std::to_string(e.peer.value)); }
  void on(Node& node, const AppendFailed& e) { line(node, "append failed " + e.reason); }
  template <class Other>
  void on(Node&, const Other&) {}

  World& world_;
};

}  // namespace

// From the task's name alone, so that it is the same whatever the order of events was.
TaskPlan plan_of(const TaskKey& key) {
  Rng rng(fnv1a(key.framework.value + "/" + key.task.value));
  TaskPlan plan;
  plan.run = rng.chance(100) ? seconds(60) : Duration(rng.between(10'000, 8'000'000));  // some run into their time limit
  plan.wait_status = rng.chance(200) ? static_cast<std::int32_t>(rng.between(1, 3)) << 8 : 0;
  plan.ignores_term = rng.chance(100);
  if (rng.chance(50)) plan.start_error = "chdir /nowhere: No such file or directory";
  return plan;
}

RunResult run(const RunOptions& options) {
  Rng rng = Rng(options.seed).fork("run");
  WorldOptions world_options;
  world_options.seed = options.seed;
  world_options.log_to_stderr = options.log;
  world_options.network.wire = options.wire.value_or(rng.chance(200));
  world_options.network.duplicate_permille = options.duplicate_permille;
  world_options.network.ghost_permille = options.ghost_permille;
  if (options.slow) {
    world_options.network.slow_permille = 300;
    world_options.network.delay_slow = seconds(2);
  }
  World world(world_options, [](const TaskKey& key, const TaskSpec&) { return plan_of(key); });
  Checkers checkers(world);
  std::optional<Printer> printer;
  if (options.log) printer.emplace(world);

  if (options.masters == 1) {
    world.add_master([] { return std::make_unique<Master>(MasterOptions{}); });
  } else {
    Raft::Options raft;
    for (std::uint32_t i = 1; i <= options.masters; ++i) {
      const std::string name = "m" + std::to_string(i);
      raft.peers.push_back({raft_id_of(name), name, "tcp://" + name, 0});
    }
    raft.lease = options.lease;
    if (Rng knobs = Rng(options.seed).fork("raft"); knobs.chance(600)) {
      raft.snapshot_every = static_cast<std::uint64_t>(knobs.between(3, 40));
      raft.trailing = static_cast<std::uint64_t>(knobs.between(1, 20));
    }
    for (const RaftServer& peer : raft.peers) {
      raft.name = peer.name;
      raft.address = peer.address;
      raft.endpoint = "sim://" + peer.name;
      world.add_master(
          [name = peer.name] {
            MasterOptions master;
            master.replicated = true;
            master.name = name;
            master.endpoint = "sim://" + name;
            return std::make_unique<Master>(master);
          },
          raft);
    }
  }
  add_agents(world, options.agents, options.masters);
  std::vector<Node*> toys;
  for (std::uint32_t i = 1; i <= options.frameworks; ++i) {
    ToyOptions toy;
    toy.name = "toy" + std::to_string(i);
    toy.singles = options.singles;
    toy.gangs = options.gangs;
    toy.gang_size = 1 + i;
    toy.ignore_permille = options.ignore_permille;
    toy.seed = options.seed + i;
    ClientOptions client;
    client.framework = FrameworkId(toy.name);
    client.masters = options.masters;
    client.role = RoleName("role" + std::to_string(i));
    client.watch_agents = i % 2 == 0;
    toys.push_back(&world.add_framework(client, [toy] { return std::make_unique<Toy>(toy); }));
  }
  for (std::size_t i = 0; i < world.nodes(); ++i) {
    world.queue().after(Duration(rng.between(0, 500'000)), [&world, i] { world.node(static_cast<std::uint32_t>(i)).start(); });
  }

  RunResult result;
  std::optional<Swarm> swarm;  // its calls may be in the queue until the end
  if (options.swarm) {
    if (options.only.empty()) {
      swarm.emplace(world, options.seed);
    } else {
      swarm.emplace(world, options.seed, options.only);
    }
    swarm->begin();
    world.run_until(options.faults_for > Duration(0) ? options.faults_for : Duration(rng.between(30'000'000, 150'000'000)));
    swarm->heal();
    result.faults = swarm->faults();
    result.kinds = swarm->text();
  }
  const auto all_done = [&] {
    return std::all_of(toys.begin(), toys.end(), [](Node* node) {
      const auto* toy = dynamic_cast<const Toy*>(node->actor());
      return toy != nullptr && toy->done();
    });
  };
  constexpr Duration kPatience = std::chrono::minutes(20);
  const bool rest =
      world.run_until([&] { return all_done() && leaks(world).empty() && registries_differ(world).empty(); }, kPatience);
  if (!rest) {
    std::string waiting;
    for (Node* node : toys) {
      if (const auto* toy = dynamic_cast<const Toy*>(node->actor())) waiting += toy->unfinished();
    }
    result.failure = format_duration(kPatience) + " after the last fault the cluster is not at rest:" +
                     (waiting.empty() ? " all tasks are done, but " + leaks(world) + registries_differ(world) : waiting);
  }
  if (!world.violated().empty()) result.failure = world.violated();
  result.hash = world.trace().hash();
  result.events = world.events();
  result.virtual_time = world.now();
  result.leaderships = checkers.masters.leaderships();
  result.executions = world.executions().size();
  return result;
}

}  // namespace bourse::sim
