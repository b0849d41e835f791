// Steps that count with cores: they wait for each other, not for those that count nothing.
#include <gtest/gtest.h>

#include "tests/batch/house.h"

namespace bourse::batch::test {
namespace {

using Strings = std::vector<std::string>;

struct BatchSteps : ::testing::Test {
  House house;
  void job(int nodes, std::int64_t cores) {
    for (int i = 1; i <= nodes; ++i) house.add_agent("h" + std::to_string(i), cores);
    house.start();
    JobSpec s = House::job();
    s.nodes_min = static_cast<std::uint32_t>(nodes), s.tasks_per_node = static_cast<std::uint32_t>(cores);
    house.submit(s);
    ASSERT_EQ(house.running(), Strings{"1.0.1"});
  }
  std::uint64_t ask(const std::string& key, std::int64_t cores, const std::string& node = "") {
    return house.ask(StepRequest{{JobId(1), {}}, node, {"true"}, {}, {}, {}, {}, {}, key, MilliCpus(1000 * cores)});
  }
  Strings steps() {
    Strings found;
    for (const std::string& task : house.running())
      if (task.starts_with("1.0.1.s-")) found.push_back(task.substr(8) + "@" + house.tasks.at(TaskId(task)).agent.str());
    return found;
  }
};

TEST_F(BatchSteps, FillTheHostsAndThenWaitInTheOrderOfAsking) {
  job(2, 2);
  for (const char* key : {"a", "b", "c", "d", "e", "f"}) ask(key, 1);
  EXPECT_EQ(steps(), (Strings{"a@h1", "b@h1", "c@h2", "d@h2"}));
  house.end("1.0.1.s-c", 0);
  EXPECT_EQ(steps(), (Strings{"a@h1", "b@h1", "d@h2", "e@h2"}));
  house.end("1.0.1.s-a", 0);
  EXPECT_EQ(steps(), (Strings{"b@h1", "d@h2", "e@h2", "f@h1"}));
}

TEST_F(BatchSteps, DoNotLetASmallOnePassAWideOneOnTheSameHost) {
  job(1, 2);
  ask("a", 1), ask("wide", 2), ask("small", 1);
  EXPECT_EQ(steps(), Strings{"a@h1"});
  house.end("1.0.1.s-a", 0);
  EXPECT_EQ(steps(), Strings{"wide@h1"});
  house.end("1.0.1.s-wide", 0);
  EXPECT_EQ(steps(), Strings{"small@h1"});
}

TEST_F(BatchSteps, WaitForTheirOwnHostOnly) {
  job(2, 1);
  ask("a", 1, "h1"), ask("b", 1, "h1"), ask("c", 1, "h2");
  EXPECT_EQ(steps(), (Strings{"a@h1", "c@h2"}));
}

TEST_F(BatchSteps, ThatCountNothingNeitherWaitNorAreWaitedFor) {
  job(1, 1);
  ask("a", 1), ask("free", 0);
  EXPECT_EQ(steps(), (Strings{"a@h1", "free@h1"}));
  house.end("1.0.1.s-a", 0);
  ask("b", 1);
  EXPECT_EQ(steps(), (Strings{"b@h1", "free@h1"}));
}

TEST_F(BatchSteps, AreRefusedWhenTheyAskForMoreThanTheJobHas) {
  job(1, 2);
  const auto reply = house.reply<StepReply>(ask("a", 3));
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->code, Code::kInvalid);
  EXPECT_EQ(reply->reason, "it asks for 3 cores, and the job has 2 on a host");
}

TEST_F(BatchSteps, ThatWaitAreToldWhenTheJobEnds) {
  job(1, 1);
  ask("a", 1);
  const auto waiting = ask("b", 1);
  house.end("1.0.1.s-a", TaskState::kLost);
  EXPECT_EQ(steps(), Strings{"b@h1"});
  const auto late = ask("c", 1);
  EXPECT_FALSE(house.reply<StepReply>(late));
  house.end("1.0.1");
  const auto reply = house.reply<StepReply>(late);
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->code, Code::kGone);
  (void)waiting;
}

TEST_F(BatchSteps, OfAClientThatIsGoneWaitNoLonger) {
  job(1, 1);
  ask("a", 1), ask("b", 1);
  house.post(PeerLost{PeerId(77)});
  house.settle();
  EXPECT_EQ(steps(), Strings{}) << "the first was ended, the second not started";
}

}  // namespace
}  // namespace bourse::batch::test
