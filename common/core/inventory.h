// What a host has: its topology tree, devices, totals and labels. Made by probes on the agent, read by master and frameworks.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/core/ids.h"
#include "common/core/labels.h"
#include "common/core/resources.h"
#include "common/core/result.h"

namespace bourse {

// machine -> package -> NUMA node -> cache -> core -> PU, with bridges and PCI devices where the probe sees them.
struct TopologyNode {
  std::string type;         // "machine", "package", "numa", "l3", "l2", "core", "pu", "pci"
  std::uint32_t index = 0;  // the operating system's index (what cpuset files take); PCI: unused
  std::string name;         // model of a package, bus id of a PCI device
  std::int64_t amount = 0;  // bytes of memory or cache; 0 elsewhere
  std::map<std::string, std::string> attributes;
  std::vector<TopologyNode> children;
  bool operator==(const TopologyNode&) const = default;
};

struct Device {
  DeviceId id;
  std::string kind, vendor, model, pci;
  std::int32_t numa = -1;  // -1: not known
  Generation generation;
  using Mode = DeviceMode;
  Mode mode = Mode::kExclusive;
  bool healthy = true;
  Counters counters;                         // totals
  std::map<std::string, Counters> profiles;  // kTemplate: what each consumes
  std::map<std::string, std::string> attributes;
  std::vector<std::string> nodes;  // /dev paths that belong to it
  std::vector<DeviceId> links;     // NVLink, XGMI, HCCS, same switch
  bool operator==(const Device&) const = default;
};

struct Inventory {
  Version version;  // grows with each change
  TopologyNode topology;
  std::vector<Device> devices;  // sorted by id
  Resources total;              // what may be offered; numa filled, devices as whole shares with their traits
  Labels labels;
  std::vector<std::string> notes;  // disagreements between sources: "memory: hwloc 16GiB, kernel 24GiB; using 16GiB"
  Resources revocable;  // beside the total: what its slices have and do not use, lent slices included. Empty: nothing is lent
  bool operator==(const Inventory&) const = default;
};

struct InventoryUpdate;  // messages.h

// What changed between two inventories: total, labels and notes whole, the topology and devices only where they differ.
[[nodiscard]] InventoryUpdate difference(const Inventory& before, const Inventory& after);
// kGone where `to` is not what the update is based on; `to` is then as it was. difference() and apply() are inverse.
Result<> apply(const InventoryUpdate& update, Inventory& to);

}  // namespace bourse
