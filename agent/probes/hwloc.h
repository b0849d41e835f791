// The host's topology and amounts, as libhwloc sees them, made into an Inventory.
//
// Scheduling unit: a PU (hardware thread) counts 1000 milli-cpus, with SMT too. Memory is the smaller of what hwloc, the
// kernel (/proc/meminfo) and the limit of our own cgroup say; where they differ the inventory carries a note. Hot-plugged
// memory and containers are where they do. A topology from a file or a description is taken as it is.
//
// A root other than "/" is looked at where it has sys/devices/system/cpu; else the processors are this host's. Cores of a host with
// several kinds of them have the attribute `efficiency` (hwloc's: 0 is the slowest). It keeps no state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "agent/probes/probe.h"
#include "common/core/inventory.h"
#include "common/core/result.h"

namespace bourse {

struct HwlocOptions {
  std::string topology;           // empty: this host; "synthetic:DESCRIPTION" as lstopo takes it; else path of an hwloc XML file
  std::string root = "/";         // see above
  std::int64_t reserve_cpus = 0;  // PUs kept for the system: the first ones
  Bytes reserve_mem;              // taken off the lowest NUMA node first
  // What the kernel says of memory; tests set them. Not asked when the topology is not this host's.
  std::optional<Bytes> meminfo, cgroup_limit;
};

Result<Inventory> probe_hwloc(const HwlocOptions& options);
// The probe "hwloc": options "topology", "reserve_cpus", "reserve_mem" as in HwlocOptions.
Result<ProbeReport> run_hwloc(const ProbeInput& input);

// MemTotal of a /proc/meminfo text. kNotFound where there is none.
Result<Bytes> parse_meminfo(const std::string& text);
// The smallest memory limit on the way from our own cgroup to the root: `self` is the text of /proc/self/cgroup, `mount` where
// cgroups are ("/sys/fs/cgroup"). kNotFound: no limit.
Result<Bytes> cgroup_memory_limit(const std::string& self, const std::string& mount);

}  // namespace bourse
