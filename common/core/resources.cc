#include "common/core/resources.h"

#include <algorithm>

namespace bourse {

namespace {

bool has_amount(const Resources& r) { return r.cpus.value != 0 || r.mem.value != 0; }

// Whether two amounts can be compared node by node at all.
Result<> same_split(const Resources& a, const Resources& b) {
  if (has_amount(a) && has_amount(b) && a.numa.empty() != b.numa.empty()) {
    return Error(Code::kInvalid, "one amount is split by NUMA node and the other is not");
  }
  return {};
}

// The common case of both directions, without copies: every node of `b` is in `a` and something stays in it. False: nothing
// was changed, the general way has to look.
bool combine_in_place(std::vector<NumaAmount>& a, const std::vector<NumaAmount>& b, bool plus) {
  const auto each = [&](auto&& visit) {
    auto x = a.begin();
    for (const NumaAmount& n : b) {
      while (x != a.end() && x->node < n.node) ++x;
      if (x == a.end() || x->node != n.node || !visit(*x, n)) return false;
    }
    return true;
  };
  const auto sum = [plus](std::int64_t& into, std::int64_t by) {
    return !(plus ? __builtin_add_overflow(into, by, &into) : __builtin_sub_overflow(into, by, &into)) && into >= 0;
  };
  const bool possible = each([&](const NumaAmount& x, const NumaAmount& n) {
    NumaAmount trial = x;
    return sum(trial.cpus.value, n.cpus.value) && sum(trial.mem.value, n.mem.value) &&
           (trial.cpus.value != 0 || trial.mem.value != 0);
  });
  if (!possible) return false;
  return each([&](NumaAmount& x, const NumaAmount& n) { return sum(x.cpus.value, n.cpus.value) && sum(x.mem.value, n.mem.value); });
}

// Everything but cpus, mem and disk is absent, or can be done without failing half-way.
bool scalars_only(const Resources& r) { return r.ports.empty() && r.others.empty() && r.devices.empty(); }

template <class Id>
Result<std::int64_t> combine(std::int64_t a, std::int64_t b, bool plus, const Id& what) {
  Result<std::int64_t> r = plus ? checked_add(a, b) : checked_subtract(a, b);
  if (!r) return std::move(r.error()).add(what);
  return r;
}

Result<std::vector<NumaAmount>> combine_numa(const std::vector<NumaAmount>& a, const std::vector<NumaAmount>& b, bool plus) {
  std::vector<NumaAmount> out;
  out.reserve(a.size() + b.size());
  auto x = a.begin();
  auto y = b.begin();
  while (x != a.end() || y != b.end()) {
    NumaAmount n;
    const bool left = x != a.end() && (y == b.end() || x->node <= y->node);
    const bool right = y != b.end() && (x == a.end() || y->node <= x->node);
    if (left) n = *x++;
    if (right) {
      n.node = y->node;
      n.cpus.value = BOURSE_TRY(combine(n.cpus.value, y->cpus.value, plus, "cpus of NUMA node " + std::to_string(n.node)));
      n.mem.value = BOURSE_TRY(combine(n.mem.value, y->mem.value, plus, "mem of NUMA node " + std::to_string(n.node)));
      ++y;
    }
    if (n.cpus.value != 0 || n.mem.value != 0) out.push_back(n);
  }
  return out;
}

Result<> same_device(const DeviceShare& a, const DeviceShare& b) {
  if (a.generation != b.generation) {
    return Error(Code::kInvalid, "device " + a.device.value + ": generation " + std::to_string(a.generation.value) + " and " +
                                     std::to_string(b.generation.value));
  }
  if (a.kind != b.kind) return Error(Code::kInvalid, "device " + a.device.value + ": kind " + a.kind + " and " + b.kind);
  return {};
}

Result<> add_share(DeviceShare& a, const DeviceShare& b) {
  BOURSE_TRY(same_device(a, b));
  if (a.whole && b.whole) return Error(Code::kLimit, "device " + a.device.value + " would be there twice");
  BOURSE_TRY(a.counters.add(b.counters));
  a.whole = a.whole || b.whole;
  if (a.profile != b.profile) a.profile.clear();
  return {};
}

bool share_contains(const DeviceShare& a, const DeviceShare& b) {
  return a.generation == b.generation && a.kind == b.kind && (a.whole || !b.whole) && a.counters.contains(b.counters) &&
         (a.profile.empty() || b.profile.empty() || a.profile == b.profile);
}

Result<> subtract_share(DeviceShare& a, const DeviceShare& b) {
  BOURSE_TRY(same_device(a, b));
  if (!share_contains(a, b)) return Error(Code::kLimit, "device " + a.device.value + ": less is there than is taken");
  BOURSE_TRY(a.counters.subtract(b.counters));
  a.whole = a.whole && !b.whole;
  return {};
}

auto find_share(std::vector<DeviceShare>& devices, const DeviceId& id) {
  return std::lower_bound(devices.begin(), devices.end(), id, [](const DeviceShare& d, const DeviceId& i) { return d.device < i; });
}

}  // namespace

Resources without_traits(Resources resources) {
  for (DeviceShare& share : resources.devices) share.traits = {};
  return resources;
}

Result<> Resources::add(const Resources& other) {
  BOURSE_TRY(same_split(*this, other));
  const std::int64_t new_cpus = BOURSE_TRY(combine(cpus.value, other.cpus.value, true, "cpus"));
  const std::int64_t new_mem = BOURSE_TRY(combine(mem.value, other.mem.value, true, "mem"));
  const std::int64_t new_disk = BOURSE_TRY(combine(disk.value, other.disk.value, true, "disk"));
  if (scalars_only(other) && combine_in_place(numa, other.numa, true)) {
    cpus.value = new_cpus;
    mem.value = new_mem;
    disk.value = new_disk;
    return {};
  }
  // Copies are made of what the other has, and moved in when nothing can fail any more.
  std::vector<NumaAmount> new_numa;
  if (!other.numa.empty()) new_numa = BOURSE_TRY(combine_numa(numa, other.numa, true));
  std::vector<DeviceShare> new_devices;
  if (!other.devices.empty()) {
    new_devices = devices;
    for (const DeviceShare& share : other.devices) {
      const auto at = find_share(new_devices, share.device);
      if (at != new_devices.end() && at->device == share.device) {
        BOURSE_TRY(add_share(*at, share));
      } else {
        new_devices.insert(at, share);
      }
    }
  }
  Counters new_others;
  if (!other.others.empty()) {
    new_others = others;
    BOURSE_TRY(new_others.add(other.others));
  }
  BOURSE_TRY(ports.add(other.ports));
  if (!other.others.empty()) others = std::move(new_others);
  if (!other.numa.empty()) numa = std::move(new_numa);
  if (!other.devices.empty()) devices = std::move(new_devices);
  cpus.value = new_cpus;
  mem.value = new_mem;
  disk.value = new_disk;
  return {};
}

Result<> Resources::subtract(const Resources& other) {
  BOURSE_TRY(same_split(*this, other));
  const std::int64_t new_cpus = BOURSE_TRY(combine(cpus.value, other.cpus.value, false, "cpus"));
  const std::int64_t new_mem = BOURSE_TRY(combine(mem.value, other.mem.value, false, "mem"));
  const std::int64_t new_disk = BOURSE_TRY(combine(disk.value, other.disk.value, false, "disk"));
  if (scalars_only(other) && combine_in_place(numa, other.numa, false)) {
    cpus.value = new_cpus;
    mem.value = new_mem;
    disk.value = new_disk;
    return {};
  }
  const bool take_numa = !other.numa.empty(), take_devices = !other.devices.empty(), take_others = !other.others.empty();
  std::vector<NumaAmount> new_numa;
  if (take_numa) new_numa = BOURSE_TRY(combine_numa(numa, other.numa, false));
  std::vector<DeviceShare> new_devices;
  if (take_devices) {
    new_devices = devices;
    for (const DeviceShare& share : other.devices) {
      const auto at = find_share(new_devices, share.device);
      if (at == new_devices.end() || at->device != share.device) {
        return Error(Code::kLimit, "device " + share.device.value + " is not there");
      }
      BOURSE_TRY(subtract_share(*at, share));
      if (!at->whole && at->counters.empty()) new_devices.erase(at);
    }
  }
  Counters new_others;
  if (take_others) {
    new_others = others;
    BOURSE_TRY(new_others.subtract(other.others));
  }
  BOURSE_TRY(ports.subtract(other.ports));
  if (take_others) others = std::move(new_others);
  if (take_numa) numa = std::move(new_numa);
  if (take_devices) devices = std::move(new_devices);
  cpus.value = new_cpus;
  mem.value = new_mem;
  disk.value = new_disk;
  return {};
}

bool Resources::contains(const Resources& other) const {
  if (cpus < other.cpus || mem < other.mem || disk < other.disk) return false;
  if (!same_split(*this, other)) return false;
  auto node = numa.begin();
  for (const NumaAmount& n : other.numa) {
    while (node != numa.end() && node->node < n.node) ++node;
    const bool there = node != numa.end() && node->node == n.node;
    if (there ? node->cpus < n.cpus || node->mem < n.mem : n.cpus.value > 0 || n.mem.value > 0) return false;
  }
  auto device = devices.begin();
  for (const DeviceShare& share : other.devices) {
    while (device != devices.end() && device->device < share.device) ++device;
    if (device == devices.end() || device->device != share.device || !share_contains(*device, share)) return false;
  }
  return ports.contains(other.ports) && others.contains(other.others);
}

bool Resources::empty() const {
  return !has_amount(*this) && disk.value == 0 && ports.empty() && others.empty() && devices.empty();
}

Result<> Resources::check() const {
  if (cpus.value < 0 || mem.value < 0 || disk.value < 0) return Error(Code::kInvalid, "an amount is below zero");
  NumaAmount sum;
  for (std::size_t i = 0; i < numa.size(); ++i) {
    const NumaAmount& n = numa[i];
    if (n.cpus.value < 0 || n.mem.value < 0) return Error(Code::kInvalid, "an amount of a NUMA node is below zero");
    if (i > 0 && numa[i - 1].node >= n.node) return Error(Code::kInvalid, "NUMA nodes are not in order");
    sum.cpus.value = BOURSE_TRY(checked_add(sum.cpus.value, n.cpus.value));
    sum.mem.value = BOURSE_TRY(checked_add(sum.mem.value, n.mem.value));
  }
  if (!numa.empty() && (sum.cpus != cpus || sum.mem != mem)) {
    return Error(Code::kInvalid, "NUMA nodes add up to cpus=" + format_cpus(sum.cpus) + ",mem=" + format_size(sum.mem) +
                                     ", the total says cpus=" + format_cpus(cpus) + ",mem=" + format_size(mem));
  }
  for (std::size_t i = 1; i < devices.size(); ++i) {
    if (devices[i - 1].device >= devices[i].device) return Error(Code::kInvalid, "devices are not in order");
  }
  return {};
}

}  // namespace bourse
