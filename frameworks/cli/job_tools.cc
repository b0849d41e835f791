// bourse queue | jobs | cancel | hold | release | requeue | history | nodes | top: what users ask about their jobs.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

#include "common/core/units.h"
#include "common/world/command_line.h"
#include "common/world/reactor.h"
#include "frameworks/cli/batch_client.h"
#include "frameworks/cli/commands.h"
#include "frameworks/cli/job_text.h"
#include "frameworks/cli/live.h"
#include "frameworks/cli/submit_options.h"

namespace bourse::cli {
namespace {

using batch::JobInfo;

constexpr int kExitFailed = 1, kExitUsage = 2, kExitUnreachable = 3;

int say(std::string_view command, const Error& error) {
  fmt::print(stderr, "bourse {}: {}\n", command, error.text());
  if (error.code() == Code::kTimeout || error.code() == Code::kIo) return kExitUnreachable;
  return error.code() == Code::kInvalid ? kExitUsage : kExitFailed;
}

// The options that several of these tools share.
struct Common {
  std::string dir, format;
  bool json = false, no_header = false, mine = false;
  std::vector<std::string> jobs, users, states, names, partitions, accounts, hosts;

  void add_output(CommandLine& app) {
    app.option("--dir", dir, "Directory of the cluster; default $BOURSE_DIR");
    app.option("-o,--format", format, "Columns: id,name,state or Slurm's \"%.18i %j\"");
    app.flag("--json", json, "Print JSON");
    app.flag("-n,--no-header", no_header, "Print no header");
  }
  void add_filter(CommandLine& app, bool with_states = true) {
    app.option("-j,--jobs", jobs, "Only these jobs: 12,13_4");
    app.option("-u,--user", users, "Only these users' jobs");
    app.flag("--me", mine, "Only my jobs");
    app.option("--name", names, "Only jobs of these names");
    app.option("-p,--partition", partitions, "Only jobs of these partitions");
    app.option("-A,--account", accounts, "Only jobs of these accounts");
    app.option("-w,--hosts", hosts, "Only jobs on these hosts: h[1-4]");
    if (with_states) app.option("-t,--states", states, "Only jobs in these states: PD,R or PENDING,RUNNING");
  }
  Result<batch::JobFilter> filter() const {
    batch::JobFilter f;
    f.jobs = BOURSE_TRY(parse_selectors(jobs));
    f.users = split_list(users), f.names = split_list(names), f.partitions = split_list(partitions),
    f.accounts = split_list(accounts);
    if (mine) {
      const char* me = std::getenv("USER");
      f.users.push_back(me != nullptr && getuid() != 0 ? me : getuid() == 0 ? "root" : std::to_string(getuid()));
    }
    for (const std::string& list : split_list(hosts))
      for (std::string& host : BOURSE_TRY(expand_hosts(list))) f.hosts.push_back(std::move(host));
    for (const std::string& state : split_list(states))
      if (state != "all" && state != "ALL") f.states.push_back(BOURSE_TRY(batch::parse_state(state)));
    return f;
  }
};

template <class Row>
int print(std::string_view command, const Common& common, const std::vector<Field<Row>>& fields, std::string_view default_format,
          const std::vector<Row>& rows, std::string_view json_name) {
  if (common.json) {
    fmt::print("{}", json_rows(fields, rows, json_name));
    return 0;
  }
  auto columns = parse_format(common.format.empty() ? default_format : std::string_view(common.format), field_names(fields));
  if (!columns) return say(command, std::move(columns).error().add("--format"));
  fmt::print("{}", print_rows(fields, *columns, rows, !common.no_header));
  return 0;
}

constexpr std::string_view kQueueFormat = "id,partition,name,user,state_code,elapsed,nodes,where";
constexpr std::string_view kHistoryFormat = "id,name,user,state,exit,elapsed,cpu_time,mem_peak,ended,hosts";
constexpr std::string_view kNodesFormat = "name,state,cpus,cpus_used,mem,jobs,labels";

}  // namespace

int queue_main(int argc, char** argv) {
  CommandLine app("Jobs that wait or run", "bourse queue");
  Common common;
  bool by_start = false, each = false;
  std::uint32_t limit = 0;
  common.add_output(app);
  common.add_filter(app);
  app.flag("--start", by_start,
           "In the order in which they are considered, with the time by which each starts in half of the cases "
           "(p50) and in nine of ten (p90)");
  app.flag("-r,--array", each, "An array's waiting tasks one by one");
  app.option("--limit", limit, "At most this many rows; 0: all");
  if (const int status = app.parse(argc, argv); status >= 0) return status;
  auto filter = common.filter();
  if (!filter) return say("queue", filter.error());
  auto client = BatchClient::open(common.dir);
  if (!client) return say("queue", client.error());
  batch::QueueRequest request;
  request.filter = std::move(*filter);
  request.order = by_start ? batch::Order::kStart : batch::Order::kId;
  request.each_task = each;
  std::vector<JobInfo> rows;
  do {
    request.limit = limit == 0 ? 0 : limit - static_cast<std::uint32_t>(rows.size());
    auto reply = call<batch::QueueReply>(**client, request);
    if (!reply) return say("queue", reply.error());
    for (JobInfo& row : reply->rows) rows.push_back(std::move(row));
    request.after = reply->next;
  } while (request.after != 0 && (limit == 0 || rows.size() < limit));
  std::vector<Field<JobInfo>> fields = job_fields();
  if (by_start) {
    auto forecasts = start_fields(**client);
    if (!forecasts) return say("queue", forecasts.error());
    fields.insert(fields.end(), forecasts->begin(), forecasts->end());
  }
  const std::string_view format = by_start ? "id,partition,name,user,state_code,start_p50,start_p90,nodes,where" : kQueueFormat;
  const int rc = print("queue", common, fields, format, rows, "jobs");
  return rc == 0 && !common.jobs.empty() && rows.empty() ? kExitFailed : rc;  // asked for by id, and none is there
}

int history_main(int argc, char** argv) {
  CommandLine app("Jobs that have ended, newest first", "bourse history");
  Common common;
  std::string from, to;
  std::uint32_t limit = 100;
  common.add_output(app);
  common.add_filter(app);
  app.option("-S,--since", from, "Ended after: 2026-12-01[T08:00], today, now-2h");
  app.option("-E,--until", to, "Submitted before");
  app.option("--limit", limit, "At most this many rows; 0: all").show_default();
  if (const int status = app.parse(argc, argv); status >= 0) return status;
  auto filter = common.filter();
  if (!filter) return say("history", filter.error());
  const Duration now = real_time().wall;
  if (!from.empty()) {
    auto time = parse_timestamp(from, now);
    if (!time) return say("history", time.error());
    filter->from = *time;
  }
  if (!to.empty()) {
    auto time = parse_timestamp(to, now);
    if (!time) return say("history", time.error());
    filter->to = *time;
  }
  auto client = BatchClient::open(common.dir);
  if (!client) return say("history", client.error());
  batch::HistoryRequest request;
  request.filter = std::move(*filter);
  std::vector<JobInfo> rows;
  do {
    request.limit = limit == 0 ? 0 : limit - static_cast<std::uint32_t>(rows.size());
    auto reply = call<batch::HistoryReply>(**client, request);
    if (!reply) return say("history", reply.error());
    if (reply->code != Code::kOk) return say("history", Error(reply->code, reply->reason));
    for (JobInfo& row : reply->rows) rows.push_back(std::move(row));
    request.after = reply->next;
  } while (request.after != 0 && (limit == 0 || rows.size() < limit));
  return print("history", common, job_fields(), kHistoryFormat, rows, "jobs");
}

int jobs_main(int argc, char** argv) {
  CommandLine app("Everything that is known of a job", "bourse jobs");
  Common common;
  std::vector<std::string> ids;
  bool script = false;
  common.add_output(app);
  app.flag("--script", script, "Print its script instead");
  app.option("JOB", ids, "12, 13_4").required();
  if (const int status = app.parse(argc, argv); status >= 0) return status;
  auto selectors = parse_selectors(ids);
  if (!selectors) return say("jobs", selectors.error());
  auto client = BatchClient::open(common.dir);
  if (!client) return say("jobs", client.error());
  std::vector<JobInfo> rows;
  for (const batch::JobSelector& selector : *selectors) {
    auto reply = call<batch::JobReply>(**client, batch::JobRequest{selector, script});
    if (!reply) return say("jobs", reply.error());
    if (reply->code != Code::kOk) return say("jobs", Error(reply->code, reply->reason));
    for (JobInfo& row : reply->rows) rows.push_back(std::move(row));
  }
  if (script) {
    if (!rows.empty()) fmt::print("{}", rows.front().script);
    return 0;
  }
  if (common.json || !common.format.empty()) return print("jobs", common, job_fields(), kQueueFormat, rows, "jobs");
  for (const JobInfo& row : rows) {
    for (const auto& field : job_fields()) {
      const std::string text = field.text(row);
      if (!text.empty() && text != "N/A" && field.letter != 'A' && field.letter != 't') fmt::print("{:<14} {}\n", field.name, text);
    }
    fmt::print("\n");
  }
  return 0;
}

namespace {

int report_change(std::string_view command, const Result<batch::ChangeReply>& reply, std::string_view done, bool quiet) {
  if (!reply) return say(command, reply.error());
  if (reply->code != Code::kOk) return say(command, Error(reply->code, reply->reason));
  int status = 0;
  for (const auto& item : reply->items) {
    if (item.code == Code::kOk) continue;
    fmt::print(stderr, "bourse {}: {}: {}\n", command, to_text(item.job), item.reason);
    status = kExitFailed;
  }
  if (!quiet && (reply->count != 1 || reply->items.empty()))
    fmt::print("{} job{} {}\n", reply->count, reply->count == 1 ? "" : "s", done);
  return status;
}

int change(int argc, char** argv, std::string_view command, batch::Change kind, std::string_view help, std::string_view done) {
  CommandLine app(std::string(help), fmt::format("bourse {}", command));
  Common common;
  std::vector<std::string> ids;
  bool quiet = false;
  app.option("--dir", common.dir, "Directory of the cluster; default $BOURSE_DIR");
  common.add_filter(app);
  app.flag("-Q,--quiet", quiet, "Print nothing but errors");
  app.option("JOB", ids, "12, 13_4, 13_[1-3]");
  if (const int status = app.parse(argc, argv); status >= 0) return status;
  auto filter = common.filter();
  auto selectors = parse_selectors(ids);
  if (!filter) return say(command, filter.error());
  if (!selectors) return say(command, selectors.error());
  if (selectors->empty() && filter->empty())
    return say(command, Error(Code::kInvalid, "say which jobs: ids, or a filter such as --user"));
  auto client = BatchClient::open(common.dir);
  if (!client) return say(command, client.error());
  return report_change(command, call<batch::ChangeReply>(**client, batch::ChangeRequest{kind, *selectors, *filter}), done, quiet);
}

}  // namespace

int hold_main(int argc, char** argv) {
  return change(argc, argv, "hold", batch::Change::kHold, "Keep waiting jobs from starting", "held");
}
int release_main(int argc, char** argv) {
  return change(argc, argv, "release", batch::Change::kRelease, "Let held jobs start", "released");
}
int requeue_main(int argc, char** argv) {
  return change(argc, argv, "requeue", batch::Change::kRequeue, "End running jobs and put them back in the queue", "requeued");
}

int cancel_main(int argc, char** argv) {
  CommandLine app("End jobs, waiting or running", "bourse cancel");
  Common common;
  std::vector<std::string> ids;
  std::string signal;
  batch::CancelRequest request;
  bool quiet = false;
  app.option("--dir", common.dir, "Directory of the cluster; default $BOURSE_DIR");
  common.add_filter(app);
  app.option("-s,--signal", signal, "Send this signal to running jobs instead of ending them");
  app.flag("-b,--batch", request.shell_only, "With --signal: to the job's first process only");
  app.option("--reason", request.reason, "Kept with the job");
  app.flag("-Q,--quiet", quiet, "Print nothing but errors");
  app.option("JOB", ids, "12, 13_4, 13_[1-3]");
  if (const int status = app.parse(argc, argv); status >= 0) return status;
  auto filter = common.filter();
  auto selectors = parse_selectors(ids);
  if (!filter) return say("cancel", filter.error());
  if (!selectors) return say("cancel", selectors.error());
  if (selectors->empty() && filter->empty())
    return say("cancel", Error(Code::kInvalid, "say which jobs: ids, or a filter such as --user"));
  if (!signal.empty()) {
    auto number = parse_signal_name(signal);
    if (!number) return say("cancel", number.error());
    request.signal = *number;
  }
  request.jobs = std::move(*selectors);
  request.filter = std::move(*filter);
  auto client = BatchClient::open(common.dir);
  if (!client) return say("cancel", client.error());
  return report_change("cancel", call<batch::ChangeReply>(**client, request, seconds(60)),
                       signal.empty() ? "cancelled" : "signalled", quiet);
}

int nodes_main(int argc, char** argv) {
  CommandLine app("Hosts as jobs see them", "bourse nodes");
  Common common;
  common.add_output(app);
  if (const int status = app.parse(argc, argv); status >= 0) return status;
  auto client = BatchClient::open(common.dir);
  if (!client) return say("nodes", client.error());
  std::vector<batch::NodeInfo> rows;
  batch::NodesRequest request;
  while (true) {
    auto reply = call<batch::NodesReply>(**client, request);
    if (!reply) return say("nodes", reply.error());
    for (batch::NodeInfo& row : reply->nodes) rows.push_back(std::move(row));
    if (!reply->more || rows.empty()) break;
    request.after = rows.back().name;
  }
  return print("nodes", common, node_fields(), kNodesFormat, rows, "nodes");
}

int top_main(int argc, char** argv) {
  CommandLine app("The cluster's work at a glance", "bourse top");
  Common common;
  bool once = false;
  std::string every = "2s";
  app.option("--dir", common.dir, "Directory of the cluster; default $BOURSE_DIR");
  app.flag("-1,--once", once, "Print once and end; so it does when the output is no terminal");
  app.option("--every", every, "Time between two looks").show_default();
  if (const int status = app.parse(argc, argv); status >= 0) return status;
  auto period = parse_duration(every);
  if (!period || *period < milliseconds(100)) return say("top", Error(Code::kInvalid, "--every: at least 100ms"));
  auto client = BatchClient::open(common.dir);
  if (!client) return say("top", client.error());
  const bool live = !once && isatty(STDOUT_FILENO) != 0;
  std::uint64_t ended_before = 0;
  Time before{};
  while (true) {
    auto summary = call<batch::SummaryReply>(**client, batch::SummaryRequest{});
    batch::QueueRequest running;
    running.filter.states = {batch::JobState::kRunning};
    running.limit = 20;
    auto jobs = call<batch::QueueReply>(**client, running);
    if (!summary) return say("top", summary.error());
    if (!jobs) return say("top", jobs.error());
    const Time now = real_time();
    std::string out =
        fmt::format("{}: {} of {} hosts up, cores {} of {} in use, memory {} of {}{}\n",
                    summary->cluster.empty() ? "cluster" : summary->cluster, summary->nodes_up, summary->nodes,
                    format_cpus(summary->cpus_used), format_cpus(summary->cpus), format_size(summary->mem_used),
                    format_size(Bytes(summary->mem.value / kMiB.value * kMiB.value)), summary->connected ? "" : "; NO MASTER");
    out += fmt::format("jobs: {} running, {} pending ({} held), {} ending; {} slices, {} idle", summary->running, summary->pending,
                       summary->held, summary->completing, summary->slices, summary->slices_idle);
    if (before.mono.count() != 0) {
      const double passed = static_cast<double>((now.mono - before.mono).count()) / 1e6;
      out += fmt::format("; {:.1f} ended a second", static_cast<double>(summary->ended_total - ended_before) / passed);
    }
    out += "\n";
    for (const auto& [reason, count] : summary->pending_by_reason) out += fmt::format("{:>10} pending: {}\n", count, reason);
    for (const auto& [user, count] : summary->pending_by_user) out += fmt::format("{:>10} pending of {}\n", count, user);
    for (const batch::ShadowFinding& found : summary->shadows) out += "shadow policy " + batch::text_of(found) + "\n";
    auto columns = parse_format(kQueueFormat, field_names(job_fields()));
    if (columns && !jobs->rows.empty()) out += "\n" + print_rows(job_fields(), *columns, jobs->rows, true);
    if (live) fmt::print("\033[H\033[2J");
    fmt::print("{}", out);
    std::fflush(stdout);
    if (!live) return 0;
    ended_before = summary->ended_total;
    before = now;
    usleep(static_cast<useconds_t>(period->count()));  // lint-ok: a tool, not an actor
  }
}

}  // namespace bourse::cli
