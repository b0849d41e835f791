#include "common/sim/workload.h"

#include <algorithm>

namespace bourse::sim {
namespace {

// False: it is left out.
bool take(const SwfJob& from, Estimates estimates, TraceJob& job) {
  const std::int64_t processors = from.processors > 0 ? from.processors : from.processors_asked;
  if (from.submit < 0 || from.run <= 0 || processors <= 0 || processors > UINT32_MAX) return false;
  job.number = from.number;
  job.submit = seconds(from.submit);
  job.run = seconds(from.time_asked > 0 ? std::min(from.run, from.time_asked) : from.run);
  job.limit = estimates != Estimates::kExact && from.time_asked > 0 ? Duration(seconds(from.time_asked)) : job.run;
  job.processors = static_cast<std::uint32_t>(processors);
  job.user = static_cast<std::int32_t>(std::clamp<std::int64_t>(from.user, -1, INT32_MAX));
  return true;
}

}  // namespace

std::string_view text_of(Wait wait) {
  switch (wait) {
    case Wait::kNone:
      return "none";
    case Wait::kRoom:
      return "resources";
    case Wait::kOrder:
      return "order";
    case Wait::kReserved:
      return "reservation";
  }
  return "?";
}

std::uint32_t Workload::shape_of(const TraceShape& shape) {
  const auto [it, fresh] = index_.try_emplace(shape, static_cast<std::uint32_t>(shapes.size()));
  if (fresh) shapes.push_back(shape);
  return it->second;
}

void Workload::rebase() {
  if (jobs.empty()) return;
  const Duration first = jobs.front().submit;
  for (TraceJob& job : jobs) job.submit -= first;
  origin += first;
}

Result<Workload> workload_of_swf(Lines& lines, const ReadOptions& options) {
  Workload out;
  BOURSE_TRY(scan_swf(
      lines,
      [&](const SwfJob& from) {
        TraceJob job;
        if (!take(from, options.estimates, job)) return ++out.left_out, true;
        TraceShape shape;
        shape.tasks = job.processors;
        if (options.memory)
          shape.mem_per_task = std::max<std::int64_t>(from.memory_asked > 0 ? from.memory_asked : from.memory, 0) * 1024;
        job.shape = out.shape_of(shape);
        out.jobs.push_back(job);
        return options.jobs_max == 0 || out.jobs.size() < options.jobs_max;
      },
      [&](std::string_view name, std::string_view value) { out.header.emplace(name, value); }));
  out.rebase();
  return out;
}

std::vector<TraceJob> jobs_of(const SwfTrace& trace, Estimates estimates) {
  Workload out;
  for (const SwfJob& from : trace.jobs)
    if (TraceJob job; take(from, estimates, job)) out.jobs.push_back(job);
  out.rebase();
  return std::move(out.jobs);
}

}  // namespace bourse::sim
