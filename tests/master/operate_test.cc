// What operators do: roles and their limits, drains, labels, and the record of it all.
#include <algorithm>

#include "master/registry.h"
#include "master/roles.h"
#include "operated.h"

namespace bourse::test {
namespace {

constexpr std::uint64_t kA1 = 11, kA2 = 12, kF1 = 21, kF2 = 22, kR = 31;
using House = Operated;

// --- roles -----------------------------------------------------------------------------------------------------------

TEST(Roles, ALimitIsNotPassedHoweverMuchIsFree) {
  House h;
  h.agent(kA1, "h1", amount(16, 64));
  EXPECT_EQ(h.act("set-role", "physics", {{"limit.cpus", "4"}}).code, Code::kOk);
  h.join(kF1, "one", "physics");
  h.demand(kF1, {line(1, shape(1, 1), 100)});
  h.pass();
  EXPECT_EQ(h.offered_cpus(kF1), 4);
  EXPECT_EQ(h.account("h1").free.cpus.value, 12'000);
}

TEST(Roles, ALimitHoldsForARolesWholeTree) {
  House h;
  h.agent(kA1, "h1", amount(16, 64));
  h.act("set-role", "physics", {{"limit.cpus", "6"}});
  h.join(kF1, "one", "physics/lattice");
  h.join(kF2, "two", "physics/plasma");
  h.demand(kF1, {line(1, shape(1, 1), 100)});
  h.pass();
  h.demand(kF2, {line(1, shape(1, 1), 100)});
  h.pass();
  EXPECT_EQ(h.offered_cpus(kF1) + h.offered_cpus(kF2), 6);
}

TEST(Roles, RaisingALimitIsFollowedByOffersAtOnce) {
  House h;
  h.agent(kA1, "h1", amount(16, 64));
  h.act("set-role", "physics", {{"limit.cpus", "2"}});
  h.join(kF1, "one", "physics");
  h.demand(kF1, {line(1, shape(1, 1), 100)});
  h.pass();
  ASSERT_EQ(h.offered_cpus(kF1), 2);
  h.act("set-role", "physics", {{"limit.cpus", "5"}});
  h.pass();
  EXPECT_EQ(h.offered_cpus(kF1), 3);
  h.act("set-role", "physics", {{"limit.cpus", "none"}});
  h.pass();
  EXPECT_EQ(h.offered_cpus(kF1), 11);
}

TEST(Roles, WhatOneFrameworkGivesBackGoesToAnotherOfTheRole) {
  House h;
  h.agent(kA1, "h1", amount(16, 64));
  h.agent(kA2, "h2", amount(16, 64));
  h.act("set-role", "physics", {{"limit.cpus", "2"}});
  h.join(kF1, "one", "physics");
  h.join(kF2, "two", "physics");
  h.demand(kF1, {line(1, shape(2, 1), 1)});
  h.pass();
  const auto offers = h.offers(kF1);
  ASSERT_EQ(offers.size(), 1U);
  h.demand(kF2, {line(1, shape(2, 1), 1)});
  h.pass();
  ASSERT_EQ(h.offered_cpus(kF2), 0);
  h.demand(kF1, {});
  h.pass();
  EXPECT_EQ(h.offered_cpus(kF2), 2);
}

TEST(Roles, AGangThatALimitCannotHoldGathersNothing) {
  House h;
  h.agent(kA1, "h1", amount(4, 64));
  h.agent(kA2, "h2", amount(4, 64));
  h.act("set-role", "physics", {{"limit.cpus", "3"}});
  h.join(kF1, "one", "physics");
  h.demand(kF1, {line(1, shape(2, 1), 2, 2)});
  h.pass();
  EXPECT_EQ(h.offered_cpus(kF1), 0);
  h.act("set-role", "physics", {{"limit.cpus", "4"}});
  h.pass();
  EXPECT_EQ(h.offered_cpus(kF1), 4);
}

TEST(Roles, AWildcardOfferIsTrimmedToWhatTheLimitLeaves) {
  House h;
  h.agent(kA1, "h1", amount(16, 64));
  h.act("set-role", "viewers", {{"limit.cpus", "3"}, {"limit.mem", "2GiB"}});
  h.join(kF1, "one", "viewers");
  h.demand(kF1, {}, 0, /*wildcard=*/true);
  h.pass();
  const auto offers = h.offers(kF1);
  ASSERT_EQ(offers.size(), 1U);
  EXPECT_EQ(offers[0].resources.cpus.value, 3000);
  EXPECT_EQ(offers[0].resources.mem.value, 2LL << 30);
}

TEST(Roles, AfterARestartALimitedRoleWaitsForTheAgentsThatMayCarryItsSlices) {
  House h;
  h.agent(kA1, "h1", amount(8, 64));
  h.agent(kA2, "h2", amount(8, 64));
  h.act("set-role", "physics", {{"limit.cpus", "4"}});
  h.join(kF1, "one", "physics");
  h.demand(kF1, {line(1, shape(4, 1), 1)});
  h.pass();
  h.say(kF1, Rig::accept(1, h.offers(kF1).at(0), 100, shape(4, 1)));
  const auto carved1 = h.take<CarveSlices>(kA1), carved2 = h.take<CarveSlices>(kA2);
  ASSERT_EQ(carved1.size() + carved2.size(), 1U);
  const bool on_first = !carved1.empty();
  AgentHello with = Rig::agent_hello(on_first ? "h1" : "h2", amount(8, 64));
  with.slices.push_back({(on_first ? carved1 : carved2)[0].slices[0], false, {}});

  h.again();
  h.join(kF1, "one", "physics");
  h.demand(kF1, {line(1, shape(4, 1), 2)}, 1);
  h.agent(on_first ? kA2 : kA1, on_first ? "h2" : "h1", amount(8, 64));
  h.pass();
  EXPECT_EQ(h.offered_cpus(kF1), 0) << "the agent with its slice has not spoken yet";
  EXPECT_NE(h.why(kF1, "one", 1).rank.find("not every agent has shown"), std::string::npos);
  h.say(on_first ? kA1 : kA2, with);
  h.pass();
  EXPECT_EQ(h.offered_cpus(kF1), 0) << "all of its limit is in use";
}

TEST(Roles, ALimitedRoleDoesNotWaitForEverForAnAgentThatStaysAway) {
  House h;
  h.agent(kA1, "h1", amount(8, 64));
  h.agent(kA2, "h2", amount(8, 64));
  h.act("set-role", "physics", {{"limit.cpus", "4"}});
  h.again();
  h.join(kF1, "one", "physics");
  h.demand(kF1, {line(1, shape(4, 1), 1)});
  h.agent(kA1, "h1", amount(8, 64));
  h.pass();
  ASSERT_EQ(h.offered_cpus(kF1), 0);
  for (int i = 0; i < 8; ++i) {  // heard all the while
    h.run(seconds(4));
    h.say(kF1, Heartbeat{});
    h.say(kA1, Heartbeat{});
  }
  h.pass();
  EXPECT_EQ(h.offered_cpus(kF1), 4);
}

TEST(Roles, WeightsDivideTheClusterInTheirProportion) {
  // Weighted max-min: shares in the proportion of the weights (Ghodsi et al., NSDI 2011, section 4.3).
  House h;
  h.act("set-role", "big", {{"weight", "3"}});
  h.join(kF1, "one", "big");
  h.join(kF2, "two", "small");
  h.demand(kF1, {line(1, shape(1, 1), 1000)});
  h.demand(kF2, {line(1, shape(1, 1), 1000)});
  for (std::uint64_t i = 0; i < 64; ++i) h.agent(100 + i, "n" + std::to_string(i), amount(1, 1));
  h.pass();
  EXPECT_EQ(h.offered_cpus(kF1), 48);
  EXPECT_EQ(h.offered_cpus(kF2), 16);
}

TEST(Roles, ExplainNamesTheLimitThatIsInTheWay) {
  House h;
  h.agent(kA1, "h1", amount(16, 64));
  h.agent(kA2, "h2", amount(16, 64));
  h.act("set-role", "physics", {{"limit.cpus", "4"}});
  h.join(kF1, "one", "physics/lattice");
  h.demand(kF1, {line(1, shape(4, 1), 10)});
  h.pass();
  const ExplainReply reply = h.why(kF1, "one", 1);
  EXPECT_EQ(count(reply, "role limit"), 1U);
  EXPECT_EQ(count(reply, "offered to you"), 1U);
  EXPECT_NE(reply.rank.find("role physics has 4 of at most 4 cpus"), std::string::npos) << reply.rank;
}

TEST(Roles, StatusShowsEveryRoleOfTheTreeWithWhatItUses) {
  House h;
  h.agent(kA1, "h1", amount(16, 64));
  h.act("set-role", "physics", {{"limit.cpus", "4"}, {"limit.mem", "1TiB"}, {"weight", "2"}});
  h.join(kF1, "one", "physics/lattice");
  h.demand(kF1, {line(1, shape(2, 1), 10)});
  h.pass();
  const auto rows = h.status("roles");
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].name, "physics");
  EXPECT_EQ(House::field(rows[0], "limit"), "cpus=4,mem=1TiB");
  EXPECT_EQ(House::field(rows[0], "weight"), "2");
  EXPECT_EQ(House::field(rows[0], "cpus_used"), "4");
  EXPECT_EQ(House::field(rows[0], "waiting"), "1");
  EXPECT_EQ(rows[1].name, "physics/lattice");
  EXPECT_EQ(House::field(rows[1], "frameworks"), "1");
}

TEST(Roles, BadSettingsAreRefusedWithTheReasonAndChangeNothing) {
  House h;
  const auto refused = [&](const std::string& role, const Parameters& parameters, const std::string& word) {
    const OperatorReply reply = h.act("set-role", role, parameters);
    EXPECT_EQ(reply.code, Code::kInvalid) << role;
    EXPECT_NE(reply.reason.find(word), std::string::npos) << reply.reason;
  };
  refused("a//b", {{"weight", "2"}}, "empty");
  refused("a b", {{"weight", "2"}}, "letters");
  refused("a/b/c/d/e/f/g/h/i", {{"weight", "2"}}, "8 levels");
  refused(std::string(129, 'x'), {{"weight", "2"}}, "128");
  refused("a", {{"weight", "0"}}, "from 1");
  refused("a", {{"weight", "1.5"}}, "whole number");
  refused("a", {{"weight", "-1"}}, "from 1");
  refused("a", {{"limit.cpus", "-4"}}, "above 0");
  refused("a", {{"limit.mem", "lots"}}, "64GiB");
  refused("a", {{"limit.", "4"}}, "names a kind");
  refused("a", {{"colour", "red"}}, "colour");
  EXPECT_EQ(h.act("remove-role", "a").code, Code::kNotFound);
  EXPECT_TRUE(h.status("roles").empty());
}

TEST(Roles, SettingsSurviveARestartAndASnapshot) {
  House h;
  h.act("set-role", "physics", {{"limit.gpu", "2"}, {"limit.cpus", "4"}});
  h.act("set-role", "physics", {{"weight", "7"}});
  h.act("set-role", "gone", {{"weight", "7"}});
  h.act("remove-role", "gone");
  h.again();
  const auto rows = h.status("roles");
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(House::field(rows[0], "limit"), "cpus=4,gpu=2");
  EXPECT_EQ(House::field(rows[0], "weight"), "7");
}

TEST(Roles, LimitsOnDevicesCountTheKindAndWhatIsUnderIt) {
  House h;
  Resources total = amount(16, 64);
  for (const char* id : {"g1", "g2", "g3"}) total.devices.push_back({DeviceId(id), "gpu/acme", Generation(1), true, "", {}});
  h.agent(kA1, "h1", total);
  h.act("set-role", "physics", {{"limit.gpu", "2"}});
  h.join(kF1, "one", "physics");
  Shape one = shape(1, 1);
  DeviceAsk gpu;
  gpu.kind = "gpu/";
  one.devices.push_back(gpu);
  h.demand(kF1, {line(1, one, 3)});
  h.pass();
  std::size_t devices = 0;
  for (const Offer& offer : h.offers(kF1)) devices += offer.resources.devices.size();
  EXPECT_EQ(devices, 2U);
}

// --- drain and labels --------------------------------------------------------------------------------------------------

struct Leased : House {
  SliceSpec slice;
  explicit Leased(MasterOptions o = {}) : House(std::move(o)) {
    agent(kA1, "h1", amount(8, 16));
    join(kF1, "one", "role", /*watch=*/true);
    demand(kF1, {line(1, shape(2, 4), 1)});
    pass();
    say(kF1, accept(1, offers(kF1).at(0), 100, shape(2, 4)));
    slice = take<CarveSlices>(kA1).at(0).slices.at(0);
    say(kA1, SliceUp{AgentId("h1"), slice});
    sent.clear();
  }
  void hear() {  // everybody is alive
    say(kF1, Heartbeat{});
    say(kA1, Heartbeat{});
    if (operating) say(kR, Heartbeat{});
  }
  void live(Duration span) {
    for (Duration done{0}; done < span; done += seconds(5)) {
      run(std::min<Duration>(seconds(5), span - done));
      hear();
    }
  }
  AgentFacts::State state() {
    pass();
    const auto updates = take<AgentsUpdate>(kF1);
    EXPECT_FALSE(updates.empty());
    return updates.empty() ? AgentFacts::State::kRemoved : updates.back().agents.at(0).state;
  }
};

TEST(Drain, WithoutADeadlineWhatRunsMayEndByItself) {
  Leased h;
  EXPECT_EQ(h.act("drain", "h1", {}, "disk smells").code, Code::kOk);
  EXPECT_EQ(h.state(), AgentFacts::State::kDraining);
  EXPECT_EQ(h.account("h1").free.cpus.value, 0);
  h.live(std::chrono::hours(1));
  EXPECT_TRUE(h.take<SliceRevoking>(kF1).empty());
  EXPECT_TRUE(h.take<ReleaseSlices>(kA1).empty());
  EXPECT_EQ(House::field(h.status("agents").at(0), "state"), "draining");
  h.say(kF1, ReleaseSlices{{h.slice.id}, Duration{0}});
  h.say(kA1, SliceGone{AgentId("h1"), h.slice.id, SliceEnd::kReleased, ""});
  EXPECT_EQ(House::field(h.status("agents").at(0), "state"), "drained");
  EXPECT_EQ(h.account("h1").free.cpus.value, 0);
  EXPECT_EQ(h.act("undrain", "h1").code, Code::kOk);
  EXPECT_EQ(h.account("h1").free.cpus.value, 8000);
}

TEST(Drain, TheFrameworkIsAskedAheadOfTheDeadlineAndThenTheSliceIsTaken) {
  Leased h;
  h.act("drain", "h1", {{"deadline", "5m"}}, "new disk");
  h.live(seconds(265));
  EXPECT_TRUE(h.take<SliceRevoking>(kF1).empty());
  h.live(seconds(10));  // 30 s ahead, as revoke_grace says
  const auto asked = h.take<SliceRevoking>(kF1);
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_EQ(asked[0].slice, h.slice.id);
  EXPECT_EQ(asked[0].grace, seconds(30));
  EXPECT_NE(asked[0].reason.find("new disk"), std::string::npos);
  EXPECT_TRUE(h.take<ReleaseSlices>(kA1).empty());
  h.live(seconds(30));
  const auto taken = h.take<ReleaseSlices>(kA1);
  ASSERT_EQ(taken.size(), 1U);
  EXPECT_TRUE(taken[0].revoke);
  EXPECT_EQ(taken[0].slices.at(0), h.slice.id);
  h.say(kA1, SliceGone{AgentId("h1"), h.slice.id, SliceEnd::kRevoked, taken[0].reason});
  EXPECT_EQ(h.take<SliceGone>(kF1).at(0).end, SliceEnd::kRevoked);
}

TEST(Drain, UndrainingInTimeTakesNothing) {
  Leased h;
  h.act("drain", "h1", {{"deadline", "5m"}});
  h.live(seconds(200));
  h.act("undrain", "h1");
  h.live(seconds(300));
  EXPECT_TRUE(h.take<SliceRevoking>(kF1).empty());
  EXPECT_TRUE(h.take<ReleaseSlices>(kA1).empty());
}

TEST(Drain, ADeadlineThatIsPutOffCountsFromThen) {
  Leased h;
  h.act("drain", "h1", {{"deadline", "1m"}});
  h.act("drain", "h1", {{"deadline", "1h"}});
  h.live(seconds(600));
  EXPECT_TRUE(h.take<SliceRevoking>(kF1).empty());
  h.live(seconds(3000));
  EXPECT_EQ(h.take<ReleaseSlices>(kA1).size(), 1U);
}

TEST(Drain, TheDeadlineOutlivesTheMaster) {
  Leased h;
  h.act("drain", "h1", {{"deadline", "5m"}});
  h.live(seconds(100));
  h.again();
  AgentHello hello = Rig::agent_hello("h1", amount(8, 16));
  hello.slices.push_back({h.slice, false, {}});
  h.say(kA1, hello);
  h.join(kF1, "one", "role", true);
  EXPECT_EQ(h.account("h1").free.cpus.value, 0);
  h.live(seconds(150));
  EXPECT_TRUE(h.take<ReleaseSlices>(kA1).empty());
  h.live(seconds(55));
  EXPECT_EQ(h.take<ReleaseSlices>(kA1).size(), 1U);
}

TEST(Drain, ASliceOnAnAgentThatIsAwayIsTakenWhenItReturns) {
  Leased h;
  h.act("drain", "h1", {{"deadline", "1m"}});
  for (int i = 0; i < 20; ++i) {
    h.run(seconds(5));
    h.say(kF1, Heartbeat{});
  }
  h.sent.clear();
  AgentHello hello = Rig::agent_hello("h1", amount(8, 16), 2);
  hello.slices.push_back({h.slice, false, {}});
  h.say(kA2, hello);
  const auto taken = h.take<ReleaseSlices>(kA2);
  ASSERT_FALSE(taken.empty());
  EXPECT_TRUE(taken[0].revoke);
}

TEST(Drain, BadOnesAreRefusedByName) {
  Leased h;
  EXPECT_EQ(h.act("drain", "h7").code, Code::kNotFound);
  EXPECT_EQ(h.act("drain", "h1", {{"deadline", "soon"}}).code, Code::kInvalid);
  EXPECT_EQ(h.act("drain", "h1", {{"deadline", "9999d"}}).code, Code::kInvalid);
  EXPECT_EQ(h.act("drain", "h1", {{"colour", "red"}}).code, Code::kInvalid);
  EXPECT_EQ(h.act("drain", "h1", {}, std::string(1001, 'x')).code, Code::kLimit);
  EXPECT_EQ(h.account("h1").free.cpus.value, 6000);
}

TEST(Labels, AnOperatorsAreSeenInOffersAndOutliveAgentAndMaster) {
  House h;
  h.agent(kA1, "h1", amount(8, 16));
  h.agent(kA2, "h2", amount(8, 16));
  h.join(kF1, "one", "role");
  Shape in_rack = shape(1, 1);
  in_rack.constraints = *parse_constraints("rack=r7");
  h.demand(kF1, {line(1, in_rack, 1)});
  h.pass();
  ASSERT_TRUE(h.offers(kF1).empty());
  EXPECT_EQ(h.act("label", "h2", {{"rack", "r7"}}).code, Code::kOk);
  h.pass();
  const auto offers = h.offers(kF1);
  ASSERT_EQ(offers.size(), 1U);
  EXPECT_EQ(offers[0].agent, AgentId("h2"));
  EXPECT_EQ(offers[0].labels.at("rack"), "r7");
  h.agent(kA2, "h2", amount(8, 16), 2);
  h.again();
  h.agent(kA2, "h2", amount(8, 16), 3);
  EXPECT_NE(House::field(h.status("agents").at(1), "labels").find("rack=r7"), std::string::npos);
  EXPECT_EQ(h.act("label", "h2", {{"rack-", ""}}).code, Code::kOk);
  EXPECT_EQ(House::field(h.status("agents").at(1), "labels").find("rack"), std::string::npos);
}

TEST(Labels, TheAgentsOwnComesBackWhenTheOperatorsIsTakenAway) {
  House h;
  AgentHello hello = Rig::agent_hello("h1", amount(8, 16));
  hello.inventory.labels["rack"] = "own";
  h.say(kA1, hello);
  h.act("label", "h1", {{"rack", "theirs"}});
  EXPECT_NE(House::field(h.status("agents").at(0), "labels").find("rack=theirs"), std::string::npos);
  h.act("label", "h1", {{"rack-", ""}});
  EXPECT_NE(House::field(h.status("agents").at(0), "labels").find("rack=own"), std::string::npos);
}

TEST(Labels, OffersMadeUnderOldLabelsAreTakenBack) {
  House h;
  h.agent(kA1, "h1", amount(8, 16));
  h.join(kF1, "one", "role");
  h.demand(kF1, {line(1, shape(1, 1), 1)});
  h.pass();
  ASSERT_EQ(h.offers(kF1).size(), 1U);
  h.act("label", "h1", {{"rack", "r1"}});
  EXPECT_EQ(h.ended(kF1).at(0).end, OfferEnd::kRescinded);
}

TEST(Labels, BadOnesAreRefused) {
  House h;
  h.agent(kA1, "h1", amount(8, 16));
  EXPECT_EQ(h.act("label", "h1", {}).code, Code::kInvalid);
  EXPECT_EQ(h.act("label", "h1", {{"a b", "c"}}).code, Code::kInvalid);
  EXPECT_EQ(h.act("label", "h1", {{"", "c"}}).code, Code::kInvalid);
  EXPECT_EQ(h.act("label", "h1", {{"host", "c"}}).code, Code::kInvalid);
  EXPECT_EQ(h.act("label", "h1", {{"x", std::string(256, 'v')}}).code, Code::kInvalid);
  Parameters many;
  for (int i = 0; i < 257; ++i) many.emplace_back("l" + std::to_string(i), "x");
  EXPECT_EQ(h.act("label", "h1", many).code, Code::kLimit);
}

// --- the record ----------------------------------------------------------------------------------------------------------

TEST(Operators, NothingIsDoneOrAnsweredBeforeItsRecordIsSafe) {
  House h;
  h.agent(kA1, "h1", amount(8, 16));
  h.operate();
  h.hold_durable = true;
  h.say(kR, OperatorAction{1, "cordon", "h1", ""});
  EXPECT_TRUE(h.take<OperatorReply>(kR).empty());
  EXPECT_EQ(h.account("h1").free.cpus.value, 8000);
  const Ticket ticket = h.held_tickets.at(0);
  h.hold_durable = false;
  h.step(AppendFailed{ticket, "no space left on device"});
  const auto replies = h.take<OperatorReply>(kR);
  ASSERT_EQ(replies.size(), 1U);
  EXPECT_EQ(replies[0].code, Code::kIo);
  EXPECT_NE(replies[0].reason.find("no space left"), std::string::npos);
  EXPECT_EQ(h.account("h1").free.cpus.value, 8000);
  EXPECT_EQ(h.act("cordon", "h1").code, Code::kOk);
  EXPECT_EQ(h.account("h1").free.cpus.value, 0);
}

TEST(Operators, AnUnknownActionNamesTheKnownOnes) {
  House h;
  const OperatorReply reply = h.act("explode", "h1");
  EXPECT_EQ(reply.code, Code::kInvalid);
  EXPECT_NE(reply.reason.find("undrain"), std::string::npos);
}

TEST(Operators, EveryActionLeavesAnAuditLineThatEventsShow) {
  House h;
  h.agent(kA1, "h1", amount(8, 16));
  h.act("drain", "h1", {{"deadline", "1h"}}, "new disk");
  h.act("drain", "h9");
  std::vector<std::string> lines;
  for (const auto& row : h.status("events")) {
    if (House::field(row, "event").find("operator_action") != std::string::npos) lines.push_back(House::field(row, "event"));
  }
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_NE(lines[0].find("new disk"), std::string::npos);
  EXPECT_NE(lines[0].find("deadline=1h"), std::string::npos);
  EXPECT_NE(lines[1].find("h9"), std::string::npos);
}

TEST(Operators, EventsAreReadInPagesWithoutGapOrRepeat) {
  House h;
  h.agent(kA1, "h1", amount(8, 16));
  for (int i = 0; i < 600; ++i) h.act("drain", "nobody");  // an event each
  std::string after;
  std::uint64_t last = 0;
  std::size_t seen = 0;
  for (;;) {
    const auto rows = h.status("events", after);
    if (rows.empty()) break;
    for (const auto& row : rows) {
      if (last != 0) { ASSERT_EQ(std::stoull(row.name), last + 1); }
      last = std::stoull(row.name);
      ++seen;
    }
    after = rows.back().name;
  }
  EXPECT_GE(seen, 600U);
}

}  // namespace
}  // namespace bourse::test
