// How many jobs of a trace `bourse simulate` replays a second, and what a million jobs on a thousand nodes cost in memory.
//
// Beside a calibration loop of the same run: a priority queue that takes in and gives out an event for each job, which no replay can
// do without. BOURSE_TRACES names a directory with swf/; without it a drawn workload of the same size and load stands in.
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <queue>

#include "common/core/rng.h"
#include "frameworks/batch/policy_order.h"

namespace {

using namespace bourse;

constexpr double kGoal = 200'000;  // jobs a second, EASY on a year of a hundred processors

double seconds_since(std::chrono::steady_clock::time_point began) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

// Jobs of 1 to `most` processors (powers of two, small ones more often), run times from seconds to hours, as many as `load` needs.
std::vector<sim::TraceJob> drawn(std::size_t count, std::uint32_t processors, std::uint32_t most, double load) {
  Rng rng(1);
  std::vector<sim::TraceJob> jobs(count);
  double work = 0;
  for (std::size_t i = 0; i < count; ++i) {
    sim::TraceJob& job = jobs[i];
    job.number = static_cast<std::int64_t>(i) + 1;
    job.processors = 1;
    while (job.processors * 2 <= most && rng.chance(550)) job.processors *= 2;
    const double run = 10 * std::pow(2.0, rng.unit() * 11);
    job.run = seconds(static_cast<std::int64_t>(run));
    job.limit = job.run * rng.between(1, 5);
    job.user = static_cast<std::int32_t>(rng.below(200));
    work += run * job.processors;
  }
  const double gap = work / (load * processors) / static_cast<double>(count);
  double at = 0;
  for (sim::TraceJob& job : jobs) {
    job.submit = seconds(static_cast<std::int64_t>(at));
    at += -std::log(1 - rng.unit()) * gap;
  }
  return jobs;
}

double calibrate(std::size_t jobs) {
  std::priority_queue<std::pair<std::uint64_t, std::size_t>> events;
  Rng rng(2);
  const auto began = std::chrono::steady_clock::now();
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < jobs; ++i) {
    events.emplace(rng.next(), i);
    if (events.size() > 64) sum += events.top().first, events.pop();
  }
  const double rate = static_cast<double>(jobs) / seconds_since(began);
  if (sum == 0) fmt::print("never\n");
  return rate;
}

double rate_of(const std::vector<sim::TraceJob>& trace, batch::ReplayOptions options, int times) {
  double best = 0;
  for (int i = 0; i < times; ++i) {
    auto jobs = trace;
    const auto began = std::chrono::steady_clock::now();
    const auto report = batch::replay(jobs, options);
    if (!report) return fmt::print("failed: {}\n", report.error().text()), 0;
    best = std::max(best, static_cast<double>(report->jobs) / seconds_since(began));
  }
  return best;
}

std::vector<sim::TraceJob> year() {
  const char* const root = std::getenv("BOURSE_TRACES");
  const std::string path = std::string(root == nullptr ? "../shared/traces" : root) + "/swf/KTH-SP2-1996-2.1-cln.swf.gz";
  if (access(path.c_str(), R_OK) == 0) {
    if (auto lines = sim::Lines::open(path); lines)
      if (auto work = sim::workload_of_swf(*lines, {}); work) return std::move(work->jobs);
  }
  fmt::print("no trace found; a drawn workload stands in\n");
  return drawn(28'000, 100, 64, 0.7);
}

}  // namespace

int main() {
  const auto trace = year();
  const double base = calibrate(2'000'000);
  fmt::print("{:<34} {:>12.0f} jobs/s\n", "calibration: queue of events", base);
  batch::ReplayOptions options;
  options.nodes[0].count = 100;
  for (const batch::Backfill how :
       {batch::Backfill::kNone, batch::Backfill::kEasyCount, batch::Backfill::kEasy, batch::Backfill::kConservative}) {
    options.backfill = how;
    const double rate = rate_of(trace, options, how == batch::Backfill::kConservative ? 1 : 5);
    fmt::print("{:<34} {:>12.0f} jobs/s, {:.3f} of the calibration{}\n",
               fmt::format("{} jobs, 100x1, {}", trace.size(), text_of(how)), rate, rate / base,
               how == batch::Backfill::kEasy ? (rate >= kGoal ? "; goal 200,000 met" : "; goal 200,000 NOT met") : "");
  }
  const auto policy = batch::policy_order(policy::built_in("fifo"), 1);
  if (policy && *policy) {
    options.backfill = batch::Backfill::kEasy, options.order = policy->get();
    fmt::print("{:<34} {:>12.0f} jobs/s\n", "the same through the policy's ABI", rate_of(trace, options, 1));
    options.order = nullptr;
  }

  rusage before{};
  getrusage(RUSAGE_SELF, &before);
  auto million = drawn(1'000'000, 32'000, 256, 0.8);
  options.nodes[0].count = 1000, options.nodes[0].cores = 32;
  options.backfill = batch::Backfill::kEasy, options.depth = 100;
  const auto began = std::chrono::steady_clock::now();
  const auto report = batch::replay(million, options);
  const double took = seconds_since(began);
  rusage after{};
  getrusage(RUSAGE_SELF, &after);
  if (!report) return fmt::print("failed: {}\n", report.error().text()), 1;
  fmt::print("{:<34} {:>12.0f} jobs/s, {:.0f} bytes a job at the peak, utilisation {:.1f} %\n",
             "1,000 nodes x 1,000,000 jobs, easy", static_cast<double>(report->jobs) / took,
             static_cast<double>(after.ru_maxrss - before.ru_maxrss) * 1024 / 1e6, report->utilisation * 100);
  return 0;
}
