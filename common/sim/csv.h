// Traces as CSV with named columns: the first line names them, in any order; those that are not known are passed over.
//
// Times are in seconds with up to six decimals, or "2017-10-09 07:01:55" (UTC). Bad input is refused whole, with file, line and
// column (of the character). Fields may be in double quotes.
//
//   what                 columns, the first that is there
//   submission           submit_s submit_time submit creation_time timestamp                       must be there
//   run time             run_s run_time duration_s duration; else deletion_time less scheduled_time (or submission)   the same
//   limit                walltime_s time_limit_s limit_s
//   number               job job_id number        (else the line's)
//   user                 user user_id cluster     (a number, or any word)
//   processors           processors procs cpus; nodes and ppn (processors on each node); cpu_milli
//   memory               memory_mib, mem_bytes (on each node); mem_bytes_per_job
//   GPUs                 gpus num_gpus num_gpu, gpu_milli (permille of each), gpu_spec ("T4|P100")
//   where                cluster_constraint (a value of the label "cluster"; "-" any), constraint (as in bourse(7))
#pragma once

#include <string>
#include <vector>

#include "common/sim/workload.h"

namespace bourse::sim {

constexpr std::size_t kCsvColumnsMax = 200;

// Jobs in the order of their submission; equal times: in the order of the file. `times` false: they need not be there and are not
// looked at (for filling a cluster).
Result<Workload> workload_of_csv(Lines& lines, const ReadOptions& options, bool times = true);

// A list of nodes: sn (or name), cpu_milli (or cpus), memory_mib, gpu (or gpus), model.
struct CsvNode {
  std::string name, model;
  std::int64_t cpu_milli = 0, mem = 0;
  std::uint32_t gpus = 0;
};
Result<std::vector<CsvNode>> nodes_of_csv(Lines& lines);

}  // namespace bourse::sim
