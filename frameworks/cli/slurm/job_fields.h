// What squeue, sacct and scontrol say of jobs, in Slurm's words.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "frameworks/batch/protocol.h"
#include "frameworks/cli/batch_client.h"
#include "frameworks/cli/slurm/columns.h"

namespace bourse::cli {

const std::vector<SlurmField<batch::JobInfo>>& squeue_fields();
const std::vector<SlurmField<batch::JobInfo>>& sacct_fields();

std::string slurm_time(Duration wall, std::string_view otherwise);  // local time, ISO 8601
std::string slurm_limit(Duration limit);                            // "1-00:00:00", "UNLIMITED"

// All rows, page after page.
Result<std::vector<batch::JobInfo>> ask_queue(BatchClient& client, batch::QueueRequest request);
Result<std::vector<batch::JobInfo>> ask_history(BatchClient& client, batch::HistoryRequest request, std::size_t most);

// What several commands share of their options: who, which, in what state. `all_states`: the word "all" was among them.
struct SlurmFilter {
  batch::JobFilter filter;
  bool all_states = false;
};
Result<SlurmFilter> slurm_filter(const std::map<std::string, std::string, std::less<>>& options);

}  // namespace bourse::cli
