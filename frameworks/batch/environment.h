// What a job finds in its environment, and the names of its output files. Pure; names and meanings are Slurm's, each variable
// once as SUBMIT_* and once as SLURM_*.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "frameworks/batch/job.h"
#include "frameworks/batch/layout.h"

namespace bourse::batch {

// Where and as what one run of a job (or array task) happens.
struct Placement {
  JobId id;     // own number
  JobId array;  // 0: not of an array
  std::uint64_t index = 0;
  std::uint32_t restarts = 0;
  std::vector<std::string> hosts;  // the first runs the script
  MilliCpus cpus_per_node;         // as carved (a whole host: all of it)
  Bytes mem_per_node;
  std::uint32_t devices_per_node = 0;
};

std::vector<std::string> job_environment(const JobSpec& spec, const ArraySpec& array, const Layout& layout,
                                         const Placement& placement, const BatchOptions& options);

// Patterns of Slurm's sbatch(1), "filename pattern": %j %x %A %a %N %u %n %t %s %J %%, with a width ("%4j" pads with zeros, at most 10).
// What is not a pattern stays. Relative names are below `directory`.
std::string expand_pattern(std::string_view pattern, const JobSpec& spec, const Placement& placement);
struct OutputNames {
  std::string in, out, error;  // error empty: with out
};
OutputNames output_names(const JobSpec& spec, const Placement& placement);

}  // namespace bourse::batch
