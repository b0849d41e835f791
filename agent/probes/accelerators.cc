#include "agent/probes/accelerators.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <cstdlib>

namespace bourse::accel {
namespace {

constexpr const char* kPci = "/sys/bus/pci/devices/";

std::uint32_t hex_file(const Rooted& files, const std::string& path) {
  const auto text = files.text(path);
  return text ? static_cast<std::uint32_t>(std::strtoul(text->c_str(), nullptr, 16)) : 0;
}

}  // namespace

Rooted files_of(const ProbeInput& input) { return Rooted(input.this_host() ? "" : input.root); }

std::int32_t numa_of(const Rooted& files, const std::string& address) {
  const auto node = files.number(kPci + address + "/numa_node");
  return node && *node >= 0 && *node <= INT32_MAX ? static_cast<std::int32_t>(*node) : -1;
}

std::vector<PciDevice> pci_devices(const Rooted& files, std::uint32_t vendor) {
  std::vector<PciDevice> found;
  for (const std::string& address : files.names("/sys/bus/pci/devices")) {
    const std::string at = kPci + address;
    PciDevice device;
    device.vendor = hex_file(files, at + "/vendor");
    if (device.vendor != vendor) continue;
    device.address = address;
    device.device = hex_file(files, at + "/device");
    device.type = hex_file(files, at + "/class") >> 8;
    device.numa = numa_of(files, address);
    device.driver = files.link_name(at + "/driver");
    found.push_back(std::move(device));
  }
  return found;
}

std::string hex(std::uint64_t value, int width) {
  std::array<char, 24> text{};
  std::snprintf(text.data(), text.size(), "%0*llx", width, static_cast<unsigned long long>(value));
  return text.data();
}

void unhealthy(Device& device, const std::string& why) {
  device.healthy = false;
  device.attributes.emplace("unhealthy", why);
}

void add_nodes(const Rooted& files, Device& device, const std::vector<std::string>& nodes) {
  for (const std::string& node : nodes) {
    if (files.exists(node)) {
      device.nodes.push_back(node);
    } else if (node == nodes.front()) {
      unhealthy(device, node + " is not there");
    }
  }
}

void add(ProbeReport& report, Device device, const std::string& source) {
  report.sources["devices/" + device.id.str()] = source;
  auto& all = report.inventory.devices;
  const auto at =
      std::lower_bound(all.begin(), all.end(), device.id, [](const Device& d, const DeviceId& id) { return d.id < id; });
  if (at != all.end() && at->id == device.id) return;  // two names of one thing
  all.insert(at, std::move(device));
}

std::string short_type(const std::string& model) {
  constexpr std::array<std::string_view, 6> kMakers = {"nvidia", "tesla", "geforce", "quadro", "amd", "instinct"};
  for (const std::string& word : words_of(model)) {
    std::string lower = word.substr(0, word.find('-'));
    for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (!lower.empty() && std::find(kMakers.begin(), kMakers.end(), lower) == kMakers.end()) return lower;
  }
  return {};
}

}  // namespace bourse::accel
