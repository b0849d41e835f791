#include "common/sim/whatif.h"

#include <algorithm>

#include "common/sim/trace.h"

namespace bourse::sim {

std::vector<TraceJob> jobs_of(const SwfTrace& trace, Estimates estimates) {
  std::vector<TraceJob> jobs;
  jobs.reserve(trace.jobs.size());
  for (const SwfJob& from : trace.jobs) {
    const std::int64_t processors = from.processors > 0 ? from.processors : from.processors_asked;
    if (from.run <= 0 || processors <= 0 || processors > UINT32_MAX) continue;
    TraceJob job;
    job.number = from.number;
    job.submit = seconds(from.submit);
    job.run = seconds(from.time_asked > 0 ? std::min(from.run, from.time_asked) : from.run);
    job.limit = estimates == Estimates::kUser && from.time_asked > 0 ? Duration(seconds(from.time_asked)) : job.run;
    job.processors = static_cast<std::uint32_t>(processors);
    job.user = from.user;
    jobs.push_back(job);
  }
  const Duration first = jobs.empty() ? Duration(0) : jobs.front().submit;
  for (TraceJob& job : jobs) job.submit -= first;
  return jobs;
}

Report summarise(const std::vector<TraceJob>& jobs, std::uint64_t processors) {
  Report report;
  Trace hash;
  std::vector<std::int64_t> waits;
  std::int64_t wait_sum = 0, first = 0, last = 0;
  double slowdowns = 0, work = 0;
  for (const TraceJob& job : jobs) {
    if (job.start < Duration(0)) continue;
    const std::int64_t wait = (job.start - job.submit).count(), run = (job.end - job.start).count();
    if (waits.empty()) first = job.submit.count();
    waits.push_back(wait);
    wait_sum += wait;
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
  report.mean_wait_s = static_cast<double>(wait_sum) / n / 1e6;
  report.p95_wait_s = static_cast<double>(waits[(waits.size() * 95 + 99) / 100 - 1]) / 1e6;  // nearest rank
  report.max_wait_s = static_cast<double>(waits.back()) / 1e6;
  report.mean_bsld = slowdowns / n;
  report.makespan_s = static_cast<double>(last - first) / 1e6;
  report.utilisation = work / 1e6 / (report.makespan_s * static_cast<double>(processors));
  return report;
}

}  // namespace bourse::sim
