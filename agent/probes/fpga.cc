// FPGAs of the kernel's own framework: the ports of a DFL card, each of which takes one function, and otherwise the regions of FPGA
// managers. What a region is programmed with is its attribute `bitstream`, so that programming it anew makes a new generation.
#include <algorithm>

#include "agent/probes/accelerators.h"

namespace bourse {
namespace {

const std::string kRegions = "/sys/class/fpga_region", kManagers = "/sys/class/fpga_manager";

bool starts_with(const std::string& text, const char* start) { return text.compare(0, std::string(start).size(), start) == 0; }

std::vector<std::string> named(const std::vector<std::string>& names, const char* start) {
  std::vector<std::string> out;
  std::copy_if(names.begin(), names.end(), std::back_inserter(out), [&](const std::string& n) { return starts_with(n, start); });
  return out;
}

void add_port(const Rooted& files, ProbeReport& report, const std::string& region, const std::string& fme,
              const std::string& port) {
  const std::string at = kRegions + "/" + region;
  Device device;
  device.pci = files.link_name(at + "/device");
  if (device.pci.find(':') == std::string::npos) device.pci.clear();
  const std::string number = files.text(at + "/" + port + "/id").value_or(port.substr(port.rfind('.') + 1));
  device.id = DeviceId("fpga-" + (device.pci.empty() ? region : device.pci) + "/port" + number);
  device.kind = "fpga";
  device.vendor = "DFL";
  device.model = "DFL port";
  device.numa = device.pci.empty() ? -1 : accel::numa_of(files, device.pci);
  if (const auto afu = files.text(at + "/" + port + "/afu_id"); afu && !afu->empty()) device.attributes["bitstream"] = *afu;
  if (!fme.empty()) {
    if (const auto shell = files.text(at + "/" + fme + "/bitstream_id")) device.attributes["shell"] = *shell;
    device.attributes["type"] = "dfl";
  }
  for (const char* errors : {"/errors/errors", "/dfl-port.errors/errors/errors"})
    if (const auto text = files.text(at + "/" + port + errors); text && std::strtoull(text->c_str(), nullptr, 16) != 0)
      accel::unhealthy(device, port + " reports errors " + *text);
  accel::add_nodes(files, device, {"/dev/" + port});
  accel::add(report, std::move(device), at + "/" + port);
}

void add_region(const Rooted& files, ProbeReport& report, const std::string& region, const std::string& manager) {
  Device device;
  device.id = DeviceId("fpga-" + region);
  device.kind = "fpga";
  device.model = files.text(kManagers + "/" + manager + "/name").value_or("");
  device.attributes["region"] = region;
  device.attributes["manager"] = manager;
  const std::string state = files.text(kManagers + "/" + manager + "/state").value_or("");
  if (!state.empty()) device.attributes["state"] = state;
  if (state.find("error") != std::string::npos) accel::unhealthy(device, manager + " is in state " + state);
  if (const auto id = files.text(kRegions + "/" + region + "/compat_id")) device.attributes["compat_id"] = *id;
  accel::add(report, std::move(device), kRegions + "/" + region);
}

}  // namespace

Result<ProbeReport> run_fpga(const ProbeInput& input) {
  const Rooted files = accel::files_of(input);
  ProbeReport report;
  std::vector<std::string> plain;
  bool dfl = false;
  for (const std::string& region : files.names(kRegions)) {
    const std::vector<std::string> inside = files.names(kRegions + "/" + region);
    const std::vector<std::string> fmes = named(inside, "dfl-fme."), ports = named(inside, "dfl-port.");
    for (const std::string& port : ports) add_port(files, report, region, fmes.empty() ? "" : fmes.front(), port);
    dfl = dfl || !fmes.empty() || !ports.empty();
    if (fmes.empty() && ports.empty()) plain.push_back(region);
  }
  // Of a DFL card the other regions are the slots behind its ports, which are in the list already.
  if (dfl) return report;
  const std::vector<std::string> managers = files.names(kManagers);
  if (managers.empty()) return report;
  for (std::size_t i = 0; i < plain.size(); ++i) add_region(files, report, plain[i], managers[std::min(i, managers.size() - 1)]);
  return report;
}

}  // namespace bourse
