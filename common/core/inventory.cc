#include "common/core/inventory.h"

#include <algorithm>

#include "common/core/messages.h"

namespace bourse {

namespace {

bool by_id(const Device& a, const Device& b) { return a.id < b.id; }
auto find(const std::vector<Device>& devices, const DeviceId& id) {
  return std::lower_bound(devices.begin(), devices.end(), id, [](const Device& d, const DeviceId& i) { return d.id < i; });
}

}  // namespace

InventoryUpdate difference(const Inventory& before, const Inventory& after) {
  InventoryUpdate update;
  update.base = before.version;
  update.inventory.version = after.version;
  update.inventory.total = after.total;
  update.inventory.labels = after.labels;
  update.inventory.notes = after.notes;
  update.inventory.revocable = after.revocable;
  if (after.topology != before.topology) update.inventory.topology = after.topology;
  for (const Device& device : after.devices) {
    const auto old = find(before.devices, device.id);
    if (old == before.devices.end() || *old != device) update.inventory.devices.push_back(device);
  }
  for (const Device& device : before.devices) {
    const auto now = find(after.devices, device.id);
    if (now == after.devices.end() || now->id != device.id) update.removed.push_back(device.id);
  }
  return update;
}

Result<> apply(const InventoryUpdate& update, Inventory& to) {
  if (update.base == Version()) {
    to = update.inventory;
    return {};
  }
  if (update.base != to.version)
    return Error(Code::kGone, "the inventory's version " + std::to_string(update.base.value) + " is not known here, but " +
                                  std::to_string(to.version.value));
  to.version = update.inventory.version;
  to.total = update.inventory.total;
  to.labels = update.inventory.labels;
  to.notes = update.inventory.notes;
  to.revocable = update.inventory.revocable;
  if (!update.inventory.topology.type.empty()) to.topology = update.inventory.topology;
  for (const DeviceId& id : update.removed) std::erase_if(to.devices, [&](const Device& device) { return device.id == id; });
  for (const Device& device : update.inventory.devices) {
    const auto at = std::lower_bound(to.devices.begin(), to.devices.end(), device, by_id);
    if (at != to.devices.end() && at->id == device.id) {
      *at = device;
    } else {
      to.devices.insert(at, device);
    }
  }
  return {};
}

}  // namespace bourse
