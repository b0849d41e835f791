#include "frameworks/batch/ending.h"

#include <cstring>
#include <map>

namespace bourse::batch {
namespace {

std::string signal_text(std::int32_t signal) {
  const char* name = strsignal(signal);
  return "signal " + std::to_string(signal) + (name == nullptr ? "" : " (" + std::string(name) + ")");
}

std::string cause(const JobInfo& job) {
  switch (job.state) {
    case JobState::kCompleted:
      return "exit code 0";
    case JobState::kTimeout:
      return "it reached its time limit" +
             (job.time_limit.count() > 0 && job.time_limit < kNoLimit ? " of " + format_duration(job.time_limit) : std::string());
    case JobState::kOutOfMemory:
      return "out of memory" + (job.mem.value > 0 ? ": its limit is " + format_size(job.mem) + " on each node" : std::string()) +
             (job.mem_peak.value > 0 ? ", its peak was " + format_size(job.mem_peak) : std::string());
    case JobState::kNodeFail:
      return "a node of it was lost";
    case JobState::kPreempted:
      return "it was preempted";
    case JobState::kCancelled:
      return job.reason == Reason::kDependencyNeverSatisfied ? "what it depends on can never be"
             : job.started.count() > 0                       ? "it was cancelled while it ran"
                                                             : "it was cancelled before it started";
    default:
      break;
  }
  if (job.reason == Reason::kLaunchFailed) return "it could not be started";
  if (job.exit_signal != 0) return signal_text(job.exit_signal);
  return job.reason == Reason::kUnknownExit ? "nobody knows its exit status" : "exit code " + std::to_string(job.exit_code);
}

}  // namespace

std::vector<std::string> how_it_ended(const JobInfo& job) {
  std::vector<std::string> lines;
  lines.push_back(display_id(job) + " ended " + std::string(state_name(job.state)) + ": " + cause(job) +
                  (job.reason_text.empty() ? "" : "; " + job.reason_text));
  if (job.reason != Reason::kLaunchFailed && job.started.count() > 0 && !job.node_list.empty())
    lines.push_back("it ran on " + job.node_list + " for " + format_duration(std::chrono::floor<milliseconds>(job.elapsed)));
  if (job.restarts > 0) lines.push_back("it was started " + std::to_string(job.restarts + 1) + " times");
  if (job.state != JobState::kCompleted && job.full && job.started.count() > 0 && !job.stdout_path.empty())
    lines.push_back("its output is in " + job.stdout_path +
                    (job.stderr_path.empty() || job.stderr_path == job.stdout_path ? "" : " and " + job.stderr_path));
  return lines;
}

WhyReply explain_end(const JobReply& ended) {
  WhyReply out;
  out.code = ended.code, out.reason = ended.reason;
  if (ended.code != Code::kOk || ended.rows.empty()) return out;
  out.job = ended.rows.front();
  if (ended.rows.size() == 1) {
    out.lines = how_it_ended(out.job);
    return out;
  }
  std::map<JobState, std::uint64_t> counts;
  std::size_t told = 0;
  for (const JobInfo& row : ended.rows) {
    ++counts[row.state];
    if (row.state == JobState::kCompleted || told++ >= kEndingsTold) continue;
    for (std::string& line : how_it_ended(row)) out.lines.push_back(std::move(line));
    if (out.job.state == JobState::kCompleted) out.job = row;
  }
  std::string sum;
  for (const auto& [state, count] : counts)
    sum += (sum.empty() ? "" : ", ") + std::to_string(count) + " " + std::string(state_name(state));
  out.lines.insert(out.lines.begin(), "an array of which " + std::to_string(ended.rows.size()) + " parts ended: " + sum);
  if (told > kEndingsTold)
    out.lines.push_back("and " + std::to_string(told - kEndingsTold) + " more like these; see bourse history");
  return out;
}

}  // namespace bourse::batch
