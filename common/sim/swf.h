// The Standard Workload Format (Feitelson et al., Parallel Workloads Archive, v2.2): 18 numbers a job, ';' comments.
//
// Reads plain files and .gz. Bad input is refused whole, with line and column.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/core/result.h"
#include "common/sim/lines.h"

namespace bourse::sim {

constexpr std::size_t kSwfJobsMax = 10'000'000;
// Seconds; some 300 years. A job that runs a billion seconds is possible, one that overflows the clock is a damaged file.
constexpr std::int64_t kTraceSecondsMax = 10'000'000'000;

// -1: not known. Times in seconds since the start of the trace, memory in KiB a processor.
struct SwfJob {
  std::int64_t number = 0, submit = 0, wait = -1, run = -1, processors = -1, cpu = -1, memory = -1;
  std::int64_t processors_asked = -1, time_asked = -1, memory_asked = -1, status = -1;
  std::int64_t user = -1, group = -1, application = -1, queue = -1, partition = -1, previous = -1, think = -1;
};

struct SwfTrace {
  std::map<std::string, std::string> header;  // "MaxProcs" -> "240"; the first of each
  std::vector<SwfJob> jobs;                   // by submit time, as the file has them
};

// Calls `job` for each, in the order of the file, until it says false; `header` with each "Name: value" comment.
Result<> scan_swf(Lines& lines, const std::function<bool(const SwfJob&)>& job,
                  const std::function<void(std::string_view, std::string_view)>& header = {});

// `jobs_max` 0: all of them.
Result<SwfTrace> parse_swf(std::string_view text, const std::string& name, std::size_t jobs_max = 0);
Result<SwfTrace> read_swf(const std::string& path, std::size_t jobs_max = 0);

}  // namespace bourse::sim
