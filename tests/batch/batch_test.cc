// The batch actor in a house of its own: what happens to jobs, from submit to end.
#include <gtest/gtest.h>

#include <csignal>
#include <numeric>

#include "common/core/vm_image.h"
#include "frameworks/batch/layout.h"
#include "tests/batch/house.h"

namespace bourse::batch::test {
namespace {

using Strings = std::vector<std::string>;

struct BatchActor : ::testing::Test {
  House house;
  void cluster(int nodes, std::int64_t cores) {
    for (int i = 1; i <= nodes; ++i) house.add_agent("h" + std::to_string(i), cores);
    house.start();
  }
  static JobSpec wide(std::uint32_t nodes) {
    JobSpec s = House::job("wide");
    s.nodes_min = nodes;
    return s;
  }
};

TEST_F(BatchActor, RunsAJobFromSubmitToItsRecord) {
  cluster(1, 2);
  const JobId id = house.submit(House::job());
  ASSERT_EQ(id, JobId(1)) << house.refusal;
  ASSERT_EQ(house.running(), Strings{"1.0.1"});
  EXPECT_EQ(house.state("1"), JobState::kRunning);
  house.end("1.0.1", 0);
  EXPECT_EQ(house.state("1"), JobState::kCompleted);
  EXPECT_FALSE(house.batch->knows({id, {}}));
}

TEST_F(BatchActor, GivesTheNextJobOfTheSameKindTheSameSliceWithoutAnOffer) {
  cluster(1, 1);
  house.submit(House::job()), house.submit(House::job()), house.submit(House::job());
  const auto accepts = house.accepts;
  const SliceId slice = house.tasks.begin()->second.slice;
  house.end("1.0.1"), house.end("2.0.1");
  ASSERT_EQ(house.running(), Strings{"3.0.1"});
  EXPECT_EQ(house.tasks.begin()->second.slice, slice);
  EXPECT_EQ(house.accepts, accepts);
}

TEST_F(BatchActor, NeverPutsTwoUsersIntoOneSlice) {
  cluster(1, 1);
  house.submit(House::job(), 1000);
  JobSpec other = House::job();
  other.user = "bob";
  house.submit(other, 1001);
  const SliceId slice = house.tasks.begin()->second.slice;
  house.end("1.0.1");
  house.pass(seconds(1));
  ASSERT_EQ(house.running(), Strings{"2.0.1"});
  EXPECT_NE(house.tasks.begin()->second.slice, slice);
}

TEST_F(BatchActor, GivesIdleSlicesBackAfterAWhileAndDemandsNothingWhenNothingWaits) {
  cluster(1, 2);
  house.submit(House::job());
  house.end("1.0.1");
  EXPECT_EQ(house.slices.size(), 1u);
  house.pass(seconds(10));
  EXPECT_TRUE(house.slices.empty());
  EXPECT_TRUE(house.demand.empty());
  EXPECT_EQ(house.agents.begin()->second.free, house.agents.begin()->second.total);
}

TEST_F(BatchActor, TellsAnIdOnlyWhenItIsOnTheDiskAndStartsNothingBefore) {
  cluster(1, 2);
  house.disk_slow = true;
  SubmitRequest request;
  request.items.push_back({{}, House::job()});
  const auto tag = house.ask(request);
  house.pass(seconds(5));
  EXPECT_FALSE(house.reply<SubmitReply>(tag));
  EXPECT_TRUE(house.tasks.empty());
  house.release_disk();
  ASSERT_TRUE(house.reply<SubmitReply>(tag));
  EXPECT_EQ(house.tasks.size(), 1u);
}

TEST_F(BatchActor, AnswersTheSameKeyWithTheSameId) {
  cluster(1, 2);
  SubmitRequest request;
  request.items.push_back({"key-1", House::job()});
  const auto first = house.reply<SubmitReply>(house.ask(request));
  const auto again = house.reply<SubmitReply>(house.ask(request));
  ASSERT_TRUE(first && again);
  EXPECT_EQ(first->items[0].id, again->items[0].id);
  house.end_all();
  house.restart();
  request.items[0].spec = House::job();
  EXPECT_EQ(house.batch->counts().jobs, 0u);
  const auto other_user = house.reply<SubmitReply>(house.ask(request, 1001));
  EXPECT_NE(other_user->items[0].id, first->items[0].id);
}

TEST_F(BatchActor, AnswersASecondSubmitOfAKeyOnlyWhenTheFirstIsSafe) {
  cluster(1, 2);
  house.disk_slow = true;
  SubmitRequest request;
  request.items.push_back({"key-1", House::job()});
  const auto a = house.ask(request), b = house.ask(request);
  EXPECT_FALSE(house.reply<SubmitReply>(b));
  house.release_disk();
  const auto first = house.reply<SubmitReply>(a), second = house.reply<SubmitReply>(b);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->items[0].id, second->items[0].id);
}

TEST_F(BatchActor, RefusesASubmitOnAFullDiskKeepsRunningJobsAndGoesOnByItself) {
  cluster(1, 2);
  house.submit(House::job());
  house.disk_full = true;
  EXPECT_EQ(house.submit(House::job()), JobId());
  EXPECT_NE(house.refusal.find("No space left"), std::string::npos) << house.refusal;
  EXPECT_EQ(house.running(), Strings{"1.0.1"});
  house.end("1.0.1");  // its end cannot be written now, and must not be acknowledged or forgotten
  house.pass(seconds(5));
  house.disk_full = false;
  house.pass(seconds(5));
  EXPECT_EQ(house.state("1"), JobState::kCompleted);
  EXPECT_NE(house.submit(House::job()), JobId()) << house.refusal;
}

TEST_F(BatchActor, RefusesWhatNoAgentCouldEverRunAndSaysWhichIsTheLargest) {
  house.add_agent("h1", 1), house.add_agent("h2", 2);
  house.start();
  JobSpec s = House::job();
  s.cpus_per_task = 512;
  EXPECT_EQ(house.submit(s), JobId());
  EXPECT_EQ(house.refusal, "no agent has 512 cores; the largest, h2, has 2");
  s = wide(3);
  EXPECT_EQ(house.submit(s), JobId());
  EXPECT_EQ(house.refusal, "the job needs 3 nodes, and only 2 of 2 agents could run its part");
  s = House::job();
  s.mem_per_node = 64 * kGiB.value;
  EXPECT_EQ(house.submit(s), JobId());
  EXPECT_EQ(house.refusal, "no agent has 64GiB of memory; the largest, h1, has 4GiB");
}

TEST_F(BatchActor, TakesJobsBeforeAnyAgentHasComeAndSaysSo) {
  house.start();
  ASSERT_NE(house.submit(House::job()), JobId());
  EXPECT_EQ(house.refusal, "no agents yet: it waits until one registers");
  EXPECT_EQ(house.info("1").reason, Reason::kNoAgents);
}

TEST_F(BatchActor, RefusesScriptsThatCannotRun) {
  cluster(1, 1);
  JobSpec s = House::job();
  s.script = "echo hello\n";
  EXPECT_EQ(house.submit(s), JobId());
  EXPECT_NE(house.refusal.find("#!"), std::string::npos);
  s.script = std::string("#!/bin/sh\n\0x", 12);
  EXPECT_EQ(house.submit(s), JobId());
  s = House::job();
  s.array = "SRR1";
  EXPECT_EQ(house.submit(s), JobId());
  EXPECT_NE(house.refusal.find("array 'SRR1'"), std::string::npos) << house.refusal;
  s = House::job();
  s.uid = 1;
  EXPECT_EQ(house.submit(s, 1000), JobId());  // for another user
}

// --- arrays --------------------------------------------------------------------------------------------------------

TEST_F(BatchActor, RunsAnArrayAtMostAsManyAtOnceAsItSays) {
  cluster(1, 8);
  JobSpec s = House::job();
  s.array = "1-10%3";
  ASSERT_EQ(house.submit(s), JobId(1));
  EXPECT_EQ(house.running(), (Strings{"1.1.1", "1.2.1", "1.3.1"}));
  EXPECT_EQ(house.info("1_1").id, JobId(2));
  house.end("1.2.1");
  EXPECT_EQ(house.running(), (Strings{"1.1.1", "1.3.1", "1.4.1"}));
  house.end_all();
  EXPECT_EQ(house.launches.size(), 10u);
  EXPECT_EQ(house.batch->counts().jobs, 0u);
  EXPECT_EQ(house.state("1_10"), JobState::kCompleted);
  EXPECT_EQ(house.submit(House::job()), JobId(12));  // 1 + its ten tasks' numbers
}

TEST_F(BatchActor, ShowsAnArraysRestAsOneRow) {
  cluster(1, 2);
  JobSpec s = House::job();
  s.array = "0-1000000000";
  ASSERT_NE(house.submit(s), JobId()) << house.refusal;
  QueueRequest q;
  const auto page = house.reply<QueueReply>(house.ask(q));
  ASSERT_EQ(page->rows.size(), 3u);
  EXPECT_EQ(display_id(page->rows[2]), "1_[2-1000000000]");
}

TEST_F(BatchActor, CancelsPartsOfAnArray) {
  cluster(1, 2);
  JobSpec s = House::job();
  s.array = "1-10";
  house.submit(s);
  auto reply = house.reply<ChangeReply>(house.ask(CancelRequest{{*parse_selector("1_[2,5-7]")}, {}, 0, false, {}}));
  EXPECT_EQ(reply->count, 4u);
  EXPECT_EQ(house.state("1_6"), JobState::kCancelled);
  EXPECT_EQ(house.state("1_2"), JobState::kCancelled);
  house.end_all();
  EXPECT_EQ(house.launches.size(), 7u);
  EXPECT_EQ(house.batch->counts().jobs, 0u);
}

// --- dependencies --------------------------------------------------------------------------------------------------

TEST_F(BatchActor, StartsAfterokOnlyWhenTheOtherSucceeded) {
  cluster(1, 4);
  house.submit(House::job());
  JobSpec s = House::job();
  s.dependency = "afterok:1";
  house.submit(s);
  EXPECT_EQ(house.info("2").reason, Reason::kDependency);
  house.end("1.0.1", 0);
  EXPECT_EQ(house.running(), Strings{"2.0.1"});
}

TEST_F(BatchActor, CancelsWhatDependsOnASuccessThatDidNotCome) {
  cluster(1, 4);
  house.submit(House::job());
  JobSpec s = House::job();
  s.dependency = "afterok:1";
  house.submit(s);
  s.kill_on_invalid_dependency = false;
  house.submit(s);
  s.dependency = "afternotok:1";
  house.submit(s);
  s.dependency = "afterany:2";
  house.submit(s);
  house.end("1.0.1", 3);
  EXPECT_EQ(house.state("1"), JobState::kFailed);
  EXPECT_EQ(house.info("1").exit_code, 3);
  EXPECT_EQ(house.state("2"), JobState::kCancelled);
  EXPECT_EQ(house.info("2").reason, Reason::kDependencyNeverSatisfied);
  EXPECT_EQ(house.state("3"), JobState::kPending);
  EXPECT_EQ(house.info("3").reason, Reason::kDependencyNeverSatisfied);
  EXPECT_EQ(house.running(), (Strings{"4.0.1", "5.0.1"}));
}

TEST_F(BatchActor, RefusesADependencyOnAJobThatNobodyKnows) {
  cluster(1, 1);
  JobSpec s = House::job();
  s.dependency = "afterok:99";
  EXPECT_EQ(house.submit(s), JobId());
  EXPECT_NE(house.refusal.find("there is no job 99"), std::string::npos) << house.refusal;
}

TEST_F(BatchActor, RemembersHowPastJobsEndedAlsoAcrossARestart) {
  cluster(1, 4);
  house.submit(House::job()), house.submit(House::job());
  house.end("1.0.1", 0), house.end("2.0.1", 1);
  house.restart();
  JobSpec s = House::job();
  s.dependency = "afterok:1";
  ASSERT_EQ(house.submit(s), JobId(3)) << house.refusal;
  EXPECT_EQ(house.running(), Strings{"3.0.1"});
  s.dependency = "afterok:2";
  ASSERT_EQ(house.submit(s), JobId(4));
  EXPECT_EQ(house.state("4"), JobState::kCancelled);
}

TEST_F(BatchActor, WaitsMinutesAfterTheOtherBegan) {
  cluster(1, 4);
  house.submit(House::job());
  JobSpec s = House::job();
  s.dependency = "after:1+2";
  house.submit(s);
  house.pass(seconds(110));
  EXPECT_EQ(house.running(), Strings{"1.0.1"});
  house.pass(seconds(15));
  EXPECT_EQ(house.running(), (Strings{"1.0.1", "2.0.1"}));
}

TEST_F(BatchActor, RunsSingletonsOneAfterTheOtherPerNameAndUser) {
  cluster(1, 8);
  JobSpec s = House::job("solo");
  s.dependency = "singleton";
  house.submit(s), house.submit(s), house.submit(s);
  JobSpec other = House::job("else");
  other.dependency = "singleton";
  house.submit(other);
  EXPECT_EQ(house.running(), (Strings{"1.0.1", "4.0.1"}));
  house.ask(CancelRequest{{{JobId(2), {}}}, {}, 0, false, {}});
  EXPECT_EQ(house.running(), (Strings{"1.0.1", "4.0.1"})) << "the third still waits for the first";
  house.end("1.0.1");
  EXPECT_EQ(house.running(), (Strings{"3.0.1", "4.0.1"}));
}

TEST_F(BatchActor, ComparesArraysTaskByTask) {
  cluster(1, 8);
  JobSpec s = House::job();
  s.array = "1-3";
  house.submit(s);
  s.dependency = "aftercorr:1";
  const JobId second = house.submit(s);
  const std::string p = std::to_string(second.value) + ".";
  EXPECT_EQ(house.running().size(), 3u);
  house.end("1.1.1", 0);
  EXPECT_TRUE(house.launches.contains(TaskId(p + "1.1")));
  EXPECT_FALSE(house.launches.contains(TaskId(p + "2.1")));
  house.end("1.2.1", 7), house.end("1.3.1", 0);
  EXPECT_TRUE(house.launches.contains(TaskId(p + "3.1")));
  EXPECT_EQ(house.state(std::to_string(second.value) + "_2"), JobState::kCancelled);
}

// --- hold, begin, cancel, signals ----------------------------------------------------------------------------------

TEST_F(BatchActor, HoldsAndReleases) {
  cluster(1, 1);
  JobSpec s = House::job();
  s.hold = true;
  house.submit(s);
  EXPECT_EQ(house.info("1").reason, Reason::kHeldUser);
  house.restart();
  EXPECT_TRUE(house.tasks.empty());
  const auto denied = house.reply<ChangeReply>(house.ask(ChangeRequest{Change::kRelease, {{JobId(1), {}}}, {}}, 1001));
  EXPECT_EQ(denied->items.at(0).code, Code::kDenied);
  house.ask(ChangeRequest{Change::kRelease, {{JobId(1), {}}}, {}});
  EXPECT_EQ(house.running(), Strings{"1.0.1"});
}

TEST_F(BatchActor, WaitsForItsBeginTimeAlsoWhenTheClockStepsBack) {
  cluster(1, 1);
  JobSpec s = House::job();
  s.begin = house.now.wall + seconds(100);
  house.submit(s);
  EXPECT_EQ(house.info("1").reason, Reason::kBeginTime);
  house.pass(seconds(50));
  house.now.wall -= seconds(500);
  house.pass(seconds(100));
  EXPECT_TRUE(house.tasks.empty());
  house.pass(seconds(600));
  EXPECT_EQ(house.running(), Strings{"1.0.1"});
}

TEST_F(BatchActor, CancelsInEveryState) {
  cluster(1, 1);
  house.submit(House::job()), house.submit(House::job());
  auto both =
      house.reply<ChangeReply>(house.ask(CancelRequest{{{JobId(1), {}}, {JobId(2), {}}, {JobId(9), {}}}, {}, 0, false, {}}));
  EXPECT_EQ(both->count, 2u);
  ASSERT_EQ(both->items.size(), 1u);
  EXPECT_EQ(both->items[0].code, Code::kNotFound);
  EXPECT_EQ(house.state("1"), JobState::kCancelled);
  EXPECT_EQ(house.state("2"), JobState::kCancelled);
  EXPECT_FALSE(house.launches.contains(TaskId("2.0.1")));
  auto late = house.reply<ChangeReply>(house.ask(CancelRequest{{{JobId(1), {}}}, {}, 0, false, {}}));
  EXPECT_EQ(late->items.at(0).code, Code::kGone);
  auto none = house.reply<ChangeReply>(house.ask(CancelRequest{}));
  EXPECT_EQ(none->code, Code::kInvalid);
}

TEST_F(BatchActor, SendsSignalsToRunningJobsOnly) {
  cluster(1, 1);
  house.submit(House::job()), house.submit(House::job());
  JobFilter mine;
  mine.users = {"ann"};
  house.ask(CancelRequest{{}, mine, SIGUSR1, true, {}});
  ASSERT_EQ(house.kills.size(), 1u);
  EXPECT_EQ(house.kills[0].signal, SIGUSR1);
  EXPECT_TRUE(house.kills[0].first_process_only);
  EXPECT_EQ(house.running(), Strings{"1.0.1"});
  EXPECT_EQ(house.state("2"), JobState::kPending);
}

TEST_F(BatchActor, LeavesOtherUsersJobsAlone) {
  cluster(1, 1);
  house.submit(House::job());
  auto reply = house.reply<ChangeReply>(house.ask(CancelRequest{{{JobId(1), {}}}, {}, 0, false, {}}, 1001));
  EXPECT_EQ(reply->items.at(0).code, Code::kDenied);
  EXPECT_EQ(house.reply<ChangeReply>(house.ask(CancelRequest{{{JobId(1), {}}}, {}, 0, false, {}}, 0))->count, 1u);  // root may
}

TEST_F(BatchActor, NamesEveryEndAsSlurmDoes) {
  cluster(1, 8);
  for (int i = 0; i < 5; ++i) house.submit(House::job());
  house.end("1.0.1", TaskState::kTimeLimit), house.end("2.0.1", TaskState::kOutOfMemory, 9);
  house.end("3.0.1", TaskState::kSignaled, 11), house.end("4.0.1", TaskState::kFailedStart),
      house.end("5.0.1", TaskState::kUnknownExit);
  EXPECT_EQ(state_code(house.state("1")), "TO");
  EXPECT_EQ(house.info("1").exit_signal, 15);
  EXPECT_EQ(state_code(house.state("2")), "OOM");
  EXPECT_EQ(house.info("3").exit_signal, 11);
  EXPECT_EQ(house.info("3").reason, Reason::kRaisedSignal);
  EXPECT_EQ(house.info("4").reason, Reason::kLaunchFailed);
  EXPECT_EQ(house.info("5").reason, Reason::kUnknownExit);
}

TEST_F(BatchActor, SetsTheLimitAndWarningOfTheTask) {
  cluster(1, 1);
  JobSpec s = House::job();
  s.time_limit = seconds(240), s.warn_signal = SIGUSR1, s.warn_before = seconds(120), s.warn_shell_only = true;
  s.stdout_path = "%x-%4j.out";
  s.args = {"a b"};
  s.container = "/images/tiny:v1", s.container_mounts = {"/data:/in:ro"}, s.isolate = {"net"};
  house.submit(s);
  const TaskSpec& task = house.spec_of("1.0.1");
  EXPECT_EQ(task.kind, TaskKind::kContainer);
  EXPECT_EQ(task.image, "/images/tiny:v1");
  EXPECT_EQ(task.mounts, Strings{"/data:/in:ro"});
  EXPECT_EQ(task.isolate, Strings{"net"});
  EXPECT_EQ(task.time_limit, seconds(240));
  EXPECT_EQ(task.warn_signal, SIGUSR1);
  EXPECT_TRUE(task.warn_shell_only);
  EXPECT_EQ(task.stdout_path, "/home/ann/j-0001.out");
  EXPECT_EQ(task.argv, (Strings{"{artifact:script}", "a b"}));
  EXPECT_EQ(task.artifacts.at(0).inline_bytes, s.script);
  EXPECT_EQ(task.uid, 1000u);
}

TEST_F(BatchActor, AJobInAVirtualMachineTakesAPlaceOfAHypervisor) {
  JobSpec s = House::job();
  s.vm = "kernel=/k,initrd=/i,arch=aarch64";
  const auto layout = lay_out(s, BatchOptions{}, MilliCpus(0));
  ASSERT_TRUE(layout) << layout.error().text();
  ASSERT_EQ(layout->need.shape.devices.size(), 1u);
  EXPECT_EQ(layout->need.shape.devices[0], vm_device(*parse_vm_image(s.vm)));
  s.vm = "kernel=/k";
  const auto checked = check_spec(s, BatchOptions{});
  ASSERT_FALSE(checked);
  EXPECT_NE(checked.error().text().find("a kernel needs an initrd"), std::string::npos);
}

// --- attempts ------------------------------------------------------------------------------------------------------

TEST_F(BatchActor, StartsAJobThatNeverStartedAnewUnderTheNextNumber) {
  cluster(1, 1);
  house.submit(House::job());
  TaskStatus no;
  no.task = TaskId("1.0.1"), no.state = TaskState::kNeverStarted;
  const auto slice = house.tasks.begin()->second.slice;
  house.tasks.clear();
  house.update(AgentId("h1"), slice, no);
  house.settle();
  EXPECT_EQ(house.running(), Strings{"1.0.2"});
  EXPECT_EQ(house.info("1").restarts, 0u);
}

TEST_F(BatchActor, RequeuesWhatALostNodeTookOnlyWhereAllowed) {
  cluster(1, 2);
  JobSpec keep = House::job();
  keep.requeue = true;
  house.submit(keep);
  keep.requeue = false;
  house.submit(keep);
  house.end("1.0.1", TaskState::kLost), house.end("2.0.1", TaskState::kLost);
  EXPECT_EQ(house.running(), Strings{"1.0.2"});
  EXPECT_EQ(house.info("1").restarts, 1u);
  EXPECT_EQ(state_code(house.state("2")), "NF");
  const auto& env = house.spec_of("1.0.2").env;
  EXPECT_NE(std::find(env.begin(), env.end(), "SLURM_RESTART_COUNT=1"), env.end());
}

TEST_F(BatchActor, AsksAgainForASliceThatItsAgentCouldNotMakeAndSaysSo) {
  house.add_agent("h1", 2);
  house.start();
  house.carves_fail = 1;
  house.submit(House::job());
  house.pass(seconds(1));  // the master has taken off what was accepted: there is demand only if it is said again
  EXPECT_EQ(house.running(), std::vector<std::string>{"1.0.2"});
  house.end_all();
  house.pass(seconds(10));  // its slice goes back
  house.carves_fail = 8;
  house.submit(House::job());
  house.pass(seconds(1));
  const auto why = house.reply<WhyReply>(house.ask(WhyRequest{{JobId(2), {}}}));
  ASSERT_TRUE(why);
  const std::string said = std::accumulate(why->lines.begin(), why->lines.end(), std::string());
  EXPECT_NE(said.find("it was queued again: the agent could not make the slice: no hands"), std::string::npos) << said;
  EXPECT_NE(said.find("several starts of it failed; it is tried again in"), std::string::npos) << said;
  house.pass(seconds(60));
  EXPECT_EQ(house.running(), std::vector<std::string>{"2.0.9"});
}

TEST_F(BatchActor, HoldsAJobThatNoAgentEverStarts) {
  BatchOptions options = House::defaults();
  options.attempts_max = 5;
  House stubborn(options);
  stubborn.add_agent("h1", 1);
  stubborn.start();
  stubborn.submit(House::job());
  for (int i = 0; i < 40 && !stubborn.tasks.empty(); ++i) {
    stubborn.end(stubborn.running()[0], TaskState::kNeverStarted);
    stubborn.pass(seconds(40));
  }
  EXPECT_EQ(stubborn.launches.size(), 5u);
  EXPECT_EQ(stubborn.info("1").reason, Reason::kLaunchHeld);
}

// --- several nodes -------------------------------------------------------------------------------------------------

TEST_F(BatchActor, RunsAJobOnTwoNodesAsOneGang) {
  cluster(2, 2);
  JobSpec s = wide(2);
  s.tasks_per_node = 2;
  house.submit(s);
  ASSERT_EQ(house.running(), Strings{"1.0.1"});
  EXPECT_EQ(house.slices.size(), 2u);
  const auto& env = house.spec_of("1.0.1").env;
  auto has = [&](const std::string& word) { return std::find(env.begin(), env.end(), word) != env.end(); };
  EXPECT_TRUE(has("SLURM_JOB_NODELIST=h[1-2]"));
  EXPECT_TRUE(has("SLURM_JOB_CPUS_PER_NODE=2(x2)"));
  EXPECT_TRUE(has("SLURM_TASKS_PER_NODE=2(x2)"));
  EXPECT_TRUE(has("SUBMIT_NTASKS=4"));
  EXPECT_EQ(house.info("1").node_list, "h[1-2]");
  const auto step = house.ask(StepRequest{{JobId(1), {}}, "h2", {"hostname"}, {}, {}, {}, {}, {}, {}, {}});
  ASSERT_EQ(house.running(), (Strings{"1.0.1", "1.0.1.s1"}));
  EXPECT_EQ(house.tasks.at(TaskId("1.0.1.s1")).agent, AgentId("h2"));
  house.end("1.0.1.s1", 4);
  EXPECT_EQ(house.reply<StepReply>(step)->exit_code, 4);
  house.end("1.0.1");
  EXPECT_EQ(house.state("1"), JobState::kCompleted);
  house.pass(seconds(10));
  EXPECT_TRUE(house.slices.empty());
}

TEST_F(BatchActor, ReservesTheNodesOfAWideJobAndLetsOnlyShortOnesPass) {
  cluster(2, 1);
  JobSpec first = House::job();
  first.time_limit = seconds(100);
  house.submit(first);  // on h1
  JobSpec both = wide(2);
  both.time_limit = seconds(50);
  house.submit(both);
  JobSpec slow = House::job();
  slow.time_limit = seconds(200);
  house.submit(slow);
  JobSpec quick = House::job();
  quick.time_limit = seconds(60);
  house.submit(quick);
  house.pass(seconds(2));
  EXPECT_EQ(house.running(), (Strings{"1.0.1", "4.0.1"})) << "3 would have delayed 2";
  house.pass(seconds(58));
  house.end("4.0.1");
  house.pass(seconds(5));
  EXPECT_EQ(house.running(), Strings{"1.0.1"});
  house.end("1.0.1");
  house.pass(seconds(5));
  EXPECT_EQ(house.running(), Strings{"2.0.1"});
}

// --- restarts ------------------------------------------------------------------------------------------------------

TEST_F(BatchActor, FindsItsRunningJobsAgainAfterARestart) {
  cluster(1, 2);
  house.submit(House::job()), house.submit(House::job()), house.submit(House::job());
  house.restart();
  EXPECT_EQ(house.running(), (Strings{"1.0.1", "2.0.1"}));
  EXPECT_EQ(house.state("1"), JobState::kRunning);
  house.end("1.0.1", 2);
  EXPECT_EQ(house.state("1"), JobState::kFailed);
  EXPECT_EQ(house.running(), (Strings{"2.0.1", "3.0.1"}));
  house.end_all();
  EXPECT_EQ(house.batch->counts().jobs, 0u);
}

TEST_F(BatchActor, FindsARunningJobAgainWhoseHintWasLost) {
  cluster(1, 1);
  house.disk_slow = true;
  SubmitRequest request;
  request.items.push_back({{}, House::job()});
  house.ask(request);
  house.release_disk();
  std::erase_if(house.disk, [](const std::string& r) { return std::holds_alternative<HintRecord>(*decode_record(r)); });
  ASSERT_EQ(house.running(), Strings{"1.0.1"});
  house.restart();
  EXPECT_EQ(house.running(), Strings{"1.0.1"});
  EXPECT_EQ(house.launches[TaskId("1.0.1")], 1);
  house.end("1.0.1");
  EXPECT_EQ(house.state("1"), JobState::kCompleted);
}

TEST_F(BatchActor, DoesNotStartAgainWhatASilentAgentMayRunButGoesOnInTime) {
  house.add_agent("h1", 1), house.add_agent("h2", 1);
  house.start();
  house.submit(House::job());
  std::erase_if(house.disk, [](const std::string& r) { return std::holds_alternative<HintRecord>(*decode_record(r)); });
  const AgentId where = house.tasks.begin()->second.agent;
  house.agents.at(where).up = false;
  house.restart();
  house.pass(seconds(60));
  EXPECT_EQ(house.launches.size(), 1u);
  house.pass(seconds(120));
  EXPECT_TRUE(house.launches.contains(TaskId("1.0.2"))) << "a new attempt elsewhere";
  house.agents.at(where).up = true;
  house.session_up();
  house.settle();
  EXPECT_FALSE(house.tasks.contains(TaskId("1.0.1"))) << "the old attempt was ended when it turned up";
}

// A scripted life, cut by kill -9 after each of its steps: no job lost, none run twice, all end.
TEST(BatchRestart, LosesNoJobAndRunsNoneTwiceWhereverItIsKilled) {
  std::uint64_t steps = 1;
  for (std::uint64_t cut = 1; cut <= steps; ++cut) {
    House house;
    house.add_agent("h1", 2), house.add_agent("h2", 1);
    std::set<std::uint64_t> acknowledged;
    struct Killed {};
    bool killed = false;
    auto submit = [&](JobSpec s, const std::string& key) {
      SubmitRequest request;
      request.items.push_back({key, std::move(s)});
      auto reply = house.reply<SubmitReply>(house.ask(request));
      if (!reply && killed) {  // as submit does: again, with the same key
        killed = false;
        reply = house.reply<SubmitReply>(house.ask(request));
      }
      ASSERT_TRUE(reply);
      ASSERT_EQ(reply->items[0].code, Code::kOk) << reply->items[0].reason;
      EXPECT_TRUE(acknowledged.insert(reply->items[0].id.value).second);
    };
    house.after_step = [&] {
      if (house.steps != cut || killed) return;
      killed = true;  // restart() steps too, but past the cut
      house.restart();
    };
    house.start();
    submit(House::job("a"), "a");
    JobSpec array = House::job("b");
    array.array = "1-4%2";
    submit(array, "b");
    JobSpec wide = House::job("c");
    wide.nodes_min = 2;
    submit(wide, "c");
    JobSpec after = House::job("d");
    after.dependency = "afterany:1";
    submit(after, "d");
    for (int i = 0; i < 200 && house.batch->counts().jobs > 0; ++i) {
      if (!house.tasks.empty()) {
        auto it = house.tasks.begin();
        TaskStatus status;
        status.task = it->first, status.state = TaskState::kExited, status.ended = house.now.wall;
        house.end(it->first.str());
      } else {
        house.pass(seconds(1));
      }
    }
    ASSERT_EQ(house.batch->counts().jobs, 0u) << "killed after step " << cut;
    EXPECT_EQ(acknowledged.size(), 4u);
    std::map<std::string, int> ends;
    for (const std::string& bytes : house.disk) {
      auto record = decode_record(bytes);
      if (const auto* e = std::get_if<EndRecord>(&*record)) ++ends[display_id(*decode_info(e->info))];
    }
    EXPECT_EQ(ends.size(), 7u) << "killed after step " << cut;
    for (const auto& [id, count] : ends) EXPECT_EQ(count, 1) << id << ", killed after step " << cut;
    if (cut == 1) steps = std::max<std::uint64_t>(house.steps, 60);
    if (::testing::Test::HasFailure()) return;
  }
}

// --- what people see -----------------------------------------------------------------------------------------------

TEST_F(BatchActor, PagesTheQueueByIdAndInStartOrder) {
  cluster(1, 1);
  for (int i = 0; i < 25; ++i) house.submit(House::job("n" + std::to_string(i)));
  JobSpec urgent = House::job("urgent");
  urgent.priority = 100;
  urgent.uid = 1000;
  house.submit(urgent, 0);
  for (Order order : {Order::kId, Order::kStart}) {
    QueueRequest q;
    q.limit = 10, q.order = order;
    std::vector<std::uint64_t> ids;
    do {
      auto page = house.reply<QueueReply>(house.ask(q));
      ASSERT_TRUE(page);
      for (const JobInfo& row : page->rows) ids.push_back(row.id.value);
      q.after = page->next;
    } while (q.after != 0 && ids.size() < 100);
    ASSERT_EQ(ids.size(), 26u);
    EXPECT_EQ(std::set<std::uint64_t>(ids.begin(), ids.end()).size(), 26u);
    EXPECT_EQ(ids[0], 1u);
    EXPECT_EQ(ids[1], order == Order::kId ? 2u : 26u);
  }
  QueueRequest filtered;
  filtered.filter.names = {"n7"};
  EXPECT_EQ(house.reply<QueueReply>(house.ask(filtered))->rows.size(), 1u);
  filtered.filter = {};
  filtered.filter.states = {JobState::kRunning};
  EXPECT_EQ(house.reply<QueueReply>(house.ask(filtered))->rows.size(), 1u);
}

TEST_F(BatchActor, TellsWatchersEveryChangeAndTheEnd) {
  cluster(1, 1);
  house.submit(House::job()), house.submit(House::job());
  const auto tag = house.ask(WatchRequest{{{JobId(2), {}}}});
  EXPECT_EQ(house.reply<JobChanged>(tag)->job.state, JobState::kPending);
  house.end("1.0.1");
  EXPECT_EQ(house.reply<JobChanged>(tag)->job.state, JobState::kRunning);
  house.end("2.0.1", 5);
  const auto last = house.reply<JobChanged>(tag);
  ASSERT_TRUE(last && last->last);
  EXPECT_EQ(last->job.exit_code, 5);
}

TEST_F(BatchActor, ExplainsWhyAJobWaits) {
  cluster(1, 1);
  JobSpec s = House::job();
  s.time_limit = seconds(600);
  house.submit(s), house.submit(s), house.submit(s);
  Explained e;
  e.reply.agents = 1;
  e.reply.counts = {{"in use", 1}};
  house.explain_answer = e;
  const auto why = house.reply<WhyReply>(house.ask(WhyRequest{{JobId(3), {}}}));
  ASSERT_TRUE(why);
  EXPECT_EQ(why->position, 2u);
  EXPECT_EQ(why->agents, 1u);
  EXPECT_EQ(why->counts.at(0).first, "in use");
  const auto next = house.reply<WhyReply>(house.ask(WhyRequest{{JobId(2), {}}}));
  EXPECT_GT(next->job.estimated_start, house.now.wall);
  EXPECT_EQ(house.reply<WhyReply>(house.ask(WhyRequest{{JobId(9), {}}}))->code, Code::kNotFound);
}

TEST_F(BatchActor, CountsForTop) {
  cluster(2, 2);
  for (int i = 0; i < 6; ++i) house.submit(House::job());
  const auto s = house.reply<SummaryReply>(house.ask(SummaryRequest{}));
  EXPECT_EQ(s->running, 4u);
  EXPECT_EQ(s->pending, 2u);
  EXPECT_EQ(s->cpus_used, MilliCpus(4000));
  EXPECT_EQ(s->nodes_up, 2u);
  const auto nodes = house.reply<NodesReply>(house.ask(NodesRequest{}));
  EXPECT_EQ(nodes->nodes.at(0).state, "allocated");
}

}  // namespace
}  // namespace bourse::batch::test
