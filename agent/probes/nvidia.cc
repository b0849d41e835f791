// NVIDIA's driver in /proc/driver/nvidia, and cards that the PCI bus shows without it. Sizes of memory are not in these files: the
// probe "nvml" adds them where the library is.
#include <map>

#include "agent/probes/accelerators.h"

namespace bourse {
namespace {

constexpr std::uint32_t kVendor = 0x10de;
constexpr std::uint32_t kVga = 0x0300, k3d = 0x0302;
const std::string kProc = "/proc/driver/nvidia";

// "Key:  value" lines.
std::map<std::string, std::string> table_of(const std::string& text) {
  std::map<std::string, std::string> out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::size_t value = line.find_first_not_of(" \t", colon + 1);
    out[line.substr(0, colon)] = value == std::string::npos ? "" : line.substr(value, line.find_last_not_of(" \t\r") + 1 - value);
  }
  return out;
}

std::string driver_version(const Rooted& files) {
  const auto text = files.text(kProc + "/version");
  if (!text) return {};
  // "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 ...": the first word of digits and points.
  for (const std::string& word : words_of(*text))
    if (word.find('.') != std::string::npos && word.find_first_not_of("0123456789.") == std::string::npos) return word;
  return {};
}

// Compute instances of the card with this minor number, each a device of its own: that is how they can be given away.
void partitions(const Rooted& files, ProbeReport& report, const Device& card, const std::string& minor) {
  const std::string mig = kProc + "/capabilities/gpu" + minor + "/mig";
  const auto cap_node = [&](const std::string& access) {
    const auto text = files.text(access);
    if (!text) return std::string();
    const auto fields = table_of(*text);
    const auto it = fields.find("DeviceFileMinor");
    return it == fields.end() ? std::string() : "/dev/nvidia-caps/nvidia-cap" + it->second;
  };
  for (const std::string& gi : files.names(mig)) {
    if (gi.compare(0, 2, "gi") != 0) continue;
    for (const std::string& ci : files.names(mig + "/" + gi)) {
      if (ci.compare(0, 2, "ci") != 0) continue;
      Device part = card;
      const std::string number = gi.substr(2) + "/" + ci.substr(2);
      part.id = DeviceId("MIG-" + card.id.str() + "/" + number);
      part.model += " MIG";
      part.healthy = true;
      part.counters = {};
      part.nodes.clear();
      part.attributes = {{"parent", card.id.str()}, {"mig", number}, {"env.CUDA_VISIBLE_DEVICES", part.id.str()}};
      if (const auto it = card.attributes.find("driver"); it != card.attributes.end()) part.attributes["driver"] = it->second;
      const std::string access = mig + "/" + gi + "/" + ci + "/access";
      std::vector<std::string> nodes = {cap_node(access), cap_node(mig + "/" + gi + "/access")};
      nodes.insert(nodes.end(), card.nodes.begin(), card.nodes.end());
      if (nodes.front().empty()) accel::unhealthy(part, access + " does not say its device");
      accel::add_nodes(files, part, nodes);
      accel::add(report, std::move(part), access);
    }
  }
}

}  // namespace

Result<ProbeReport> run_nvidia(const ProbeInput& input) {
  const Rooted files = accel::files_of(input);
  ProbeReport report;
  const std::string version = driver_version(files);
  std::map<std::string, bool> driven;  // PCI addresses
  for (const std::string& address : files.names(kProc + "/gpus")) {
    const std::string at = kProc + "/gpus/" + address + "/information";
    const auto text = files.text(at);
    if (!text) continue;
    auto fields = table_of(*text);
    Device card;
    card.kind = "gpu/nvidia";
    card.vendor = "NVIDIA";
    card.model = fields["Model"];
    card.pci = address;
    driven[address] = true;
    card.numa = accel::numa_of(files, address);
    const std::string uuid = fields["GPU UUID"];
    const bool has_uuid = uuid.compare(0, 4, "GPU-") == 0 && uuid.find('?') == std::string::npos && valid_name(uuid);
    card.id = DeviceId(has_uuid ? uuid : address);
    card.attributes["env.CUDA_VISIBLE_DEVICES"] = has_uuid ? uuid : fields["Device Minor"];
    if (!version.empty()) card.attributes["driver"] = version;
    if (const std::string type = accel::short_type(card.model); !type.empty()) card.attributes["type"] = type;
    const std::string minor = fields["Device Minor"];
    accel::add_nodes(files, card, {"/dev/nvidia" + minor, "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"});
    if (fields["GPU Excluded"] == "Yes") accel::unhealthy(card, "the driver excludes it");
    const std::size_t before = report.inventory.devices.size();
    partitions(files, report, card, minor);
    // A card in parts is not given away whole.
    if (report.inventory.devices.size() == before) accel::add(report, std::move(card), at);
  }
  for (const accel::PciDevice& pci : accel::pci_devices(files, kVendor)) {
    if ((pci.type != kVga && pci.type != k3d) || driven[pci.address]) continue;
    Device card;
    card.id = DeviceId(pci.address);
    card.kind = "gpu/nvidia";
    card.vendor = "NVIDIA";
    card.model = "PCI device " + accel::hex(pci.device, 4);
    card.pci = pci.address;
    card.numa = pci.numa;
    accel::unhealthy(card, pci.driver.empty() ? "no driver serves it" : "driver " + pci.driver + " serves it, not NVIDIA's");
    accel::add(report, std::move(card), "/sys/bus/pci/devices/" + pci.address);
  }
  return report;
}

}  // namespace bourse
