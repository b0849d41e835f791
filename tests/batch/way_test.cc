// Jobs that give way to others, and jobs that maintenance would cut short.
#include <gtest/gtest.h>

#include "tests/batch/house.h"

namespace bourse::batch::test {
namespace {

using Strings = std::vector<std::string>;

struct BatchWay : ::testing::Test {
  House house;
  void cluster(int nodes, std::int64_t cores) {
    for (int i = 1; i <= nodes; ++i) house.add_agent("h" + std::to_string(i), cores);
    house.start();
  }
  void closes(const std::string& name, Duration in) {  // 0: no window is known
    house.agents.at(AgentId(name)).closes = in.count() > 0 ? house.now.wall + in : Duration{0};
    house.facts(AgentId(name));
    house.settle();
    house.pass(seconds(1));
  }
  static JobSpec job(std::int64_t minutes) {
    JobSpec s = House::job();
    s.time_limit = seconds(minutes * 60);
    return s;
  }
};

TEST_F(BatchWay, AJobThatGaveWayIsQueuedAgainAndSaysForWhom) {
  cluster(1, 1);
  JobSpec s = job(10);
  s.requeue = true;
  house.submit(s);
  ASSERT_EQ(house.running(), Strings{"1.0.1"});
  house.auto_offers = false;
  const SliceId slice = house.tasks.begin()->second.slice;
  house.post(SessionEvent(SliceRecalled{slice, seconds(30), "preempted for framework urgent of role ops"}));
  house.settle();
  ASSERT_EQ(house.kills.size(), 1U);
  EXPECT_TRUE(house.kills[0].preempt);
  EXPECT_EQ(house.kills[0].grace, seconds(30));
  house.pass(seconds(1));
  EXPECT_EQ(house.state("1"), JobState::kPending);
  EXPECT_NE(house.why(JobId(1)).find("it was queued again: preempted: preempted for framework urgent of role ops"),
            std::string::npos)
      << house.why(JobId(1));
  house.auto_offers = true;
  house.pass(seconds(5));
  EXPECT_EQ(house.running(), Strings{"1.0.2"});
  EXPECT_EQ(house.info("1").restarts, 1U);
}

TEST_F(BatchWay, WhatIsTakenBackIsNotUsedForAnother) {
  cluster(1, 1);
  JobSpec s = job(10);
  s.requeue = true;
  house.submit(s);
  house.submit(job(10));
  house.auto_offers = false;
  const SliceId slice = house.tasks.begin()->second.slice;
  house.post(SessionEvent(SliceRecalled{slice, seconds(30), "preempted for framework urgent of role ops"}));
  house.settle();
  house.pass(seconds(1));
  EXPECT_TRUE(house.running().empty()) << "neither for itself nor for the next of its kind";
  EXPECT_FALSE(house.slices.contains(slice)) << "it is given back at once, not when its grace is over";
}

TEST_F(BatchWay, OneThatMayNotStartAgainEndsPreemptedAndSaysForWhom) {
  cluster(1, 1);
  JobSpec s = job(10);
  s.requeue = false;
  house.submit(s);
  const SliceId slice = house.tasks.begin()->second.slice;
  house.post(SessionEvent(SliceRecalled{slice, seconds(30), "preempted for framework urgent of role ops"}));
  house.settle();
  house.pass(seconds(1));
  EXPECT_EQ(house.state("1"), JobState::kPreempted);
  EXPECT_EQ(house.info("1").reason_text, "preempted for framework urgent of role ops");
}

TEST_F(BatchWay, WhatMaintenanceWouldCutShortWaitsAndWhatEndsBeforePasses) {
  cluster(1, 2);
  closes("h1", seconds(1800));
  house.submit(job(60));
  EXPECT_TRUE(house.running().empty());
  house.submit(job(20));
  EXPECT_EQ(house.running(), Strings{"2.0.1"});
  EXPECT_NE(house.why(JobId(1)).find("its time limit of 1h would run into the maintenance of h1, which begins in 29m"),
            std::string::npos)
      << house.why(JobId(1));
  EXPECT_EQ(house.info("1").reason, Reason::kNodeNotAvailable);
  house.submit(job(30));  // a moment too long
  EXPECT_EQ(house.running(), Strings{"2.0.1"});
  closes("h1", Duration{0});
  EXPECT_EQ(house.running(), (Strings{"1.0.1", "2.0.1"}));
}

TEST_F(BatchWay, ItSaysHowLongTheShortestOfEachKindLastsOnlyWhereSomethingCloses) {
  cluster(1, 1);
  house.auto_offers = false;
  house.submit(job(60));
  ASSERT_EQ(house.demand.size(), 1U);
  EXPECT_EQ(house.demand[0].lasts, Duration{0});
  closes("h1", seconds(86'400));
  ASSERT_EQ(house.demand.size(), 1U);
  EXPECT_EQ(house.demand[0].lasts, seconds(3600));
  house.submit(job(20));
  ASSERT_EQ(house.demand.size(), 1U);
  EXPECT_EQ(house.demand[0].lasts, seconds(1200));
}

TEST_F(BatchWay, AKeptSliceOnAHostThatClosesIsUsedOnlyByWhatEndsBefore) {
  cluster(1, 1);
  house.submit(job(60));
  ASSERT_EQ(house.running(), Strings{"1.0.1"});
  closes("h1", seconds(1800));
  house.submit(job(60));
  house.submit(job(10));
  house.end("1.0.1");
  EXPECT_EQ(house.running(), Strings{"3.0.1"});
  EXPECT_EQ(house.accepts, 1U) << "in the slice that was kept";
}

TEST_F(BatchWay, OtherHostsAreUsedMeanwhile) {
  cluster(2, 1);
  closes("h1", seconds(1800));
  house.submit(job(60));
  ASSERT_EQ(house.running(), Strings{"1.0.1"});
  EXPECT_EQ(house.tasks.begin()->second.agent, AgentId("h2"));
}

}  // namespace
}  // namespace bourse::batch::test
