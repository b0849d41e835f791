#include "agent/plan.h"

#include <unistd.h>

#include <algorithm>

#include "common/world/files.h"

namespace bourse {
namespace {

constexpr const char* kIsolation = "isolation";  // the executor's own, see host.h
constexpr Duration kIsolationLimit = seconds(10), kLimitMost = seconds(3600);

std::vector<std::string> catalog_names() {
  std::vector<std::string> names;
  for (const ProbeInfo& info : probe_catalog()) names.emplace_back(info.name);
  return names;
}

Error unknown(const std::string& key, const std::string& name) {
  const std::string near = nearest_word(name, catalog_names());
  return {Code::kInvalid, key + ": there is no probe `" + name + "'" +
                              (near.empty() ? "; see bourse probe --list" : "; did you mean `" + near + "'?")};
}

// agent.probes: names to run; "-NAME" takes one out of those that run by themselves.
Result<std::vector<std::string>> chosen(const Config& config) {
  const std::vector<std::string> words = config.list("agent", "probes");
  const bool named = std::any_of(words.begin(), words.end(), [](const std::string& w) { return w.front() != '-'; });
  std::vector<std::string> names;
  if (!named)
    for (const ProbeInfo& info : probe_catalog())
      if (info.automatic) names.emplace_back(info.name);
  for (const std::string& word : words) {
    const std::string name = word.front() == '-' ? word.substr(1) : word;
    if (find_probe(name) == nullptr || name == kProbePlugin) return unknown("agent.probes", name);
    if (word.front() == '-') {
      std::erase(names, name);
    } else if (std::find(names.begin(), names.end(), name) == names.end()) {
      names.push_back(name);
    }
  }
  return names;
}

constexpr std::int32_t kPermilleOfPercent = 10;

Result<LendSettings> lending(const Config& config) {
  LendSettings lend;
  lend.on = config.flag("agent", "oversubscribe");
  lend.every = config.duration("agent", "oversubscribe_every");
  lend.slack.window = config.duration("agent", "oversubscribe_window");
  lend.slack.settle = config.duration("agent", "oversubscribe_settle");
  lend.slack.keep_permille = static_cast<std::int32_t>(config.integer("agent", "oversubscribe_keep")) * kPermilleOfPercent;
  lend.pressure.evict = static_cast<std::int32_t>(config.integer("agent", "pressure_evict")) * kPermilleOfPercent;
  lend.pressure.stop = static_cast<std::int32_t>(config.integer("agent", "pressure_stop")) * kPermilleOfPercent;
  lend.pressure.notice = config.duration("agent", "pressure_notice");
  if (lend.pressure.stop > lend.pressure.evict)
    return Error(Code::kInvalid, "agent.pressure_stop: " + std::to_string(config.integer("agent", "pressure_stop")) +
                                     " is more than agent.pressure_evict, " +
                                     std::to_string(config.integer("agent", "pressure_evict")) +
                                     ": evicting would end before it begins");
  return lend;
}

}  // namespace

Result<ProbingPlan> plan_probes(const Config& config, const std::string& config_path) {
  ProbingPlan plan;
  plan.settings.labels = config.table("agent", "labels");
  plan.settings.reprobe = config.duration("agent", "reprobe");
  plan.settings.default_grace = config.duration("agent", "kill_grace");
  plan.settings.lend = BOURSE_TRY(lending(config));
  plan.settings.warm = {config.flag("agent", "prewarm"), config.size("agent", "prewarm_memory")};
  std::vector<std::string> names = BOURSE_TRY(chosen(config));
  std::map<std::string, Duration> limits;
  for (const auto& [name, text] : config.table("agent", "probe_limits")) {
    if (find_probe(name) == nullptr) return unknown("agent.probe_limits", name);
    auto limit = parse_duration(text);
    if (!limit || *limit <= Duration(0) || *limit > kLimitMost)
      return Error(Code::kInvalid,
                   "agent.probe_limits: " + name + " is `" + text + "', expected a duration up to " + format_duration(kLimitMost));
    limits[name] = *limit;
  }

  ProbeInput common;
  common.root = config.text("agent", "probe_root");
  while (common.root.size() > 1 && common.root.back() == '/') common.root.pop_back();
  if (common.root.empty() || common.root.front() != '/' || access(common.root.c_str(), R_OK | X_OK) != 0)
    return Error(Code::kInvalid, "agent.probe_root: `" + common.root + "' is not a directory that can be read, by its full path");

  std::map<std::string, std::map<std::string, std::string>> extra;  // by probe
  for (const auto& [key, value] : config.table("agent", "probe_options")) {
    const std::size_t dot = key.find('.');
    const std::string name = key.substr(0, dot);
    if (dot == std::string::npos || dot + 1 == key.size())
      return Error(Code::kInvalid, "agent.probe_options: `" + key + "' is not \"PROBE.OPTION\"");
    if (find_probe(name) == nullptr) return unknown("agent.probe_options", name);
    extra[name][key.substr(dot + 1)] = value;
  }

  const auto add = [&](const std::string& name, ProbeInput input) {
    const ProbeInfo* info = find_probe(name);
    const auto limit = limits.find(std::string(info->name));
    plan.settings.probes.emplace_back(name, limit == limits.end() ? info->limit : limit->second);
    if (const auto it = extra.find(std::string(info->name)); it != extra.end())
      for (const auto& [option, value] : it->second) input.options.emplace(option, value);
    plan.inputs[name] = std::move(input);
  };
  // The topology first; then what the site says, whose words win over what is read off the devices.
  const auto rank = [](const std::string& name) { return name == kProbeHwloc ? 0 : name == kProbeDeclared ? 1 : 2; };
  std::stable_sort(names.begin(), names.end(), [&](const std::string& a, const std::string& b) { return rank(a) < rank(b); });
  for (const std::string& name : names) {
    ProbeInput input = common;
    if (name == kProbeHwloc) {
      input.options["topology"] = config.text("agent", "topology");
      input.options["reserve_cpus"] = std::to_string(config.integer("agent", "reserve_cpus"));
      input.options["reserve_mem"] = std::to_string(config.size("agent", "reserve_mem").value);
    }
    if (name == kProbeDeclared) {
      std::string declare = config.text("agent", "declare");
      if (declare.empty() && !config_path.empty() && access((directory_of(config_path) + "/devices.d").c_str(), F_OK) == 0)
        declare = directory_of(config_path) + "/devices.d";
      if (declare.empty()) continue;
      input.options["declare"] = declare;
    }
    add(name, std::move(input));
    if (name == kProbeHwloc && config.text("agent", "executor") != "mock")
      plan.settings.probes.emplace_back(kIsolation, kIsolationLimit);
  }
  for (const std::string& path : config.list("agent", "probe_plugins")) {
    std::string name = path.substr(path.rfind('/') == std::string::npos ? 0 : path.rfind('/') + 1);
    if (const std::size_t dot = name.rfind(".so"); dot != std::string::npos) name.resize(dot);
    name = std::string(kPluginPrefix) + name;
    if (path.front() != '/' || access(path.c_str(), R_OK) != 0)
      return Error(Code::kInvalid, "agent.probe_plugins: " + path + " is not a file that can be read, by its full path");
    if (plan.inputs.count(name) != 0)
      return Error(Code::kInvalid,
                   "agent.probe_plugins: two plugins have the file name " + name.substr(kPluginPrefix.size()) + ".so");
    ProbeInput input = common;
    input.options["path"] = path;
    input.options["copies"] = Places::find().run + "/plugins";
    add(name, std::move(input));
  }
  return plan;
}

}  // namespace bourse
