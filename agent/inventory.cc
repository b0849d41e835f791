#include "agent/inventory.h"

#include <sys/resource.h>

#include <algorithm>
#include <set>

#include "common/core/vm_image.h"

namespace bourse {
namespace {

constexpr std::int64_t kMilliPerPu = 1000;

}  // namespace

void AgentInventory::set(Inventory inventory) {
  inventory_ = std::move(inventory);
  known_ = true;
  pus_.clear();
  std::uint32_t cores = 0;
  find_pus(inventory_.topology, 0, 0, cores);
  std::sort(pus_.begin(), pus_.end(), [](const Pu& a, const Pu& b) { return a.index < b.index; });
  for (const auto& [id, spec] : taken_) mark(spec, true);
  recount();
}

void AgentInventory::find_pus(const TopologyNode& node, std::uint32_t numa, std::uint32_t core, std::uint32_t& cores) {
  if (node.type == "numa") numa = node.index;
  if (node.type == "core") core = ++cores;
  if (node.type == "pu") {
    Pu pu{node.index, numa, core == 0 ? ++cores : core};
    if (const auto it = node.attributes.find("numa"); it != node.attributes.end())
      pu.node = static_cast<std::uint32_t>(std::strtoul(it->second.c_str(), nullptr, 10));
    pu.reserved = node.attributes.count("reserved") != 0;
    pus_.push_back(pu);
  }
  for (const TopologyNode& child : node.children) find_pus(child, numa, core, cores);
}

void AgentInventory::recount() {
  free_ = without_traits(inventory_.total);
  short_ = false;
  misfits_.clear();
  absent_.clear();
  const auto misfit = [this](const SliceId& id, std::string why) {
    std::string& text = misfits_[id];
    text += (text.empty() ? "" : "; ") + std::move(why);
  };
  for (const auto& [id, spec] : taken_) {
    if (spec.revocable) continue;
    Resources amount = spec.resources;
    const std::vector<DeviceShare> devices = std::move(amount.devices);
    amount.devices.clear();
    if (!free_.subtract(amount)) {
      short_ = true;
      misfit(id, "this host has less than the slices on it: " + to_text(inventory_.total));
    }
    for (const DeviceShare& share : devices) {
      Resources one;
      one.devices = {share};
      if (auto there = check_device(share); !there) {
        misfit(id, there.error().text());
        if (find_device(share.device) == nullptr) absent_.insert(id);
      } else if (!free_.subtract(one)) {
        misfit(id, "device " + share.device.str() + " has less than the slices on it");
      }
    }
    for (const std::uint32_t pu : spec.cpuset)
      if (std::none_of(pus_.begin(), pus_.end(), [pu](const Pu& p) { return p.index == pu && !p.reserved; })) {
        misfit(id, "cpu " + std::to_string(pu) + " is not there any more");
        break;
      }
  }
  if (short_) free_ = Resources{};
}

std::map<SliceId, std::string> AgentInventory::misfits(bool all_probed) const {
  std::map<SliceId, std::string> out = misfits_;
  if (!all_probed)
    for (const SliceId& id : absent_) out.erase(id);
  return out;
}

void AgentInventory::mark(const SliceSpec& spec, bool taken) {
  const std::set<std::uint32_t> set(spec.cpuset.begin(), spec.cpuset.end());
  if (set.empty()) return;
  for (Pu& pu : pus_)
    if (set.count(pu.index) != 0) pu.taken = taken;
}

Result<> AgentInventory::check_device(const DeviceShare& share) const {
  const auto it = std::find_if(inventory_.devices.begin(), inventory_.devices.end(),
                               [&](const Device& device) { return device.id == share.device; });
  if (it == inventory_.devices.end()) return Error(Code::kGone, "device " + share.device.str() + " is not on this host");
  if (it->generation != share.generation)
    return Error(Code::kGone, "device " + share.device.str() + " is of generation " + std::to_string(it->generation.value) +
                                  " now, asked for was " + std::to_string(share.generation.value));
  if (!it->healthy) return Error(Code::kGone, "device " + share.device.str() + " is not healthy");
  return {};
}

const Device* AgentInventory::find_device(const DeviceId& id) const {
  const auto it = std::find_if(inventory_.devices.begin(), inventory_.devices.end(), [&](const Device& d) { return d.id == id; });
  return it == inventory_.devices.end() ? nullptr : &*it;
}

std::int64_t AgentInventory::free_pus(std::int64_t node) const {
  return std::count_if(pus_.begin(), pus_.end(),
                       [&](const Pu& pu) { return !pu.taken && !pu.reserved && (node < 0 || pu.node == node); });
}

bool AgentInventory::pick(std::int64_t node, std::int64_t count, std::vector<std::uint32_t>& out) {
  if (free_pus(node) < count) return false;
  struct Core {
    std::int64_t size = 0;
    std::vector<Pu*> free;
  };
  std::map<std::uint32_t, Core> cores;
  for (Pu& pu : pus_) {
    if (node >= 0 && pu.node != node) continue;
    Core& core = cores[pu.core];
    ++core.size;
    if (!pu.taken && !pu.reserved) core.free.push_back(&pu);
  }
  while (count > 0) {
    Core* best = nullptr;
    auto rank = [&](const Core& core) {  // lower is better
      const auto free = static_cast<std::int64_t>(core.free.size());
      if (free == core.size && free <= count) return 0;
      return free < core.size ? 1 : 2;
    };
    for (auto& [number, core] : cores)
      if (!core.free.empty() && (best == nullptr || rank(core) < rank(*best))) best = &core;
    if (best == nullptr) break;  // cannot be: counted above
    while (count > 0 && !best->free.empty()) {
      Pu* pu = best->free.front();
      best->free.erase(best->free.begin());
      pu->taken = true;
      out.push_back(pu->index);
      --count;
    }
  }
  return true;
}

Result<SliceSpec> AgentInventory::carve(SliceSpec spec) {
  if (taken_.count(spec.id) != 0) return Error(Code::kExists, "slice " + to_text(spec.id) + " exists");
  if (!known_) return Error(Code::kBusy, "the host's inventory is not known yet");
  if (spec.revocable) {
    if (const Resources left = lent_left(); !left.contains(spec.resources))
      return Error(Code::kBusy, "asked for " + to_text(spec.resources) + " of what is lent, there is " +
                                    (left.empty() ? "nothing" : to_text(left)) + " of it now");
    spec.cpuset.clear();  // it runs where its lenders' cores are idle
    taken_.emplace(spec.id, spec);
    return spec;
  }
  if (short_) return Error(Code::kBusy, "the host's inventory shrank below what its slices have");
  for (const DeviceShare& share : spec.resources.devices) BOURSE_TRY(check_device(share));
  if (auto taken = free_.subtract(spec.resources); !taken)
    return Error(Code::kBusy, "asked for " + to_text(spec.resources) + ", free is " + to_text(free_));

  spec.cpuset.clear();
  const Resources& r = spec.resources;
  bool whole = r.cpus.value > 0 && r.cpus.value % kMilliPerPu == 0;
  for (const NumaAmount& n : r.numa) whole = whole && n.cpus.value % kMilliPerPu == 0;
  if (whole) {
    std::vector<std::uint32_t> pus;
    bool enough = true;
    if (r.numa.empty()) {
      // The node with the fewest free PUs that are enough; else from all of them.
      const std::int64_t count = r.cpus.value / kMilliPerPu;
      std::int64_t best = -1, best_free = 0;
      std::set<std::uint32_t> nodes;
      for (const Pu& pu : pus_) nodes.insert(pu.node);
      for (const std::uint32_t node : nodes) {
        const std::int64_t free = free_pus(node);
        if (free >= count && (best < 0 || free < best_free)) best = node, best_free = free;
      }
      enough = pick(best, count, pus);
    } else {
      for (const NumaAmount& n : r.numa) enough = enough && pick(n.node, n.cpus.value / kMilliPerPu, pus);
    }
    if (enough) {
      std::sort(pus.begin(), pus.end());
      spec.cpuset = std::move(pus);
    } else {
      for (Pu& pu : pus_)
        if (std::find(pus.begin(), pus.end(), pu.index) != pus.end()) pu.taken = false;
    }
  }
  taken_.emplace(spec.id, spec);
  return spec;
}

Resources AgentInventory::lent_left() const {
  Resources left = inventory_.revocable;
  for (const auto& [id, spec] : taken_)
    if (spec.revocable && !left.subtract(spec.resources)) return {};
  return left;
}

void AgentInventory::restore(const SliceSpec& spec) {
  taken_[spec.id] = spec;
  if (!known_) return;
  mark(spec, true);
  recount();
}

void AgentInventory::give_back(const SliceId& slice) {
  const auto it = taken_.find(slice);
  if (it == taken_.end()) return;
  const SliceSpec spec = std::move(it->second);
  taken_.erase(it);
  mark(spec, false);
  if (!known_ || spec.revocable) return;
  const bool exact = !short_ && misfits_.empty();
  if (!exact || !free_.add(spec.resources)) recount();
}

std::vector<std::string> AgentInventory::device_nodes(const SliceSpec& spec) const {
  std::set<std::string> nodes;
  for (const DeviceShare& share : spec.resources.devices)
    if (const Device* device = find_device(share.device)) nodes.insert(device->nodes.begin(), device->nodes.end());
  return {nodes.begin(), nodes.end()};
}

std::uint64_t AgentInventory::memory_lock(const SliceSpec& spec) const {
  constexpr const char* kAttribute = "memlock";
  constexpr std::uint64_t kUnlimited = RLIM_INFINITY;
  std::uint64_t sum = 0;
  for (const DeviceShare& share : spec.resources.devices) {
    const Device* device = find_device(share.device);
    if (device == nullptr) continue;
    const auto asked = device->attributes.find(kAttribute);
    if (asked == device->attributes.end()) continue;
    if (asked->second == "unlimited") return kUnlimited;
    if (const auto size = parse_size(asked->second)) sum += static_cast<std::uint64_t>(size->value);
  }
  return sum;
}

std::string AgentInventory::hypervisor(const SliceSpec& spec) const {
  for (const DeviceShare& share : spec.resources.devices) {
    const Device* device = find_device(share.device);
    if (device == nullptr || !device->kind.starts_with(kHypervisorKind)) continue;
    if (const auto uri = device->attributes.find(kVmUriAttribute); uri != device->attributes.end()) return uri->second;
  }
  return {};
}

std::vector<std::pair<std::string, std::string>> AgentInventory::device_environment(const SliceSpec& spec) const {
  constexpr std::string_view kPrefix = "env.";
  std::map<std::string, std::string> values;
  for (const Device& device : inventory_.devices)
    for (const auto& [name, value] : device.attributes)
      if (name.compare(0, kPrefix.size(), kPrefix) == 0) values[name.substr(kPrefix.size())];
  std::string ids, shares;
  for (const DeviceShare& share : spec.resources.devices) {
    ids += (ids.empty() ? "" : ",") + share.device.str();
    std::string amounts = share.whole ? "whole" : share.profile.empty() ? "" : "profile=" + share.profile;
    if (!share.whole)
      for (const auto& [counter, amount] : share.counters.items())
        amounts += (amounts.empty() ? "" : ",") + counter + "=" + std::to_string(amount);
    shares += (shares.empty() ? "" : ";") + share.device.str() + ":" + amounts;
    const Device* device = find_device(share.device);
    if (device == nullptr) continue;
    for (const auto& [name, value] : device->attributes) {
      if (name.compare(0, kPrefix.size(), kPrefix) != 0) continue;
      std::string& text = values[name.substr(kPrefix.size())];
      text += (text.empty() ? "" : ",") + value;
    }
  }
  values["BOURSE_DEVICES"] = ids;
  values["BOURSE_DEVICE_SHARES"] = shares;
  return {values.begin(), values.end()};
}

}  // namespace bourse
