// One of several masters, as the actor sees it: leading, not leading, whose clock is right.
#include <algorithm>

#include "master/clocks.h"
#include "rig.h"

namespace bourse::test {
namespace {

constexpr std::uint64_t kA1 = 11, kA2 = 12, kA3 = 13, kF1 = 21, kR = 31;

struct Replicated : Rig {
  static MasterOptions replicated() {
    MasterOptions o;
    o.replicated = true;
    o.name = "m1";
    return o;
  }
  Replicated() : Rig(replicated()) {}
  [[nodiscard]] bool logged(const std::string& text) const {
    return std::any_of(logs.begin(), logs.end(), [&](const std::string& l) { return l.find(text) != std::string::npos; });
  }
  static MasterFacts other(const std::string& name, Duration offset, Duration heard = Duration(0), bool voter = true) {
    MasterFacts m;
    m.name = name;
    m.endpoint = "tcp://" + name + ":7400";
    m.raft = "tcp://" + name + ":7401";
    m.voter = voter;
    m.heard = heard;
    m.offset = offset;
    m.round = milliseconds(1);
    return m;
  }
  static MasterFacts self() {
    MasterFacts m = other("m1", Duration(0));
    m.self = m.leads = true;
    return m;
  }
};

TEST(Leadership, AMasterThatDoesNotLeadSendsWhoAsksToTheOneThatDoes) {
  Replicated rig;
  EXPECT_TRUE(rig.records.empty());  // it does not take the lead by itself
  rig.agent(kA1, "h1", amount(2, 4));
  const auto nobody = rig.take<Refused>(kA1);
  ASSERT_EQ(nobody.size(), 1U);
  EXPECT_TRUE(nobody[0].not_leading);
  EXPECT_EQ(nobody[0].code, Code::kBusy);
  EXPECT_EQ(nobody[0].leader, "");
  rig.step(NotLeader{"m2", "tcp://m2:7400"});
  rig.framework(kF1, "one");
  EXPECT_EQ(rig.take<Refused>(kF1).at(0).leader, "tcp://m2:7400");
  rig.say(kR, ReaderHello{1, "tool"});
  EXPECT_EQ(rig.take<Refused>(kR).at(0).leader, "tcp://m2:7400");
  for (int i = 0; i < 100; ++i) rig.say(kR, StatusQuery{});  // a flood is not answered by one
  EXPECT_TRUE(rig.take<Refused>(kR).empty());
  EXPECT_EQ(rig.master->epoch().value, 0U);
}

TEST(Leadership, ItIsSilentUntilItsRecordIsCommittedAndTheEpochIsThatEntrysIndex) {
  Replicated rig;
  rig.hold_durable = true;
  rig.step(Leader{});
  ASSERT_EQ(rig.held_tickets.size(), 1U);
  rig.agent(kA1, "h1", amount(2, 4));
  EXPECT_TRUE(rig.sent.empty());
  rig.hold_durable = false;
  rig.step(Durable{rig.held_tickets[0], 4711});
  EXPECT_EQ(rig.master->epoch().value, 4711U);
  rig.agent(kA1, "h1", amount(2, 4));
  EXPECT_EQ(rig.take<Welcome>(kA1).size(), 1U);
}

TEST(Leadership, WhoIsDeposedForgetsAllButTheRegistryAndLeadsAnewWithAHigherEpoch) {
  Replicated rig;
  rig.step(Leader{});
  const Epoch first = rig.master->epoch();
  rig.agent(kA1, "h1", amount(2, 4));
  rig.framework(kF1, "one");
  rig.demand(kF1, {line(1, shape(1, 1), 1)});
  rig.pass();
  EXPECT_EQ(rig.master->open_offers(), 1U);
  rig.sent.clear();
  const std::string before = rig.master->registry();
  rig.step(NotLeader{"m3", "tcp://m3:7400"});
  EXPECT_EQ(rig.master->epoch().value, 0U);
  EXPECT_EQ(rig.master->open_offers(), 0U);
  EXPECT_TRUE(rig.master->accounts().empty());
  EXPECT_EQ(rig.master->registry(), before);
  EXPECT_TRUE(rig.logged("event=deposed"));
  rig.run(seconds(120));  // its timers mean nothing any more
  EXPECT_TRUE(rig.sent.empty());
  rig.say(kA1, Heartbeat{});
  EXPECT_EQ(rig.take<Refused>(kA1).at(0).leader, "tcp://m3:7400");
  rig.step(Committed{rig.index += 5, {}});  // of m3
  rig.step(Leader{});
  EXPECT_GT(rig.master->epoch(), first);
  EXPECT_EQ(rig.master->accounts().size(), 1U);  // h1 is expected back
  rig.agent(kA1, "h1", amount(2, 4));
  EXPECT_EQ(rig.take<Welcome>(kA1).size(), 1U);
}

TEST(Leadership, WhatWasUnderWayWhenItWasDeposedIsNotOnRecordUnlessItComesBack) {
  Replicated rig;
  rig.step(Leader{});
  rig.hold_durable = true;
  rig.agent(kA1, "h1", amount(2, 4));  // its identity is to be recorded
  ASSERT_EQ(rig.held_tickets.size(), 1U);
  const std::string record = rig.records.back(), before = rig.master->registry();
  rig.step(NotLeader{});
  rig.step(AppendFailed{rig.held_tickets[0], "lost leadership"});
  EXPECT_EQ(rig.master->registry().find("h1"), std::string::npos);
  EXPECT_FALSE(rig.logged("registry_append_failed"));
  rig.step(Committed{40, {record}});
  EXPECT_NE(rig.master->registry(), before);
  rig.hold_durable = false;
  rig.step(Leader{});
  EXPECT_EQ(rig.master->accounts().size(), 1U);
}

TEST(Leadership, AFollowersRegistryIsWhatOthersCommitted) {
  Replicated leader, follower;
  leader.step(Leader{});
  leader.agent(kA1, "h1", amount(2, 4));
  leader.framework(kF1, "one");
  std::uint64_t at = 10;
  for (const std::string& record : leader.records) follower.step(Committed{++at, {record}});
  follower.step(Committed{leader.index, {}});
  const std::size_t numbers = 1 + sizeof(std::uint64_t);  // its version, and how many entries it has seen
  EXPECT_EQ(follower.master->registry().substr(numbers), leader.master->registry().substr(numbers));
  Replicated late;
  late.step(Restored{leader.master->registry()});
  EXPECT_EQ(late.master->registry(), leader.master->registry());
}

TEST(Leadership, EveryMasterIsNamedInAWelcomeAndNoneWhereThereIsOne) {
  Replicated rig;
  rig.step(Leader{});
  rig.agent(kA1, "h1", amount(2, 4));
  EXPECT_TRUE(rig.take<Welcome>(kA1).at(0).masters.empty());
  rig.step(MastersChanged{{Replicated::self(), Replicated::other("m2", Duration(0)), Replicated::other("m3", Duration(0))}});
  rig.agent(kA2, "h2", amount(2, 4));
  EXPECT_EQ(rig.take<Welcome>(kA2).at(0).masters, (std::vector<std::string>{"tcp://m1:7400", "tcp://m2:7400", "tcp://m3:7400"}));
}

TEST(Leadership, AnOperatorsChangeOfTheMastersIsAnsweredWhenItIsDone) {
  Replicated rig;
  rig.step(Leader{});
  rig.say(kR, ReaderHello{1, "tool"});
  rig.sent.clear();
  rig.say(kR, OperatorAction{7, "add-master", "m2", "", {{"raft", "tcp://m2:7401"}}});
  EXPECT_TRUE(rig.take<OperatorReply>(kR).empty());
  ASSERT_EQ(rig.members.size(), 1U);
  EXPECT_EQ(rig.members[0].raft, "tcp://m2:7401");
  rig.step(MemberChanged{rig.members[0].tag, Code::kTimeout, "no answer"});
  const auto reply = rig.take<OperatorReply>(kR);
  ASSERT_EQ(reply.size(), 1U);
  EXPECT_EQ(reply[0].tag, 7U);
  EXPECT_EQ(reply[0].code, Code::kTimeout);
  rig.say(kR, OperatorAction{8, "add-master", "m2", "", {}});
  EXPECT_EQ(rig.take<OperatorReply>(kR).at(0).code, Code::kInvalid);
  rig.say(kR, OperatorAction{9, "remove-master", "m2", "", {{"raft", "x"}}});
  EXPECT_EQ(rig.take<OperatorReply>(kR).at(0).code, Code::kInvalid);
  EXPECT_EQ(rig.members.size(), 1U);
}

// --- clocks ------------------------------------------------------------------------------------------------------------

TEST(Clocks, TheMedianIsTheMiddleAndTwoHalvesAccuseNobody) {
  EXPECT_EQ(median({}), Duration(0));
  EXPECT_EQ(median({seconds(5)}), seconds(5));
  EXPECT_EQ(median({Duration(0), seconds(300), seconds(301)}), seconds(300));
  EXPECT_EQ(median({seconds(-9), Duration(0), seconds(9)}), Duration(0));
  EXPECT_EQ(median({Duration(0), seconds(10)}), Duration(0));
  EXPECT_EQ(median({seconds(-10), seconds(-1), seconds(2), seconds(3)}), seconds(-1));
}

TEST(Clocks, TheQuickestAnswerIsTheOneToBelieve) {
  ClockSamples clock;
  EXPECT_FALSE(clock.best());
  clock.add(milliseconds(80), milliseconds(35));
  clock.add(milliseconds(2), milliseconds(1));
  clock.add(milliseconds(200), milliseconds(-90));
  EXPECT_EQ(clock.best()->offset, milliseconds(1));
  for (std::size_t i = 0; i < ClockSamples::kSamples; ++i) clock.add(milliseconds(50), milliseconds(20));  // that was long ago
  EXPECT_EQ(clock.best()->offset, milliseconds(20));
}

TEST(Clocks, ALeaderFarFromTheMedianHandsOverToOneThatIsNot) {
  Replicated rig;
  rig.step(Leader{});
  const auto m2 = [](Duration offset) { return Replicated::other("m2", offset); };
  const auto m3 = [](Duration offset) { return Replicated::other("m3", offset); };
  rig.step(MastersChanged{{Replicated::self(), m2(milliseconds(190)), m3(milliseconds(195))}});
  EXPECT_EQ(rig.hand_overs, 0);
  rig.step(MastersChanged{{Replicated::self(), m2(milliseconds(210)), m3(milliseconds(220))}});
  EXPECT_EQ(rig.hand_overs, 1);
  EXPECT_TRUE(rig.logged("event=clock_off"));
  rig.step(MastersChanged{{Replicated::self(), m2(milliseconds(210)), m3(milliseconds(220))}});
  EXPECT_EQ(rig.hand_overs, 1);  // not more often than it can come to pass
}

TEST(Clocks, NeverSoThatNobodyLeads) {
  {
    Replicated rig;  // two clocks: who is wrong?
    rig.step(Leader{});
    rig.step(MastersChanged{{Replicated::self(), Replicated::other("m2", seconds(100))}});
    EXPECT_EQ(rig.hand_overs, 0);
  }
  {
    Replicated rig;  // the others agree with each other, but they are silent now
    rig.step(Leader{});
    rig.step(MastersChanged{
        {Replicated::self(), Replicated::other("m2", seconds(1), seconds(60)), Replicated::other("m3", seconds(1), seconds(60))}});
    EXPECT_EQ(rig.hand_overs, 0);
  }
  {
    Replicated rig;  // three that all disagree: each of them is as far off
    rig.step(Leader{});
    rig.step(MastersChanged{{Replicated::self(), Replicated::other("m2", seconds(1)), Replicated::other("m3", seconds(2))}});
    EXPECT_EQ(rig.hand_overs, 1);  // m2 is the median itself
    rig.run(seconds(60));
    rig.step(MastersChanged{
        {Replicated::self(), Replicated::other("m2", seconds(1), Duration(0), false), Replicated::other("m3", seconds(2))}});
    EXPECT_EQ(rig.hand_overs, 1);  // but one without a vote cannot lead, and m3 is no better
  }
}

TEST(Clocks, OfFrameworksAndAgentsAreReportedAgainstTheMedian) {
  Replicated rig;
  rig.step(Leader{});
  rig.agent(kA1, "h1", amount(2, 4));
  rig.agent(kA2, "h2", amount(2, 4));
  rig.framework(kF1, "batch");
  const auto wall = [&] { return rig.now + std::chrono::hours(1000); };
  const auto beats = [&](std::uint64_t peer, Duration ahead, int times) {
    for (int i = 0; i < times; ++i) rig.run(seconds(2)), rig.say(peer, Heartbeat{wall() + ahead});
  };
  beats(kA1, milliseconds(10), 4);
  beats(kA2, milliseconds(-10), 4);
  beats(kF1, milliseconds(190), 4);
  EXPECT_FALSE(rig.logged("event=peer_clock_off"));
  beats(kF1, seconds(-3), 3);
  EXPECT_FALSE(rig.logged("event=peer_clock_off")) << "one of the last four said otherwise: it may be the way here";
  beats(kF1, seconds(-3), 1);
  EXPECT_TRUE(rig.logged("event=peer_clock_off who=\"framework batch\" ahead=-3s"));
  beats(kA2, milliseconds(400), 4);
  EXPECT_TRUE(rig.logged("event=peer_clock_off who=\"agent h2\""));
  EXPECT_EQ(rig.hand_overs, 0) << "nobody but a master's own clock bars it";
}

TEST(Clocks, AgentsClocksCount) {
  Replicated rig;
  rig.step(Leader{});
  rig.agent(kA1, "h1", amount(2, 4));
  rig.agent(kA2, "h2", amount(2, 4));
  rig.agent(kA3, "h3", amount(2, 4));
  rig.step(MastersChanged{{Replicated::self(), Replicated::other("m2", milliseconds(400))}});
  EXPECT_EQ(rig.hand_overs, 0);  // two clocks
  const auto wall = [&] { return rig.now + std::chrono::hours(1000); };
  rig.run(seconds(6));
  for (const std::uint64_t peer : {kA1, kA2, kA3}) rig.say(peer, Heartbeat{wall() + milliseconds(390)});
  rig.run(seconds(6));
  rig.say(kA1, Heartbeat{wall() + milliseconds(390)});
  rig.step(MastersChanged{{Replicated::self(), Replicated::other("m2", milliseconds(400))}});
  EXPECT_EQ(rig.hand_overs, 1);
}

}  // namespace
}  // namespace bourse::test
