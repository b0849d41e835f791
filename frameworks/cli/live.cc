#include "frameworks/cli/live.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "common/core/rng.h"
#include "common/world/config.h"
#include "frameworks/batch/replay.h"
#include "frameworks/cli/job_text.h"

namespace bourse::cli {
namespace {

constexpr std::size_t kHistoryRows = 5000;

// "zone=a,arch=x86_64"
Labels labels_of(std::string_view text) {
  Labels out;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    if (const std::size_t equals = word.find('='); equals != std::string_view::npos)
      out[std::string(word.substr(0, equals))] = std::string(word.substr(equals + 1));
  }
  return out;
}

// "gpu/nvidia:4,nic/rdma:1": the GPUs.
std::uint32_t gpus_of(std::string_view text) {
  std::uint32_t out = 0;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    const std::size_t colon = word.rfind(':');
    std::uint32_t n = 0;
    if (!word.starts_with("gpu/") || colon == std::string_view::npos) continue;
    std::from_chars(word.data() + colon + 1, word.data() + word.size(), n);
    out += n;
  }
  return out;
}

Result<std::vector<batch::NodeInfo>> all_nodes(BatchClient& client) {
  std::vector<batch::NodeInfo> out;
  batch::NodesRequest request;
  while (true) {
    auto reply = BOURSE_TRY(call<batch::NodesReply>(client, request));
    for (batch::NodeInfo& node : reply.nodes) out.push_back(std::move(node));
    if (!reply.more || out.empty()) return out;
    request.after = out.back().name;
  }
}

bool waits_for_room(batch::Reason reason) {
  return reason == batch::Reason::kNone || reason == batch::Reason::kPriority || reason == batch::Reason::kResources ||
         reason == batch::Reason::kNodeNotAvailable || reason == batch::Reason::kNoAgents ||
         reason == batch::Reason::kArrayTaskLimit;
}

}  // namespace

Result<LiveCluster> live_cluster(BatchClient& client) {
  LiveCluster out;
  std::map<std::string, bool> usable;
  for (const batch::NodeInfo& node : BOURSE_TRY(all_nodes(client))) {
    const bool takes_work = node.state == "idle" || node.state == "mixed" || node.state == "allocated";
    usable[node.name] = takes_work;
    if (!takes_work || node.cpus.value <= 0) continue;
    batch::SimulatedNodes one;
    one.name = node.name;
    one.cpu_milli = node.cpus.value, one.cores = static_cast<std::uint32_t>(std::max<std::int64_t>(node.cpus.value / 1000, 1));
    one.mem = node.mem.value;
    one.gpus = gpus_of(node.devices);
    one.labels = labels_of(node.labels);
    out.nodes.push_back(std::move(one));
  }
  if (out.nodes.empty()) return Error(Code::kNotFound, "no node of the cluster takes work now; see bourse nodes");
  std::map<std::string, std::int32_t> users;
  batch::QueueRequest request;
  request.order = batch::Order::kStart;
  request.full = true, request.each_task = true;
  do {
    auto reply = BOURSE_TRY(call<batch::QueueReply>(client, request));
    for (batch::JobInfo& info : reply.rows) {
      if (out.work.jobs.size() == kLiveJobsMax)
        return Error(Code::kLimit, fmt::format("more than {} jobs wait or run", kLiveJobsMax));
      const bool runs = info.state != batch::JobState::kPending;
      if (!runs && !waits_for_room(info.reason)) {
        ++out.held;
        continue;
      }
      sim::TraceShape shape;
      shape.nodes = std::max(info.nodes, 1u);
      shape.cpu_milli = std::max<std::int64_t>(info.cpus.value / shape.nodes, 1);
      shape.tasks = static_cast<std::uint32_t>(std::max<std::int64_t>(info.cpus.value / 1000, 1));
      shape.mem = std::max<std::int64_t>(info.mem.value, 0);
      if (runs) {
        auto hosts = expand_hosts(info.node_list);
        if (!hosts || !std::all_of(hosts->begin(), hosts->end(), [&](const std::string& h) { return usable[h]; })) {
          ++out.held;
          continue;
        }
        shape.where = "host in (" + info.node_list + ")";
      } else {
        shape.gpus = gpus_of(info.devices);
        shape.where = info.constraints;
      }
      sim::TraceJob job;
      job.number = static_cast<std::int64_t>(info.id.value);
      const bool limited = info.time_limit.count() > 0 && info.time_limit < kUnlimitedRun;
      job.limit = std::max<Duration>((limited ? info.time_limit : kUnlimitedRun) - (runs ? info.elapsed : Duration(0)), seconds(1));
      job.run = job.limit;
      if (!runs) job.submit = Duration(1);  // whatever the order, what runs has its nodes
      job.processors = shape.tasks;
      job.user = users.try_emplace(info.user, static_cast<std::int32_t>(users.size())).first->second;
      out.work.users.try_emplace(job.user, info.user);
      job.shape = out.work.shape_of(shape);
      out.work.jobs.push_back(job);
      out.rows.push_back(std::move(info));
    }
    request.after = reply.next;
  } while (request.after != 0);
  return out;
}

Result<std::vector<StartForecast>> forecast_starts(BatchClient& client, const LiveCluster& live) {
  // How much of their limit jobs have used.
  std::map<std::string, std::vector<double>> by_user;
  std::vector<double> everybody;
  batch::HistoryRequest request;
  do {
    auto reply = BOURSE_TRY(call<batch::HistoryReply>(client, request));
    if (reply.code != Code::kOk) return Error(reply.code, reply.reason);
    for (const batch::JobInfo& info : reply.rows) {
      if (info.started.count() <= 0 || info.time_limit.count() <= 0 || info.time_limit >= kUnlimitedRun) continue;
      const double used =
          std::clamp(static_cast<double>(info.elapsed.count()) / static_cast<double>(info.time_limit.count()), 0.0, 1.0);
      by_user[info.user].push_back(used);
      everybody.push_back(used);
    }
    request.after = reply.next;
  } while (request.after != 0 && everybody.size() < kHistoryRows);

  batch::ReplayOptions options;
  options.nodes = live.nodes;
  options.shapes = &live.work.shapes;
  if (auto config = Config::read(Places::find().config, {}); config) {
    options.backfill = batch::backfill_of(config->text("batch", "backfill")).value_or(batch::Backfill::kEasy);
    options.depth = static_cast<std::size_t>(config->integer("batch", "backfill_depth"));
  }
  std::vector<std::vector<Duration>> starts(live.work.jobs.size());
  Rng rng(1);
  const std::size_t runs = everybody.empty() ? 1 : kForecastRuns;
  for (std::size_t k = 0; k < runs; ++k) {
    std::vector<sim::TraceJob> jobs = live.work.jobs;
    for (std::size_t i = 0; i < jobs.size() && !everybody.empty(); ++i) {
      const batch::JobInfo& info = live.rows[i];
      const auto own = by_user.find(info.user);
      const std::vector<double>& past = own != by_user.end() ? own->second : everybody;
      const double limit =
          static_cast<double>(std::min(info.time_limit.count() > 0 ? info.time_limit : kUnlimitedRun, kUnlimitedRun).count());
      // Of a running one it is known that it has run for so long: draws below that are of other jobs.
      for (int tries = 0; tries < 20; ++tries) {
        const double total = limit * past[rng.below(past.size())];
        const double left = total - (info.state == batch::JobState::kPending ? 0.0 : static_cast<double>(info.elapsed.count()));
        if (left <= 0) continue;
        jobs[i].run = std::clamp(Duration(static_cast<std::int64_t>(left)), Duration(1000), jobs[i].limit);
        break;
      }
    }
    BOURSE_TRY(batch::replay(jobs, options));
    for (std::size_t i = 0; i < jobs.size(); ++i) starts[i].push_back(jobs[i].start < Duration(0) ? kNoLimit : jobs[i].start);
  }
  std::vector<StartForecast> out(starts.size());
  for (std::size_t i = 0; i < starts.size(); ++i) {
    std::sort(starts[i].begin(), starts[i].end());
    out[i] = {starts[i][starts[i].size() / 2], starts[i][starts[i].size() * 9 / 10]};
  }
  return out;
}

Result<std::vector<Field<batch::JobInfo>>> start_fields(BatchClient& client) {
  std::map<std::string, StartForecast> by_id;
  if (auto live = live_cluster(client); live) {
    const auto forecasts = BOURSE_TRY(forecast_starts(client, *live));
    for (std::size_t i = 0; i < forecasts.size(); ++i) by_id[batch::display_id(live->rows[i])] = forecasts[i];
  } else if (live.error().code() != Code::kNotFound) {  // no nodes: nothing is known
    return std::move(live).error();
  }
  const auto now = std::chrono::duration_cast<Duration>(std::chrono::system_clock::now().time_since_epoch());
  const auto column = [&](std::string_view name, std::string_view header, Duration StartForecast::*which) {
    return Field<batch::JobInfo>{name, 0, header, [by_id, now, which](const batch::JobInfo& job) {
                                   if (job.started.count() != 0) return timestamp(job.started);
                                   const auto it = by_id.find(batch::display_id(job));
                                   if (it == by_id.end() || it->second.*which >= kUnlimitedRun) return std::string("N/A");
                                   return timestamp(now + it->second.*which);
                                 }};
  };
  return std::vector<Field<batch::JobInfo>>{column("start_p50", "START_P50", &StartForecast::p50),
                                            column("start_p90", "START_P90", &StartForecast::p90)};
}

}  // namespace bourse::cli
