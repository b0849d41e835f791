// What is simulated is what runs: a trace through the replay and through master, agents, client and batch, under each policy.
#include <gtest/gtest.h>

#include <algorithm>

#include "common/core/rng.h"
#include "frameworks/batch/policy_order.h"
#include "frameworks/batch/wire_replay.h"

namespace bourse::sim {
namespace {

// The first job comes five seconds after the clocks of the simulated world began, at this time of the year 2026.
constexpr Duration kOrigin = std::chrono::hours(24 * 365 * 56 + 24 * 14) + seconds(5);
constexpr Duration kLatency = seconds(2);  // of a start through offers and messages, added up over the trace

// Times are long beside kLatency, so that events hardly ever change places.
std::vector<TraceJob> drawn(std::uint64_t seed, std::size_t count, std::int64_t scale) {
  Rng rng(seed);
  std::vector<TraceJob> jobs(count);
  Duration now{0};
  for (std::size_t i = 0; i < count; ++i) {
    TraceJob& job = jobs[i];
    now += milliseconds(scale * rng.between(1'000, 15'000));
    job.number = static_cast<std::int64_t>(i) + 1;
    job.submit = now;
    job.limit = milliseconds(scale * rng.between(30'000, 900'000));
    job.run = std::max<Duration>(job.limit - milliseconds(scale * rng.between(0, 100'000)), seconds(7));
    job.processors = static_cast<std::uint32_t>(rng.between(1, 8));
    job.user = static_cast<std::int32_t>(rng.below(5));
  }
  return jobs;
}

class SameOrder : public testing::TestWithParam<std::string> {};

// Not drf: it goes by what is held at the moment, and two ends within the time that an offer takes may change places.
// Without backfilling: with it, whether a job ends in time for the reservation is a matter of the milliseconds that an offer takes.
TEST_P(SameOrder, InTheReplayAndThroughTheWire) {
  const policy::Choice choice = *policy::Catalog().find(GetParam());
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    auto replayed = drawn(seed, 40, 10), wired = replayed;
    batch::ReplayOptions options;
    options.nodes[0].cores = 10;
    options.backfill = batch::Backfill::kNone;
    options.origin = kOrigin;
    auto order = batch::policy_order(choice, 1);
    ASSERT_TRUE(order);
    options.order = order->get();
    ASSERT_TRUE(batch::replay(replayed, options));
    batch::SimulateOptions through;
    through.nodes = options.nodes;
    through.backfill = options.backfill;
    through.policy = choice;
    const auto report = batch::simulate(wired, through);
    ASSERT_TRUE(report) << report.error().text();
    std::size_t elsewhere = 0;
    for (std::size_t i = 0; i < wired.size(); ++i)
      if (wired[i].start < replayed[i].start - kLatency || wired[i].start > replayed[i].start + kLatency) ++elsewhere;
    EXPECT_EQ(elsewhere, 0U) << GetParam() << " seed " << seed;
  }
}
INSTANTIATE_TEST_SUITE_P(Policies, SameOrder, testing::Values("fifo", "sjf", "saf", "f1", "wfp3", "unicep", "xf", "sjf:guard=1h"),
                         [](const auto& p) {
                           std::string name = p.param;
                           std::replace_if(
                               name.begin(), name.end(), [](char c) { return c == ':' || c == '='; }, '_');
                           return name;
                         });

// Under the other ways of backfilling all run, and as well as in the replay.
TEST(SameOrder, EveryWayOfBackfillingRunsAllAndAboutAsSoon) {
  for (const batch::Backfill backfill : {batch::Backfill::kEasy, batch::Backfill::kEasyCount, batch::Backfill::kConservative}) {
    for (const std::uint32_t nodes : {1U, 10U}) {
      auto replayed = drawn(7, 80, 1), wired = replayed;
      batch::ReplayOptions options;
      options.nodes[0].count = nodes, options.nodes[0].cores = 10 / nodes;
      options.backfill = backfill;
      const auto direct = batch::replay(replayed, options);
      ASSERT_TRUE(direct);
      batch::SimulateOptions through;
      through.nodes = options.nodes;
      through.backfill = backfill;
      const auto report = batch::simulate(wired, through);
      ASSERT_TRUE(report) << text_of(backfill) << " " << nodes << ": " << report.error().text();
      EXPECT_EQ(report->jobs, 80U);
      EXPECT_LT(report->mean_wait_s, 1.25 * direct->mean_wait_s) << text_of(backfill) << " " << nodes;
    }
  }
}

}  // namespace
}  // namespace bourse::sim
