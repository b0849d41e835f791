#include "agent/merge.h"

#include <algorithm>
#include <map>
#include <set>

#include "common/core/hooks.h"

namespace bourse {
namespace {

struct Pair {  // of what is being said now, and by whom the fact was said before
  const NamedReport& now;
  Merged& all;
};

std::string source_of(const NamedReport& report, std::string fact) {
  if (report.sources != nullptr) {
    for (;;) {
      const auto it = report.sources->find(fact);
      if (it != report.sources->end()) return report.probe + ": " + it->second;
      if (fact.empty()) break;
      const std::size_t slash = fact.rfind('/');
      fact.resize(slash == std::string::npos ? 0 : slash);
    }
  }
  return report.probe;
}

// Who said a fact that is known: its own source, or that of the path above it.
std::string known_source(const Merged& all, std::string fact) {
  for (;;) {
    if (const auto it = all.sources.find(fact); it != all.sources.end()) return it->second;
    const std::size_t slash = fact.rfind('/');
    if (slash == std::string::npos) return "another probe";
    fact.resize(slash);
  }
}

void say(Pair& p, const std::string& fact) { p.all.sources[fact] = source_of(p.now, fact); }

void disagree(Pair& p, const std::string& fact, const std::string& before, const std::string& now, const std::string& used) {
  p.all.inventory.notes.push_back(fact + ": " + known_source(p.all, fact) + " says " + before + ", " + source_of(p.now, fact) +
                                  " says " + now + "; using " + used);
}

void merge_text(Pair& p, const std::string& fact, std::string& have, const std::string& now) {
  if (now.empty() || now == have) return;
  if (have.empty()) {
    have = now;
    return say(p, fact);
  }
  disagree(p, fact, have, now, have);
}

// True where `now` is the one to use.
bool merge_amount(Pair& p, const std::string& fact, std::int64_t have, std::int64_t now) {
  if (have == now || now == 0) return false;
  if (have == 0) {
    say(p, fact);
    return true;
  }
  const bool smaller = hooks::mutant("probes.merge_larger") ? now > have : now < have;
  disagree(p, fact, std::to_string(have), std::to_string(now), std::to_string(smaller ? now : have));
  if (smaller) say(p, fact);
  return smaller;
}

void merge_counters(Pair& p, const std::string& where, Counters& have, const Counters& now) {
  for (const auto& [name, amount] : now.items())
    if (merge_amount(p, where + "/" + name, have.get(name), amount)) have.set(name, amount);
}

void merge_device(Pair& p, Device& have, const Device& now) {
  const std::string where = "devices/" + have.id.str();
  merge_text(p, where + "/vendor", have.vendor, now.vendor);
  merge_text(p, where + "/model", have.model, now.model);
  merge_text(p, where + "/pci", have.pci, now.pci);
  if (now.numa >= 0 && now.numa != have.numa) {
    if (have.numa < 0) {
      have.numa = now.numa;
      say(p, where + "/numa");
    } else {
      disagree(p, where + "/numa", std::to_string(have.numa), std::to_string(now.numa), std::to_string(have.numa));
    }
  }
  if (!now.healthy && have.healthy) {
    have.healthy = false;
    say(p, where + "/health");
    p.all.inventory.notes.push_back(where + "/health: " + source_of(p.now, where + "/health") + " says it is not healthy" +
                                    (now.attributes.count("unhealthy") != 0 ? ": " + now.attributes.at("unhealthy") : ""));
  }
  merge_counters(p, where, have.counters, now.counters);
  if (have.mode == Device::Mode::kExclusive && now.mode != have.mode) {
    have.mode = now.mode;  // the site's declaration, or a library that knows how the device is set up
    say(p, where + "/mode");
  }
  for (const auto& [profile, consumes] : now.profiles) {
    const auto [it, added] = have.profiles.emplace(profile, consumes);
    if (added) {
      say(p, where + "/profiles/" + profile);
    } else {
      merge_counters(p, where + "/profiles/" + profile, it->second, consumes);
    }
  }
  for (const auto& [name, value] : now.attributes) {
    if (name == "unhealthy") {
      have.attributes.emplace(name, value);
      continue;
    }
    merge_text(p, where + "/" + name, have.attributes[name], value);
  }
  for (const std::string& node : now.nodes)
    if (std::find(have.nodes.begin(), have.nodes.end(), node) == have.nodes.end()) have.nodes.push_back(node);
  for (const DeviceId& link : now.links)
    if (std::find(have.links.begin(), have.links.end(), link) == have.links.end()) have.links.push_back(link);
}

bool only_one(const std::vector<Device>& devices, const Device& of) {
  return std::count_if(devices.begin(), devices.end(), [&](const Device& d) { return d.pci == of.pci && d.kind == of.kind; }) == 1;
}

// Which of `have` is the same device as `now`?
Device* same_device(std::vector<Device>& have, const Device& now, const std::vector<Device>& beside) {
  for (Device& device : have)
    if (device.id == now.id) return &device;
  if (now.pci.empty() || !only_one(beside, now)) return nullptr;
  Device* found = nullptr;
  for (Device& device : have) {
    if (device.pci != now.pci || device.kind != now.kind) continue;
    if (found != nullptr) return nullptr;
    found = &device;
  }
  return found;
}

void add_device(Pair& p, std::vector<Device>& devices, const Device& device) {
  devices.push_back(device);
  devices.back().generation = Generation();
  const std::string where = "devices/" + device.id.str();
  say(p, where);
  if (p.now.sources == nullptr) return;
  const auto begin = p.now.sources->lower_bound(where + "/");
  for (auto it = begin; it != p.now.sources->end() && it->first.compare(0, where.size() + 1, where + "/") == 0; ++it)
    say(p, it->first);
}

// PCI devices of the topology know their node; devices of other probes at the same address learn it from there.
void near_nodes(const TopologyNode& node, std::int32_t numa, std::map<std::string, std::int32_t>& out) {
  if (node.type == "numa") numa = static_cast<std::int32_t>(node.index);
  if (node.type == "pci" && numa >= 0) out.emplace(node.name, numa);
  for (const TopologyNode& child : node.children) near_nodes(child, numa, out);
}

void merge_amounts(Pair& p, Resources& total, const Resources& now) {
  if (merge_amount(p, "total/disk", total.disk.value, now.disk.value)) total.disk = now.disk;
  merge_counters(p, "total", total.others, now.others);
  if (total.ports.empty() && !now.ports.empty()) {
    total.ports = now.ports;
    say(p, "total/ports");
  }
}

}  // namespace

DeviceShare whole_share(const Device& device) {
  DeviceShare share;
  share.device = device.id;
  share.kind = device.kind;
  share.generation = device.generation;
  share.whole = true;
  share.counters = device.counters;
  share.traits.sharing = device.mode;
  share.traits.profiles = device.profiles;
  // What can be asked for: words. Sentences, and what is only for the device's tasks, stay here.
  for (const auto& [name, value] : device.attributes)
    if (valid_name(name) && valid_name(value) && name.compare(0, 4, "env.") != 0 && share.traits.attributes.size() < kTraitsMax)
      share.traits.attributes[name] = value;
  return share;
}

Merged merge(const std::vector<NamedReport>& reports, const Labels& labels) {
  Merged all;
  Inventory& out = all.inventory;
  const NamedReport* shape = nullptr;  // whose topology it is
  for (const NamedReport& report : reports) {
    if (report.inventory->topology.type.empty()) continue;
    shape = &report;
    break;
  }
  if (shape != nullptr) {
    Pair p{*shape, all};
    out.topology = shape->inventory->topology;
    out.total = shape->inventory->total;
    out.total.devices.clear();
    for (const char* fact : {"topology", "total/cpus", "total/mem"}) say(p, fact);
  }
  for (const auto& [key, value] : labels) {
    out.labels[key] = value;
    all.sources["labels/" + key] = "configuration: agent.labels";
  }
  for (const NamedReport& report : reports) {
    Pair p{report, all};
    const Inventory& now = *report.inventory;
    if (shape == nullptr && out.total.empty()) {
      out.total = now.total;  // amounts without a topology: better than none
      out.total.devices.clear();
    } else if (&report != shape) {
      merge_amounts(p, out.total, now.total);
    }
    for (const Device& device : now.devices) {
      Device* have = same_device(out.devices, device, now.devices);
      if (have == nullptr) {
        add_device(p, out.devices, device);
      } else {
        merge_device(p, *have, device);
      }
    }
    for (const auto& [key, value] : now.labels) {
      const bool ours = labels.count(key) != 0;
      if (ours && labels.at(key) == value) continue;
      merge_text(p, "labels/" + key, out.labels[key], value);
    }
    out.notes.insert(out.notes.end(), now.notes.begin(), now.notes.end());
  }
  std::map<std::string, std::int32_t> near;
  near_nodes(out.topology, -1, near);
  std::sort(out.devices.begin(), out.devices.end(), [](const Device& a, const Device& b) { return a.id < b.id; });
  std::set<std::int32_t> nodes;
  for (const NumaAmount& node : out.total.numa) nodes.insert(static_cast<std::int32_t>(node.node));
  for (Device& device : out.devices) {
    if (const auto it = near.find(device.pci); device.numa < 0 && it != near.end()) {
      device.numa = it->second;
      all.sources["devices/" + device.id.str() + "/numa"] = "hwloc: PCI locality";
    }
    if (device.numa >= 0 && !nodes.empty() && nodes.count(device.numa) == 0) {
      out.notes.push_back("devices/" + device.id.str() + "/numa: node " + std::to_string(device.numa) +
                          " is not one of this host; using none");
      device.numa = -1;
    }
    if (device.healthy) out.total.devices.push_back(whole_share(device));
  }
  // A report may have shares of devices that it does not describe (a simulated host).
  for (const NamedReport& report : reports)
    for (const DeviceShare& share : report.inventory->total.devices) {
      const auto described = [&](const Device& device) { return device.id == share.device; };
      const auto counted = [&](const DeviceShare& other) { return other.device == share.device; };
      if (std::none_of(out.devices.begin(), out.devices.end(), described) &&
          std::none_of(out.total.devices.begin(), out.total.devices.end(), counted))
        out.total.devices.push_back(share);
    }
  std::sort(out.total.devices.begin(), out.total.devices.end(),
            [](const DeviceShare& a, const DeviceShare& b) { return a.device < b.device; });
  return all;
}

}  // namespace bourse
