// What the agent tells its host of leases, so that this can end what has one without the agent. See "Unreachable is not terminal".
#include <gtest/gtest.h>

#include "tests/agent/rig.h"

namespace bourse::testing {
namespace {

class LeaseTest : public ::testing::Test {
 protected:
  void SetUp() override {
    rig.start();
    rig.say(Welcome{kProtocolVersion, "c1", seconds(2), seconds(30), {}, {}, seconds(8)});
    spec.fence_lease = true;
  }
  std::vector<Duration> told() const {
    std::vector<Duration> out;
    for (const HostAction& action : rig.host_actions)
      if (const auto* lease = std::get_if<HoldLease>(&action)) out.push_back(lease->until);
    return out;
  }
  Rig rig;
  TaskSpec spec = task_spec();
};

TEST_F(LeaseTest, IsToldAheadOfTheFirstStartThatHasOneAndNotBefore) {
  rig.say(carve({slice_spec(1)}));
  rig.say(launch("1.0.1", 1));
  rig.pass_heard(seconds(10));
  EXPECT_EQ(told(), std::vector<Duration>{});
  rig.clear();
  rig.say(launch("2.0.1", 1, spec));
  ASSERT_EQ(told(), std::vector<Duration>{rig.now.mono + seconds(8)});
  std::size_t lease = 0, start = 0;
  for (std::size_t i = 0; i < rig.host_actions.size(); ++i) {
    if (std::holds_alternative<HoldLease>(rig.host_actions[i])) lease = i;
    if (std::holds_alternative<StartTask>(rig.host_actions[i])) start = i;
  }
  EXPECT_LT(lease, start);
}

TEST_F(LeaseTest, IsRenewedAsTheLeaderIsHeardAndNotOtherwise) {
  rig.say(carve({slice_spec(1)}));
  rig.say(launch("2.0.1", 1, spec));
  rig.clear();
  rig.pass_heard(seconds(5));
  EXPECT_EQ(told().size(), 5U);
  EXPECT_EQ(told().back(), rig.now.mono + seconds(8));
  for (int i = 0; i < 10; ++i) rig.say(Heartbeat{});
  EXPECT_EQ(told().size(), 5U) << "not with each message";
  rig.clear();
  rig.pass(seconds(7));
  rig.say(Epoch(3), Heartbeat{});  // of one that leads no more
  EXPECT_EQ(told(), std::vector<Duration>{});
}

TEST_F(LeaseTest, IsToldToALauncherThatIsNewAndByTheNextLifeOfTheAgent) {
  rig.say(carve({slice_spec(1)}));
  rig.say(launch("2.0.1", 1, spec));
  const Duration until = rig.now.mono + seconds(8);
  rig.clear();
  rig.pass(milliseconds(100));
  rig.step(LauncherLost{});
  rig.step(HostTasks{{task_key("2.0.1")}});
  EXPECT_EQ(told(), std::vector<Duration>{until});
  rig.clear();
  rig.restart();
  rig.say(Welcome{kProtocolVersion, "c1", seconds(2), seconds(30), {}, {}, seconds(8)});
  ASSERT_FALSE(told().empty());
  EXPECT_EQ(told().back(), rig.now.mono + seconds(8));
}

TEST_F(LeaseTest, WhatTheHostEndedForItWasKilledAndSaysWhy) {
  rig.say(carve({slice_spec(1)}));
  rig.say(launch("2.0.1", 1, spec));
  rig.host.running.erase(task_key("2.0.1"));
  TaskEnded ended;
  ended.task = task_key("2.0.1");
  ended.wait_status = SIGTERM;
  ended.fenced = true;
  rig.step(ended);
  EXPECT_EQ(rig.last_status("2.0.1").state, TaskState::kKilled);
  EXPECT_EQ(rig.last_status("2.0.1").message, "the leader was not heard for the lease");
}

}  // namespace
}  // namespace bourse::testing
