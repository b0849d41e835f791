// Agents and frameworks that come, go and return; gangs; the registry; routing.
#include <algorithm>

#include "master/ledger.h"
#include "master/registry.h"
#include "rig.h"

namespace bourse::test {
namespace {

constexpr std::uint64_t kA1 = 11, kA2 = 12, kA1Again = 14, kF1 = 21, kF2 = 22, kF1Again = 24, kR = 31;

struct Leased : Rig {  // one agent with one slice up of one framework
  SliceSpec slice;
  explicit Leased(MasterOptions o = {}) : Rig(std::move(o)) {
    agent(kA1, "h1", amount(8, 16));
    framework(kF1, "one");
    demand(kF1, {line(1, shape(2, 4), 1)});
    pass();
    say(kF1, accept(1, offers(kF1).at(0), 100, shape(2, 4)));
    slice = take<CarveSlices>(kA1).at(0).slices.at(0);
    say(kA1, SliceUp{AgentId("h1"), slice});
    sent.clear();
  }
  AgentHello hello(std::uint64_t life, bool with_slice) const {
    AgentHello h = agent_hello("h1", amount(8, 16), life);
    if (with_slice) h.slices.push_back({slice, false, {TaskId("t1")}});
    return h;
  }
};

TEST(Sessions, WhoHasNotSaidHelloIsToldTo) {
  Rig rig;
  rig.say(99, Demand{});
  EXPECT_EQ(rig.take<Refused>(99).at(0).code, Code::kGone);
  for (int i = 0; i < 50; ++i) rig.say(99, Demand{});
  EXPECT_EQ(std::count_if(rig.logs.begin(), rig.logs.end(),
                          [](const std::string& l) { return l.find("stranger_refused") != std::string::npos; }),
            1);
  EXPECT_EQ(rig.master->counters().refused, 1U) << "told once; who goes on talking is told again after a while";
}

TEST(Sessions, AnAgentMayNotSendWhatOnlyFrameworksMay) {
  Rig rig;
  rig.agent(kA1, "h1", amount(2, 4));
  rig.say(kA1, Demand{});
  EXPECT_EQ(rig.take<Refused>(kA1).at(0).code, Code::kDenied);
}

TEST(Sessions, AKeyDecidesWhoOneMayBe) {
  MasterOptions options;
  Rig rig(options);
  rig.options.trust_identities = true;
  rig.start();
  rig.say(kA1, Rig::agent_hello("h1", amount(2, 4)), "agent:h2");
  EXPECT_EQ(rig.take<Refused>(kA1).at(0).code, Code::kDenied);
  rig.say(kA1, Rig::agent_hello("h1", amount(2, 4)), "");
  EXPECT_EQ(rig.take<Refused>(kA1).at(0).code, Code::kDenied);
  rig.say(kA1, Rig::agent_hello("h1", amount(2, 4)), "agent:*");
  EXPECT_EQ(rig.take<Welcome>(kA1).size(), 1U);
  rig.say(kR, ReaderHello{kProtocolVersion, "r"}, "reader:r");
  EXPECT_EQ(rig.take<Welcome>(kR).size(), 1U);
  rig.say(kR, OperatorAction{1, "cordon", "h1", ""}, "reader:r");
  EXPECT_EQ(rig.take<Refused>(kR).at(0).code, Code::kDenied);
}

TEST(Sessions, AnotherProtocolVersionIsRefusedByName) {
  Rig rig;
  AgentHello agent = Rig::agent_hello("h1", amount(2, 4));
  FrameworkHello framework;
  framework.framework = FrameworkId("f"), framework.role = RoleName("r"), framework.incarnation = Incarnation(1);
  ReaderHello reader{kProtocolVersion, "r"};
  agent.version = framework.version = reader.version = 99;
  rig.say(kA1, agent);
  rig.say(kF1, framework);
  rig.say(kR, reader);
  for (const std::uint64_t peer : {kA1, kF1, kR}) {
    const auto refused = rig.take<Refused>(peer);
    ASSERT_EQ(refused.size(), 1U);
    EXPECT_EQ(refused[0].code, Code::kVersion);
    for (const std::string& version : {std::string("99"), std::to_string(kProtocolVersion)})
      EXPECT_NE(refused[0].reason.find(version), std::string::npos) << refused[0].reason;
    EXPECT_TRUE(rig.take<Welcome>(peer).empty());
  }
}

TEST(Sessions, APeerIsSentSomethingAtLeastEveryHeartbeatWhileItSendsAsOften) {
  Rig rig;
  rig.agent(kA1, "h1", amount(2, 4));
  for (int i = 0; i < 5; ++i) {
    rig.run(rig.options.heartbeat);
    rig.say(kA1, Heartbeat{});
  }
  EXPECT_GE(rig.take<Heartbeat>(kA1).size(), 4U);
}

TEST(Agents, OneThatFallsSilentIsUnreachableOnceAndItsSlicesStay) {
  Leased rig;
  rig.framework(kF2, "two");
  rig.demand(kF2, {line(1, shape(1, 1), 1)});
  rig.pass();
  EXPECT_EQ(rig.offers(kF2).size(), 1U);
  for (int i = 0; i < 8; ++i) {
    rig.run(seconds(5));
    rig.say(kF1, Heartbeat{});
    rig.say(kF2, Heartbeat{});
  }
  EXPECT_FALSE(rig.account("h1").reachable);
  EXPECT_EQ(rig.account("h1").leased.cpus.value, 2000);
  EXPECT_EQ(rig.account("h1").free.cpus.value, 0);
  EXPECT_EQ(rig.account("h1").unavailable.cpus.value, 6000);
  EXPECT_TRUE(rig.take<SliceGone>(kF1).empty());
  EXPECT_EQ(rig.master->open_offers(), 0U);
  EXPECT_EQ(std::count_if(rig.logs.begin(), rig.logs.end(),
                          [](const std::string& l) { return l.find("agent_unreachable") != std::string::npos; }),
            1);
  rig.say(kF1, Launch{AgentId("h1"), rig.slice.id, TaskId("t"), "x"});
  EXPECT_EQ(rig.take<LaunchRefused>(kF1).at(0).code, Code::kBusy);

  rig.say(kA1Again, rig.hello(1, true));  // it returns
  EXPECT_TRUE(rig.account("h1").reachable);
  EXPECT_EQ(rig.account("h1").leased.cpus.value, 2000);
  EXPECT_TRUE(rig.take<SliceGone>(kF1).empty());
  EXPECT_EQ(rig.take<SliceUp>(kF1).size(), 1U);
}

TEST(Agents, ASliceThatAReturningAgentLacksIsGone) {
  Leased rig;
  rig.say(kA1Again, rig.hello(2, false));
  const auto gone = rig.take<SliceGone>(kF1);
  ASSERT_EQ(gone.size(), 1U);
  EXPECT_EQ(gone[0].end, SliceEnd::kUnknown);
  EXPECT_EQ(rig.account("h1").leased.cpus.value, 0);
}

TEST(Agents, AHelloThatCrossedACarveDoesNotUndoIt) {
  Rig rig;
  rig.agent(kA1, "h1", amount(8, 16));
  rig.framework(kF1, "one");
  rig.demand(kF1, {line(1, shape(2, 4), 1)});
  rig.pass();
  rig.say(kF1, Rig::accept(1, rig.offers(kF1).at(0), 100, shape(2, 4)));
  rig.agent(kA1, "h1", amount(8, 16));  // resent on the same connection before the carve arrived
  EXPECT_TRUE(rig.take<SliceGone>(kF1).empty());
  EXPECT_EQ(rig.account("h1").leased.cpus.value, 2000);
}

TEST(Agents, AnOlderLifeIsRefusedAndANewerOneReplacesTheOld) {
  Leased rig;
  rig.say(kA1Again, rig.hello(5, true));
  EXPECT_EQ(rig.take<Refused>(kA1).at(0).code, Code::kGone);
  rig.say(15, rig.hello(4, true));
  EXPECT_EQ(rig.take<Refused>(15).at(0).code, Code::kGone);
  rig.say(kA1, Heartbeat{});
  EXPECT_EQ(rig.take<Refused>(kA1).size(), 1U);  // its old connection is a stranger's now
}

TEST(Agents, ARebootEndsItsSlicesWithThatReason) {
  Leased rig;
  AgentHello hello = rig.hello(2, false);
  hello.boot_id = "boot-2";
  rig.say(kA1Again, hello);
  EXPECT_EQ(rig.take<SliceGone>(kF1).at(0).end, SliceEnd::kHostReboot);
}

TEST(Agents, LessThanIsLeasedIsAShortfallThatIsPaidBackAsSlicesEnd) {
  Leased rig;  // 2 cpus, 4 GiB leased of 8 and 16
  Inventory smaller;
  smaller.total = amount(1, 8);
  rig.say(kA1, InventoryUpdate{smaller});
  EXPECT_EQ(rig.account("h1").total.cpus.value, 2000);  // what is in use
  EXPECT_EQ(rig.account("h1").free.cpus.value, 0);
  EXPECT_EQ(rig.account("h1").free.mem.value, 0);
  EXPECT_EQ(rig.account("h1").unavailable.mem, Bytes(4LL << 30));
  rig.demand(kF1, {line(2, shape(0, 1), 1)}, 1);
  rig.pass();
  EXPECT_TRUE(rig.offers(kF1).empty());
  rig.say(kA1, SliceGone{AgentId("h1"), rig.slice.id, SliceEnd::kReleased, ""});
  EXPECT_EQ(rig.account("h1").total.cpus.value, 1000);
  EXPECT_EQ(rig.account("h1").free.cpus.value, 1000);
  rig.pass();
  EXPECT_EQ(rig.offers(kF1).size(), 1U);
}

Resources with_devices(Resources r, const std::vector<std::string>& ids) {
  for (const std::string& id : ids) r.devices.push_back({DeviceId(id), "gpu/x", Generation(1), true, {}, {}});
  return r;
}
Shape with_gpu(Shape s) {
  s.devices = {{"gpu/x", 1, true, {}, {}, {}}};
  return s;
}

TEST(Agents, ADeviceThatVanishesWhileLeasedIsNotOfferedAndKeepsNothingElseBack) {
  Rig rig;
  rig.agent(kA1, "h1", with_devices(amount(8, 16), {"GPU-1", "GPU-2"}));
  rig.framework(kF1, "one");
  rig.demand(kF1, {line(1, with_gpu(shape(1, 1)), 2)});
  rig.pass();
  auto offers = rig.offers(kF1);
  ASSERT_FALSE(offers.empty());
  rig.say(kF1, Accept{Sequence(1), false, {}, {{offers[0].id, offers[0].generation, {{1, with_gpu(shape(1, 1)), {}, 1}}, false}}});
  const SliceSpec slice = rig.take<CarveSlices>(kA1).at(0).slices.at(0);
  ASSERT_EQ(slice.resources.devices.at(0).device.str(), "GPU-1");
  rig.say(kA1, SliceUp{AgentId("h1"), slice});
  rig.demand(kF1, {}, 1);
  (void)rig.take<SliceUp>(kF1);
  InventoryUpdate gone;  // version 0 is what the hello had
  gone.inventory.total = with_devices(amount(8, 16), {"GPU-2"});
  rig.say(kA1, gone);
  rig.say(kA1, SliceUp{AgentId("h1"), slice, "device GPU-1 is not on this host"});
  const auto told = rig.take<SliceUp>(kF1);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].unhealthy, "device GPU-1 is not on this host");
  EXPECT_EQ(rig.account("h1").free.cpus.value, 7000);
  ASSERT_EQ(rig.account("h1").free.devices.size(), 1U);
  EXPECT_EQ(rig.account("h1").free.devices[0].device.str(), "GPU-2");
  EXPECT_EQ(rig.account("h1").total.devices.size(), 2U);  // as long as somebody has it
  rig.demand(kF1, {line(2, with_gpu(shape(1, 1)), 2)}, 1);
  rig.pass();
  offers = rig.offers(kF1);
  ASSERT_EQ(offers.size(), 1U);
  for (const Offer& offer : offers)
    for (const DeviceShare& share : offer.resources.devices) EXPECT_EQ(share.device.str(), "GPU-2");
  // A framework that comes back hears of it from the master.
  rig.framework(kF1Again, "one", 2);
  EXPECT_EQ(rig.take<SliceUp>(kF1Again).at(0).unhealthy, "device GPU-1 is not on this host");
  rig.say(kA1, SliceGone{AgentId("h1"), slice.id, SliceEnd::kReleased, ""});
  EXPECT_EQ(rig.account("h1").total.devices.size(), 1U);
  EXPECT_EQ(rig.account("h1").free.cpus.value, 8000);
}

TEST(Agents, AnInventoryIncrementAfterAGapIsRefusedUntilTheWholeIsThere) {
  Rig rig;
  rig.agent(kA1, "h1", amount(8, 16));
  Inventory first;
  first.version = Version(1);
  first.total = amount(8, 16);
  rig.say(kA1, InventoryUpdate{first});
  Inventory second = first, third = first;
  second.version = Version(2);
  second.total = amount(6, 16);
  third.version = Version(3);
  third.total = amount(4, 16);
  rig.say(kA1, difference(second, third));  // the one between is lost
  EXPECT_EQ(rig.account("h1").total.cpus.value, 8000);
  EXPECT_EQ(rig.take<Refused>(kA1).at(0).code, Code::kGone);
  rig.say(kA1, difference(first, second));
  rig.say(kA1, difference(second, third));
  EXPECT_EQ(rig.account("h1").total.cpus.value, 4000);
  EXPECT_TRUE(rig.take<Refused>(kA1).empty());
}

TEST(Agents, AnOperatorMayAskThemToProbeAgain) {
  Rig rig;
  rig.agent(kA1, "h1", amount(8, 16));
  rig.agent(kA2, "h2", amount(8, 16));
  rig.say(kR, ReaderHello{kProtocolVersion, "op"});
  const auto asked = [&](std::uint64_t peer) {
    int n = 0;
    for (const Heartbeat& beat : rig.take<Heartbeat>(peer)) n += beat.reprobe ? 1 : 0;
    return n;
  };
  rig.say(kR, OperatorAction{1, "reprobe", "h2", ""});
  EXPECT_EQ(rig.take<OperatorReply>(kR).at(0).code, Code::kOk);
  EXPECT_EQ(asked(kA1), 0);
  EXPECT_EQ(asked(kA2), 1);
  rig.say(kR, OperatorAction{2, "reprobe", "", ""});
  EXPECT_EQ(asked(kA1) + asked(kA2), 2);
  rig.say(kR, OperatorAction{3, "reprobe", "h9", ""});
  EXPECT_EQ(rig.take<OperatorReply>(kR).back().code, Code::kNotFound);
}

TEST(Agents, AChangedTotalTakesBackOffersThatNoLongerFit) {
  Rig rig;
  rig.agent(kA1, "h1", amount(8, 16));
  rig.framework(kF1, "one");
  rig.demand(kF1, {line(1, shape(8, 16), 1)});
  rig.pass();
  EXPECT_EQ(rig.offers(kF1).size(), 1U);
  Inventory smaller;
  smaller.total = amount(4, 8);
  rig.say(kA1, InventoryUpdate{smaller});
  EXPECT_EQ(rig.ended(kF1).at(0).end, OfferEnd::kRescinded);
  EXPECT_EQ(rig.account("h1").total.cpus.value, 4000);
}

TEST(Agents, ACordonedOneGetsNoOffersAndKeepsItsSlicesAlsoAfterARestart) {
  Leased rig;
  rig.say(kR, ReaderHello{kProtocolVersion, "op"});
  rig.say(kR, OperatorAction{1, "cordon", "h1", "disk smells"});
  EXPECT_EQ(rig.take<OperatorReply>(kR).at(0).code, Code::kOk);
  EXPECT_EQ(rig.account("h1").unavailable.cpus.value, 6000);
  EXPECT_EQ(rig.account("h1").leased.cpus.value, 2000);
  rig.start();
  rig.say(kA1, rig.hello(1, true));
  EXPECT_EQ(rig.account("h1").unavailable.cpus.value, 6000);
  rig.say(kR, ReaderHello{kProtocolVersion, "op"});
  rig.say(kR, OperatorAction{2, "uncordon", "h1", ""});
  EXPECT_EQ(rig.account("h1").free.cpus.value, 6000);
}

TEST(Agents, WatchersGetASnapshotAndThenDeltasWithoutAGap) {
  Rig rig;
  rig.agent(kA1, "h1", amount(8, 16));
  rig.framework(kF1, "one", 1, seconds(60), {}, /*watch=*/true);
  auto updates = rig.take<AgentsUpdate>(kF1);
  ASSERT_EQ(updates.size(), 1U);
  EXPECT_TRUE(updates[0].snapshot);
  EXPECT_EQ(updates[0].agents.size(), 1U);
  const Version first = updates[0].version;
  rig.agent(kA2, "h2", amount(8, 16));
  rig.pass();
  updates = rig.take<AgentsUpdate>(kF1);
  ASSERT_EQ(updates.size(), 1U);
  EXPECT_FALSE(updates[0].snapshot);
  EXPECT_EQ(updates[0].version, first.next());
  EXPECT_EQ(updates[0].agents.at(0).agent, AgentId("h2"));
}

TEST(Frameworks, ANewerLifeFencesTheOldAndKeepsItsSlices) {
  Leased rig;
  rig.framework(kF1Again, "one", 2);
  EXPECT_EQ(rig.take<Refused>(kF1).at(0).code, Code::kGone);
  EXPECT_EQ(rig.take<SliceUp>(kF1Again).at(0).spec.id, rig.slice.id);
  rig.framework(25, "one", 1);
  EXPECT_EQ(rig.take<Refused>(25).at(0).code, Code::kGone);
  rig.say(kF1, Launch{AgentId("h1"), rig.slice.id, TaskId("t"), "x"});
  EXPECT_TRUE(rig.take<Launch>(kA1).empty());
  EXPECT_EQ(rig.account("h1").leased.cpus.value, 2000);
}

TEST(Frameworks, SlicesOfOneThatIsGoneStayForItsFailoverTimeoutAndAreThenReleased) {
  Leased rig;
  rig.step(PeerLost{PeerId(kF1)});
  for (int i = 0; i < 3600 / 20 - 1; ++i) {
    rig.run(seconds(20));
    rig.say(kA1, Heartbeat{});
  }
  EXPECT_TRUE(rig.take<ReleaseSlices>(kA1).empty());
  for (int i = 0; i < 2; ++i) {
    rig.run(seconds(20));
    rig.say(kA1, Heartbeat{});
  }
  EXPECT_EQ(rig.take<ReleaseSlices>(kA1).at(0).slices.at(0), rig.slice.id);
  EXPECT_EQ(rig.account("h1").leased.cpus.value, 2000);  // until the agent has done it
  rig.say(kA1, SliceGone{AgentId("h1"), rig.slice.id, SliceEnd::kReleased, ""});
  EXPECT_EQ(rig.account("h1").free.cpus.value, 8000);
}

TEST(Frameworks, OffersOfOneThatLeavesGoToTheNext) {
  Rig rig;
  rig.agent(kA1, "h1", amount(4, 8));
  rig.framework(kF1, "one");
  rig.demand(kF1, {line(1, shape(4, 8), 1)});
  rig.pass();
  rig.framework(kF2, "two");
  rig.demand(kF2, {line(1, shape(4, 8), 1)});
  rig.pass();
  EXPECT_TRUE(rig.offers(kF2).empty());
  rig.say(kF1, Goodbye{true});
  rig.pass();
  EXPECT_EQ(rig.offers(kF2).size(), 1U);
}

TEST(Frameworks, ASliceThatItBelievesInAndNoAgentHasIsGone) {
  Leased rig;
  rig.framework(kF1Again, "one", 2, seconds(3600), {rig.slice.id, SliceId{FrameworkId("one"), 777}});
  const auto gone = rig.take<SliceGone>(kF1Again);
  ASSERT_EQ(gone.size(), 1U);
  EXPECT_EQ(gone[0].slice.number, 777U);
}

TEST(Restart, TheLedgerIsRebuiltFromHellosAndTheEpochGrows) {
  Leased rig;
  const Epoch epoch = rig.master->epoch();
  const Master::Account before = rig.account("h1");
  rig.start();
  EXPECT_GT(rig.master->epoch(), epoch);
  EXPECT_TRUE(rig.account("h1").total.empty());
  rig.say(kA1, rig.hello(1, true));
  const Master::Account after = rig.account("h1");
  EXPECT_EQ(after.total, before.total);
  EXPECT_EQ(after.free, before.free);
  EXPECT_EQ(after.leased, before.leased);
  EXPECT_TRUE(rig.take<Welcome>(kA1).at(0).release.empty());  // its framework may yet return
  rig.framework(kF1, "one");
  EXPECT_EQ(rig.take<SliceUp>(kF1).at(0).spec.id, rig.slice.id);
}

TEST(Restart, AClaimIsSettledOnlyWhenEveryKnownAgentIsBack) {
  Leased rig;
  rig.start();
  rig.framework(kF1, "one", 1, seconds(3600), {rig.slice.id, SliceId{FrameworkId("one"), 777}});
  EXPECT_TRUE(rig.take<SliceGone>(kF1).empty());
  rig.say(kA1, rig.hello(1, true));
  const auto gone = rig.take<SliceGone>(kF1);
  ASSERT_EQ(gone.size(), 1U);
  EXPECT_EQ(gone[0].slice.number, 777U);
}

TEST(Restart, AFrameworkThatNeverReturnsIsForgottenCountedFromTheStart) {
  Leased rig;
  rig.start();
  rig.say(kA1, rig.hello(1, true));
  for (int i = 0; i < 3600 / 20 + 2; ++i) {
    rig.run(seconds(20));
    rig.say(kA1, Heartbeat{});
  }
  EXPECT_EQ(rig.take<ReleaseSlices>(kA1).size(), 1U);
}

TEST(Restart, SlicesOfAFrameworkThatWasRemovedMustGo) {
  Leased rig;
  rig.say(kF1, Goodbye{true});
  rig.start();
  rig.say(kA1, rig.hello(1, true));
  EXPECT_EQ(rig.take<Welcome>(kA1).at(0).release, std::vector<SliceId>{rig.slice.id});
  EXPECT_EQ(rig.account("h1").leased.cpus.value, 2000);
}

TEST(Restart, NothingIsSaidBeforeTheLeadRecordIsDurable) {
  Rig rig;
  rig.hold_durable = true;
  rig.start();
  rig.agent(kA1, "h1", amount(8, 16));
  EXPECT_TRUE(rig.sent.empty());
  EXPECT_EQ(rig.master->epoch().value, 0U);
  rig.step(Durable{rig.held_tickets.at(0)});
  EXPECT_GT(rig.master->epoch().value, 0U);
}

TEST(Restart, AHelloIsAnsweredOnlyWhenItsIdentityIsDurable) {
  Rig rig;
  rig.hold_durable = true;
  rig.agent(kA1, "h1", amount(8, 16));
  EXPECT_TRUE(rig.take<Welcome>(kA1).empty());
  rig.step(AppendFailed{rig.held_tickets.at(0), "No space left on device"});
  rig.agent(kA1, "h1", amount(8, 16));
  EXPECT_TRUE(rig.take<Welcome>(kA1).empty());
  rig.step(Durable{rig.held_tickets.at(1)});
  EXPECT_EQ(rig.take<Welcome>(kA1).size(), 1U);
}

// --- gangs ---------------------------------------------------------------------------------------------------------
struct Ganged : Rig {
  Accept accepted;
  Ganged() {
    agent(kA1, "h1", amount(4, 8));
    agent(kA2, "h2", amount(4, 8));
    framework(kF1, "one");
    demand(kF1, {line(1, shape(4, 8), 2, 2)});
    pass();
    const auto made = offers(kF1);
    EXPECT_EQ(made.size(), 2U);
    accepted = accept(1, made.at(0), 100, shape(4, 8));
    add_item(accepted, made.at(1), 101, shape(4, 8));
    accepted.gang = GangId(7);
    say(kF1, accepted);
  }
  void held(std::uint64_t peer, Code code = Code::kOk) { say(peer, GangHeld{FrameworkId("one"), GangId(7), code, "no room"}); }
  void expect_aborted() {
    EXPECT_EQ(take<SliceGone>(kF1).size(), 2U);
    EXPECT_EQ(account("h1").held.cpus.value + account("h2").held.cpus.value, 0);
    EXPECT_EQ(account("h1").leased.cpus.value + account("h2").leased.cpus.value, 0);
  }
};

TEST(Gang, HoldsOnEveryAgentThenCommitsOnEveryAgent) {
  Ganged rig;
  const auto one = rig.take<CarveSlices>(kA1), two = rig.take<CarveSlices>(kA2);
  EXPECT_TRUE(one.at(0).hold && two.at(0).hold);
  EXPECT_EQ(rig.account("h1").held.cpus.value, 4000);
  rig.held(kA1);
  EXPECT_TRUE(rig.take<CommitGang>(kA1).empty());
  rig.held(kA2);
  EXPECT_EQ(rig.take<CommitGang>(kA1).size(), 1U);
  EXPECT_EQ(rig.take<CommitGang>(kA2).size(), 1U);
  rig.say(kA1, SliceUp{AgentId("h1"), one[0].slices[0]});
  rig.say(kA2, SliceUp{AgentId("h2"), two[0].slices[0]});
  EXPECT_EQ(rig.take<SliceUp>(kF1).size(), 2U);
  EXPECT_EQ(rig.account("h1").leased.cpus.value, 4000);
  rig.run(rig.options.gang_hold * 2);
  EXPECT_TRUE(rig.take<AbortGang>(kA1).empty());
}

TEST(Gang, ARefusedHoldAbortsAll) {
  Ganged rig;
  rig.held(kA1);
  rig.held(kA2, Code::kBusy);
  EXPECT_EQ(rig.take<AbortGang>(kA1).size(), 1U);
  EXPECT_EQ(rig.take<AbortGang>(kA2).size(), 1U);
  rig.expect_aborted();
}

TEST(Gang, AHoldThatIsNotAnsweredInTimeAbortsAll) {
  Ganged rig;
  rig.held(kA1);
  rig.run(rig.options.gang_hold + milliseconds(1));
  EXPECT_EQ(rig.take<AbortGang>(kA1).size(), 1U);
  rig.expect_aborted();
}

TEST(Gang, ALostAgentAbortsAll) {
  Ganged rig;
  rig.held(kA1);
  rig.say(kA2, Goodbye{});
  EXPECT_EQ(rig.take<AbortGang>(kA1).size(), 1U);
  rig.expect_aborted();
}

TEST(Gang, ASliceThatFailsAfterCommitReleasesTheOthers) {
  Ganged rig;
  const SliceSpec one = rig.take<CarveSlices>(kA1).at(0).slices.at(0), two = rig.take<CarveSlices>(kA2).at(0).slices.at(0);
  rig.held(kA1);
  rig.held(kA2);
  rig.say(kA1, SliceUp{AgentId("h1"), one});
  rig.say(kA2, SliceGone{AgentId("h2"), two.id, SliceEnd::kCarveFailed, "cgroup"});
  EXPECT_EQ(rig.take<SliceGone>(kF1).size(), 2U);
  EXPECT_EQ(rig.take<ReleaseSlices>(kA1).at(0).slices.at(0), one.id);
  rig.say(kA1, SliceGone{AgentId("h1"), one.id, SliceEnd::kReleased, ""});
  EXPECT_TRUE(rig.take<SliceGone>(kF1).empty());  // told once
  EXPECT_EQ(rig.account("h1").free.cpus.value + rig.account("h1").offered.cpus.value, 4000);
}

TEST(Gang, AfterARestartACommittedMemberCommitsTheRest) {
  Ganged rig;
  const SliceSpec one = rig.take<CarveSlices>(kA1).at(0).slices.at(0), two = rig.take<CarveSlices>(kA2).at(0).slices.at(0);
  rig.start();
  AgentHello first = Rig::agent_hello("h1", amount(4, 8)), second = Rig::agent_hello("h2", amount(4, 8));
  first.slices.push_back({one, /*held=*/true, {}});
  second.slices.push_back({two, /*held=*/false, {}});
  rig.say(kA1, first);
  EXPECT_TRUE(rig.take<CommitGang>(kA1).empty());
  EXPECT_EQ(rig.account("h1").held.cpus.value, 4000);
  rig.say(kA2, second);
  EXPECT_EQ(rig.take<CommitGang>(kA1).size(), 1U);
}

TEST(Gang, NothingIsOfferedToAGangUntilItFitsOrAccumulatesAndThatIsBounded) {
  Rig rig;
  rig.agent(kA1, "h1", amount(4, 8));
  rig.agent(kA2, "h2", amount(4, 8));
  rig.framework(kF2, "other");
  rig.demand(kF2, {line(1, shape(4, 8), 1)});
  rig.pass();
  const Offer taken = rig.offers(kF2).at(0);
  rig.say(kF2, Rig::accept(1, taken, 500, shape(4, 8)));
  const std::uint64_t peer = taken.agent == AgentId("h1") ? kA1 : kA2;
  const SliceSpec slice = rig.take<CarveSlices>(peer).at(0).slices.at(0);
  rig.framework(kF1, "gang");
  rig.demand(kF1, {line(1, shape(4, 8), 2, 2)});
  rig.pass();
  const auto gathered = rig.offers(kF1);
  ASSERT_EQ(gathered.size(), 1U);
  EXPECT_NE(gathered[0].reservation.value, 0U);
  EXPECT_GT(gathered[0].ttl, rig.options.offer_ttl * 2);
  // What frees goes to the gang, though another one waits.
  rig.demand(kF2, {line(2, shape(4, 8), 5)}, 1);
  rig.say(peer, SliceGone{taken.agent, slice.id, SliceEnd::kReleased, ""});
  rig.pass();
  EXPECT_EQ(rig.offers(kF1).size(), 1U);
  EXPECT_TRUE(rig.offers(kF2).empty());
}

TEST(Gang, AnAccumulationThatLapsesLetsTheOthersGoFirst) {
  Rig rig;
  rig.agent(kA1, "h1", amount(4, 8));
  rig.framework(kF1, "a-gang");
  rig.demand(kF1, {line(1, shape(4, 8), 2, 2)});  // never fits: there is one agent
  rig.pass();
  EXPECT_EQ(rig.offers(kF1).size(), 1U);
  rig.framework(kF2, "other");
  rig.demand(kF2, {line(1, shape(4, 8), 1)});
  for (int i = 0; i < 13; ++i) {
    rig.run(seconds(5));
    for (const std::uint64_t peer : {kA1, kF1, kF2}) rig.say(peer, Heartbeat{});
  }
  EXPECT_EQ(rig.ended(kF1).at(0).end, OfferEnd::kExpired);
  EXPECT_GE(rig.offers(kF2).size(), 1U);
}

// --- routing -------------------------------------------------------------------------------------------------------
TEST(Routing, LaunchKillStatusAndAckPassUntouched) {
  Leased rig;
  const Launch launch{AgentId("h1"), rig.slice.id, TaskId("t1"), std::string("\0not decoded\xff", 14)};
  const auto passes = rig.master->counters().passes;
  rig.say(kF1, launch);
  EXPECT_EQ(rig.take<Launch>(kA1).at(0), launch);
  StatusUpdate update;
  update.agent = AgentId("h1");
  update.framework = FrameworkId("one");
  update.stream = StreamId(5);
  update.sequence = Sequence(1);
  update.slice = rig.slice.id;
  update.status.task = TaskId("t1");
  rig.say(kA1, update);
  EXPECT_EQ(rig.take<StatusUpdate>(kF1).at(0), update);
  rig.say(kF1, StatusAck{AgentId("h1"), FrameworkId("one"), StreamId(5), Sequence(1)});
  EXPECT_EQ(rig.take<StatusAck>(kA1).size(), 1U);
  Kill kill;
  kill.agent = AgentId("h1");
  kill.framework = FrameworkId("one");
  kill.task = TaskId("t1");
  rig.say(kF1, kill);
  EXPECT_EQ(rig.take<Kill>(kA1).at(0), kill);
  rig.say(kF1, Reconcile{AgentId("h1"), FrameworkId("one"), {TaskId("t1")}});
  EXPECT_EQ(rig.take<Reconcile>(kA1).size(), 1U);
  rig.say(kF1, DeclareLost{AgentId("h1"), FrameworkId("one"), {TaskId("t1")}});
  EXPECT_EQ(rig.take<DeclareLost>(kA1).size(), 1U);
  EXPECT_EQ(rig.master->counters().passes, passes);
}

TEST(Routing, ALaunchIntoWhatIsNotYoursIsRefusedAndNamed) {
  Leased rig;
  rig.framework(kF2, "two");
  rig.say(kF2, Launch{AgentId("h1"), rig.slice.id, TaskId("t"), "x"});
  EXPECT_EQ(rig.take<LaunchRefused>(kF2).at(0).code, Code::kDenied);
  rig.say(kF1, Launch{AgentId("h9"), rig.slice.id, TaskId("t"), "x"});
  EXPECT_EQ(rig.take<LaunchRefused>(kF1).at(0).code, Code::kInvalid);
  rig.say(kF1, Launch{AgentId("h1"), {FrameworkId("one"), 4242}, TaskId("t"), "x"});
  EXPECT_EQ(rig.take<LaunchRefused>(kF1).at(0).code, Code::kGone);
  Kill kill;
  kill.agent = AgentId("h1");
  kill.framework = FrameworkId("one");
  rig.say(kF2, kill);
  EXPECT_EQ(rig.take<Refused>(kF2).at(0).code, Code::kDenied);
  EXPECT_TRUE(rig.take<Kill>(kA1).empty());
  EXPECT_TRUE(rig.take<Launch>(kA1).empty());
}

TEST(Routing, AReleasedSliceCountsUntilTheAgentSaysItIsGone) {
  Leased rig;
  rig.say(kF1, ReleaseSlices{{rig.slice.id}, seconds(3)});
  EXPECT_EQ(rig.take<ReleaseSlices>(kA1).at(0).grace, seconds(3));
  EXPECT_EQ(rig.account("h1").leased.cpus.value, 2000);
  rig.say(kA1, SliceGone{AgentId("h1"), rig.slice.id, SliceEnd::kReleased, ""});
  rig.say(kA1, SliceGone{AgentId("h1"), rig.slice.id, SliceEnd::kReleased, ""});
  EXPECT_EQ(rig.take<SliceGone>(kF1).size(), 1U);
  EXPECT_EQ(rig.account("h1").free.cpus.value, 8000);
}

// --- status --------------------------------------------------------------------------------------------------------
TEST(Status, PagesAreBoundedAndContinueWhereTheLastOneEnded) {
  Rig rig;
  for (std::uint64_t i = 0; i < 7; ++i) rig.agent(100 + i, "h" + std::to_string(i), amount(1, 1));
  rig.say(kR, ReaderHello{kProtocolVersion, "r"});
  StatusQuery query;
  query.what = "agents";
  query.limit = 3;
  std::vector<std::string> names;
  for (bool more = true; more;) {
    rig.say(kR, query);
    const auto reply = rig.take<StatusReply>(kR).at(0);
    EXPECT_LE(reply.rows.size(), 3U);
    for (const auto& row : reply.rows) names.push_back(row.name);
    more = reply.more;
    query.after = names.back();
  }
  EXPECT_EQ(names, (std::vector<std::string>{"h0", "h1", "h2", "h3", "h4", "h5", "h6"}));
  query.what = "nonsense";
  rig.say(kR, query);
  EXPECT_EQ(rig.take<StatusReply>(kR).at(0).code, Code::kInvalid);
  query = StatusQuery{};
  query.what = "cluster";
  rig.say(kR, query);
  EXPECT_EQ(rig.take<StatusReply>(kR).at(0).rows.at(0).name, "leader");
}

TEST(Status, DemandIsShownByLineUntilItIsMet) {
  Rig rig;
  rig.say(kR, ReaderHello{kProtocolVersion, "r"});
  const auto wanted = [](std::uint64_t id, std::int32_t priority, std::uint32_t count) {
    DemandLine want = line(id, shape(2, 0), count);
    want.priority = priority;
    return want;
  };
  rig.framework(kF1, "one");
  rig.framework(kF2, "two");
  rig.demand(kF1, {wanted(3, 0, 5), wanted(9, 7, 4)});
  rig.demand(kF2, {wanted(2, 0, 6)});
  const auto shown = [&] {
    StatusQuery query;
    query.what = "demand";
    query.limit = 1;
    std::string text;
    for (bool more = true; more;) {
      rig.say(kR, query);
      const auto reply = rig.take<StatusReply>(kR).at(0);
      EXPECT_LE(reply.rows.size(), 1U);
      for (const auto& row : reply.rows) {
        text += row.name;
        for (const auto& [name, value] : row.fields) text += name == "unmet" || name == "shape" ? " " + value : "";
        text += "; ";
        query.after = row.name;
      }
      more = reply.more;
    }
    return text;
  };
  EXPECT_EQ(shown(), "one#9 4 cpus=2; one#3 5 cpus=2; two#2 6 cpus=2; ");
  rig.demand(kF1, {wanted(3, 0, 5)});
  rig.demand(kF2, {});
  EXPECT_EQ(shown(), "one#3 5 cpus=2; ");
}

// --- registry ------------------------------------------------------------------------------------------------------
TEST(Registry, EpochsGrowThroughSnapshots) {
  house::LogRegistry one;
  std::vector<std::string> records;
  Ticket ticket = 0;
  const auto run = [&](house::LogRegistry& registry, auto act) {
    Actions out;
    out.ticket = ++ticket;
    act(registry, out);
    for (const Append& append : out.appends) records.push_back(append.record);
    registry.durable(out.ticket);
  };
  run(one, [](house::LogRegistry& r, Actions& out) { r.lead("c", out); });
  for (std::uint64_t i = 0; i < house::LogRegistry::kCompactAfter; ++i) {
    run(one, [&](house::LogRegistry& r, Actions& out) {
      r.put_framework({FrameworkId("f"), RoleName("r"), Incarnation(i), seconds(1)}, out);
    });
  }
  Actions out;
  one.compact_if_worth(out);
  ASSERT_FALSE(out.compact.empty());
  house::LogRegistry two;
  ASSERT_TRUE(two.replay(out.compact, {}));
  EXPECT_EQ(two.framework(FrameworkId("f"))->incarnation.value, house::LogRegistry::kCompactAfter - 1);
  run(two, [](house::LogRegistry& r, Actions& o) { r.lead("other", o); });
  EXPECT_GT(two.epoch().value, house::LogRegistry::kCompactAfter);
  EXPECT_EQ(two.cluster(), "c");
}

TEST(Registry, EpochsGrowThoughAppendsFailed) {
  house::LogRegistry one;
  std::vector<std::string> records;
  for (Ticket ticket = 1; ticket <= 4; ++ticket) {
    Actions out;
    out.ticket = ticket;
    one.lead("c", out);
    if (ticket < 4) {
      one.failed(ticket);  // the disk is full: nothing of it is in the log
      continue;
    }
    for (const Append& append : out.appends) records.push_back(append.record);
    one.durable(ticket);
  }
  house::LogRegistry two;
  ASSERT_TRUE(two.replay({}, records));
  Actions out;
  out.ticket = 5;
  two.lead("c", out);
  two.durable(5);
  EXPECT_GT(two.epoch(), one.epoch());
}

TEST(Registry, ATornRecordRefusesTheStart) {
  Rig rig;
  rig.agent(kA1, "h1", amount(1, 1));
  rig.records.back().pop_back();
  rig.start();
  EXPECT_TRUE(rig.stopped);
  EXPECT_EQ(rig.master->epoch().value, 0U);
}

TEST(Registry, ARecordOfAnUnknownTypeIsKeptAndSaid) {
  Rig rig;
  rig.records.push_back(std::string("\xee\x01payload", 9));
  rig.start();
  EXPECT_FALSE(rig.stopped);
  EXPECT_GT(rig.master->epoch().value, 0U);
  EXPECT_TRUE(std::any_of(rig.logs.begin(), rig.logs.end(),
                          [](const std::string& l) { return l.find("registry_unknown_records") != std::string::npos; }));
}

}  // namespace
}  // namespace bourse::test
