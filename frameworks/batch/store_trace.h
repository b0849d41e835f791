// What production wrote down, as a workload: batch's own store of ended jobs (STATE/queue.db), for `bourse simulate`.
//
// Reads the file on its own connection; batch may be running. Blocking.
#pragma once

#include <string>

#include "common/core/result.h"
#include "common/sim/workload.h"

namespace bourse::batch {

bool is_store(const std::string& path);  // by its first bytes
// In the order of submission; submission is when a job could first have started (its eligible time). Only jobs that ran.
Result<sim::Workload> workload_of_store(const std::string& path, const sim::ReadOptions& options);

}  // namespace bourse::batch
