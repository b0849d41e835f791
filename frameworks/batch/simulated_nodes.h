// A described cluster: "240x1", "20x80:mem=505GiB,48x12:mem=90GiB", "4:gpu=8". For simulations.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/core/inventory.h"
#include "common/core/labels.h"
#include "common/core/resources.h"
#include "common/core/result.h"

namespace bourse::batch {

constexpr std::uint64_t kSimulatedNodesMax = 100'000;
constexpr std::uint32_t kSimulatedGpusMax = 1024;  // on one node

struct SimulatedNodes {  // so many alike
  std::uint32_t count = 1, cores = 1;
  std::int64_t mem = 0;  // bytes; 0: memory is not looked at
  std::uint32_t gpus = 0;
  std::string gpu_model{};     // label gpu_model
  std::int64_t cpu_milli = 0;  // in place of cores, where they are not whole
  Labels labels{};
  std::string name{};  // "": n1, n2, ...
  bool operator==(const SimulatedNodes&) const = default;
};

// COUNT[xCORES][:mem=SIZE][:gpu=N][:model=NAME][:LABEL=VALUE], groups joined by commas. Without xCORES a node has one core, or, with
// `like`, what the first of those has.
Result<std::vector<SimulatedNodes>> parse_simulated_nodes(std::string_view text, const SimulatedNodes* like = nullptr);

// The total of one of them; GPUs are "gpu/sim" devices of 1000 permille "compute", named by node and place.
Resources total_of(const SimulatedNodes& group, const std::string& node);
// Names in order: n1, n2, ... over all groups, unless a group has a name.
std::vector<std::string> names_of(const std::vector<SimulatedNodes>& groups);
std::uint64_t processors_of(const std::vector<SimulatedNodes>& groups);  // whole cores
std::uint64_t gpus_of(const std::vector<SimulatedNodes>& groups);

}  // namespace bourse::batch
