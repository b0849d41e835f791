// drf against the numbers of the paper (Ghodsi et al., NSDI 2011), of progressive filling worked out by hand and by a separate
// program, and of Apache Mesos's own tests of its sorter (src/tests/sorter_tests.cpp at c1b42f79d).
#include <numeric>

#include "plugins/policy/share.h"
#include "tests/policy/rig.h"

namespace bourse::test {
namespace {

// Progressive filling with tasks: who is poorest gets one task, as long as it fits. `strict` ends with the first that does not
// fit, else he is passed by.
std::vector<int> fill(PolicyRig& rig, const Usage& total, const std::vector<Usage>& tasks, bool strict,
                      std::string* sequence = nullptr) {
  std::vector<int> got(tasks.size(), 0);
  Usage left = total;
  const auto fits = [&](const Usage& one) {
    return one.cpus <= left.cpus && one.mem <= left.mem && left.devices.contains(one.devices);
  };
  while (true) {
    rig.host->begin(Duration{0});
    bool gave = false;
    while (const auto next = rig.host->next()) {
      const Usage& one = tasks[next->claimant];
      if (!fits(one)) {
        if (strict) break;
        continue;
      }
      left.subtract(one);
      ++got[next->claimant];
      rig.gets(next->claimant, one);
      if (sequence != nullptr) *sequence += static_cast<char>('A' + next->claimant);
      gave = true;
      break;
    }
    if (!gave) return got;
  }
}

std::vector<int> fill(const std::string& spec, const Usage& total, const std::vector<Usage>& tasks, bool strict,
                      const std::vector<std::uint32_t>& weights = {}, std::string* sequence = nullptr) {
  PolicyRig rig(spec);
  rig.host->total(total);
  for (std::size_t i = 0; i < tasks.size(); ++i)
    rig.claimant(std::string(1, static_cast<char>('A' + i)), {}, weights.empty() ? 1000 : weights[i]);
  return fill(rig, total, tasks, strict, sequence);
}

TEST(Drf, GivesThePapersAllocation) {
  std::string sequence;
  // Section 4.1: 9 CPUs and 18 GB, A's tasks <1 CPU, 4 GB>, B's <3 CPU, 1 GB>.
  EXPECT_EQ(fill("drf", amounts(9, 18), {amounts(1, 4), amounts(3, 1)}, true, {}, &sequence), (std::vector<int>{3, 2}));
  EXPECT_EQ(sequence, "ABABA");
}

TEST(Drf, WeightsScaleSharesAndTheStopRuleDecides) {
  const std::vector<Usage> tasks = {amounts(1, 4), amounts(3, 1)};
  const Usage total = amounts(9, 18);
  EXPECT_EQ(fill("drf", total, tasks, false, {2000, 1000}), (std::vector<int>{4, 1}));
  EXPECT_EQ(fill("drf", total, tasks, true, {1000, 2000}), (std::vector<int>{2, 2}));
  EXPECT_EQ(fill("drf", total, tasks, false, {1000, 2000}), (std::vector<int>{3, 2}));
}

TEST(Drf, ThreeResourcesAndMoreUsers) {
  EXPECT_EQ(fill("drf", amounts(100, 200, 8), {amounts(1, 4), amounts(4, 2), amounts(2, 8, 1)}, false),
            (std::vector<int>{30, 15, 5}));
  EXPECT_EQ(fill("drf", amounts(64, 256, 4), {amounts(2, 8), amounts(1, 16), amounts(4, 16, 1), amounts(8, 4)}, false),
            (std::vector<int>{13, 6, 2, 3}));
}

TEST(Drf, OrdersAsMesosSorterDoes) {
  PolicyRig rig("drf:ties=grants");
  rig.host->total(amounts(100, 100));
  rig.claimant("a", amounts(5, 5));
  rig.claimant("b", amounts(6, 6));
  EXPECT_EQ(rig.order(), "a b");
  rig.claimant("c", amounts(1, 1));
  rig.claimant("d", amounts(3, 1));
  EXPECT_EQ(rig.order(), "c d a b");
  rig.host->claimant_removed(rig["a"]);
  rig.gives(rig["b"], amounts(4, 4));
  EXPECT_EQ(rig.order(), "c b d");
  rig.claimant("e", amounts(1, 5));
  rig.host->total(amounts(50, 100));
  EXPECT_EQ(rig.order(), "c b e d");
  rig.claimant("f", amounts(5, 1));
  rig.gets(rig["c"], amounts(0, 15));
  rig.host->total(amounts(50, 200));
  EXPECT_EQ(rig.order(), "e b d c f");
}

TEST(Drf, OrdersByWeightAsMesosSorterDoes) {
  PolicyRig rig("drf:ties=grants");
  rig.host->total(amounts(100, 100));
  rig.claimant("a", amounts(5, 5));
  rig.claimant("b", amounts(6, 6), 2000);
  EXPECT_EQ(rig.order(), "b a");
  rig.claimant("c", amounts(4, 4));
  EXPECT_EQ(rig.order(), "b c a");
  rig.claimant("d", amounts(10, 20), 10'000);
  EXPECT_EQ(rig.order(), "d b c a");
  rig.host->claimant_removed(rig["b"]);
  EXPECT_EQ(rig.order(), "d c a");
  rig.gets(rig["d"], amounts(10, 25));
  EXPECT_EQ(rig.order(), "c d a");
  rig.claimant("e", amounts(1, 1), 100);
  EXPECT_EQ(rig.order(), "c d a e");
}

TEST(Drf, TiesGoToFewerGrantsOrToTheName) {
  for (const std::string ties : {"grants", "name"}) {
    PolicyRig rig("drf:ties=" + ties);
    rig.host->total(amounts(100, 100));
    // All hold (3,3) in the end: b and d by one grant, a and e by two, c by three.
    for (const char* name : {"a", "b", "c", "d", "e"}) rig.claimant(name);
    rig.gets(rig["b"], amounts(3, 3));
    rig.gets(rig["d"], amounts(3, 3));
    rig.gets(rig["a"], amounts(2, 2));
    rig.gets(rig["a"], amounts(1, 1));
    rig.gets(rig["e"], amounts(1, 1));
    rig.gets(rig["e"], amounts(2, 2));
    for (int i = 0; i < 3; ++i) rig.gets(rig["c"], amounts(1, 1));
    EXPECT_EQ(rig.order(), ties == "grants" ? "b d a e c" : "a b c d e");
  }
}

TEST(Drf, AccountsComeBeforeTheirClaimants) {
  PolicyRig rig("drf");
  rig.host->total(amounts(100, 100));
  const auto rich = rig.account("rich"), poor = rig.account("poor");
  rig.claimant("r1", amounts(1, 1), 1000, rich);
  rig.claimant("r2", amounts(30, 1), 1000, rich);
  rig.claimant("p1", amounts(20, 1), 1000, poor);
  EXPECT_EQ(rig.order(), "p1 r1 r2");  // 20 % against 31 %
  rig.gets(rig["p1"], amounts(20, 0));
  EXPECT_EQ(rig.order(), "r1 r2 p1");
}

// Of accounts with equal shares the job that came first goes first, whoever's it is; and from the first that is passed by, the order
// stands as it was then, whatever starts.
TEST(Drf, WithTiesByJobTheOrderStandsFromWhoIsPassedBy) {
  PolicyRig rig("drf:ties=job");
  rig.host->total(amounts(100'000, 100));
  const auto a = rig.account("a"), b = rig.account("b");
  const auto one = rig.job(1, seconds(1), seconds(10), 8, 0, b), two = rig.job(2, seconds(2), seconds(10), 1, 0, a);
  rig.job(3, seconds(3), seconds(10), 1, 0, b);
  rig.job(4, seconds(4), seconds(10), 1, 0, a);
  EXPECT_EQ(rig.order(), "1 2 3 4");
  rig.host->begin(seconds(5));
  ASSERT_EQ(rig.host->next()->claimant, one);
  // It starts: b holds something, and a goes first.
  rig.host->account_used(b, amounts(8000, 0));
  rig.host->claimant_removed(one);
  ASSERT_EQ(rig.host->next()->claimant, two);
  PolicyRig walk("drf:ties=job");
  walk.host->total(amounts(100'000, 100));
  const auto x = walk.account("x"), y = walk.account("y");
  const auto first = walk.job(1, seconds(1), seconds(10), 99, 0, x), second = walk.job(2, seconds(2), seconds(10), 1, 0, y);
  const auto third = walk.job(3, seconds(3), seconds(10), 1, 0, y), last = walk.job(4, seconds(4), seconds(10), 1, 0, x);
  walk.host->begin(seconds(5));
  ASSERT_EQ(walk.host->next()->claimant, first);
  ASSERT_EQ(walk.host->next()->claimant, second) << "the first is passed by";
  walk.host->account_used(y, amounts(5000, 0));
  walk.host->claimant_removed(second);
  ASSERT_EQ(walk.host->next()->claimant, third) << "y holds more than x by now, but the order stands";
  ASSERT_EQ(walk.host->next()->claimant, last);
  EXPECT_FALSE(walk.host->next());
}

TEST(Drf, AWalkMeetsWhoGotSomethingAgain) {
  PolicyRig rig("drf");
  rig.host->total(amounts(10, 10));
  for (const char* name : {"a", "b"}) rig.claimant(name);
  std::string walk;
  rig.host->begin(Duration{0});
  for (int i = 0; i < 6; ++i) {
    const auto next = rig.host->next();
    ASSERT_TRUE(next);
    walk += static_cast<char>('a' + next->claimant);
    rig.gets(next->claimant, amounts(1, 1));
  }
  EXPECT_EQ(walk, "ababab");
  EXPECT_TRUE(rig.host->next());
  EXPECT_TRUE(rig.host->next());
  EXPECT_FALSE(rig.host->next());  // nobody got anything
}

TEST(Drf, WhoWasPassedByForTooLongAsksForAReservation) {
  PolicyRig rig("drf:reserve=60s");
  rig.host->total(amounts(10, 10));
  for (const char* name : {"a", "b"}) rig.claimant(name);
  const auto first = [&](Duration now) {
    rig.host->begin(now);
    const auto next = rig.host->next();
    return next->reserve;
  };
  EXPECT_FALSE(first(seconds(100)));
  EXPECT_FALSE(first(seconds(159)));
  EXPECT_TRUE(first(seconds(160)));
  rig.gets(rig["a"], amounts(1, 0));  // served: its time begins anew
  rig.gets(rig["b"], amounts(2, 0));
  EXPECT_FALSE(first(seconds(161)));
  PolicyRig always("drf:reserve=always");
  always.claimant("a");
  always.host->begin(seconds(1));
  EXPECT_TRUE(always.host->next()->reserve);
}

TEST(Share, IsExactAndDoesNotOverflow) {
  using policy::Share;
  // 1/3 against 333.../999...: one part in 10^18 apart.
  EXPECT_EQ(compare(Share::of(333'333'333'333'333'333, 1'000'000'000'000'000'000, 1000), Share::of(1, 3, 1000)), -1);
  const Share millionth = Share::of(INT64_MAX, INT64_MAX, 1'000'000'000);  // beyond 63 bits: nearly
  EXPECT_EQ(compare(millionth, Share::of(1, 999'999, 1000)), -1);
  EXPECT_EQ(compare(millionth, Share::of(1, 1'000'001, 1000)), 1);
  EXPECT_EQ(compare(Share::of(6, 100, 2000), Share::of(3, 100, 1000)), 0);
  EXPECT_EQ(compare(Share::of(1, 100, 100), Share::of(10, 100, 1000)), 0);
}

}  // namespace
}  // namespace bourse::test
