// Accelerators as the files of their drivers show them, without a library of a vendor: /sys, /proc and /dev below the probe's root.
//
// Each function reports what its driver shows and nothing where there is no such driver. A device that the bus shows but no driver
// serves, or whose node in /dev is missing, is reported as not healthy: it is known, named, and not offered. The environment that makes
// a task see its devices is in attributes named env.NAME; values of several devices are joined by commas (agent/inventory.h).
// tests/data/sysfs/README says which public description each reading is after.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/probes/probe.h"
#include "common/world/rooted.h"

namespace bourse {

Result<ProbeReport> run_nvidia(const ProbeInput& input);
// Option "library": instead of libnvidia-ml.so.1.
Result<ProbeReport> run_nvml(const ProbeInput& input);
Result<ProbeReport> run_amdgpu(const ProbeInput& input);
// Option "chip" where the bus cannot tell: "910B2", "910B3", "910B4", ...
Result<ProbeReport> run_ascend(const ProbeInput& input);
Result<ProbeReport> run_fpga(const ProbeInput& input);

// What the probes above share.
namespace accel {

struct PciDevice {
  std::string address;  // "0000:3b:00.0"
  std::uint32_t vendor = 0, device = 0, type = 0;
  std::int32_t numa = -1;
  std::string driver;  // "" where none is bound
};
// Of one vendor, sorted by address.
std::vector<PciDevice> pci_devices(const Rooted& files, std::uint32_t vendor);
std::int32_t numa_of(const Rooted& files, const std::string& address);  // -1: not known

Rooted files_of(const ProbeInput& input);
std::string hex(std::uint64_t value, int width);
// Adds those of `nodes` that are there; the first must be, else the device is not healthy.
void add_nodes(const Rooted& files, Device& device, const std::vector<std::string>& nodes);
void unhealthy(Device& device, const std::string& why);
void add(ProbeReport& report, Device device, const std::string& source);
// The part of a model's name by which jobs ask for it: "NVIDIA A100-SXM4-40GB" is "a100".
std::string short_type(const std::string& model);

}  // namespace accel
}  // namespace bourse
