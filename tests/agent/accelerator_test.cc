// Accelerators from fixture trees; tests/data/sysfs/README says what they are after. And NVML, by a library of our own.
#include <gtest/gtest.h>

#include <cstdlib>

#include "agent/helper/runner.h"
#include "agent/merge.h"
#include "agent/probes/accelerators.h"
#include "tests/world/support.h"

namespace bourse {
namespace {

ProbeInput tree(const std::string& name) {
  ProbeInput input;
  input.root = std::filesystem::absolute("tests/data/sysfs/" + name).string();
  return input;
}

std::vector<Device> devices(const Result<ProbeReport>& report) {
  EXPECT_TRUE(report) << report.error().text();
  if (!report) return {};
  for (const Device& device : report->inventory.devices) {
    EXPECT_TRUE(valid_name(device.id.str())) << device.id.str();
    EXPECT_EQ(report->sources.count("devices/" + device.id.str()), 1u) << device.id.str();
  }
  EXPECT_TRUE(decode_report(encode_report(report)));
  return report->inventory.devices;
}

TEST(Nvidia, CardsOfTheDriverAndThoseThatItDoesNotServe) {
  const auto all = devices(run_nvidia(tree("nvidia")));
  ASSERT_EQ(all.size(), 4u);
  const Device& lost = all[0];  // "0000:17:00.0", with another driver
  EXPECT_EQ(lost.id.str(), "0000:17:00.0");
  EXPECT_FALSE(lost.healthy);
  EXPECT_EQ(lost.attributes.at("unhealthy"), "driver nouveau serves it, not NVIDIA's");
  const Device& second = all[1];  // GPU-0aa6..., the first by name
  EXPECT_EQ(second.id.str(), "GPU-0aa65a0f-d09c-be29-28a7-5c7b8a3b5d31");
  EXPECT_EQ(second.kind, "gpu/nvidia");
  EXPECT_EQ(second.model, "NVIDIA A100-SXM4-40GB");
  EXPECT_EQ(second.attributes.at("type"), "a100");
  EXPECT_EQ(second.attributes.at("driver"), "535.104.05");
  EXPECT_EQ(second.attributes.at("env.CUDA_VISIBLE_DEVICES"), second.id.str());
  EXPECT_EQ(second.pci, "0000:af:00.0");
  EXPECT_EQ(second.numa, 1);
  EXPECT_TRUE(second.healthy);
  EXPECT_EQ(second.nodes, (std::vector<std::string>{"/dev/nvidia1", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"}));
  EXPECT_EQ(all[2].numa, 0);
  EXPECT_FALSE(all[3].healthy);
  EXPECT_EQ(all[3].attributes.at("unhealthy"), "the driver excludes it");
}

TEST(Nvidia, InstancesOfACardInPartsAreDevices) {
  const auto all = devices(run_nvidia(tree("nvidia_mig")));
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].id.str(), "MIG-GPU-63feeb45-94c6-b9cb-78ea-98e9b7a5be6b/1/0");
  EXPECT_EQ(all[0].attributes.at("parent"), "GPU-63feeb45-94c6-b9cb-78ea-98e9b7a5be6b");
  EXPECT_EQ(all[0].attributes.at("env.CUDA_VISIBLE_DEVICES"), all[0].id.str());
  EXPECT_EQ(all[0].numa, 3);
  EXPECT_EQ(all[0].nodes, (std::vector<std::string>{"/dev/nvidia-caps/nvidia-cap13", "/dev/nvidia-caps/nvidia-cap12",
                                                    "/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm"}));
  EXPECT_TRUE(all[0].healthy && all[1].healthy);
  EXPECT_EQ(all[2].id.str(), "MIG-GPU-63feeb45-94c6-b9cb-78ea-98e9b7a5be6b/7/0");
  EXPECT_FALSE(all[2].healthy);
  EXPECT_EQ(all[2].attributes.at("unhealthy"), "/dev/nvidia-caps/nvidia-cap67 is not there");
}

TEST(Amdgpu, CardsOfTheKfdTopology) {
  const auto all = devices(run_amdgpu(tree("amd")));
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].id.str(), "GPU-1d97f21bba0f6fd2");
  EXPECT_EQ(all[1].id.str(), "GPU-7c8fa2e0bc2e1a54");
  EXPECT_EQ(all[1].pci, "0000:43:00.0");
  EXPECT_EQ(all[1].numa, 0);
  EXPECT_EQ(all[0].numa, 1);
  EXPECT_EQ(all[1].counters.get("mem"), 65520);  // 68702699520 / 2^20
  EXPECT_EQ(all[1].attributes.at("type"), "gfx90a");
  EXPECT_EQ(all[1].attributes.at("compute_units"), "104");  // an MI210 has that many
  EXPECT_EQ(all[1].nodes, (std::vector<std::string>{"/dev/dri/renderD128", "/dev/kfd"}));
  EXPECT_EQ(all[1].attributes.at("env.ROCR_VISIBLE_DEVICES"), "GPU-7c8fa2e0bc2e1a54");
  EXPECT_EQ(all[0].links, (std::vector<DeviceId>{all[1].id}));
  EXPECT_TRUE(all[0].healthy);
}

TEST(Ascend, AiCoresAndAiCpusAreCountersWithTheVendorsTemplates) {
  auto all = devices(run_ascend(tree("ascend")));
  ASSERT_EQ(all.size(), 3u);  // the maker's network card is none
  EXPECT_EQ(all[0].id.str(), "npu-0000:3b:00.0");
  EXPECT_EQ(all[0].mode, Device::Mode::kTemplate);
  EXPECT_EQ(all[0].counters.get("npu.compute"), 30);
  EXPECT_EQ(all[0].profiles.at("vir16").get("mem"), 17476);
  EXPECT_EQ(all[0].nodes.front(), "/dev/davinci0");
  EXPECT_EQ(all[0].attributes.at("env.ASCEND_VISIBLE_DEVICES"), "0");
  EXPECT_FALSE(all[1].healthy);                      // /dev/davinci1
  EXPECT_EQ(all[2].mode, Device::Mode::kExclusive);  // which 910B the bus does not say
  ProbeInput input = tree("ascend");
  input.options["chip"] = "910B2";
  all = devices(run_ascend(input));
  EXPECT_EQ(all[2].mode, Device::Mode::kTemplate);
  EXPECT_EQ(all[2].counters.get("npu.compute"), 24);
  EXPECT_EQ(all[2].counters.get("npu.control"), 6);
  EXPECT_EQ(all[2].profiles.at("vir06_1c_16g").get("mem"), 16384);
  EXPECT_EQ(all[0].counters.get("npu.compute"), 30);  // the option is for what it can be
  for (const Device& device : all)
    for (const auto& [name, consumes] : device.profiles) EXPECT_TRUE(device.counters.contains(consumes)) << name;
  input.options["chip"] = "911";
  EXPECT_EQ(run_ascend(input).error().code(), Code::kInvalid);
}

TEST(Fpga, PortsOfADflCardAndRegionsOfManagers) {
  const auto dfl = devices(run_fpga(tree("dfl")));
  ASSERT_EQ(dfl.size(), 1u);
  EXPECT_EQ(dfl[0].id.str(), "fpga-0000:d8:00.0/port0");
  EXPECT_EQ(dfl[0].attributes.at("bitstream"), "9aeffe5f84570612c000c9660d824272");
  EXPECT_EQ(dfl[0].nodes, (std::vector<std::string>{"/dev/dfl-port.0"}));
  EXPECT_EQ(dfl[0].numa, 1);
  const auto zynq = devices(run_fpga(tree("zynqmp")));
  ASSERT_EQ(zynq.size(), 2u);
  EXPECT_EQ(zynq[0].model, "Xilinx ZynqMP FPGA Manager");
  EXPECT_TRUE(zynq[0].healthy);
  EXPECT_EQ(zynq[1].attributes.at("unhealthy"), "fpga1 is in state write error");
}

TEST(Accelerators, AHostWithoutAnyHasNone) {
  test::TempDir dir;
  ProbeInput input;
  input.root = dir.path();
  for (const ProbeFunction probe : {run_nvidia, run_amdgpu, run_ascend, run_fpga}) EXPECT_TRUE(devices(probe(input)).empty());
  EXPECT_TRUE(devices(run_nvml(input)).empty());
  for (const char* name : {"nvidia", "nvml", "amdgpu", "ascend", "fpga"})
    EXPECT_FALSE(worth_running(*find_probe(name), input)) << name;
  EXPECT_TRUE(worth_running(*find_probe("nvidia"), tree("nvidia")));
}

// --- a library of our own in place of NVML, in the helper: it may do what it likes there ------------------------------------------------

class Nvml : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* bin = std::getenv("BOURSE_BIN");
    helper_ = bin == nullptr ? "" : std::string(bin) + "/bourse-helper";
    if (helper_.empty()) GTEST_SKIP() << "set BOURSE_BIN to the folder of bourse-helper, as make check does";
    ASSERT_EQ(access(helper_.c_str(), X_OK), 0) << helper_ << " is not built";
    library_ = dir_ / "libfake-nvml.so";
    const std::string build = "cc -shared -fPIC -o " + library_ + " tests/data/fake_nvml.c 2>" + (dir_ / "cc.log");
    ASSERT_EQ(std::system(build.c_str()), 0);
  }
  HelperResult run(const char* how, Duration limit = seconds(20)) {
    setenv("BOURSE_FAKE_NVML", how, 1);
    ProbeInput input = tree("nvidia");
    input.options["library"] = library_;
    HelperResult result = run_helper(helper_, "nvml", input, limit);
    unsetenv("BOURSE_FAKE_NVML");
    return result;
  }
  test::TempDir dir_;
  std::string helper_, library_;
};

TEST_F(Nvml, RefinesTheFactsAndTheSmallerMemoryCounts) {
  const HelperResult library = run("cards");
  ASSERT_TRUE(library.report) << library.report.error().text();
  const auto files = run_nvidia(tree("nvidia"));
  ProbeReport declared;
  Device said;
  said.id = DeviceId("GPU-0aa65a0f-d09c-be29-28a7-5c7b8a3b5d31");
  said.kind = "gpu/nvidia";
  said.counters.set("mem", 40960);
  declared.inventory.devices = {said};
  const Merged all = merge({{"declared", &declared.inventory, &declared.sources},
                            {"nvidia", &files->inventory, &files->sources},
                            {"nvml", &library.report->inventory, &library.report->sources}},
                           {});
  ASSERT_EQ(all.inventory.devices.size(), 4u);
  const Device& card = all.inventory.devices[1];
  EXPECT_EQ(card.id.str(), "GPU-0aa65a0f-d09c-be29-28a7-5c7b8a3b5d31");
  EXPECT_EQ(card.counters.get("mem"), 40536);
  EXPECT_EQ(card.nodes.front(), "/dev/nvidia1");
  bool noted = false;
  for (const std::string& note : all.inventory.notes)
    noted = noted || (note.find("declared says 40960") != std::string::npos &&
                      note.find("535.104.05 says 40536; using 40536") != std::string::npos);
  EXPECT_TRUE(noted) << all.inventory.notes.size();
}

TEST_F(Nvml, InstancesHaveTheIdsOfTheDriversFiles) {
  const HelperResult result = run("mig");
  ASSERT_TRUE(result.report) << result.report.error().text();
  ASSERT_EQ(result.report->inventory.devices.size(), 2u);
  EXPECT_EQ(result.report->inventory.devices[0].id.str(), "MIG-GPU-63feeb45-94c6-b9cb-78ea-98e9b7a5be6b/1/0");
  EXPECT_EQ(result.report->inventory.devices[0].attributes.at("type"), "3g.20gb");
  EXPECT_EQ(result.report->inventory.devices[0].counters.get("mem"), 19968);
}

TEST_F(Nvml, ThatCrashesOrHangsCostsItsOwnRun) {
  const HelperResult crash = run("crash");
  ASSERT_FALSE(crash.report);
  EXPECT_EQ(crash.report.error().code(), Code::kGone);
  EXPECT_NE(crash.report.error().text().find("SIGSEGV (signal 11); it said: fake nvml: about to crash"), std::string::npos)
      << crash.report.error().text();
  const HelperResult hang = run("hang", seconds(2));
  ASSERT_FALSE(hang.report);
  EXPECT_EQ(hang.report.error().code(), Code::kTimeout);
  const HelperResult refuses = run("not_loaded");
  ASSERT_TRUE(refuses.report);
  EXPECT_TRUE(refuses.report->inventory.devices.empty());
  EXPECT_EQ(refuses.report->inventory.notes.size(), 1u);
}

}  // namespace
}  // namespace bourse
