// Tasks that are launched behind others in their slice, as the agent sees them.
#include <gtest/gtest.h>

#include "agent/status_stream.h"
#include "rig.h"

namespace bourse::testing {
namespace {

using S = TaskState;

class AgentTurn : public ::testing::Test {
 protected:
  Rig rig;
  void SetUp() override {
    rig.start();
    rig.say(carve({slice_spec(1)}));
    rig.say(launch("a", 1));
    rig.pass(milliseconds(10));
    rig.host.automatic = false;  // from here on nothing starts: it waits for its turn
  }
  static TaskSpec in_turn() {
    TaskSpec spec = task_spec();
    spec.in_turn = true;
    return spec;
  }
  static Kill take_back(const std::string& task) {
    Kill kill = kill_task(task);
    kill.unstarted_only = true;
    return kill;
  }
  [[nodiscard]] std::vector<std::string> asked_to_start() const {
    std::vector<std::string> tasks;
    for (const HostAction& action : rig.host_actions)
      if (const auto* start = std::get_if<StartTask>(&action)) tasks.push_back(start->task.task.str());
    return tasks;
  }
};

TEST_F(AgentTurn, AreHandedToTheHostWithThatWord) {
  rig.say(launch("b", 1, in_turn()));
  EXPECT_TRUE(rig.host.specs.at(task_key("b")).in_turn);
  EXPECT_FALSE(rig.host.specs.at(task_key("a")).in_turn);
}

TEST_F(AgentTurn, AreTakenBackByTheHostAloneAndNeverStartAfterwards) {
  rig.say(launch("b", 1, in_turn()));
  rig.clear();
  rig.say(take_back("b"));
  ASSERT_EQ(rig.host.signals.size(), 1u);
  EXPECT_EQ(rig.host.signals[0], std::make_pair(task_key("b"), 0));
  EXPECT_TRUE(rig.states("b").empty());  // the host may have started it just now
  rig.step(TaskStartFailed{task_key("b"), "taken back before it was started", true});
  EXPECT_EQ(rig.states("b"), std::vector<S>{S::kNeverStarted});
  EXPECT_EQ(rig.last_status("b").started, Duration(0));
  rig.clear();
  rig.say(launch("b", 1, in_turn()));
  EXPECT_TRUE(asked_to_start().empty());
}

TEST_F(AgentTurn, GoOnWhenTheWordComesAfterTheirStart) {
  rig.say(take_back("a"));
  EXPECT_TRUE(rig.host.signals.empty());
  rig.process_ends(task_key("a"), 0);
  EXPECT_EQ(rig.last_status("a").state, S::kExited);
}

TEST_F(AgentTurn, ThatAreKilledWhileTheyWaitAreToldKilledAndNotStarted) {
  rig.say(launch("b", 1, in_turn()));
  rig.say(kill_task("b"));
  rig.step(TaskStartFailed{task_key("b"), "taken back before it was started", true});
  EXPECT_EQ(rig.last_status("b").state, S::kKilled);
  EXPECT_EQ(rig.last_status("b").started, Duration(0));
}

TEST_F(AgentTurn, AreAskedForAgainInTheirOrderWhenTheHostComesBack) {
  for (const char* task : {"z", "b", "m"}) rig.say(launch(task, 1, in_turn()));
  rig.clear();
  rig.step(LauncherLost{});
  rig.step(HostTasks{{task_key("a")}, false});
  EXPECT_EQ(asked_to_start(), (std::vector<std::string>{"z", "b", "m"}));
}

TEST_F(AgentTurn, AreAskedForAgainInTheirOrderByTheNextLife) {
  for (const char* task : {"z", "b", "m"}) rig.say(launch(task, 1, in_turn()));
  rig.clear();
  rig.restart();
  rig.step(SliceCarved{slice_id(1), {}});
  EXPECT_EQ(asked_to_start(), (std::vector<std::string>{"z", "b", "m"}));
}

TEST_F(AgentTurn, AreToldWithTheTimesThatTheHostMeasured) {
  rig.say(launch("b", 1, in_turn()));
  rig.pass(seconds(5));
  TaskEnded ended;
  ended.task = task_key("b");
  ended.started = rig.now.wall - milliseconds(70), ended.ended = rig.now.wall - milliseconds(20);
  rig.step(ended);
  EXPECT_EQ(rig.last_status("b").state, S::kExited);
  EXPECT_EQ(rig.last_status("b").started, ended.started);
  EXPECT_EQ(rig.last_status("b").ended, ended.ended);
}

TEST_F(AgentTurn, AreToldOfSeveralAtATimeWhileMoreWait) {
  for (const char* task : {"b", "c", "d"}) rig.say(launch(task, 1, in_turn()));
  const auto ends = [&] {
    std::vector<std::string> told;
    for (const StatusUpdate& update : rig.all<StatusUpdate>())
      if (is_terminal(update.status.state)) told.push_back(update.status.task.str());
    return told;
  };
  const auto end = [&](const char* task) {
    TaskEnded ended;
    ended.task = task_key(task);
    rig.step(ended);
  };
  rig.pass(milliseconds(10));
  end("a"), end("b");
  EXPECT_EQ(ends(), std::vector<std::string>{}) << "c and d wait: nobody needs to know yet";
  end("c"), end("d");
  EXPECT_EQ(ends(), (std::vector<std::string>{"a", "b", "c", "d"})) << "with the last one, nothing is left to wait for";
}

TEST_F(AgentTurn, AreNotToldOfLaterThanAShortMomentThough) {
  rig.say(launch("b", 1, in_turn()));
  rig.pass(milliseconds(10));
  TaskEnded ended;
  ended.task = task_key("a");
  rig.step(ended);
  rig.pass(StatusStreams::kHold);
  EXPECT_EQ(rig.last_status("a").state, S::kExited);
}

}  // namespace
}  // namespace bourse::testing
