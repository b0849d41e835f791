// What agents lend: a second account, offered to demand that asks for it and to nothing else.
#include "rig.h"

namespace bourse::test {
namespace {

constexpr std::uint64_t kA1 = 11, kF1 = 21, kF2 = 22;

Shape lent(std::int64_t cpus, std::int64_t gib) {
  Shape s = shape(cpus, gib);
  s.revocable = true;
  return s;
}

Resources slack(std::int64_t cpus, std::int64_t gib) {  // as agents say it: not split by node
  Resources r;
  r.cpus = MilliCpus(cpus * 1000);
  r.mem = Bytes(gib << 30);
  return r;
}

struct Lender : Rig {
  explicit Lender(const Resources& lends) {
    AgentHello hello = agent_hello("h1", amount(8, 16));
    hello.inventory.version = Version(1);
    hello.inventory.revocable = lends;
    say(kA1, hello);
    framework(kF1, "one");
    framework(kF2, "two");
  }
  Master::Account lent_account() { return master->lent_accounts().at(AgentId("h1")); }
  void lends(const Resources& amount, std::uint64_t version) {
    Inventory inventory;
    inventory.version = Version(version);
    inventory.total = test::amount(8, 16);
    inventory.revocable = amount;
    say(kA1, InventoryUpdate{inventory});
  }
};

TEST(Lending, OnlyALineThatSaysSoIsOfferedWhatIsLent) {
  Lender rig(slack(4, 8));
  rig.demand(kF1, {line(1, shape(12, 4), 1)});  // more than the agent has, less than it has and lends
  rig.demand(kF2, {line(1, lent(2, 2), 1)});
  rig.pass();
  EXPECT_TRUE(rig.offers(kF1).empty());
  const auto offers = rig.offers(kF2);
  ASSERT_EQ(offers.size(), 1U);
  EXPECT_TRUE(offers[0].revocable);
  EXPECT_EQ(offers[0].resources.cpus.value, 2000);
  EXPECT_EQ(rig.lent_account().offered.cpus.value, 2000);
  EXPECT_EQ(rig.account("h1").free.cpus.value, 8000) << "the agent's own account is untouched";
}

TEST(Lending, ALineThatAsksForWhatIsLentGetsNothingElse) {
  Lender rig(Resources{});
  rig.demand(kF1, {line(1, lent(2, 2), 1)});
  rig.pass();
  EXPECT_TRUE(rig.offers(kF1).empty()) << "8 cpus are free, none is lent";
}

TEST(Lending, ASliceOfItIsMarkedAndItsEndGivesItBackToWhereItCameFrom) {
  Lender rig(slack(4, 8));
  rig.demand(kF1, {line(1, lent(2, 2), 1)});
  rig.pass();
  const Offer offer = rig.offers(kF1).at(0);
  rig.say(kF1, Rig::accept(1, offer, 100, lent(2, 2), 1));
  const auto carve = rig.take<CarveSlices>(kA1).at(0);
  ASSERT_EQ(carve.slices.size(), 1U);
  EXPECT_TRUE(carve.slices[0].revocable);
  EXPECT_EQ(rig.lent_account().leased.cpus.value, 2000);
  EXPECT_EQ(rig.account("h1").leased.cpus.value, 0);
  rig.say(kA1, SliceUp{AgentId("h1"), carve.slices[0]});
  rig.say(kA1, SliceGone{AgentId("h1"), carve.slices[0].id, SliceEnd::kRevoked, "memory pressure"});
  const auto gone = rig.take<SliceGone>(kF1);
  ASSERT_EQ(gone.size(), 1U);
  EXPECT_EQ(gone[0].end, SliceEnd::kRevoked);
  EXPECT_EQ(gone[0].reason, "memory pressure");
  EXPECT_EQ(rig.lent_account().free.cpus.value, 4000);
}

TEST(Lending, WhatIsLentCountsInNoShare) {
  Lender rig(slack(4, 8));
  rig.demand(kF1, {line(1, lent(4, 8), 1)});
  rig.pass();
  rig.say(kF1, Rig::accept(1, rig.offers(kF1).at(0), 100, lent(4, 8), 1));
  // Both want all of the agent: the one that borrows is not behind for it (frameworks of equal use go by name).
  rig.demand(kF1, {line(2, shape(8, 16), 1)});
  rig.demand(kF2, {line(2, shape(8, 16), 1)});
  rig.pass();
  EXPECT_EQ(rig.offers(kF1).size(), 1U);
  EXPECT_TRUE(rig.offers(kF2).empty());
}

TEST(Lending, WhoHasLeastOfItComesFirst) {
  Lender rig(slack(2, 2));
  rig.demand(kF1, {line(1, lent(1, 1), 1)});
  rig.pass();
  rig.say(kF1, Rig::accept(1, rig.offers(kF1).at(0), 100, lent(1, 1), 1));
  rig.demand(kF1, {line(1, lent(1, 1), 5)});
  rig.demand(kF2, {line(1, lent(1, 1), 5)});
  rig.pass();
  EXPECT_TRUE(rig.offers(kF1).empty());
  EXPECT_EQ(rig.offers(kF2).size(), 1U);
}

TEST(Lending, LessThanWhatIsLentOutOffersNothingAndEndsNothing) {
  Lender rig(slack(4, 8));
  rig.demand(kF1, {line(1, lent(2, 2), 1)});
  rig.pass();
  rig.say(kF1, Rig::accept(1, rig.offers(kF1).at(0), 100, lent(2, 2), 1));
  rig.lends(slack(1, 1), 2);
  rig.demand(kF2, {line(1, lent(1, 1), 1)});
  rig.pass();
  EXPECT_TRUE(rig.offers(kF2).empty());
  EXPECT_EQ(rig.lent_account().leased.cpus.value, 2000) << "only its agent takes it back";
  rig.lends(slack(3, 3), 3);
  rig.pass();
  EXPECT_EQ(rig.offers(kF2).size(), 1U);
}

TEST(Lending, AMasterThatComesBackKnowsWhatIsLentFromItsAgents) {
  Lender rig(slack(4, 8));
  rig.demand(kF1, {line(1, lent(2, 2), 1)});
  rig.pass();
  rig.say(kF1, Rig::accept(1, rig.offers(kF1).at(0), 100, lent(2, 2), 1));
  const SliceSpec spec = rig.take<CarveSlices>(kA1).at(0).slices.at(0);
  rig.start();
  AgentHello hello = Rig::agent_hello("h1", amount(8, 16), 2);
  hello.inventory.revocable = slack(4, 8);
  hello.slices = {{spec, false, {}}};
  rig.say(kA1, hello);
  EXPECT_EQ(rig.lent_account().leased.cpus.value, 2000);
  EXPECT_EQ(rig.account("h1").leased.cpus.value, 0);
}

TEST(Lending, AGangOfWhatMayGoIsNotOffered) {
  Lender rig(slack(4, 8));
  rig.demand(kF1, {line(1, lent(1, 1), 2, 2)});
  rig.pass();
  EXPECT_TRUE(rig.offers(kF1).empty());
}

}  // namespace
}  // namespace bourse::test
