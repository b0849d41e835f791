// Demand, offers, accepts and declines.
#include <algorithm>

#include "rig.h"

namespace bourse::test {
namespace {

constexpr std::uint64_t kA1 = 11, kA2 = 12, kA3 = 13, kF1 = 21, kF2 = 22;

// One agent, one framework, and where a demand is given the pass that follows it.
struct OneHost : Rig {
  OneHost(std::int64_t cpus, std::int64_t gib, std::vector<DemandLine> wanted = {}) {
    agent(kA1, "h1", amount(cpus, gib));
    framework(kF1, "one");
    if (wanted.empty()) return;
    demand(kF1, std::move(wanted));
    pass();
  }
};

TEST(Offers, ADemandIsOfferedShapedToItAndTheRestStaysFree) {
  OneHost rig(8, 16, {line(1, shape(2, 4), 3)});
  const auto offers = rig.offers(kF1);
  ASSERT_EQ(offers.size(), 1U);
  EXPECT_EQ(offers[0].resources.cpus.value, 6000);
  EXPECT_EQ(offers[0].resources.mem, Bytes(12LL << 30));
  EXPECT_EQ(offers[0].resources.numa.size(), 1U);
  EXPECT_EQ(offers[0].line, 1U);
  EXPECT_EQ(offers[0].ttl, rig.options.offer_ttl);
  EXPECT_EQ(rig.account("h1").free.cpus.value, 2000);
}

TEST(Offers, OneEventCarriesOffersOfSeveralAgents) {
  Rig rig;
  for (const auto& [peer, name] : std::map<std::uint64_t, std::string>{{kA1, "h1"}, {kA2, "h2"}, {kA3, "h3"}})
    rig.agent(peer, name, amount(2, 4));
  rig.framework(kF1, "one");
  rig.demand(kF1, {line(1, shape(2, 4), 3)});
  rig.pass();
  const auto messages = rig.take<Offers>(kF1);
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_EQ(messages[0].offers.size(), 3U);
}

TEST(Offers, AnAcceptBecomesASliceAndWhatIsNotTakenGoesBack) {
  OneHost rig(8, 16, {line(1, shape(2, 4), 3)});
  const Offer offer = rig.offers(kF1).at(0);
  rig.say(kF1, Rig::accept(1, offer, 100, shape(2, 4), 1));
  const auto reply = rig.take<AcceptReply>(kF1).at(0);
  EXPECT_EQ(reply.items.at(0).code, Code::kOk);
  const auto carve = rig.take<CarveSlices>(kA1).at(0);
  ASSERT_EQ(carve.slices.size(), 1U);
  EXPECT_EQ(carve.slices[0].resources.cpus.value, 2000);
  EXPECT_FALSE(carve.hold);
  EXPECT_EQ(rig.account("h1").leased.cpus.value, 2000);
  EXPECT_EQ(rig.account("h1").offered.cpus.value, 0);
  SliceUp up{AgentId("h1"), carve.slices[0]};
  up.spec.cpuset = {0, 1};
  rig.say(kA1, up);
  EXPECT_EQ(rig.take<SliceUp>(kF1).at(0).spec.cpuset, (std::vector<std::uint32_t>{0, 1}));
}

TEST(Offers, KeepRestLeavesWhatIsNotTakenOnOfferUntilItsTimeToLive) {
  OneHost rig(8, 16, {line(1, shape(2, 4), 4)});
  const Offer offer = rig.offers(kF1).at(0);
  Accept accept = Rig::accept(1, offer, 100, shape(2, 4));
  accept.items[0].keep_rest = true;
  rig.say(kF1, accept);
  EXPECT_EQ(rig.account("h1").offered.cpus.value, 6000);
  rig.say(kF1, Rig::accept(2, offer, 101, shape(2, 4)));
  EXPECT_EQ(rig.take<AcceptReply>(kF1).at(1).items.at(0).code, Code::kOk);
  EXPECT_EQ(rig.account("h1").leased.cpus.value, 4000);
}

TEST(Offers, AnOfferEndsOnceAndALateAnswerIsToldThatItIsGone) {
  OneHost rig(4, 8, {line(1, shape(4, 8), 1)});
  const Offer offer = rig.offers(kF1).at(0);
  rig.run(rig.options.offer_ttl + milliseconds(1));
  const auto ended = rig.ended(kF1);
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].offer, offer.id);
  EXPECT_EQ(ended[0].end, OfferEnd::kExpired);
  rig.say(kF1, Rig::accept(1, offer, 100, shape(4, 8)));
  EXPECT_EQ(rig.take<AcceptReply>(kF1).at(0).items.at(0).code, Code::kGone);
  EXPECT_TRUE(rig.take<CarveSlices>(kA1).empty());
  EXPECT_EQ(rig.account("h1").leased.cpus.value, 0);
}

TEST(Offers, AnAnsweredOfferDoesNotExpireAfterwards) {
  OneHost rig(4, 8, {line(1, shape(4, 8), 1)});
  rig.say(kF1, Rig::accept(1, rig.offers(kF1).at(0), 100, shape(4, 8)));
  rig.say(kA1, Heartbeat{});
  rig.run(rig.options.offer_ttl * 2);
  EXPECT_TRUE(rig.ended(kF1).empty());
}

TEST(Offers, OneBadOfferDoesNotVoidTheOthers) {
  Rig rig;
  rig.agent(kA1, "h1", amount(4, 8));
  rig.agent(kA2, "h2", amount(4, 8));
  rig.framework(kF1, "one");
  rig.demand(kF1, {line(1, shape(4, 8), 2)});
  rig.pass();
  const auto offers = rig.offers(kF1);
  ASSERT_EQ(offers.size(), 2U);
  Accept accept = Rig::accept(1, offers[0], 100, shape(4, 8));
  Rig::add_item(accept, offers[1], 101, shape(40, 8));
  Offer unknown = offers[0];
  unknown.id = OfferId(987654321);
  Rig::add_item(accept, unknown, 102, shape(1, 1));
  rig.say(kF1, accept);
  const auto reply = rig.take<AcceptReply>(kF1).at(0);
  EXPECT_EQ(reply.items.at(0).code, Code::kOk);
  EXPECT_EQ(reply.items.at(1).code, Code::kInvalid);
  EXPECT_NE(reply.items.at(1).reason.find("does not fit"), std::string::npos) << reply.items[1].reason;
  EXPECT_EQ(reply.items.at(2).code, Code::kGone);
  EXPECT_EQ(rig.account("h1").leased.cpus.value + rig.account("h2").leased.cpus.value, 4000);
}

TEST(Offers, AllOrNothingIsNothingWhenOnePartFails) {
  Rig rig;
  rig.agent(kA1, "h1", amount(4, 8));
  rig.agent(kA2, "h2", amount(4, 8));
  rig.framework(kF1, "one");
  rig.demand(kF1, {line(1, shape(4, 8), 2)});
  rig.pass();
  const auto offers = rig.offers(kF1);
  Accept accept = Rig::accept(1, offers.at(0), 100, shape(4, 8));
  Rig::add_item(accept, offers.at(1), 101, shape(40, 8));
  accept.all_or_nothing = true;
  rig.say(kF1, accept);
  const auto reply = rig.take<AcceptReply>(kF1).at(0);
  EXPECT_EQ(reply.items.at(0).code, Code::kBusy);
  EXPECT_EQ(reply.items.at(1).code, Code::kInvalid);
  EXPECT_EQ(rig.account("h1").leased.cpus.value + rig.account("h2").leased.cpus.value, 0);
  EXPECT_EQ(rig.master->open_offers(), 0U);
}

TEST(Offers, TheSameOfferTwiceInOneAcceptIsTakenOnce) {
  OneHost rig(4, 8, {line(1, shape(2, 4), 1)});
  const auto offer = rig.offers(kF1).at(0);
  Accept accept = Rig::accept(1, offer, 100, shape(2, 4));
  Rig::add_item(accept, offer, 101, shape(2, 4));
  rig.say(kF1, accept);
  const auto reply = rig.take<AcceptReply>(kF1).at(0);
  EXPECT_EQ(reply.items.at(0).code, Code::kOk);
  EXPECT_NE(reply.items.at(1).code, Code::kOk);
  EXPECT_EQ(rig.account("h1").leased.cpus.value, 2000);
}

TEST(Offers, ARepeatedAcceptIsAnsweredAgainAndCarriedOutOnce) {
  OneHost rig(4, 8, {line(1, shape(2, 4), 1)});
  const Accept accept = Rig::accept(1, rig.offers(kF1).at(0), 100, shape(2, 4));
  rig.say(kF1, accept);
  rig.say(kF1, accept);
  const auto replies = rig.take<AcceptReply>(kF1);
  ASSERT_EQ(replies.size(), 2U);
  EXPECT_EQ(replies[0], replies[1]);
  EXPECT_EQ(replies[1].items.at(0).code, Code::kOk);
  EXPECT_EQ(rig.take<CarveSlices>(kA1).size(), 1U);
}

TEST(Offers, ARepeatedAcceptIsToldWhatHasBecomeOfItsSlices) {
  OneHost rig(4, 8, {line(1, shape(2, 4), 1)});
  const Accept accept = Rig::accept(1, rig.offers(kF1).at(0), 100, shape(2, 4));
  rig.say(kF1, accept);
  SliceUp up;
  up.agent = AgentId("h1");
  up.spec = rig.take<CarveSlices>(kA1).at(0).slices.at(0);
  rig.say(kA1, up);
  rig.take<SliceUp>(kF1);
  rig.say(kF1, accept);
  ASSERT_EQ(rig.take<SliceUp>(kF1).size(), 1U);
  rig.say(kA1, SliceGone{AgentId("h1"), up.spec.id, SliceEnd::kHostReboot, "host rebooted"});
  rig.take<SliceGone>(kF1);  // as if it were lost on its way
  rig.take<AcceptReply>(kF1);
  rig.say(kF1, accept);
  EXPECT_EQ(rig.take<AcceptReply>(kF1).at(0).items.at(0).code, Code::kOk);
  const auto gone = rig.take<SliceGone>(kF1);
  ASSERT_EQ(gone.size(), 1U);
  EXPECT_EQ(gone[0].slice, up.spec.id);
}

TEST(Offers, AnOfferOfAnotherFrameworkCannotBeAccepted) {
  OneHost rig(4, 8);
  rig.framework(kF2, "two");
  rig.demand(kF1, {line(1, shape(4, 8), 1)});
  rig.pass();
  const auto offer = rig.offers(kF1).at(0);
  rig.say(kF2, Rig::accept(1, offer, 100, shape(4, 8)));
  EXPECT_EQ(rig.take<AcceptReply>(kF2).at(0).items.at(0).code, Code::kGone);
  EXPECT_EQ(rig.account("h1").offered.cpus.value, 4000);
}

TEST(Demand, ResendingIsHarmlessAndNothingIsOfferedTwice) {
  OneHost rig(16, 32);
  for (int i = 0; i < 3; ++i) {
    rig.demand(kF1, {line(1, shape(2, 4), 3)});
    rig.pass();
  }
  EXPECT_EQ(rig.account("h1").offered.cpus.value, 6000);
  EXPECT_TRUE(rig.ended(kF1).empty());
}

TEST(Demand, AcceptsThatItDoesNotAccountForYetAreDeducted) {
  OneHost rig(16, 32, {line(1, shape(2, 4), 2)});
  rig.say(kF1, Rig::accept(1, rig.offers(kF1).at(0), 100, shape(2, 4), 2));
  rig.demand(kF1, {line(1, shape(2, 4), 2)}, /*last_accept=*/0);  // sent before the accept was answered
  rig.pass();
  EXPECT_TRUE(rig.offers(kF1).empty());
  rig.demand(kF1, {line(1, shape(2, 4), 2)}, /*last_accept=*/1);  // two more, on top of those
  rig.pass();
  EXPECT_EQ(rig.offers(kF1).at(0).resources.cpus.value, 4000);
}

TEST(Demand, ZeroDemandHoldsZeroOffers) {
  OneHost rig(16, 32, {line(1, shape(2, 4), 2), line(2, shape(1, 1), 1)});
  EXPECT_EQ(rig.offers(kF1).size(), 2U);
  rig.demand(kF1, {});
  EXPECT_EQ(rig.master->open_offers(), 0U);
  const auto ended = rig.ended(kF1);
  ASSERT_EQ(ended.size(), 2U);
  EXPECT_EQ(ended[0].end, OfferEnd::kDemandGone);
  EXPECT_EQ(rig.account("h1").free.cpus.value, 16000);
}

TEST(Demand, AChangedShapeTakesItsOldOffersBack) {
  OneHost rig(16, 32, {line(1, shape(2, 4), 2)});
  rig.offers(kF1);
  rig.demand(kF1, {line(1, shape(8, 4), 1)});
  rig.pass();
  EXPECT_EQ(rig.ended(kF1).size(), 1U);
  EXPECT_EQ(rig.offers(kF1).at(0).resources.cpus.value, 8000);
}

TEST(Demand, TooManyLinesOrALineTwiceIsRefusedAndTheFormerDemandStays) {
  OneHost rig(16, 32, {line(1, shape(2, 4), 1)});
  rig.demand(kF1, {line(1, shape(1, 1), 1), line(1, shape(2, 2), 1)});
  EXPECT_EQ(rig.take<Refused>(kF1).at(0).code, Code::kInvalid);
  std::vector<DemandLine> many;
  for (std::uint64_t i = 1; i <= 1001; ++i) many.push_back(line(i, shape(1, 1), 1));
  rig.demand(kF1, many);
  EXPECT_EQ(rig.take<Refused>(kF1).at(0).code, Code::kLimit);
  EXPECT_EQ(rig.account("h1").offered.cpus.value, 2000);
}

TEST(Demand, AWildcardIsShownEverything) {
  OneHost rig(16, 32);
  rig.demand(kF1, {}, 0, /*wildcard=*/true);
  rig.pass();
  const auto offer = rig.offers(kF1).at(0);
  EXPECT_EQ(offer.resources, rig.account("h1").total);
  EXPECT_EQ(offer.line, 0U);
}

TEST(Demand, AWholeHostIsOnlyAnEntirelyFreeOne) {
  Rig rig;
  rig.agent(kA1, "h1", amount(8, 16));
  rig.agent(kA2, "h2", amount(8, 16));
  rig.framework(kF1, "one");
  rig.demand(kF1, {line(1, shape(1, 1), 1)});
  rig.pass();
  const Offer first = rig.offers(kF1).at(0);
  rig.say(kF1, Rig::accept(1, first, 100, shape(1, 1)));
  Shape whole = shape(1, 1);
  whole.whole_host = true;
  rig.demand(kF1, {line(2, whole, 2)}, 1);
  rig.pass();
  const auto offers = rig.offers(kF1);
  ASSERT_EQ(offers.size(), 1U);
  EXPECT_NE(offers[0].agent, first.agent);
  EXPECT_EQ(offers[0].resources, offers[0].agent_total);
}

TEST(Decline, TheAgentStaysAwayUntilTheHoldOffEndsAndNoLonger) {
  OneHost rig(4, 8, {line(1, shape(4, 8), 1)});
  rig.say(kF1, Decline{{{rig.offers(kF1).at(0).id, DeclineReason::kLocality, "", seconds(5)}}});
  rig.run(seconds(4));
  EXPECT_TRUE(rig.offers(kF1).empty());
  rig.run(seconds(2));
  EXPECT_EQ(rig.offers(kF1).size(), 1U);
}

TEST(Decline, TheHoldOffEndsWhenTheShapeChanges) {
  OneHost rig(4, 8, {line(1, shape(4, 8), 1)});
  rig.say(kF1, Decline{{{rig.offers(kF1).at(0).id, DeclineReason::kTooSmall, "", seconds(500)}}});
  rig.demand(kF1, {line(1, shape(2, 4), 1)});
  rig.pass();
  EXPECT_EQ(rig.offers(kF1).size(), 1U);
}

TEST(Decline, OneFrameworkThatDeclinesDoesNotKeepTheOfferFromTheNext) {
  OneHost rig(4, 8);
  rig.framework(kF2, "two");
  rig.demand(kF1, {line(1, shape(4, 8), 1)});
  rig.demand(kF2, {line(1, shape(4, 8), 1)});
  rig.pass();
  rig.say(kF1, Decline{{{rig.offers(kF1).at(0).id, DeclineReason::kNoWork, "", Duration{0}}}});
  rig.pass();
  EXPECT_EQ(rig.offers(kF2).size(), 1U);
}

TEST(Hoarding, WhoLetsOffersExpireDoesNotStarveTheOthers) {
  Rig rig;
  rig.agent(kA1, "h1", amount(4, 8));
  rig.framework(kF1, "hoarder");
  rig.framework(kF2, "worker");
  rig.demand(kF1, {line(1, shape(4, 8), 1)});
  rig.pass();
  rig.demand(kF2, {line(1, shape(4, 8), 1)});
  rig.run(rig.options.offer_ttl + milliseconds(20));
  EXPECT_EQ(rig.offers(kF2).size(), 1U);
}

TEST(Fairness, TwoHungryFrameworksShareOneHost) {
  Rig rig;
  rig.framework(kF1, "one");
  rig.framework(kF2, "two");
  rig.demand(kF1, {line(1, shape(1, 1), 1000)});
  rig.demand(kF2, {line(1, shape(1, 1), 1000)});
  rig.pass();
  rig.agent(kA1, "h1", amount(16, 16));
  rig.pass();
  std::int64_t one = 0, two = 0;
  for (const Offer& offer : rig.offers(kF1)) one += offer.resources.cpus.value;
  for (const Offer& offer : rig.offers(kF2)) two += offer.resources.cpus.value;
  EXPECT_EQ(one + two, 16000);
  EXPECT_GE(std::min(one, two), 6000);
}

TEST(Fairness, AnIncapableFrameworkDoesNotStarveTheRest) {  // MESOS-9554
  Rig rig;
  rig.framework(kF1, "a-impossible");
  rig.framework(kF2, "b-modest");
  Shape impossible = shape(1, 1);
  impossible.constraints = {{"gpu", Constraint::Op::kPresent, {}}};
  rig.demand(kF1, {line(1, impossible, 100)});
  rig.demand(kF2, {line(1, shape(1, 1), 4)});
  rig.pass();
  rig.agent(kA1, "h1", amount(4, 4));
  rig.pass();
  EXPECT_EQ(rig.offers(kF2).at(0).resources.cpus.value, 4000);
}

TEST(Cost, AnIdleMasterHasNoPassAndNoPassTimer) {
  Rig rig;
  for (std::uint64_t i = 0; i < 50; ++i) rig.agent(100 + i, "h" + std::to_string(i), amount(4, 8));
  rig.framework(kF1, "one");
  rig.demand(kF1, {line(1, shape(8, 8), 5)});  // fits nowhere
  rig.pass();
  const auto passes = rig.master->counters().passes, examined = rig.master->counters().agents_examined;
  for (std::uint64_t i = 0; i < 50; ++i) rig.say(100 + i, Heartbeat{});
  rig.demand(kF1, {line(1, shape(8, 8), 6)});
  rig.run(seconds(9));
  EXPECT_LE(rig.master->counters().passes, passes + 1);
  EXPECT_EQ(rig.master->counters().agents_examined, examined);
}

// The number of things looked at when one agent changes must not grow with the number of agents or frameworks.
std::uint64_t examined_for_one_change(std::uint64_t agents, std::uint64_t frameworks) {
  Rig rig;
  for (std::uint64_t i = 0; i < agents; ++i) rig.agent(10'000 + i, "h" + std::to_string(i), amount(4, 8));
  for (std::uint64_t i = 0; i < frameworks; ++i) {
    rig.framework(1'000 + i, "f" + std::to_string(i));
    rig.demand(1'000 + i, {line(1, shape(4, 8), 1'000)});
  }
  rig.pass();
  std::uint64_t peer = 1'000;
  std::vector<Offer> offers;
  while ((offers = rig.offers(peer)).empty()) ++peer;
  Decline decline;
  decline.items.push_back({offers[0].id, DeclineReason::kOther, "", seconds(60)});
  const Master::Counters before = rig.master->counters();
  rig.say(peer, decline);
  rig.pass();
  const Master::Counters after = rig.master->counters();
  EXPECT_EQ(after.offers_made, before.offers_made + 1);
  return after.agents_examined + after.demands_examined - before.agents_examined - before.demands_examined;
}

TEST(Cost, OneChangedAgentCostsTheSameWhateverTheNumberOfAgentsAndFrameworks) {
  const std::uint64_t small = examined_for_one_change(20, 4), large = examined_for_one_change(200, 40);
  EXPECT_LE(large * 10, small * 12) << small << " " << large;
}

TEST(Limits, AFrameworkHasAtMostSoManyOffers) {
  MasterOptions options;
  options.offers_per_framework_max = 2;
  Rig rig(options);
  for (std::uint64_t i = 0; i < 5; ++i) rig.agent(100 + i, "h" + std::to_string(i), amount(2, 4));
  rig.framework(kF1, "one");
  rig.demand(kF1, {line(1, shape(2, 4), 5)});
  rig.pass();
  auto offers = rig.offers(kF1);
  ASSERT_EQ(offers.size(), 2U);
  rig.say(kF1, Rig::accept(1, offers[0], 100, shape(2, 4)));
  rig.pass();
  EXPECT_EQ(rig.offers(kF1).size(), 1U);
}

}  // namespace
}  // namespace bourse::test
