#include "common/sim/whatif.h"

#include <algorithm>

#include "common/sim/trace.h"

namespace bourse::sim {

Report summarise(const std::vector<TraceJob>& jobs, std::uint64_t processors) {
  Report report;
  Trace hash;
  std::vector<std::int64_t> waits;
  std::int64_t first = 0, last = 0;
  double wait_sum = 0, slowdowns = 0, work = 0;
  for (const TraceJob& job : jobs) {
    if (job.start < Duration(0)) continue;
    const std::int64_t wait = (job.start - job.submit).count(), run = (job.end - job.start).count();
    if (waits.empty()) first = job.submit.count();
    waits.push_back(wait);
    wait_sum += static_cast<double>(wait);
    last = std::max(last, job.end.count());
    constexpr std::int64_t kBound = 10'000'000;
    slowdowns += std::max(1.0, static_cast<double>(wait + run) / static_cast<double>(std::max(run, kBound)));
    work += static_cast<double>(run) * job.processors;
    hash.add(static_cast<std::uint64_t>(job.number));
    hash.add(static_cast<std::uint64_t>(job.start.count()));
  }
  report.schedule_hash = hash.hash();
  report.jobs = waits.size();
  if (waits.empty()) return report;
  const auto n = static_cast<double>(waits.size());
  std::sort(waits.begin(), waits.end());
  report.mean_wait_s = wait_sum / n / 1e6;
  report.p95_wait_s = static_cast<double>(waits[waits.size() * 95 / 100]) / 1e6;  // counted from 0: 95 % wait at most this long
  report.max_wait_s = static_cast<double>(waits.back()) / 1e6;
  report.mean_bsld = slowdowns / n;
  report.makespan_s = static_cast<double>(last - first) / 1e6;
  report.utilisation = work / 1e6 / (report.makespan_s * static_cast<double>(processors));
  return report;
}

}  // namespace bourse::sim
