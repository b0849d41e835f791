#include "agent/probes/libvirt.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "agent/microvm/libvirt_api.h"
#include "agent/probes/apart.h"
#include "common/core/vm_image.h"
#include "common/world/rooted.h"

namespace bourse {
namespace {

constexpr const char* kDefaultUri = "qemu:///system";
constexpr Duration kUriLimit = seconds(25);  // a daemon's first answer may take 15 s; a stopped one never answers
constexpr std::int64_t kGuests = 64;
constexpr int kNodesMax = 1024;
constexpr std::int64_t kFreeParts = 16;  // free memory is told in sixteenths of all, so that it is not another one each time
constexpr std::size_t kMachinesMax = 64;

std::string version_text(unsigned long version) {
  return std::to_string(version / 1'000'000) + "." + std::to_string(version / 1000 % 1000) + "." + std::to_string(version % 1000);
}

std::string lower(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

void free_memory(const Libvirt& api, virConnectPtr connection, Device& device) {
  virNodeInfo node{};
  std::vector<unsigned long long> free(kNodesMax);
  if (api.node_info(connection, &node) != 0) return;
  const auto total = static_cast<std::int64_t>(node.memory) * 1024;
  device.attributes["vm.host_mem"] = format_size(Bytes{total});
  const int count = api.cells_free(connection, free.data(), 0, kNodesMax);
  const std::int64_t part = std::max<std::int64_t>(total / kFreeParts / std::max(count, 1), 1);
  for (int i = 0; i < count; ++i) {
    const std::int64_t bytes = static_cast<std::int64_t>(free[static_cast<std::size_t>(i)]) / part * part;
    device.attributes["vm.node" + std::to_string(i) + ".free"] = format_size(Bytes{bytes / (1 << 20) * (1 << 20)});
  }
}

// In a child of its own: see apart.h.
Result<ProbeReport> ask(const std::string& uri, std::int64_t guests) {
  const Libvirt api = BOURSE_TRY(Libvirt::open());
  virConnectPtr connection = api.connect_read_only(uri.c_str());
  if (connection == nullptr) return Error(Code::kIo, "cannot connect: " + api.why());
  ProbeReport report;
  Device device;
  const char* type = api.type(connection);
  device.kind = std::string(kHypervisorKind) + lower(type == nullptr ? "unknown" : type);
  device.id = DeviceId(libvirt_device(uri));
  device.mode = Device::Mode::kCounters;
  device.model = type == nullptr ? "" : type;
  device.counters.set(kVmGuests, guests);
  device.attributes[kVmUriAttribute] = uri;
  device.attributes["env.BOURSE_VM_URI"] = uri;
  if (unsigned long version = 0; api.version(connection, &version) == 0 && version > 0)
    device.attributes["vm.version"] = version_text(version);
  char* capabilities = api.capabilities(connection);
  if (capabilities == nullptr) {
    Error error(Code::kIo, "does not tell its capabilities: " + api.why());
    api.disconnect(connection);
    return error;
  }
  bool accelerated = false;
  for (const GuestArch& guest : guest_archs(capabilities)) {
    const std::string name = "vm." + guest.arch;
    accelerated = accelerated || guest.how == "kvm";
    device.attributes[name] = guest.how;
    if (!guest.machine.empty()) device.attributes[name + ".machine"] = guest.machine;
    if (guest.cpus_max > 0) device.attributes[name + ".cpus_max"] = std::to_string(guest.cpus_max);
    std::string machines;
    for (std::size_t i = 0; i < std::min(guest.machines.size(), kMachinesMax); ++i)
      machines += (i == 0 ? "" : " ") + guest.machines[i];
    if (!machines.empty()) device.attributes[name + ".machines"] = machines;
    report.inventory.labels[name] = guest.how;
  }
  free(capabilities);
  free_memory(api, connection, device);
  api.disconnect(connection);
  if (accelerated) device.nodes.emplace_back("/dev/kvm");
  report.inventory.devices.push_back(std::move(device));
  return report;
}

}  // namespace

std::string libvirt_device(const std::string& uri) {
  std::string id = "libvirt:" + uri;
  for (char& c : id)
    if ((c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') &&
        std::string_view("._/+@:-").find(c) == std::string_view::npos)
      c = '-';
  // No "/." in a name, and at most 128 characters.
  for (auto at = id.find("/."); at != std::string::npos; at = id.find("/.")) id[at + 1] = '-';
  id.resize(std::min<std::size_t>(id.size(), 128));
  return id;
}

Result<ProbeReport> run_libvirt(const ProbeInput& input) {
  ProbeReport all;
  std::vector<std::string> uris = words_of(input.option("uris"));
  if (uris.empty() && !input.this_host()) return all;
  if (uris.empty()) uris.emplace_back(kDefaultUri);
  for (const std::string& uri : uris)
    if (auto fine = check_libvirt_uri(uri); !fine) return std::move(fine).error().add("libvirt.uris");
  std::int64_t guests = kGuests;
  if (const std::string text = input.option("guests"); !text.empty()) guests = whole_number(text).value_or(kGuests);

  std::vector<Part> parts;
  for (const std::string& uri : uris) parts.push_back({uri, [uri, guests] { return ask(uri, guests); }});
  const auto answers = look_apart(parts, kUriLimit);
  Inventory& inventory = all.inventory;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string id = libvirt_device(uris[i]);
    all.sources["devices/" + id] = uris[i];
    if (!answers[i]) {
      if (answers[i].error().code() == Code::kUnsupported) return answers[i].error();
      // It was asked for, so it is told that it is missing, and takes its guests' places out of what is offered.
      Device device;
      device.id = DeviceId(id);
      device.kind = std::string(kHypervisorKind) + uris[i].substr(0, uris[i].find_first_of("+:"));
      device.mode = Device::Mode::kCounters;
      device.healthy = false;
      device.attributes[kVmUriAttribute] = uris[i];
      inventory.devices.push_back(std::move(device));
      inventory.notes.push_back("libvirt: " + uris[i] + ": " + answers[i].error().text());
      continue;
    }
    for (const Device& device : answers[i]->inventory.devices) inventory.devices.push_back(device);
    for (const auto& [name, how] : answers[i]->inventory.labels) {
      std::string& label = inventory.labels[name];
      if (label.empty() || rank_of(how) > rank_of(label)) label = how;
      all.sources["labels/" + name] = uris[i];
    }
  }
  std::sort(inventory.devices.begin(), inventory.devices.end(), [](const Device& a, const Device& b) { return a.id < b.id; });
  return all;
}

}  // namespace bourse
