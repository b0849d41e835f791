#include "frameworks/cli/slurm/job_fields.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "common/core/hostlist.h"
#include "common/core/units.h"
#include "frameworks/cli/job_text.h"

namespace bourse::cli {
namespace {

using batch::JobInfo;
using batch::JobState;

std::string number(std::int64_t n) { return std::to_string(n); }
std::int64_t whole_seconds(Duration d) { return std::chrono::duration_cast<std::chrono::seconds>(d).count(); }

// As squeue has it: 0:05, 1:00:05, 2-01:00:05.
std::string clock_text(Duration d) {
  const std::int64_t s = std::max<std::int64_t>(whole_seconds(d), 0);
  if (s >= 86400) return fmt::format("{}-{:02}:{:02}:{:02}", s / 86400, s / 3600 % 24, s / 60 % 60, s % 60);
  if (s >= 3600) return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
  return fmt::format("{}:{:02}", s / 60, s % 60);
}

std::string cpus(const JobInfo& j) { return number((j.cpus.value + 999) / 1000); }
std::string partition(const JobInfo& j) { return j.partition.empty() ? "all" : j.partition; }
bool pending(const JobInfo& j) { return j.state == JobState::kPending; }
std::string where(const JobInfo& j) { return pending(j) ? fmt::format("({})", batch::reason_name(j.reason)) : j.node_list; }
std::string reason(const JobInfo& j) { return std::string(batch::reason_name(j.reason)); }
std::string command(const JobInfo& j) {
  return j.script_path.empty() ? (j.args.empty() ? "(null)" : j.args.front()) : j.script_path;
}
std::string first_host(const JobInfo& j) {
  const auto hosts = expand_hosts(j.node_list);
  return hosts && !hosts->empty() ? hosts->front() : "n/a";
}
std::string or_null(const std::string& text) { return text.empty() ? "(null)" : text; }
std::string megabytes(Bytes b) {
  return b.value % (1024 * kMiB.value) == 0 && b.value > 0 ? number(b.value / (1024 * kMiB.value)) + "G"
                                                           : number(b.value / kMiB.value) + "M";
}
std::string left(const JobInfo& j) {
  if (j.time_limit == kNoLimit) return "UNLIMITED";
  return clock_text(std::max(j.time_limit - j.elapsed, Duration(0)));
}
std::string limit_clock(const JobInfo& j) { return j.time_limit == kNoLimit ? "UNLIMITED" : clock_text(j.time_limit); }
std::string array_id(const JobInfo& j) {
  return number(static_cast<std::int64_t>(j.array.value != 0 ? j.array.value : j.id.value));
}
Duration expected_end(const JobInfo& j) {
  if (j.ended.count() != 0) return j.ended;
  return j.started.count() != 0 && j.time_limit != kNoLimit ? j.started + j.time_limit : Duration(0);
}
Duration start_time(const JobInfo& j) { return j.started.count() != 0 ? j.started : j.estimated_start; }

// "COMPLETED", and who cancelled: sacct's form.
std::string state_text(const JobInfo& j) { return std::string(batch::state_name(j.state)); }
std::string exit_text(const JobInfo& j) { return fmt::format("{}:{}", j.exit_code, j.exit_signal); }
std::string raw_elapsed(const JobInfo& j) { return number(whole_seconds(j.elapsed)); }
std::string cpu_clock(const JobInfo& j) {
  const std::int64_t ms = std::chrono::duration_cast<std::chrono::milliseconds>(j.cpu).count();
  if (ms >= 3'600'000) return format_hours(j.cpu);
  return fmt::format("{:02}:{:02}.{:03}", ms / 60'000, ms / 1000 % 60, ms % 1000);
}
Duration allocated(const JobInfo& j) { return j.elapsed * ((j.cpus.value + 999) / 1000); }

}  // namespace

std::string slurm_time(Duration wall, std::string_view otherwise) {
  return wall.count() == 0 ? std::string(otherwise) : timestamp(wall);
}

std::string slurm_limit(Duration limit) { return limit == kNoLimit ? "UNLIMITED" : format_hours(limit); }

const std::vector<SlurmField<JobInfo>>& squeue_fields() {
  static const std::vector<SlurmField<JobInfo>> fields = {
      {'i', "JobArrayID", "JOBID", 20, [](const JobInfo& j) { return batch::display_id(j); }},
      {'A', "JobID", "JOBID", 20, [](const JobInfo& j) { return number(static_cast<std::int64_t>(j.id.value)); }},
      {'F', "ArrayJobID", "ARRAY_JOB_ID", 20, array_id},
      {'K', "ArrayTaskID", "ARRAY_TASK_ID", 20, [](const JobInfo& j) { return j.indexes.empty() ? "N/A" : j.indexes; }},
      {'P', "Partition", "PARTITION", 20, partition},
      {'j', "Name", "NAME", 20, [](const JobInfo& j) { return j.name; }},
      {'u', "UserName", "USER", 20, [](const JobInfo& j) { return j.user; }},
      {'U', "UserID", "UID", 20, [](const JobInfo& j) { return number(j.uid); }},
      {'g', "GroupName", "GROUP", 20, [](const JobInfo& j) { return number(j.gid); }},
      {'G', "GroupID", "GROUP", 20, [](const JobInfo& j) { return number(j.gid); }},
      {'a', "Account", "ACCOUNT", 20, [](const JobInfo& j) { return or_null(j.account); }},
      {'q', "QOS", "QOS", 20, [](const JobInfo& j) { return j.qos.empty() ? "normal" : j.qos; }},
      {'t', "StateCompact", "ST", 20, [](const JobInfo& j) { return std::string(batch::state_code(j.state)); }},
      {'T', "State", "STATE", 20, state_text},
      {'r', "Reason", "REASON", 20, reason},
      {'R', "ReasonList", "NODELIST(REASON)", 20, where},
      {'M', "TimeUsed", "TIME", 20, [](const JobInfo& j) { return pending(j) ? "0:00" : clock_text(j.elapsed); }},
      {'L', "TimeLeft", "TIME_LEFT", 20, left},
      {'l', "TimeLimit", "TIME_LIMIT", 20, limit_clock},
      {'D', "NumNodes", "NODES", 20, [](const JobInfo& j) { return number(j.nodes); }},
      {'C', "NumCPUs", "CPUS", 20, cpus},
      {0, "NumTasks", "TASKS", 20, [](const JobInfo& j) { return number(j.tasks); }},
      {'c', "MinCpus", "MIN_CPUS", 20, [](const JobInfo& j) { return number(j.cpus_per_task); }},
      {'m', "MinMemory", "MIN_MEMORY", 20, [](const JobInfo& j) { return megabytes(j.mem); }},
      {'b', "tres-per-node", "TRES_PER_NODE", 20, [](const JobInfo& j) { return j.devices.empty() ? "N/A" : "gres:" + j.devices; }},
      {'N', "NodeList", "NODELIST", 20, [](const JobInfo& j) { return j.node_list; }},
      {'B', "BatchHost", "EXEC_HOST", 20, first_host},
      {'n', "ReqNodes", "REQ_NODES", 20, [](const JobInfo& j) { return j.node_request; }},
      {'f', "Feature", "FEATURES", 20, [](const JobInfo& j) { return or_null(j.constraints); }},
      {'p', "Priority", "PRIORITY", 20, [](const JobInfo& j) { return number(j.priority); }},
      {'Q', "PriorityLong", "PRIORITY", 20, [](const JobInfo& j) { return number(j.priority); }},
      {'y', "Nice", "NICE", 20, [](const JobInfo& j) { return number(j.nice); }},
      {'V', "SubmitTime", "SUBMIT_TIME", 20, [](const JobInfo& j) { return slurm_time(j.submitted, "N/A"); }},
      {'S', "StartTime", "START_TIME", 20, [](const JobInfo& j) { return slurm_time(start_time(j), "N/A"); }},
      {'e', "EndTime", "END_TIME", 20, [](const JobInfo& j) { return slurm_time(expected_end(j), "N/A"); }},
      {0, "EligibleTime", "ELIGIBLE_TIME", 20, [](const JobInfo& j) { return slurm_time(j.eligible, "N/A"); }},
      {'E', "Dependency", "DEPENDENCY", 20, [](const JobInfo& j) { return or_null(j.dependency); }},
      {'k', "Comment", "COMMENT", 20, [](const JobInfo& j) { return or_null(j.comment); }},
      {'Z', "WorkDir", "WORK_DIR", 20, [](const JobInfo& j) { return j.directory; }},
      {'o', "Command", "COMMAND", 20, command},
      {0, "STDOUT", "STDOUT", 20, [](const JobInfo& j) { return j.stdout_path; }},
      {0, "STDERR", "STDERR", 20, [](const JobInfo& j) { return j.stderr_path.empty() ? j.stdout_path : j.stderr_path; }},
      {'h', "OverSubscribe", "OVER_SUBSCRIBE", 20, [](const JobInfo& j) { return j.exclusive ? "NO" : "OK"; }},
      {'v', "Reservation", "RESERVATION", 20, [](const JobInfo& j) { return or_null(j.reservation); }},
      {'W', "Licenses", "LICENSES", 20, [](const JobInfo&) { return "(null)"; }},
      {'Y', "SchedNodes", "SCHEDNODES", 20, [](const JobInfo&) { return "(null)"; }},
      {0, "exit_code", "EXIT_CODE", 20, [](const JobInfo& j) { return number(j.exit_code); }},
      {0, "RestartCnt", "RESTART_COUNT", 20, [](const JobInfo& j) { return number(j.restarts); }},
  };
  return fields;
}

const std::vector<SlurmField<JobInfo>>& sacct_fields() {
  static const std::vector<SlurmField<JobInfo>> fields = {
      {0, "JobID", "JobID", -12, [](const JobInfo& j) { return batch::display_id(j); }},
      {0, "JobIDRaw", "JobIDRaw", -12, [](const JobInfo& j) { return number(static_cast<std::int64_t>(j.id.value)); }},
      {0, "JobName", "JobName", 10, [](const JobInfo& j) { return j.name; }},
      {0, "User", "User", 9, [](const JobInfo& j) { return j.user; }},
      {0, "UID", "UID", 6, [](const JobInfo& j) { return number(j.uid); }},
      {0, "GID", "GID", 6, [](const JobInfo& j) { return number(j.gid); }},
      {0, "Account", "Account", 10, [](const JobInfo& j) { return j.account; }},
      {0, "Partition", "Partition", 10, partition},
      {0, "QOS", "QOS", 10, [](const JobInfo& j) { return j.qos.empty() ? "normal" : j.qos; }},
      {0, "State", "State", 10, state_text},
      {0, "ExitCode", "ExitCode", 8, exit_text},
      {0, "DerivedExitCode", "DerivedExitCode", 15, exit_text},
      {0, "Submit", "Submit", 19, [](const JobInfo& j) { return slurm_time(j.submitted, "Unknown"); }},
      {0, "Eligible", "Eligible", 19, [](const JobInfo& j) { return slurm_time(j.eligible, "Unknown"); }},
      {0, "Start", "Start", 19, [](const JobInfo& j) { return slurm_time(j.started, "Unknown"); }},
      {0, "End", "End", 19, [](const JobInfo& j) { return slurm_time(j.ended, "Unknown"); }},
      {0, "Elapsed", "Elapsed", 10, [](const JobInfo& j) { return format_hours(j.elapsed); }},
      {0, "ElapsedRaw", "ElapsedRaw", 10, raw_elapsed},
      {0, "Timelimit", "Timelimit", 10, [](const JobInfo& j) { return slurm_limit(j.time_limit); }},
      {0, "TimelimitRaw", "TimelimitRaw", 12,
       [](const JobInfo& j) { return j.time_limit == kNoLimit ? "UNLIMITED" : number(whole_seconds(j.time_limit) / 60); }},
      {0, "AllocCPUS", "AllocCPUS", 10, [](const JobInfo& j) { return pending(j) ? "0" : cpus(j); }},
      {0, "NCPUS", "NCPUS", 10, [](const JobInfo& j) { return pending(j) ? "0" : cpus(j); }},
      {0, "ReqCPUS", "ReqCPUS", 8, cpus},
      {0, "NNodes", "NNodes", 8, [](const JobInfo& j) { return number(j.nodes); }},
      {0, "AllocNodes", "AllocNodes", 10, [](const JobInfo& j) { return pending(j) ? "0" : number(j.nodes); }},
      {0, "NTasks", "NTasks", 8, [](const JobInfo& j) { return number(j.tasks); }},
      {0, "NodeList", "NodeList", 15, [](const JobInfo& j) { return j.node_list.empty() ? "None assigned" : j.node_list; }},
      {0, "ReqMem", "ReqMem", 10, [](const JobInfo& j) { return megabytes(j.mem); }},
      {0, "MaxRSS", "MaxRSS", 10,
       [](const JobInfo& j) { return j.mem_peak.value == 0 ? "" : number(j.mem_peak.value / 1024) + "K"; }},
      {0, "CPUTime", "CPUTime", 10, [](const JobInfo& j) { return format_hours(allocated(j)); }},
      {0, "CPUTimeRAW", "CPUTimeRAW", 10, [](const JobInfo& j) { return number(whole_seconds(allocated(j))); }},
      {0, "TotalCPU", "TotalCPU", 10, cpu_clock},
      {0, "Priority", "Priority", 10, [](const JobInfo& j) { return number(j.priority); }},
      {0, "WorkDir", "WorkDir", 20, [](const JobInfo& j) { return j.directory; }},
      {0, "Comment", "Comment", 14, [](const JobInfo& j) { return j.comment; }},
      {0, "Constraints", "Constraints", 15, [](const JobInfo& j) { return j.constraints; }},
      {0, "Reason", "Reason", 22, reason},
      {0, "Restarts", "Restarts", 8, [](const JobInfo& j) { return number(j.restarts); }},
      {0, "Cluster", "Cluster", 10, [](const JobInfo&) { return "bourse"; }},
      {0, "AllocTRES", "AllocTRES", 10,
       [](const JobInfo& j) {
         return pending(j) ? "" : fmt::format("cpu={},mem={},node={}", cpus(j), megabytes(Bytes(j.mem.value * j.nodes)), j.nodes);
       }},
      {0, "ReqTRES", "ReqTRES", 10,
       [](const JobInfo& j) {
         return fmt::format("cpu={},mem={},node={}", cpus(j), megabytes(Bytes(j.mem.value * j.nodes)), j.nodes);
       }},
  };
  return fields;
}

Result<std::vector<JobInfo>> ask_queue(BatchClient& client, batch::QueueRequest request) {
  std::vector<JobInfo> rows;
  do {
    auto reply = BOURSE_TRY(call<batch::QueueReply>(client, request));
    for (JobInfo& row : reply.rows) rows.push_back(std::move(row));
    request.after = reply.next;
  } while (request.after != 0);
  return rows;
}

Result<std::vector<JobInfo>> ask_history(BatchClient& client, batch::HistoryRequest request, std::size_t most) {
  std::vector<JobInfo> rows;
  do {
    auto reply = BOURSE_TRY(call<batch::HistoryReply>(client, request));
    if (reply.code != Code::kOk) return Error(reply.code, reply.reason);
    for (JobInfo& row : reply.rows) rows.push_back(std::move(row));
    request.after = reply.next;
  } while (request.after != 0 && rows.size() < most);
  return rows;
}

Result<SlurmFilter> slurm_filter(const std::map<std::string, std::string, std::less<>>& options) {
  const auto list = [&](const char* name) {
    const auto it = options.find(name);
    return it == options.end() ? std::vector<std::string>{} : split_list({it->second});
  };
  SlurmFilter f;
  for (const std::string& word : list("jobs"))
    f.filter.jobs.push_back(BOURSE_TRY(batch::parse_selector(word.substr(0, word.find('.')))));
  f.filter.users = list("user"), f.filter.names = list("name"), f.filter.partitions = list("partition"),
  f.filter.accounts = list("account");
  if (options.contains("me")) {
    const char* me = std::getenv("USER");
    f.filter.users.push_back(getuid() == 0 ? "root" : me != nullptr ? me : std::to_string(getuid()));
  }
  for (const std::string& hosts : list("nodelist"))
    for (std::string& host : BOURSE_TRY(expand_hosts(hosts))) f.filter.hosts.push_back(std::move(host));
  for (const std::string& state : list("states")) {
    if (state == "all" || state == "ALL")
      f.all_states = true;
    else
      f.filter.states.push_back(BOURSE_TRY(batch::parse_state(state)));
  }
  if (f.all_states) f.filter.states.clear();
  return f;
}

}  // namespace bourse::cli
