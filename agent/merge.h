// Makes one Inventory of what several probes report of the same host.
//
// Rules. Amounts: where two probes disagree the smaller wins. Other facts (model, NUMA node, labels): the probe that comes first in
// `reports` wins, which is the order of the configuration. Health: one that says a device is not healthy is believed. Every
// disagreement becomes a note, which travels with the inventory. The same device: the same id; or, with different ids, the same PCI
// address and kind, where it is the only such device in both reports. The topology, and with it cpus and memory, is that of the
// first report that has one. Deterministic, and pure: both the agent and `bourse probe` use it.
#pragma once

#include <string>
#include <vector>

#include "agent/probes/probe.h"
#include "common/core/inventory.h"

namespace bourse {

struct NamedReport {
  std::string probe;
  const Inventory* inventory = nullptr;
  const FactSources* sources = nullptr;  // may be null: the probe's name is then the source
};

struct Merged {
  Inventory inventory;  // version 0; devices sorted, all generations 0; total with a whole share of each healthy device
  FactSources sources;  // "PROBE: WHERE" by fact
};

// `labels` are the site's, from the configuration: they win over what probes say.
Merged merge(const std::vector<NamedReport>& reports, const Labels& labels);

constexpr std::size_t kTraitsMax = 16;  // attributes of a device that travel with the host's total

// The share of a device in its host's total: all of it, with its traits.
DeviceShare whole_share(const Device& device);

}  // namespace bourse
