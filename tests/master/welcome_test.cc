// What a leader tells its peers of itself and of the other masters.
#include <algorithm>

#include "rig.h"

namespace bourse::test {
namespace {

constexpr std::uint64_t kA1 = 11, kA2 = 12, kF1 = 21;

struct OneOfSeveral : Rig {
  static MasterOptions options() {
    MasterOptions o;
    o.replicated = true;
    o.name = "m1";
    return o;
  }
  OneOfSeveral() : Rig(options()) { step(Leader{}); }
  static MasterFacts master(const std::string& name) {
    MasterFacts m;
    m.name = name;
    m.endpoint = "tcp://" + name + ":7400";
    m.raft = "tcp://" + name + ":7401";
    m.voter = true;
    m.self = m.leads = name == "m1";
    m.heard = Duration(0);
    m.round = milliseconds(1);
    return m;
  }
};

TEST(MasterWelcome, PeersAreToldOfAllMastersAndToMissThisOneWithinTheLease) {
  OneOfSeveral rig;
  rig.agent(kA1, "h1", amount(2, 4));
  const auto alone = rig.take<Welcome>(kA1);
  ASSERT_EQ(alone.size(), 1U);
  EXPECT_TRUE(alone[0].masters.empty());
  EXPECT_EQ(alone[0].peer_timeout, seconds(30));
  EXPECT_EQ(alone[0].fence, Duration(0));
  rig.step(MastersChanged{{OneOfSeveral::master("m1"), OneOfSeveral::master("m2"), OneOfSeveral::master("m3")}});
  rig.agent(kA2, "h2", amount(2, 4));
  const auto told = rig.take<Welcome>(kA2);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].masters, (std::vector<std::string>{"tcp://m1:7400", "tcp://m2:7400", "tcp://m3:7400"}));
  EXPECT_EQ(told[0].heartbeat, seconds(2)) << "a quarter of the lease of 8 s";
  EXPECT_EQ(told[0].peer_timeout, seconds(6));
  EXPECT_EQ(told[0].fence, seconds(8));
  rig.framework(kF1, "one");
  EXPECT_EQ(rig.take<Welcome>(kF1).at(0).peer_timeout, seconds(6));
}

TEST(MasterWelcome, WhoKnocksIsAskedForAHelloAndNothingIsLogged) {
  OneOfSeveral rig;
  rig.logs.clear();
  rig.say(kA1, Heartbeat{seconds(1)});
  const auto answer = rig.take<Refused>(kA1);
  ASSERT_EQ(answer.size(), 1U);
  EXPECT_EQ(answer[0].code, Code::kGone);
  EXPECT_EQ(answer[0].reason, "say hello first");
  EXPECT_FALSE(answer[0].not_leading);
  EXPECT_TRUE(rig.logs.empty());
}

}  // namespace
}  // namespace bourse::test
