// The client actor and tasks: launches, kills and reconciliation, each against scripted messages.
#include <gtest/gtest.h>

#include "common/wire/wire.h"
#include "tests/api/rig.h"

namespace bourse::test {
namespace {

TEST(ClientTasks, LaunchCarriesTheSpecificationThroughTheWire) {
  Rig r;
  r.connect();
  r.from_master(slice_up(1));
  auto l = launch("t");
  l.spec.env = {"A=1"};
  l.spec.trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  r.say(l);
  ASSERT_EQ(r.messages<Launch>().size(), 1u);
  auto spec = wire::decode_task(r.messages<Launch>()[0].payload);
  ASSERT_TRUE(spec);
  EXPECT_EQ(*spec, l.spec);
  EXPECT_EQ(r.sent.back().trace, l.spec.trace);
}

TEST(ClientTasks, LaunchesOfADisconnectedTimeWaitForTheirSlice) {
  Rig r;
  r.connect();
  r.from_master(slice_up(1));
  r.from_master(slice_up(2, "h1"));
  r.event(PeerLost{kMasterPeer});
  r.say(launch("kept", 1));
  r.say(launch("lost", 2));
  r.pass(seconds(1));
  r.clear();
  r.welcome();
  EXPECT_TRUE(r.messages<Launch>().empty());
  r.from_master(slice_up(1));
  ASSERT_EQ(r.messages<Launch>().size(), 1u);
  EXPECT_EQ(r.messages<Launch>()[0].task, TaskId("kept"));
  r.from_master(slice_gone(2, SliceEnd::kUnknown));
  ASSERT_EQ(r.events<TaskUpdate>().size(), 1u);
  EXPECT_EQ(r.events<TaskUpdate>()[0].status.task, TaskId("lost"));
  EXPECT_EQ(r.events<TaskUpdate>()[0].status.state, TaskState::kNeverStarted);
  EXPECT_EQ(r.messages<Launch>().size(), 1u);
}

TEST(ClientTasks, LaunchMayFollowItsAcceptAtOnce) {
  Rig r;
  r.connect();
  r.from_master(Offers{{offer(1)}});
  r.say(AcceptOffers{accept_of(1, 1)});
  r.say(launch("t", 1));
  ASSERT_EQ(r.sent.size(), 2u);
  EXPECT_TRUE(std::holds_alternative<Accept>(r.sent[0].body));
  EXPECT_TRUE(std::holds_alternative<Launch>(r.sent[1].body));
}

TEST(ClientTasks, ARefusedLaunchIsATaskThatNeverStartedUnlessAnEarlierCopyRuns) {
  Rig r;
  r.connect();
  r.from_master(slice_up(1));
  r.say(launch("t"));
  r.say(launch("u"));
  r.from_master(status(1, "u", TaskState::kRunning));
  r.clear();
  for (const char* task : {"t", "u", "unheard-of"})
    r.from_master(LaunchRefused{AgentId("h1"), {FrameworkId("f"), 1}, TaskId(task), Code::kGone, "agent gone"});
  const auto updates = r.events<TaskUpdate>();
  ASSERT_EQ(updates.size(), 1u);
  EXPECT_EQ(updates[0].status.task, TaskId("t"));
  EXPECT_EQ(updates[0].status.state, TaskState::kNeverStarted);
  EXPECT_EQ(updates[0].status.message, "agent gone");
}

TEST(ClientTasks, AreReconciledAfterEachWelcomeButNotThoseThatHaveEnded) {
  Rig r;
  r.connect();
  r.from_master(slice_up(1));
  for (const char* t : {"a", "b", "c"}) r.say(launch(t));
  r.from_master(status(1, "a", TaskState::kRunning));
  r.from_master(status(2, "b", TaskState::kExited));
  r.clear();
  r.epoch = Epoch(8);
  r.welcome();
  ASSERT_EQ(r.messages<Reconcile>().size(), 1u);
  EXPECT_EQ(r.messages<Reconcile>()[0].tasks, (std::vector<TaskId>{TaskId("a"), TaskId("c")}));
  r.clear();
  r.from_master(slice_up(1));  // its agent has come to the new leader only now: the question before had nowhere to go
  EXPECT_EQ(r.messages<Reconcile>().size(), 1u);
}

TEST(ClientTasks, ARestartedFrameworksListIsAskedAndKept) {
  Rig r;
  r.connect(6);
  r.say(ReconcileTasks{AgentId("h1"), {TaskId("x"), TaskId("y")}});
  ASSERT_EQ(r.messages<Reconcile>().size(), 1u);
  EXPECT_EQ(r.messages<Reconcile>()[0].tasks.size(), 2u);
  r.clear();
  r.epoch = Epoch(8);
  r.welcome();
  EXPECT_EQ(r.messages<Reconcile>().size(), 1u);
}

TEST(ClientTasks, ATaskThatNobodyAnswersForIsAskedAboutAgainAndLessOften) {
  Rig r;
  r.connect();
  r.from_master(slice_up(1));
  r.say(launch("t"));
  r.clear();
  for (int i = 0; i < 200; ++i) r.pass(seconds(1)), r.from_master(Heartbeat{});
  EXPECT_GE(r.messages<Reconcile>().size(), 3u);
  EXPECT_LE(r.messages<Reconcile>().size(), 6u);
}

TEST(ClientTasks, TasksOfASliceThatItsAgentForgotAreAskedAbout) {
  Rig r;
  r.connect();
  r.from_master(slice_up(1));
  r.say(launch("t"));
  r.from_master(status(1, "t", TaskState::kRunning));
  r.clear();
  r.from_master(slice_gone(1, SliceEnd::kUnknown));
  ASSERT_EQ(r.messages<Reconcile>().size(), 1u);
  EXPECT_EQ(r.messages<Reconcile>()[0].tasks, std::vector<TaskId>{TaskId("t")});
}

TEST(ClientTasks, EndingIsRepeatedUntilTheEndIsKnownButASignalIsSentOnce) {
  Rig r;
  r.connect();
  r.from_master(slice_up(1));
  r.say(launch("t"));
  KillTask kill;
  kill.kill.agent = AgentId("h1");
  kill.kill.task = TaskId("t");
  kill.kill.signal = 10;
  r.say(kill);
  kill.kill.signal = 0;
  r.say(kill);
  EXPECT_EQ(r.messages<Kill>().size(), 2u);
  EXPECT_EQ(r.messages<Kill>()[0].framework, FrameworkId("f"));
  r.clear();
  r.epoch = Epoch(8);
  r.welcome();
  ASSERT_EQ(r.messages<Kill>().size(), 1u);
  EXPECT_EQ(r.messages<Kill>()[0].signal, 0);
  r.from_master(status(1, "t", TaskState::kKilled));
  r.clear();
  r.epoch = Epoch(9);
  r.welcome();
  EXPECT_TRUE(r.messages<Kill>().empty());
}

TEST(ClientTasks, WhatAnAgentMissedWhileItWasAwayIsSaidAgainOnceWhenItIsBack) {
  Rig r;
  r.connect();
  for (const std::uint64_t n : {1, 2}) r.from_master(slice_up(n));
  r.from_master(slice_up(3, "h2"));
  r.say(launch("killed", 1));
  r.say(launch("lost", 1));
  r.say(launch("launched", 2));
  r.say(launch("elsewhere", 3, "h2"));
  KillTask kill;
  kill.kill.task = TaskId("killed");
  kill.kill.agent = AgentId("h1");
  r.say(kill);
  kill.kill.task = TaskId("elsewhere");
  kill.kill.agent = AgentId("h2");
  r.say(kill);
  r.say(DeclareTasksLost{AgentId("h1"), {TaskId("lost")}});
  r.pass(seconds(1));
  r.clear();
  for (const std::uint64_t n : {1, 2}) r.from_master(slice_up(n));  // the master has them from the agent's next hello
  r.pass(milliseconds(100));
  ASSERT_EQ(r.messages<Kill>().size(), 1u) << "once, and nothing to agents that were not away";
  EXPECT_EQ(r.messages<Kill>()[0].task, TaskId("killed"));
  ASSERT_EQ(r.messages<DeclareLost>().size(), 1u);
  EXPECT_EQ(r.messages<DeclareLost>()[0].tasks, std::vector<TaskId>{TaskId("lost")});
  ASSERT_EQ(r.messages<Reconcile>().size(), 1u);
  EXPECT_EQ(r.messages<Reconcile>()[0].agent, AgentId("h1"));
  EXPECT_EQ(r.messages<Reconcile>()[0].tasks, (std::vector<TaskId>{TaskId("killed"), TaskId("launched"), TaskId("lost")}));
}

TEST(ClientTasks, ALaunchBehindTheNewsThatItNeverStartedIsDropped) {
  Rig r;
  r.connect();
  r.from_master(slice_up(1));
  r.say(ReconcileTasks{AgentId("h1"), {TaskId("t")}});
  r.from_master(status(1, "t", TaskState::kNeverStarted));
  r.clear();
  r.say(launch("t"));
  EXPECT_TRUE(r.messages<Launch>().empty());
  EXPECT_TRUE(r.up.empty());
}

TEST(ClientTasks, OurOwnReconnectRepeatsNothingTwice) {
  Rig r;
  r.connect();
  r.from_master(slice_up(1));
  r.say(launch("t"));
  KillTask kill;
  kill.kill.task = TaskId("t");
  kill.kill.agent = AgentId("h1");
  r.say(kill);
  r.event(PeerLost{kMasterPeer});
  r.pass(milliseconds(200));
  r.clear();
  r.welcome();
  r.from_master(slice_up(1));
  r.pass(seconds(1));
  EXPECT_EQ(r.messages<Kill>().size(), 1u);
}

}  // namespace
}  // namespace bourse::test
