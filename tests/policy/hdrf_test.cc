// hdrf: Mesos's published hierarchical order (the naive sums), where scaling changes it, and the example with which Bhattacharya et al.
// (SoCC 2013) show that naive hierarchical fairness starves.
#include "tests/policy/rig.h"

namespace bourse::test {
namespace {

TEST(Hdrf, NaiveSumsOrderAsMesosSorterDoes) {
  PolicyRig rig("hdrf:tree=naive");
  rig.host->total(amounts(100, 100));
  const auto b = rig.account("b");
  rig.claimant("a", amounts(6, 6));
  rig.claimant("b/c", amounts(4, 4), 1000, b);
  rig.claimant("b/d", amounts(3, 3), 1000, b);
  EXPECT_EQ(rig.order(), "a b/d b/c");
  rig.gets(rig["a"], amounts(2, 2));
  EXPECT_EQ(rig.order(), "b/d b/c a");
  // f holds 3.5: all amounts doubled.
  PolicyRig doubled("hdrf:tree=naive");
  doubled.host->total(amounts(200, 200));
  const auto b2 = doubled.account("b"), e2 = doubled.account("b/e", b2);
  doubled.claimant("a", amounts(16, 16));
  doubled.claimant("b/c", amounts(8, 8), 1000, b2);
  doubled.claimant("b/d", amounts(6, 6), 1000, b2);
  doubled.claimant("b/e/f", amounts(7, 7), 1000, e2);
  EXPECT_EQ(doubled.order(), "a b/d b/e/f b/c");
}

TEST(Hdrf, ScalesChildrenToTheLeast) {
  PolicyRig rig("hdrf");
  rig.host->total(amounts(100, 100));
  const auto b = rig.account("b");
  rig.claimant("a", amounts(6, 6));
  rig.claimant("b/c", amounts(4, 4), 1000, b);
  rig.claimant("b/d", amounts(3, 3), 1000, b);
  // c counts as d does: b has .06 (naive .07), a tie with a, which sorts first.
  EXPECT_EQ(rig.order(), "a b/d b/c");
  rig.gets(rig["a"], amounts(1, 0));
  // Now .07 against .06; under naive sums it would still be a tie.
  EXPECT_EQ(rig.order(), "b/d b/c a");
}

// Ten CPUs and ten accelerators. n1 wants CPUs; n2 has a child that wants CPUs and one that holds all accelerators. Under naive sums
// those make n2 rich, and its first child starves.
std::vector<int> starvation(const std::string& spec) {
  PolicyRig rig(spec);
  rig.host->total(amounts(10, 0, 10'000));
  const auto n2 = rig.account("n2");
  Shape cpu, accelerator;
  cpu.cpus = MilliCpus(1);
  DeviceAsk ask;
  ask.kind = "d";
  accelerator.devices.push_back(ask);
  std::vector<Usage> used = {amounts(0, 0), amounts(0, 0), amounts(0, 0, 10'000)};
  const auto tell = [&](std::uint32_t h, const char* name, std::uint32_t account, const Shape& shape) {
    rig.host->claimant({.handle = h, .account = account, .units = 1, .name = name, .used = &used[h], .shape = &shape});
  };
  tell(0, "n1", policy::kNone, cpu);
  tell(1, "n2.1", n2, cpu);
  tell(2, "n2.2", n2, accelerator);
  rig.host->account_used(n2, used[2]);
  std::vector<int> got(3, 0);
  for (int left = 10; left > 0; --left) {
    rig.host->begin(Duration{0});
    auto next = rig.host->next();
    while (next && next->claimant == 2) next = rig.host->next();  // it does not fit
    if (!next) return got;
    ++got[next->claimant];
    used[next->claimant].cpus += 1;
    rig.host->claimant_used(next->claimant, used[next->claimant]);
    Usage all = used[1];
    all.add(used[2]);
    rig.host->account_used(n2, all);
  }
  return got;
}

TEST(Hdrf, DoesNotStarveTheChildOfAnAccountThatHoldsAnotherResource) {
  EXPECT_EQ(starvation("hdrf"), (std::vector<int>{5, 5, 0}));
  EXPECT_EQ(starvation("hdrf:tree=naive"), (std::vector<int>{10, 0, 0}));
}

TEST(Hdrf, WeightsHoldAtEachLevel) {
  PolicyRig rig("hdrf");
  rig.host->total(amounts(12, 0));
  const auto big = rig.account("big", policy::kNone, 2000), small = rig.account("small");
  rig.claimant("b1", {}, 1000, big);
  rig.claimant("b2", {}, 1000, big);
  rig.claimant("s", {}, 1000, small);
  std::vector<int> got(3, 0);
  for (int i = 0; i < 12; ++i) {
    rig.host->begin(Duration{0});
    const auto next = rig.host->next();
    ASSERT_TRUE(next);
    ++got[next->claimant];
    rig.gets(next->claimant, amounts(1, 0));
  }
  EXPECT_EQ(got, (std::vector<int>{4, 4, 4}));
}

}  // namespace
}  // namespace bourse::test
