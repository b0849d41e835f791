// A workload under the rules of RLScheduler's environment (Zhang et al., SC 2020; DIR-LAB/deep-batch-scheduler, HPCSimPickJobs.py), so
// that its published table can be computed again with the policies that ship.
//
// They differ from batch's (replay.h) in this: the job that an order puts first stays chosen until it fits, whatever comes meanwhile;
// events are let in one at a time, an arrival before an end of the same moment; and with backfilling who passes the chosen one is taken
// in order of submission and must, by its limit, end strictly before the time at which the chosen one would have fitted when it was
// chosen. Processors are counted, nodes are not told apart, and run times are not cut at limits. Utilisation is over the time until the
// last start, not the last end. Owned by the caller, one thread, no I/O.
#pragma once

#include "frameworks/batch/replay.h"

namespace bourse::batch {

// Of `options` counts what is free (nodes), origin, order (not null) and backfill (none, or anything else for yes).
Result<sim::Report> picked_replay(std::vector<sim::TraceJob>& jobs, const ReplayOptions& options);

}  // namespace bourse::batch
