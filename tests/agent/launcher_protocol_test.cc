// Packets between agent and launcher: what is encoded is decoded, and nothing else is.
#include <gtest/gtest.h>

#include <random>

#include "agent/launcher/protocol.h"

namespace bourse::launcher {

namespace {

const TaskKey kTask{FrameworkId("org/batch"), TaskId("12.0.1")};
const SliceId kSlice{FrameworkId("org/batch"), 0xffffffffffffffffULL};

SliceLimits all_limits() {
  SliceLimits limits;
  limits.mem_high = Bytes{900};
  limits.devices_limited = true;
  limits.devices = {{'c', 1, 3}, {'b', 8, -1}, {'c', -1, -1}};
  limits.io = {{8, 0, 100, 200, 0, 4}, {259, 1, 0, 0, 5, 0}};
  return limits;
}

std::vector<std::string> samples() {
  TaskSpec spec;
  spec.argv = {"/bin/sh", "-c", "echo\n\"hello\""};
  spec.env = {"A=b c"};
  Confine confine;
  confine.tmp = Confine::Tmp::kMemory;
  confine.pid = confine.net = confine.seccomp = true;
  confine.capabilities = usual_capabilities();
  confine.image_bytes = std::uint64_t{1} << 40U;
  State state{"cgroup-v1", {"no memory controller: so", "b"}, true, {{kTask, kSlice, 42}}};
  return {encode(Hello{{kSlice, {FrameworkId("x"), 0}}}),
          encode(Hello{}),
          encode(Prepare{kSlice, {MilliCpus{1500}, Bytes{1 << 30}, {0, 5, 63}, {1}, 100}}),
          encode(Prepare{kSlice, all_limits()}),
          encode(Release{kSlice}),
          encode(Start{kTask, kSlice, spec, confine, {"/dev/x0", "/dev/xctl"}, "qemu:///system?socket=/run/x"}),
          encode(Signal{kTask, 15, true}),
          encode(Forget{kTask}),
          encode(state),
          encode(State{}.isolation.empty() ? State{"none", {}, false, {}} : State{}),
          encode(Prepared{kSlice, "no space left on device"}),
          encode(Prepared{kSlice, ""}),
          encode(Released{kSlice}),
          encode(StartedTask{kTask, 77}),
          encode(StartFailed{kTask, "chdir /x: No such file or directory"}),
          encode(Ended{kTask, true, 15, Duration(1), false, {}, seconds(1), seconds(2), true}),
          encode(Lease{1234567}),
          encode(Ended{kTask, true, 0x8b, Duration(1'000'001), true, Bytes{1LL << 40}})};
}

}  // namespace

TEST(LauncherProtocol, EveryPacketComesBackAsItWas) {
  for (const auto& bytes : samples()) {
    const auto packet = decode(bytes);
    ASSERT_TRUE(packet) << bytes;
    EXPECT_EQ(encode(*packet), bytes);
  }
  const auto prepare = std::get<Prepare>(*decode(samples()[2]));
  EXPECT_EQ(prepare.limits.cpuset, (std::vector<std::uint32_t>{0, 5, 63}));
  EXPECT_EQ(prepare.limits.mem, Bytes{1 << 30});
  EXPECT_EQ(prepare.limits.pids, 100U);
  const auto start = std::get<Start>(*decode(samples()[5]));
  EXPECT_EQ(start.task, kTask);
  EXPECT_EQ(start.slice, kSlice);
  EXPECT_TRUE(start.confine.pid && start.confine.net && start.confine.seccomp && !start.confine.ipc);
  EXPECT_EQ(start.confine.tmp, Confine::Tmp::kMemory);
  EXPECT_EQ(start.confine.capabilities, usual_capabilities());
  EXPECT_EQ(start.confine.image_bytes, std::uint64_t{1} << 40U);
  EXPECT_EQ(start.device_nodes, (std::vector<std::string>{"/dev/x0", "/dev/xctl"}));
  EXPECT_EQ(std::get<Prepare>(*decode(samples()[3])).limits, all_limits());
  EXPECT_EQ(start.spec.argv.back(), "echo\n\"hello\"");
  const auto ended = std::get<Ended>(*decode(samples().back()));
  EXPECT_EQ(ended.wait_status, 0x8b);
  EXPECT_EQ(ended.mem_peak, Bytes{1LL << 40});
}

TEST(LauncherProtocol, GarbageIsRefusedAndNeverMore) {
  for (const char* bad : {"",
                          "\n",
                          "hello",
                          "what\n",
                          "hello x\n",
                          "hello a#b\n",
                          "release f#1 more\n",
                          "release f#-1\n",
                          "forget ../x|y\n",
                          "forget f|.hidden\n",
                          "signal f|t -1 1\n",
                          "signal f|t 65 1\n",
                          "signal f|t 9\n",
                          "started f|t x\n",
                          "prepare f#1 -5 0 0 - -\n",
                          "prepare f#1 0 0 0 1,,2 -\n",
                          "prepare f#1 0 0 0 1,x -\n",
                          "ended f|t 1 0\n",
                          "state none 0\nthing\n",
                          "state none 0\ntask f|t f#1\n",
                          "start f|t f#1\n",
                          "start f|t f#1\nnot a task",
                          "forget f|t\nmore"}) {
    EXPECT_FALSE(decode(bad)) << bad;
  }
  EXPECT_EQ(decode(std::string(kPacketBytesMax + 1, 'x')).error().code(), Code::kLimit);
}

TEST(LauncherProtocol, SurvivesRandomDamage) {
  std::mt19937 random(20260101);  // the same damage each time
  const auto all = samples();
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = all[random() % all.size()];
    for (unsigned n = 1 + random() % 4; n > 0; --n) bytes[random() % bytes.size()] = static_cast<char>(random());
    if (random() % 4 == 0) bytes.resize(random() % bytes.size());
    (void)decode(bytes);  // whatever it is: an answer
  }
}

}  // namespace bourse::launcher
