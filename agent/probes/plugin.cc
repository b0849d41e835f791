// Probe plugins, in the helper: looks through bourse.probe/1 and checks every word that comes back. See bourse/plugin.h.
#include "agent/probes/plugin.h"

#include <algorithm>
#include <memory>

#include "bourse/plugin.h"
#include "common/world/plugin.h"

namespace bourse {
namespace {

constexpr std::size_t kDevicesMax = 1024, kErrorMax = 512, kTextMax = 4096;
constexpr std::int64_t kShareMost = 1000;

struct Findings {
  bourse_findings_1 table{};  // first: the plugin hands its address back
  ProbeReport report;
  std::string refused;  // the first word that was
  [[nodiscard]] Device* find(const char* id) {
    if (id == nullptr) return nullptr;
    for (Device& device : report.inventory.devices)
      if (device.id.str() == id) return &device;
    return nullptr;
  }
  int refuse(const std::string& why) {
    if (refused.empty()) refused = why;
    return BOURSE_FAILED;
  }
};

Findings& of(const bourse_findings_1* table) { return *static_cast<Findings*>(table->context); }
std::string text(const char* words) { return words == nullptr ? std::string() : std::string(words).substr(0, kTextMax); }

int on_device(const bourse_findings_1* table, const bourse_found_device* found) {
  Findings& f = of(table);
  if (found == nullptr || found->size < sizeof(bourse_found_device)) return f.refuse("a device that is cut short");
  Device device;
  device.id = DeviceId(text(found->id));
  device.kind = text(found->kind);
  if (!valid_name(device.id.str())) return f.refuse("device id `" + device.id.str() + "'");
  if (!valid_name(device.kind)) return f.refuse("kind `" + device.kind + "' of device " + device.id.str());
  if (f.find(found->id) != nullptr) return f.refuse("device " + device.id.str() + " a second time");
  if (f.report.inventory.devices.size() >= kDevicesMax) return f.refuse("more than " + std::to_string(kDevicesMax) + " devices");
  if (found->sharing > BOURSE_SHARE_TIME)
    return f.refuse("sharing " + std::to_string(found->sharing) + " of device " + device.id.str());
  device.mode = static_cast<Device::Mode>(found->sharing);
  device.vendor = text(found->vendor);
  device.model = text(found->model);
  device.pci = text(found->pci);
  device.numa = found->numa < 0 ? -1 : found->numa;
  if (found->unhealthy != nullptr) {
    device.healthy = false;
    device.attributes["unhealthy"] = text(found->unhealthy);
  }
  if (found->source != nullptr) f.report.sources["devices/" + device.id.str()] = text(found->source);
  f.report.inventory.devices.push_back(std::move(device));
  return 0;
}

// Sets `name` in `counters` of a device, where it is an amount at all.
int set_counter(Findings& f, const char* device, Counters& counters, const char* name, std::int64_t amount) {
  const std::string counter = text(name);
  if (!valid_name(counter)) return f.refuse("counter `" + counter + "' of device " + text(device));
  if (amount < 0) return f.refuse(counter + " of device " + text(device) + " is below zero");
  if (counter == "compute" && amount > kShareMost) return f.refuse("compute of device " + text(device) + " is over 1000 permille");
  counters.set(counter, amount);
  return 0;
}

int on_counter(const bourse_findings_1* table, const char* device, const char* name, int64_t amount) {
  Findings& f = of(table);
  Device* d = f.find(device);
  return d == nullptr ? f.refuse("a counter of device " + text(device)) : set_counter(f, device, d->counters, name, amount);
}

int on_profile(const bourse_findings_1* table, const char* device, const char* profile, const char* counter, int64_t amount) {
  Findings& f = of(table);
  Device* d = f.find(device);
  const std::string name = text(profile);
  if (d == nullptr || !valid_name(name)) return f.refuse("profile `" + name + "' of device " + text(device));
  return set_counter(f, device, d->profiles[name], counter, amount);
}

int on_attribute(const bourse_findings_1* table, const char* device, const char* name, const char* value) {
  Findings& f = of(table);
  Device* d = f.find(device);
  const std::string key = text(name);
  if (d == nullptr || !valid_name(key)) return f.refuse("attribute `" + key + "' of device " + text(device));
  d->attributes[key] = text(value);
  return 0;
}

int on_node(const bourse_findings_1* table, const char* device, const char* path) {
  Findings& f = of(table);
  Device* d = f.find(device);
  const std::string node = text(path);
  if (d == nullptr || node.compare(0, 5, "/dev/") != 0 || node.find("/../") != std::string::npos)
    return f.refuse("node `" + node + "' of device " + text(device));
  d->nodes.push_back(node);
  return 0;
}

int on_variable(const bourse_findings_1* table, const char* device, const char* name, const char* value) {
  return on_attribute(table, device, ("env." + text(name)).c_str(), value);
}

int on_amount(const bourse_findings_1* table, const char* kind, int64_t amount) {
  Findings& f = of(table);
  const std::string name = text(kind);
  if (!valid_name(name) || name == "cpus" || name == "mem" || amount < 0) return f.refuse("amount `" + name + "'");
  f.report.inventory.total.others.set(name, amount);
  return 0;
}

int on_label(const bourse_findings_1* table, const char* name, const char* value) {
  Findings& f = of(table);
  const std::string key = text(name);
  if (!valid_name(key)) return f.refuse("label `" + key + "'");
  f.report.inventory.labels[key] = text(value);
  return 0;
}

int on_note(const bourse_findings_1* table, const char* words) {
  of(table).report.inventory.notes.push_back(text(words));
  return 0;
}

}  // namespace

Result<ProbeReport> run_plugin(const ProbeInput& input) {
  const std::string path = input.option("path");
  const std::string copies = input.option("copies").empty() ? "/run/bourse/plugins" : input.option("copies");
  const std::unique_ptr<Plugin> plugin = BOURSE_TRY(Plugin::load(path, "probe", {"bourse-helper", copies}));
  const auto* probe = static_cast<const bourse_probe_1*>(BOURSE_TRY(plugin->get(BOURSE_PROBE_1, sizeof(bourse_probe_1))));
  if (probe->look == nullptr) return Error(Code::kInvalid, path + ": its probe has no look()");
  Findings findings;
  findings.table = {sizeof(bourse_findings_1),
                    &findings,
                    on_device,
                    on_counter,
                    on_profile,
                    on_attribute,
                    on_node,
                    on_variable,
                    on_amount,
                    on_label,
                    on_note};
  findings.report.sources[""] = path + " " + plugin->version();
  std::string error(kErrorMax, '\0');
  bourse_host host{};
  host.size = sizeof host;
  host.abi_major = BOURSE_PLUGIN_ABI_MAJOR, host.abi_minor = BOURSE_PLUGIN_ABI_MINOR;
  host.name = "bourse-helper", host.version = BOURSE_VERSION;
  host.get = [](const bourse_host*, const char*) -> const void* { return nullptr; };
  const std::string root = input.this_host() ? "" : input.root;
  const int rc = probe->look(&host, root.c_str(), &findings.table, error.data(), kErrorMax);
  if (rc < 0) {
    error.resize(std::min(error.find('\0'), error.size()));
    return Error(Code::kIo, path + ": " + (error.empty() ? "could not look, and says nothing more" : error));
  }
  // One wrong word says that the plugin does not know what it is doing: none of it is used.
  if (!findings.refused.empty()) return Error(Code::kInvalid, path + ": reports what cannot be: " + findings.refused);
  auto& devices = findings.report.inventory.devices;
  std::sort(devices.begin(), devices.end(), [](const Device& a, const Device& b) { return a.id < b.id; });
  for (const Device& device : devices)
    for (const auto& [name, consumes] : device.profiles)
      if (!device.counters.contains(consumes))
        return Error(Code::kInvalid,
                     path + ": profile " + name + " of device " + device.id.str() + " takes more than the device has");
  return std::move(findings.report);
}

}  // namespace bourse
