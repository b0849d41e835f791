// What became of the jobs of a trace, in numbers. The engines that run them are the framework's (frameworks/batch/replay.h and
// wire_replay.h); this is what comes out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/sim/workload.h"

namespace bourse::sim {

constexpr double kSlowdownBoundS = 10;  // of the bounded slowdown: shorter runs count as so long

struct Report {
  std::uint64_t jobs = 0;     // that ran
  std::uint64_t refused = 0;  // at submission
  std::string first_refusal;
  // p95: of the waits in ascending order the one at place floor(0.95 n), counted from 0.
  double mean_wait_s = 0, p95_wait_s = 0, max_wait_s = 0;
  double mean_bsld = 0;             // bounded slowdown: max(1, (wait + run) / max(run, 10 s))
  double gpu_alloc_percent = 0;     // of all GPUs, over the makespan
  double utilisation = 0;           // of all processors over the makespan
  double makespan_s = 0;            // from the first submission to the last end
  std::uint64_t schedule_hash = 0;  // over (job, start)
  std::uint64_t events = 0;
  std::uint64_t trace_hash = 0;              // over everything that was delivered
  std::uint64_t passes = 0, operations = 0;  // of the planner
};
Report summarise(const std::vector<TraceJob>& jobs, std::uint64_t processors);

}  // namespace bourse::sim
