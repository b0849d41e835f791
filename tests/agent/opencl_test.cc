// What is made of what OpenCL says, for hardware that is not here. Real drivers are in opencl.test.
#include <gtest/gtest.h>

#include "agent/probes/opencl.h"

namespace bourse {
namespace {

constexpr std::uint64_t kCpu = 2, kGpu = 4, kAccelerator = 8;  // CL_DEVICE_TYPE_* of the OpenCL specification

OpenclDevice a_device(std::uint64_t type, std::uint32_t vendor_id) {
  OpenclDevice device;
  device.platform = "Some Platform (R) 3.0";
  device.type = type;
  device.vendor_id = vendor_id;
  device.memory = 16'911'433'728;  // 16128 MiB, as an A4000 says
  device.units = 48;
  device.index = 1;
  return device;
}

TEST(OpenclProbe, NamesTheKindAsTheProbesOfVendorsDo) {
  EXPECT_EQ(describe(a_device(kGpu, 0x10de)).kind, "gpu/nvidia");
  EXPECT_EQ(describe(a_device(kGpu, 0x1002)).kind, "gpu/amd");
  EXPECT_EQ(describe(a_device(kGpu, 0x8086)).kind, "gpu/intel");
  OpenclDevice unheard = a_device(kGpu, 0);
  unheard.vendor = "Moore Threads";
  EXPECT_EQ(describe(unheard).kind, "gpu/moore-threads");
  EXPECT_EQ(describe(a_device(kAccelerator, 0x10ee)).kind, "fpga");
  OpenclDevice intel = a_device(kAccelerator, 0x1172);
  intel.platform = "Intel(R) FPGA SDK for OpenCL(TM)";
  EXPECT_EQ(describe(intel).kind, "fpga");
  EXPECT_EQ(describe(a_device(kCpu, 0x8086)).kind, "opencl/cpu");
  EXPECT_EQ(describe(a_device(16, 0)).kind, "opencl/custom");
}

TEST(OpenclProbe, ADeviceIsNamedByWhatStays) {
  OpenclDevice device = a_device(kGpu, 0x10de);
  EXPECT_EQ(describe(device).id.str(), "opencl:some-platform-r-3-0:1");
  device.pci = "0000:3b:00.0";
  EXPECT_EQ(describe(device).id.str(), "opencl:0000:3b:00.0");
  EXPECT_EQ(describe(device).pci, "0000:3b:00.0") << "so that it is one with the device that a vendor's probe found";
  device.uuid = "00112233445566778899aabbccddeeff";
  EXPECT_EQ(describe(device).id.str(), "opencl:00112233445566778899aabbccddeeff");
  EXPECT_TRUE(valid_name(describe(device).id.str()));
  device = a_device(kGpu, 1);
  device.platform = std::string(200, '*');
  EXPECT_TRUE(valid_name(describe(device).id.str())) << describe(device).id.str();
}

TEST(OpenclProbe, MemoryIsADevicesOwnOrTheHosts) {
  EXPECT_EQ(describe(a_device(kGpu, 0x10de)).counters.get("mem"), 16128);
  EXPECT_EQ(describe(a_device(kCpu, 0x8086)).counters.get("mem"), 0);
  EXPECT_EQ(describe(a_device(kCpu, 0x8086)).counters.get("units"), 48);
}

TEST(OpenclProbe, IsNotAskedAboutAHostThatIsATreeOfFiles) {
  ProbeInput input;
  input.root = "/nowhere";
  const auto report = run_opencl(input);
  ASSERT_TRUE(report) << report.error().text();
  EXPECT_EQ(*report, ProbeReport{});
}

}  // namespace
}  // namespace bourse
