#include "agent/probes/run_probe.h"

#include <algorithm>

#include "agent/probes/accelerators.h"
#include "agent/probes/declared.h"
#include "agent/probes/hwloc.h"
#include "agent/probes/libvirt.h"
#include "agent/probes/opencl.h"
#include "agent/probes/plugin.h"
#include "agent/probes/rdma.h"

namespace bourse {

const std::vector<std::pair<std::string_view, ProbeFunction>>& probe_functions() {
  static const std::vector<std::pair<std::string_view, ProbeFunction>> functions = {
      {kProbeHwloc, run_hwloc},       {"nvidia", run_nvidia},     {"nvml", run_nvml},
      {"amdgpu", run_amdgpu},         {"ascend", run_ascend},     {"fpga", run_fpga},
      {kProbeOpencl, run_opencl},     {kProbeRdma, run_rdma},     {kProbeLibvirt, run_libvirt},
      {kProbeDeclared, run_declared}, {kProbePlugin, run_plugin},
  };
  return functions;
}

Result<ProbeReport> run_probe(const std::string& name, const ProbeInput& input) {
  const std::string_view key = std::string_view(name).substr(0, kPluginPrefix.size()) == kPluginPrefix ? kProbePlugin : name;
  const auto& all = probe_functions();
  const auto it = std::find_if(all.begin(), all.end(), [&](const auto& entry) { return entry.first == key; });
  if (it == all.end()) return Error(Code::kNotFound, "there is no probe `" + name + "'");
  return it->second(input);
}

}  // namespace bourse
