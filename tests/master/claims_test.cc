// Preemption across roles: whose slices are taken for whom, with which notice, and who gets what was freed.
#include <algorithm>

#include "operated.h"

namespace bourse::test {
namespace {

constexpr std::uint64_t kA1 = 11, kA2 = 12, kLow = 21, kHigh = 22, kThird = 23;

struct House : Operated {
  void set(const std::string& role, Parameters parameters) { ok("set-role", role, std::move(parameters)); }
  // The framework gets `count` slices, one after the other a second apart, each on an agent of the master's choice; returns their agents.
  std::vector<std::string> fill(std::uint64_t peer, const std::string& name, std::uint64_t first, Shape s, std::uint32_t count) {
    std::vector<std::string> agents;
    for (std::uint32_t i = 0; i < count; ++i) {
      run(seconds(1));
      demand(peer, {line(1, s, 1)}, accepted[peer]);
      pass();
      const auto made = offers(peer);
      EXPECT_EQ(made.size(), 1U) << name << " " << i;
      if (made.size() != 1U) return agents;
      say(peer, accept(++accepted[peer], made[0], first + i, s));
      up(made[0].agent.str());
      agents.push_back(made[0].agent.str());
    }
    demand(peer, {}, accepted[peer]);
    pass();
    sent.clear();
    return agents;
  }
  void up(const std::string& agent) {  // the agent makes what it was asked for
    const std::uint64_t peer = agent == "h1" ? kA1 : kA2;
    for (const CarveSlices& carve : take<CarveSlices>(peer))
      for (const SliceSpec& spec : carve.slices) say(peer, SliceUp{AgentId(agent), spec});
  }
  std::vector<std::uint64_t> revoking(std::uint64_t peer) {
    std::vector<std::uint64_t> numbers;
    for (const SliceRevoking& r : take<SliceRevoking>(peer)) numbers.push_back(r.slice.number);
    std::sort(numbers.begin(), numbers.end());
    return numbers;
  }
  std::vector<std::uint64_t> told_to_take(std::uint64_t agent) {
    std::vector<std::uint64_t> numbers;
    for (const ReleaseSlices& r : take<ReleaseSlices>(agent)) {
      EXPECT_TRUE(r.revoke);
      for (const SliceId& id : r.slices) numbers.push_back(id.number);
    }
    std::sort(numbers.begin(), numbers.end());
    return numbers;
  }
  void gone(std::uint64_t peer, const std::string& agent, const std::string& framework, std::uint64_t number) {
    say(peer, SliceGone{AgentId(agent), {FrameworkId(framework), number}, SliceEnd::kRevoked, "taken"});
  }
  using Operated::live;
  void live(Duration span) { live(span, {kA1, kA2, kLow, kHigh}); }
  std::map<std::uint64_t, std::uint64_t> accepted;
};

// Worked by hand: 16 cores, four slices of 4 of low, the last one granted is number 4.
struct Full : House {
  Full() {
    agent(kA1, "h1", amount(16, 64));
    join(kLow, "low", "low");
    join(kHigh, "high", "high");
    fill(kLow, "low", 1, shape(4, 4), 4);
  }
};

TEST(Preemption, AHigherPriorityTakesTheYoungestSliceThatIsEnoughAfterItsGrace) {
  Full h;
  h.set("high", {{"priority", "10"}});
  h.demand(kHigh, {line(1, shape(4, 4), 1)});
  h.pass();
  const auto told = h.take<SliceRevoking>(kLow);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].slice.number, 4U) << "the youngest";
  EXPECT_EQ(told[0].grace, seconds(30));
  EXPECT_EQ(told[0].reason, "preempted for framework high of role high, whose priority is 10, not 0");
  EXPECT_TRUE(h.told_to_take(kA1).empty()) << "not before the grace is over";
  h.live(seconds(29));
  EXPECT_TRUE(h.told_to_take(kA1).empty());
  h.live(seconds(2));
  EXPECT_EQ(h.told_to_take(kA1), std::vector<std::uint64_t>{4});
  EXPECT_TRUE(h.offers(kHigh).empty());
  h.gone(kA1, "h1", "low", 4);
  h.pass();
  const auto offers = h.offers(kHigh);
  ASSERT_EQ(offers.size(), 1U);
  EXPECT_EQ(offers[0].resources.cpus.value, 4000);
  EXPECT_TRUE(h.revoking(kLow).empty()) << "and nothing more than that";
}

TEST(Preemption, NothingIsTakenWherePrioritiesAreTheSameOrNotSet) {
  Full h;
  h.demand(kHigh, {line(1, shape(4, 4), 1)});
  h.pass();
  h.live(seconds(5));
  EXPECT_TRUE(h.revoking(kLow).empty());
  h.set("high", {{"priority", "3"}});
  h.set("low", {{"priority", "3"}});
  h.live(seconds(5));
  EXPECT_TRUE(h.revoking(kLow).empty());
  h.set("low", {{"priority", "2"}});
  h.live(seconds(2));
  EXPECT_EQ(h.revoking(kLow), std::vector<std::uint64_t>{4}) << "as soon as one is lower";
}

TEST(Preemption, ARoleInheritsThePriorityOfTheOneAboveIt) {
  House h;
  h.agent(kA1, "h1", amount(4, 64));
  h.join(kLow, "low", "org/batch");
  h.join(kHigh, "high", "org/urgent/today");
  h.fill(kLow, "low", 1, shape(4, 4), 1);
  h.set("org", {{"priority", "5"}});
  h.demand(kHigh, {line(1, shape(4, 4), 1)});
  h.pass();
  EXPECT_TRUE(h.revoking(kLow).empty()) << "both have 5";
  h.set("org/urgent", {{"priority", "6"}});
  h.pass();
  EXPECT_EQ(h.revoking(kLow), std::vector<std::uint64_t>{1});
}

TEST(Preemption, WhatWouldStillNotFitTakesNothing) {
  Full h;
  h.set("high", {{"priority", "10"}});
  h.demand(kHigh, {line(1, shape(17, 4), 1)});
  h.pass();
  h.live(seconds(40));
  EXPECT_TRUE(h.revoking(kLow).empty());
  EXPECT_TRUE(h.told_to_take(kA1).empty());
}

TEST(Preemption, ASliceHandedBackWithinTheGraceIsNotTakenByTheAgent) {
  Full h;
  h.set("high", {{"priority", "10"}});
  h.demand(kHigh, {line(1, shape(4, 4), 1)});
  h.pass();
  ASSERT_EQ(h.revoking(kLow), std::vector<std::uint64_t>{4});
  h.live(seconds(3));
  h.say(kLow, ReleaseSlices{{{FrameworkId("low"), 4}}, Duration{0}});
  h.take<ReleaseSlices>(kA1);
  h.say(kA1, SliceGone{AgentId("h1"), {FrameworkId("low"), 4}, SliceEnd::kReleased, ""});
  h.pass();
  EXPECT_EQ(h.offers(kHigh).size(), 1U) << "as soon as it is there";
  h.live(seconds(60));
  EXPECT_TRUE(h.told_to_take(kA1).empty());
}

TEST(Preemption, ADemandThatEndsWithinTheGraceLeavesTheSliceAlone) {
  Full h;
  h.set("high", {{"priority", "10"}});
  h.demand(kHigh, {line(1, shape(4, 4), 1)});
  h.pass();
  ASSERT_EQ(h.revoking(kLow), std::vector<std::uint64_t>{4});
  h.live(seconds(10));
  h.demand(kHigh, {});
  h.live(seconds(60));
  EXPECT_TRUE(h.told_to_take(kA1).empty());
}

TEST(Preemption, WhatWasFreedIsNotOfferedToAnybodyElse) {
  Full h;
  h.join(kThird, "third", "low");
  h.set("high", {{"priority", "10"}});
  h.demand(kThird, {line(1, shape(1, 1), 100)});  // hungry, and used nothing so far
  h.demand(kHigh, {line(1, shape(8, 8), 1)});
  h.pass();
  ASSERT_EQ(h.revoking(kLow), (std::vector<std::uint64_t>{3, 4}));
  h.live(seconds(31), {kA1, kLow, kHigh, kThird});
  ASSERT_EQ(h.told_to_take(kA1), (std::vector<std::uint64_t>{3, 4}));
  h.gone(kA1, "h1", "low", 3);
  h.pass();
  h.live(seconds(5), {kA1, kLow, kHigh, kThird});
  EXPECT_TRUE(h.offers(kThird).empty()) << "half of it is there, for high";
  EXPECT_EQ(h.account("h1").reserved.cpus.value, 4000);
  h.gone(kA1, "h1", "low", 4);
  h.pass();
  const auto offers = h.offers(kHigh);
  ASSERT_EQ(offers.size(), 1U);
  EXPECT_EQ(offers[0].resources.cpus.value, 8000);
  EXPECT_TRUE(h.offers(kThird).empty());
  EXPECT_EQ(h.account("h1").reserved.cpus.value, 0);
}

TEST(Preemption, OffersOfALowerPriorityAreRescindedBeforeAnySliceIsTaken) {
  House h;
  h.agent(kA1, "h1", amount(8, 64));
  h.join(kLow, "low", "low");
  h.join(kHigh, "high", "high");
  h.fill(kLow, "low", 1, shape(4, 4), 1);
  h.demand(kLow, {line(1, shape(4, 4), 1)}, h.accepted[kLow]);
  h.pass();
  ASSERT_EQ(h.offers(kLow).size(), 1U);
  h.set("high", {{"priority", "10"}});
  h.demand(kHigh, {line(1, shape(4, 4), 1)});
  h.pass();
  h.pass();
  const auto ended = h.ended(kLow);
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].end, OfferEnd::kRescinded);
  EXPECT_EQ(h.offers(kHigh).size(), 1U);
  EXPECT_TRUE(h.revoking(kLow).empty());
}

TEST(Preemption, AGangTakesWhatItNeedsOnAllAgentsOrNothing) {
  House h;
  h.agent(kA1, "h1", amount(4, 64));
  h.agent(kA2, "h2", amount(4, 64));
  h.join(kLow, "low", "low");
  h.join(kThird, "third", "third");
  h.join(kHigh, "high", "high");
  h.set("third", {{"priority", "10"}});
  const auto where = h.fill(kLow, "low", 1, shape(4, 4), 1);
  h.fill(kThird, "third", 1, shape(4, 4), 1);
  h.set("high", {{"priority", "10"}});
  h.demand(kHigh, {line(1, shape(4, 4), 2, 2)});
  h.pass();
  h.live(seconds(5), {kA1, kA2, kLow, kHigh, kThird});
  EXPECT_TRUE(h.revoking(kLow).empty()) << "the other agent is had by an equal";
  h.set("third", {{"priority", "9"}});
  h.live(seconds(2), {kA1, kA2, kLow, kHigh, kThird});
  EXPECT_EQ(h.revoking(kLow), std::vector<std::uint64_t>{1});
  EXPECT_EQ(h.revoking(kThird), std::vector<std::uint64_t>{1});
  h.live(seconds(31), {kA1, kA2, kLow, kHigh, kThird});
  const bool low_on_first = where[0] == "h1";
  h.gone(low_on_first ? kA1 : kA2, low_on_first ? "h1" : "h2", "low", 1);
  h.pass();
  EXPECT_TRUE(h.offers(kHigh).empty()) << "half a gang is of no use";
  h.gone(low_on_first ? kA2 : kA1, low_on_first ? "h2" : "h1", "third", 1);
  h.pass();
  EXPECT_EQ(h.offers(kHigh).size(), 2U) << "both at once";
}

TEST(Preemption, AGuaranteeIsTakenBackUpToItAndNotBeyond) {
  Full h;  // low has all 16 cores
  h.set("high", {{"guarantee.cpus", "8"}});
  h.demand(kHigh, {line(1, shape(4, 4), 4)});
  h.pass();
  const auto told = h.take<SliceRevoking>(kLow);
  ASSERT_EQ(told.size(), 2U) << "8 cores, though 16 are asked for";
  EXPECT_EQ(told[0].reason, "reclaimed for framework high of role high, which was guaranteed it");
  h.live(seconds(40));
  EXPECT_EQ(h.told_to_take(kA1), (std::vector<std::uint64_t>{3, 4}));
  h.gone(kA1, "h1", "low", 3);
  h.gone(kA1, "h1", "low", 4);
  h.pass();
  const auto offers = h.offers(kHigh);
  Accept accept;
  accept.sequence = Sequence(1);
  std::uint64_t number = 1;
  for (const Offer& offer : offers) Rig::add_item(accept, offer, number++, shape(4, 4));
  h.say(kHigh, accept);
  h.up("h1");
  h.live(seconds(40));
  EXPECT_TRUE(h.revoking(kLow).empty()) << "it has what it was guaranteed";
}

TEST(Preemption, AGuaranteeProtectsItsRoleFromAHigherPriority) {
  Full h;
  h.set("low", {{"guarantee.cpus", "12"}});
  h.set("high", {{"priority", "10"}});
  h.demand(kHigh, {line(1, shape(4, 4), 4)});
  h.pass();
  h.live(seconds(5));
  EXPECT_EQ(h.revoking(kLow), std::vector<std::uint64_t>{4}) << "12 of its 16 stay";
}

TEST(Preemption, ALimitBindsWhoeverThePriority) {
  Full h;
  h.set("high", {{"priority", "10"}, {"limit.cpus", "4"}});
  h.demand(kHigh, {line(1, shape(4, 4), 4)});
  h.pass();
  h.live(seconds(5));
  EXPECT_EQ(h.revoking(kLow), std::vector<std::uint64_t>{4});
}

TEST(Preemption, AfterARestartTheMasterStillKnowsWhatIsYoung) {
  Full h;
  h.set("high", {{"priority", "10"}});
  // As the agent tells it: number 2 is the youngest, by the time at which it was granted.
  AgentHello hello = Rig::agent_hello("h1", amount(16, 64));
  for (std::uint64_t i = 1; i <= 4; ++i) {
    SliceSpec spec{.id = {FrameworkId("low"), i}, .resources = amount(4, 4), .cpuset = {}, .gang = {}, .expiry = {}, .role = "low"};
    spec.since = i == 2 ? seconds(900) : seconds(100 + static_cast<std::int64_t>(i));
    hello.slices.push_back({spec, false, {}});
  }
  h.again();
  h.say(kA1, hello);
  h.join(kLow, "low", "low");
  h.join(kHigh, "high", "high");
  h.demand(kHigh, {line(1, shape(4, 4), 1)});
  h.pass();
  EXPECT_EQ(h.revoking(kLow), std::vector<std::uint64_t>{2});
}

TEST(Preemption, WhoWaitsForItIsToldSo) {
  Full h;
  h.set("high", {{"priority", "10"}});
  h.demand(kHigh, {line(1, shape(4, 4), 1)});
  h.pass();
  h.say(kHigh, ExplainQuery{1, FrameworkId("high"), 1});
  const ExplainReply reply = h.take<ExplainReply>(kHigh).at(0);
  EXPECT_NE(reply.rank.find("room for 1 is being made on h1: 1 slice of others to be back within 30s"), std::string::npos)
      << reply.rank;
}

TEST(Preemption, AnAgentThatIsLostMeanwhileEndsTheClaimAndTheNextOneIsTried) {
  House h;
  h.agent(kA1, "h1", amount(4, 64));
  h.agent(kA2, "h2", amount(4, 64));
  h.join(kLow, "low", "low");
  h.join(kHigh, "high", "high");
  const auto where = h.fill(kLow, "low", 1, shape(4, 4), 2);
  h.set("high", {{"priority", "10"}});
  h.demand(kHigh, {line(1, shape(4, 4), 1)});
  h.pass();
  ASSERT_EQ(h.revoking(kLow), std::vector<std::uint64_t>{2});
  const bool second_on_first = where[1] == "h1";
  h.say(second_on_first ? kA1 : kA2, Goodbye{});
  h.live(seconds(3), {second_on_first ? kA2 : kA1, kLow, kHigh});
  EXPECT_EQ(h.revoking(kLow), std::vector<std::uint64_t>{1});
}

}  // namespace
}  // namespace bourse::test
