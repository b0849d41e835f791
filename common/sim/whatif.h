// What-if: the jobs of a trace, and what became of them. The engine that runs them with a framework is the framework's
// (frameworks/batch/simulate.h); this is what goes in and comes out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/core/time.h"
#include "common/core/units.h"
#include "common/sim/swf.h"

namespace bourse::sim {

enum class Estimates : std::uint8_t { kExact, kUser };  // time limits: the run time, or what the user asked for

struct TraceJob {
  std::int64_t number = 0;
  Duration submit{0};  // since the first job's
  Duration run{0}, limit{0};
  std::uint32_t processors = 1;
  std::int64_t user = -1;
  // Filled in by a run. Negative: it did not happen.
  Duration start{-1}, end{-1};
};

// Jobs without run time or processors are left out, as is usual with these logs. The run time is cut at the requested time; where
// none was requested the run time stands for it.
std::vector<TraceJob> jobs_of(const SwfTrace& trace, Estimates estimates);

struct Report {
  std::uint64_t jobs = 0;     // that ran
  std::uint64_t refused = 0;  // at submission
  std::string first_refusal;
  double mean_wait_s = 0, p95_wait_s = 0, max_wait_s = 0;
  double mean_bsld = 0;             // bounded slowdown: max(1, (wait + run) / max(run, 10 s))
  double utilisation = 0;           // of all processors over the makespan
  double makespan_s = 0;            // from the first submission to the last end
  std::uint64_t schedule_hash = 0;  // over (job, start)
  std::uint64_t events = 0;
  std::uint64_t trace_hash = 0;  // over everything that was delivered
};
Report summarise(const std::vector<TraceJob>& jobs, std::uint64_t processors);

}  // namespace bourse::sim
