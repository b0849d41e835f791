// The least harm: by hand, and against all sets there are.
#include "master/harm.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>

#include "common/core/rng.h"
#include "rig.h"

namespace bourse::test {
namespace {

using house::Harm;
using house::Taking;
using house::Victim;

Victim slice(std::uint64_t number, std::int64_t cpus, std::int64_t priority, std::int64_t since) {
  Victim c;
  c.slice = {FrameworkId("f"), number};
  c.amount = amount(cpus, cpus);
  c.priority = priority;
  c.since = seconds(since);
  return c;
}

std::optional<std::vector<std::uint64_t>> least(std::int64_t ask, std::int64_t free, std::vector<Victim> candidates,
                                                std::int64_t looks = 100'000) {
  house::sort_candidates(candidates);
  const auto anything = [](std::span<const std::size_t>) { return true; };
  const auto taking = house::least_harm(shape(ask, ask), amount(free, free), amount(64, 64), {}, candidates, anything, looks);
  if (!taking) return std::nullopt;
  std::vector<std::uint64_t> numbers;
  for (const std::size_t i : taking->victims) numbers.push_back(candidates[i].slice.number);
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}
using Numbers = std::vector<std::uint64_t>;

TEST(Harm, NothingIsTakenForWhatFitsOrNeverWill) {
  EXPECT_EQ(least(4, 4, {slice(1, 4, 0, 10)}), Numbers{});
  EXPECT_EQ(least(16, 4, {slice(1, 4, 0, 10), slice(2, 4, 0, 10)}), std::nullopt);
}

TEST(Harm, OneLargeSliceIsLessThanTwoSmallOnesOfALowerPriority) {
  EXPECT_EQ(least(8, 0, {slice(1, 4, -5, 90), slice(2, 4, -5, 91), slice(3, 8, 0, 10)}), Numbers{3});
}

TEST(Harm, AmongAsManyTheLowerPriorityGoesThenTheYounger) {
  EXPECT_EQ(least(4, 0, {slice(1, 4, 1, 90), slice(2, 4, 0, 10), slice(3, 4, 0, 20)}), Numbers{3});
  EXPECT_EQ(least(4, 0, {slice(1, 4, 0, 20), slice(2, 4, 0, 20)}), Numbers{1}) << "else the lower number";
}

TEST(Harm, TheHighestPriorityOfASetCountsAndThenItsOldest) {
  // Two are needed. {1,2} has a 1 in it; {2,3} and {2,4} have not; of these the one whose oldest is younger.
  EXPECT_EQ(least(8, 0, {slice(1, 4, 1, 99), slice(2, 4, 0, 50), slice(3, 4, 0, 10), slice(4, 4, 0, 20)}), (Numbers{2, 4}));
}

TEST(Harm, WhatIsFreeCountsSoNoMoreThanNeededIsTaken) {
  EXPECT_EQ(least(8, 5, {slice(1, 2, 0, 50), slice(2, 2, 0, 60), slice(3, 3, 0, 5)}), Numbers{3});
  EXPECT_EQ(least(8, 6, {slice(1, 2, 0, 50), slice(2, 2, 0, 60), slice(3, 3, 0, 5)}), Numbers{2});
}

TEST(Harm, ASliceOfAGangCountsAsAllOfIt) {
  Victim member = slice(1, 8, 0, 99);
  member.gang = 7, member.weight = 3;
  EXPECT_EQ(least(8, 0, {member, slice(2, 4, 0, 1), slice(3, 4, 0, 2)}), (Numbers{2, 3})) << "two slices are less than three";
  member.weight = 2;
  EXPECT_EQ(least(8, 0, {member, slice(2, 4, 0, 1), slice(3, 4, 0, 2)}), Numbers{1}) << "as many, but younger";
}

TEST(Harm, ManySmallSlicesAreThinnedOutUntilNoneOfThemCouldStay) {
  std::vector<Victim> many;
  for (std::uint64_t i = 1; i <= 40; ++i) many.push_back(slice(i, 1, 0, static_cast<std::int64_t>(i)));
  const auto taken = least(20, 0, many);
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->size(), 20U);
  EXPECT_EQ(taken->front(), 21U) << "the young half";
}

TEST(Harm, ABudgetOfLooksIsKept) {
  std::vector<Victim> many;
  for (std::uint64_t i = 1; i <= 40; ++i) many.push_back(slice(i, 1, 0, 5));
  EXPECT_EQ(least(20, 0, many, 3), std::nullopt);
}

// All sets, by plain sums of cores and memory.
struct Best {
  std::optional<Harm> harm;
};
Best brute(std::int64_t cpus, std::int64_t mem, std::int64_t free_cpus, std::int64_t free_mem, const std::vector<Victim>& all) {
  Best best;
  for (std::uint32_t set = 1; set < 1U << all.size(); ++set) {
    std::int64_t c = free_cpus, m = free_mem;
    Harm harm;
    std::set<std::uint64_t> gangs;
    bool first = true;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if ((set >> i & 1U) == 0) continue;
      c += all[i].amount.cpus.value;
      m += all[i].amount.mem.value;
      if (all[i].gang == 0 || gangs.insert(all[i].gang).second) harm.slices += all[i].weight;
      harm.priority = first ? all[i].priority : std::max(harm.priority, all[i].priority);
      harm.oldest = first ? all[i].since : std::min(harm.oldest, all[i].since);
      first = false;
    }
    if (c < cpus || m < mem) continue;
    if (!best.harm || harm.less_than(*best.harm)) best.harm = harm;
  }
  return best;
}

TEST(Harm, IsTheLeastOfAllSets) {
  Rng rng(11);
  std::size_t some = 0;
  for (int round = 0; round < 3'000; ++round) {
    std::vector<Victim> all;
    const std::uint64_t n = 1 + rng.below(9);
    for (std::uint64_t i = 1; i <= n; ++i) {
      Victim c = slice(i, 0, static_cast<std::int64_t>(rng.below(3)), static_cast<std::int64_t>(rng.below(6)));
      c.amount = amount(1 + static_cast<std::int64_t>(rng.below(6)), 1 + static_cast<std::int64_t>(rng.below(6)));
      if (rng.chance(200)) c.gang = 1 + rng.below(2), c.weight = 2 + static_cast<std::uint32_t>(c.gang);
      all.push_back(c);
    }
    house::sort_candidates(all);
    const std::int64_t free_cpus = static_cast<std::int64_t>(rng.below(4)), free_mem = static_cast<std::int64_t>(rng.below(4));
    const Shape wanted = shape(1 + static_cast<std::int64_t>(rng.below(16)), 1 + static_cast<std::int64_t>(rng.below(16)));
    const Resources free = amount(free_cpus, free_mem);
    if (free.cpus >= wanted.cpus && free.mem >= wanted.mem) continue;
    std::int64_t looks = 1'000'000;
    const auto taking = house::least_harm(
        wanted, free, amount(64, 64), {}, all, [](auto) { return true; }, looks);
    const Best best = brute(wanted.cpus.value, wanted.mem.value, free.cpus.value, free.mem.value, all);
    ASSERT_EQ(taking.has_value(), best.harm.has_value()) << "round " << round;
    if (!taking) continue;
    ++some;
    ASSERT_EQ(taking->harm, *best.harm) << "round " << round;
    ASSERT_EQ(taking->harm, house::harm_of(all, taking->victims)) << "round " << round;
    for (const std::size_t out : taking->victims) {  // and none of it for nothing
      std::int64_t c = free.cpus.value, m = free.mem.value;
      for (const std::size_t i : taking->victims)
        if (i != out) c += all[i].amount.cpus.value, m += all[i].amount.mem.value;
      const bool needed = c < wanted.cpus.value || m < wanted.mem.value;
      ASSERT_TRUE(needed || all[out].gang != 0) << "round " << round;
    }
  }
  EXPECT_GT(some, 1'500U);
}

}  // namespace
}  // namespace bourse::test
