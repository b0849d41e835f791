// A device's generation: 1, and one more each time that its nature changes (kind, mode, profiles, what programmed it). A grant names the
// generation it was made for, and the agent refuses one of another. Remembered in the checkpoint, so that a slice of before a
// restart still names the right one. Amounts are not part of the nature: a share that still fits stays good.
#pragma once

#include <cstdint>
#include <map>

#include "agent/checkpoint.h"
#include "agent/turn.h"
#include "common/core/inventory.h"

namespace bourse {

class DeviceGenerations {
 public:
  // Sets the generations of devices and of their shares in `total`; records what is new.
  void stamp(const Turn& turn, Inventory& inventory);
  void restore(const DevicesRecord& record) { known_ = record.devices; }
  void snapshot(std::vector<CheckpointRecord>& out) const;

 private:
  static constexpr std::size_t kKnownMax = 4096;  // devices that were here once; the oldest by name go first beyond that
  std::map<DeviceId, DevicesRecord::Entry> known_;
};

}  // namespace bourse
