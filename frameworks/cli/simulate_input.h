// What `bourse simulate` runs with: a cluster and a workload, from files, text or a live cluster, edited as the command line says.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/sim/workload.h"
#include "frameworks/batch/simulated_nodes.h"

namespace bourse::cli {

struct SimulateInput {
  std::string trace, nodes, add_nodes, drain;
  bool from_master = false;
  std::string dir;
  double scale_load = 1;
  std::size_t skip = 0, jobs_max = 0;  // the first ones are left out, and then so many are taken; 0: all
  sim::Estimates estimates = sim::Estimates::kUser;
  double fill = 0;  // of the cluster's GPUs (or cores); 0: no filling
  std::uint64_t seed = 1;
};
struct SimulateSetup {
  std::vector<batch::SimulatedNodes> nodes;
  sim::Workload work;
};
// kInvalid where the command line or a file is wrong.
Result<SimulateSetup> prepare(const SimulateInput& input);

}  // namespace bourse::cli
