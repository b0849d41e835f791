// What an agent lends, taken back under pressure, in the simulated cluster and under all checkers: who owns his slices loses nothing.
#include <gtest/gtest.h>

#include "agent/agent.h"
#include "cluster.h"

namespace bourse::sim {
namespace {

struct Watcher final : Observer {
  explicit Watcher(World& world) : world_(world) { world.observe(*this); }
  void session(Node& framework, const SessionEvent& event) override {
    if (const auto* update = std::get_if<TaskUpdate>(&event); update != nullptr && update->status.state == TaskState::kPreempted) {
      ++preempted[framework.name()];
      reason = update->status.message;
    }
    if (const auto* lost = std::get_if<SliceLost>(&event); lost != nullptr && lost->end == SliceEnd::kRevoked)
      ++revoked[framework.name()];
    if (const auto* made = std::get_if<OfferMade>(&event); made != nullptr && made->offer.revocable) ++lent[framework.name()];
  }
  World& world_;
  std::map<std::string, int> preempted, revoked, lent;
  std::string reason;
};

struct Outcome {
  std::string failure, reason;
  std::uint64_t hash = 0;
  int owner_preempted = 0, owner_lent = 0, borrower_preempted = 0, borrower_revoked = 0;
  std::size_t borrowed_before = 0, borrowed_in_storm = 0, borrowed_after = 0, owned_ended_early = 0;
};

std::size_t running(const World& world, const std::string& framework) {
  std::size_t n = 0;
  for (const auto& [key, execution] : world.executions())
    if (key.framework.str() == framework && execution.started >= Duration(0) && execution.ended < Duration(0)) ++n;
  return n;
}

Outcome run_with(std::uint64_t seed, bool restart_agent) {
  WorldOptions options;
  options.seed = seed;
  World world(options, [](const TaskKey&, const TaskSpec&) {
    TaskPlan plan;
    plan.run = seconds(500);
    return plan;
  });
  Checkers checkers(world);
  Watcher watcher(world);
  world.add_master([] { return std::make_unique<Master>(MasterOptions{}); });
  const AgentId id("h1");
  Node& agent = world.add_agent(id, host_inventory("h1", 4, 1), [id](const std::string& boot_id) {
    AgentOptions made;
    made.id = id;
    made.boot_id = boot_id;
    made.settings.probes = {"hwloc"};
    made.settings.lend.on = true;
    made.settings.lend.every = seconds(1);
    made.settings.lend.slack = {seconds(10), seconds(5), 100};
    made.settings.lend.pressure = {600, 400, milliseconds(500), seconds(2)};
    return std::make_unique<Agent>(made);
  });
  agent.host()->usage_of = [](const SliceSpec& spec, Duration now) {
    UsageSample::Slice use;
    use.slice = spec.id;
    use.cpu = now / 10;  // a tenth of a core
    use.mem = Bytes(spec.resources.mem.value / 10);
    return use;
  };
  const auto framework = [&](const std::string& name, std::uint32_t tasks, bool revocable) {
    ToyOptions toy;
    toy.name = name;
    toy.singles = tasks;
    toy.gangs = 0;
    toy.kills = false;
    toy.ignore_permille = toy.follow_permille = 0;
    toy.seed = seed;
    toy.revocable = revocable;
    toy.time_limit = seconds(1000);
    ClientOptions client;
    client.framework = FrameworkId(name);
    client.role = RoleName("role-" + name);
    world.add_framework(client, [toy] { return std::make_unique<Toy>(toy); });
  };
  framework("owner", 4, false);
  framework("borrower", 20, true);
  for (std::size_t i = 0; i < world.nodes(); ++i) world.node(static_cast<std::uint32_t>(i)).start();

  Outcome outcome;
  world.queue().after(seconds(59), [&] { outcome.borrowed_before = running(world, "borrower"); });
  for (int i = 0; i < 10; ++i) world.queue().after(seconds(60 + 2 * i), [&] { agent.host()->press(800); });
  if (restart_agent) {
    world.queue().after(seconds(65), [&] { agent.kill(); });
    world.queue().after(seconds(66), [&] { agent.start(); });
  }
  world.queue().after(seconds(80), [&] {
    outcome.borrowed_in_storm = running(world, "borrower");
    agent.host()->press(100);
  });
  world.queue().after(seconds(150), [&] { outcome.borrowed_after = running(world, "borrower"); });
  world.run_until([&] { return world.now() > seconds(151); }, std::chrono::minutes(10));
  outcome.failure = world.violated();
  outcome.hash = world.trace().hash();
  outcome.owner_preempted = watcher.preempted["owner"], outcome.owner_lent = watcher.lent["owner"];
  outcome.borrower_preempted = watcher.preempted["borrower"], outcome.borrower_revoked = watcher.revoked["borrower"];
  outcome.reason = watcher.reason;
  for (const auto& [key, execution] : world.executions())
    if (key.framework.str() == "owner" && execution.ended >= Duration(0)) ++outcome.owned_ended_early;
  return outcome;
}

TEST(Lending, UnderPressureOnlyWhoBorrowsLosesAnything) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const Outcome outcome = run_with(seed, false);
    EXPECT_EQ(outcome.failure, "") << "seed " << seed;
    EXPECT_GE(outcome.borrowed_before, 2U) << "seed " << seed;
    EXPECT_GE(outcome.borrower_preempted, 2) << "seed " << seed;
    EXPECT_GE(outcome.borrower_revoked, 2) << "seed " << seed;
    EXPECT_NE(outcome.reason.find("memory pressure of the host: some avg10 is 80, the limit is 60"), std::string::npos)
        << outcome.reason;
    EXPECT_EQ(outcome.owner_preempted, 0) << "seed " << seed;
    EXPECT_EQ(outcome.owner_lent, 0) << "seed " << seed;
    EXPECT_EQ(outcome.owned_ended_early, 0U) << "seed " << seed;
    EXPECT_GE(outcome.borrowed_after, outcome.borrowed_before) << "when it is over, it is lent again, seed " << seed;
  }
}

TEST(Lending, TheSameThroughARestartOfTheAgent) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const Outcome outcome = run_with(seed, true);
    EXPECT_EQ(outcome.failure, "") << "seed " << seed;
    EXPECT_GE(outcome.borrower_preempted, 1) << "seed " << seed;
    EXPECT_EQ(outcome.owner_preempted, 0) << "seed " << seed;
    EXPECT_EQ(outcome.owned_ended_early, 0U) << "seed " << seed;
  }
}

TEST(Lending, SameSeedSameTrace) { EXPECT_EQ(run_with(3, true).hash, run_with(3, true).hash); }

}  // namespace
}  // namespace bourse::sim
