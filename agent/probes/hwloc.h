// The host's topology and amounts, as libhwloc sees them, made into an Inventory.
//
// Scheduling unit: a PU (hardware thread) counts 1000 milli-cpus, with SMT too. Memory is the smaller of what hwloc, the
// kernel (/proc/meminfo) and the limit of our own cgroup say; where they differ the inventory carries a note. Hot-plugged
// memory and containers are where they do. A topology from a file or a description is taken as it is.
//
// The probe is local and takes milliseconds, and so it runs in the agent's own process at start, before the loop and on demand.
// It keeps no state. Slow or fragile probes (libvirt, OpenCL) will need a helper process; this one does not.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/core/inventory.h"
#include "common/core/result.h"

namespace bourse {

struct HwlocOptions {
  std::string topology;           // empty: this host; "synthetic:DESCRIPTION" as lstopo takes it; else path of an hwloc XML file
  std::string host;               // label `host`
  std::int64_t reserve_cpus = 0;  // PUs kept for the system: the first ones
  Bytes reserve_mem;              // taken off the lowest NUMA node first
  Labels labels;                  // the site's; host, arch and kernel are ours
  // What the kernel says of memory; tests set them. Not asked when the topology is not this host's.
  std::optional<Bytes> meminfo, cgroup_limit;
};

Result<Inventory> probe_hwloc(const HwlocOptions& options);

// MemTotal of a /proc/meminfo text. kNotFound where there is none.
Result<Bytes> parse_meminfo(const std::string& text);
// The smallest memory limit on the way from our own cgroup to the root: `self` is the text of /proc/self/cgroup, `mount` where
// cgroups are ("/sys/fs/cgroup"). kNotFound: no limit.
Result<Bytes> cgroup_memory_limit(const std::string& self, const std::string& mount);

}  // namespace bourse
