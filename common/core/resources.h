// The resource algebra: what can be added, subtracted and compared, in integers, exactly.
//
// Resources is an amount (of an agent's total, of an offer, of a slice). Shape is what a framework asks for per slice.
// Both know devices: a Device (inventory.h) has named counters and a mode; a DeviceShare is the part of one device that an
// amount contains. Addition and subtraction are inverse, never go below zero, and refuse overflow; a failed operation
// leaves its operand as it was.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/core/ids.h"
#include "common/core/labels.h"
#include "common/core/placement.h"
#include "common/core/units.h"

namespace bourse {

// A sorted flat map of counter name to amount > 0. Names are the site's: "mem" (MiB on a device), "compute" (permille),
// "npu.compute", "vf", or a kind nobody has heard of.
class Counters {
 public:
  [[nodiscard]] std::int64_t get(std::string_view name) const;  // 0 where absent
  void set(std::string_view name, std::int64_t amount);         // 0 removes
  Result<> add(const Counters& other);
  Result<> subtract(const Counters& other);
  [[nodiscard]] bool contains(const Counters& other) const;
  [[nodiscard]] bool empty() const { return items_.empty(); }
  [[nodiscard]] const std::vector<std::pair<std::string, std::int64_t>>& items() const { return items_; }
  bool operator==(const Counters&) const = default;

 private:
  std::vector<std::pair<std::string, std::int64_t>> items_;
};

// A set of port numbers kept as sorted, disjoint, non-adjacent closed ranges.
class Ports {
 public:
  [[nodiscard]] static Result<Ports> parse(std::string_view text);  // "31000-32000,8080"
  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::uint32_t size() const;
  [[nodiscard]] bool empty() const { return ranges_.empty(); }
  [[nodiscard]] bool contains(const Ports& other) const;
  Result<> add(const Ports& other);                     // refuses a port that is there already
  Result<> subtract(const Ports& other);                // refuses a port that is not there
  [[nodiscard]] Ports take(std::uint32_t count) const;  // the `count` lowest; fewer where there are fewer
  [[nodiscard]] const std::vector<std::pair<std::uint16_t, std::uint16_t>>& ranges() const { return ranges_; }
  bool operator==(const Ports&) const = default;

 private:
  std::vector<std::pair<std::uint16_t, std::uint16_t>> ranges_;
};

// How a device is shared: whole only; by amounts of its counters; by its fixed profiles only; by turns, counted like amounts.
enum class DeviceMode : std::uint8_t { kExclusive, kCounters, kTemplate, kTimeSliced };

// What a device is, beside an amount of it. It travels with an agent's total, from where fits() and carve() know it; it is no part of
// an amount, is not added or subtracted, and is left out elsewhere.
struct DeviceTraits {
  DeviceMode sharing = DeviceMode::kCounters;
  std::map<std::string, Counters> profiles;       // kTemplate: what each consumes
  std::map<std::string, std::string> attributes;  // what can be asked for beside kind and uuid: "type" = "a100"
  bool operator==(const DeviceTraits&) const = default;
};

// A part of one device. Whole: nobody else may have any of it. Otherwise the counters it consumes (a template's profile
// rounds up; `profile` names it).
//
// In accounts `whole` is a token that exists once per device, beside its counters: taking a part leaves the token with what is
// left, so that adding the part again gives the same amount; only who gets the token and every counter has the whole device.
// `profile` is a description of a grant, not an amount: a sum of different profiles has none.
struct DeviceShare {
  DeviceId device;
  std::string kind;       // "gpu/nvidia", "npu/ascend", "nic/rdma", "fpga", ...
  Generation generation;  // of the device; the agent refuses a share of another generation
  bool whole = false;
  std::string profile;
  Counters counters;
  DeviceTraits traits = {};
  bool operator==(const DeviceShare&) const = default;
};

// CPU and memory of one NUMA node.
struct NumaAmount {
  std::uint32_t node = 0;
  MilliCpus cpus;
  Bytes mem;
  bool operator==(const NumaAmount&) const = default;
};

// An amount. `cpus` and `mem` are the totals; `numa`, where not empty, splits them by node (sorted by node, sums equal to
// the totals; nodes with nothing are left out). Devices are sorted by id, at most one share of a device in one amount.
// An amount that is split by node and one that is not cannot be added or subtracted (kInvalid), unless one has no cpus and mem.
struct Resources {
  MilliCpus cpus;
  Bytes mem;
  Bytes disk;
  Ports ports;
  Counters others;  // site-declared scalar kinds, by kind name
  std::vector<NumaAmount> numa;
  std::vector<DeviceShare> devices;

  Result<> add(const Resources& other);
  Result<> subtract(const Resources& other);
  [[nodiscard]] bool contains(const Resources& other) const;
  [[nodiscard]] bool empty() const;
  // What every Resources must be: not negative, parts sorted and unique, NUMA sums equal to the totals (kInvalid).
  [[nodiscard]] Result<> check() const;
  bool operator==(const Resources&) const = default;
};

// "cpus=2;mem=4GiB;ports=31000-31009;numa=0:cpus=2,mem=4GiB;dev=GPU-1{kind=gpu/nvidia,gen=3,mem=1024}". Stable: equal
// amounts have equal text, and parse_resources reads it back.
std::string to_text(const Resources& resources);
Resources without_traits(Resources resources);
Result<Resources> parse_resources(std::string_view text);

// What is asked of a kind of device.
struct DeviceAsk {
  std::string kind;         // exact, or a prefix ending in '/': "gpu/" is any gpu
  std::uint32_t count = 1;  // devices
  bool whole = true;        // else `counters` or `profile` of each
  std::string profile;
  Counters counters;                   // least amounts on each
  std::vector<Constraint> attributes;  // over the device's attributes, kind, uuid and counters
  bool operator==(const DeviceAsk&) const = default;
};

// What one slice needs. `whole_host` takes everything on the agent (Slurm's --exclusive).
struct Shape {
  MilliCpus cpus;
  Bytes mem;
  Bytes disk;
  std::uint32_t ports = 0;
  bool whole_host = false;
  bool same_numa = false;  // cpus, mem and devices from one NUMA node
  Counters others;
  std::vector<DeviceAsk> devices;
  std::vector<Constraint> constraints;  // over the agent's labels and what it has in total
  bool revocable = false;  // out of what slices lend for a while (Inventory.revocable), and out of nothing else. See "Ledger"
  std::string group = {};  // of the framework's slices, the one that this slice joins; "": none. See placement.h
  std::vector<Placement> placement = {};
  bool operator==(const Shape&) const = default;
};

std::string to_text(const Shape& shape);

// Why a shape does not fit an amount; the first that applies in this order. Explain counts agents by these.
enum class Misfit : std::uint8_t { kNone, kLabels, kCpus, kMem, kDisk, kPorts, kOther, kDevices, kNuma, kBusyHost };
std::string_view misfit_text(Misfit misfit);  // "cpus", "mem", "labels", ...

// Devices: what `total` knows of a device decides (DeviceTraits). A device that is only had whole serves no ask for a part. One in mode
// template serves an ask for a part by the profile that is named, or by the smallest one that has what is asked; that profile is
// charged, and rounding_text() says what it is more.
//
// Would `shape` fit into `free` of an agent with `total` and `labels`? whole_host needs free == total. O(size of shape).
[[nodiscard]] Misfit fits(const Shape& shape, const Resources& free, const Resources& total, const Labels& labels);

// The agent's side of bourse-constraint(7): its labels, and what it has in total. fits() asks nothing else of constraints.
[[nodiscard]] bool satisfies(const Resources& total, const Labels& labels, const Constraint& constraint);

// How many times the shape fits into `free`, at most `limit`. 0 when fits() is not kNone.
[[nodiscard]] std::uint32_t count_fits(const Shape& shape, const Resources& free, const Resources& total, const Labels& labels,
                                       std::uint32_t limit);

// Carves one concrete amount for the shape out of `free` (which is not changed): NUMA nodes with the least free that fits,
// lowest ports, devices by id. Deterministic. kBusy where it does not fit.
Result<Resources> carve(const Shape& shape, const Resources& free, const Resources& total, const Labels& labels);

// What `granted` charges of devices beyond what `shape` asked for: "dev npu-0: vir06_1c_16g has npu.compute 6 for 4, mem 16384 for 5120".
// Empty where nothing was rounded.
std::string rounding_text(const Shape& shape, const Resources& granted);

}  // namespace bourse
