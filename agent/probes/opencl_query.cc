// Asks OpenCL, through a loader that is opened at run time. Runs in a child of its own: see apart.h.
#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <dlfcn.h>

#include <array>
#include <cstdio>

#include "agent/probes/opencl.h"

namespace bourse {
namespace {

constexpr cl_uint kPlatformsMax = 64, kDevicesMax = 1024;
constexpr std::size_t kTextMax = 32 * 1024;

// Of extensions, whose headers not every distribution has.
constexpr cl_device_info kUuidKhr = 0x106A, kPciBusInfoKhr = 0x410F;             // cl_khr_device_uuid, cl_khr_pci_bus_info
constexpr cl_device_info kBusNv = 0x4008, kSlotNv = 0x4009, kDomainNv = 0x400A;  // cl_nv_device_attribute_query
constexpr cl_device_info kTopologyAmd = 0x4037;                                  // cl_amd_device_attribute_query

struct Library {
  decltype(&clGetPlatformIDs) platform_ids = nullptr;
  decltype(&clGetPlatformInfo) platform_info = nullptr;
  decltype(&clGetDeviceIDs) device_ids = nullptr;
  decltype(&clGetDeviceInfo) device_info = nullptr;

  Result<> open() {
    void* handle = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) return Error(Code::kUnsupported, "libOpenCL.so.1 cannot be loaded; install ocl-icd-libopencl1");
    platform_ids = reinterpret_cast<decltype(platform_ids)>(dlsym(handle, "clGetPlatformIDs"));
    platform_info = reinterpret_cast<decltype(platform_info)>(dlsym(handle, "clGetPlatformInfo"));
    device_ids = reinterpret_cast<decltype(device_ids)>(dlsym(handle, "clGetDeviceIDs"));
    device_info = reinterpret_cast<decltype(device_info)>(dlsym(handle, "clGetDeviceInfo"));
    if (platform_ids == nullptr || platform_info == nullptr || device_ids == nullptr || device_info == nullptr)
      return Error(Code::kUnsupported,
                   "libOpenCL.so.1 lacks clGetPlatformIDs, clGetPlatformInfo, clGetDeviceIDs or clGetDeviceInfo");
    return {};
  }

  [[nodiscard]] std::string text(cl_platform_id platform, cl_platform_info what) const {
    std::string out(kTextMax, '\0');
    std::size_t size = 0;
    if (platform_info(platform, what, out.size(), out.data(), &size) != CL_SUCCESS) return {};
    return trimmed(std::move(out), size);
  }
  [[nodiscard]] std::string text(cl_device_id device, cl_device_info what) const {
    std::string out(kTextMax, '\0');
    std::size_t size = 0;
    if (device_info(device, what, out.size(), out.data(), &size) != CL_SUCCESS) return {};
    return trimmed(std::move(out), size);
  }
  template <class T>
  [[nodiscard]] T value(cl_device_id device, cl_device_info what, T otherwise = {}) const {
    T out{};
    return device_info(device, what, sizeof out, &out, nullptr) == CL_SUCCESS ? out : otherwise;
  }

  // What a driver says is not believed to be text, nor to end where it says.
  static std::string trimmed(std::string text, std::size_t size) {
    text.resize(std::min(size, text.size()));
    text.resize(std::min(text.size(), text.find('\0')));
    for (char& c : text)
      if (static_cast<unsigned char>(c) < ' ' || static_cast<unsigned char>(c) > '~') c = ' ';
    const auto first = text.find_first_not_of(' ');
    if (first == std::string::npos) return {};
    return text.substr(first, text.find_last_not_of(' ') - first + 1);
  }
};

std::string address(std::uint32_t domain, std::uint32_t bus, std::uint32_t device, std::uint32_t function) {
  char text[40];
  std::snprintf(text, sizeof text, "%04x:%02x:%02x.%x", domain, bus & 0xffU, device & 0x1fU, function & 7U);
  return text;
}

std::string pci_address(const Library& cl, cl_device_id device, const std::string& extensions) {
  if (extensions.find("cl_khr_pci_bus_info") != std::string::npos) {
    const auto info = cl.value<std::array<cl_uint, 4>>(device, kPciBusInfoKhr, {~0U, 0, 0, 0});
    if (info[0] != ~0U) return address(info[0], info[1], info[2], info[3]);
  }
  if (extensions.find("cl_nv_device_attribute_query") != std::string::npos) {
    const auto bus = cl.value<cl_uint>(device, kBusNv, ~0U), slot = cl.value<cl_uint>(device, kSlotNv, 0);
    if (bus != ~0U) return address(cl.value<cl_uint>(device, kDomainNv, 0), bus, slot >> 3, slot);
  }
  if (extensions.find("cl_amd_device_attribute_query") != std::string::npos) {
    struct Topology {
      cl_uint type;
      std::array<unsigned char, 17> unused;
      unsigned char bus, device, function;
    };
    const auto info = cl.value<Topology>(device, kTopologyAmd);
    if (info.type == 1) return address(0, info.bus, info.device, info.function);
  }
  return {};
}

std::string uuid(const Library& cl, cl_device_id device, const std::string& extensions) {
  if (extensions.find("cl_khr_device_uuid") == std::string::npos) return {};
  const auto bytes = cl.value<std::array<unsigned char, 16>>(device, kUuidKhr);
  std::string out;
  bool any = false;
  for (const unsigned char byte : bytes) {
    char text[4];
    std::snprintf(text, sizeof text, "%02x", byte);
    out += text;
    any = any || byte != 0;
  }
  return any ? out : std::string();
}

void add_word(std::string& words, const char* word) { words += (words.empty() ? "" : " ") + std::string(word); }

void partitions(const Library& cl, cl_device_id device, OpenclDevice& out) {
  out.sub_devices = cl.value<cl_uint>(device, CL_DEVICE_PARTITION_MAX_SUB_DEVICES);
  std::array<cl_device_partition_property, 8> kinds{};
  std::size_t size = 0;
  if (cl.device_info(device, CL_DEVICE_PARTITION_PROPERTIES, sizeof kinds, kinds.data(), &size) != CL_SUCCESS) return;
  for (std::size_t i = 0; i < std::min(size / sizeof kinds[0], kinds.size()); ++i) {
    if (kinds[i] == CL_DEVICE_PARTITION_EQUALLY) add_word(out.partitions, "equally");
    if (kinds[i] == CL_DEVICE_PARTITION_BY_COUNTS) add_word(out.partitions, "counts");
    if (kinds[i] == CL_DEVICE_PARTITION_BY_AFFINITY_DOMAIN) add_word(out.partitions, "affinity");
  }
  const auto domains = cl.value<cl_device_affinity_domain>(device, CL_DEVICE_PARTITION_AFFINITY_DOMAIN);
  const std::array<std::pair<cl_device_affinity_domain, const char*>, 6> names{
      {{CL_DEVICE_AFFINITY_DOMAIN_NUMA, "numa"},
       {CL_DEVICE_AFFINITY_DOMAIN_L4_CACHE, "l4"},
       {CL_DEVICE_AFFINITY_DOMAIN_L3_CACHE, "l3"},
       {CL_DEVICE_AFFINITY_DOMAIN_L2_CACHE, "l2"},
       {CL_DEVICE_AFFINITY_DOMAIN_L1_CACHE, "l1"},
       {CL_DEVICE_AFFINITY_DOMAIN_NEXT_PARTITIONABLE, "next"}}};
  for (const auto& [bit, name] : names)
    if ((domains & bit) != 0) add_word(out.affinities, name);
}

OpenclDevice ask(const Library& cl, cl_device_id device) {
  OpenclDevice out;
  out.name = cl.text(device, CL_DEVICE_NAME);
  out.vendor = cl.text(device, CL_DEVICE_VENDOR);
  out.version = cl.text(device, CL_DEVICE_VERSION);
  out.driver = cl.text(device, CL_DRIVER_VERSION);
  out.extensions = cl.text(device, CL_DEVICE_EXTENSIONS);
  out.type = cl.value<cl_device_type>(device, CL_DEVICE_TYPE);
  out.vendor_id = cl.value<cl_uint>(device, CL_DEVICE_VENDOR_ID);
  out.units = cl.value<cl_uint>(device, CL_DEVICE_MAX_COMPUTE_UNITS);
  out.clock_mhz = cl.value<cl_uint>(device, CL_DEVICE_MAX_CLOCK_FREQUENCY);
  out.memory = cl.value<cl_ulong>(device, CL_DEVICE_GLOBAL_MEM_SIZE);
  out.local_memory = cl.value<cl_ulong>(device, CL_DEVICE_LOCAL_MEM_SIZE);
  out.work_group = cl.value<std::size_t>(device, CL_DEVICE_MAX_WORK_GROUP_SIZE);
  out.available = cl.value<cl_bool>(device, CL_DEVICE_AVAILABLE, CL_TRUE) == CL_TRUE;
  out.compiler = cl.value<cl_bool>(device, CL_DEVICE_COMPILER_AVAILABLE, CL_TRUE) == CL_TRUE;
  out.unified = cl.value<cl_bool>(device, CL_DEVICE_HOST_UNIFIED_MEMORY, CL_FALSE) == CL_TRUE;
  out.uuid = uuid(cl, device, out.extensions);
  out.pci = pci_address(cl, device, out.extensions);
  partitions(cl, device, out);
  return out;
}

}  // namespace

Result<std::vector<OpenclDevice>> query_opencl() {
  Library cl;
  BOURSE_TRY(cl.open());
  std::vector<OpenclDevice> found;
  std::array<cl_platform_id, kPlatformsMax> platforms{};
  cl_uint count = 0;
  // With no driver at all the loader answers an error, CL_PLATFORM_NOT_FOUND_KHR: also nothing.
  if (cl.platform_ids(kPlatformsMax, platforms.data(), &count) != CL_SUCCESS) return found;
  for (cl_uint p = 0; p < std::min(count, kPlatformsMax); ++p) {
    std::vector<cl_device_id> devices(kDevicesMax);
    cl_uint devices_count = 0;
    if (cl.device_ids(platforms[p], CL_DEVICE_TYPE_ALL, kDevicesMax, devices.data(), &devices_count) != CL_SUCCESS) continue;
    for (cl_uint d = 0; d < std::min(devices_count, kDevicesMax); ++d) {
      OpenclDevice device = ask(cl, devices[d]);
      device.platform = cl.text(platforms[p], CL_PLATFORM_NAME);
      device.platform_vendor = cl.text(platforms[p], CL_PLATFORM_VENDOR);
      device.platform_version = cl.text(platforms[p], CL_PLATFORM_VERSION);
      device.index = d;
      found.push_back(std::move(device));
    }
  }
  return found;
}

}  // namespace bourse
