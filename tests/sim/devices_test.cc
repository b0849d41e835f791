// Devices that vanish and come back, and probes that die, while tasks have them: in the simulated cluster, under all checkers.
#include <gtest/gtest.h>

#include "agent/agent.h"
#include "cluster.h"

namespace bourse::sim {
namespace {

Inventory with_gpus(const std::string& host, const std::vector<std::string>& names) {
  Inventory inventory = host_inventory(host, 4, 1);
  for (const std::string& name : names) {
    Device device;
    device.id = DeviceId(host + "-" + name);
    device.kind = "gpu/x";
    device.counters.set("mem", 16000);
    inventory.devices.push_back(device);
    inventory.total.devices.push_back({device.id, device.kind, {}, true, {}, device.counters});
  }
  return inventory;
}

// What frameworks are offered, and what they are told of their slices.
struct Watcher final : Observer {
  explicit Watcher(World& world) : world_(world) { world.observe(*this); }
  void sent(Node& from, const Send& send) override {
    (void)from;
    const auto* offers = std::get_if<Offers>(&send.message.body);
    if (offers == nullptr) return;
    for (const Offer& offer : offers->offers)
      for (const DeviceShare& share : offer.resources.devices) {
        const auto gone = gone_at.find(share.device);
        if (gone != gone_at.end() && world_.now() > gone->second + seconds(2))
          world_.violation("device " + share.device.str() + " was offered after it had gone");
        ++offered;
      }
  }
  void session(Node& framework, const SessionEvent& event) override {
    (void)framework;
    const auto* ready = std::get_if<SliceReady>(&event);
    if (ready != nullptr && !ready->unhealthy.empty()) unhealthy.push_back(ready->unhealthy);
  }
  World& world_;
  std::map<DeviceId, Duration> gone_at;
  std::vector<std::string> unhealthy;
  std::uint64_t offered = 0;
};

struct Outcome {
  std::string failure;
  std::uint64_t hash = 0, offered = 0;
  std::vector<std::string> unhealthy;
  std::size_t executions = 0;
};

Outcome run_with(std::uint64_t seed, bool restart_agent) {
  WorldOptions options;
  options.seed = seed;
  World world(options, [](const TaskKey&, const TaskSpec&) {
    TaskPlan plan;
    plan.run = seconds(4);
    return plan;
  });
  Checkers checkers(world);
  Watcher watcher(world);
  world.add_master([] { return std::make_unique<Master>(MasterOptions{}); });
  std::vector<Node*> agents;
  for (const char* name : {"h1", "h2"}) {
    const AgentId id(name);
    agents.push_back(&world.add_agent(id, with_gpus(name, {"a", "b"}), [id](const std::string& boot_id) {
      AgentOptions agent;
      agent.id = id;
      agent.boot_id = boot_id;
      agent.settings.probes = {"hwloc"};
      return std::make_unique<Agent>(agent);
    }));
  }
  ToyOptions toy;
  toy.singles = 16;
  toy.gangs = 0;
  toy.kills = false;
  toy.ignore_permille = toy.follow_permille = 0;  // a device each, and every one in use
  toy.seed = seed;
  toy.device_kind = "gpu/x";
  ClientOptions client;
  client.framework = FrameworkId(toy.name);
  client.role = RoleName("role");
  Node& framework = world.add_framework(client, [toy] { return std::make_unique<Toy>(toy); });
  for (std::size_t i = 0; i < world.nodes(); ++i) world.node(static_cast<std::uint32_t>(i)).start();

  const DeviceId vanishing("h1-a");
  world.queue().after(seconds(3), [&] {
    agents[0]->host()->set_inventory(with_gpus("h1", {"b"}));
    watcher.gone_at[vanishing] = world.now();
  });
  if (restart_agent) {
    world.queue().after(seconds(4), [&] { agents[0]->kill(); });
    world.queue().after(seconds(5), [&] { agents[0]->start(); });
  }
  world.queue().after(seconds(6), [&] {
    agents[1]->host()->probe_death = "crashed: SIGSEGV (signal 11)";
    agents[1]->host()->set_inventory(with_gpus("h2", {"a", "b"}));  // a look that fails: nothing may be lost by it
  });
  world.queue().after(seconds(12), [&] {
    watcher.gone_at.erase(vanishing);
    agents[0]->host()->set_inventory(with_gpus("h1", {"a", "b"}));
    agents[1]->host()->probe_death.clear();
  });

  Outcome outcome;
  const bool rest = world.run_until(
      [&] {
        const auto* actor = dynamic_cast<const Toy*>(framework.actor());
        return world.now() > seconds(13) && actor != nullptr && actor->done() && leaks(world).empty();
      },
      std::chrono::minutes(10));
  if (!rest) outcome.failure = "not at rest: " + leaks(world);
  if (!world.violated().empty()) outcome.failure = world.violated();
  outcome.hash = world.trace().hash();
  outcome.unhealthy = watcher.unhealthy;
  outcome.offered = watcher.offered;
  outcome.executions = world.executions().size();
  return outcome;
}

TEST(Devices, ThatVanishUnderTasksAreNotOfferedAndLoseNoTask) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const Outcome outcome = run_with(seed, false);
    EXPECT_EQ(outcome.failure, "") << "seed " << seed;
    EXPECT_GE(outcome.offered, 16u);
    EXPECT_GE(outcome.executions, 16u);
    // The task that had it is told, in every seed: four tasks at a time on four devices.
    ASSERT_FALSE(outcome.unhealthy.empty()) << "seed " << seed;
    EXPECT_EQ(outcome.unhealthy[0], "device h1-a is not on this host");
  }
}

TEST(Devices, TheSameThroughARestartOfTheAgent) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const Outcome outcome = run_with(seed, true);
    EXPECT_EQ(outcome.failure, "") << "seed " << seed;
    EXPECT_FALSE(outcome.unhealthy.empty()) << "seed " << seed;
  }
}

TEST(Devices, SameSeedSameTrace) { EXPECT_EQ(run_with(3, true).hash, run_with(3, true).hash); }

}  // namespace
}  // namespace bourse::sim
