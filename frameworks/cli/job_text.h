// How jobs and nodes are shown: their fields, with Slurm's letters where there are such, and sentences about them.
#pragma once

#include <string>
#include <vector>

#include "frameworks/batch/protocol.h"
#include "frameworks/cli/table.h"

namespace bourse::cli {

const std::vector<Field<batch::JobInfo>>& job_fields();
const std::vector<Field<batch::NodeInfo>>& node_fields();

// " (exit code 3)", " (signal 9)", ": out of memory: peak 4GiB"; "" when there is nothing to say.
std::string ending_text(const batch::JobInfo& job);
std::string timestamp(Duration wall);                                        // local time, ISO 8601; "" for 0
Result<Duration> parse_timestamp(std::string_view text, Duration wall_now);  // also "today", "now-2h"

// The words of a list option: "1,2_3" or repeated arguments.
Result<std::vector<batch::JobSelector>> parse_selectors(const std::vector<std::string>& words);
std::vector<std::string> split_list(const std::vector<std::string>& words);  // each "a,b" into words

}  // namespace bourse::cli
