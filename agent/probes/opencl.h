// The probe "opencl": every platform and device that an installed OpenCL driver shows.
//
// libOpenCL.so.1 (ocl-icd or another loader) is opened at run time, so neither agent nor helper needs it. Each vendor's driver, one
// .icd file each, is loaded in a process of its own: see apart.h. A device is reported with the kind that the sysfs probes use, so
// that where it has a PCI address both reports become one: gpu/nvidia, gpu/amd, gpu/intel, gpu/NAME, fpga, accelerator/NAME; and
// opencl/cpu, opencl/custom for what OpenCL alone shows. A CPU device is the host's own cores again and has no memory of its own.
//
// Options: "vendors", a directory of .icd files instead of /etc/OpenCL/vendors; "vendor_limit", time for one of them.
#pragma once

#include <cstdint>
#include <string>

#include "agent/probes/probe.h"

namespace bourse {

constexpr const char* kProbeOpencl = "opencl";

Result<ProbeReport> run_opencl(const ProbeInput& input);

// What OpenCL says of one device; opencl_query.cc asks, describe() makes it ours.
struct OpenclDevice {
  std::string platform, platform_vendor, platform_version;
  std::uint32_t index = 0;  // within its platform
  std::string name, vendor, version, driver, extensions;
  std::uint64_t type = 0;  // CL_DEVICE_TYPE_*
  std::uint32_t vendor_id = 0, units = 0, clock_mhz = 0, sub_devices = 0;
  std::uint64_t memory = 0, local_memory = 0, work_group = 0;
  std::string partitions, affinities;  // "equally counts affinity", "numa l3 next"
  bool available = true, compiler = true, unified = false;
  std::string uuid;  // hex; empty where the driver does not say
  std::string pci;   // "0000:3b:00.0"
};
Device describe(const OpenclDevice& device);
// Of this process's OpenCL loader, with the environment as it is. kUnsupported: there is no loader.
Result<std::vector<OpenclDevice>> query_opencl();

}  // namespace bourse
