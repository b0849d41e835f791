// `bourse probe`: what an agent would find on this host, with where each fact is from and where sources disagree.
//
// Runs the very probes, in the very helper, with the configuration that the agent would read, and merges with the agent's own function;
// it asks no agent and no master, so it works before there is a cluster. Exit status: 0; 1 nothing could be found; 2 wrong use; 3 a
// probe failed, and the rest is shown.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "agent/merge.h"
#include "agent/plan.h"
#include "common/world/command_line.h"
#include "common/world/reactor.h"
#include "frameworks/cli/commands.h"
#include "frameworks/cli/complain.h"

namespace bourse::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Answer {
  std::string probe;
  HelperResult result;
};

std::vector<Answer> run_all(const std::string& helper, const ProbingPlan& plan) {
  std::vector<Answer> answers;
  for (const ProbePlan& one : plan.settings.probes)
    if (plan.inputs.count(one.name) != 0) answers.push_back({one.name, {}});  // not the executor's own
  Reactor reactor;
  HelperRunner runner(reactor, helper);
  std::size_t left = answers.size();
  for (Answer& answer : answers) {
    const auto planned = std::find_if(plan.settings.probes.begin(), plan.settings.probes.end(),
                                      [&](const ProbePlan& p) { return p.name == answer.probe; });
    const ProbeInput& input = plan.inputs.at(answer.probe);
    if (!worth_running(*find_probe(answer.probe), input)) {
      answer.result.report = ProbeReport{};
      --left;
      continue;
    }
    runner.run(answer.probe, input, planned->limit, [&](HelperResult result) {
      answer.result = std::move(result);
      if (--left == 0) reactor.stop();
    });
  }
  if (left > 0) reactor.run();
  return answers;
}

std::string amounts_text(const Counters& counters) {
  std::string out;
  for (const auto& [name, amount] : counters.items()) out += (out.empty() ? "" : " ") + name + "=" + std::to_string(amount);
  return out;
}

std::string_view mode_text(Device::Mode mode) {
  switch (mode) {
    case Device::Mode::kExclusive:
      return "exclusive";
    case Device::Mode::kCounters:
      return "counters";
    case Device::Mode::kTemplate:
      return "template";
    case Device::Mode::kTimeSliced:
      return "time-sliced";
  }
  return "";
}

// --- as a tree --------------------------------------------------------------------------------------------------------

class Tree {
 public:
  explicit Tree(const Merged& all) : all_(all) {}

  void print(const std::vector<Answer>& answers) const {
    const Resources& total = all_.inventory.total;
    line(0,
         fmt::format("cpus {}, memory {}{}", format_cpus(total.cpus), format_size(total.mem),
                     total.disk.value > 0 ? ", disk " + format_size(total.disk) : ""),
         "total/cpus");
    if (source("total/mem") != source("total/cpus")) line(0, "memory", "total/mem");
    for (const auto& [kind, amount] : total.others.items()) line(0, fmt::format("{} {}", kind, amount), "total/" + kind);
    if (!all_.inventory.topology.type.empty()) node(all_.inventory.topology, 0);
    if (!all_.inventory.devices.empty()) fmt::print("devices\n");
    for (const Device& device : all_.inventory.devices) show(device);
    if (!all_.inventory.labels.empty()) fmt::print("labels\n");
    for (const auto& [key, value] : all_.inventory.labels) line(1, key + "=" + value, "labels/" + key);
    if (!all_.inventory.notes.empty()) fmt::print("notes\n");
    for (const std::string& note : all_.inventory.notes) fmt::print("  {}\n", note);
    fmt::print("probes\n");
    for (const Answer& answer : answers)
      fmt::print("  {:<10} {:>8}  {}\n", answer.probe, format_duration(std::chrono::floor<milliseconds>(answer.result.took)),
                 answer.result.report ? "ok" : answer.result.report.error().text());
  }

 private:
  [[nodiscard]] std::string source(const std::string& fact) const {
    const auto it = all_.sources.find(fact);
    return it == all_.sources.end() ? "" : it->second;
  }
  void line(std::size_t depth, const std::string& text, const std::string& fact) const {
    const std::string from = source(fact);
    fmt::print("{}{}{}\n", std::string(2 * depth, ' '), text, from.empty() ? "" : "  [" + from + "]");
  }
  // Threads of a core on one line; a core with one thread has its number only.
  void node(const TopologyNode& n, std::size_t depth) const {
    std::string text = n.type;
    if (n.type == "pci") {
      text += " " + n.name;
    } else if (n.type != "machine") {
      text += " " + std::to_string(n.index);
      if (!n.name.empty()) text += " " + n.name;
    }
    if (n.amount > 0) text += " " + format_size(Bytes{n.amount});
    std::string pus;
    for (const TopologyNode& child : n.children)
      if (child.type == "pu")
        pus +=
            (pus.empty() ? "" : ",") + std::to_string(child.index) + (child.attributes.count("reserved") != 0 ? " (reserved)" : "");
    if (!pus.empty()) text += ": cpus " + pus;
    for (const auto& [key, value] : n.attributes) text += " " + key + (value.empty() ? "" : "=" + value);
    line(depth, text, n.type == "machine" ? "topology" : "");
    for (const TopologyNode& child : n.children)
      if (child.type != "pu") node(child, depth + 1);
  }
  void show(const Device& device) const {
    const std::string where = "devices/" + device.id.str();
    std::string text = device.id.str() + " " + device.kind;
    if (!device.model.empty()) text += " \"" + device.model + "\"";
    text += fmt::format(" {}{}", mode_text(device.mode), device.healthy ? "" : " UNHEALTHY");
    line(1, text, where);
    if (!device.pci.empty() || device.numa >= 0)
      line(2,
           fmt::format("pci {}{}", device.pci.empty() ? "-" : device.pci,
                       device.numa >= 0 ? fmt::format(", NUMA node {}", device.numa) : ""),
           where + "/numa");
    for (const auto& [name, amount] : device.counters.items()) line(2, fmt::format("{} {}", name, amount), where + "/" + name);
    for (const auto& [name, consumes] : device.profiles)
      line(2, "profile " + name + ": " + amounts_text(consumes), where + "/profiles/" + name);
    for (const auto& [name, value] : device.attributes) line(2, name + "=" + value, where + "/" + name);
    if (!device.nodes.empty()) line(2, fmt::format("nodes {}", fmt::join(device.nodes, " ")), "");
    for (const DeviceId& link : device.links) line(2, "linked to " + link.str(), "");
  }

  const Merged& all_;
};

// --- as JSON ----------------------------------------------------------------------------------------------------------

Json json_of(const Counters& counters) {
  Json out = Json::object();
  for (const auto& [name, amount] : counters.items()) out[name] = amount;
  return out;
}

Json json_of(const TopologyNode& node) {
  Json out{{"type", node.type}, {"index", node.index}};
  if (!node.name.empty()) out["name"] = node.name;
  if (node.amount > 0) out["bytes"] = node.amount;
  if (!node.attributes.empty()) out["attributes"] = node.attributes;
  for (const TopologyNode& child : node.children) out["children"].push_back(json_of(child));
  return out;
}

Json json_of(const Device& device) {
  Json out{{"id", device.id.str()},          {"kind", device.kind},       {"vendor", device.vendor},
           {"model", device.model},          {"pci", device.pci},         {"numa", device.numa},
           {"mode", mode_text(device.mode)}, {"healthy", device.healthy}, {"counters", json_of(device.counters)}};
  out["profiles"] = Json::object();
  for (const auto& [name, consumes] : device.profiles) out["profiles"][name] = json_of(consumes);
  out["attributes"] = device.attributes;
  out["nodes"] = device.nodes;
  out["links"] = Json::array();
  for (const DeviceId& link : device.links) out["links"].push_back(link.str());
  return out;
}

void print_json(const Merged& all, const std::vector<Answer>& answers) {
  const Inventory& inventory = all.inventory;
  Json total{{"milli_cpus", inventory.total.cpus.value},
             {"mem_bytes", inventory.total.mem.value},
             {"disk_bytes", inventory.total.disk.value}};
  total["others"] = json_of(inventory.total.others);
  total["numa"] = Json::array();
  for (const NumaAmount& node : inventory.total.numa)
    total["numa"].push_back({{"node", node.node}, {"milli_cpus", node.cpus.value}, {"mem_bytes", node.mem.value}});
  Json out{{"total", total}, {"topology", json_of(inventory.topology)}};
  out["devices"] = Json::array();
  for (const Device& device : inventory.devices) out["devices"].push_back(json_of(device));
  out["labels"] = inventory.labels;
  out["notes"] = inventory.notes;
  out["sources"] = all.sources;
  out["probes"] = Json::array();
  for (const Answer& answer : answers)
    out["probes"].push_back({{"name", answer.probe},
                             {"ok", bool(answer.result.report)},
                             {"error", answer.result.report ? "" : answer.result.report.error().text()},
                             {"took_us", answer.result.took.count()}});
  fmt::print("{}\n", out.dump(2));
}

}  // namespace

int probe_main(int argc, char** argv) {
  const std::string program = "bourse probe";
  CommandLine app("Shows what an agent finds on this host, where each fact is from, and where sources disagree.", program);
  bool json = false, list = false;
  std::string root, topology, config_path;
  std::vector<std::string> names, overrides;
  app.flag("--json", json, "As JSON");
  app.flag("--list", list, "Only name the probes that there are");
  app.option("--root", root, "Directory that has proc, sys and dev of the host to look at (default: agent.probe_root)")
      .shown_as("DIR");
  app.option("--topology", topology, "hwloc XML file, or synthetic:DESCRIPTION, instead of the host's").shown_as("FILE");
  app.option("--probe", names, "Only this one; may be given again").shown_as("NAME").one_each();
  app.option("--config", config_path, "Configuration file (default: of the cluster's directory, see bourse.conf(5))")
      .shown_as("FILE");
  app.option("--set", overrides, "section.key=value, over the configuration file").one_each();
  app.directory();
  if (const int status = app.parse(argc, argv); status >= 0) return status;
  if (list) {
    for (const ProbeInfo& info : probe_catalog())
      fmt::print("{:<10} {:>5}  {}\n", info.name, format_duration(info.limit), info.about);
    return 0;
  }
  const Places places = Places::find();
  if (config_path.empty() && access(places.config.c_str(), F_OK) == 0) config_path = places.config;
  if (!root.empty()) overrides.push_back("agent.probe_root=" + root);
  if (!topology.empty()) overrides.push_back("agent.topology=" + topology);
  const auto config = Config::read(config_path, overrides);
  if (!config) return complain(program, config.error());
  auto plan = plan_probes(*config, config_path);
  if (!plan) return complain(program, plan.error());
  for (const std::string& name : names)
    if (plan->inputs.count(name) == 0)
      return complain(program, Error(Code::kInvalid, "there is no probe `" + name + "' here; see bourse probe --list"), 2);
  if (!names.empty())
    std::erase_if(plan->settings.probes,
                  [&](const ProbePlan& p) { return std::find(names.begin(), names.end(), p.name) == names.end(); });

  const std::vector<Answer> answers = run_all(helper_path(config->text("agent", "helper")), *plan);
  std::vector<NamedReport> reports;
  for (const Answer& answer : answers)
    if (answer.result.report) reports.push_back({answer.probe, &answer.result.report->inventory, &answer.result.report->sources});
  bool failed = false;
  for (const Answer& answer : answers) {
    if (answer.result.report) continue;
    failed = true;
    if (!json || reports.empty()) fmt::print(stderr, "{}: {}: {}\n", program, answer.probe, answer.result.report.error().text());
  }
  if (reports.empty()) return 1;
  const Merged all = merge(reports, plan->settings.labels);
  json ? print_json(all, answers) : Tree(all).print(answers);
  return failed ? 3 : 0;
}

}  // namespace bourse::cli
