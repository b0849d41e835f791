// Rows 1 and 3 of the science note: what short-first gives and takes, and what fairness costs.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "common/core/rng.h"
#include "common/sim/csv.h"
#include "common/sim/lines.h"
#include "tests/bench/claims/claim.h"

namespace bourse::claims {
namespace {

double s(Duration d) { return static_cast<double>(d.count()) / 1e6; }

// The 99 % wait of small, middle and large jobs.
std::string tails(const std::vector<sim::TraceJob>& jobs, std::uint32_t processors) {
  std::vector<double> waits[3];
  for (const sim::TraceJob& job : jobs) {
    if (job.start < Duration(0)) continue;
    const std::size_t size = job.processors * 32 <= processors ? 0 : job.processors * 4 <= processors ? 1 : 2;
    waits[size].push_back(wait_s(job));
  }
  std::string out;
  const char* const names[] = {"small", "middle", "large"};
  for (int i = 0; i < 3; ++i) {
    if (waits[i].empty()) continue;
    std::sort(waits[i].begin(), waits[i].end());
    out += fmt::format("{}{} {:.1f}", out.empty() ? "" : ", ", names[i], waits[i][waits[i].size() * 99 / 100] / 3600);
  }
  return out;
}
double longest(const std::vector<sim::TraceJob>& jobs) {
  double most = 0;
  for (const sim::TraceJob& job : jobs) most = std::max(most, wait_s(job));
  return most / 3600;
}

struct Fair {
  double utilisation = 0, gap = 0, wait = 0;
};

// While between a tenth and nine tenths of the jobs have come: cores in use, and the widest gap between the dominant shares of users
// of whom something waits; the mean over so many moments.
constexpr int kMoments = 150;
Fair fair(const std::vector<sim::TraceJob>& jobs, const sim::Workload& work, double cores, double mem) {
  Fair out;
  const Duration from = jobs[jobs.size() / 10].submit, to = jobs[jobs.size() * 9 / 10].submit;
  double gaps = 0;
  for (int m = 0; m < kMoments; ++m) {
    const Duration at = from + (to - from) / kMoments * m;
    std::map<std::int32_t, std::pair<double, double>> use;
    std::map<std::int32_t, bool> waits;
    double used = 0;
    for (const sim::TraceJob& job : jobs) {
      if (job.submit > at) break;
      if (job.start < Duration(0)) continue;
      if (job.start > at) waits[job.user] = true;
      if (job.start > at || job.end <= at) continue;
      const sim::TraceShape& shape = work.shapes[job.shape];
      const double milli = static_cast<double>(job.processors);
      used += milli;
      use[job.user].first += milli / cores;
      use[job.user].second +=
          (static_cast<double>(shape.mem_per_task) * job.processors + static_cast<double>(shape.mem) * std::max(shape.nodes, 1U)) /
          mem;
    }
    out.utilisation += used / cores / kMoments;
    double low = 1e9, high = 0;
    for (const auto& [user, waiting] : waits) {
      const double share = std::max(use[user].first, use[user].second);
      low = std::min(low, share), high = std::max(high, share);
    }
    if (waits.size() > 1) out.gap += high - low, gaps += 1;
  }
  out.gap /= std::max(gaps, 1.0);
  out.wait = mean(jobs, wait_s);
  return out;
}

}  // namespace

void orders(Table& table, const Options& options) {
  const struct {
    const char* file;
    std::uint32_t processors;
  } logs[] = {{"KTH-SP2-1996-2.1-cln", 100}, {"SDSC-SP2-1998-first5000", 128}, {"lublin_256_2", 256}, {"HPC2N-2002-2.1-cln", 240}};
  for (const auto& each : logs) {
    if (options.quick && each.processors != 100) continue;
    const auto log = read_log(each.file, each.processors, options.quick ? 4000 : 60'000, table);
    if (!log) continue;
    std::map<std::string, std::vector<sim::TraceJob>> ran;
    for (const char* const policy : {"fifo", "sjf", "sjf:guard=off", "saf", "f1", "wfp3", "unicep"})
      ran[policy] = run(*log, log->work.jobs, policy);
    std::string best = "fifo";
    for (const auto& [policy, jobs] : ran)
      if (policy != "sjf:guard=off" && mean(jobs, wait_s) < mean(ran[best], wait_s)) best = policy;
    const Mean gain = ratio(ran["sjf"], ran["fifo"], wait_s), off = ratio(ran["sjf:guard=off"], ran["fifo"], wait_s);
    const double behind = mean(ran["sjf"], wait_s) / mean(ran[best], wait_s) - 1;
    table.add({"3", "shortest first has the shortest mean wait",
               fmt::format("{}, {} jobs, load {:.2f}, EASY", log->name, log->work.jobs.size(), log->load()),
               "first come, first served",
               fmt::format("with the 20 h guard {}; without {}; shortest is {}", percent(gain), percent(off), best),
               best == "sjf"   ? "met"
               : behind < 0.05 ? fmt::format("near: {:.1f} % behind {}", behind * 100, best)
                               : fmt::format("not met: {:.0f} % behind {}", behind * 100, best)});
    table.add(
        {"3", "without a guard, somebody starves", fmt::format("{}, as above", log->name),
         fmt::format("first come: longest {:.0f} h; 99 % wait in hours: {}", longest(ran["fifo"]),
                     tails(ran["fifo"], each.processors)),
         fmt::format("sjf with guard: {:.0f} h; {}. Without: {:.0f} h; {}", longest(ran["sjf"]), tails(ran["sjf"], each.processors),
                     longest(ran["sjf:guard=off"]), tails(ran["sjf:guard=off"], each.processors)),
         longest(ran["sjf:guard=off"]) > 1.5 * longest(ran["sjf"]) ? "so it is" : "not here"});
  }
}

void fairness(Table& table, const Options& options) {
  const std::string path = trace("swf/wagap-2013.csv.gz", table);
  if (path.empty()) return;
  auto lines = sim::Lines::open(path);
  sim::ReadOptions read;
  read.memory = true;
  read.jobs_max = options.quick ? 6000 : 0;
  auto work = sim::workload_of_csv(*lines, read);
  if (!work) return table.note(work.error().text());
  constexpr double kFaster = 2.5, kCores = 20 * 80 + 48 * 12, kGib = 20 * 505.0 + 48 * 90.0;
  batch::ReplayOptions replay;
  replay.nodes = *batch::parse_simulated_nodes("20x80:mem=505GiB:cluster=zewura,48x12:mem=90GiB:cluster=zegox", nullptr);
  replay.shapes = &work->shapes;
  std::map<std::string, std::vector<Fair>> found;
  double load = 0;
  const char* const policies[] = {"fifo", "drf", "hdrf", "hybrid:weight=1", "hybrid:weight=0.5", "hybrid:weight=0"};
  for (std::uint64_t seed = 1; seed <= (options.quick ? 2U : 4U); ++seed) {
    // Shaken: each submission moves by up to a minute.
    Rng rng(seed);
    std::vector<sim::TraceJob> jobs = work->jobs;
    for (sim::TraceJob& job : jobs)
      job.submit = Duration(static_cast<std::int64_t>(static_cast<double>(job.submit.count()) / kFaster)) +
                   milliseconds(rng.between(0, 60'000));
    std::stable_sort(jobs.begin(), jobs.end(), [](const auto& a, const auto& b) { return a.submit < b.submit; });
    load = 0;
    for (const sim::TraceJob& job : jobs) load += s(std::min(job.run, job.limit)) * job.processors;
    load /= kCores * s(jobs.back().submit);
    for (const char* const policy : policies) {
      auto ran = jobs;
      auto order = batch::policy_order(*policy::Catalog().find(policy), seed);
      replay.order = order->get();
      if (const auto report = batch::replay(ran, replay); report)
        found[policy].push_back(fair(ran, *work, kCores, kGib * (1LL << 30)));
    }
  }
  const auto over = [&](const std::string& policy, double Fair::*what) {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < found[policy].size(); ++i)
      ratios.push_back(found[policy][i].*what / std::max(found["fifo"][i].*what, 1e-9));
    return mean_of(ratios);
  };
  for (const char* const policy : policies) {
    if (policy == std::string("fifo") || found[policy].empty()) continue;
    const Mean used = over(policy, &Fair::utilisation), gap = over(policy, &Fair::gap);
    table.add(
        {"1", policy == std::string("drf") ? "DRF is fairest, and costs 40 % of the throughput" : "the same",
         fmt::format("wagap-2013 at {} times its rate, load {:.2f}, EASY, {} shaken inputs", kFaster, load, found[policy].size()),
         fmt::format("fifo: {:.1f} % of cores, share gap {:.3f}", found["fifo"][0].utilisation * 100, found["fifo"][0].gap),
         fmt::format("{}: cores {}, share gap {}, wait {}", policy, percent(used), percent(gap),
                     percent(over(policy, &Fair::wait))),
         found["fifo"][0].gap < 1e-6
             ? "nobody waits: nothing to be fair about"
             : fmt::format("{}; {}", used.mean > 0.97 ? "costs under 3 %" : fmt::format("costs {:.1f} %", (1 - used.mean) * 100),
                           gap.mean + gap.half < 1 ? "fairer" : "not clearly fairer")});
  }
}

}  // namespace bourse::claims
