// The helper process: what it answers, and what becomes of runs whose process crashes, hangs, babbles or says nothing.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "agent/helper/runner.h"
#include "agent/hotplug.h"
#include "agent/probes/run_probe.h"
#include "tests/world/support.h"

namespace bourse {
namespace {

using test::TempDir;

class Helper : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* bin = std::getenv("BOURSE_BIN");
    real_ = bin == nullptr ? "" : std::string(bin) + "/bourse-helper";
    if (real_.empty()) GTEST_SKIP() << "set BOURSE_BIN to the folder of bourse-helper, as make check does";
    ASSERT_EQ(access(real_.c_str(), X_OK), 0) << real_ << " is not built";
  }
  // A program in its place.
  std::string script(const std::string& text) {
    const std::string path = dir_.path() + "/helper-" + std::to_string(++scripts_);
    std::ofstream(path) << "#!/bin/sh\n" << text << "\n";
    chmod(path.c_str(), 0755);
    return path;
  }
  ProbeInput small() {
    ProbeInput input;
    input.options["topology"] = "synthetic:core:2 pu:1";
    return input;
  }
  TempDir dir_;
  std::string real_;
  int scripts_ = 0;
};

TEST_F(Helper, AnswersWithWhatTheProbeFinds) {
  const HelperResult result = run_helper(real_, "hwloc", small(), seconds(20));
  ASSERT_TRUE(result.report) << result.report.error().text();
  EXPECT_EQ(result.report->inventory.total.cpus, MilliCpus{2000});
  EXPECT_NE(result.report->sources.at("").find("libhwloc"), std::string::npos);
  EXPECT_GT(result.took, Duration(0));
}

TEST_F(Helper, BringsTheProbesOwnErrorBack) {
  ProbeInput input;
  input.options["topology"] = "/nonexistent.xml";
  const HelperResult result = run_helper(real_, "hwloc", input, seconds(20));
  ASSERT_FALSE(result.report);
  EXPECT_EQ(result.report.error().code(), Code::kInvalid);
  EXPECT_NE(result.report.error().text().find("/nonexistent.xml"), std::string::npos);
  EXPECT_EQ(run_helper(real_, "no_such", {}, seconds(20)).report.error().code(), Code::kNotFound);
}

TEST_F(Helper, ACrashIsToldWithItsSignalAndLastWords) {
  const HelperResult result = run_helper(script("echo driver panic at 0x42 >&2; kill -SEGV $$"), "x", {}, seconds(20));
  ASSERT_FALSE(result.report);
  EXPECT_EQ(result.report.error().text(), "crashed: SIGSEGV (signal 11); it said: driver panic at 0x42");
  const HelperResult exits = run_helper(script("exit 7"), "x", {}, seconds(20));
  EXPECT_EQ(exits.report.error().text(), "ended with status 7 and no report");
}

TEST_F(Helper, AHangEndsAtItsLimitWithAllItStarted) {
  const std::string pids = dir_.path() + "/pids";
  const std::string hang = script("sleep 40 & echo $! $$ > " + pids + "; wait");
  const Duration before = real_time().mono;
  const HelperResult result = run_helper(hang, "x", {}, milliseconds(1500));
  EXPECT_LT(real_time().mono - before, seconds(15));
  ASSERT_FALSE(result.report);
  EXPECT_EQ(result.report.error().code(), Code::kTimeout);
  EXPECT_EQ(result.report.error().text(), "gave no answer within 1s500ms and was killed");
  std::ifstream file(pids);
  pid_t child = 0, parent = 0;
  ASSERT_TRUE(file >> child >> parent);
  for (int i = 0; i < 500 && (kill(child, 0) == 0 || kill(parent, 0) == 0); ++i) {
    // A process that nobody has reaped yet still answers kill(0).
    std::ifstream stat("/proc/" + std::to_string(child) + "/stat");
    std::string pid, name, state;
    if (!(stat >> pid >> name >> state) || state == "Z") break;
    usleep(10'000);
  }
  std::ifstream stat("/proc/" + std::to_string(child) + "/stat");
  std::string pid, name, state = "gone";
  stat >> pid >> name >> state;
  EXPECT_TRUE(state == "gone" || state == "Z") << state;
}

TEST_F(Helper, OneThatHangsKeepsNoOtherWaiting) {
  Reactor reactor;
  HelperRunner runner(reactor, script("case $1 in hwloc) exec " + real_ + " \"$@\" ;; *) exec sleep 1000 ;; esac"));
  std::vector<std::string> order;
  const auto note = [&](const std::string& name) {
    return [&, name](HelperResult result) {
      order.push_back(name + (result.report ? " ok" : " " + std::string(code_text(result.report.error().code()))));
      if (order.size() == 3) reactor.stop();
    };
  };
  runner.run("hangs", {}, seconds(4), note("hangs"));
  runner.run("hwloc", small(), seconds(20), note("one"));
  runner.run("hwloc", small(), seconds(20), note("two"));
  reactor.run();
  ASSERT_EQ(order.size(), 3u);
  EXPECT_EQ(order[2], "hangs " + std::string(code_text(Code::kTimeout)));
  EXPECT_EQ(order[0].substr(3), " ok");
  EXPECT_EQ(order[1].substr(3), " ok");
}

TEST_F(Helper, NonsenseAndFloodsAreRefused) {
  const HelperResult babble = run_helper(script("echo nonsense >&3"), "x", {}, seconds(20));
  EXPECT_EQ(babble.report.error().code(), Code::kCorrupt);
  const HelperResult flood = run_helper(script("head -c 20000000 /dev/zero >&3"), "x", {}, seconds(60));
  EXPECT_EQ(flood.report.error().code(), Code::kCorrupt);
  EXPECT_NE(flood.report.error().text().find("more than"), std::string::npos);
  EXPECT_EQ(run_helper("/nonexistent/helper", "x", {}, seconds(5)).report.error().code(), Code::kIo);
}

TEST_F(Helper, RunsThatAreLeftBehindAreKilledAndNotTold) {
  const std::string pid_file = dir_.path() + "/pid";
  bool told = false;
  {
    Reactor reactor;
    HelperRunner runner(reactor, script("echo $$ > " + pid_file + "; sleep 1000"));
    runner.run("x", {}, seconds(100), [&](HelperResult) { told = true; });
    for (int i = 0; i < 1000 && access(pid_file.c_str(), F_OK) != 0; ++i) reactor.turn(milliseconds(10));
    for (int i = 0; i < 10; ++i) reactor.turn(milliseconds(10));
  }
  EXPECT_FALSE(told);
  std::ifstream file(pid_file);
  pid_t pid = 0;
  ASSERT_TRUE(file >> pid);
  std::string state = "R";
  for (int i = 0; i < 500 && state != "Z" && state != "gone"; ++i) {
    std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
    std::string number, name;
    state = "gone";
    stat >> number >> name >> state;
    usleep(10'000);
  }
  EXPECT_TRUE(state == "gone" || state == "Z") << state;
}

// --- reports --------------------------------------------------------------------------------------------------------------

TEST(Report, ReadsBackAndDamageIsNoticed) {
  ProbeReport report;
  report.inventory.labels["a"] = "b";
  Device device;
  device.id = DeviceId("d1");
  device.kind = "fpga";
  report.inventory.devices = {device};
  report.sources = {{"", "here"}, {"devices/d1", "there"}};
  const std::string bytes = encode_report(report);
  const auto back = decode_report(bytes);
  ASSERT_TRUE(back) << back.error().text();
  EXPECT_EQ(*back, report);
  for (std::size_t cut = 0; cut < bytes.size(); ++cut) EXPECT_FALSE(decode_report(bytes.substr(0, cut))) << cut;
  EXPECT_FALSE(decode_report(bytes + "x"));
  const auto error = decode_report(encode_report(Error(Code::kInvalid, "devices.toml:3: bad")));
  ASSERT_FALSE(error);
  EXPECT_EQ(error.error().code(), Code::kInvalid);
  EXPECT_EQ(error.error().text(), "devices.toml:3: bad");
}

TEST(Catalog, HasAFunctionForEachProbeAndNoOther) {
  const auto& catalog = probe_catalog();
  const auto& functions = probe_functions();
  ASSERT_EQ(catalog.size(), functions.size());
  for (std::size_t i = 0; i < catalog.size(); ++i) {
    EXPECT_EQ(catalog[i].name, functions[i].first);
    EXPECT_GT(catalog[i].limit, Duration(0));
  }
}

// --- hot-plug --------------------------------------------------------------------------------------------------------------

TEST(Hotplug, HardwareIsToldFromOtherNews) {
  using namespace std::string_literals;
  EXPECT_EQ(hardware_of_uevent("add@/devices/pci0/0000:01:00.0\0ACTION=add\0SUBSYSTEM=pci\0SEQNUM=7\0"s),
            "add /devices/pci0/0000:01:00.0 (pci)");
  EXPECT_EQ(hardware_of_uevent("change@/devices/virtual/block/loop0\0ACTION=change\0SUBSYSTEM=block\0"s), "");
  EXPECT_EQ(hardware_of_uevent("change@/devices/virtual/misc/kvm\0ACTION=change\0SUBSYSTEM=misc\0EVENT=create\0"s), "")
      << "a guest of somebody's";
  EXPECT_EQ(hardware_of_uevent("libudev\0\xfe\xed"s), "");
  EXPECT_EQ(hardware_of_uevent(""), "");
}

// The kernel sends a real event when somebody asks it to by the device's `uevent` file.
TEST(Hotplug, TheKernelsWordComesThroughOnceForASwarm) {
  std::vector<std::string> heard;
  Reactor reactor;
  HotplugWatch watch(reactor, [&](const std::string& what) { heard.push_back(what); });
  if (!watch.open()) GTEST_SKIP() << "no netlink socket for hot-plug events here";
  for (int i = 0; i < 3; ++i) {
    std::ofstream file("/sys/devices/system/cpu/cpu0/uevent");
    file << "change\n";
    file.close();
    if (!file) GTEST_SKIP() << "/sys is not writable here";
  }
  const Duration end = real_time().mono + seconds(10);
  while (heard.empty() && real_time().mono < end) reactor.turn(milliseconds(50));
  if (heard.empty()) GTEST_SKIP() << "this kernel sends no hot-plug events to this network namespace";
  for (int i = 0; i < 20; ++i) reactor.turn(milliseconds(20));
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_EQ(heard[0], "change /devices/system/cpu/cpu0 (cpu)");
}

}  // namespace
}  // namespace bourse
