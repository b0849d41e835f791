// `bourse simulate`: a workload trace through the real master, agents, client and batch framework, in virtual time.
//
// Owned by the caller, one thread, no I/O. Same jobs, options and seed: same schedule_hash, on any machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/core/result.h"
#include "common/sim/whatif.h"

namespace bourse::batch {

struct SimulatedNodes {
  std::uint32_t count = 1, cores = 1;
};
// "240x1", "20x80,48x12": so many nodes of so many cores each.
Result<std::vector<SimulatedNodes>> parse_simulated_nodes(std::string_view text);

struct SimulateOptions {
  std::vector<SimulatedNodes> nodes{{1, 1}};
  std::uint64_t seed = 1;
  bool backfill = true;
  bool log_to_stderr = false;
};
constexpr std::uint64_t kSimulatedNodesMax = 100'000;

// Fills `start` and `end` of each job in. kInvalid: a job that no node could ever carry is counted as refused, not an error;
// kTimeout: a job never ended, which is a fault of the product.
Result<sim::Report> simulate(std::vector<sim::TraceJob>& jobs, const SimulateOptions& options);

}  // namespace bourse::batch
