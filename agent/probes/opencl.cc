#include "agent/probes/opencl.h"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "agent/probes/apart.h"
#include "common/world/rooted.h"

namespace bourse {
namespace {

constexpr const char* kVendors = "/etc/OpenCL/vendors";
constexpr Duration kVendorLimit = seconds(15);
constexpr std::size_t kNameMax = 40;
constexpr std::int64_t kBytesPerMiB = 1024 * 1024;

// CL_DEVICE_TYPE_*, kept out of the header that needs no OpenCL.
constexpr std::uint64_t kCpu = 2, kGpu = 4, kAccelerator = 8;

// "Portable Computing Language" -> "portable-computing-language".
std::string slug(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))
      out += c;
    else if (c >= 'A' && c <= 'Z')
      out += static_cast<char>(c - 'A' + 'a');
    else if (!out.empty() && out.back() != '-')
      out += '-';
  }
  out.resize(std::min(out.size(), kNameMax));
  while (!out.empty() && out.back() == '-') out.pop_back();
  return out.empty() ? "unknown" : out;
}

bool has_word(const std::string& text, std::string_view word) { return text.find(word) != std::string::npos; }

// By PCI vendor number where it is one, else by what it calls itself.
std::string vendor_word(const OpenclDevice& device) {
  switch (device.vendor_id) {
    case 0x10de:
      return "nvidia";
    case 0x1002:
      return "amd";
    case 0x8086:
      return "intel";
    case 0x10ee:
      return "xilinx";
    case 0x13b5:
      return "arm";
    default:
      return slug(device.vendor.empty() ? device.platform_vendor : device.vendor);
  }
}

std::string kind_of(const OpenclDevice& device) {
  if ((device.type & kGpu) != 0) return "gpu/" + vendor_word(device);
  if ((device.type & kAccelerator) != 0) {
    const std::string all = device.platform + " " + device.name;
    if (device.vendor_id == 0x10ee || has_word(all, "FPGA") || has_word(all, "Xilinx") || has_word(all, "xilinx")) return "fpga";
    return "accelerator/" + vendor_word(device);
  }
  return (device.type & kCpu) != 0 ? "opencl/cpu" : "opencl/custom";
}

const char* type_text(std::uint64_t type) {
  if ((type & kGpu) != 0) return "gpu";
  if ((type & kAccelerator) != 0) return "accelerator";
  return (type & kCpu) != 0 ? "cpu" : "custom";
}

void set(Device& device, const char* name, std::string value) {
  if (!value.empty()) device.attributes[name] = std::move(value);
}

std::vector<std::string> icd_files(const std::string& directory) {
  std::vector<std::string> files;
  for (const std::string& name : Rooted("").names(directory))
    if (name.size() > 4 && name.compare(name.size() - 4, 4, ".icd") == 0) files.push_back(directory + "/" + name);
  return files;
}

// In the child: only this vendor is seen by the loader, which takes one file as well as a directory.
Result<ProbeReport> look_at(const std::string& icd) {
  setenv("OCL_ICD_VENDORS", icd.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): no threads yet
  ProbeReport report;
  for (const OpenclDevice& device : BOURSE_TRY(query_opencl())) report.inventory.devices.push_back(describe(device));
  return report;
}

// The same piece of hardware through two drivers: one device, which names both.
bool joined(std::vector<Device>& devices, const Device& device) {
  if (device.pci.empty()) return false;
  const auto it =
      std::find_if(devices.begin(), devices.end(), [&](const Device& d) { return d.pci == device.pci && d.kind == device.kind; });
  if (it == devices.end()) return false;
  std::string& platforms = it->attributes["opencl.platform"];
  const std::string& also = device.attributes.at("opencl.platform");
  if (!has_word(platforms, also)) platforms += ", " + also;
  return true;
}

}  // namespace

Device describe(const OpenclDevice& from) {
  Device device;
  device.kind = kind_of(from);
  device.vendor = from.vendor;
  device.model = from.name;
  device.pci = from.pci;
  device.healthy = from.available;
  // Same in every run: drivers list their devices in the order of the hardware.
  device.id = DeviceId(!from.uuid.empty()  ? "opencl:" + from.uuid
                       : !from.pci.empty() ? "opencl:" + from.pci
                                           : "opencl:" + slug(from.platform) + ":" + std::to_string(from.index));
  if ((from.type & kCpu) == 0) device.counters.set("mem", static_cast<std::int64_t>(from.memory / kBytesPerMiB));
  device.counters.set("units", from.units);
  set(device, "opencl.platform", from.platform);
  set(device, "opencl.platform_version", from.platform_version);
  set(device, "opencl.version", from.version);
  set(device, "opencl.driver", from.driver);
  set(device, "opencl.type", type_text(from.type));
  set(device, "opencl.index", std::to_string(from.index));
  set(device, "opencl.memory", std::to_string(from.memory));
  set(device, "opencl.local_memory", std::to_string(from.local_memory));
  set(device, "opencl.work_group", std::to_string(from.work_group));
  set(device, "opencl.clock_mhz", std::to_string(from.clock_mhz));
  set(device, "opencl.extensions", from.extensions);
  set(device, "opencl.partition", from.partitions);
  set(device, "opencl.partition_affinity", from.affinities);
  if (!from.partitions.empty()) set(device, "opencl.sub_devices", std::to_string(from.sub_devices));
  set(device, "opencl.compiler", from.compiler ? "yes" : "no");
  set(device, "opencl.unified_memory", from.unified ? "yes" : "no");
  return device;
}

Result<ProbeReport> run_opencl(const ProbeInput& input) {
  ProbeReport all;
  std::string directory = input.option("vendors");
  if (directory.empty() && !input.this_host()) return all;  // a tree of files has no drivers
  if (directory.empty())
    directory = getenv("OCL_ICD_VENDORS") != nullptr ? getenv("OCL_ICD_VENDORS") : kVendors;  // NOLINT(concurrency-mt-unsafe)
  Duration limit = kVendorLimit;
  if (const std::string text = input.option("vendor_limit"); !text.empty()) limit = BOURSE_TRY(parse_duration(text));

  std::vector<Part> parts;
  for (const std::string& icd : icd_files(directory)) parts.push_back({icd, [icd] { return look_at(icd); }});
  const auto answers = look_apart(parts, limit);
  Inventory& inventory = all.inventory;
  std::size_t unsupported = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!answers[i]) {
      unsupported += answers[i].error().code() == Code::kUnsupported ? 1 : 0;
      inventory.notes.push_back("opencl: " + parts[i].name + ": " + answers[i].error().text() + "; its devices are not known");
      continue;
    }
    for (const Device& found : answers[i]->inventory.devices) {
      if (joined(inventory.devices, found)) continue;
      Device device = found;
      const auto taken = [&] {
        return std::any_of(inventory.devices.begin(), inventory.devices.end(), [&](const Device& d) { return d.id == device.id; });
      };
      // A driver that shows a device twice, or gives several one uuid.
      for (int n = 1; taken(); ++n) device.id = DeviceId(found.id.str() + "." + std::to_string(n));
      all.sources["devices/" + device.id.str()] = parts[i].name;
      inventory.devices.push_back(std::move(device));
    }
  }
  // Drivers without a loader: one sentence instead of one for each.
  if (unsupported > 0 && unsupported == parts.size()) return answers.front().error();
  std::sort(inventory.devices.begin(), inventory.devices.end(), [](const Device& a, const Device& b) { return a.id < b.id; });
  return all;
}

}  // namespace bourse
