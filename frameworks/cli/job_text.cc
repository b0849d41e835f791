#include "frameworks/cli/job_text.h"

#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "common/core/units.h"

namespace bourse::cli {
namespace {

using batch::JobInfo;
using batch::NodeInfo;

std::string limit_text(Duration limit) { return limit == kNoLimit ? "UNLIMITED" : format_clock(limit); }

// What people look at a queue for: why it waits, or where it runs.
std::string reason_or_hosts(const JobInfo& j) {
  if (j.state == batch::JobState::kPending) return fmt::format("({})", batch::reason_name(j.reason));
  if (is_terminal(j.state) && j.node_list.empty()) return fmt::format("({})", batch::reason_name(j.reason));
  return j.node_list;
}

std::string left_text(const JobInfo& j) {
  if (j.time_limit == kNoLimit) return "UNLIMITED";
  return format_clock(std::max(Duration(0), j.time_limit - j.elapsed));
}

std::string number(std::int64_t n) { return std::to_string(n); }

std::string command_text(const JobInfo& j) {
  std::string text = j.script_path;
  for (const std::string& arg : j.args) text += (text.empty() ? "" : " ") + arg;
  return text;
}

}  // namespace

const std::vector<Field<JobInfo>>& job_fields() {
  static const std::vector<Field<JobInfo>> fields = {
      {"id", 'i', "JOBID", [](const JobInfo& j) { return batch::display_id(j); }, true},
      {"job_id", 'A', "JOBID", [](const JobInfo& j) { return number(static_cast<std::int64_t>(j.id.value)); }, true, true},
      {"array_job_id", 'F', "ARRAY_JOB_ID",
       [](const JobInfo& j) { return number(static_cast<std::int64_t>(j.array.value != 0 ? j.array.value : j.id.value)); }, true,
       true},
      {"array_index", 'K', "ARRAY_TASK_ID", [](const JobInfo& j) { return j.indexes.empty() ? "N/A" : j.indexes; }},
      {"partition", 'P', "PARTITION", [](const JobInfo& j) { return j.partition; }},
      {"name", 'j', "NAME", [](const JobInfo& j) { return j.name; }},
      {"user", 'u', "USER", [](const JobInfo& j) { return j.user; }},
      {"uid", 'U', "UID", [](const JobInfo& j) { return number(j.uid); }, true, true},
      {"account", 'a', "ACCOUNT", [](const JobInfo& j) { return j.account; }},
      {"qos", 'q', "QOS", [](const JobInfo& j) { return j.qos; }},
      {"state_code", 't', "ST", [](const JobInfo& j) { return std::string(batch::state_code(j.state)); }},
      {"state", 'T', "STATE", [](const JobInfo& j) { return std::string(batch::state_name(j.state)); }},
      {"reason", 'r', "REASON", [](const JobInfo& j) { return std::string(batch::reason_name(j.reason)); }},
      {"reason_text", 0, "WHY", [](const JobInfo& j) { return j.reason_text; }},
      {"elapsed", 'M', "TIME", [](const JobInfo& j) { return format_clock(j.elapsed); }, true},
      {"time_left", 'L', "TIME_LEFT", left_text, true},
      {"time_limit", 'l', "TIME_LIMIT", [](const JobInfo& j) { return limit_text(j.time_limit); }, true},
      {"nodes", 'D', "NODES", [](const JobInfo& j) { return number(j.nodes); }, true, true},
      {"tasks", 0, "TASKS", [](const JobInfo& j) { return number(j.tasks); }, true, true},
      {"cpus", 'C', "CPUS", [](const JobInfo& j) { return format_cpus(j.cpus); }, true, true},
      {"mem", 'm', "MIN_MEMORY", [](const JobInfo& j) { return format_size(j.mem); }, true},
      {"hosts", 'N', "NODELIST", [](const JobInfo& j) { return j.node_list; }},
      {"where", 'R', "NODELIST(REASON)", reason_or_hosts},
      {"priority", 'Q', "PRIORITY", [](const JobInfo& j) { return number(j.priority); }, true, true},
      {"submitted", 'V', "SUBMIT_TIME", [](const JobInfo& j) { return timestamp(j.submitted); }},
      {"started", 'S', "START_TIME",
       [](const JobInfo& j) {
         return j.started.count() != 0           ? timestamp(j.started)
                : j.estimated_start.count() != 0 ? timestamp(j.estimated_start)
                                                 : "N/A";
       }},
      {"ended", 'e', "END_TIME", [](const JobInfo& j) { return j.ended.count() != 0 ? timestamp(j.ended) : "N/A"; }},
      {"exit", 0, "EXIT", [](const JobInfo& j) { return fmt::format("{}:{}", j.exit_code, j.exit_signal); }},
      {"mem_peak", 0, "MAXRSS", [](const JobInfo& j) { return format_size(Bytes(j.mem_peak.value / 1024 * 1024)); }, true},
      {"cpu_time", 0, "CPUTIME", [](const JobInfo& j) { return fmt::format("{:.2f}", static_cast<double>(j.cpu.count()) / 1e6); },
       true, true},
      {"restarts", 0, "RESTARTS", [](const JobInfo& j) { return number(j.restarts); }, true, true},
      {"comment", 'k', "COMMENT", [](const JobInfo& j) { return j.comment; }},
      {"dependency", 'E', "DEPENDENCY", [](const JobInfo& j) { return j.dependency; }},
      {"directory", 'Z', "WORK_DIR", [](const JobInfo& j) { return j.directory; }},
      {"command", 'o', "COMMAND", command_text},
      {"output", 0, "OUTPUT", [](const JobInfo& j) { return j.stdout_path; }},
  };
  return fields;
}

const std::vector<Field<NodeInfo>>& node_fields() {
  static const std::vector<Field<NodeInfo>> fields = {
      {"name", 'N', "NODE", [](const NodeInfo& n) { return n.name; }},
      {"state", 't', "STATE", [](const NodeInfo& n) { return n.state; }},
      {"cpus", 'c', "CPUS", [](const NodeInfo& n) { return format_cpus(n.cpus); }, true, true},
      {"cpus_used", 0, "USED", [](const NodeInfo& n) { return format_cpus(n.cpus_used); }, true, true},
      {"mem", 'm', "MEMORY", [](const NodeInfo& n) { return format_size(Bytes(n.mem.value / kMiB.value * kMiB.value)); }, true},
      {"mem_used", 0, "USED_MEM", [](const NodeInfo& n) { return format_size(n.mem_used); }, true},
      {"jobs", 0, "JOBS", [](const NodeInfo& n) { return number(n.jobs); }, true, true},
      {"devices", 'G', "DEVICES", [](const NodeInfo& n) { return n.devices; }},
      {"labels", 'f', "LABELS", [](const NodeInfo& n) { return n.labels; }},
      {"isolation", 0, "ISOLATION", [](const NodeInfo& n) { return n.degraded ? "degraded" : "full"; }},
  };
  return fields;
}

std::string ending_text(const JobInfo& job) {
  std::string text;
  if (job.exit_signal != 0)
    text = fmt::format(" (signal {}, {})", job.exit_signal, strsignal(job.exit_signal));
  else if (job.exit_code != 0)
    text = fmt::format(" (exit code {})", job.exit_code);
  if (!job.reason_text.empty()) text += ": " + job.reason_text;
  return text;
}

std::string timestamp(Duration wall) {
  if (wall.count() == 0) return "";
  const std::time_t t = std::chrono::duration_cast<seconds>(wall).count();
  std::tm tm{};
  localtime_r(&t, &tm);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
  return text;
}

Result<Duration> parse_timestamp(std::string_view text, Duration wall_now) {
  const std::string word(text);
  std::tm tm{};
  int used = 0;
  const auto whole = [&] { return static_cast<std::size_t>(used) == word.size(); };
  int y = 0, mo = 0, d = 0, h = 0, mi = 0, s = 0;
  if ((std::sscanf(word.c_str(), "%4d-%2d-%2dT%2d:%2d:%2d%n", &y, &mo, &d, &h, &mi, &s, &used) == 6 && whole()) ||
      (std::sscanf(word.c_str(), "%4d-%2d-%2dT%2d:%2d%n", &y, &mo, &d, &h, &mi, &used) == 5 && whole()) ||
      (std::sscanf(word.c_str(), "%4d-%2d-%2d%n", &y, &mo, &d, &used) == 3 && whole())) {
    tm.tm_year = y - 1900, tm.tm_mon = mo - 1, tm.tm_mday = d, tm.tm_hour = h, tm.tm_min = mi, tm.tm_sec = s, tm.tm_isdst = -1;
    return Duration(seconds(std::mktime(&tm)));
  }
  if (word == "now") return wall_now;
  if (word == "today") {
    const std::time_t t = std::chrono::duration_cast<seconds>(wall_now).count();
    localtime_r(&t, &tm);
    tm.tm_hour = tm.tm_min = tm.tm_sec = 0, tm.tm_isdst = -1;
    return Duration(seconds(std::mktime(&tm)));
  }
  if (word.starts_with("now-")) return wall_now - BOURSE_TRY(parse_duration(word.substr(4), seconds(1)));
  return Error(Code::kInvalid, fmt::format("`{}' is no time; write 2026-12-01, 2026-12-01T08:00, today or now-2h", word));
}

std::vector<std::string> split_list(const std::vector<std::string>& words) {
  std::vector<std::string> out;
  for (const std::string& word : words) {
    int depth = 0;  // commas within [ ] belong to a host list or an index set
    std::string part;
    for (const char c : word) {
      depth += c == '[' ? 1 : c == ']' ? -1 : 0;
      if (c == ',' && depth == 0) {
        if (!part.empty()) out.push_back(std::exchange(part, ""));
      } else {
        part += c;
      }
    }
    if (!part.empty()) out.push_back(part);
  }
  return out;
}

Result<std::vector<batch::JobSelector>> parse_selectors(const std::vector<std::string>& words) {
  std::vector<batch::JobSelector> selectors;
  for (const std::string& word : split_list(words)) selectors.push_back(BOURSE_TRY(batch::parse_selector(word)));
  return selectors;
}

}  // namespace bourse::cli
