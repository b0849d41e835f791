// `bourse simulate --wire`: a workload trace through the real master, agents, client and batch framework, in virtual time.
//
// Owned by the caller, one thread, no I/O. Same jobs, options and seed: same schedule_hash, on any machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/core/result.h"
#include "common/sim/whatif.h"
#include "frameworks/batch/backfill.h"
#include "frameworks/batch/simulated_nodes.h"
#include "plugins/policy/catalog.h"

namespace bourse::batch {

struct SimulateOptions {
  std::vector<SimulatedNodes> nodes = std::vector<SimulatedNodes>(1);
  std::uint64_t seed = 1;
  Backfill backfill = Backfill::kEasy;
  policy::Choice policy = policy::built_in("fifo");
  const std::vector<sim::TraceShape>* shapes = nullptr;  // null: a processor is a core
  bool log_to_stderr = false;
};

// Fills `start` and `end` of each job in. kInvalid: a job that no node could ever carry is counted as refused, not an error;
// kTimeout: a job never ended, which is a fault of the product.
Result<sim::Report> simulate(std::vector<sim::TraceJob>& jobs, const SimulateOptions& options);

}  // namespace bourse::batch
