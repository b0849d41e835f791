// What NVIDIA's own library says of its cards, where it can be loaded: memory, and the instances of a card that is in parts. The few
// declarations that are needed are ours, after the public reference of NVML; the library is opened at run time.
#include <dlfcn.h>

#include <array>
#include <memory>

#include "agent/probes/accelerators.h"

namespace bourse {
namespace {

constexpr const char* kLibrary = "libnvidia-ml.so.1";
constexpr std::size_t kTextMax = 96;   // NVML_DEVICE_UUID_V2_BUFFER_SIZE, and as much as a name may have
constexpr unsigned kDevicesMax = 256;  // more than any host has
constexpr std::int64_t kMiBytes = 1024LL * 1024;

using Handle = void*;
struct Memory {
  unsigned long long total, free, used;
};
struct PciInfo {
  char legacy[16];
  unsigned domain, bus, device, device_id, subsystem;
  char address[32];
};

// The functions of the library; an older one lacks some.
struct Nvml {
  void* library = nullptr;
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*driver)(char*, unsigned) = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*by_index)(unsigned, Handle*) = nullptr;
  int (*uuid)(Handle, char*, unsigned) = nullptr;
  int (*name)(Handle, char*, unsigned) = nullptr;
  int (*memory)(Handle, Memory*) = nullptr;
  int (*pci)(Handle, PciInfo*) = nullptr;
  int (*mig_mode)(Handle, unsigned*, unsigned*) = nullptr;
  int (*mig_count)(Handle, unsigned*) = nullptr;
  int (*mig_by_index)(Handle, unsigned, Handle*) = nullptr;
  int (*gpu_instance)(Handle, unsigned*) = nullptr;
  int (*compute_instance)(Handle, unsigned*) = nullptr;

  template <class F>
  bool find(F& function, const char* symbol) {
    function = reinterpret_cast<F>(dlsym(library, symbol));
    return function != nullptr;
  }
  bool load(const char* path) {
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return false;
    (void)find(driver, "nvmlSystemGetDriverVersion");
    (void)(find(mig_mode, "nvmlDeviceGetMigMode") && find(mig_count, "nvmlDeviceGetMaxMigDeviceCount") &&
           find(mig_by_index, "nvmlDeviceGetMigDeviceHandleByIndex") && find(gpu_instance, "nvmlDeviceGetGpuInstanceId") &&
           find(compute_instance, "nvmlDeviceGetComputeInstanceId"));
    return find(init, "nvmlInit_v2") && find(shutdown, "nvmlShutdown") && find(count, "nvmlDeviceGetCount_v2") &&
           find(by_index, "nvmlDeviceGetHandleByIndex_v2") && find(uuid, "nvmlDeviceGetUUID") && find(name, "nvmlDeviceGetName") &&
           find(memory, "nvmlDeviceGetMemoryInfo") && find(pci, "nvmlDeviceGetPciInfo_v3");
  }
  [[nodiscard]] bool parts() const { return compute_instance != nullptr; }
};

template <class F>
std::string text_by(F function, Handle handle) {
  std::array<char, kTextMax> text{};
  return function(handle, text.data(), static_cast<unsigned>(text.size() - 1)) == 0 ? text.data() : "";
}

// NVML writes domains with eight digits, the kernel with four.
std::string kernel_address(const PciInfo& info) {
  return accel::hex(info.domain, 4) + ":" + accel::hex(info.bus, 2) + ":" + accel::hex(info.device, 2) + ".0";
}

void set_memory(const Nvml& nvml, Handle handle, Device& device) {
  Memory memory{};
  if (nvml.memory(handle, &memory) == 0 && memory.total > 0)
    device.counters.set("mem", static_cast<std::int64_t>(memory.total / kMiBytes));
}

// "NVIDIA A100-SXM4-40GB MIG 1g.5gb": the profile is what jobs ask for.
std::string profile_of(const std::string& name) {
  const std::size_t at = name.rfind("MIG ");
  return at == std::string::npos ? "" : name.substr(at + 4);
}

bool add_parts(const Nvml& nvml, Handle card_handle, const Device& card, ProbeReport& report, const std::string& source) {
  unsigned current = 0, pending = 0, most = 0;
  if (!nvml.parts() || nvml.mig_mode(card_handle, &current, &pending) != 0 || current == 0) return false;
  if (nvml.mig_count(card_handle, &most) != 0) return false;
  bool any = false;
  for (unsigned i = 0; i < std::min(most, kDevicesMax); ++i) {
    Handle handle = nullptr;
    unsigned gi = 0, ci = 0;
    if (nvml.mig_by_index(card_handle, i, &handle) != 0 || nvml.gpu_instance(handle, &gi) != 0 ||
        nvml.compute_instance(handle, &ci) != 0)
      continue;
    Device part = card;
    const std::string number = std::to_string(gi) + "/" + std::to_string(ci);
    part.id = DeviceId("MIG-" + card.id.str() + "/" + number);
    part.model = text_by(nvml.name, handle);
    part.counters = {};
    part.attributes = {{"parent", card.id.str()}, {"mig", number}};
    if (const std::string profile = profile_of(part.model); !profile.empty()) part.attributes["type"] = profile;
    set_memory(nvml, handle, part);
    accel::add(report, std::move(part), source);
    any = true;
  }
  return any;
}

}  // namespace

Result<ProbeReport> run_nvml(const ProbeInput& input) {
  const std::string path = input.option("library").empty() ? kLibrary : input.option("library");
  Nvml nvml;
  // Absence is no fault, and neither is a driver that is not loaded: then there is nothing to refine.
  if (!nvml.load(path.c_str())) {
    if (input.option("library").empty()) return ProbeReport{};
    const char* why = dlerror();  // NOLINT(concurrency-mt-unsafe)
    return Error(Code::kNotFound, why == nullptr ? path + " lacks a function of NVML" : why);
  }
  if (const int rc = nvml.init(); rc != 0) {
    ProbeReport report;
    report.inventory.notes.push_back("nvml: " + path + " answers " + std::to_string(rc) + "; going by the driver's files");
    return report;
  }
  ProbeReport report;
  std::array<char, kTextMax> version{};
  if (nvml.driver != nullptr) (void)nvml.driver(version.data(), static_cast<unsigned>(version.size() - 1));
  const std::string source = path + (version[0] == '\0' ? "" : " " + std::string(version.data()));
  unsigned devices = 0;
  if (nvml.count(&devices) != 0) devices = 0;
  for (unsigned i = 0; i < std::min(devices, kDevicesMax); ++i) {
    Handle handle = nullptr;
    PciInfo pci{};
    if (nvml.by_index(i, &handle) != 0) continue;
    Device card;
    card.kind = "gpu/nvidia";
    card.vendor = "NVIDIA";
    card.model = text_by(nvml.name, handle);
    if (nvml.pci(handle, &pci) == 0) card.pci = kernel_address(pci);
    const std::string uuid = text_by(nvml.uuid, handle);
    card.id = DeviceId(valid_name(uuid) ? uuid : card.pci);
    if (card.id.empty()) continue;
    if (add_parts(nvml, handle, card, report, source)) continue;
    set_memory(nvml, handle, card);
    accel::add(report, std::move(card), source);
  }
  (void)nvml.shutdown();
  return report;
}

}  // namespace bourse
