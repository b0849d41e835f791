// The probe "rdma": InfiniBand, RoCE and iWARP adapters, from /sys/class/infiniband, refined by libibverbs where that can be loaded.
//
// A device of kind nic/rdma is handed to tasks as its verbs device file and the connection manager's, and is shared: its counter
// `bandwidth` is the sum of its active ports in Mbit/s, which nothing enforces. The attribute memlock=unlimited tells the agent to
// lift RLIMIT_MEMLOCK of the tasks that hold it, for their memory is pinned. A device is healthy while one of its ports is active.
// What the user space side says (does a provider know the device, firmware, limits) is asked in a process of its own: apart.h.
//
// Sources: Documentation/ABI/stable/sysfs-class-infiniband of the Linux kernel, ibv_get_device_list(3), ibv_query_device(3).
#pragma once

#include <optional>

#include "agent/probes/probe.h"

namespace bourse {

constexpr const char* kProbeRdma = "rdma";
constexpr const char* kRdmaKind = "nic/rdma";

Result<ProbeReport> run_rdma(const ProbeInput& input);

// "100 Gb/sec (4X EDR)" -> 100000. Nothing: not understood.
std::optional<std::int64_t> rdma_rate_mbit(std::string_view text);

}  // namespace bourse
