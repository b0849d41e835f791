#include "frameworks/console/snapshot.h"

#include <fmt/format.h>

#include <functional>
#include <utility>
#include <vector>

#include "frameworks/cli/master_client.h"
#include "frameworks/cli/table.h"

namespace bourse::console {
namespace {

using cli::field;
using Members = std::vector<std::pair<std::string, std::string>>;

std::string in_quotes(std::string_view text) { return cli::json_quote(clean_utf8(text)); }
std::string number(std::uint64_t value) { return std::to_string(value); }
std::string number(Bytes bytes) { return std::to_string(bytes.value); }
std::string number(MilliCpus cpus) { return format_cpus(cpus); }
std::string truth(bool value) { return value ? "true" : "false"; }
std::string seconds_text(Duration d) {
  return fmt::format("{}.{:03}", d / seconds(1), d % seconds(1) / std::chrono::milliseconds(1));
}

template <class Rows, class Text>
std::string list(const Rows& rows, Text text) {
  std::string out = "[";
  for (const auto& row : rows) {
    out += out.size() == 1 ? "" : ",\n";
    out += text(row);
  }
  return out + "]";
}

// "rack=r1,ssd" as an object; a label without a value has "".
std::string labels_object(const std::string& text) {
  Members members;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string label = text.substr(at, end - at);
    const std::size_t is = label.find('=');
    members.emplace_back(clean_utf8(label.substr(0, is)), in_quotes(is == std::string::npos ? "" : label.substr(is + 1)));
    at = end + 1;
  }
  return cli::json_object(members);
}

// Words between separators; what is beyond the last one counts too.
std::vector<std::string> words(const std::string& text, char separator) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(separator, at), text.size());
    out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

// "0 3.5/8 12GiB/32GiB;1 ...", as the master has it: what is free of what each NUMA node has.
std::string nodes_list(const std::string& text) {
  return list(words(text, ';'), [](const std::string& one) {
    const auto part = words(one, ' ');
    const auto pair = [&](std::size_t i) { return i < part.size() ? words(part[i], '/') : std::vector<std::string>(); };
    const auto cpus = pair(1), memory = pair(2);
    const auto cpus_at = [&](std::size_t i) {
      const auto value = i < cpus.size() ? parse_cpus(cpus[i]) : Result<MilliCpus>(MilliCpus{});
      return number(value ? *value : MilliCpus{});
    };
    const auto memory_at = [&](std::size_t i) {
      const auto value = i < memory.size() ? parse_size(memory[i]) : Result<Bytes>(Bytes{});
      return number(value ? *value : Bytes{});
    };
    return cli::json_object({{"node", in_quotes(part.empty() ? "" : part[0])},
                             {"cpus_free", cpus_at(0)},
                             {"cpus", cpus_at(1)},
                             {"memory_free_bytes", memory_at(0)},
                             {"memory_bytes", memory_at(1)}});
  });
}

// "gpu/nvidia GPU-1 0 good taken;...": kind, id, NUMA node ("-" where not known), health, whether it is free.
std::string devices_list(const std::string& text) {
  return list(words(text, ';'), [](const std::string& one) {
    const auto part = words(one, ' ');
    const auto at = [&](std::size_t i) { return i < part.size() ? part[i] : std::string(); };
    return cli::json_object({{"kind", in_quotes(at(0))},
                             {"id", in_quotes(at(1))},
                             {"node", at(2) == "-" ? "null" : in_quotes(at(2))},
                             {"healthy", truth(at(3) != "ill")},
                             {"use", in_quotes(at(4))}});
  });
}

std::string agent_object(const AgentView& a) {
  return cli::json_object({{"name", in_quotes(a.row.name)},
                           {"state", in_quotes(a.state)},
                           {"cpus", number(a.cpus)},
                           {"cpus_free", number(a.cpus_free)},
                           {"memory_bytes", number(a.mem)},
                           {"memory_free_bytes", number(a.mem_free)},
                           {"slices", number(a.slices)},
                           {"devices", number(a.devices)},
                           {"unhealthy", in_quotes(field(a.row, "unhealthy"))},
                           {"labels", labels_object(field(a.row, "labels"))},
                           {"isolation", in_quotes(field(a.row, "isolation"))},
                           {"reason", in_quotes(field(a.row, "cordon"))},
                           {"drain_in", in_quotes(field(a.row, "drain_in"))},
                           {"offered", in_quotes(field(a.row, "offered"))},
                           {"notes", in_quotes(field(a.row, "notes"))},
                           {"nodes", nodes_list(field(a.row, "nodes"))},
                           {"device_list", devices_list(field(a.row, "device_list"))}});
}

std::string framework_object(const FrameworkView& f) {
  return cli::json_object({{"name", in_quotes(f.row.name)},
                           {"role", in_quotes(f.role)},
                           {"connected", truth(f.connected)},
                           {"slices", number(f.slices)},
                           {"offers", number(f.offers)},
                           {"unmet", number(f.unmet)},
                           {"cpus_used", number(f.cpus_used)},
                           {"memory_used_bytes", number(f.mem_used)},
                           {"accumulating", in_quotes(field(f.row, "accumulating"))},
                           {"demand", in_quotes(field(f.row, "demand"))}});
}

std::string demand_object(const DemandView& d) {
  return cli::json_object({{"framework", in_quotes(d.framework)},
                           {"line", number(d.line)},
                           {"role", in_quotes(d.role)},
                           {"unmet", number(d.unmet)},
                           {"count", number(d.count)},
                           {"together", number(d.together)},
                           {"shape", in_quotes(d.shape)},
                           {"why", in_quotes(d.why)}});
}

std::string role_object(const RoleView& r) {
  return cli::json_object({{"name", in_quotes(r.row.name)},
                           {"weight", number(r.weight)},
                           {"limit", in_quotes(field(r.row, "limit"))},
                           {"cpus_used", number(r.cpus_used)},
                           {"memory_used_bytes", number(r.mem_used)},
                           {"frameworks", number(r.frameworks)},
                           {"waiting", number(r.waiting)}});
}

std::string event_object(const EventView& e) {
  return cli::json_object({{"number", number(e.number)}, {"time", seconds_text(e.wall)}, {"event", in_quotes(e.line)}});
}

std::string totals_object(const Totals& t) {
  Members states;
  for (std::size_t i = 0; i < kAgentStates.size(); ++i) states.emplace_back(kAgentStates[i], number(t.agents[i]));
  return cli::json_object({{"agents", cli::json_object(states)},
                           {"cpus", number(t.cpus)},
                           {"cpus_free", number(t.cpus_free)},
                           {"cpus_used", number(t.cpus_used)},
                           {"memory_bytes", number(t.mem)},
                           {"memory_free_bytes", number(t.mem_free)},
                           {"memory_used_bytes", number(t.mem_used)},
                           {"devices", number(t.devices)},
                           {"devices_unhealthy", number(t.unhealthy)},
                           {"slices", number(t.slices)},
                           {"offers", number(t.offers)},
                           {"unmet", number(t.unmet)},
                           {"frameworks", number(t.frameworks)},
                           {"frameworks_connected", number(t.frameworks_connected)}});
}

std::string counters_object(const Row& leader) {
  Members members;
  for (const char* name : {"passes", "offers_made", "accepts", "launches", "statuses", "refused"})
    members.emplace_back(name, number(count_in(leader, name)));
  return cli::json_object(members);
}

std::string job_object(const JobView& j) {
  const auto moment = [](Duration wall) { return wall > Duration{0} ? seconds_text(wall) : std::string("null"); };
  return cli::json_object({{"id", in_quotes(j.id)},
                           {"name", in_quotes(j.name)},
                           {"user", in_quotes(j.user)},
                           {"state", in_quotes(j.state)},
                           {"reason", in_quotes(j.reason)},
                           {"hosts", in_quotes(j.hosts)},
                           {"cpus", number(j.cpus)},
                           {"submitted", moment(j.submitted)},
                           {"started", moment(j.started)},
                           {"ended", moment(j.ended)},
                           {"estimated_start", moment(j.estimated_start)},
                           {"elapsed_seconds", seconds_text(j.elapsed)},
                           {"time_limit_seconds", j.time_limit == kNoLimit ? "null" : seconds_text(j.time_limit)},
                           {"exit_code", std::to_string(j.exit_code)},
                           {"exit_signal", std::to_string(j.exit_signal)}});
}

std::string jobs_object(const JobsView& jobs) {
  Members reasons;
  for (const auto& [reason, count] : jobs.by_reason) reasons.emplace_back(clean_utf8(reason), number(count));
  return cli::json_object({{"pending", number(jobs.pending)},
                           {"held", number(jobs.held)},
                           {"running", number(jobs.running)},
                           {"completing", number(jobs.completing)},
                           {"submitted", number(jobs.submitted)},
                           {"started", number(jobs.started)},
                           {"ended", number(jobs.ended)},
                           {"pending_by_reason", cli::json_object(reasons)},
                           {"jobs", list(jobs.jobs, job_object)}});
}

// A list for each curve: a point is at the same place in all.
std::string history_object(const History& history) {
  const auto curve = [&](auto value) { return list(history.points(), value); };
  return cli::json_object({{"spacing_seconds", std::to_string(history.spacing_seconds())},
                           {"time", curve([](const Point& p) { return std::to_string(p.at); })},
                           {"agents_up", curve([](const Point& p) { return number(p.agents_up); })},
                           {"cpus", curve([](const Point& p) { return number(p.cpus); })},
                           {"cpus_used", curve([](const Point& p) { return number(p.cpus_used); })},
                           {"memory_bytes", curve([](const Point& p) { return number(p.mem); })},
                           {"memory_used_bytes", curve([](const Point& p) { return number(p.mem_used); })},
                           {"slices", curve([](const Point& p) { return number(p.slices); })},
                           {"unmet", curve([](const Point& p) { return number(p.unmet); })},
                           {"jobs_pending", curve([](const Point& p) { return number(p.jobs_pending); })},
                           {"jobs_running", curve([](const Point& p) { return number(p.jobs_running); })}});
}

}  // namespace

std::string snapshot_json(const View& view, const JobsView& jobs, const Health& health, const History& history) {
  const bool known = view.number != 0;
  Members members = {{"version", std::to_string(kSnapshotVersion)},
                     {"console_version", in_quotes(BOURSE_VERSION)},
                     {"connected", truth(health.connected)},
                     {"error", in_quotes(health.error)},
                     {"interval_seconds", seconds_text(health.interval)},
                     {"number", number(view.number)},
                     {"stale", truth(health.stale(view))},
                     {"age_seconds", known ? seconds_text(health.age) : "null"},
                     {"taken", known ? seconds_text(view.taken.wall) : "null"}};
  if (known) {
    members.emplace_back("cluster", in_quotes(view.cluster));
    members.emplace_back("truncated", truth(view.truncated));
    members.emplace_back("master", cli::json_object({{"endpoint", in_quotes(field(view.leader, "endpoint"))},
                                                     {"pid", number(count_in(view.leader, "pid"))},
                                                     {"epoch", number(view.epoch.value)}}));
    members.emplace_back("totals", totals_object(view.totals));
    members.emplace_back("counters", counters_object(view.leader));
    members.emplace_back("agents", list(view.agents, agent_object));
    members.emplace_back("frameworks", list(view.frameworks, framework_object));
    members.emplace_back("demand", list(view.demand, demand_object));
    members.emplace_back("roles", list(view.roles, role_object));
    members.emplace_back("events", list(view.events, event_object));
  }
  if (jobs.known) members.emplace_back("batch", jobs_object(jobs));
  members.emplace_back("history", history_object(history));
  return cli::json_object(members) + "\n";
}

}  // namespace bourse::console
