// What the configuration of an agent says about isolation, read once at start: see [agent] in bourse.conf(5).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "agent/isolators/isolator.h"
#include "agent/launcher/confine.h"
#include "common/core/result.h"
#include "common/core/task.h"
#include "common/world/config.h"

namespace bourse {

struct IsolationOptions {
  std::uint32_t pids_max = 0;           // of one slice; 0: no limit
  std::uint32_t mem_high_permille = 0;  // of a slice's memory; 0: none
  bool limit_devices = false;
  std::string root;                 // before the devices' nodes: agent.probe_root, of tests; empty: the host's own
  std::vector<DeviceRule> devices;  // that every task may open
  std::vector<IoLimit> io;
  launcher::Confine confine;  // of every task, before its own words
  Bytes image_max{};          // that a container's image may have when it is unpacked
  bool filter_root = false;   // system calls of root's tasks, although `confine` does not say so for all
};

Result<IsolationOptions> read_isolation(const Config& config);
// "/dev/sda:rbps=100MiB,wiops=500": the words of the kernel's io.max.
Result<IoLimit> parse_io_limit(std::string_view text);

// What a slice's cgroup is told. Exclusive PUs need no quota: the cpuset is the limit. kNotFound: a device's node is not there.
Result<SliceLimits> limits_of(const SliceSpec& spec, const std::vector<std::string>& device_nodes, const IsolationOptions& options);
// What a task is kept from. kInvalid: a word of it that means nothing here.
Result<launcher::Confine> confine_of(const TaskSpec& spec, const IsolationOptions& options);

}  // namespace bourse
