// The replay's own properties: what is promised is kept, what is plain and what is not plan alike, work grows with the jobs.
#include "frameworks/batch/replay.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "common/core/rng.h"

namespace bourse::batch {
namespace {

std::vector<sim::TraceJob> random_jobs(std::uint64_t seed, std::size_t count, std::uint32_t processors_max, bool early) {
  Rng rng(seed);
  std::vector<sim::TraceJob> jobs;
  Duration now{0};
  for (std::size_t i = 0; i < count; ++i) {
    sim::TraceJob job;
    job.number = static_cast<std::int64_t>(i) + 1;
    now += seconds(static_cast<std::int64_t>(rng.below(20)));
    job.submit = now;
    job.limit = seconds(rng.between(1, 200));
    job.run = early ? seconds(rng.between(1, job.limit.count() / 1'000'000)) : job.limit;
    job.processors = static_cast<std::uint32_t>(rng.between(1, processors_max));
    job.user = static_cast<std::int32_t>(rng.below(3));
    jobs.push_back(job);
  }
  return jobs;
}

ReplayOptions cluster(std::uint32_t nodes, std::uint32_t cores, Backfill backfill) {
  ReplayOptions options;
  options.nodes[0].count = nodes, options.nodes[0].cores = cores;
  options.backfill = backfill;
  return options;
}

std::vector<Duration> starts_of(const std::vector<sim::TraceJob>& jobs) {
  std::vector<Duration> out;
  for (const sim::TraceJob& job : jobs) out.push_back(job.start);
  return out;
}

// A node with nothing but cores and one that also has a GPU, which nobody asks for: the short arithmetic and the long one.
TEST(Replay, PlainAmountsPlanAsFullOnesDo) {
  for (const Backfill backfill : {Backfill::kNone, Backfill::kEasy, Backfill::kEasyCount, Backfill::kConservative}) {
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      auto plain = random_jobs(seed, 120, 12, true), full = plain;
      ReplayOptions options = cluster(4, 3, backfill);
      ASSERT_TRUE(replay(plain, options));
      options.nodes[0].gpus = 1;
      ASSERT_TRUE(replay(full, options));
      EXPECT_EQ(starts_of(plain), starts_of(full)) << text_of(backfill) << " seed " << seed;
    }
  }
}

// Never more on a node than it has, and every job runs once; checked by adding up.
TEST(Replay, NoNodeCarriesMoreThanItHas) {
  for (const Backfill backfill : {Backfill::kNone, Backfill::kEasy, Backfill::kEasyCount, Backfill::kConservative}) {
    auto jobs = random_jobs(7, 300, 12, true);
    ReplayOptions options = cluster(5, 4, backfill);
    std::vector<std::vector<std::pair<std::uint32_t, std::int64_t>>> places(jobs.size());
    options.on_start = [&](std::size_t job, const std::vector<Holding>& holdings) {
      EXPECT_TRUE(places[job].empty());
      for (const Holding& h : holdings) places[job].emplace_back(h.node, h.amount.cpus().value);
    };
    const auto report = replay(jobs, options);
    ASSERT_TRUE(report);
    EXPECT_EQ(report->jobs, jobs.size());
    for (const sim::TraceJob& at : jobs) {
      std::map<std::uint32_t, std::int64_t> used;
      for (std::size_t i = 0; i < jobs.size(); ++i)
        if (jobs[i].start <= at.start && at.start < jobs[i].end)
          for (const auto& [node, cpus] : places[i]) used[node] += cpus;
      for (const auto& [node, cpus] : used) ASSERT_LE(cpus, 4000) << text_of(backfill);
    }
  }
}

// Conservative: once jobs end as planned, nobody starts later than without backfilling. One node: a reservation is a count there.
TEST(Replay, ConservativeDelaysNobody) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    auto none = random_jobs(seed, 100, 10, false), conservative = none;
    ASSERT_TRUE(replay(none, cluster(1, 10, Backfill::kNone)));
    ASSERT_TRUE(replay(conservative, cluster(1, 10, Backfill::kConservative)));
    for (std::size_t i = 0; i < none.size(); ++i)
      EXPECT_LE(conservative[i].start, none[i].start) << "seed " << seed << " job " << none[i].number;
  }
}

// EASY: the first that waits starts no later than when it would if nobody else came.
TEST(Replay, EasyDoesNotDelayTheFirst) {
  for (const Backfill backfill : {Backfill::kEasy, Backfill::kConservative}) {
    for (std::uint64_t seed = 1; seed <= 30; ++seed) {
      auto jobs = random_jobs(seed, 40, 8, false);
      for (sim::TraceJob& job : jobs) job.submit = std::min<Duration>(job.submit, seconds(60));
      jobs[0].processors = 6, jobs[0].submit = seconds(0), jobs[1].processors = 8, jobs[1].submit = seconds(0);
      const Duration alone = jobs[0].limit;
      ASSERT_TRUE(replay(jobs, cluster(8, 1, backfill)));
      EXPECT_EQ(jobs[1].start, alone) << text_of(backfill) << " seed " << seed;
    }
  }
}

TEST(Replay, PlansWithTheMeanOfTheUsersLastTwoAndKillsAtTheLimit) {
  const auto job = [](std::int64_t number, std::int64_t submit, std::int64_t run, std::uint32_t processors, std::int64_t limit,
                      std::int32_t user) {
    sim::TraceJob out;
    out.number = number, out.submit = seconds(submit), out.run = seconds(run), out.processors = processors,
    out.limit = seconds(limit), out.user = user;
    return out;
  };
  // User 1 asks for 100 s and needs 10 and 20. Then the first to wait is user 2's, until 150; user 1's next job asks for 100 s, which
  // would delay it, and is expected to take 15.
  const std::vector<sim::TraceJob> trace = {job(1, 0, 10, 1, 100, 1), job(2, 20, 20, 1, 100, 1), job(3, 100, 50, 3, 50, 2),
                                            job(4, 101, 50, 4, 50, 2), job(5, 102, 30, 1, 100, 1)};
  auto asked = trace, predicted = trace;
  ReplayOptions options = cluster(4, 1, Backfill::kEasy);
  ASSERT_TRUE(replay(asked, options));
  EXPECT_EQ(asked[4].start, seconds(200));
  options.last2 = true;
  ASSERT_TRUE(replay(predicted, options));
  EXPECT_EQ(predicted[4].start, seconds(102));
  EXPECT_EQ(predicted[4].end, seconds(132));  // it runs on beyond the 15 s, until it is done
  EXPECT_EQ(predicted[3].start, seconds(150));
}

TEST(Replay, EqualTimesAreEndsThenSubmissionsThenOnePass) {
  // The first ends when the second comes: the second has the cluster at once. Two that come together go by their place.
  auto jobs = random_jobs(1, 4, 1, false);
  for (sim::TraceJob& job : jobs) job.processors = 4, job.run = job.limit = seconds(10);
  jobs[0].submit = seconds(0), jobs[1].submit = seconds(10), jobs[2].submit = seconds(20), jobs[3].submit = seconds(20);
  ASSERT_TRUE(replay(jobs, cluster(4, 1, Backfill::kEasy)));
  EXPECT_EQ(starts_of(jobs), (std::vector<Duration>{seconds(0), seconds(10), seconds(20), seconds(30)}));
}

TEST(Replay, WorkGrowsWithTheJobsAndNotFaster) {
  for (const Backfill backfill : {Backfill::kEasy, Backfill::kEasyCount, Backfill::kConservative}) {
    const auto cost = [&](std::size_t count) {
      auto jobs = random_jobs(3, count, 8, true);
      for (sim::TraceJob& job : jobs) job.submit *= 4;  // below saturation, so that the queue does not grow with the trace
      return static_cast<double>(replay(jobs, cluster(10, 1, backfill))->operations) / static_cast<double>(count);
    };
    EXPECT_LE(cost(20'000), 1.2 * cost(2'000)) << text_of(backfill);
  }
}

}  // namespace
}  // namespace bourse::batch
