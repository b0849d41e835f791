// What the agent has and what of it is taken: amounts, and which processing units (PUs) belong to which slice.
//
// A PU (hardware thread) counts 1000 milli-cpus. A slice that asks for whole cpus gets PUs of its own, packed: from the NUMA nodes
// of its resources, whole cores first, then cores that are split already, then a new one. A slice that asks for a fraction
// shares, and its cpuset stays empty. Amounts decide whether a slice fits; PUs that cannot be had (they never run out before the
// amounts do, but for an inventory that shrank) make a slice share, with a quota. Owned by the agent actor.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "common/core/inventory.h"
#include "common/core/result.h"
#include "common/core/task.h"

namespace bourse {

class AgentInventory {
 public:
  // Replaces the inventory; slices stay. Where their cpus or memory no longer fit, nothing is free until enough has been given back;
  // a device or a PU that is gone keeps nobody else from what is there.
  void set(Inventory inventory);
  // Slices that have what the host has no longer, and what that is. Before all probes have had their say, those whose device nobody
  // has spoken of yet are left out.
  [[nodiscard]] std::map<SliceId, std::string> misfits(bool all_probed) const;
  [[nodiscard]] const Inventory& inventory() const { return inventory_; }
  [[nodiscard]] const Resources& free() const { return free_; }
  [[nodiscard]] bool known() const { return known_; }

  // Chooses the PUs and takes the amounts. kBusy: not free. kGone: a device's generation has changed.
  Result<SliceSpec> carve(SliceSpec spec);
  void restore(const SliceSpec& spec);  // from the checkpoint: as it was carved, whatever is free
  void give_back(const SliceId& slice);
  // What tasks of the slice may open of its devices, sorted. And the variables that tell them which they have: BOURSE_DEVICES,
  // BOURSE_DEVICE_SHARES, and NAME for each device attribute "env.NAME", values joined by commas. An empty value: the variable is
  // one by which this host names devices, and the slice has none of them.
  [[nodiscard]] std::vector<std::string> device_nodes(const SliceSpec& spec) const;
  // Memory that tasks of the slice may lock for its devices' sake (attribute "memlock": "unlimited", or a size; sums): RLIM_INFINITY,
  // bytes, or 0: none of them asks for any.
  [[nodiscard]] std::uint64_t memory_lock(const SliceSpec& spec) const;
  // libvirt's URI of the hypervisor among its devices; "": it has none.
  [[nodiscard]] std::string hypervisor(const SliceSpec& spec) const;
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> device_environment(const SliceSpec& spec) const;

 private:
  struct Pu {
    std::uint32_t index = 0, node = 0, core = 0;
    bool reserved = false, taken = false;
  };
  void find_pus(const TopologyNode& node, std::uint32_t numa, std::uint32_t core, std::uint32_t& cores);
  void recount();
  void mark(const SliceSpec& spec, bool taken);
  // Takes `count` PUs of `node` (any node: < 0); false and nothing taken when there are too few.
  bool pick(std::int64_t node, std::int64_t count, std::vector<std::uint32_t>& out);
  [[nodiscard]] std::int64_t free_pus(std::int64_t node) const;
  [[nodiscard]] const Device* find_device(const DeviceId& id) const;
  [[nodiscard]] Result<> check_device(const DeviceShare& share) const;

  Inventory inventory_;
  bool known_ = false, short_ = false;
  Resources free_;
  [[nodiscard]] Resources lent_left() const;  // of what the inventory lends, beside the slices that have of it
  std::map<SliceId, SliceSpec> taken_;
  std::map<SliceId, std::string> misfits_;
  std::set<SliceId> absent_;  // of those: for a device that no probe finds
  std::vector<Pu> pus_;
};

}  // namespace bourse
