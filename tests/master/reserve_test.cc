// Operators' reservations and maintenance windows: what is kept for whom, until when, and what survives.
#include <algorithm>

#include "master/registry.h"
#include "master/roles.h"
#include "operated.h"

namespace bourse::test {
namespace {

constexpr std::uint64_t kA1 = 11, kA2 = 12, kF1 = 21, kF2 = 22;
struct House : Operated {
  using Operated::live;
  void live(Duration span) { live(span, {kA1, kA2, kF1, kF2}); }
  std::string in(std::int64_t s) const {  // a moment so many seconds from now, as operators say it
    return std::to_string(std::chrono::duration_cast<seconds>(now + std::chrono::hours(1000)).count() + s);
  }
  std::vector<StatusReply::Row> rows() { return status("reservations"); }
};

// --- for a role --------------------------------------------------------------------------------------------------------

TEST(Reservation, IsOfferedToItsRoleOnlyAndToTheRolesBelowIt) {
  House h;
  h.agent(kA1, "h1", amount(8, 64));
  h.ok("reserve", "class", {{"role", "physics"}, {"agents", "h1"}, {"amount.cpus", "6"}, {"amount.mem", "32GiB"}});
  h.join(kF1, "other", "physicists");
  h.join(kF2, "mine", "physics/lattice");
  h.demand(kF1, {line(1, shape(1, 1), 100)});
  h.pass();
  const auto others = h.offers(kF1);
  EXPECT_EQ(h.cpus_of(others), 2) << "what is not reserved";
  for (const Offer& offer : others) EXPECT_EQ(offer.reserved, "");
  EXPECT_EQ(h.account("h1").reserved.cpus.value, 6000);
  EXPECT_EQ(h.account("h1").reserved.mem, Bytes(32LL << 30));
  const ExplainReply why = h.why(kF1, "other", 1);
  EXPECT_EQ(count(why, "offered to you"), 1U);
  h.demand(kF2, {line(1, shape(3, 1), 10)});
  h.pass();
  const auto mine = h.offers(kF2);
  EXPECT_EQ(h.cpus_of(mine), 6);
  for (const Offer& offer : mine) EXPECT_EQ(offer.reserved, "class");
}

TEST(Reservation, ASliceOfItCountsForItAndComesBackToIt) {
  House h;
  h.agent(kA1, "h1", amount(8, 64));
  h.ok("reserve", "class", {{"role", "physics"}, {"agents", "h1"}, {"amount.cpus", "6"}});
  h.join(kF1, "mine", "physics");
  h.join(kF2, "other", "other");
  h.demand(kF1, {line(1, shape(4, 1), 1)});
  h.pass();
  const auto offers = h.offers(kF1);
  ASSERT_EQ(offers.size(), 1U);
  h.say(kF1, Rig::accept(1, offers[0], 7, shape(4, 1)));
  const auto carved = h.take<CarveSlices>(kA1);
  ASSERT_EQ(carved.size(), 1U);
  EXPECT_EQ(carved[0].slices[0].reserved, "class");
  EXPECT_EQ(carved[0].slices[0].since, h.now + std::chrono::hours(1000));
  h.pass();
  EXPECT_EQ(h.account("h1").reserved.cpus.value, 2000);
  h.demand(kF2, {line(1, shape(1, 1), 100)});
  h.pass();
  EXPECT_EQ(h.cpus_of(h.offers(kF2)), 2);
  h.say(kA1, SliceGone{AgentId("h1"), {FrameworkId("mine"), 7}, SliceEnd::kReleased, ""});
  h.pass();
  EXPECT_EQ(h.account("h1").reserved.cpus.value, 6000) << "for the next one of the role, not for who is hungry";
  EXPECT_EQ(h.cpus_of(h.offers(kF2)), 0);
}

TEST(Reservation, WaitsForWhatOthersHaveAndTakesItAsItFrees) {
  House h;
  h.agent(kA1, "h1", amount(8, 64));
  h.join(kF2, "other", "other");
  h.demand(kF2, {line(1, shape(4, 1), 2)});
  h.pass();
  const auto offers = h.offers(kF2);
  ASSERT_EQ(h.cpus_of(offers), 8);
  Accept accept;
  accept.sequence = Sequence(1);
  Rig::add_item(accept, offers[0], 1, shape(4, 1), 2);
  h.say(kF2, accept);
  h.ok("reserve", "all", {{"role", "physics"}, {"agents", "h1"}});
  h.pass();
  EXPECT_EQ(h.account("h1").reserved.cpus.value, 0);
  h.demand(kF2, {line(1, shape(1, 1), 9)}, 1);
  h.say(kA1, SliceGone{AgentId("h1"), {FrameworkId("other"), 1}, SliceEnd::kReleased, ""});
  h.pass();
  EXPECT_EQ(h.account("h1").reserved.cpus.value, 4000);
  EXPECT_EQ(h.cpus_of(h.offers(kF2)), 0);
  EXPECT_EQ(h.field(h.rows().at(0), "idle").substr(0, 6), "cpus=4");
}

TEST(Reservation, EndsWithItsTimeAndWhatRunsInItGoesOn) {
  House h;
  h.agent(kA1, "h1", amount(8, 64));
  h.ok("reserve", "class", {{"role", "physics"}, {"agents", "h1"}, {"duration", "5m"}});
  h.join(kF1, "mine", "physics");
  h.join(kF2, "other", "other");
  h.demand(kF1, {line(1, shape(2, 1), 1)});
  h.demand(kF2, {line(1, shape(6, 1), 1)});
  h.pass();
  const auto offers = h.offers(kF1);
  ASSERT_EQ(offers.size(), 1U);
  h.say(kF1, Rig::accept(1, offers[0], 7, shape(2, 1)));
  EXPECT_EQ(count(h.why(kF2, "other", 1), "reserved for physics"), 1U);
  h.live(seconds(295));
  EXPECT_EQ(h.cpus_of(h.offers(kF2)), 0);
  h.take<SliceGone>(kF1);
  h.live(seconds(10));
  EXPECT_EQ(h.cpus_of(h.offers(kF2)), 6);
  EXPECT_TRUE(h.take<SliceGone>(kF1).empty());
  EXPECT_EQ(h.account("h1").leased.cpus.value, 2000);
  EXPECT_TRUE(h.rows().empty()) << "and is off the record";
}

TEST(Reservation, OneThatMustBeNamedIsOfferedOnlyToLinesThatNameItAndTheyToNothingElse) {
  House h;
  h.agent(kA1, "h1", amount(8, 64));
  h.agent(kA2, "h2", amount(8, 64));
  h.ok("reserve", "exam", {{"role", "physics"}, {"agents", "h1"}, {"duration", "1h"}, {"named", "yes"}});
  h.join(kF1, "mine", "physics");
  DemandLine naming = line(2, shape(2, 1), 9);
  naming.reservation = "exam", naming.lasts = seconds(600);
  h.demand(kF1, {line(1, shape(3, 1), 9), naming});
  h.pass();
  std::map<std::uint64_t, std::int64_t> cpus;
  for (const Offer& offer : h.offers(kF1)) {
    cpus[offer.line] += offer.resources.cpus.value / 1000;
    EXPECT_EQ(offer.reserved, offer.line == 2 ? "exam" : "");
    EXPECT_EQ(offer.agent, AgentId(offer.line == 2 ? "h1" : "h2"));
  }
  EXPECT_EQ(cpus, (std::map<std::uint64_t, std::int64_t>{{1, 6}, {2, 8}}));
  const ExplainReply why = h.why(kF1, "mine", 2);
  EXPECT_EQ(count(why, "offered to you"), 1U);
  EXPECT_EQ(count(why, "not of its reservation"), 1U);
  naming.lasts = seconds(7200);  // it would outlast it
  h.demand(kF1, {naming});
  h.pass();
  EXPECT_EQ(h.cpus_of(h.offers(kF1)), 0);
}

TEST(Reservation, OneOfAWholeAgentIsNotRunIntoByWhatSaysHowLongItLasts) {
  House h;
  h.agent(kA1, "h1", amount(8, 64));
  h.ok("reserve", "class", {{"role", "physics"}, {"agents", "h1"}, {"start", h.in(1000)}, {"duration", "1h"}});
  h.join(kF1, "mine", "physics");
  h.join(kF2, "other", "other");
  DemandLine lasting = line(1, shape(2, 1), 1);
  lasting.lasts = seconds(2000);
  h.demand(kF2, {lasting});
  h.pass();
  EXPECT_EQ(h.cpus_of(h.offers(kF2)), 0);
  EXPECT_EQ(count(h.why(kF2, "other", 1), "reserved before it would end"), 1U);
  h.demand(kF1, {lasting});
  h.pass();
  EXPECT_EQ(h.cpus_of(h.offers(kF1)), 2) << "it is for his role";
  lasting.lasts = seconds(900);
  h.demand(kF2, {lasting});
  h.pass();
  EXPECT_EQ(h.cpus_of(h.offers(kF2)), 2);
}

TEST(Reservation, WatchersHearOfThoseThatAreAndThatWillBe) {
  House h;
  h.agent(kA1, "h1", amount(8, 64));
  h.join(kF1, "watcher", "physics", true);
  h.take<AgentsUpdate>(kF1);
  h.ok("reserve", "exam", {{"role", "physics"}, {"agents", "h1"}, {"start", h.in(60)}, {"duration", "1m"}, {"named", "yes"}});
  h.pass();
  const auto told = h.take<AgentsUpdate>(kF1);
  ASSERT_FALSE(told.empty());
  ASSERT_EQ(told.back().agents.size(), 1U);
  const auto& parts = told.back().agents[0].reserved;
  ASSERT_EQ(parts.size(), 1U);
  EXPECT_EQ(parts[0].name, "exam");
  EXPECT_EQ(parts[0].role, RoleName("physics"));
  EXPECT_TRUE(parts[0].named && parts[0].whole);
  EXPECT_EQ(parts[0].end - parts[0].start, seconds(60));
  h.live(seconds(70));
  ASSERT_FALSE(h.take<AgentsUpdate>(kF1).empty()) << "it has begun";
  h.live(seconds(70));
  const auto over = h.take<AgentsUpdate>(kF1);
  ASSERT_FALSE(over.empty());
  EXPECT_TRUE(over.back().agents[0].reserved.empty());
}

TEST(Reservation, ItsOffersAreRescindedWhenItIsReleased) {
  House h;
  h.agent(kA1, "h1", amount(8, 64));
  h.ok("reserve", "class", {{"role", "physics"}, {"agents", "h1"}});
  h.join(kF1, "mine", "physics");
  h.demand(kF1, {line(1, shape(8, 1), 1)});
  h.pass();
  ASSERT_EQ(h.offers(kF1).size(), 1U);
  h.ok("release-reservation", "class");
  const auto ended = h.ended(kF1);
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].end, OfferEnd::kRescinded);
  h.pass();
  const auto again = h.offers(kF1);
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(again[0].reserved, "");
}

TEST(Reservation, BeginsAtItsStart) {
  House h;
  h.agent(kA1, "h1", amount(8, 64));
  h.ok("reserve", "class", {{"role", "physics"}, {"agents", "h1"}, {"start", h.in(100)}, {"duration", "1h"}});
  h.join(kF2, "other", "other");
  h.demand(kF2, {line(1, shape(8, 1), 1)});
  h.pass();
  EXPECT_EQ(h.cpus_of(h.offers(kF2)), 8) << "until then it is anybody's";
  EXPECT_EQ(h.field(h.rows().at(0), "state"), "planned");
  h.live(seconds(130));
  h.ended(kF2), h.offers(kF2);
  h.live(seconds(30));
  EXPECT_EQ(h.cpus_of(h.offers(kF2)), 0);
  EXPECT_EQ(h.account("h1").reserved.cpus.value, 8000);
  EXPECT_EQ(h.field(h.rows().at(0), "state"), "active");
}

TEST(Reservation, SurvivesTheMasterWithWhatRunsInIt) {
  House h;
  h.agent(kA1, "h1", amount(8, 64));
  h.ok("reserve", "class", {{"role", "physics"}, {"agents", "h1"}, {"amount.cpus", "6"}}, "exam");
  AgentHello hello = Rig::agent_hello("h1", amount(8, 64));
  SliceSpec spec{
      .id = {FrameworkId("mine"), 7}, .resources = amount(4, 4), .cpuset = {}, .gang = {}, .expiry = {}, .role = "physics"};
  spec.reserved = "class";
  hello.slices.push_back({spec, false, {}});
  h.join(kF1, "mine", "physics");
  h.again();
  h.join(kF1, "mine", "physics");
  h.say(kA1, hello);
  h.pass();
  EXPECT_EQ(h.account("h1").reserved.cpus.value, 2000) << "6, less the 4 that the agent shows as its";
  EXPECT_EQ(h.account("h1").free.cpus.value, 2000);
  const auto rows = h.rows();
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].name, "class");
  EXPECT_EQ(h.field(rows[0], "reason"), "exam");
  EXPECT_EQ(h.field(rows[0], "amount"), "cpus=6");
}

TEST(Reservation, AGangIsServedOutOfItTogether) {
  House h;
  h.agent(kA1, "h1", amount(4, 64));
  h.agent(kA2, "h2", amount(4, 64));
  h.ok("reserve", "mpi", {{"role", "physics"}, {"nodes", "2"}});
  h.join(kF1, "mine", "physics");
  h.demand(kF1, {line(1, shape(4, 1), 2, 2)});
  h.pass();
  const auto offers = h.offers(kF1);
  ASSERT_EQ(offers.size(), 2U);
  for (const Offer& offer : offers) EXPECT_EQ(offer.reserved, "mpi");
}

TEST(Reservation, IsExtendedAndReleasedByName) {
  House h;
  h.agent(kA1, "h1", amount(8, 64));
  h.ok("reserve", "class", {{"role", "physics"}, {"agents", "h1"}, {"duration", "1m"}});
  h.ok("extend-reservation", "class", {{"by", "1m"}});
  h.live(seconds(90));
  EXPECT_EQ(h.rows().size(), 1U);
  h.live(seconds(40));
  EXPECT_TRUE(h.rows().empty());
}

TEST(Reservation, WhatIsWrongIsNamed) {
  House h;
  h.agent(kA1, "h1", amount(8, 64));
  h.agent(kA2, "h2", amount(8, 64));
  h.ok("reserve", "class", {{"role", "physics"}, {"agents", "h1"}, {"amount.cpus", "6"}, {"duration", "1h"}});
  EXPECT_EQ(h.refused("reserve", "class", {{"role", "x"}, {"agents", "h2"}}), "there is a reservation 'class' already");
  EXPECT_EQ(h.refused("reserve", "b", {{"role", "x"}, {"agents", "h9"}}), "there is no agent 'h9'");
  EXPECT_EQ(h.refused("reserve", "b", {{"role", "x"}, {"agents", "h1"}}),
            "reservation 'b': agent 'h1' is reserved at that time by 'class'");
  EXPECT_EQ(h.refused("reserve", "b", {{"role", "x"}, {"agents", "h1"}, {"amount.cpus", "4"}}),
            "reservation 'b': agent 'h1' has 8 cpus, 10 would be reserved, with what else is reserved there (class)");
  EXPECT_EQ(h.refused("reserve", "b", {{"role", "x"}, {"agents", "h2"}, {"amount.gpu", "1"}}),
            "reservation 'b': agent 'h2' has 0 gpu, 1 would be reserved");
  EXPECT_EQ(h.refused("reserve", "b", {{"role", "x"}, {"nodes", "3"}}),
            "reservation 'b': 3 agents are asked for, 1 that are up could be reserved");
  EXPECT_EQ(h.refused("reserve", "b", {{"agents", "h2"}}), "reservation 'b' is for a role or for maintenance, one of them");
  EXPECT_NE(h.refused("reserve", "b", {{"role", "x"}, {"agents", "h2"}, {"colour", "red"}}).find("'colour'"), std::string::npos);
  EXPECT_NE(h.refused("reserve", "b c", {{"role", "x"}, {"agents", "h2"}}).find("'b c'"), std::string::npos);
  EXPECT_EQ(h.refused("extend-reservation", "b", {{"by", "1h"}}), "there is no reservation 'b'");
  EXPECT_EQ(h.refused("release-reservation", "b"), "there is no reservation 'b'");
  h.ok("reserve", "later", {{"role", "x"}, {"agents", "h1"}, {"start", h.in(7200)}});
  h.ok("reserve", "beside", {{"role", "x"}, {"agents", "h1"}, {"amount.cpus", "2"}, {"duration", "10m"}});
}

// As a master wrote it that knew no priorities: type 12, version 1, a name, a weight, one limit.
TEST(Registry, ARoleOfAnOlderMasterIsRead) {
  const auto number = [](std::uint64_t value, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i) text.push_back(static_cast<char>(value >> (8 * i) & 0xff));
    return text;
  };
  const auto text = [&](const std::string& value) { return number(value.size(), 4) + value; };
  const std::string record =
      std::string("\x0c\x01") + text("physics") + number(5, 8) + number(1, 8) + text("cpus") + number(4000, 8);
  house::LogRegistry registry;
  ASSERT_TRUE(registry.replay("", {record}));
  const house::RoleSettings& settings = registry.roles().at(RoleName("physics"));
  EXPECT_EQ(settings.weight, 5);
  EXPECT_EQ(settings.limit.get("cpus"), 4000);
  EXPECT_FALSE(settings.priority);
  EXPECT_TRUE(settings.guarantee.empty());
}

// --- maintenance -------------------------------------------------------------------------------------------------------

TEST(Maintenance, WorkThatWouldRunIntoItIsNotOfferedTheAgent) {
  House h;
  h.agent(kA1, "h1", amount(8, 64));
  const std::string start = h.in(3600);
  h.ok("reserve", "disks", {{"maintenance", "yes"}, {"agents", "h1"}, {"start", start}, {"duration", "1h"}}, "new disks");
  h.join(kF1, "one", "one", /*watch=*/true);
  DemandLine longer = line(1, shape(1, 1), 1), shorter = line(2, shape(1, 1), 1), unsaid = line(3, shape(1, 1), 1);
  longer.lasts = seconds(3700), shorter.lasts = seconds(3000);
  h.demand(kF1, {longer, shorter, unsaid});
  h.pass();
  std::set<std::uint64_t> lines;
  for (const Offer& offer : h.offers(kF1)) {
    lines.insert(offer.line);
    EXPECT_GT(offer.lasts, seconds(3590));
    EXPECT_LE(offer.lasts, seconds(3600));
  }
  EXPECT_EQ(lines, (std::set<std::uint64_t>{2, 3}));
  EXPECT_EQ(count(h.why(kF1, "one", 1), "closes before it would end"), 1U);
  const auto updates = h.take<AgentsUpdate>(kF1);
  ASSERT_FALSE(updates.empty());
  const AgentFacts facts = updates.back().agents.back();
  EXPECT_EQ(std::to_string(std::chrono::duration_cast<seconds>(facts.closes).count()), start);
  EXPECT_EQ(facts.reopens - facts.closes, seconds(3600));
}

TEST(Maintenance, ClosesTheAgentTakesWhatIsLeftAndOpensItAgain) {
  House h;
  h.agent(kA1, "h1", amount(8, 64));
  h.join(kF1, "one", "one");
  h.demand(kF1, {line(1, shape(4, 1), 1)});
  h.pass();
  h.say(kF1, Rig::accept(1, h.offers(kF1).at(0), 7, shape(4, 1)));
  for (const CarveSlices& carve : h.take<CarveSlices>(kA1)) h.say(kA1, SliceUp{AgentId("h1"), carve.slices.at(0)});
  h.ok("reserve", "disks", {{"maintenance", "yes"}, {"agents", "h1"}, {"start", h.in(100)}, {"duration", "60s"}}, "new disks");
  h.demand(kF1, {line(2, shape(4, 1), 1)}, 1);
  h.pass();
  EXPECT_EQ(h.cpus_of(h.offers(kF1)), 4);
  h.live(seconds(65));
  EXPECT_TRUE(h.take<SliceRevoking>(kF1).empty());
  h.live(seconds(10));  // 30 s ahead, as revoke_grace says
  const auto told = h.take<SliceRevoking>(kF1);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_NE(told[0].reason.find("maintenance disks: new disks"), std::string::npos) << told[0].reason;
  EXPECT_EQ(h.account("h1").free.cpus.value, 0) << "and nothing new is offered";
  EXPECT_TRUE(h.take<ReleaseSlices>(kA1).empty());
  h.live(seconds(28));
  const auto taken = h.take<ReleaseSlices>(kA1);
  ASSERT_EQ(taken.size(), 1U);
  EXPECT_TRUE(taken[0].revoke);
  h.say(kA1, SliceGone{AgentId("h1"), {FrameworkId("one"), 7}, SliceEnd::kRevoked, ""});
  h.offers(kF1);
  h.live(seconds(50));
  EXPECT_TRUE(h.offers(kF1).empty());
  h.live(seconds(20));
  EXPECT_EQ(h.cpus_of(h.offers(kF1)), 4);
  EXPECT_TRUE(h.rows().empty());
}

TEST(Maintenance, IsCancelledAndSurvivesARestart) {
  House h;
  h.agent(kA1, "h1", amount(8, 64));
  h.ok("reserve", "disks", {{"maintenance", "yes"}, {"agents", "h1"}});
  h.join(kF1, "one", "one");
  h.demand(kF1, {line(1, shape(4, 1), 1)});
  h.pass();
  EXPECT_EQ(h.cpus_of(h.offers(kF1)), 0) << "at once, where no start is named";
  h.again();
  h.agent(kA1, "h1", amount(8, 64));
  h.join(kF1, "one", "one");
  h.demand(kF1, {line(1, shape(4, 1), 1)});
  h.pass();
  EXPECT_EQ(h.cpus_of(h.offers(kF1)), 0);
  h.ok("release-reservation", "disks");
  h.pass();
  EXPECT_EQ(h.cpus_of(h.offers(kF1)), 4);
}

TEST(Maintenance, AtShortNoticeStillLeavesThoseThatRunTheirGrace) {
  House h;
  h.agent(kA1, "h1", amount(8, 64));
  h.join(kF1, "one", "one");
  h.demand(kF1, {line(1, shape(4, 1), 1)});
  h.pass();
  const auto offers = h.offers(kF1);
  ASSERT_EQ(offers.size(), 1U);
  h.say(kF1, Rig::accept(1, offers[0], 7, shape(4, 1)));
  const auto carved = h.take<CarveSlices>(kA1);
  ASSERT_EQ(carved.size(), 1U);
  h.say(kA1, SliceUp{AgentId("h1"), carved[0].slices[0]});
  h.ok("reserve", "disks", {{"maintenance", "yes"}, {"agents", "h1"}, {"duration", "1h"}});
  h.pass();
  ASSERT_EQ(h.take<SliceRevoking>(kF1).size(), 1U);
  h.live(h.options.revoke_grace - seconds(2));
  EXPECT_TRUE(h.take<ReleaseSlices>(kA1).empty()) << "before its grace is over";
  h.live(seconds(4));
  EXPECT_EQ(h.take<ReleaseSlices>(kA1).size(), 1U);
}

TEST(Maintenance, DoesNotEndADrainThatAnOperatorAskedFor) {
  House h;
  h.agent(kA1, "h1", amount(8, 64));
  h.ok("drain", "h1");
  h.ok("reserve", "disks", {{"maintenance", "yes"}, {"agents", "h1"}, {"duration", "10s"}});
  h.join(kF1, "one", "one");
  h.demand(kF1, {line(1, shape(4, 1), 1)});
  h.live(seconds(60));
  EXPECT_EQ(h.cpus_of(h.offers(kF1)), 0);
  h.ok("undrain", "h1");
  h.pass();
  EXPECT_EQ(h.cpus_of(h.offers(kF1)), 4);
}

// --- limits on counters of devices ----------------------------------------------------------------------------------------

TEST(Limits, ACounterOfDevicesIsLimitedInItsOwnUnit) {
  const auto limit = house::parse_limit("npu.compute", "500");
  ASSERT_TRUE(limit);
  EXPECT_EQ(limit->second, 500);
  EXPECT_FALSE(house::parse_limit("npu.compute", "0.5"));
  Resources share;
  share.devices.push_back({DeviceId("npu-0"), "npu/ascend", Generation(1), false, "", {}});
  share.devices[0].counters.set("npu.compute", 300);
  share.devices[0].counters.set("mem", 1024);
  const Usage used = usage_of(share);
  EXPECT_EQ(house::amount_of(used, "npu.compute"), 300);
  EXPECT_EQ(house::amount_of(used, "npu/ascend:mem"), 1024);
  EXPECT_EQ(house::amount_of(used, "npu:mem"), 1024);
  EXPECT_EQ(house::amount_of(used, "gpu:mem"), 0);
  EXPECT_EQ(house::amount_of(used, "npu.control"), 0);
}

TEST(Limits, NoMoreOfACounterIsOfferedThanTheLimitLeaves) {
  House h;
  Resources total = amount(16, 64);
  DeviceShare device{DeviceId("npu-0"), "npu/ascend", Generation(1), true, "", {}};
  device.counters.set("npu.compute", 1000);
  device.traits.sharing = DeviceMode::kCounters;
  total.devices.push_back(device);
  h.agent(kA1, "h1", total);
  h.ok("set-role", "physics", {{"limit.npu.compute", "500"}});
  h.join(kF1, "one", "physics");
  Shape wanted = shape(1, 1);
  DeviceAsk ask;
  ask.kind = "npu/ascend", ask.whole = false;
  ask.counters.set("npu.compute", 200);
  wanted.devices.push_back(ask);
  h.demand(kF1, {line(1, wanted, 5)});
  h.pass();
  std::int64_t offered = 0;
  for (const Offer& offer : h.offers(kF1))
    for (const DeviceShare& share : offer.resources.devices) offered += share.counters.get("npu.compute");
  EXPECT_EQ(offered, 400);
  EXPECT_NE(h.why(kF1, "one", 1).rank.find("role physics has 400 of at most 500 npu.compute"), std::string::npos);
}

TEST(Limits, WholeDevicesOfAKindAreLimitedByNumber) {
  House h;
  Resources total = amount(16, 64);
  for (int i = 0; i < 6; ++i) {
    DeviceShare gpu{DeviceId("gpu-" + std::to_string(i)), "gpu/nvidia", Generation(1), true, "", {}};
    gpu.counters.set("mem", 16'384);
    total.devices.push_back(gpu);
  }
  h.agent(kA1, "h1", total);
  h.ok("set-role", "org", {{"limit.gpu/nvidia", "4"}});
  h.join(kF1, "one", "org/a");
  h.join(kF2, "two", "org/b");
  Shape wanted = shape(1, 1);
  DeviceAsk ask;
  ask.kind = "gpu/";
  wanted.devices.push_back(ask);
  h.demand(kF1, {line(1, wanted, 3)});
  h.pass();
  h.demand(kF2, {line(1, wanted, 3)});
  h.pass();
  std::size_t devices = 0;
  for (const std::uint64_t peer : {kF1, kF2})
    for (const Offer& offer : h.offers(peer)) devices += offer.resources.devices.size();
  EXPECT_EQ(devices, 4U);
}

// Two slices out of one offer of one device that counts only memory: each counts as a device, and none is forgotten at its end.
TEST(Limits, PartsOfADeviceThatDoNotSayHowLargeTheyAreAreCountedOneByOne) {
  House h;
  Resources total = amount(16, 64);
  DeviceShare device{DeviceId("gpu-0"), "gpu/acme", Generation(1), true, "", {}};
  device.counters.set("mem", 1000);
  device.traits.sharing = DeviceMode::kCounters;
  total.devices.push_back(device);
  h.agent(kA1, "h1", total);
  h.join(kF1, "one", "physics");
  Shape wanted = shape(1, 1);
  DeviceAsk ask;
  ask.kind = "gpu/acme", ask.whole = false;
  ask.counters.set("mem", 100);
  wanted.devices.push_back(ask);
  h.demand(kF1, {line(1, wanted, 2)});
  h.pass();
  const auto offers = h.offers(kF1);
  ASSERT_EQ(offers.size(), 1U);
  h.say(kF1, Rig::accept(1, offers[0], 1, wanted, 2));
  h.say(kA1, SliceGone{AgentId("h1"), {FrameworkId("one"), 1}, SliceEnd::kReleased, ""});
  h.say(kA1, SliceGone{AgentId("h1"), {FrameworkId("one"), 2}, SliceEnd::kReleased, ""});
  EXPECT_EQ(h.account("h1").free.devices.size(), 1U);
}

}  // namespace
}  // namespace bourse::test
