// Ascend NPUs. A chip has AI cores (npu.compute) and AI CPUs (npu.control), asked for apart, but given away only in the fixed mixtures of
// its vendor: the templates below. They are those of the vendor's virtualisation guide as HAMi's device configuration (Apache-2.0,
// charts/hami/templates/scheduler/device-configmap.yaml) lists them; chips that it does not list are only had whole.
#include <algorithm>

#include "agent/probes/accelerators.h"

namespace bourse {
namespace {

constexpr std::uint32_t kVendor = 0x19e5;

struct Template {
  const char* name;
  std::int64_t cores, cpus, mem;  // mem in MiB
};
struct Chip {
  const char* name;
  std::int64_t cores, cpus, mem;
  std::vector<Template> templates;
};

const std::vector<Chip>& chips() {
  static const std::vector<Chip> known = {
      {"910A", 30, 0, 32768, {{"vir02", 2, 0, 2184}, {"vir04", 4, 0, 4369}, {"vir08", 8, 0, 8738}, {"vir16", 16, 0, 17476}}},
      {"910B2", 24, 6, 65536, {{"vir03_1c_8g", 3, 1, 8192}, {"vir06_1c_16g", 6, 1, 16384}, {"vir12_3c_32g", 12, 3, 32768}}},
      {"910B3", 20, 7, 65536, {{"vir05_1c_16g", 5, 1, 16384}, {"vir10_3c_32g", 10, 3, 32768}}},
      {"910B4", 20, 7, 32768, {{"vir05_1c_8g", 5, 1, 8192}, {"vir10_3c_16g", 10, 3, 16384}}},
      {"910B4-1", 20, 7, 65536, {{"vir05_1c_16g", 5, 1, 16384}, {"vir10_3c_32g", 10, 3, 32768}}},
      {"910C", 20, 7, 65536, {{"vir05_1c_16g", 5, 1, 16384}, {"vir10_3c_32g", 10, 3, 32768}}},
      {"310P3",
       8,
       7,
       21527,
       {{"vir01", 1, 1, 3072}, {"vir02", 2, 2, 6144}, {"vir02_1c", 2, 1, 6144}, {"vir04", 4, 4, 12288}, {"vir04_3c", 4, 3, 12288}}},
  };
  return known;
}

// What the bus tells. The variants of the 910B and 910C differ in what the vendor's library knows only: the option "chip" says it.
const char* family(std::uint32_t device) {
  switch (device) {
    case 0xd100:
      return "310";
    case 0xd500:
      return "310P";
    case 0xd801:
      return "910A";
    case 0xd802:
      return "910B";
    case 0xd803:
      return "910C";
    default:
      return nullptr;
  }
}

Counters amounts(std::int64_t cores, std::int64_t cpus, std::int64_t mem) {
  Counters out;
  out.set("npu.compute", cores);
  out.set("npu.control", cpus);
  out.set("mem", mem);
  return out;
}

}  // namespace

Result<ProbeReport> run_ascend(const ProbeInput& input) {
  const Rooted files = accel::files_of(input);
  const std::string option = input.option("chip");
  const auto find = [](const std::string& name) {
    return std::find_if(chips().begin(), chips().end(), [&](const Chip& c) { return c.name == name; });
  };
  if (!option.empty() && find(option) == chips().end()) {
    std::string known;
    for (const Chip& chip : chips()) known += (known.empty() ? "" : ", ") + std::string(chip.name);
    return Error(Code::kInvalid, "agent.probe_options: ascend.chip is `" + option + "', expected one of " + known);
  }
  ProbeReport report;
  std::size_t index = 0;  // the driver numbers chips in the order of the bus
  for (const accel::PciDevice& pci : accel::pci_devices(files, kVendor)) {
    const char* name = family(pci.device);
    if (name == nullptr) continue;  // the maker builds network cards as well
    const std::string number = std::to_string(index++);
    std::string chip_name = option.compare(0, std::string(name).size(), name) == 0 && !option.empty() ? option : name;
    if (chip_name == "310P") chip_name = "310P3";
    Device npu;
    npu.id = DeviceId("npu-" + pci.address);
    npu.kind = "npu/ascend";
    npu.vendor = "Huawei";
    npu.model = "Ascend " + chip_name;
    npu.pci = pci.address;
    npu.numa = pci.numa;
    npu.attributes["type"] = chip_name;
    npu.attributes["env.ASCEND_VISIBLE_DEVICES"] = number;
    npu.attributes["env.ASCEND_RT_VISIBLE_DEVICES"] = number;
    if (const auto chip = find(chip_name); chip != chips().end()) {
      npu.mode = Device::Mode::kTemplate;
      npu.counters = amounts(chip->cores, chip->cpus, chip->mem);
      for (const Template& t : chip->templates) npu.profiles[t.name] = amounts(t.cores, t.cpus, t.mem);
    }
    accel::add_nodes(files, npu, {"/dev/davinci" + number, "/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc"});
    report.sources["devices/" + npu.id.str() + "/npu.compute"] = report.sources["devices/" + npu.id.str() + "/npu.control"] =
        option.empty() ? "PCI device " + accel::hex(pci.device, 4) : "agent.probe_options ascend.chip";
    accel::add(report, std::move(npu), "/sys/bus/pci/devices/" + pci.address);
  }
  return report;
}

}  // namespace bourse
