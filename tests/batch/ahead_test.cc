// Short jobs that are sent to a busy slice ahead of time.
#include <gtest/gtest.h>

#include "tests/batch/house.h"

namespace bourse::batch::test {
namespace {

using Strings = std::vector<std::string>;

BatchOptions with_ahead() {
  BatchOptions o = House::defaults();
  o.launch_ahead = milliseconds(20);
  return o;
}

struct BatchAhead : ::testing::Test {
  House house{with_ahead()};
  void short_array(int tasks, int cores = 1, const std::string& suffix = "") {
    house.add_agent("h1", cores);
    house.start();
    JobSpec spec = House::job();
    spec.array = "1-" + std::to_string(tasks) + suffix;
    house.submit(spec);
  }
  void run_for(const std::string& task, Duration time) {
    house.pass(time);  // and what the house takes to come to rest
    house.end(task, 0, time);
  }
  [[nodiscard]] Strings waiting() const {
    Strings out;
    for (const auto& [slice, tasks] : house.in_turn)
      for (const auto& [id, task] : tasks) out.push_back(id.str());
    return out;
  }
};

TEST_F(BatchAhead, SendsAsManyBehindAsTheirPaceAllowsInTheirOrder) {
  short_array(10);
  EXPECT_TRUE(waiting().empty());  // nobody knows their pace
  run_for("1.1.1", milliseconds(6));
  EXPECT_EQ(house.running(), Strings{"1.2.1"});
  EXPECT_EQ(waiting(), (Strings{"1.3.1", "1.4.1", "1.5.1"}));  // 20 ms at 6 ms each
  EXPECT_EQ(house.state("1_2"), JobState::kRunning);
  EXPECT_EQ(house.state("1_3"), JobState::kConfiguring);
  EXPECT_EQ(house.state("1_6"), JobState::kPending);
  run_for("1.2.1", milliseconds(6));
  EXPECT_EQ(house.running(), Strings{"1.3.1"});
  EXPECT_EQ(house.state("1_3"), JobState::kRunning);
  EXPECT_EQ(waiting(), (Strings{"1.4.1", "1.5.1", "1.6.1"}));
  while (!house.tasks.empty()) run_for(house.running().front(), milliseconds(6));
  EXPECT_EQ(house.batch->counts().ended, 10u);
  house.pass(seconds(10));
  EXPECT_TRUE(house.slices.empty());
  EXPECT_EQ(house.agents.begin()->second.free, house.agents.begin()->second.total);
}

TEST_F(BatchAhead, SendsNothingBehindJobsThatAreNotShort) {
  short_array(10);
  run_for("1.1.1", milliseconds(30));
  EXPECT_EQ(house.running(), Strings{"1.2.1"});
  EXPECT_TRUE(waiting().empty());
}

TEST_F(BatchAhead, KeepsToTheLimitOfAnArray) {
  short_array(10, 2, "%2");
  run_for("1.1.1", milliseconds(1));
  EXPECT_EQ(house.running().size() + waiting().size(), 2u);
}

TEST_F(BatchAhead, SpreadsThemOverItsSlices) {
  short_array(20, 2);
  run_for("1.1.1", milliseconds(6));
  ASSERT_EQ(house.in_turn.size(), 2u);
  for (const auto& [slice, tasks] : house.in_turn) EXPECT_EQ(tasks.size(), 3u);
}

TEST_F(BatchAhead, TakesBackWhatIsHeldUpByALongOneAndQueuesItUnderItsNextNumber) {
  short_array(4);
  run_for("1.1.1", milliseconds(6));
  ASSERT_EQ(waiting(), (Strings{"1.3.1", "1.4.1"}));
  house.pass(milliseconds(200));  // 1.2.1 turns out to be long
  EXPECT_TRUE(waiting().empty());
  EXPECT_EQ(house.state("1_3"), JobState::kPending);
  house.end("1.2.1");
  EXPECT_EQ(house.running(), Strings{"1.3.2"});
  EXPECT_TRUE(waiting().empty());  // taken back once is enough
  house.end_all();
  EXPECT_EQ(house.launches.at(TaskId("1.4.2")), 1);
  EXPECT_EQ(house.batch->counts().ended, 4u);
}

TEST_F(BatchAhead, CancelsOneThatWaitsForItsTurn) {
  short_array(4);
  run_for("1.1.1", milliseconds(6));
  CancelRequest cancel;
  cancel.jobs = {*parse_selector("1_3")};
  house.ask(cancel);
  house.settle();
  EXPECT_EQ(house.state("1_3"), JobState::kCancelled);
  EXPECT_EQ(waiting(), Strings{"1.4.1"});
  house.end_all();
  EXPECT_EQ(house.launches.count(TaskId("1.3.2")), 0u);
}

TEST_F(BatchAhead, QueuesAgainWhatWaitedInASliceThatWasTaken) {
  short_array(4);
  run_for("1.1.1", milliseconds(6));
  ASSERT_EQ(waiting(), (Strings{"1.3.1", "1.4.1"}));
  const SliceId slice = house.tasks.begin()->second.slice;
  house.post(SessionEvent(SliceRecalled{slice, seconds(1), "for somebody else"}));
  house.settle();
  EXPECT_TRUE(waiting().empty());
  house.pass(seconds(1));
  house.end_all();
  for (const char* task : {"1.3.2", "1.4.2"}) EXPECT_EQ(house.launches.count(TaskId(task)), 1u) << task;
  EXPECT_EQ(house.batch->counts().ended, 4u);
}

TEST_F(BatchAhead, FindsThemAgainAfterARestartAndKeepsOneInASlice) {
  short_array(8);
  run_for("1.1.1", milliseconds(6));
  ASSERT_EQ(waiting(), (Strings{"1.3.1", "1.4.1", "1.5.1"}));
  house.pass(milliseconds(20));  // hints are written
  house.restart();
  house.settle();
  EXPECT_EQ(house.running(), Strings{"1.2.1"});
  while (!house.tasks.empty()) house.end(house.running().front());  // the house asserts that no two are in one slice
  house.pass(seconds(5));
  while (!house.tasks.empty()) house.end(house.running().front());
  EXPECT_EQ(house.launches.at(TaskId("1.5.1")), 1);
  EXPECT_EQ(house.batch->counts().jobs, 0u);
}

}  // namespace
}  // namespace bourse::batch::test
