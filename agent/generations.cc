#include "agent/generations.h"

#include <set>
#include <string_view>

#include "common/core/fnv.h"

namespace bourse {
namespace {

// Of what makes two devices two kinds of thing, with the lengths, so that no two texts run into each other.
std::uint64_t nature_of(const Device& device) {
  std::uint64_t hash = kFnvBasis;
  const auto add = [&hash](std::string_view text) { hash = fnv1a(text, fnv1a(std::to_string(text.size()), hash)); };
  add(device.kind);
  add(std::to_string(static_cast<int>(device.mode)));
  for (const auto& [name, consumes] : device.profiles) {
    add(name);
    for (const auto& [counter, amount] : consumes.items()) add(counter), add(std::to_string(amount));
  }
  if (const auto it = device.attributes.find("bitstream"); it != device.attributes.end()) add(it->second);
  return hash;
}

}  // namespace

void DeviceGenerations::stamp(const Turn& turn, Inventory& inventory) {
  bool changed = false;
  std::map<DeviceId, Generation> now;
  for (Device& device : inventory.devices) {
    const std::uint64_t nature = nature_of(device);
    auto [it, added] = known_.try_emplace(device.id, DevicesRecord::Entry{Generation(1), nature});
    if (!added && it->second.nature != nature) {
      it->second.generation = it->second.generation.next();
      it->second.nature = nature;
      changed = true;
    }
    changed = changed || added;
    device.generation = now[device.id] = it->second.generation;
  }
  for (DeviceShare& share : inventory.total.devices)
    if (const auto it = now.find(share.device); it != now.end()) share.generation = it->second;
  for (auto it = known_.begin(); it != known_.end() && known_.size() > kKnownMax;)
    it = now.count(it->first) != 0 ? std::next(it) : known_.erase(it);
  if (changed) turn.record(DevicesRecord{known_});
}

void DeviceGenerations::snapshot(std::vector<CheckpointRecord>& out) const {
  if (!known_.empty()) out.emplace_back(DevicesRecord{known_});
}

}  // namespace bourse
