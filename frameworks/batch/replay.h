// A workload through batch's own planner, in virtual time and without messages: what `bourse simulate` runs.
//
// The planner, layouts, limits and orders are those of production (frameworks/batch/planner.h, layout.h); offers, agents and the
// network are left out, so that a start costs no time. wire_replay.h has them. Owned by the caller, one thread, no I/O, no clock.
// Same jobs and options: same schedule, on any machine.
//
// Order of events: at one moment first all ends (by job in the trace), then all submissions (in the trace's order), then one pass.
// The order of the queue is that of submission, unless a QueueOrder says otherwise.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/core/result.h"
#include "common/sim/whatif.h"
#include "frameworks/batch/job.h"
#include "frameworks/batch/planner.h"
#include "frameworks/batch/simulated_nodes.h"

namespace bourse::batch {

// Ranks waiting jobs, and may choose their nodes. Hears of each before it is asked. A job is its index in the trace.
class QueueOrder : public NodeChooser {
 public:
  struct Job {
    std::uint64_t job = 0;
    const Need* need = nullptr;
    Duration submit{0}, estimate{0};
    std::int32_t user = -1;
    std::int64_t priority = 0;
  };
  virtual void arrived(const Job& job) = 0;
  virtual void started(std::uint64_t job, Duration now) = 0;
  virtual void ended(std::uint64_t job, Duration now) = 0;
  virtual void dropped(std::uint64_t) {}  // it will not start
  // A walk over those that wait, the best first. What starts in the middle of it counts at once; a job may be given again.
  virtual void begin(Duration now) = 0;
  virtual std::optional<std::uint64_t> next() = 0;
};

struct ReplayOptions {
  std::vector<SimulatedNodes> nodes = std::vector<SimulatedNodes>(1);
  Backfill backfill = Backfill::kEasy;
  std::size_t depth = SIZE_MAX;                          // of backfilling, see Planner::PassOptions
  Duration origin{0};                                    // what orders see: submit times and `now` count from this much earlier
  bool once = false;                                     // each job is placed when it is submitted, or never, and stays
  bool last2 = false;                                    // plan with the mean of the user's last two run times: Estimates::kLast2
  QueueOrder* order = nullptr;                           // null: first come, first served
  QueueOrder* backfill_order = nullptr;                  // of those past the first that waits; null: the same
  const std::vector<sim::TraceShape>* shapes = nullptr;  // null: a processor is a core
  // In place of `nodes` and `shapes`, for who has them as production does: the nodes, what jobs need (by TraceJob.shape), and their
  // priorities (by place in the trace). With `cluster` the report has no utilisation.
  const std::vector<PlannedNode>* cluster = nullptr;
  const std::vector<Need>* needs = nullptr;
  const std::vector<std::int64_t>* priorities = nullptr;
  // The nodes of a start, ascending.
  std::function<void(std::size_t job, const std::vector<Holding>& holdings)> on_start;
  std::function<void(std::uint64_t done)> progress;  // every kProgressEvery jobs
};
constexpr std::uint64_t kProgressEvery = 4096;

// Fills `start`, `end` and `reason` of each job in. A job that this cluster could never carry is counted as refused, not an error.
Result<sim::Report> replay(std::vector<sim::TraceJob>& jobs, const ReplayOptions& options);

// What a user would have asked batch for; for both engines.
struct Largest {  // of any node
  MilliCpus cpus;
  std::uint32_t gpus = 0;
};
Largest largest_of(const std::vector<SimulatedNodes>& groups);
Result<> ask_for(const sim::TraceShape& shape, Largest largest, JobSpec& spec);
Result<Need> need_of(const sim::TraceShape& shape, Largest largest);

}  // namespace bourse::batch
