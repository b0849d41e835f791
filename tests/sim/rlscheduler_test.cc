// RLScheduler's protocol (DIR-LAB/deep-batch-scheduler, HPCSimPickJobs.py), driven over batch's planner: slices of the Lublin logs, to the
// last digit. What differs from the replay: the job that is chosen stays chosen until it fits, one event at a time is let in, and
// whoever passes it must end strictly before a time that is fixed when it is chosen.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "common/core/fmath.h"
#include "frameworks/batch/planner.h"
#include "tests/sim/oracle.h"

namespace bourse::sim {
namespace {

using batch::Planner;

struct Slice {
  std::vector<TraceJob> jobs;
  std::vector<std::size_t> queue;
  std::vector<std::size_t> running;
  batch::Planner planner;
  std::vector<batch::Need> needs;
  Duration now{0};
  std::size_t next = 0;

  Slice(const std::vector<TraceJob>& log, std::size_t first, std::size_t count, std::uint32_t processors) {
    Resources total;
    total.cpus = MilliCpus(std::int64_t{processors} * 1000);
    planner.add_node(total, {}, total);
    jobs.assign(log.begin() + static_cast<std::ptrdiff_t>(first), log.begin() + static_cast<std::ptrdiff_t>(first + count));
    needs.resize(jobs.size());
    for (std::size_t i = 0; i < jobs.size(); ++i) needs[i].shape.cpus = MilliCpus(std::int64_t{jobs[i].processors} * 1000);
    now = jobs[0].submit;
    queue.push_back(next++);
  }
  bool fits(std::size_t i) const { return !planner.place(needs[i]).empty(); }
  void start(std::size_t i) {
    ASSERT_NE(planner.start_now(i, needs[i], now + jobs[i].limit), nullptr);
    jobs[i].start = now, jobs[i].end = now + jobs[i].run;
    running.push_back(i);
    queue.erase(std::find(queue.begin(), queue.end(), i));
  }
  // One arrival, or one end.
  void step() {
    const auto first =
        std::min_element(running.begin(), running.end(), [&](std::size_t a, std::size_t b) { return jobs[a].end < jobs[b].end; });
    const Duration end = first == running.end() ? kNoLimit : jobs[*first].end;
    if (next < jobs.size() && jobs[next].submit <= end) {
      now = std::max(now, jobs[next].submit);
      queue.push_back(next++);
    } else {
      now = std::max(now, end);
      planner.end_run(*first);
      running.erase(first);
    }
  }
  void wait_for(std::size_t chosen, bool backfill) {
    const Duration earliest = planner.reserve(needs[chosen], now).at;
    while (!fits(chosen)) {
      if (backfill) {
        auto order = queue;
        std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return jobs[a].submit < jobs[b].submit; });
        for (const std::size_t i : order)
          if (i != chosen && now + jobs[i].limit < earliest && fits(i)) start(i);
      }
      step();
    }
  }
  void run(double (*score)(const TraceJob&), bool backfill) {
    while (true) {
      if (queue.empty()) {
        if (next == jobs.size()) return;
        while (queue.empty()) step();
      }
      const std::size_t chosen = *std::min_element(queue.begin(), queue.end(), [&](std::size_t a, std::size_t b) {
        const double x = score(jobs[a]), y = score(jobs[b]);
        return x != y ? x < y : a < b;
      });
      if (!fits(chosen)) wait_for(chosen, backfill);
      start(chosen);
    }
  }
  double mean_slowdown() const {
    double sum = 0;
    for (const TraceJob& job : jobs) {
      const double run = static_cast<double>(job.run.count()) / 1e6,
                   wait = static_cast<double>((job.start - job.submit).count()) / 1e6;
      sum += std::max(1.0, (wait + run) / std::max(run, 10.0));
    }
    return sum / static_cast<double>(jobs.size());
  }
};

double s(Duration d) { return static_cast<double>(d.count()) / 1e6; }
double fcfs(const TraceJob& job) { return s(job.submit); }
double sjf(const TraceJob& job) { return s(job.limit); }
double f1(const TraceJob& job) {
  constexpr double kLn10 = 2.302585092994045684018;
  return fmath::log(std::max(s(job.limit), 0.1)) / kLn10 * job.processors +
         870 * (fmath::log(std::max(s(job.submit), 0.1)) / kLn10);
}

TEST(Oracle, SlicesOfLublinAsRLSchedulerCountsThem) {
  const std::string path = trace("swf/lublin_256_1.swf.gz");
  if (path.empty()) GTEST_SKIP() << "no workload logs: set BOURSE_TRACES to a directory with swf/";
  const auto log = read_swf(path);
  ASSERT_TRUE(log) << log.error().text();
  std::vector<TraceJob> jobs;
  for (const SwfJob& from : log->jobs) {
    if (from.run == 0) continue;
    TraceJob job;
    job.number = from.number, job.submit = seconds(from.submit);
    job.run = seconds(from.run < 0 ? 10 : from.run);
    job.processors = static_cast<std::uint32_t>(std::max(from.processors, from.processors_asked));
    job.limit = from.time_asked > 0 ? Duration(seconds(from.time_asked)) : job.run;
    jobs.push_back(job);
  }
  std::size_t checked = 0;
  for (const Row& row : read_table(oracle("rlscheduler_slices.csv"))) {
    Slice slice(jobs, std::stoul(row.at("start_index")), std::stoul(row.at("jobs")), 256);
    const std::string& policy = row.at("policy");
    slice.run(policy == "FCFS" ? fcfs : policy == "SJF" ? sjf : f1, row.at("backfill") == "1");
    EXPECT_NEAR(slice.mean_slowdown(), std::stod(row.at("avg_bsld")), 1e-6) << policy << " from " << row.at("start_index");
    ++checked;
  }
  EXPECT_EQ(checked, 60u);
}

}  // namespace
}  // namespace bourse::sim
