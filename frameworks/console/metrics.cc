#include "frameworks/console/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "common/core/hooks.h"
#include "common/core/result.h"
#include "frameworks/cli/master_client.h"

namespace bourse::console {
namespace {

// In a label's value backslash, quote and line end are escaped; in a help text the quote is not.
std::string escaped(std::string_view text, bool quotes) {
  if (hooks::mutant("console.labels_as_they_are")) return std::string(text);
  std::string out;
  for (const char c : clean_utf8(text)) {
    if (c == '\\')
      out += "\\\\";
    else if (c == '\n')
      out += "\\n";
    else if (c == '"' && quotes)
      out += "\\\"";
    else
      out += c;
  }
  return out;
}

void console_metrics(MetricsText& m, const View& view, const Health& health) {
  m.gauge("bourse_console_build_info", "Version of the console; the value is always 1.");
  m.sample(std::uint64_t{1}, {{"version", BOURSE_VERSION}});
  m.gauge("bourse_master_up", "Whether a master answers the console.");
  m.sample(std::uint64_t{health.connected});
  m.counter("bourse_console_polls_total", "Rounds in which the console read the whole view of the master.");
  m.sample(health.rounds);
  m.counter("bourse_console_poll_failures_total", "Times that the console lost the master, or was not answered in time.");
  m.sample(health.failures);
  m.counter("bourse_console_http_requests_total", "Requests that the console answered with what was asked for.");
  m.sample(health.requests);
  m.counter("bourse_console_http_refused_total", "Requests that the console refused.");
  m.sample(health.refused);
  m.counter("bourse_console_http_connections_cut_total", "Connections that took too long or were too many.");
  m.sample(health.cut);
  m.gauge("bourse_console_http_connections", "Open connections to the console.");
  m.sample(health.connections);
  if (view.number == 0) return;
  m.gauge("bourse_console_poll_duration_seconds", "Time that the last round took.");
  m.sample(view.took);
  m.gauge("bourse_console_data_age_seconds", "Age of what the console shows; old data is left out here.");
  m.sample(health.age);
}

void master_metrics(MetricsText& m, const View& view) {
  m.gauge("bourse_master_info", "The leading master; the value is always 1.");
  m.sample(std::uint64_t{1}, {{"cluster", view.cluster}, {"endpoint", cli::field(view.leader, "endpoint")}});
  m.gauge("bourse_master_epoch", "Number of the leadership; it grows with each change of the leader.");
  m.sample(view.epoch.value);
  const auto gauge = [&](std::string_view name, std::string_view field, std::string_view help) {
    m.gauge(name, help);
    m.sample(count_in(view.leader, field));
  };
  const auto counter = [&](std::string_view name, std::string_view field, std::string_view help) {
    m.counter(name, help);
    m.sample(count_in(view.leader, field));
  };
  gauge("bourse_offers", "offers", "Open offers.");
  gauge("bourse_slices", "slices", "Slices that frameworks have.");
  gauge("bourse_gangs", "gangs", "Gangs that are being put together.");
  gauge("bourse_master_connections", "connections", "Agents, frameworks and tools that are connected to the master.");
  if (const auto clock = clock_in(view.leader)) {
    m.gauge("bourse_master_clock_offset_seconds", "How far the leading master's clock is ahead of the median of all.");
    m.sample(*clock);
  }
  gauge("bourse_clocks", "clocks", "Clocks that the leading master compares: masters' and agents'.");
  counter("bourse_master_allocation_passes_total", "passes", "Allocation passes since the master started.");
  counter("bourse_master_offers_made_total", "offers_made", "Offers made since the master started.");
  counter("bourse_master_accepts_total", "accepts", "Accepts that frameworks sent since the master started.");
  counter("bourse_master_launches_total", "launches", "Tasks that frameworks launched since the master started.");
  counter("bourse_master_task_statuses_total", "statuses", "Changes of tasks passed on since the master started.");
  counter("bourse_master_refused_total", "refused", "Messages and peers refused since the master started.");
}

void total_metrics(MetricsText& m, const View& view) {
  const Totals& t = view.totals;
  m.gauge("bourse_agents", "Agents by state.");
  for (std::size_t i = 0; i < kAgentStates.size(); ++i) m.sample(t.agents[i], {{"state", kAgentStates[i]}});
  m.gauge("bourse_cpus", "Hardware threads of all agents.");
  m.sample(t.cpus);
  m.gauge("bourse_cpus_free", "Hardware threads that are free, of the agents that are up.");
  m.sample(t.cpus_free);
  m.gauge("bourse_cpus_used", "Hardware threads in slices.");
  m.sample(t.cpus_used);
  m.gauge("bourse_memory_bytes", "Memory of all agents.");
  m.sample(t.mem);
  m.gauge("bourse_memory_free_bytes", "Memory that is free, of the agents that are up.");
  m.sample(t.mem_free);
  m.gauge("bourse_memory_used_bytes", "Memory in slices.");
  m.sample(t.mem_used);
  m.gauge("bourse_devices", "Devices of all agents, by health.");
  m.sample(t.devices - t.unhealthy, {{"health", "good"}});
  m.sample(t.unhealthy, {{"health", "bad"}});
  m.gauge("bourse_frameworks", "Frameworks by state.");
  m.sample(t.frameworks_connected, {{"state", "connected"}});
  m.sample(t.frameworks - t.frameworks_connected, {{"state", "disconnected"}});
}

// One family at a time, as the format wants it: `value` of each row under `name`.
template <class Rows, class Labels, class Value>
void each(MetricsText& m, const Rows& rows, std::string_view name, std::string_view help, Labels labels, Value value) {
  if (rows.empty()) return;
  m.gauge(name, help);
  for (const auto& row : rows) m.sample(value(row), labels(row));
}

// Of those that have said what their clock says.
template <class Rows, class Labels>
void clocks(MetricsText& m, const Rows& rows, std::string_view name, std::string_view help, Labels labels) {
  if (std::none_of(rows.begin(), rows.end(), [](const auto& row) { return row.clock.has_value(); })) return;
  m.gauge(name, help);
  for (const auto& row : rows)
    if (row.clock) m.sample(*row.clock, labels(row));
}

void role_metrics(MetricsText& m, const View& view) {
  const auto labels = [](const RoleView& r) { return MetricsText::Labels{{"role", r.row.name}}; };
  const auto& rows = view.roles;
  each(m, rows, "bourse_role_weight", "Weight of a role among its siblings.", labels, [](auto& r) { return r.weight; });
  each(m, rows, "bourse_role_frameworks", "Frameworks of a role and the roles below it.", labels,
       [](auto& r) { return r.frameworks; });
  each(m, rows, "bourse_role_frameworks_waiting", "Frameworks of a role that want more than they have.", labels,
       [](auto& r) { return r.waiting; });
  each(m, rows, "bourse_role_cpus_used", "Hardware threads in slices of a role.", labels, [](auto& r) { return r.cpus_used; });
  each(m, rows, "bourse_role_memory_used_bytes", "Memory in slices of a role.", labels, [](auto& r) { return r.mem_used; });
}

void framework_metrics(MetricsText& m, const View& view) {
  const auto labels = [](const FrameworkView& f) { return MetricsText::Labels{{"framework", f.row.name}, {"role", f.role}}; };
  const auto& rows = view.frameworks;
  each(m, rows, "bourse_framework_up", "Whether a framework is connected.", labels,
       [](auto& f) { return std::uint64_t{f.connected}; });
  each(m, rows, "bourse_framework_slices", "Slices of a framework.", labels, [](auto& f) { return f.slices; });
  each(m, rows, "bourse_framework_offers", "Offers that a framework holds.", labels, [](auto& f) { return f.offers; });
  each(m, rows, "bourse_framework_unmet_units", "Units of its demand that a framework still wants.", labels,
       [](auto& f) { return f.unmet; });
  each(m, rows, "bourse_framework_cpus_used", "Hardware threads in slices of a framework.", labels,
       [](auto& f) { return f.cpus_used; });
  each(m, rows, "bourse_framework_memory_used_bytes", "Memory in slices of a framework.", labels,
       [](auto& f) { return f.mem_used; });
  clocks(m, rows, "bourse_framework_clock_offset_seconds", "How far a framework's clock is ahead of the median of all.", labels);
}

void agent_metrics(MetricsText& m, const View& view) {
  const auto labels = [](const AgentView& a) { return MetricsText::Labels{{"agent", a.row.name}}; };
  const auto& rows = view.agents;
  each(m, rows, "bourse_agent_up", "Whether an agent is up, that is, gets new work.", labels,
       [](auto& a) { return std::uint64_t{a.state == "up"}; });
  each(m, rows, "bourse_agent_cpus", "Hardware threads of an agent.", labels, [](auto& a) { return a.cpus; });
  each(m, rows, "bourse_agent_cpus_free", "Hardware threads of an agent that are free.", labels,
       [](auto& a) { return a.cpus_free; });
  each(m, rows, "bourse_agent_memory_bytes", "Memory of an agent.", labels, [](auto& a) { return a.mem; });
  each(m, rows, "bourse_agent_memory_free_bytes", "Memory of an agent that is free.", labels, [](auto& a) { return a.mem_free; });
  each(m, rows, "bourse_agent_slices", "Slices on an agent.", labels, [](auto& a) { return a.slices; });
  each(m, rows, "bourse_agent_devices_unhealthy", "Devices of an agent that are not healthy.", labels,
       [](auto& a) { return a.unhealthy; });
  clocks(m, rows, "bourse_agent_clock_offset_seconds", "How far an agent's clock is ahead of the median of all.", labels);
  const bool any = std::any_of(rows.begin(), rows.end(), [](const AgentView& a) { return !a.figures.empty(); });
  if (!any) return;
  m.gauge("bourse_agent_figure", "What an agent counts by itself: pressure, what it lends, warm instances; see bourse-agent(8).");
  for (const AgentView& agent : rows)
    for (const auto& [name, value] : agent.figures) m.sample(value, {{"agent", agent.row.name}, {"figure", name}});
}

void job_metrics(MetricsText& m, const JobsView& jobs) {
  m.gauge("bourse_batch_jobs", "Jobs of the batch framework by state; tasks of arrays count each.");
  m.sample(jobs.pending - std::min(jobs.held, jobs.pending), {{"state", "pending"}});
  m.sample(jobs.held, {{"state", "held"}});
  m.sample(jobs.running, {{"state", "running"}});
  m.sample(jobs.completing, {{"state", "completing"}});
  if (!jobs.by_reason.empty()) m.gauge("bourse_batch_jobs_waiting", "Jobs that wait, held ones too, by reason.");
  for (const auto& [reason, count] : jobs.by_reason) m.sample(count, {{"reason", reason}});
  m.counter("bourse_batch_jobs_submitted_total", "Jobs submitted since the batch framework started.");
  m.sample(jobs.submitted);
  m.counter("bourse_batch_jobs_started_total", "Jobs started since the batch framework started.");
  m.sample(jobs.started);
  m.counter("bourse_batch_jobs_ended_total", "Jobs ended since the batch framework started.");
  m.sample(jobs.ended);
}

}  // namespace

void MetricsText::family(std::string_view name, std::string_view type, std::string_view help) {
  BOURSE_ASSERT(name.ends_with("_total") == (type == "counter"), "a counter's name, and no other, ends in _total");
  name_ = name;
  text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, escaped(help, false), name, type);
}

void MetricsText::sample(std::uint64_t value, const Labels& labels) {
  text_ += name_;
  for (std::size_t i = 0; i < labels.size(); ++i)
    text_ += fmt::format("{}{}=\"{}\"", i == 0 ? '{' : ',', labels[i].first, escaped(labels[i].second, true));
  text_ += fmt::format("{} {}\n", labels.empty() ? "" : "}", value);
}

void MetricsText::sample_decimal(std::int64_t value, int decimals, const Labels& labels) {
  sample(std::uint64_t{0}, labels);
  text_.resize(text_.size() - 2);  // the 0
  std::int64_t whole = value, unit = 1;
  for (int i = 0; i < decimals; ++i) whole /= 10, unit *= 10;
  std::string digits = decimals == 0 ? "" : fmt::format(".{:0{}}", std::abs(value % unit), decimals);
  while (!digits.empty() && (digits.back() == '0' || digits.back() == '.')) digits.pop_back();
  text_ += fmt::format("{}{}{}\n", value < 0 && whole == 0 ? "-" : "", whole, digits);
}

std::string metrics_text(const View& view, const JobsView& jobs, const Health& health, std::size_t agents_max) {
  MetricsText m;
  console_metrics(m, view, health);
  if (jobs.known) job_metrics(m, jobs);
  if (health.stale(view) && !hooks::mutant("console.measures_old_data")) return m.take();
  master_metrics(m, view);
  total_metrics(m, view);
  role_metrics(m, view);
  framework_metrics(m, view);
  if (view.agents.size() <= agents_max) agent_metrics(m, view);
  return m.take();
}

}  // namespace bourse::console
