// Every probe's name, time limit and sentence. agent/probes/run_probe.cc has the functions; a test compares the two.
#include <unistd.h>

#include <algorithm>

#include "agent/probes/probe.h"

namespace bourse {

const std::vector<ProbeInfo>& probe_catalog() {
  static const std::vector<ProbeInfo> catalog = {
      {kProbeHwloc, seconds(10), "Packages, NUMA nodes, cores, threads, caches, memory of each node and PCI devices, by hwloc."},
      {"nvidia", seconds(5), "NVIDIA GPUs and their MIG instances, from the driver's files.", true,
       "/proc/driver/nvidia /sys/bus/pci/devices"},
      {"nvml", seconds(10), "The same GPUs as NVIDIA's own library sees them, where libnvidia-ml.so.1 can be loaded.", true,
       "?library /proc/driver/nvidia /dev/nvidiactl"},
      {"amdgpu", seconds(5), "AMD GPUs, from the KFD topology.", true, "/sys/class/kfd"},
      {"ascend", seconds(5), "Ascend NPUs, as AI cores (npu.compute) and AI CPUs (npu.control).", true,
       "/dev/davinci_manager /sys/bus/pci/devices"},
      {"fpga", seconds(5), "Regions of FPGA managers and ports of DFL cards.", true, "/sys/class/fpga_region"},
      {"opencl", seconds(30), "Platforms and devices of installed OpenCL drivers; one that crashes or hangs costs its own only.",
       true, "/etc/OpenCL/vendors ?vendors"},
      {"rdma", seconds(10), "InfiniBand, RoCE and iWARP adapters, with their ports, rates and addresses.", true,
       "/sys/class/infiniband"},
      {"libvirt", seconds(40), "Hypervisors: which guests run here, accelerated or emulated.", true,
       "?uris /run/libvirt/libvirt-sock /run/libvirt/virtqemud-sock"},
      {kProbeDeclared, seconds(5),
       "Devices and amounts that the site declares in agent.declare, or in devices.d beside bourse.conf."},
      {kProbePlugin, seconds(10), "What the plugins of agent.probe_plugins find; each is a probe of its own, plugin:NAME.", false},
  };
  return catalog;
}

const ProbeInfo* find_probe(std::string_view name) {
  if (name.substr(0, kPluginPrefix.size()) == kPluginPrefix) name = kProbePlugin;
  const auto& all = probe_catalog();
  const auto it = std::find_if(all.begin(), all.end(), [&](const ProbeInfo& info) { return info.name == name; });
  return it == all.end() ? nullptr : &*it;
}

bool worth_running(const ProbeInfo& info, const ProbeInput& input) {
  std::string_view left = info.needs;
  while (!left.empty()) {
    const std::string_view word = left.substr(0, left.find(' '));
    left.remove_prefix(std::min(left.size(), word.size() + 1));
    if (word.front() == '?' ? input.options.count(std::string(word.substr(1))) != 0 : access(input.path(word).c_str(), F_OK) == 0)
      return true;
  }
  return info.needs.empty();
}

std::string ProbeInput::option(const std::string& name) const {
  const auto it = options.find(name);
  return it == options.end() ? std::string() : it->second;
}

std::string ProbeInput::path(std::string_view below) const {
  if (root == "/" || root.empty()) return std::string(below);
  return root + std::string(below);
}

}  // namespace bourse
