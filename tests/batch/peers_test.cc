// What goes on around jobs: programs without a script, clients that vanish, a reload, limits of requeueing, a clock that is set back.
#include <gtest/gtest.h>

#include "frameworks/batch/ending.h"
#include "frameworks/batch/options.h"
#include "tests/batch/house.h"

namespace bourse::batch::test {
namespace {

using Strings = std::vector<std::string>;

struct BatchAround : ::testing::Test {
  House house;
  void cluster(int nodes, std::int64_t cores) {
    for (int i = 1; i <= nodes; ++i) house.add_agent("h" + std::to_string(i), cores);
    house.start();
  }
  static std::string value(const std::vector<std::string>& env, const std::string& name) {
    std::string found = "(none)";
    int times = 0;
    for (const std::string& word : env)
      if (word.starts_with(name + "=")) found = word.substr(name.size() + 1), ++times;
    return times > 1 ? "(twice)" : found;
  }
};

// --- a program without a script ------------------------------------------------------------------------------------

TEST_F(BatchAround, RunsAProgramWithoutAScriptAndWithoutAShell) {
  cluster(1, 1);
  JobSpec s = House::job();
  s.script.clear();
  s.args = {"/bin/echo", "a b", "$HOME"};
  ASSERT_EQ(house.submit(s), JobId(1)) << house.refusal;
  const TaskSpec& task = house.spec_of("1.0.1");
  EXPECT_EQ(task.argv, (Strings{"/bin/echo", "a b", "$HOME"}));
  EXPECT_TRUE(task.artifacts.empty());
  house.restart();
  EXPECT_EQ(house.running(), Strings{"1.0.1"});
  house.end("1.0.1");
  EXPECT_EQ(house.state("1"), JobState::kCompleted);
}

TEST_F(BatchAround, RefusesAJobThatNamesNothingToRun) {
  cluster(1, 1);
  JobSpec s = House::job();
  s.script.clear();
  EXPECT_EQ(house.submit(s), JobId());
  EXPECT_EQ(house.refusal, "the script is empty");
  s.args = {""};
  EXPECT_EQ(house.submit(s), JobId());
}

TEST_F(BatchAround, RefusesAScriptBeyondTheSitesLimit) {
  BatchOptions options = House::defaults();
  options.script_bytes_max = 1024;
  House small(options);
  small.add_agent("h1", 1);
  small.start();
  JobSpec s = House::job();
  s.script.resize(1024, '#');
  EXPECT_NE(small.submit(s), JobId()) << small.refusal;
  s.script += "#";
  EXPECT_EQ(small.submit(s), JobId());
  EXPECT_NE(small.refusal.find("1KiB (batch.submit_max_bytes)"), std::string::npos) << small.refusal;
}

// --- requeueing ----------------------------------------------------------------------------------------------------

TEST_F(BatchAround, QueuesALostJobAgainAsOftenAsTheSiteSaysAndNoMore) {
  BatchOptions options = House::defaults();
  options.requeue_max = 2;
  House h(options);
  h.add_agent("h1", 1);
  h.start();
  h.submit(House::job());
  h.end("1.0.1", TaskState::kLost);
  h.end("1.0.2", TaskState::kPreempted);
  ASSERT_EQ(h.running(), Strings{"1.0.3"});
  h.end("1.0.3", TaskState::kLost);
  EXPECT_TRUE(h.running().empty());
  EXPECT_EQ(h.state("1"), JobState::kNodeFail);
  EXPECT_NE(h.info("1").reason_text.find("2 times already"), std::string::npos) << h.info("1").reason_text;
}

TEST_F(BatchAround, NeverQueuesAgainWhereTheSiteSaysZero) {
  BatchOptions options = House::defaults();
  options.requeue_max = 0;
  House h(options);
  h.add_agent("h1", 1);
  h.start();
  JobSpec s = House::job();
  s.requeue = true;
  h.submit(s);
  h.end("1.0.1", TaskState::kLost);
  EXPECT_EQ(h.state("1"), JobState::kNodeFail);
}

// --- a clock that is set back --------------------------------------------------------------------------------------

TEST_F(BatchAround, MeasuresRunsAndRetriesByTimeThatPassesWhenTheClockStepsBackAnHour) {
  cluster(1, 2);
  JobSpec s = House::job();
  s.time_limit = seconds(600);
  house.submit(s);
  house.pass(seconds(100));
  house.now.wall -= seconds(3600);
  house.pass(seconds(20));
  // The time limit is the agent's, in time that passes: what batch says of it does not change with the date.
  EXPECT_EQ(house.info("1").time_limit, seconds(600));
  EXPECT_EQ(house.spec_of("1.0.1").time_limit, seconds(600));
  house.end("1.0.1");
  const Duration elapsed = house.info("1").elapsed;
  EXPECT_GE(elapsed, seconds(120));
  EXPECT_LE(elapsed, seconds(121));
}

TEST_F(BatchAround, EstimatesAStartByTimeThatPassesWhenTheClockStepsBackAnHour) {
  cluster(1, 1);
  JobSpec s = House::job();
  s.time_limit = seconds(600);
  house.submit(s), house.submit(s);
  house.pass(seconds(100));
  house.now.wall -= seconds(3600);
  const auto why = house.reply<WhyReply>(house.ask(WhyRequest{{JobId(2), {}}}));
  ASSERT_TRUE(why);
  const Duration wait = why->job.estimated_start - house.now.wall;
  EXPECT_GT(wait, seconds(490));
  EXPECT_LE(wait, seconds(501));
}

TEST_F(BatchAround, CountsADelayBehindADependencyInTimeThatPasses) {
  cluster(1, 4);
  house.submit(House::job());
  JobSpec s = House::job();
  s.dependency = "after:1+2";
  house.submit(s);
  house.pass(seconds(60));
  house.now.wall -= seconds(3600);
  house.pass(seconds(50));
  EXPECT_EQ(house.running(), Strings{"1.0.1"});
  house.pass(seconds(15));
  EXPECT_EQ(house.running(), (Strings{"1.0.1", "2.0.1"}));
}

TEST_F(BatchAround, TriesAgainAfterSecondsAlsoWhenTheClockStepsBackAnHour) {
  cluster(1, 1);
  house.submit(House::job());
  for (int i = 1; i <= 6; ++i) {
    ASSERT_EQ(house.running(), Strings{"1.0." + std::to_string(i)});
    house.end("1.0." + std::to_string(i), TaskState::kNeverStarted);
    if (i > 4) house.now.wall -= seconds(3600);
    house.pass(seconds(40));
  }
  EXPECT_EQ(house.running(), Strings{"1.0.7"});
}

// --- clients that vanish -------------------------------------------------------------------------------------------

TEST_F(BatchAround, AsksNowAndThenWhetherAWatcherIsStillThereAndForgetsOneThatIsNot) {
  cluster(1, 1);
  house.submit(House::job());
  const auto tag = house.ask(WatchRequest{{{JobId(1), {}}}});
  ASSERT_TRUE(house.reply<JobChanged>(tag));
  house.pass(seconds(61));
  EXPECT_TRUE(house.reply<JobChanged>(0));  // an answer to nothing, which clients pass over
  house.post(PeerLost{PeerId(77)});
  house.settle();
  house.pass(seconds(200));
  house.end("1.0.1");
  EXPECT_FALSE(house.reply<JobChanged>(tag));
  EXPECT_FALSE(house.reply<JobChanged>(0));
}

TEST_F(BatchAround, TellsAWatcherWhenTheJobRunsThoughItsSliceHadToBeMade) {
  cluster(1, 1);
  house.hold_slices = house.hold_statuses = true;
  house.submit(House::job());
  const auto tag = house.ask(WatchRequest{{{JobId(1), {}}}});
  ASSERT_TRUE(house.reply<JobChanged>(tag));
  ASSERT_EQ(house.held_slices.size(), 1U);
  house.post(SessionEvent(house.held_slices.front()));
  house.settle();
  const auto told = house.reply<JobChanged>(tag);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->job.state, JobState::kRunning);
}

TEST_F(BatchAround, EndsTheStepsOfAClientThatIsGone) {
  cluster(1, 1);
  house.submit(House::job());
  house.ask(StepRequest{{JobId(1), {}}, "", {"sleep"}, {}, "", "", "", "", "", {}});
  ASSERT_EQ(house.tasks.size(), 2U);
  house.post(PeerLost{PeerId(77)});
  house.settle();
  EXPECT_EQ(house.running(), Strings{"1.0.1"});
}

TEST_F(BatchAround, RunsAStepOnceThoughItsClientAsksAgain) {
  cluster(2, 1);
  JobSpec s = House::job();
  s.nodes_min = 2;
  house.submit(s);
  StepRequest step{{JobId(1), {}}, "h2", {"hostname"}, {"SLURMD_NODENAME=h1", "A=1"}, "", "", "", "", "abc-1", {}};
  const auto first = house.ask(step), second = house.ask(step);
  ASSERT_EQ(house.running(), (Strings{"1.0.1", "1.0.1.s-abc-1"}));
  const Strings env = house.spec_of("1.0.1.s-abc-1").env;
  EXPECT_EQ(value(env, "SLURMD_NODENAME"), "h2");
  EXPECT_EQ(value(env, "SLURM_NODEID"), "1");
  EXPECT_EQ(value(env, "A"), "1");
  house.end("1.0.1.s-abc-1", 3);
  EXPECT_FALSE(house.reply<StepReply>(first));
  EXPECT_EQ(house.reply<StepReply>(second)->exit_code, 3);
  step.key = "A b";
  EXPECT_EQ(house.reply<StepReply>(house.ask(step))->code, Code::kInvalid);
}

// --- reload --------------------------------------------------------------------------------------------------------

TEST_F(BatchAround, TakesNewLimitsWithoutARestart) {
  cluster(1, 1);
  house.submit(House::job()), house.submit(House::job());
  BatchOptions next = House::defaults();
  next.default_time_limit = seconds(60), next.max_time_limit = seconds(120);
  house.post(Reload{live_text(next)});
  house.settle();
  EXPECT_EQ(house.info("1").time_limit, seconds(3600));  // it runs with what it was started with
  EXPECT_EQ(house.info("2").time_limit, seconds(60));
  JobSpec s = House::job();
  s.time_limit = seconds(121);
  EXPECT_EQ(house.submit(s), JobId());
  house.post(Reload{"default_time_limit=soon\n"});
  house.settle();
  EXPECT_EQ(house.info("2").time_limit, seconds(60));
  house.end("1.0.1");
  EXPECT_EQ(house.spec_of("2.0.1").time_limit, seconds(60));
}

TEST(BatchOptionsText, CarriesEveryLiveOptionAndRefusesOthers) {
  BatchOptions from, to;
  from.default_time_limit = seconds(1), from.max_time_limit = kNoLimit, from.default_mem_per_cpu = Bytes(5);
  from.slice_idle = seconds(6), from.kill_grace = seconds(7), from.requeue_max = 8, from.script_bytes_max = 9;
  from.pending_max = 10, from.backfill_depth = 11, from.launch_ahead = seconds(12);
  ASSERT_TRUE(take_live(live_text(from), to));
  EXPECT_EQ(live_text(to), live_text(from));
  EXPECT_EQ(to.max_time_limit, kNoLimit);
  EXPECT_EQ(to.requeue_max, 8U);
  EXPECT_FALSE(take_live("framework=1\n", to));
  EXPECT_FALSE(take_live("requeue_max=1x\n", to));
  EXPECT_EQ(to.requeue_max, 8U);
}

TEST(BatchOptionsText, SaysWhichChangesAreInForceAndWhichWait) {
  const auto before = Config::parse("[batch]\nkill_wait = \"30s\"\n", "a", {});
  const auto after = Config::parse("[batch]\nkill_wait = \"10s\"\nframework = \"other\"\n[agent]\nmax_pids = 5\n", "b", {});
  ASSERT_TRUE(before && after);
  const ConfigChanges changes = config_changes(*before, *after);
  EXPECT_EQ(changes.live, Strings{"batch.kill_wait: \"30s\" -> \"10s\""});
  EXPECT_EQ(changes.restart, Strings{"batch.framework: \"batch\" -> \"other\""});
}

// --- how it ended --------------------------------------------------------------------------------------------------

TEST(Ending, SaysLimitAndPeakOfAJobThatRanOutOfMemory) {
  JobInfo job;
  job.id = JobId(7), job.state = JobState::kOutOfMemory, job.mem = Bytes(64 * kMiB.value), job.mem_peak = Bytes(63 * kMiB.value);
  EXPECT_EQ(how_it_ended(job).at(0), "7 ended OUT_OF_MEMORY: out of memory: its limit is 64MiB on each node, its peak was 63MiB");
}

TEST(Ending, SumsUpAnArray) {
  JobReply reply;
  for (int i = 1; i <= 10; ++i) {
    JobInfo row;
    row.id = JobId(static_cast<std::uint64_t>(20 + i)), row.array = JobId(20), row.indexes = std::to_string(i);
    row.state = i == 4 ? JobState::kFailed : JobState::kCompleted, row.exit_code = i == 4 ? 9 : 0;
    reply.rows.push_back(row);
  }
  const WhyReply why = explain_end(reply);
  EXPECT_EQ(why.lines.at(0), "an array of which 10 parts ended: 9 COMPLETED, 1 FAILED");
  EXPECT_EQ(why.lines.at(1), "20_4 ended FAILED: exit code 9");
}

}  // namespace
}  // namespace bourse::batch::test
