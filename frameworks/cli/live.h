// The cluster as it is now, as a simulation takes it in: nodes that take work, what runs on them, and the queue.
//
// Read from batch over its socket, blocking. Running jobs come first in the workload and are bound to their nodes; each then runs to its
// limit. Jobs that are held or wait for something else than room are left out.
#pragma once

#include <string>
#include <vector>

#include "common/sim/workload.h"
#include "frameworks/batch/simulated_nodes.h"
#include "frameworks/cli/batch_client.h"
#include "frameworks/cli/table.h"

namespace bourse::cli {

constexpr std::size_t kLiveJobsMax = 200'000;
constexpr Duration kUnlimitedRun = std::chrono::hours(365 * 24);  // what a job without limit is taken to run

struct LiveCluster {
  std::vector<batch::SimulatedNodes> nodes;
  sim::Workload work;
  std::vector<batch::JobInfo> rows;  // of each job in `work`
  std::uint64_t held = 0;            // left out
};
Result<LiveCluster> live_cluster(BatchClient& client);

// When each job would start, from so many replays with run times drawn from those of the past: (run time / limit) of the same user,
// else of all. In microseconds from now.
struct StartForecast {
  Duration p50{0}, p90{0};
};
constexpr std::size_t kForecastRuns = 100;
Result<std::vector<StartForecast>> forecast_starts(BatchClient& client, const LiveCluster& live);
// The same as columns of a table of jobs: start_p50 and start_p90. "N/A" for jobs that wait for something else than room.
Result<std::vector<Field<batch::JobInfo>>> start_fields(BatchClient& client);

}  // namespace bourse::cli
