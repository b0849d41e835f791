// The agent killed and started again: at every step of a life, with the host's answers lost or not, after a reboot, from a
// checkpoint that it cannot read.
#include <gtest/gtest.h>

#include "agent/checkpoint.h"
#include "common/core/hooks.h"
#include "rig.h"

namespace bourse::testing {
namespace {

using S = TaskState;

std::map<std::string, TaskStatus> terminal(const Rig& rig) {
  std::map<std::string, TaskStatus> found;
  for (const StatusUpdate& update : rig.all<StatusUpdate>())
    if (is_terminal(update.status.state)) found[update.status.task.str()] = update.status;
  return found;
}

// A framework that says again what is not known to have arrived, as the client library does after a reconnect.
struct Script {
  Rig rig;
  bool crashed = false;

  void revive() {
    if (rig.agent) return;
    crashed = true;
    rig.die_after = -1;
    rig.start();
  }
  void say(const Body& body) {
    rig.say(body);
    if (rig.agent) return;
    revive();
    rig.say(body);
  }
  void run(int die_after) {
    rig.die_after = die_after;
    rig.start();
    revive();
    TaskSpec limited = task_spec();
    limited.time_limit = seconds(20);
    say(carve({slice_spec(1), slice_spec(2)}));
    say(launch("exits", 1));
    say(launch("limited", 1, limited));
    say(launch("killed", 2));
    rig.pass(seconds(2));
    revive();
    rig.process_ends(task_key("exits"), 7 << 8);
    revive();
    say(kill_task("killed"));
    rig.pass(seconds(21));
    revive();
    rig.pass(seconds(12));
    revive();
    say(ReleaseSlices{{slice_id(2)}, {}});
    rig.pass(seconds(10));
    revive();
    say(ReleaseSlices{{slice_id(2)}, {}});
    rig.pass(seconds(10));
    revive();
  }
};

TEST(AgentRestartTest, ALifeEndsTheSameWhereverItIsCut) {
  Script whole;
  whole.run(-1);
  const auto expected = terminal(whole.rig);
  ASSERT_EQ(expected.size(), 3u);
  EXPECT_EQ(expected.at("exits").exit_code, 7);
  EXPECT_EQ(expected.at("limited").state, S::kTimeLimit);
  EXPECT_EQ(expected.at("killed").state, S::kKilled);
  const int steps = whole.rig.steps;
  ASSERT_GT(steps, 20);
  for (int at = 1; at < steps; ++at) {
    Script cut;
    cut.run(at);
    SCOPED_TRACE("crash before step " + std::to_string(at));
    ASSERT_TRUE(cut.crashed);
    const auto got = terminal(cut.rig);
    ASSERT_EQ(got.size(), 3u);
    for (const auto& [task, status] : expected) {
      EXPECT_EQ(got.at(task).state, status.state) << task;
      EXPECT_EQ(got.at(task).exit_code, status.exit_code) << task;
      EXPECT_EQ(cut.rig.host.started[task_key(task)], 1) << task;
    }
    const Agent::View view = cut.rig.agent->view();
    ASSERT_EQ(view.slices.size(), 1u);
    EXPECT_EQ(view.slices[0].id, slice_id(1));
    EXPECT_TRUE(view.active.empty());
    EXPECT_EQ(view.free, whole.rig.agent->view().free);
    // One terminal status a task in the stream, whatever was resent: sequence and content belong together.
    std::map<std::pair<Sequence, std::string>, TaskState> by_sequence;
    std::map<std::string, std::set<Sequence>> ends;
    for (const StatusUpdate& update : cut.rig.all<StatusUpdate>()) {
      const auto [it, fresh] = by_sequence.emplace(std::pair(update.sequence, update.status.task.str()), update.status.state);
      EXPECT_TRUE(fresh || it->second == update.status.state);
      if (is_terminal(update.status.state)) ends[update.status.task.str()].insert(update.sequence);
    }
    for (const auto& [task, sequences] : ends) EXPECT_EQ(sequences.size(), 1u) << task;
  }
}

class AgentRestart : public ::testing::Test {
 protected:
  Rig rig;
  void given_running(const TaskSpec& spec = task_spec()) {
    rig.start();
    rig.say(carve({slice_spec(1, 2000, 1)}));
    rig.say(launch("1.0.1", 1, spec));
    rig.pass(milliseconds(10));
    ASSERT_EQ(rig.host.running.size(), 1u);
  }
};

TEST_F(AgentRestart, SaysHelloWithSlicesTasksAndTheSameCores) {
  given_running();
  const auto cpuset = rig.agent->view().slices[0].cpuset;
  rig.clear();
  rig.restart();
  const auto hellos = rig.all<AgentHello>();
  ASSERT_FALSE(hellos.empty());
  ASSERT_EQ(hellos.back().slices.size(), 1u);
  EXPECT_EQ(hellos.back().slices[0].spec.cpuset, cpuset);
  EXPECT_EQ(hellos.back().slices[0].tasks, std::vector<TaskId>{TaskId("1.0.1")});
  EXPECT_EQ(rig.agent->view().free.cpus, MilliCpus{6000});
  rig.say(carve({slice_spec(2, 2000, 1)}));
  const auto other = rig.agent->view().slices[1].cpuset;
  for (const std::uint32_t pu : other) EXPECT_EQ(std::count(cpuset.begin(), cpuset.end(), pu), 0);
}

TEST_F(AgentRestart, TheStreamGoesOnUnderItsName) {
  given_running();
  const StreamId stream = rig.all<StatusUpdate>()[0].stream;
  rig.restart();
  rig.process_ends(task_key("1.0.1"), 0);
  const StatusUpdate last = rig.all<StatusUpdate>().back();
  EXPECT_EQ(last.stream, stream);
  EXPECT_EQ(last.sequence, Sequence(2));
}

TEST_F(AgentRestart, TheTimeLimitCountsFromTheStart) {
  TaskSpec spec = task_spec();
  spec.time_limit = seconds(60);
  given_running(spec);
  rig.pass(seconds(20));
  rig.crash();
  rig.now.mono += seconds(30);  // nobody counts
  rig.start();
  rig.pass(seconds(9));
  EXPECT_TRUE(rig.host.signals.empty());
  rig.pass(seconds(2));
  EXPECT_EQ(rig.last_status("1.0.1").state, S::kTimeLimit);
}

TEST_F(AgentRestart, EndsOfTasksThatEndedMeanwhileAreRight) {
  given_running();
  rig.crash();
  rig.process_ends(task_key("1.0.1"), 9 << 8);
  rig.start();
  EXPECT_EQ(rig.last_status("1.0.1").state, S::kExited);
  EXPECT_EQ(rig.last_status("1.0.1").exit_code, 9);
}

TEST_F(AgentRestart, ATaskThatNobodyKnowsEndedUnknown) {
  given_running();
  rig.crash();
  rig.host.running.clear();  // the exit log is gone, too
  rig.start();
  EXPECT_EQ(terminal(rig).size(), 0u);  // its end may still be told
  rig.pass(seconds(6));
  EXPECT_EQ(rig.last_status("1.0.1").state, S::kUnknownExit);
  EXPECT_EQ(rig.host.started[task_key("1.0.1")], 1);
}

TEST_F(AgentRestart, ATaskAcceptedButNotStartedIsStartedNow) {
  rig.start();
  rig.say(carve({slice_spec(1)}));
  rig.host.automatic = false;  // the host never heard of it
  rig.say(launch("1.0.1", 1));
  rig.host.automatic = true;
  rig.restart();
  EXPECT_EQ(rig.host.started[task_key("1.0.1")], 1);
  EXPECT_EQ(rig.host.specs[task_key("1.0.1")].argv, task_spec().argv);
}

TEST_F(AgentRestart, AKillUnderWayGoesOn) {
  given_running();
  rig.host.ignores_sigterm = true;
  rig.say(kill_task("1.0.1"));
  rig.restart();
  rig.pass(seconds(11));
  EXPECT_EQ(rig.last_status("1.0.1").state, S::kKilled);
  EXPECT_EQ(rig.last_status("1.0.1").signal, SIGKILL);
}

TEST_F(AgentRestart, AReleaseUnderWayGoesOn) {
  given_running();
  rig.host.ignores_sigterm = true;
  rig.say(ReleaseSlices{{slice_id(1)}, seconds(5)});
  rig.restart();
  rig.pass(seconds(6));
  EXPECT_TRUE(rig.agent->view().slices.empty());
  EXPECT_EQ(rig.all<SliceGone>().back().end, SliceEnd::kReleased);
}

TEST_F(AgentRestart, AHoldStillLapses) {
  rig.start();
  SliceSpec spec = slice_spec(1);
  spec.gang = GangId(5);
  rig.say(CarveSlices{{spec}, true, seconds(10)});
  rig.restart();
  ASSERT_TRUE(rig.all<AgentHello>().back().slices[0].held);
  rig.pass(seconds(11));
  EXPECT_TRUE(rig.agent->view().held.empty());
}

TEST_F(AgentRestart, AProcessThatTheCheckpointDoesNotKnowIsKilled) {
  rig.start();
  rig.crash();
  rig.host.running.insert(task_key("stray"));
  rig.start();
  EXPECT_TRUE(rig.host.running.empty());
  EXPECT_TRUE(rig.host.ended.empty());
}

TEST_F(AgentRestart, ALaunchersSuccessorIsToldWhatIsOutstanding) {
  given_running();
  rig.host.automatic = false;
  rig.say(launch("2.0.1", 1));
  rig.step(LauncherLost{});
  rig.host.automatic = true;
  rig.step(HostTasks{{task_key("1.0.1")}, false});
  EXPECT_EQ(rig.host.started[task_key("2.0.1")], 1);
  rig.pass(seconds(6));
  EXPECT_TRUE(terminal(rig).empty());
}

TEST_F(AgentRestart, AfterARebootEverythingIsLostWithThatReason) {
  given_running();
  rig.process_ends(task_key("1.0.1"), 0);
  rig.say(launch("2.0.1", 1));
  rig.reboot("boot-2");
  rig.clear();
  rig.start(false);
  EXPECT_TRUE(rig.agent->view().slices.empty());
  EXPECT_EQ(rig.agent->view().free, two_nodes().total);
  const auto gone = rig.all<SliceGone>();
  ASSERT_EQ(gone.size(), 1u);  // behind the hello that still names it
  EXPECT_EQ(gone[0].end, SliceEnd::kHostReboot);
  rig.say(Welcome{kProtocolVersion, "c1", seconds(5), seconds(30), {}});
  EXPECT_EQ(rig.last_status("1.0.1").state, S::kExited);  // it had ended before
  EXPECT_EQ(rig.last_status("2.0.1").state, S::kLost);
  EXPECT_EQ(rig.last_status("2.0.1").message, "host rebooted");
  rig.say(launch("2.0.1", 1));
  EXPECT_EQ(rig.host.started[task_key("2.0.1")], 1);
}

TEST_F(AgentRestart, ASnapshotCarriesEverything) {
  given_running();
  for (int i = 0; i < 4000; ++i) {
    const std::string task = "t" + std::to_string(i);
    rig.say(launch(task, 1));
    rig.process_ends(task_key(task), 0);
    if (i % 100 == 99) rig.ack_all(), rig.clear();
  }
  ASSERT_FALSE(rig.snapshot.empty());
  EXPECT_LT(rig.records.size(), 12'000u);
  rig.say(kill_task("never"));
  rig.restart();
  EXPECT_EQ(rig.agent->view().active, std::vector<TaskKey>{task_key("1.0.1")});
  rig.say(launch("t0", 1));
  rig.say(launch("t3999", 1));
  rig.say(launch("never", 1));
  EXPECT_EQ(rig.host.started[task_key("t0")], 1);
  EXPECT_EQ(rig.host.started[task_key("t3999")], 1);
  EXPECT_EQ(rig.host.started.count(task_key("never")), 0u);
}

TEST_F(AgentRestart, AFullDiskLosesNothing) {
  given_running();
  rig.fail_appends = true;
  rig.process_ends(task_key("1.0.1"), 4 << 8);
  rig.clear();
  rig.fail_appends = false;
  rig.pass(seconds(6));  // tries again with everything
  ASSERT_FALSE(rig.snapshot.empty());
  rig.say(Welcome{kProtocolVersion, "c1", seconds(5), seconds(30), {}});
  EXPECT_EQ(rig.last_status("1.0.1").exit_code, 4);
  rig.restart();
  EXPECT_EQ(rig.last_status("1.0.1").exit_code, 4);
}

TEST_F(AgentRestart, NothingLeavesAndNothingIsStartedBeforeTheRecordIsSafe) {
  given_running();
  rig.clear();
  rig.fail_appends = true;
  rig.say(launch("1.0.2", 1));
  rig.process_ends(task_key("1.0.1"), 4 << 8);
  rig.say(Welcome{kProtocolVersion, "c1", seconds(5), seconds(30), {}});
  rig.pass(seconds(21));
  EXPECT_TRUE(rig.sent.empty());
  EXPECT_EQ(rig.host.started.count(task_key("1.0.2")), 0u);
  EXPECT_EQ(rig.host.ended.count(task_key("1.0.1")), 1u);
  rig.fail_appends = false;
  rig.pass(seconds(6));
  rig.say(Welcome{kProtocolVersion, "c1", seconds(5), seconds(30), {}});
  EXPECT_EQ(rig.host.started[task_key("1.0.2")], 1);
  EXPECT_EQ(rig.last_status("1.0.1").exit_code, 4);
  rig.ack_all();
  EXPECT_EQ(rig.host.ended.count(task_key("1.0.1")), 0u);
}

TEST_F(AgentRestart, EndsThatASnapshotRemembersAreForgottenByTheHostOnceAcknowledged) {
  given_running();
  rig.fail_appends = true;
  rig.process_ends(task_key("1.0.1"), 4 << 8);
  rig.fail_appends = false;
  rig.pass(seconds(6));
  ASSERT_FALSE(rig.snapshot.empty());
  rig.restart();
  rig.ack_all();
  EXPECT_TRUE(rig.host.ended.empty());
}

TEST_F(AgentRestart, ANewBootTellsInANewStreamWhatIsNotAcknowledged) {
  given_running();
  rig.say(launch("1.0.2", 1));
  rig.pass(milliseconds(10));
  rig.process_ends(task_key("1.0.1"), 4 << 8);
  const StreamId before = rig.all<StatusUpdate>().front().stream;
  rig.reboot("boot-2");
  rig.clear();
  rig.start();
  const auto told = rig.all<StatusUpdate>();
  ASSERT_EQ(told.size(), 2u);  // no word of what ran
  EXPECT_NE(told[0].stream, before);
  EXPECT_EQ(told[0].sequence, Sequence(1));
  EXPECT_EQ(told[0].status.exit_code, 4);
  EXPECT_EQ(told[1].sequence, Sequence(2));
  EXPECT_EQ(told[1].status.state, S::kLost);
  const StreamId after = told[0].stream;
  rig.clear();
  rig.restart();  // the records say the same as memory did
  ASSERT_EQ(rig.all<StatusUpdate>().size(), 2u);
  EXPECT_EQ(rig.all<StatusUpdate>()[0].stream, after);
  EXPECT_EQ(rig.all<StatusUpdate>()[1].sequence, Sequence(2));
  EXPECT_EQ(rig.all<StatusUpdate>()[1].status.state, S::kLost);
  rig.ack_all();
  EXPECT_EQ(rig.agent->view().unacknowledged, 0u);
}

TEST(CheckpointTest, RefusesWhatANewerProgramWrote) {
  Rig rig;
  rig.records = {std::string("\x7f\x01", 2)};
  rig.start(false);
  EXPECT_TRUE(rig.stopped);
  EXPECT_TRUE(rig.sent.empty());
  ASSERT_FALSE(rig.logs.empty());
  EXPECT_NE(rig.logs[0].find("newer"), std::string::npos) << rig.logs[0];
  const std::string version_9 = std::string("\x02\x09\x05", 3);
  EXPECT_EQ(decode_record(version_9).error().code(), Code::kVersion);
}

TEST(CheckpointTest, RecordsRoundTripAndDamageIsSeen) {
  TaskStatus status;
  status.task = TaskId("1.0.1");
  status.state = S::kExited;
  status.exit_code = 3;
  SliceRecord slice;
  slice.spec = slice_spec(7, 1500);
  slice.held = true;
  slice.hold_until = seconds(77);
  const TaskLimits limits{"alice", kNoLimit, seconds(3), seconds(4), SIGUSR1, true, true};
  const std::vector<CheckpointRecord> records = {
      IdentityRecord{"boot", StreamId(9), "c"},
      EpochRecord{Epoch(1ULL << 60)},
      slice,
      SliceGoneRecord{slice_id(3)},
      TaskRecord{task_key("1.0.1"), slice_id(7), limits, std::string("\0payload", 8)},
      StartedRecord{task_key("1.0.1"), seconds(5), seconds(6)},
      EndingRecord{task_key("1.0.1"), S::kTimeLimit, seconds(9), "why"},
      StatusRecord{FrameworkId("batch"), Sequence(4), slice_id(7), status},
      AckedRecord{FrameworkId("batch"), Sequence(3)},
      TombstoneRecord{FrameworkId("batch"), slice_id(7), status},
  };
  for (const CheckpointRecord& record : records) {
    const std::string bytes = encode_record(record);
    const auto back = decode_record(bytes);
    ASSERT_TRUE(back) << back.error().text();
    EXPECT_EQ(*back, record);
    for (std::size_t cut = 0; cut < bytes.size(); ++cut) EXPECT_FALSE(decode_record(bytes.substr(0, cut)));
    EXPECT_FALSE(decode_record(bytes + "x"));
  }
  const auto all = decode_checkpoint(encode_snapshot(records), {});
  ASSERT_TRUE(all);
  EXPECT_EQ(*all, records);
}

}  // namespace
}  // namespace bourse::testing
