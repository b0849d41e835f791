// scancel(1) and scontrol(1) of Slurm, and which front is which.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>

#include "common/core/hostlist.h"
#include "common/core/units.h"
#include "frameworks/cli/commands.h"
#include "frameworks/cli/job_text.h"
#include "frameworks/cli/options.h"
#include "frameworks/cli/slurm/fronts.h"
#include "frameworks/cli/slurm/job_fields.h"
#include "frameworks/cli/submit_options.h"

namespace bourse::cli {
namespace {

using batch::JobInfo;
using batch::NodeInfo;
using enum OptionDef::Arg;

int fail(std::string_view program, std::string_view text) {
  fmt::print(stderr, "{}: error: {}\n", program, text);
  return 1;
}

// --- scancel -----------------------------------------------------------------------------------------------------------

const std::vector<OptionDef> kScancel = {
    {"user", 'u', kRequired, "", "NAME,...", "jobs of these users", ""},
    {"me", 0, kNone, "", "", "my jobs", ""},
    {"name", 'n', kRequired, "", "NAME,...", "jobs of these names", ""},
    {"jobname", 0, kRequired, "name", "", "", ""},
    {"states", 't', kRequired, "", "STATE", "jobs in this state: PENDING, RUNNING", ""},
    {"state", 0, kRequired, "states", "", "", ""},
    {"partition", 'p', kRequired, "", "NAME", "jobs of this partition", ""},
    {"account", 'A', kRequired, "", "NAME", "jobs of this account", ""},
    {"nodelist", 'w', kRequired, "", "HOSTS", "jobs on these hosts", ""},
    {"signal", 's', kRequired, "", "NAME", "send this signal instead of ending them", ""},
    {"batch", 'b', kNone, "", "", "with --signal: to the script's shell only", ""},
    {"full", 'f', kNone, "", "", "with --signal: to all processes; so it is without --batch", ""},
    {"quiet", 'Q', kNone, "", "", "no word about jobs that have ended already", ""},
    {"verbose", 'v', kNone, "", "", "say what is done", ""},
    {"interactive", 'i', kNone, "", "", "", "accepted; nothing is asked"},
    {"ctld", 0, kNone, "", "", "", "accepted"},
    {"hurry", 'H', kNone, "", "", "", "accepted"},
    {"qos", 'q', kRequired, "", "NAME", "", "accepted; jobs of all are meant"},
    {"reservation", 'R', kRequired, "", "NAME", "", "accepted; jobs of all are meant"},
    {"clusters", 'M', kRequired, "", "NAME", "", "accepted; this cluster is meant"},
    {"help", 0, kNone, "", "", "show this", ""},
    {"version", 'V', kNone, "", "", "show the version", ""},
};

// --- scontrol ----------------------------------------------------------------------------------------------------------

std::string yes(bool is) { return is ? "1" : "0"; }

void show_job(const JobInfo& j) {
  const auto cpus = (j.cpus.value + 999) / 1000;
  const std::string null = "(null)";
  const auto or_null = [&](const std::string& text) { return text.empty() ? null : text; };
  if (j.array.value != 0) {
    fmt::print("JobId={} ArrayJobId={} ArrayTaskId={} JobName={}\n", j.id.value, j.array.value, j.indexes, j.name);
  } else {
    fmt::print("JobId={} JobName={}\n", j.id.value, j.name);
  }
  fmt::print("   UserId={}({}) GroupId={} MCS_label=N/A\n", j.user, j.uid, j.gid);
  fmt::print("   Priority={} Nice={} Account={} QOS={}\n", j.priority, j.nice, or_null(j.account),
             j.qos.empty() ? "normal" : j.qos);
  fmt::print("   JobState={} Reason={} Dependency={}\n", batch::state_name(j.state), batch::reason_name(j.reason),
             or_null(j.dependency));
  fmt::print("   Requeue={} Restarts={} BatchFlag=1 Reboot=0 ExitCode={}:{}\n", yes(j.requeue), j.restarts, j.exit_code,
             j.exit_signal);
  fmt::print("   RunTime={} TimeLimit={} TimeMin=N/A\n", format_hours(j.elapsed), slurm_limit(j.time_limit));
  fmt::print("   SubmitTime={} EligibleTime={}\n", slurm_time(j.submitted, "Unknown"), slurm_time(j.eligible, "Unknown"));
  const Duration end = j.ended.count() != 0                                 ? j.ended
                       : j.started.count() != 0 && j.time_limit != kNoLimit ? j.started + j.time_limit
                                                                            : Duration(0);
  fmt::print("   StartTime={} EndTime={} Deadline=N/A\n",
             slurm_time(j.started.count() != 0 ? j.started : j.estimated_start, "Unknown"), slurm_time(end, "Unknown"));
  fmt::print("   Partition={} ReqNodeList={} ExcNodeList={}\n", j.partition.empty() ? "all" : j.partition, or_null(j.node_request),
             or_null(j.exclude));
  const auto hosts = expand_hosts(j.node_list);
  fmt::print("   NodeList={}\n", or_null(j.node_list));
  if (hosts && !hosts->empty()) fmt::print("   BatchHost={}\n", hosts->front());
  fmt::print("   NumNodes={} NumCPUs={} NumTasks={} CPUs/Task={} ReqB:S:C:T=0:0:*:*\n", j.nodes, cpus, j.tasks, j.cpus_per_task);
  fmt::print("   TRES=cpu={},mem={}M,node={}\n", cpus, j.mem.value * j.nodes / kMiB.value, j.nodes);
  fmt::print("   MinCPUsNode={} MinMemoryNode={}M MinTmpDiskNode=0\n", cpus / std::max<std::int64_t>(j.nodes, 1),
             j.mem.value / kMiB.value);
  fmt::print("   Features={} OverSubscribe={}\n", or_null(j.constraints), j.exclusive ? "NO" : "OK");
  if (!j.devices.empty()) fmt::print("   TresPerNode=gres:{}\n", j.devices);
  fmt::print("   Command={}\n   WorkDir={}\n", j.script_path.empty() ? (j.args.empty() ? null : j.args.front()) : j.script_path,
             j.directory);
  if (!j.comment.empty()) fmt::print("   Comment={}\n", j.comment);
  fmt::print("   StdErr={}\n   StdIn={}\n   StdOut={}\n\n", j.stderr_path.empty() ? j.stdout_path : j.stderr_path,
             j.stdin_path.empty() ? "/dev/null" : j.stdin_path, j.stdout_path);
}

int show_jobs(BatchClient& client, const std::vector<std::string>& ids) {
  if (ids.empty()) {
    batch::QueueRequest request;
    request.full = true;
    auto rows = ask_queue(client, std::move(request));
    if (!rows) return fail("scontrol", rows.error().text());
    if (rows->empty()) fmt::print("No jobs in the system\n");
    for (const JobInfo& row : *rows) show_job(row);
    return 0;
  }
  for (const std::string& word : ids) {
    auto selector = batch::parse_selector(word.substr(0, word.find('.')));
    if (!selector) return fail("scontrol", selector.error().text());
    auto reply = call<batch::JobReply>(client, batch::JobRequest{*selector, false});
    if (!reply) return fail("scontrol", reply.error().text());
    if (reply->code == Code::kNotFound) return fail("scontrol", "slurm_load_jobs: Invalid job id specified");
    if (reply->code != Code::kOk) return fail("scontrol", reply->reason);
    for (const JobInfo& row : reply->rows) show_job(row);
  }
  return 0;
}

int show_nodes(BatchClient& client, const std::string& list) {
  auto wanted = list.empty() ? Result<std::vector<std::string>>(std::vector<std::string>{}) : expand_hosts(list);
  if (!wanted) return fail("scontrol", wanted.error().text());
  batch::NodesRequest request;
  std::size_t shown = 0;
  while (true) {
    auto reply = call<batch::NodesReply>(client, request);
    if (!reply) return fail("scontrol", reply.error().text());
    for (const NodeInfo& n : reply->nodes) {
      if (!wanted->empty() && std::ranges::find(*wanted, n.name) == wanted->end()) continue;
      ++shown;
      std::string state = n.state;
      std::ranges::transform(state, state.begin(),
                             [](char c) { return static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c); });
      if (n.state == "draining" || n.state == "cordoned") state = n.jobs > 0 ? "MIXED+DRAIN" : "IDLE+DRAIN";
      if (n.state == "down") state = "DOWN*";
      fmt::print("NodeName={} CoresPerSocket={}\n   CPUAlloc={} CPUTot={} CPULoad=N/A\n", n.name, n.cpus.value / 1000,
                 n.cpus_used.value / 1000, n.cpus.value / 1000);
      fmt::print("   AvailableFeatures={0}\n   ActiveFeatures={0}\n   Gres={1}\n", n.labels.empty() ? "(null)" : n.labels,
                 n.devices.empty() ? "(null)" : n.devices);
      fmt::print(
          "   NodeAddr={0} NodeHostName={0}\n   RealMemory={1} AllocMem={2} Sockets=1 Boards=1\n   State={3} ThreadsPerCore=1 "
          "Weight=1\n"
          "   Partitions=all\n\n",
          n.name, n.mem.value / kMiB.value, n.mem_used.value / kMiB.value, state);
    }
    if (!reply->more || reply->nodes.empty()) break;
    request.after = reply->nodes.back().name;
  }
  return shown == 0 && !list.empty() ? fail("scontrol", fmt::format("Node {} not found", list)) : 0;
}

int show_hostnames(const std::string& word) {
  const char* own = std::getenv("SLURM_JOB_NODELIST");
  const std::string list = !word.empty() ? word : own != nullptr ? own : "";
  if (list.empty()) return fail("scontrol", "no host list: name one, or call this inside a job");
  auto hosts = expand_hosts(list);
  if (!hosts) return fail("scontrol", hosts.error().text());
  for (const std::string& host : *hosts) fmt::print("{}\n", host);
  return 0;
}

int show_hostlist(const std::string& word) {
  std::vector<std::string> hosts;
  const auto add = [&](const std::string& list) -> Result<> {
    for (std::string& host : BOURSE_TRY(expand_hosts(list))) hosts.push_back(std::move(host));
    return {};
  };
  if (std::ifstream file(word); !word.empty() && word.find('/') != std::string::npos && file) {
    for (std::string line; std::getline(file, line);)
      if (auto added = add(line); !added) return fail("scontrol", added.error().text());
  } else if (auto added = add(word); !added) {
    return fail("scontrol", added.error().text());
  }
  fmt::print("{}\n", compress_hosts(hosts));
  return 0;
}

// "job 12", "job=12", "jobid=12,13".
std::vector<std::string> ids_of(const std::vector<std::string>& words, std::size_t from) {
  std::vector<std::string> ids;
  for (std::size_t i = from; i < words.size(); ++i) {
    const std::size_t equals = words[i].find('=');
    ids.push_back(equals == std::string::npos ? words[i] : words[i].substr(equals + 1));
  }
  return split_list(ids);
}

int change_jobs(BatchClient& client, batch::Change change, const std::vector<std::string>& ids) {
  batch::ChangeRequest request;
  request.change = change;
  for (const std::string& id : ids) {
    auto selector = batch::parse_selector(id);
    if (!selector) return fail("scontrol", selector.error().text());
    request.jobs.push_back(*selector);
  }
  if (request.jobs.empty()) return fail("scontrol", "too few arguments: name a job");
  auto reply = call<batch::ChangeReply>(client, request);
  if (!reply) return fail("scontrol", reply.error().text());
  if (reply->code != Code::kOk) return fail("scontrol", reply->reason);
  int status = 0;
  for (const auto& item : reply->items)
    if (item.code != Code::kOk) status = fail("scontrol", fmt::format("{}: {}", to_text(item.job), item.reason));
  return status;
}

int write_script(BatchClient& client, const std::vector<std::string>& words) {
  if (words.size() < 3 || words[1] != "batch_script") return fail("scontrol", "write batch_script JOBID [FILE|-]");
  auto selector = batch::parse_selector(words[2]);
  if (!selector) return fail("scontrol", selector.error().text());
  auto reply = call<batch::JobReply>(client, batch::JobRequest{*selector, true});
  if (!reply) return fail("scontrol", reply.error().text());
  if (reply->code != Code::kOk) return fail("scontrol", reply->reason);
  if (reply->rows.empty() || reply->rows.front().script.empty())
    return fail("scontrol", "job script retrieval failed: it has none, or it is not yours");
  const std::string path = words.size() > 3 ? words[3] : fmt::format("slurm-{}.sh", words[2]);
  if (path == "-") {
    fmt::print("{}", reply->rows.front().script);
    return 0;
  }
  std::ofstream file(path, std::ios::trunc);
  file << reply->rows.front().script << std::flush;
  if (!file) return fail("scontrol", errno_error(path).text());
  fmt::print("batch script for job {} written to {}\n", words[2], path);
  return 0;
}

constexpr const char* kScontrolHelp =
    "Usage: scontrol [-o] COMMAND\n\n"
    "  show hostnames [LIST]           hosts of a list, one a line; default: the job's\n"
    "  show hostlist LIST|FILE         the other way\n"
    "  show job [ID]                   everything about jobs\n"
    "  show node [LIST]                everything about hosts\n"
    "  hold|release|requeue ID...      as `bourse hold', `release', `requeue'\n"
    "  write batch_script ID [FILE|-]  a job's script\n"
    "  ping                            is the batch framework there\n"
    "  version\n\n"
    "What is changed for hosts is changed by bourse(1): cordon, drain, label. See bourse-slurm(1).\n";

}  // namespace

int scancel_main(int argc, char** argv) {
  auto parsed = parse_options(kScancel, {argv + 1, argv + argc}, "command line", true);
  if (!parsed) return fail("scancel", parsed.error().text());
  std::map<std::string, std::string, std::less<>> given;
  for (Setting& s : parsed->settings) given[s.name] = std::move(s.value);
  if (given.contains("help")) {
    fmt::print("Usage: scancel [OPTIONS] [ID...]\n\nAs Slurm's command of that name; see bourse-slurm(1).\n\n{}", usage(kScancel));
    return 0;
  }
  if (given.contains("version")) {
    fmt::print("scancel (Bourse) {}\n", BOURSE_VERSION);
    return 0;
  }
  auto filter = slurm_filter(given);
  if (!filter) return fail("scancel", filter.error().text());
  std::erase(filter->filter.partitions, "all");
  batch::CancelRequest request;
  request.filter = std::move(filter->filter);
  for (const std::string& word : split_list(parsed->operands)) {
    auto selector = batch::parse_selector(word);
    if (!selector) return fail("scancel", fmt::format("Kill job error on job id {}: Invalid job id specified", word));
    request.jobs.push_back(*std::move(selector));
  }
  if (request.jobs.empty() && request.filter.empty()) return fail("scancel", "No job identification provided");
  if (given.contains("signal")) {
    auto number = parse_signal_name(given["signal"]);
    if (!number) return fail("scancel", number.error().text());
    request.signal = *number;
    request.shell_only = given.contains("batch");
  }
  auto client = BatchClient::open("");
  if (!client) return fail("scancel", client.error().text());
  auto reply = call<batch::ChangeReply>(**client, request, seconds(60));
  if (!reply) return fail("scancel", reply.error().text());
  if (reply->code != Code::kOk) return fail("scancel", reply->reason);
  int status = 0;
  for (const auto& item : reply->items) {
    if (item.code == Code::kOk) continue;
    // That there is nothing to end any more is no error, as in Slurm: scripts rely on it.
    const bool over = item.code == Code::kNotFound || item.code == Code::kGone;
    if (!over || !given.contains("quiet"))
      fmt::print(stderr, "scancel: error: Kill job error on job id {}: {}\n", to_text(item.job), item.reason);
    if (!over) status = 1;
  }
  if (given.contains("verbose")) fmt::print(stderr, "scancel: {} job{}\n", reply->count, reply->count == 1 ? "" : "s");
  return status;
}

int scontrol_main(int argc, char** argv) {
  std::vector<std::string> words;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "-h" || word == "--help" || word == "help") {
      fmt::print("{}", kScontrolHelp);
      return 0;
    }
    if (word == "-V" || word == "--version") {
      words = {"version"};
      break;
    }
    if (!word.starts_with("-") || word == "-") words.push_back(word);  // -o, -a, -d, -Q: only how it looks
  }
  if (words.empty()) {
    fmt::print(stderr, "{}", kScontrolHelp);
    return 1;
  }
  const std::string& command = words[0];
  const std::string what = words.size() > 1 ? words[1].substr(0, words[1].find('=')) : "";
  const std::string value = words.size() > 1 && words[1].find('=') != std::string::npos ? words[1].substr(words[1].find('=') + 1)
                            : words.size() > 2                                          ? words[2]
                                                                                        : "";
  if (command == "version") {
    fmt::print("scontrol (Bourse) {}\n", BOURSE_VERSION);
    return 0;
  }
  if (command == "show" && what.starts_with("hostname")) return show_hostnames(value);
  if (command == "show" && what.starts_with("hostlist")) return show_hostlist(value);
  auto client = BatchClient::open("");
  if (!client) return fail("scontrol", client.error().text());
  if (command == "show" && (what == "job" || what == "jobs" || what == "jobid"))
    return show_jobs(**client, ids_of(words, words[1].find('=') == std::string::npos ? 2 : 1));
  if (command == "show" && (what == "node" || what == "nodes" || what == "nodename")) return show_nodes(**client, value);
  if (command == "hold" || command == "uhold") return change_jobs(**client, batch::Change::kHold, ids_of(words, 1));
  if (command == "release") return change_jobs(**client, batch::Change::kRelease, ids_of(words, 1));
  if (command == "requeue") return change_jobs(**client, batch::Change::kRequeue, ids_of(words, 1));
  if (command == "write") return write_script(**client, words);
  if (command == "ping") {
    fmt::print("Slurmctld(primary) at {} is UP\n", "bourse-batch");
    return 0;
  }
  return fail(
      "scontrol",
      fmt::format("`{}{}{}' is not among what Bourse takes over from Slurm; `scontrol help' lists that, bourse(1) has the rest",
                  command, what.empty() ? "" : " ", what));
}

Main slurm_front(std::string_view name) {
  struct Front {
    std::string_view name;
    Main main;
  };
  constexpr std::array fronts = {Front{"sbatch", submit_main},   Front{"srun", srun_main},        Front{"salloc", salloc_main},
                                 Front{"squeue", squeue_main},   Front{"sacct", sacct_main},      Front{"sinfo", sinfo_main},
                                 Front{"scancel", scancel_main}, Front{"scontrol", scontrol_main}};
  for (const Front& front : fronts)
    if (front.name == name) return front.main;
  return nullptr;
}

}  // namespace bourse::cli
