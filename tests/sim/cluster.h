// The cluster that the simulator's tests run: one master, a few agents, two toy frameworks, and the checkers.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/sim/checkers.h"
#include "common/sim/swarm.h"
#include "common/sim/world.h"
#include "master/master.h"
#include "toy.h"

namespace bourse::sim {

struct RunOptions {
  std::uint64_t seed = 1;
  std::uint32_t masters = 1;  // several: with a replicated registry
  Duration lease = seconds(8);
  std::uint32_t agents = 4, frameworks = 2;
  std::uint32_t singles = 20, gangs = 3;
  std::uint32_t ignore_permille = 50;
  bool swarm = true;
  std::vector<Fault> only;   // with swarm: these kinds
  std::optional<bool> wire;  // else the seed decides
  Duration faults_for{0};    // 0: the seed decides
  bool slow = false;         // a third of all messages take up to two seconds
  std::uint32_t duplicate_permille = 0, ghost_permille = 0;
  bool log = false;
};

struct RunResult {
  std::string failure;  // empty: every check held and the cluster came to rest
  std::size_t leaderships = 0;
  std::uint64_t hash = 0, events = 0, faults = 0, executions = 0;
  Duration virtual_time{0};
  std::string kinds;
};

Inventory host_inventory(const std::string& name, std::uint32_t cores, std::uint32_t nodes);
void add_agents(World& world, std::uint32_t count,
                std::uint32_t masters = 1);  // h1, h2, ...: two cores a NUMA node; every second has two nodes
TaskPlan plan_of(const TaskKey& key);
RunResult run(const RunOptions& options);

}  // namespace bourse::sim
