// Priorities of roles, a reservation and a maintenance window in the simulated cluster, under all checkers and all faults.
#include <gtest/gtest.h>

#include <algorithm>

#include "cluster.h"

namespace bourse::sim {
namespace {

constexpr Duration kGrace = seconds(2);

// Whom the master takes slices from, with which notice, and to whom what is reserved is offered.
struct Watcher final : Observer {
  Watcher(World& world, bool faults) : world_(world), faults_(faults) { world.observe(*this); }
  void stepped(Node& node, const Event& event) override {
    if (node.kind() != Node::Kind::kMaster) return;
    if (std::holds_alternative<Started>(event)) told_.clear(), frameworks_.clear();
    const auto* received = std::get_if<Received>(&event);
    if (received == nullptr) return;
    if (const auto* hello = std::get_if<FrameworkHello>(&received->message.body)) frameworks_[received->peer] = hello->role;
  }
  void sent(Node& from, const Send& send) override {
    if (from.kind() != Node::Kind::kMaster) return;
    if (const auto* told = std::get_if<SliceRevoking>(&send.message.body)) {
      ++revoking;
      told_.emplace(told->slice, world_.now());
      const bool preempted = told->reason.starts_with("preempted");
      if (preempted && told->slice.framework == FrameworkId("high"))
        world_.violation("slice " + to_text(told->slice) + " of the highest priority is preempted");
    } else if (const auto* release = std::get_if<ReleaseSlices>(&send.message.body)) {
      for (const SliceId& slice : release->slices) {
        if (!release->revoke) continue;
        ++taken;
        const auto before = told_.find(slice);
        if (before == told_.end() && faults_) continue;  // by a master that is no more, or its framework was not there
        if (before == told_.end()) {
          world_.violation("slice " + to_text(slice) + " is taken without a word to its framework");
          continue;
        }
        if (world_.now() < before->second + kGrace - milliseconds(100))
          world_.violation("slice " + to_text(slice) + " is taken before its grace is over");
      }
    } else if (const auto* offers = std::get_if<Offers>(&send.message.body)) {
      for (const Offer& offer : offers->offers) {
        if (offer.reserved.empty()) continue;
        ++reserved;
        const auto role = frameworks_.find(send.to);
        if (role != frameworks_.end() && role->second != RoleName("high"))
          world_.violation("offer " + std::to_string(offer.id.value) + " of reservation " + offer.reserved + " goes to role " +
                           role->second.str());
      }
    }
  }
  World& world_;
  bool faults_;
  std::map<PeerId, RoleName> frameworks_;
  std::map<SliceId, Duration> told_;
  std::uint64_t revoking = 0, taken = 0, reserved = 0;
};

struct Outcome {
  std::string failure;
  std::uint64_t hash = 0, revoking = 0, taken = 0, reserved = 0;
};

Outcome run_with(std::uint64_t seed, bool faults) {
  Rng rng = Rng(seed).fork("preempt");
  WorldOptions options;
  options.seed = seed;
  World world(options, [](const TaskKey& key, const TaskSpec&) {
    TaskPlan plan = plan_of(key);
    plan.start_error.clear();
    if (key.framework != FrameworkId("high")) plan.run = std::max(plan.run, Duration(seconds(6)));  // there when they are wanted
    return plan;
  });
  Checkers checkers(world);
  Watcher watcher(world, faults);
  world.add_master([] {
    MasterOptions master;
    master.revoke_grace = kGrace;
    return std::make_unique<Master>(master);
  });
  add_agents(world, 4);
  std::vector<Node*> toys;
  for (const char* name : {"low1", "low2", "high"}) {
    ToyOptions toy;
    toy.name = name;
    toy.singles = toy.name == "high" ? 12 : 24;
    toy.gangs = 2;
    toy.gang_size = toy.name == "high" ? 3 : 2;
    toy.kills = false;
    toy.ignore_permille = 20;
    toy.seed = seed + toys.size();
    ClientOptions client;
    client.framework = FrameworkId(toy.name);
    client.role = RoleName(toy.name);
    toys.push_back(&world.add_framework(client, [toy] { return std::make_unique<Toy>(toy); }));
  }
  // An operator's words, to whatever master there is. The first ones are said again until it has heard them.
  std::uint64_t tag = 0;
  const auto say = [&](const std::string& action, const std::string& target,
                       std::vector<std::pair<std::string, std::string>> parameters) {
    Node* master = world.master();
    if (master == nullptr || !master->alive()) return;
    Message hello, order;
    hello.body = ReaderHello{kProtocolVersion, "op"};
    order.body = OperatorAction{++tag, action, target, "test", std::move(parameters)};
    master->post(Received{PeerId(1'000'000), "operator:op", hello});
    master->post(Received{PeerId(1'000'000), "operator:op", order});
  };
  for (int again = 1; again <= 5; ++again) {
    world.queue().after(seconds(again * 4), [&] {
      say("set-role", "high", {{"priority", "10"}});
      say("set-role", "low2", {{"guarantee.cpus", "2"}});
    });
  }
  for (int again = 0; again < 5; ++again) {
    world.queue().after(seconds(8 + again * 9), [&] {
      say("reserve", "lease", {{"role", "high"}, {"agents", "h3"}, {"amount.cpus", "1"}, {"duration", "40s"}});
      say("reserve", "fans", {{"maintenance", "yes"}, {"agents", "h2"}, {"duration", "8s"}});
    });
  }
  // A wall clock that was set back would keep them for another hour.
  for (int again = 0; faults && again < 20; ++again) {
    world.queue().after(seconds(105 + again * 30), [&] {
      say("release-reservation", "lease", {});
      say("release-reservation", "fans", {});
    });
  }
  // The high ones come when the low ones have what there is.
  for (std::size_t i = 0; i < world.nodes(); ++i) {
    Node& node = world.node(static_cast<std::uint32_t>(i));
    world.queue().after(node.name() == "high" ? seconds(10) : Duration(rng.between(0, 500'000)), [&node] { node.start(); });
  }
  std::optional<Swarm> swarm;
  if (faults) {
    swarm.emplace(world, seed);
    swarm->begin();
    world.run_until(Duration(rng.between(40'000'000, 90'000'000)));
    swarm->heal();
  }
  Outcome outcome;
  const bool rest = world.run_until(
      [&] {
        return world.now() > seconds(110) &&
               std::all_of(toys.begin(), toys.end(),
                           [](Node* node) {
                             const auto* toy = dynamic_cast<const Toy*>(node->actor());
                             return toy != nullptr && toy->done();
                           }) &&
               leaks(world).empty();
      },
      std::chrono::minutes(20));
  if (!rest) {
    outcome.failure = "not at rest: " + leaks(world);
    for (Node* node : toys)
      if (const auto* toy = dynamic_cast<const Toy*>(node->actor())) outcome.failure += "; " + node->name() + toy->unfinished();
  }
  if (!world.violated().empty()) outcome.failure = world.violated();
  outcome.hash = world.trace().hash();
  outcome.revoking = watcher.revoking, outcome.taken = watcher.taken, outcome.reserved = watcher.reserved;
  return outcome;
}

TEST(PreemptSim, ThePriorityIsServedAndNobodyIsForgotten) {
  std::uint64_t revoking = 0, taken = 0, reserved = 0;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    const Outcome outcome = run_with(seed, false);
    EXPECT_EQ(outcome.failure, "") << "seed " << seed;
    revoking += outcome.revoking, taken += outcome.taken, reserved += outcome.reserved;
  }
  EXPECT_GT(revoking, 0U);
  EXPECT_GT(taken, 0U);
  EXPECT_GT(reserved, 0U);
}

TEST(PreemptSim, TheSameUnderFaults) {
  std::uint64_t revoking = 0, reserved = 0;
  for (std::uint64_t seed = 101; seed <= 112; ++seed) {
    const Outcome outcome = run_with(seed, true);
    EXPECT_EQ(outcome.failure, "") << "seed " << seed;
    revoking += outcome.revoking, reserved += outcome.reserved;
  }
  EXPECT_GT(revoking, 0U);
  EXPECT_GT(reserved, 0U);
}

TEST(PreemptSim, SameSeedSameTrace) { EXPECT_EQ(run_with(105, true).hash, run_with(105, true).hash); }

}  // namespace
}  // namespace bourse::sim
