// Jobs that name a reservation, and jobs that keep off what is reserved for others.
#include <gtest/gtest.h>

#include "tests/batch/house.h"

namespace bourse::batch::test {
namespace {

using Strings = std::vector<std::string>;

struct BatchReserved : ::testing::Test {
  House house;
  void cluster(int nodes, std::int64_t cores) {
    for (int i = 1; i <= nodes; ++i) house.add_agent("h" + std::to_string(i), cores);
    house.start();
  }
  // On one host, whole: begins in so many seconds, lasts so many (0: has no end).
  void reserve(const std::string& agent, const std::string& name, std::int64_t in, std::int64_t lasts, bool named = true,
               const std::string& role = "batch") {
    House::Agent& at = house.agents.at(AgentId(agent));
    const Duration start = house.now.wall + seconds(in);
    at.reserved.push_back({name, RoleName(role), start, lasts == 0 ? Duration{0} : start + seconds(lasts), named, true});
    tell(agent);
  }
  void release(const std::string& agent) {
    house.agents.at(AgentId(agent)).reserved.clear();
    tell(agent);
  }
  void tell(const std::string& agent) {
    house.facts(AgentId(agent));
    house.settle();
  }
  // Time goes on, and the master says when a reservation has begun or ended.
  void pass(std::int64_t s) {
    house.pass(seconds(s));
    for (auto& [id, agent] : house.agents) {
      std::erase_if(agent.reserved, [&](const auto& r) { return r.end.count() != 0 && r.end <= house.now.wall; });
      house.facts(id);
    }
    house.pass(seconds(1));
  }
  static JobSpec job(std::int64_t minutes, const std::string& reservation = "") {
    JobSpec s = House::job();
    s.time_limit = minutes == 0 ? kNoLimit : Duration(seconds(minutes * 60));
    s.reservation = reservation;
    return s;
  }
  std::string where(const std::string& task) { return house.tasks.at(TaskId(task)).agent.str(); }
};

TEST_F(BatchReserved, AWrongNameIsRefusedWithTheNearestRightOne) {
  cluster(1, 1);
  EXPECT_EQ(house.submit(job(10, "exam")), JobId());
  EXPECT_EQ(house.refusal, "there is no reservation 'exam'; jobs have none at present");
  reserve("h1", "exam", 0, 3600);
  EXPECT_EQ(house.submit(job(10, "exma")), JobId());
  EXPECT_EQ(house.refusal, "there is no reservation 'exma'; did you mean 'exam'?");
  reserve("h1", "theirs", 0, 3600, false, "physics");
  EXPECT_EQ(house.submit(job(10, "theirs")), JobId());
  EXPECT_EQ(house.refusal, "reservation 'theirs' is for role physics; jobs here run for role batch");
  EXPECT_EQ(house.submit(job(10, "exam,theirs")), JobId());
  EXPECT_NE(house.submit(job(10, "exam")), JobId());
}

TEST_F(BatchReserved, WhoNamesItRunsInItAndNobodyElseDoes) {
  cluster(2, 1);
  reserve("h1", "exam", 0, 7200);
  house.submit(job(10));
  ASSERT_EQ(house.running(), Strings{"1.0.1"});
  EXPECT_EQ(where("1.0.1"), "h2");
  house.submit(job(10));
  EXPECT_EQ(house.running(), Strings{"1.0.1"}) << "what is reserved is not for those that do not name it";
  house.submit(job(10, "exam"));
  EXPECT_EQ(house.running(), (Strings{"1.0.1", "3.0.1"})) << "and keeps nobody waiting who does";
  EXPECT_EQ(where("3.0.1"), "h1");
  EXPECT_EQ(house.spec_of("3.0.1").time_limit, seconds(600));
  house.submit(job(10, "exam"));
  EXPECT_NE(house.why(JobId(4)).find("it waits for enough of reservation exam to be free"), std::string::npos)
      << house.why(JobId(4));
  house.end("1.0.1");
  EXPECT_EQ(house.running(), (Strings{"2.0.1", "3.0.1"})) << "what is free elsewhere is of no use to who names it";
  house.end("3.0.1");
  EXPECT_EQ(house.running(), (Strings{"2.0.1", "4.0.1"}));
}

TEST_F(BatchReserved, WaitsForItsStartAndIsNotStartedWhereItWouldOutlastIt) {
  cluster(1, 2);
  reserve("h1", "exam", 600, 3600);
  house.submit(job(30, "exam"));
  EXPECT_NE(house.refusal.find("it waits for reservation exam, which begins in 10m"), std::string::npos) << house.refusal;
  EXPECT_TRUE(house.running().empty());
  EXPECT_EQ(house.info("1").reason, Reason::kReservation);
  EXPECT_NE(house.why(JobId(1)).find("reservation exam begins in"), std::string::npos) << house.why(JobId(1));
  pass(601);
  EXPECT_EQ(house.running(), Strings{"1.0.1"});
  house.submit(job(120, "exam"));
  EXPECT_NE(house.refusal.find("more than is left of reservation exam"), std::string::npos) << house.refusal;
  EXPECT_EQ(house.running(), Strings{"1.0.1"});
  EXPECT_NE(house.why(JobId(2)).find("its time limit of 2h is more than is left of reservation exam"), std::string::npos)
      << house.why(JobId(2));
  // Extended, it has room for it.
  house.agents.at(AgentId("h1")).reserved[0].end += seconds(3 * 3600);
  tell("h1");
  EXPECT_EQ(house.running(), (Strings{"1.0.1", "2.0.1"}));
}

TEST_F(BatchReserved, EndsWithItsReservation) {
  cluster(1, 2);
  reserve("h1", "exam", 0, 3600);
  house.submit(job(0, "exam"));
  ASSERT_EQ(house.running(), Strings{"1.0.1"});
  EXPECT_LE(house.spec_of("1.0.1").time_limit, seconds(3600)) << "without a limit of its own";
  EXPECT_GT(house.spec_of("1.0.1").time_limit, seconds(3590));
  house.submit(job(50, "exam"));
  ASSERT_EQ(house.running().size(), 2U);
  // It is to end sooner than was said.
  house.agents.at(AgentId("h1")).reserved[0].end = house.now.wall + seconds(60);
  tell("h1");
  house.pass(seconds(50));
  EXPECT_EQ(house.running().size(), 2U);
  pass(15);
  EXPECT_TRUE(house.running().empty());
  EXPECT_EQ(house.info("2").state, JobState::kTimeout);
  EXPECT_EQ(house.info("2").reason_text, "reservation exam has ended");
}

TEST_F(BatchReserved, WhatRunsGoesOnWhenItIsReleasedAndWhatWaitsSaysThatItIsNoMore) {
  cluster(1, 1);
  reserve("h1", "exam", 0, 3600);
  house.submit(job(30, "exam"));
  house.submit(job(30, "exam"));
  ASSERT_EQ(house.running(), Strings{"1.0.1"});
  release("h1");
  house.pass(seconds(120));
  EXPECT_EQ(house.running(), Strings{"1.0.1"});
  EXPECT_EQ(house.info("2").reason, Reason::kReservationGone);
  EXPECT_NE(house.why(JobId(2)).find("its reservation 'exam' is no more"), std::string::npos) << house.why(JobId(2));
  house.end("1.0.1");
  house.pass(seconds(10));
  EXPECT_TRUE(house.running().empty());
  reserve("h1", "exam", 0, 3600);
  EXPECT_EQ(house.running(), Strings{"2.0.1"});
}

TEST_F(BatchReserved, NobodyIsStartedWhoWouldRunIntoOneOfOthers) {
  cluster(1, 1);
  reserve("h1", "theirs", 1800, 3600, false, "physics");
  house.submit(job(60));
  EXPECT_TRUE(house.running().empty());
  EXPECT_EQ(house.info("1").reason, Reason::kNodeNotAvailable);
  EXPECT_NE(
      house.why(JobId(1)).find("its time limit of 1h would run into reservation theirs of h1 for role physics, which begins in"),
      std::string::npos)
      << house.why(JobId(1));
  house.submit(job(20));
  EXPECT_EQ(house.running(), Strings{"2.0.1"}) << "what ends before passes it";
  ASSERT_FALSE(house.demand.empty());
}

TEST_F(BatchReserved, OneForOurRoleThatNeedNotBeNamedIsForAll) {
  cluster(1, 2);
  reserve("h1", "ours", 0, 3600, false);
  house.submit(job(600));
  EXPECT_EQ(house.running(), Strings{"1.0.1"});
  house.submit(job(30, "ours"));
  EXPECT_EQ(house.running(), (Strings{"1.0.1", "2.0.1"}));
}

TEST_F(BatchReserved, SaysInItsDemandWhatItNames) {
  cluster(1, 1);
  reserve("h1", "exam", 0, 3600);
  house.auto_offers = false;
  house.submit(job(10));
  house.submit(job(10, "exam"));
  std::map<std::string, std::pair<std::uint32_t, Duration>> lines;
  for (const DemandLine& line : house.demand) lines[line.reservation] = {line.count, line.lasts};
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines["exam"], (std::pair<std::uint32_t, Duration>(1, seconds(600))));
}

TEST_F(BatchReserved, SeveralNodesOfOneComeTogether) {
  cluster(3, 1);
  reserve("h1", "exam", 0, 3600);
  reserve("h2", "exam", 0, 3600);
  JobSpec wide = job(10, "exam");
  wide.nodes_min = wide.tasks = 2;
  house.submit(wide);
  EXPECT_EQ(house.running(), Strings{"1.0.1"});
  wide.nodes_min = wide.tasks = 3;
  EXPECT_EQ(house.submit(wide), JobId());
  EXPECT_NE(house.refusal.find("in reservation exam: the job needs 3 nodes, and only 2 of 2"), std::string::npos) << house.refusal;
}

TEST_F(BatchReserved, AfterARestartItGoesOn) {
  cluster(1, 1);
  reserve("h1", "exam", 0, 3600);
  house.submit(job(30, "exam"));
  house.submit(job(30, "exam"));
  ASSERT_EQ(house.running(), Strings{"1.0.1"});
  house.restart();
  EXPECT_EQ(house.running(), Strings{"1.0.1"});
  house.end("1.0.1");
  house.pass(seconds(5));
  EXPECT_EQ(house.running(), Strings{"2.0.1"});
}

}  // namespace
}  // namespace bourse::batch::test
