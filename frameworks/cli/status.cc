// bourse status, agents, frameworks, roles, offers, slices: the master's view, for people and as JSON.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "common/core/units.h"
#include "common/world/command_line.h"
#include "common/world/config.h"
#include "frameworks/cli/batch_client.h"
#include "frameworks/cli/commands.h"
#include "frameworks/cli/complain.h"
#include "frameworks/cli/console_url.h"
#include "frameworks/cli/job_text.h"
#include "frameworks/cli/master_client.h"
#include "frameworks/cli/status.h"
#include "frameworks/cli/table.h"

namespace bourse::cli {
namespace {

using Row = StatusReply::Row;

// Statuses are those of the job tools: 3 where nobody answers, or there is nobody to ask.
int failed(const std::string& program, const Error& error) {
  const bool unreachable = error.code() == Code::kTimeout || error.code() == Code::kIo || error.code() == Code::kNotFound;
  return complain(program, error, unreachable ? 3 : 1);
}

struct Request {
  bool json = false;
  std::string format;
};

bool is_whole(const std::string& text) {
  return !text.empty() && text.size() < 19 && text.find_first_not_of("0123456789") == std::string::npos;
}

std::string json_row(const Row& row) {
  std::vector<std::pair<std::string, std::string>> members = {{"name", json_quote(row.name)}};
  for (const auto& [name, value] : row.fields) members.emplace_back(name, is_whole(value) ? value : json_quote(value));
  return json_object(members);
}

std::string json_list(const std::vector<Row>& rows) {
  std::string out = "[";
  for (std::size_t i = 0; i < rows.size(); ++i) out += (i == 0 ? "\n  " : ",\n  ") + json_row(rows[i]);
  return out + (rows.empty() ? "]" : "\n]");
}

struct Shown {
  std::string_view name, header;
  bool right = false;
};

// "10578136KiB" as a person would say it. Only in the table that nobody's script reads: --format and --json are exact.
std::string rounded(const std::string& text) {
  const auto bytes = parse_size(text);
  if (!bytes || bytes->value < kGiB.value) return text;
  const std::int64_t tenths = bytes->value / (kGiB.value / 10);
  return fmt::format("{}.{}GiB", tenths / 10, tenths % 10);
}

int table(const std::string& program, const std::vector<Row>& rows, const Request& request, const std::vector<Shown>& shown,
          const std::vector<std::string_view>& known) {
  std::vector<FieldName> names;
  for (const std::string_view name : known) names.push_back({name, 0});
  std::vector<Column> columns;
  if (request.format.empty()) {
    for (const Shown& s : shown) {
      Column column;
      column.field = static_cast<std::size_t>(std::find(known.begin(), known.end(), s.name) - known.begin());
      column.right = s.right;
      column.before = columns.empty() ? "" : "  ";
      columns.push_back(column);
    }
  } else {
    auto parsed = parse_format(request.format, names);
    if (!parsed) return complain(program, parsed.error(), 2);
    columns = *parsed;
  }
  std::vector<std::string> headers;
  std::vector<std::vector<std::string>> cells;
  std::size_t colour = SIZE_MAX;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const std::string_view name = known[columns[i].field];
    std::string header(name);
    for (const Shown& s : shown)
      if (s.name == name) header = s.header;
    for (char& c : header) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    headers.push_back(header);
    if (name == "state") colour = i;
  }
  for (const Row& row : rows) {
    auto& line = cells.emplace_back();
    for (const Column& column : columns) {
      const std::string_view name = known[column.field];
      line.push_back(name == "name" ? row.name : field(row, name));
      if (request.format.empty() && name.starts_with("mem")) line.back() = rounded(line.back());
    }
  }
  fmt::print("{}", render(columns, headers, cells, want_colour(), colour));
  return 0;
}

// "batch#9" before "batch#10".
bool by_number(const std::string& a, const std::string& b) {
  const auto i = a.rfind('#'), j = b.rfind('#');
  if (const int order = a.compare(0, i, b, 0, j); order != 0) return order < 0;
  return a.size() != b.size() ? a.size() < b.size() : a < b;
}

int show(const std::string& program, const std::string& what, const std::string& about, int argc, char** argv,
         const std::vector<Shown>& shown, const std::vector<std::string_view>& known) {
  Request request;
  CommandLine app(about, program);
  app.flag("--json", request.json, "As JSON, with every field");
  std::string help = "Fields, separated by commas: ";
  for (const std::string_view name : known) help += (name == known.front() ? "" : ", ") + std::string(name);
  app.option("--format", request.format, help);
  app.directory();
  if (const int status = app.parse(argc, argv); status >= 0) return status;
  auto client = MasterClient::open();
  if (!client) return failed(program, client.error());
  auto rows = (*client)->status(what);
  if (!rows) return failed(program, rows.error());
  if (what == "slices") std::sort(rows->begin(), rows->end(), [](const Row& a, const Row& b) { return by_number(a.name, b.name); });
  if (!request.json) return table(program, *rows, request, shown, known);
  fmt::print("{}\n", json_object({{what, json_list(*rows)}}));
  return 0;
}

}  // namespace

int agents_main(int argc, char** argv) {
  return show(
      "bourse agents", "agents", "Shows the hosts of the cluster as the master sees them.", argc, argv,
      {{"name", "AGENT"},
       {"state", "STATE"},
       {"cpus_total", "CPUS", true},
       {"cpus_free", "FREE", true},
       {"mem_total", "MEM", true},
       {"mem_free", "FREE", true},
       {"slices", "SLICES", true},
       {"isolation", "ISOLATION"},
       {"labels", "LABELS"}},
      {"name",     "state",       "cpus_total", "cpus_free", "mem_total", "mem_free", "offered",   "held",        "leased",
       "reserved", "unavailable", "devices",    "unhealthy", "slices",    "labels",   "isolation", "cordon",      "drain_in",
       "closes",   "shortfall",   "notes",      "lends",     "lent",      "figures",  "nodes",     "device_list", "clock_ms"});
}

int roles_main(int argc, char** argv) {
  return show("bourse roles", "roles", "Shows the accounts that frameworks spend from: weights, limits, and what is used.", argc,
              argv,
              {{"name", "ROLE"},
               {"weight", "WEIGHT", true},
               {"priority", "PRIORITY", true},
               {"frameworks", "FRAMEWORKS", true},
               {"cpus_used", "CPUS", true},
               {"mem_used", "MEM", true},
               {"limit", "LIMIT"},
               {"guarantee", "GUARANTEE"},
               {"waiting", "WAITING", true}},
              {"name", "weight", "priority", "limit", "guarantee", "used", "cpus_used", "mem_used", "frameworks", "waiting"});
}

int show_reservations(const std::string& program, bool maintenance, const std::string& name, bool json, const std::string& format) {
  auto client = MasterClient::open();
  if (!client) return failed(program, client.error());
  const auto all = (*client)->status("reservations");
  if (!all) return failed(program, all.error());
  std::vector<Row> rows;
  for (Row row : *all) {
    if ((field(row, "kind") == "maintenance") != maintenance || (!name.empty() && row.name != name)) continue;
    for (const char* at : {"start", "end"}) {
      const std::int64_t us = std::strtoll(field(row, std::string(at) + "_us").c_str(), nullptr, 10);
      row.fields.emplace_back(at, us == 0 ? "-" : timestamp(Duration(us)));
    }
    rows.push_back(std::move(row));
  }
  if (!name.empty() && rows.empty()) return complain(program, Error(Code::kNotFound, "there is no '" + name + "'"), 1);
  if (json) {
    fmt::print("{}\n", json_object({{maintenance ? "maintenance" : "reservations", json_list(rows)}}));
    return 0;
  }
  std::vector<Shown> shown = {{"name", "NAME"}, {"state", "STATE"}, {"start", "START"}, {"end", "END"}, {"agents", "AGENTS"}};
  if (!maintenance) {
    shown.push_back({"role", "ROLE"});
    shown.push_back({"amount", "AMOUNT"});
    shown.push_back({"idle", "IDLE"});
  }
  shown.push_back({"reason", "REASON"});
  return table(program, rows, {json, format}, shown,
               {"name", "state", "kind", "role", "named", "agents", "known", "amount", "idle", "start", "end", "start_us", "end_us",
                "owner", "reason"});
}

int offers_main(int argc, char** argv) {
  return show("bourse offers", "offers", "Shows open offers.", argc, argv,
              {{"name", "OFFER"},
               {"framework", "FRAMEWORK"},
               {"agent", "AGENT"},
               {"line", "LINE", true},
               {"units", "UNITS", true},
               {"expires_in", "EXPIRES", true},
               {"resources", "RESOURCES"}},
              {"name", "framework", "agent", "line", "units", "expires_in", "reservation", "resources"});
}

int slices_main(int argc, char** argv) {
  return show("bourse slices", "slices", "Shows slices: what frameworks have on which agent.", argc, argv,
              {{"name", "SLICE"},
               {"framework", "FRAMEWORK"},
               {"agent", "AGENT"},
               {"state", "STATE"},
               {"role", "ROLE"},
               {"resources", "RESOURCES"}},
              {"name", "framework", "agent", "state", "gang", "role", "reservation", "resources"});
}

int frameworks_main(int argc, char** argv) {
  return show("bourse frameworks", "frameworks", "Shows the frameworks of the cluster as the master sees them.", argc, argv,
              {{"name", "FRAMEWORK"},
               {"role", "ROLE"},
               {"state", "STATE"},
               {"slices", "SLICES", true},
               {"offers", "OFFERS", true},
               {"unmet", "UNMET", true},
               {"cpus_used", "CPUS", true},
               {"mem_used", "MEM", true}},
              {"name", "role", "state", "incarnation", "slices", "offers", "unmet", "cpus_used", "mem_used", "accumulating",
               "demand", "clock_ms"});
}

namespace {

// What candidates for batch's policy would have done, where batch runs on this host and has any.
std::vector<batch::ShadowFinding> shadows_of(const std::vector<Row>& frameworks) {
  const bool batch = std::any_of(frameworks.begin(), frameworks.end(),
                                 [](const Row& row) { return row.name == "batch" && field(row, "state") == "connected"; });
  if (!batch) return {};
  const auto client = BatchClient::open("");
  if (!client) return {};
  (*client)->set_patience(seconds(2));
  auto summary = call<batch::SummaryReply>(**client, batch::SummaryRequest{}, seconds(2));
  return summary ? std::move(summary->shadows) : std::vector<batch::ShadowFinding>{};
}

}  // namespace

int status_main(int argc, char** argv) {
  const std::string program = "bourse status";
  bool json = false;
  CommandLine app("Shows who leads the cluster, and its masters, agents and frameworks.", program);
  app.flag("--json", json, "As JSON");
  app.directory();
  if (const int status = app.parse(argc, argv); status >= 0) return status;
  auto client = MasterClient::open();
  if (!client) return failed(program, client.error());
  const auto cluster = (*client)->status("cluster");
  if (!cluster) return failed(program, cluster.error());
  const auto agents = (*client)->status("agents");
  if (!agents) return failed(program, agents.error());
  const auto frameworks = (*client)->status("frameworks");
  if (!frameworks) return failed(program, frameworks.error());
  if (cluster->empty()) return complain(program, Error(Code::kCorrupt, "the master says nothing of itself"));
  const auto masters = (*client)->masters();
  const Row& leader = cluster->front();
  const std::string endpoint = field(leader, "endpoint"), console = console_url(Places::find().run);
  if (json) {
    std::vector<std::pair<std::string, std::string>> counters;
    for (const auto& [name, value] : leader.fields)
      if (name != "cluster" && name != "pid" && name != "endpoint" && name != "epoch")
        counters.emplace_back(name, is_whole(value) ? value : json_quote(value));
    std::string list;
    for (const auto& master : masters) {
      std::vector<std::pair<std::string, std::string>> fields = {{"endpoint", json_quote(master.endpoint)},
                                                                 {"state", json_quote(master.state)}};
      if (master.epoch.value != 0) fields.emplace_back("epoch", std::to_string(master.epoch.value));
      if (!master.reason.empty()) fields.emplace_back("reason", json_quote(master.reason));
      list += (list.empty() ? "" : ", ") + json_object(fields);
    }
    std::vector<std::pair<std::string, std::string>> members = {
        {"cluster", json_quote(field(leader, "cluster"))},
        {"leader",
         json_object({{"pid", field(leader, "pid")}, {"endpoint", json_quote(endpoint)}, {"epoch", field(leader, "epoch")}})},
        {"epoch", field(leader, "epoch")},
        {"masters", "[" + list + "]"},
        {"agents", json_list(*agents)},
        {"frameworks", json_list(*frameworks)},
        {"counters", json_object(counters)}};
    std::string shadows;
    for (const batch::ShadowFinding& f : shadows_of(*frameworks))
      shadows += (shadows.empty() ? "" : ",") + json_object({{"policy", json_quote(f.policy)},
                                                             {"fault", json_quote(f.fault)},
                                                             {"jobs", std::to_string(f.jobs)},
                                                             {"moved", std::to_string(f.moved)},
                                                             {"mean_wait_s", fmt::format("{:.3f}", f.wait_s)},
                                                             {"live_mean_wait_s", fmt::format("{:.3f}", f.live_wait_s)},
                                                             {"instead_of_job", std::to_string(f.live_job)},
                                                             {"job", std::to_string(f.job)}});
    members.emplace_back("shadow_policies", "[" + shadows + "]");
    if (!console.empty()) members.emplace_back("console", json_object({{"url", json_quote(console)}}));
    fmt::print("{}\n", json_object(members));
    return 0;
  }
  const auto count = [](const std::vector<Row>& rows, std::string_view state) {
    return std::count_if(rows.begin(), rows.end(), [&](const Row& row) { return field(row, "state") == state; });
  };
  fmt::print("cluster     {}\n", field(leader, "cluster"));
  fmt::print("leader      {} (pid {}, epoch {})\n", endpoint, field(leader, "pid"), field(leader, "epoch"));
  fmt::print("masters     {}\n", masters.size());
  for (const auto& master : masters)
    if (master.state != "leader")
      fmt::print("            {} is {}{}\n", master.endpoint, master.state == "standby" ? "a standby" : master.state,
                 master.state == "standby" || master.reason.empty() ? "" : ": " + master.reason);
  if (!console.empty()) fmt::print("console     {}\n", console);
  fmt::print("agents      {} of {} up\n", count(*agents, "up"), agents->size());
  for (const Row& row : *agents)
    if (field(row, "state") != "up")
      fmt::print("            {} is {}{}\n", row.name, field(row, "state"),
                 field(row, "cordon").empty() ? "" : ": " + field(row, "cordon"));
  for (const Row& row : *agents)
    if (field(row, "isolation") == "degraded") fmt::print("            {} isolates in part: {}\n", row.name, field(row, "notes"));
  fmt::print("frameworks  {} of {} connected\n", count(*frameworks, "connected"), frameworks->size());
  for (const Row& row : *frameworks)
    fmt::print("            {} ({}): {} slices, {} offers, {} wanted\n", row.name, field(row, "state"), field(row, "slices"),
               field(row, "offers"), field(row, "unmet"));
  for (const batch::ShadowFinding& found : shadows_of(*frameworks))
    fmt::print("            shadow policy {}\n", batch::text_of(found));
  return 0;
}

}  // namespace bourse::cli
