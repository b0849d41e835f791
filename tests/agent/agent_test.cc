// What an agent does with slices, tasks and its session, one behaviour a test.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "rig.h"

namespace bourse::testing {
namespace {

using S = TaskState;

class AgentTest : public ::testing::Test {
 protected:
  Rig rig;
  void given_slice(std::uint64_t number, std::int64_t milli = 1000) {
    if (!rig.agent) rig.start();
    rig.say(carve({slice_spec(number, milli)}));
  }
  void given_running(const std::string& task, std::uint64_t slice = 1, const TaskSpec& spec = task_spec()) {
    if (!rig.agent || rig.agent->view().slices.empty()) given_slice(slice);
    rig.say(launch(task, slice, spec));
    rig.pass(milliseconds(10));
  }
};

// --- session -------------------------------------------------------------------------------------------------------------

TEST_F(AgentTest, SaysHelloWithInventoryBootAndLabelsOnceProbed) {
  rig.start(false);
  const auto hellos = rig.all<AgentHello>();
  ASSERT_EQ(hellos.size(), 1u);
  EXPECT_EQ(hellos[0].agent.str(), "h1");
  EXPECT_EQ(hellos[0].boot_id, "boot-1");
  EXPECT_EQ(hellos[0].inventory.total, two_nodes().total);
  EXPECT_EQ(hellos[0].inventory.labels.at("host"), "h1");
}

TEST_F(AgentTest, RepeatsItsHelloEverySecondAndThenTriesTheNextMaster) {
  rig.start(false);
  rig.pass(seconds(4));
  EXPECT_EQ(rig.all<AgentHello>().size(), 5u);
  EXPECT_FALSE(rig.reconnected);
  rig.pass(seconds(1));
  EXPECT_TRUE(rig.reconnected);
  rig.pass(milliseconds(130));  // 100 ms back-off and at most a quarter of jitter
  EXPECT_EQ(rig.all<AgentHello>().size(), 6u);
}

TEST_F(AgentTest, SendsOnlyHeartbeatsWhenIdleAndLeavesASilentMaster) {
  rig.start();
  rig.clear();
  const int before = rig.steps;
  rig.pass(seconds(29));
  EXPECT_EQ(rig.all<Heartbeat>().size(), 5u);
  EXPECT_EQ(rig.sent.size(), 5u);
  EXPECT_EQ(rig.steps - before, 5);  // nothing else runs
  EXPECT_FALSE(rig.reconnected);
  rig.pass(seconds(1));
  EXPECT_TRUE(rig.reconnected);
}

TEST_F(AgentTest, IgnoresOlderLeaderships) {
  rig.start();
  rig.say(Epoch(6), carve({slice_spec(1)}));
  EXPECT_TRUE(rig.agent->view().slices.empty());
  rig.say(Epoch(9), Welcome{kProtocolVersion, "c1", seconds(5), seconds(30), {}});
  rig.say(Epoch(7), carve({slice_spec(1)}));
  EXPECT_TRUE(rig.agent->view().slices.empty());
  rig.epoch = Epoch(9);
  rig.restart();
  EXPECT_EQ(rig.agent->view().epoch_seen, Epoch(9));
  rig.say(Epoch(8), carve({slice_spec(1)}));
  EXPECT_TRUE(rig.agent->view().slices.empty());
  rig.say(Epoch(9), carve({slice_spec(1)}));
  EXPECT_EQ(rig.agent->view().slices.size(), 1u);
}

TEST_F(AgentTest, SaysHelloAgainWhenARestartedMasterAsksForIt) {
  given_slice(1);
  rig.clear();
  rig.say(Epoch(8), Refused{Code::kGone, "say hello first"});
  const auto hellos = rig.all<AgentHello>();
  ASSERT_EQ(hellos.size(), 1u);
  ASSERT_EQ(hellos[0].slices.size(), 1u);
  EXPECT_EQ(hellos[0].slices[0].spec.id, slice_id(1));
}

TEST_F(AgentTest, WaitsHalfAMinuteAfterADenial) {
  rig.start(false);
  rig.say(Refused{Code::kDenied, "key is not of this agent"});
  rig.clear();
  rig.pass(seconds(29));
  EXPECT_TRUE(rig.all<AgentHello>().empty());
  rig.pass(seconds(2));
  EXPECT_GE(rig.all<AgentHello>().size(), 1u);
  EXPECT_NE(rig.logs.back().find("error"), std::string::npos);
}

Refused stands_by(const std::string& leader = "") { return {Code::kBusy, "does not lead", true, leader}; }

TEST_F(AgentTest, GoesToTheLeaderThatAMasterNamesWhateverItsEpoch) {
  rig.start();
  rig.clear();
  rig.say(Epoch(3), stands_by("tcp://m2:7400"));  // it was deposed, and has missed our leadership
  EXPECT_TRUE(rig.reconnected);
  EXPECT_EQ(rig.went_to, "tcp://m2:7400");
  EXPECT_TRUE(rig.all<AgentHello>().empty()) << "not all agents in the same moment";
  rig.pass(milliseconds(100));
  EXPECT_EQ(rig.all<AgentHello>().size(), 1u);
  EXPECT_EQ(rig.agent->view().epoch_seen, Epoch(7)) << "a master that does not lead has no epoch";
  rig.say(Epoch(9), Welcome{kProtocolVersion, "c1", seconds(2), seconds(6), {}, {"tcp://m1:7400", "tcp://m2:7400"}});
  EXPECT_EQ(rig.masters, (std::vector<std::string>{"tcp://m1:7400", "tcp://m2:7400"}));
  EXPECT_EQ(rig.agent->view().epoch_seen, Epoch(9));
}

TEST_F(AgentTest, KnocksWhileNobodyLeadsAndSaysHelloOnlyToTheLeader) {
  rig.start();
  given_running("1.0.1");
  rig.clear();
  rig.say(stands_by());
  rig.process_ends(task_key("1.0.1"), 0);
  rig.pass(milliseconds(700));
  EXPECT_EQ(rig.all<Heartbeat>().size(), 1u);
  EXPECT_EQ(rig.sent.size(), 1u) << "neither hello nor status goes to a master that does not lead";
  rig.say(Refused{Code::kGone, "say hello first"});
  EXPECT_EQ(rig.all<AgentHello>().size(), 1u);
  rig.say(Welcome{kProtocolVersion, "c1", seconds(5), seconds(30), {}});
  EXPECT_EQ(rig.states("1.0.1").back(), S::kExited);
}

TEST_F(AgentTest, LeavesAMasterThatAcceptsAndSaysNothing) {
  rig.start();
  rig.clear();
  rig.say(stands_by("tcp://m2:7400"));
  rig.reconnected = false;
  rig.pass(seconds(6));
  EXPECT_TRUE(rig.reconnected);
  EXPECT_EQ(rig.went_to, "");
}

TEST_F(AgentTest, WhoCannotBeReachedIsPassedOverDuringTheWait) {
  rig.start();
  rig.say(stands_by("tcp://m2:7400"));
  rig.reconnected = false;
  rig.step(PeerLost{kMasterPeer});  // m2 is dead too
  EXPECT_TRUE(rig.reconnected);
  EXPECT_EQ(rig.went_to, "");
  rig.clear();
  rig.pass(milliseconds(100));
  EXPECT_EQ(rig.all<AgentHello>().size(), 1u) << "and the wait is not begun anew";
}

TEST_F(AgentTest, FencedTasksHaveTheLeasesTimeHoweverTheLeaderWasLost) {
  TaskSpec spec = task_spec();
  spec.fence_lease = true;
  for (const bool broken : {true, false}) {
    rig = Rig();
    rig.start();
    rig.say(Welcome{kProtocolVersion, "c1", seconds(2), seconds(6), {}, {"tcp://m1:7400", "tcp://m2:7400"}, seconds(8)});
    given_running("1.0.1", 1, spec);
    given_running("2.0.1");
    if (broken) rig.step(PeerLost{kMasterPeer});
    rig.pass(milliseconds(7'900));
    EXPECT_EQ(rig.host.running.count(task_key("1.0.1")), 1u);
    rig.pass(seconds(1));
    EXPECT_EQ(rig.host.running.count(task_key("1.0.1")), 0u);
    EXPECT_EQ(rig.host.running.count(task_key("2.0.1")), 1u);
  }
}

TEST_F(AgentTest, ANewLeaderWithinTheLeaseKeepsFencedTasks) {
  TaskSpec spec = task_spec();
  spec.fence_lease = true;
  rig.start();
  rig.say(Welcome{kProtocolVersion, "c1", seconds(2), seconds(6), {}, {"tcp://m1:7400", "tcp://m2:7400"}, seconds(8)});
  given_running("1.0.1", 1, spec);
  rig.step(PeerLost{kMasterPeer});
  rig.pass(seconds(3));
  rig.say(Epoch(9), Welcome{kProtocolVersion, "c1", seconds(5), seconds(30), {}, {}, seconds(8)});
  rig.pass(seconds(20));
  EXPECT_EQ(rig.host.running.count(task_key("1.0.1")), 1u);
}

// --- slices ----------------------------------------------------------------------------------------------------------------

TEST_F(AgentTest, GivesWholeCoresToWholeAsksOnTheirNode) {
  rig.start();
  rig.say(carve({slice_spec(1, 2000, 1)}));
  ASSERT_EQ(rig.all<SliceUp>().size(), 1u);
  EXPECT_EQ(rig.all<SliceUp>()[0].spec.cpuset, (std::vector<std::uint32_t>{4, 5}));  // both threads of one core
  rig.say(carve({slice_spec(2, 1000, 1)}));
  rig.say(carve({slice_spec(3, 1000, 1)}));
  EXPECT_EQ(rig.all<SliceUp>()[1].spec.cpuset, (std::vector<std::uint32_t>{6}));
  EXPECT_EQ(rig.all<SliceUp>()[2].spec.cpuset, (std::vector<std::uint32_t>{7}));
}

TEST_F(AgentTest, SplitsASplitCoreBeforeAWholeOne) {
  rig.start();
  rig.say(carve({slice_spec(1, 1000, 0)}));  // splits core 0
  rig.say(carve({slice_spec(2, 2000, 0)}));  // takes core 1
  rig.say(carve({slice_spec(3, 1000, 0)}));  // the rest of core 0
  const auto ups = rig.all<SliceUp>();
  ASSERT_EQ(ups.size(), 3u);
  EXPECT_EQ(ups[1].spec.cpuset, (std::vector<std::uint32_t>{2, 3}));
  EXPECT_EQ(ups[2].spec.cpuset, (std::vector<std::uint32_t>{1}));
}

TEST_F(AgentTest, FractionsShare) {
  rig.start();
  rig.say(carve({slice_spec(1, 500)}));
  ASSERT_EQ(rig.all<SliceUp>().size(), 1u);
  EXPECT_TRUE(rig.all<SliceUp>()[0].spec.cpuset.empty());
  EXPECT_EQ(rig.agent->view().free.cpus, MilliCpus{7500});
}

TEST_F(AgentTest, RefusesWhatIsNotFreeAndSaysWhatIs) {
  rig.start();
  rig.say(carve({slice_spec(1, 3000)}));
  rig.say(carve({slice_spec(2, 2000)}));
  const auto gone = rig.all<SliceGone>();
  ASSERT_EQ(gone.size(), 1u);
  EXPECT_EQ(gone[0].end, SliceEnd::kCarveFailed);
  EXPECT_NE(gone[0].reason.find("free is cpus=5"), std::string::npos) << gone[0].reason;
}

TEST_F(AgentTest, RefusesADeviceOfAnotherGeneration) {
  Device gpu;
  gpu.id = DeviceId("GPU-1");
  gpu.kind = "gpu/x";
  rig.hardware.devices = {gpu};
  rig.start();
  SliceSpec old = slice_spec(1);
  DeviceShare share{DeviceId("GPU-1"), "gpu/x", Generation(3), true, {}, {}};
  old.resources.devices = {share};
  rig.say(carve({old}));
  ASSERT_EQ(rig.all<SliceGone>().size(), 1u);
  EXPECT_NE(rig.all<SliceGone>()[0].reason.find("generation 1 now"), std::string::npos);
}

TEST_F(AgentTest, TellsTheHostAndTheTaskWhichDevicesTheSliceHas) {
  SliceSpec two = slice_spec(1), none = slice_spec(2);
  for (const std::string n : {"1", "2"}) {
    Device gpu;
    gpu.id = DeviceId("GPU-" + n);
    gpu.kind = "gpu/x";
    gpu.nodes = {"/dev/x" + n, "/dev/xctl"};
    gpu.attributes = {{"env.X_VISIBLE", "uuid" + n}, {"model", "x"}};
    rig.hardware.devices.push_back(gpu);
    two.resources.devices.push_back({gpu.id, gpu.kind, Generation(1), true, {}, {}});
  }
  rig.start();
  rig.say(carve({two, none}));
  std::vector<std::vector<std::string>> nodes;
  for (const HostAction& action : rig.host_actions)
    if (const auto* made = std::get_if<CarveSlice>(&action)) nodes.push_back(made->device_nodes);
  ASSERT_EQ(nodes.size(), 2u) << (rig.all<SliceGone>().empty() ? "" : rig.all<SliceGone>().front().reason);
  EXPECT_EQ(nodes[0], (std::vector<std::string>{"/dev/x1", "/dev/x2", "/dev/xctl"}));
  EXPECT_EQ(nodes[1], std::vector<std::string>{});

  TaskSpec spec = task_spec();
  spec.env = {"X_VISIBLE=of the outer job", "BOURSE_DEVICES=old", "KEPT=1"};
  rig.say(launch("1.0.1", 1, spec));
  rig.say(launch("2.0.1", 2, spec));
  const auto environment = [&](const std::string& task) {
    for (const HostAction& action : rig.host_actions)
      if (const auto* start = std::get_if<StartTask>(&action); start != nullptr && start->task == task_key(task))
        return std::set<std::string>(start->spec.env.begin(), start->spec.env.end());
    return std::set<std::string>{};
  };
  const auto with = environment("1.0.1"), without = environment("2.0.1");
  for (const char* v : {"X_VISIBLE=uuid1,uuid2", "BOURSE_DEVICES=GPU-1,GPU-2", "BOURSE_DEVICE_SHARES=GPU-1:whole;GPU-2:whole"})
    EXPECT_EQ(with.count(v), 1u) << v;
  for (const std::string& v : without) EXPECT_TRUE(v.find("X_VIS") && v.find("BOURSE_DEV")) << v;
  EXPECT_EQ(without.count("KEPT=1"), 1u);
}

TEST_F(AgentTest, CarvingTwiceIsHarmless) {
  given_slice(1);
  rig.say(carve({slice_spec(1)}));
  EXPECT_EQ(rig.all<SliceUp>().size(), 2u);
  EXPECT_EQ(rig.host.carved.size(), 1u);
  EXPECT_EQ(rig.agent->view().free.cpus, MilliCpus{7000});
}

TEST_F(AgentTest, AFailedCarveEndsTheSliceAndItsWaitingTasks) {
  rig.start();
  rig.host.carve_fails = true;
  rig.host.automatic = false;
  rig.say(carve({slice_spec(1)}));
  rig.say(launch("1.0.1", 1));
  rig.step(SliceCarved{slice_id(1), "mkdir: Permission denied"});
  EXPECT_EQ(rig.states("1.0.1"), std::vector<S>{S::kFailedStart});
  ASSERT_EQ(rig.all<SliceGone>().size(), 1u);
  EXPECT_EQ(rig.all<SliceGone>()[0].end, SliceEnd::kCarveFailed);
  EXPECT_EQ(rig.agent->view().free, two_nodes().total);
}

TEST_F(AgentTest, AnIdleSliceExpiresCountedFromItsLastTask) {
  rig.start();
  SliceSpec spec = slice_spec(1);
  spec.expiry = seconds(20);
  rig.say(carve({spec}));
  rig.pass(seconds(15));
  given_running("1.0.1");
  rig.pass_heard(seconds(60));  // a task is no idle time
  EXPECT_TRUE(rig.all<SliceGone>().empty());
  rig.process_ends(task_key("1.0.1"), 0);
  rig.pass(seconds(19));
  EXPECT_TRUE(rig.all<SliceGone>().empty());
  rig.pass(seconds(2));
  ASSERT_EQ(rig.all<SliceGone>().size(), 1u);
  EXPECT_EQ(rig.all<SliceGone>()[0].end, SliceEnd::kIdle);
  EXPECT_EQ(rig.agent->view().free, two_nodes().total);
}

TEST_F(AgentTest, ReleaseGivesTasksTheirGraceThenTakesTheSlice) {
  given_running("1.0.1");
  rig.host.ignores_sigterm = true;
  rig.clear();
  rig.say(ReleaseSlices{{slice_id(1)}, seconds(5)});
  ASSERT_EQ(rig.host.signals.size(), 1u);
  EXPECT_EQ(rig.host.signals[0].second, SIGTERM);
  rig.pass(seconds(4));
  EXPECT_TRUE(rig.all<SliceGone>().empty());
  rig.pass(seconds(2));
  EXPECT_EQ(rig.host.signals.back().second, SIGKILL);
  EXPECT_EQ(rig.last_status("1.0.1").state, S::kKilled);
  ASSERT_EQ(rig.all<SliceGone>().size(), 1u);
  EXPECT_EQ(rig.all<SliceGone>()[0].end, SliceEnd::kReleased);
}

TEST_F(AgentTest, ReleasingWhatIsNotThereIsAnswered) {
  rig.start();
  rig.say(ReleaseSlices{{slice_id(99)}, {}});
  ASSERT_EQ(rig.all<SliceGone>().size(), 1u);
  EXPECT_EQ(rig.all<SliceGone>()[0].end, SliceEnd::kUnknown);
}

TEST_F(AgentTest, ReleasesSlicesThatWelcomeNames) {
  given_running("1.0.1");
  rig.say(Welcome{kProtocolVersion, "c1", seconds(5), seconds(30), {slice_id(1)}});
  EXPECT_EQ(rig.last_status("1.0.1").state, S::kKilled);
  EXPECT_TRUE(rig.agent->view().slices.empty());
}

// --- gangs -----------------------------------------------------------------------------------------------------------------

SliceSpec in_gang(std::uint64_t number, std::int64_t milli = 1000) {
  SliceSpec spec = slice_spec(number, milli);
  spec.gang = GangId(5);
  return spec;
}

TEST_F(AgentTest, HoldsThenCommitsAGang) {
  rig.start();
  rig.say(CarveSlices{{in_gang(1), in_gang(2)}, true, seconds(10)});
  ASSERT_EQ(rig.all<GangHeld>().size(), 1u);
  EXPECT_EQ(rig.all<GangHeld>()[0].code, Code::kOk);
  EXPECT_EQ(rig.agent->view().held.size(), 2u);
  EXPECT_EQ(rig.agent->view().free.cpus, MilliCpus{6000});
  EXPECT_TRUE(rig.host.carved.empty());
  rig.say(CommitGang{FrameworkId("batch"), GangId(5)});
  EXPECT_EQ(rig.all<SliceUp>().size(), 2u);
  rig.pass(seconds(20));
  EXPECT_EQ(rig.agent->view().slices.size(), 2u);  // the hold's timer is gone
}

TEST_F(AgentTest, AHoldThatIsNotCommittedLapses) {
  rig.start();
  rig.say(CarveSlices{{in_gang(1)}, true, seconds(10)});
  rig.pass(seconds(9));
  EXPECT_EQ(rig.agent->view().held.size(), 1u);
  rig.pass(seconds(2));
  EXPECT_TRUE(rig.agent->view().held.empty());
  EXPECT_EQ(rig.agent->view().free, two_nodes().total);
  rig.clear();
  rig.say(CommitGang{FrameworkId("batch"), GangId(5)});
  ASSERT_EQ(rig.all<GangHeld>().size(), 1u);
  EXPECT_EQ(rig.all<GangHeld>()[0].code, Code::kGone);
  EXPECT_TRUE(rig.all<SliceUp>().empty());
}

TEST_F(AgentTest, AHoldIsAllOrNothing) {
  rig.start();
  rig.say(CarveSlices{{in_gang(1, 3000), in_gang(2, 2000)}, true, seconds(10)});
  ASSERT_EQ(rig.all<GangHeld>().size(), 1u);
  EXPECT_EQ(rig.all<GangHeld>()[0].code, Code::kBusy);
  EXPECT_TRUE(rig.agent->view().held.empty());
  EXPECT_EQ(rig.agent->view().free, two_nodes().total);
}

TEST_F(AgentTest, AnAbortedGangIsDroppedHeldOrUp) {
  for (const bool committed : {false, true}) {
    Rig fresh;
    fresh.start();
    fresh.say(CarveSlices{{in_gang(1)}, true, seconds(10)});
    if (committed) fresh.say(CommitGang{FrameworkId("batch"), GangId(5)});
    fresh.say(AbortGang{FrameworkId("batch"), GangId(5)});
    EXPECT_EQ(fresh.agent->view().free, two_nodes().total);
    ASSERT_EQ(fresh.all<SliceGone>().size(), 1u);
    EXPECT_EQ(fresh.all<SliceGone>()[0].end, SliceEnd::kGangAborted);
  }
}

// --- tasks -----------------------------------------------------------------------------------------------------------------

TEST_F(AgentTest, RunsATaskAndReportsRunningThenItsExit) {
  given_running("1.0.1");
  EXPECT_EQ(rig.states("1.0.1"), std::vector<S>{S::kRunning});
  rig.process_ends(task_key("1.0.1"), 3 << 8);
  EXPECT_EQ(rig.states("1.0.1"), (std::vector<S>{S::kRunning, S::kExited}));
  const TaskStatus status = rig.last_status("1.0.1");
  EXPECT_EQ(status.exit_code, 3);
  EXPECT_EQ(status.cpu, milliseconds(30));
  EXPECT_EQ(status.mem_peak, Bytes{4096});
  EXPECT_GT(status.ended, status.started);
}

TEST_F(AgentTest, AShortTaskCostsOneStatus) {
  given_slice(1);
  rig.say(launch("1.0.1", 1));
  rig.process_ends(task_key("1.0.1"), 0);
  rig.pass(seconds(1));
  EXPECT_EQ(rig.states("1.0.1"), std::vector<S>{S::kExited});
  EXPECT_EQ(rig.all<StatusUpdate>()[0].sequence, Sequence(1));
}

TEST_F(AgentTest, GivesTasksTheirNamesInTheEnvironmentOverAnOuterTasks) {
  TaskSpec spec = task_spec();
  spec.env = {"PATH=/bin", "BOURSE_TASK_ID=outer", "TRACEPARENT=outer"};
  spec.trace = "00-aa-bb-01";
  given_running("1.0.1", 1, spec);
  const std::vector<std::string> expected = {
      "PATH=/bin",
      "BOURSE_TASK_ID=1.0.1",
      "BOURSE_FRAMEWORK=batch",
      "BOURSE_AGENT=h1",
      "BOURSE_SLICE=batch#1",
      "BOURSE_CLUSTER=c1",
      "TRACEPARENT=00-aa-bb-01",
      "OTEL_RESOURCE_ATTRIBUTES=bourse.cluster=c1,bourse.agent=h1,bourse.framework=batch,bourse.task=1.0.1"};
  EXPECT_EQ(rig.host.specs[task_key("1.0.1")].env, expected);
}

TEST_F(AgentTest, ALaunchWaitsForItsSlice) {
  rig.start();
  rig.host.automatic = false;
  rig.say(carve({slice_spec(1)}));
  rig.say(launch("b", 1));
  rig.say(launch("a", 1));
  EXPECT_TRUE(rig.host.specs.empty());
  rig.host_actions.clear();
  rig.step(SliceCarved{slice_id(1), {}});
  std::vector<std::string> order;
  for (const HostAction& action : rig.host_actions)
    if (const auto* start = std::get_if<StartTask>(&action)) order.push_back(start->task.task.str());
  EXPECT_EQ(order, (std::vector<std::string>{"b", "a"}));  // in the order in which they came
}

TEST_F(AgentTest, ALaunchWithoutItsSliceNeverStarts) {
  rig.start();
  rig.say(launch("1.0.1", 42));
  EXPECT_EQ(rig.states("1.0.1"), std::vector<S>{S::kNeverStarted});
}

TEST_F(AgentTest, AKnownTaskIsNotStartedAgain) {
  given_running("1.0.1");
  rig.say(launch("1.0.1", 1));
  EXPECT_EQ(std::count_if(rig.host_actions.begin(), rig.host_actions.end(),
                          [](const HostAction& a) { return std::holds_alternative<StartTask>(a); }),
            1);
}

TEST_F(AgentTest, AnEndedTaskIsNotStartedAgainThoughAcknowledged) {
  given_running("1.0.1");
  rig.process_ends(task_key("1.0.1"), 0);
  rig.ack_all();
  rig.clear();
  rig.say(launch("1.0.1", 1));
  EXPECT_EQ(rig.host.started[task_key("1.0.1")], 1);
  EXPECT_EQ(rig.states("1.0.1"), std::vector<S>{S::kExited});  // its end is told again
  rig.restart();
  rig.say(launch("1.0.1", 1));
  EXPECT_EQ(rig.host.started[task_key("1.0.1")], 1);
}

TEST_F(AgentTest, ForgetsEndedTasksWithTheirSliceAndAcknowledgement) {
  given_running("1.0.1");
  rig.process_ends(task_key("1.0.1"), 0);
  EXPECT_EQ(rig.host.ended.size(), 1u);
  rig.ack_all();
  EXPECT_TRUE(rig.host.ended.empty());  // the host was told to forget
  rig.say(ReleaseSlices{{slice_id(1)}, {}});
  rig.clear();
  rig.say(reconcile({"1.0.1"}));
  EXPECT_EQ(rig.states("1.0.1"), std::vector<S>{S::kNeverStarted});  // nothing is remembered any more
}

TEST_F(AgentTest, NeverTwoUsersAtOnceInOneSlice) {
  given_running("1.0.1");
  rig.say(launch("2.0.1", 1, task_spec("bob")));
  EXPECT_EQ(rig.states("2.0.1"), std::vector<S>{S::kFailedStart});
  EXPECT_NE(rig.last_status("2.0.1").message.find("alice"), std::string::npos);
  rig.say(launch("3.0.1", 1));  // the same user may
  EXPECT_EQ(rig.host.started.count(task_key("3.0.1")), 1u);
  rig.process_ends(task_key("1.0.1"), 0);
  rig.process_ends(task_key("3.0.1"), 0);
  rig.say(launch("4.0.1", 1, task_spec("bob")));
  EXPECT_EQ(rig.host.started.count(task_key("4.0.1")), 1u);  // one after the other is fine
}

TEST_F(AgentTest, SaysWhyATaskFailedToStart) {
  given_slice(1);
  rig.host.start_fails = true;
  rig.say(launch("1.0.1", 1));
  EXPECT_EQ(rig.last_status("1.0.1").state, S::kFailedStart);
  EXPECT_EQ(rig.last_status("1.0.1").message, "chdir /x: No such file or directory");
  Launch garbage = launch("2.0.1", 1);
  garbage.payload = "garbage";
  rig.say(garbage);
  EXPECT_EQ(rig.last_status("2.0.1").state, S::kFailedStart);
}

TEST_F(AgentTest, KillIsSigtermGraceSigkill) {
  given_running("1.0.1");
  rig.host.ignores_sigterm = true;
  rig.say(kill_task("1.0.1"));
  rig.say(kill_task("1.0.1"));
  ASSERT_EQ(rig.host.signals.size(), 1u);  // twice asked, once done
  EXPECT_EQ(rig.host.signals[0].second, SIGTERM);
  rig.pass(seconds(9));
  EXPECT_EQ(rig.host.signals.size(), 1u);
  rig.pass(seconds(2));
  ASSERT_EQ(rig.host.signals.size(), 2u);
  EXPECT_EQ(rig.host.signals[1].second, SIGKILL);
  EXPECT_EQ(rig.last_status("1.0.1").state, S::kKilled);
  EXPECT_EQ(rig.last_status("1.0.1").signal, SIGKILL);
}

TEST_F(AgentTest, PreemptionIsItsOwnState) {
  given_running("1.0.1");
  Kill kill = kill_task("1.0.1");
  kill.preempt = true;
  rig.say(kill);
  EXPECT_EQ(rig.last_status("1.0.1").state, S::kPreempted);
}

TEST_F(AgentTest, ASignalAloneEndsNothingByItself) {
  given_running("1.0.1");
  Kill kill = kill_task("1.0.1");
  kill.signal = SIGUSR1;
  rig.say(kill);
  EXPECT_EQ(rig.host.signals.back().second, SIGUSR1);
  rig.process_ends(task_key("1.0.1"), SIGSEGV);
  EXPECT_EQ(rig.last_status("1.0.1").state, S::kSignaled);
  EXPECT_EQ(rig.last_status("1.0.1").signal, SIGSEGV);
}

TEST_F(AgentTest, KillingAnUnknownTaskForbidsItsLaterLaunch) {
  given_slice(1);
  rig.say(kill_task("1.0.1"));
  EXPECT_EQ(rig.states("1.0.1"), std::vector<S>{S::kNeverStarted});
  rig.restart();
  rig.say(launch("1.0.1", 1));
  EXPECT_TRUE(rig.host.started.empty());
}

TEST_F(AgentTest, KillingAWaitingTaskEndsItUnstarted) {
  rig.start();
  rig.host.automatic = false;
  rig.say(carve({slice_spec(1)}));
  rig.say(launch("1.0.1", 1));
  rig.say(kill_task("1.0.1"));
  EXPECT_EQ(rig.states("1.0.1"), std::vector<S>{S::kKilled});
  rig.step(SliceCarved{slice_id(1), {}});
  EXPECT_TRUE(rig.host.specs.empty());
}

TEST_F(AgentTest, AKillBeforeTheStartIsConfirmedIsNotLost) {
  given_slice(1);
  rig.host.automatic = false;
  rig.say(launch("1.0.1", 1));
  rig.say(kill_task("1.0.1"));
  rig.host.signals.clear();
  rig.step(TaskStarted{task_key("1.0.1"), 5});
  ASSERT_EQ(rig.host.signals.size(), 1u);
  EXPECT_EQ(rig.host.signals[0].second, SIGTERM);
}

TEST_F(AgentTest, TheTimeLimitWarnsTerminatesAndKills) {
  TaskSpec spec = task_spec();
  spec.time_limit = seconds(60);
  spec.warn_signal = SIGUSR2;
  spec.warn_before = seconds(20);
  rig.host.ignores_sigterm = true;
  given_running("1.0.1", 1, spec);
  rig.pass_heard(seconds(39));
  EXPECT_TRUE(rig.host.signals.empty());
  rig.pass_heard(seconds(2));
  ASSERT_EQ(rig.host.signals.size(), 1u);
  EXPECT_EQ(rig.host.signals[0].second, SIGUSR2);
  rig.pass_heard(seconds(20));
  ASSERT_EQ(rig.host.signals.size(), 2u);
  EXPECT_EQ(rig.host.signals[1].second, SIGTERM);
  rig.pass_heard(seconds(11));
  ASSERT_EQ(rig.host.signals.size(), 3u);
  EXPECT_EQ(rig.host.signals[2].second, SIGKILL);
  EXPECT_EQ(rig.last_status("1.0.1").state, S::kTimeLimit);
}

TEST_F(AgentTest, TheCauseNamesTheEnd) {
  TaskSpec spec = task_spec();
  spec.time_limit = seconds(5);
  rig.host.ignores_sigterm = true;
  given_running("1.0.1", 1, spec);
  rig.pass(seconds(6));
  rig.process_ends(task_key("1.0.1"), 0);  // tidied up after SIGTERM and left with 0
  EXPECT_EQ(rig.last_status("1.0.1").state, S::kTimeLimit);
  given_running("2.0.1");
  rig.process_ends(task_key("2.0.1"), SIGKILL, true, true);
  EXPECT_EQ(rig.last_status("2.0.1").state, S::kOutOfMemory);
  EXPECT_NE(rig.last_status("2.0.1").message.find("of the "), std::string::npos) << rig.last_status("2.0.1").message;
  given_running("3.0.1");
  rig.process_ends(task_key("3.0.1"), 0, false);
  EXPECT_EQ(rig.last_status("3.0.1").state, S::kUnknownExit);
}

TEST_F(AgentTest, DeclaredLostIsDurableAndKillsWhatStillRuns) {
  given_running("1.0.1");
  rig.say(DeclareLost{AgentId("h1"), FrameworkId("batch"), {TaskId("1.0.1"), TaskId("9.0.1")}});
  EXPECT_EQ(rig.last_status("1.0.1").state, S::kLost);
  EXPECT_EQ(rig.last_status("9.0.1").state, S::kLost);
  EXPECT_TRUE(rig.host.running.empty());
  rig.restart();
  rig.say(launch("1.0.1", 1));
  rig.say(launch("9.0.1", 1));
  EXPECT_EQ(rig.host.started[task_key("1.0.1")], 1);
  EXPECT_EQ(rig.host.started.count(task_key("9.0.1")), 0u);
}

TEST_F(AgentTest, ReconcileAnswersForListedAndUnlistedTasks) {
  given_running("1.0.1");
  rig.say(launch("2.0.1", 1));
  rig.pass(milliseconds(10));
  rig.ack_all();
  rig.clear();
  rig.say(reconcile({"1.0.1", "8.0.1"}));
  rig.pass(milliseconds(10));
  EXPECT_EQ(rig.states("1.0.1"), std::vector<S>{S::kRunning});
  EXPECT_EQ(rig.states("2.0.1"), std::vector<S>{S::kRunning});
  EXPECT_EQ(rig.states("8.0.1"), std::vector<S>{S::kNeverStarted});
  rig.say(launch("8.0.1", 1));  // late
  EXPECT_EQ(rig.host.started.count(task_key("8.0.1")), 0u);
}

TEST_F(AgentTest, EndsFencedTasksWhenNoLeaderIsHeard) {
  TaskSpec spec = task_spec();
  spec.fence_lease = true;
  given_running("1.0.1", 1, spec);
  given_running("2.0.1");
  rig.pass(seconds(31));
  EXPECT_EQ(rig.host.running.count(task_key("1.0.1")), 0u);
  EXPECT_EQ(rig.host.running.count(task_key("2.0.1")), 1u);
}

// --- status stream -----------------------------------------------------------------------------------------------------------

TEST_F(AgentTest, StatusesComeAgainUntilAcknowledged) {
  given_running("1.0.1");
  rig.process_ends(task_key("1.0.1"), 0);
  rig.clear();
  rig.pass(seconds(11));  // no progress
  ASSERT_EQ(rig.all<StatusUpdate>().size(), 2u);
  EXPECT_EQ(rig.all<StatusUpdate>()[0].sequence, Sequence(1));
  rig.clear();
  rig.say(Refused{Code::kGone, "say hello first"});
  rig.say(Welcome{kProtocolVersion, "c1", seconds(5), seconds(30), {}});
  EXPECT_EQ(rig.all<StatusUpdate>().size(), 2u);
  rig.ack_all();
  EXPECT_EQ(rig.agent->view().unacknowledged, 0u);
  rig.clear();
  rig.pass(seconds(25));
  EXPECT_TRUE(rig.all<StatusUpdate>().empty());
}

TEST_F(AgentTest, AStrangeAcknowledgementIsIgnored) {
  given_running("1.0.1");
  const StreamId stream = rig.all<StatusUpdate>()[0].stream;
  rig.say(StatusAck{AgentId("h1"), FrameworkId("batch"), StreamId(stream.value + 1), Sequence(1)});
  rig.say(StatusAck{AgentId("h1"), FrameworkId("batch"), stream, Sequence(50)});
  rig.say(StatusAck{AgentId("h1"), FrameworkId("other"), stream, Sequence(1)});
  EXPECT_EQ(rig.agent->view().unacknowledged, 1u);
}

TEST_F(AgentTest, StatusesWaitForTheSession) {
  given_running("1.0.1");
  rig.pass(seconds(31));  // silence: the master is left
  rig.clear();
  rig.process_ends(task_key("1.0.1"), 0);
  EXPECT_TRUE(rig.all<StatusUpdate>().empty());
  rig.pass(seconds(1));
  rig.say(Welcome{kProtocolVersion, "c1", seconds(5), seconds(30), {}});
  EXPECT_EQ(rig.states("1.0.1").back(), S::kExited);
}

}  // namespace
}  // namespace bourse::testing
