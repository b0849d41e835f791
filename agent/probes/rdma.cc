#include "agent/probes/rdma.h"

#include <dlfcn.h>
#include <infiniband/verbs.h>

#include <algorithm>

#include "agent/probes/apart.h"
#include "common/world/rooted.h"

namespace bourse {
namespace {

constexpr std::string_view kClass = "/sys/class/infiniband/";
constexpr std::string_view kVerbsClass = "/sys/class/infiniband_verbs";
constexpr const char* kManager = "/dev/infiniband/rdma_cm";
constexpr Duration kVerbsLimit = seconds(5);
constexpr std::size_t kGidsMax = 16;  // told of each port; some have 256
constexpr const char* kNoGid = "0000:0000:0000:0000:0000:0000:0000:0000";

void set(Device& device, const std::string& name, const std::optional<std::string>& value) {
  if (value && !value->empty()) device.attributes[name] = *value;
}

// "4: ACTIVE" -> "ACTIVE".
std::string state_word(const std::string& text) {
  const auto colon = text.find(": ");
  return colon == std::string::npos ? text : text.substr(colon + 2);
}

void gids(const Rooted& files, const std::string& port_dir, const std::string& prefix, Device& device) {
  std::vector<std::int64_t> numbers;
  for (const std::string& name : files.names(port_dir + "/gids"))
    if (const auto n = whole_number(name)) numbers.push_back(*n);
  std::sort(numbers.begin(), numbers.end());
  std::size_t told = 0;
  for (const std::int64_t n : numbers) {
    const auto gid = files.text(port_dir + "/gids/" + std::to_string(n));
    if (!gid || *gid == kNoGid || told >= kGidsMax) continue;
    ++told;
    const std::string name = prefix + "gid" + std::to_string(n);
    set(device, name, gid);
    set(device, name + ".type", files.text(port_dir + "/gid_attrs/types/" + std::to_string(n)));
    set(device, name + ".netdev", files.text(port_dir + "/gid_attrs/ndevs/" + std::to_string(n)));
  }
}

// Mbit/s of the port, where it is active.
std::int64_t port(const Rooted& files, const std::string& dir, const std::string& number, Device& device) {
  const std::string base = dir + "/ports/" + number, prefix = "port" + number + ".";
  const std::string state = state_word(files.text(base + "/state").value_or(""));
  const std::string rate = files.text(base + "/rate").value_or("");
  set(device, prefix + "state", state);
  set(device, prefix + "physical", state_word(files.text(base + "/phys_state").value_or("")));
  set(device, prefix + "rate", rate);
  set(device, prefix + "link", files.text(base + "/link_layer"));
  set(device, prefix + "lid", files.text(base + "/lid"));
  gids(files, base, prefix, device);
  return state == "ACTIVE" ? rdma_rate_mbit(rate).value_or(0) : -1;
}

// Which uverbsN is this device's: /sys/class/infiniband_verbs/uverbsN/ibdev has its name.
std::string verbs_node(const Rooted& files, const std::string& name) {
  for (const std::string& node : files.names(kVerbsClass))
    if (files.text(std::string(kVerbsClass) + "/" + node + "/ibdev") == name) return node;
  return {};
}

Device read_device(const Rooted& files, const std::string& name, std::vector<std::string>& notes) {
  const std::string dir = std::string(kClass) + name;
  Device device;
  device.kind = kRdmaKind;
  device.mode = Device::Mode::kCounters;
  device.model = files.text(dir + "/hca_type").value_or("");
  if (device.model.empty()) device.model = files.text(dir + "/board_id").value_or(name);
  device.vendor = files.text(dir + "/device/vendor").value_or("");
  const std::string pci = files.link_name(dir + "/device");
  // A soft device hangs at no PCI function.
  if (pci.size() >= 12 && pci[4] == ':' && pci[7] == ':' && pci[10] == '.') device.pci = pci;
  device.numa = static_cast<std::int32_t>(files.number(dir + "/device/numa_node").value_or(-1));
  const std::string guid = files.text(dir + "/node_guid").value_or("");
  const bool has_guid = guid.find_first_not_of("0:") != std::string::npos;
  // Virtual functions may have no GUID until the host gives them one.
  device.id = DeviceId("rdma:" + (has_guid ? guid : !device.pci.empty() ? device.pci : name));
  set(device, "rdma.name", name);
  set(device, "env.BOURSE_RDMA_DEVICE", name);
  set(device, "rdma.node_guid", guid);
  set(device, "rdma.node_type", state_word(files.text(dir + "/node_type").value_or("")));
  set(device, "rdma.firmware", files.text(dir + "/fw_ver"));
  set(device, "rdma.board", files.text(dir + "/board_id"));
  set(device, "memlock", "unlimited");
  for (const std::string& net : files.names(dir + "/device/net"))
    device.attributes["rdma.netdev"] += (device.attributes["rdma.netdev"].empty() ? "" : " ") + net;

  std::int64_t bandwidth = 0, active = 0;
  for (const std::string& number : files.names(dir + "/ports")) {
    const std::int64_t rate = port(files, dir, number, device);
    if (rate < 0) continue;
    ++active;
    bandwidth += rate;
  }
  device.healthy = active > 0;
  device.counters.set("bandwidth", bandwidth);
  const std::string node = verbs_node(files, name);
  if (node.empty()) {
    notes.push_back("rdma: " + name + " has no verbs device: tasks cannot use it (modprobe ib_uverbs)");
    device.healthy = false;
  } else {
    device.nodes.push_back("/dev/infiniband/" + node);
    if (!files.exists(device.nodes.back())) {
      notes.push_back("rdma: " + name + ": " + device.nodes.back() + " does not exist: tasks cannot use it");
      device.healthy = false;
    }
  }
  if (files.exists(kManager)) device.nodes.emplace_back(kManager);
  return device;
}

// In a child. A report of one device for each that a provider knows, by name.
Result<ProbeReport> ask_verbs() {
  void* library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return Error(Code::kUnsupported, "libibverbs.so.1 cannot be loaded");
  const auto list = reinterpret_cast<ibv_device** (*)(int*)>(dlsym(library, "ibv_get_device_list"));
  const auto name = reinterpret_cast<const char* (*)(ibv_device*)>(dlsym(library, "ibv_get_device_name"));
  const auto open_device = reinterpret_cast<ibv_context* (*)(ibv_device*)>(dlsym(library, "ibv_open_device"));
  const auto query = reinterpret_cast<int (*)(ibv_context*, ibv_device_attr*)>(dlsym(library, "ibv_query_device"));
  if (list == nullptr || name == nullptr || open_device == nullptr || query == nullptr)
    return Error(Code::kUnsupported, "libibverbs.so.1 lacks functions that it must have");
  ProbeReport report;
  int count = 0;
  ibv_device** devices = list(&count);
  for (int i = 0; devices != nullptr && i < count; ++i) {
    Device device;
    device.kind = kRdmaKind;
    device.id = DeviceId(name(devices[i]));
    if (ibv_context* context = open_device(devices[i]); context != nullptr) {
      ibv_device_attr attributes{};
      if (query(context, &attributes) == 0) {
        set(device, "rdma.max_qp", std::to_string(attributes.max_qp));
        set(device, "rdma.max_cq", std::to_string(attributes.max_cq));
        set(device, "rdma.max_mr", std::to_string(attributes.max_mr));
        set(device, "rdma.max_mr_size", std::to_string(attributes.max_mr_size));
      }
    }
    report.inventory.devices.push_back(std::move(device));
  }
  return report;
}

void refine(ProbeReport& report) {
  const auto answers = look_apart({{"libibverbs", ask_verbs}}, kVerbsLimit);
  if (!answers.front()) {
    // Without the library the sysfs facts stand; tasks bring their own library in their images.
    if (answers.front().error().code() != Code::kUnsupported)
      report.inventory.notes.push_back("rdma: libibverbs " + answers.front().error().text() + "; only what /sys says is known");
    return;
  }
  const auto& known = answers.front()->inventory.devices;
  for (Device& device : report.inventory.devices) {
    const std::string& name = device.attributes.at("rdma.name");
    const auto it = std::find_if(known.begin(), known.end(), [&](const Device& d) { return d.id.str() == name; });
    device.attributes["rdma.provider"] = it == known.end() ? "no" : "yes";
    if (it == known.end()) {
      report.inventory.notes.push_back("rdma: no user space driver of this host knows " + name + " (install ibverbs-providers)");
      continue;
    }
    for (const auto& [key, value] : it->attributes) {
      device.attributes[key] = value;
      report.sources["devices/" + device.id.str() + "/" + key] = "libibverbs";
    }
  }
}

}  // namespace

std::optional<std::int64_t> rdma_rate_mbit(std::string_view text) {
  // "2.5 Gb/sec (1X SDR)", "100 Gb/sec (4X EDR)".
  const auto words = words_of(text);
  if (words.size() < 2 || words[1] != "Gb/sec") return std::nullopt;
  const auto point = words[0].find('.');
  const auto whole = whole_number(words[0].substr(0, point));
  if (!whole || *whole < 0 || *whole > 1'000'000) return std::nullopt;
  std::int64_t mbit = *whole * 1000;
  if (point != std::string::npos) {
    const auto tenth = whole_number(words[0].substr(point + 1));
    if (!tenth || *tenth < 0 || *tenth > 9) return std::nullopt;
    mbit += *tenth * 100;
  }
  return mbit;
}

Result<ProbeReport> run_rdma(const ProbeInput& input) {
  const Rooted files(input.root);
  ProbeReport report;
  for (const std::string& name : files.names(kClass)) {
    Device device = read_device(files, name, report.inventory.notes);
    report.sources["devices/" + device.id.str()] = std::string(kClass) + name;
    report.inventory.devices.push_back(std::move(device));
  }
  std::sort(report.inventory.devices.begin(), report.inventory.devices.end(),
            [](const Device& a, const Device& b) { return a.id < b.id; });
  if (input.this_host() && !report.inventory.devices.empty()) refine(report);
  return report;
}

}  // namespace bourse
