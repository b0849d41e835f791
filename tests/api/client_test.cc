// The client actor against scripted messages: each promise of frameworks/api/client.h, under loss, repetition and new leaders.
#include <gtest/gtest.h>

#include <cstdlib>

#include "common/wire/wire.h"
#include "tests/api/rig.h"

namespace bourse::test {
namespace {

AckStatus ack(std::uint64_t through, std::uint64_t stream = 9) { return {AgentId("h1"), StreamId(stream), Sequence(through)}; }

// --- session ---------------------------------------------------------------------------------------------------------

TEST(ClientSession, SaysHelloFirstAndReportsUpOnWelcome) {
  Rig r;
  r.start(12);
  ASSERT_EQ(r.sent.size(), 1u);
  const auto hello = r.messages<FrameworkHello>().at(0);
  EXPECT_EQ(hello.framework.value, "f");
  EXPECT_EQ(hello.role.value, "r");
  EXPECT_EQ(hello.incarnation.value, 12u);
  EXPECT_EQ(hello.version, kProtocolVersion);
  r.welcome();
  ASSERT_EQ(r.events<SessionUp>().size(), 1u);
  EXPECT_EQ(r.events<SessionUp>()[0].epoch, Epoch(7));
  EXPECT_EQ(r.events<SessionUp>()[0].cluster, "c");
}

TEST(ClientSession, RepeatsHelloEachSecondThenTriesTheNextMasterAfterABackOff) {
  Rig r;
  r.start();
  r.pass(milliseconds(2'999));
  EXPECT_EQ(r.messages<FrameworkHello>().size(), 3u);
  EXPECT_EQ(r.reconnects, 0);
  r.pass(milliseconds(1));
  EXPECT_EQ(r.reconnects, 1);
  EXPECT_EQ(r.messages<FrameworkHello>().size(), 3u);
  r.pass(milliseconds(100));
  EXPECT_EQ(r.messages<FrameworkHello>().size(), 4u);
}

TEST(ClientSession, BackOffDoublesToFiveSecondsAndDiffersBetweenFrameworks) {
  auto waits = [](const std::string& name) {
    auto options = Rig::defaults();
    options.framework = FrameworkId(name);
    Rig r(options);
    r.start();
    std::vector<Duration> out;
    for (int i = 0; i < 9; ++i) {
      r.event(PeerLost{kMasterPeer});
      const Duration from = r.now.mono;
      const std::size_t hellos = r.messages<FrameworkHello>().size();
      while (r.messages<FrameworkHello>().size() == hellos) r.pass(milliseconds(1));
      out.push_back(r.now.mono - from);
    }
    return out;
  };
  const auto a = waits("a"), b = waits("b");
  EXPECT_NE(a, b);
  EXPECT_EQ(a, waits("a"));
  for (std::size_t i = 0; i < a.size(); ++i) {
    const Duration base = std::min<Duration>(milliseconds(100 << i), seconds(5));
    EXPECT_GE(a[i], base / 2) << i;
    EXPECT_LE(a[i], base + milliseconds(1)) << i;
  }
}

TEST(ClientSession, SendsAHeartbeatOnlyWhenNothingElseWasSent) {
  Rig r;
  r.connect();
  r.pass(seconds(2));  // the welcome's own traffic was in this half
  r.clear();
  r.pass(seconds(4));
  EXPECT_EQ(r.messages<Heartbeat>().size(), 2u);
  r.clear();
  for (int i = 0; i < 8; ++i) {
    r.say(ReleaseSlice{{FrameworkId("f"), static_cast<std::uint64_t>(100 + i)}, Duration{0}});
    r.pass(seconds(1));
  }
  EXPECT_TRUE(r.messages<Heartbeat>().empty());
}

TEST(ClientSession, SilenceOfTheMasterEndsTheSessionOnceAndReconnects) {
  Rig r;
  r.connect();
  r.pass(seconds(19));
  r.from_master(Heartbeat{});
  r.pass(seconds(19));
  EXPECT_TRUE(r.events<SessionDown>().empty());
  r.pass(seconds(2));
  EXPECT_EQ(r.events<SessionDown>().size(), 1u);
  EXPECT_EQ(r.reconnects, 1);
  r.pass(seconds(30));
  EXPECT_EQ(r.events<SessionDown>().size(), 1u);
  EXPECT_GE(r.messages<FrameworkHello>().size(), 3u);
}

TEST(ClientSession, IgnoresADeposedLeader) {
  Rig r;
  r.connect();
  r.epoch = Epoch(8);
  r.welcome();
  r.clear();
  r.epoch = Epoch(7);
  r.from_master(Offers{{offer(1)}});
  r.from_master(status(1, "t", TaskState::kRunning));
  r.welcome();
  EXPECT_TRUE(r.up.empty());
  r.epoch = Epoch(8);
  r.from_master(Offers{{offer(1)}});
  EXPECT_EQ(r.events<OfferMade>().size(), 1u);
}

TEST(ClientSession, AMasterThatDoesNotKnowUsIsGreetedAgainAndThatIsNotFencing) {
  Rig r;
  r.connect();
  r.from_master(Refused{Code::kGone, "say hello first"});
  r.from_master(Refused{Code::kGone, "say hello first"});  // of a second message that was under way
  EXPECT_EQ(r.messages<FrameworkHello>().size(), 1u);
  EXPECT_FALSE(r.client.ended());
  r.welcome();
  EXPECT_TRUE(r.events<SessionUp>().empty()) << "the framework had not heard of any end";
  EXPECT_TRUE(r.client.connected());
}

TEST(ClientSession, FencedByANewerLifeIsFinal) {
  Rig r;
  r.connect();
  r.from_master(Refused{Code::kGone, "a newer incarnation has taken over"});
  ASSERT_EQ(r.messages<FrameworkHello>().size(), 1u);
  EXPECT_FALSE(r.client.ended());
  r.from_master(Refused{Code::kGone, "incarnation 5 is older than 6"});
  ASSERT_EQ(r.events<SessionRefused>().size(), 1u);
  EXPECT_EQ(r.events<SessionRefused>()[0].code, Code::kGone);
  r.clear();
  r.say(launch("t"));
  r.pass(seconds(100));
  EXPECT_TRUE(r.sent.empty());
  EXPECT_TRUE(r.timers.empty());
}

TEST(ClientSession, WrongKeyOrVersionIsFinalButABusyMasterIsNot) {
  for (Code code : {Code::kDenied, Code::kVersion}) {
    Rig r;
    r.start();
    r.from_master(Refused{code, "no"});
    ASSERT_EQ(r.events<SessionRefused>().size(), 1u);
    EXPECT_EQ(r.events<SessionRefused>()[0].code, code);
  }
  Rig r;
  r.start();
  r.from_master(Refused{Code::kBusy, "not leading yet"});
  EXPECT_TRUE(r.up.empty());
  EXPECT_EQ(r.reconnects, 1);
  r.pass(seconds(1));
  EXPECT_EQ(r.messages<FrameworkHello>().size(), 2u);
}

Refused stands_by(const std::string& leader = "") { return {Code::kBusy, "does not lead", true, leader}; }

TEST(ClientSession, GoesToTheLeaderThatAMasterNamesWhateverItsEpoch) {
  Rig r;
  r.start();
  r.clear();
  r.from_master(stands_by("tcp://m2:7400"));
  EXPECT_EQ(r.reconnects, 1);
  EXPECT_EQ(r.went_to, "tcp://m2:7400");
  EXPECT_TRUE(r.up.empty()) << "nothing was up, so nothing went down";
  r.pass(milliseconds(100));
  EXPECT_EQ(r.messages<FrameworkHello>().size(), 1u);
  r.welcome();
  ASSERT_TRUE(r.client.connected());
  r.clear();
  r.epoch = Epoch(3);  // our leader is deposed and has not heard under which epoch the new one leads
  r.from_master(stands_by("tcp://m3:7400"));
  EXPECT_EQ(r.events<SessionDown>().size(), 1u);
  EXPECT_EQ(r.went_to, "tcp://m3:7400");
  r.pass(milliseconds(100));
  r.epoch = Epoch(7);
  r.welcome();
  EXPECT_FALSE(r.client.connected() && r.client.ended());
  EXPECT_EQ(r.events<SessionUp>().size(), 1u);
}

TEST(ClientSession, KnocksWhileNobodyLeadsAndSaysHelloOnlyToTheLeader) {
  Rig r;
  r.connect();
  r.from_master(stands_by());
  r.clear();
  r.say(launch("t"));
  r.pass(milliseconds(700));
  EXPECT_EQ(r.messages<Heartbeat>().size(), 1u);
  EXPECT_EQ(r.messages<FrameworkHello>().size(), 0u);
  r.from_master(Refused{Code::kGone, "say hello first"});
  EXPECT_EQ(r.messages<FrameworkHello>().size(), 1u);
  EXPECT_FALSE(r.client.ended()) << "that is no fencing";
  r.welcome();
  EXPECT_TRUE(r.client.connected());
}

TEST(ClientSession, RemembersTheMastersThatTheLeaderNames) {
  Rig r;
  r.start();
  Welcome w;
  w.cluster = "c";
  w.masters = {"tcp://m1:7400", "tcp://m2:7400", "tcp://m4:7400"};
  r.from_master(w);
  EXPECT_EQ(r.masters, w.masters);
  // Three are known, so two more are tried before the waits grow.
  for (int i = 0; i < 2; ++i) {
    r.clear();
    r.event(PeerLost{kMasterPeer});
    r.pass(milliseconds(100));
    EXPECT_EQ(r.messages<FrameworkHello>().size(), 1u) << i;
  }
}

TEST(ClientSession, AGoodbyeIsSaidAgainToTheLeader) {
  Rig r;
  r.connect();
  r.say(EndSession{true});
  r.clear();
  r.from_master(stands_by("tcp://m2:7400"));
  EXPECT_FALSE(r.client.ended());
  r.pass(milliseconds(100));
  r.welcome();
  ASSERT_EQ(r.messages<Goodbye>().size(), 1u);
  r.from_master(Refused{Code::kGone, "say hello first"});
  EXPECT_TRUE(r.client.ended());
}

TEST(ClientSession, GoodbyeIsRepeatedUntilTheMasterKnowsUsNoMore) {
  Rig r;
  r.connect();
  r.say(EndSession{true});
  ASSERT_EQ(r.messages<Goodbye>().size(), 1u);
  EXPECT_TRUE(r.messages<Goodbye>()[0].forever);
  EXPECT_TRUE(r.events<SessionDown>().empty());
  r.pass(seconds(1));
  EXPECT_EQ(r.messages<Goodbye>().size(), 2u);
  r.from_master(Refused{Code::kGone, "say hello first"});
  EXPECT_EQ(r.events<SessionDown>().size(), 1u);
  EXPECT_TRUE(r.client.ended());
  EXPECT_TRUE(r.timers.empty());
}

TEST(ClientSession, GoodbyeForEverWaitsForAMaster) {
  Rig r;
  r.start();
  r.say(EndSession{true});
  EXPECT_FALSE(r.client.ended());
  r.welcome();
  EXPECT_EQ(r.messages<Goodbye>().size(), 1u);
}

// --- demand ----------------------------------------------------------------------------------------------------------

SetDemand demand(std::uint32_t count) {
  SetDemand d;
  DemandLine line;
  line.id = 1;
  line.count = count;
  d.lines.push_back(line);
  return d;
}

TEST(ClientDemand, OnlyTheLastOfATurnIsSent) {
  Rig r;
  r.connect();
  for (std::uint32_t i = 1; i <= 5; ++i) r.say(demand(i));
  r.turn();
  ASSERT_EQ(r.messages<Demand>().size(), 1u);
  EXPECT_EQ(r.messages<Demand>()[0].lines[0].count, 5u);
}

TEST(ClientDemand, AccountsForAcceptsMadeBeforeItAndNotForLaterOnes) {
  Rig r;
  r.connect();
  r.from_master(Offers{{offer(1), offer(2)}});
  r.say(AcceptOffers{accept_of(1, 1)});
  r.say(demand(3));                      // knows of accept 1
  r.say(AcceptOffers{accept_of(2, 2)});  // not of this one, though it leaves first
  r.turn();
  ASSERT_EQ(r.messages<Demand>().size(), 1u);
  EXPECT_EQ(r.messages<Demand>()[0].last_accept, Sequence(1));
}

TEST(ClientDemand, IsPublishedAgainAfterReconnectAndToANewLeader) {
  Rig r;
  r.connect();
  r.say(demand(3));
  r.turn();
  const Demand first = r.messages<Demand>().at(0);
  r.event(PeerLost{kMasterPeer});
  r.pass(seconds(1));
  r.clear();
  r.welcome();
  ASSERT_EQ(r.messages<Demand>().size(), 1u);
  EXPECT_EQ(r.messages<Demand>()[0], first) << "the same state, hence the same version";
  r.clear();
  r.epoch = Epoch(9);
  r.welcome();
  EXPECT_EQ(r.messages<Demand>().size(), 1u);
}

// --- offers and accepts ----------------------------------------------------------------------------------------------

TEST(ClientOffers, EndOnceWhicheverOfMasterAndClockIsFirst) {
  Rig r;
  r.connect();
  r.from_master(Offers{{offer(1, 1, seconds(2)), offer(2, 1, seconds(5))}});
  r.from_master(Offers{{offer(1, 1, seconds(2))}});
  EXPECT_EQ(r.events<OfferMade>().size(), 2u) << "the same offer again is no news";
  r.pass(seconds(2));
  ASSERT_EQ(r.events<OfferEnded>().size(), 1u);
  EXPECT_EQ(r.events<OfferEnded>()[0].offer, OfferId(1));
  r.from_master(OffersEnded{{{OfferId(1), OfferEnd::kExpired}, {OfferId(2), OfferEnd::kRescinded}}});
  ASSERT_EQ(r.events<OfferEnded>().size(), 2u);
  EXPECT_EQ(r.events<OfferEnded>()[1].end, OfferEnd::kRescinded);
  r.pass(seconds(10));
  EXPECT_EQ(r.events<OfferEnded>().size(), 2u);
}

TEST(ClientOffers, UsedOrDeclinedOnesHaveNoEnd) {
  Rig r;
  r.connect();
  r.from_master(Offers{{offer(1), offer(2)}});
  r.say(AcceptOffers{accept_of(1, 1)});
  DeclineOffers decline;
  decline.items.push_back({OfferId(2), DeclineReason::kNoWork, "", Duration{0}});
  decline.items.push_back({OfferId(3), DeclineReason::kNoWork, "", Duration{0}});
  r.say(decline);
  ASSERT_EQ(r.messages<Decline>().size(), 1u);
  EXPECT_EQ(r.messages<Decline>()[0].items.size(), 1u) << "offer 3 was never made";
  r.pass(seconds(20));
  EXPECT_TRUE(r.events<OfferEnded>().empty());
}

TEST(ClientOffers, OfANewLeadersPredecessorAreEnded) {
  Rig r;
  r.connect();
  r.from_master(Offers{{offer(1)}});
  r.epoch = Epoch(8);
  r.welcome();
  ASSERT_EQ(r.events<OfferEnded>().size(), 1u);
  EXPECT_EQ(r.events<OfferEnded>()[0].end, OfferEnd::kRescinded);
}

TEST(ClientAccept, IsRepeatedAfterReconnectUntilAnsweredAndAnsweredOnce) {
  Rig r;
  r.connect();
  r.from_master(Offers{{offer(1), offer(2)}});
  r.say(AcceptOffers{accept_of(1, 1)});
  r.say(AcceptOffers{accept_of(2, 2)});
  r.from_master(reply(1, {{1, Code::kOk}}));
  r.event(PeerLost{kMasterPeer});
  r.pass(seconds(1));
  r.clear();
  r.welcome();
  ASSERT_EQ(r.messages<Accept>().size(), 1u);
  EXPECT_EQ(r.messages<Accept>()[0].sequence, Sequence(2));
  r.from_master(reply(2, {{2, Code::kGone}}));
  r.from_master(reply(2, {{2, Code::kGone}}));
  ASSERT_EQ(r.events<AcceptAnswered>().size(), 1u);
  EXPECT_EQ(r.events<AcceptAnswered>()[0].code, Code::kGone);
  EXPECT_EQ(r.events<AcceptAnswered>()[0].reason, "because");
  r.clear();
  r.epoch = Epoch(8);
  r.welcome();
  EXPECT_TRUE(r.messages<Accept>().empty());
}

TEST(ClientAccept, ALostAnswerIsAskedForEvenWithoutAReconnect) {
  Rig r;
  r.connect();
  r.from_master(Offers{{offer(1)}});
  r.say(AcceptOffers{accept_of(1, 1)});
  for (int i = 0; i < 11; ++i) r.pass(seconds(1)), r.from_master(Heartbeat{});
  EXPECT_EQ(r.messages<Accept>().size(), 2u);
}

TEST(ClientAccept, HelloNamesSlicesThatWerePromisedButNotThoseUnanswered) {
  Rig r;
  r.connect();
  r.from_master(Offers{{offer(1), offer(2)}});
  r.say(AcceptOffers{accept_of(1, 1)});
  r.from_master(reply(1, {{1, Code::kOk}}));
  r.say(AcceptOffers{accept_of(2, 2)});
  r.clear();
  r.event(PeerLost{kMasterPeer});
  r.pass(seconds(1));
  ASSERT_EQ(r.messages<FrameworkHello>().size(), 1u);
  EXPECT_EQ(r.messages<FrameworkHello>()[0].slices, (std::vector<SliceId>{{FrameworkId("f"), 1}}));
}

// --- slices and gangs ------------------------------------------------------------------------------------------------

TEST(ClientSlices, ReportedAgainAfterAReconnectAndLostOnce) {
  Rig r;
  r.connect();
  r.from_master(slice_up(1));
  r.epoch = Epoch(8);
  r.welcome();
  r.from_master(slice_up(1));
  EXPECT_EQ(r.events<SliceReady>().size(), 2u);
  r.from_master(slice_gone(1, SliceEnd::kRevoked));
  r.from_master(slice_gone(1, SliceEnd::kRevoked));
  ASSERT_EQ(r.events<SliceLost>().size(), 1u);
  EXPECT_EQ(r.events<SliceLost>()[0].end, SliceEnd::kRevoked);
}

TEST(ClientSlices, UnknownOnesArePassedUpSoThatARestartedFrameworkCanGiveThemBack) {
  Rig r;
  r.connect(6);
  r.from_master(slice_up(77));
  ASSERT_EQ(r.events<SliceReady>().size(), 1u);
  r.say(ReleaseSlice{{FrameworkId("f"), 77}, seconds(3)});
  ASSERT_EQ(r.messages<ReleaseSlices>().size(), 1u);
  EXPECT_EQ(r.messages<ReleaseSlices>()[0].grace, seconds(3));
}

TEST(ClientSlices, AReleaseIsRepeatedInEachSessionUntilTheSliceIsGone) {
  Rig r;
  r.connect();
  r.from_master(slice_up(1));
  r.event(PeerLost{kMasterPeer});
  r.say(ReleaseSlice{{FrameworkId("f"), 1}, Duration{0}});
  r.pass(seconds(1));
  r.clear();
  r.welcome();
  EXPECT_EQ(r.messages<ReleaseSlices>().size(), 1u);
  r.from_master(slice_up(1));  // it had not heard
  EXPECT_TRUE(r.events<SliceReady>().empty());
  EXPECT_EQ(r.messages<ReleaseSlices>().size(), 2u);
  r.from_master(slice_gone(1, SliceEnd::kReleased));
  r.clear();
  r.welcome();
  EXPECT_TRUE(r.messages<ReleaseSlices>().empty());
}

struct Gang : ::testing::Test {
  Rig r;
  void SetUp() override {
    r.connect();
    r.from_master(Offers{{offer(1), offer(2)}});
    Accept a = accept_of(1, 1, 40);
    a.items.push_back(accept_of(2, 2).items[0]);
    a.all_or_nothing = true;
    r.say(AcceptOffers{a});
    r.say(launch("a", 1, "h1"));
    r.say(launch("b", 2, "h2"));
  }
};

TEST_F(Gang, StartsWhenEverySliceIsUpAndNotBefore) {
  r.from_master(reply(1, {{1, Code::kOk}, {2, Code::kOk}}));
  r.from_master(slice_up(1, "h1", 40));
  EXPECT_TRUE(r.events<GangReady>().empty());
  EXPECT_TRUE(r.messages<Launch>().empty());
  r.from_master(slice_up(1, "h1", 40));  // again: still one
  EXPECT_TRUE(r.events<GangReady>().empty());
  r.from_master(slice_up(2, "h2", 40));
  ASSERT_EQ(r.events<GangReady>().size(), 1u);
  EXPECT_EQ(r.events<GangReady>()[0].gang, GangId(40));
  EXPECT_EQ(r.messages<Launch>().size(), 2u);
  r.from_master(slice_up(2, "h2", 40));
  EXPECT_EQ(r.events<GangReady>().size(), 1u);
}

TEST_F(Gang, FailsAsAWholeGivesTheRestBackAndStartsNothing) {
  r.from_master(reply(1, {{1, Code::kOk}, {2, Code::kOk}}));
  r.from_master(slice_up(1, "h1", 40));
  r.clear();
  r.from_master(slice_gone(2, SliceEnd::kCarveFailed, "h2"));
  ASSERT_EQ(r.events<GangFailed>().size(), 1u);
  EXPECT_EQ(r.events<GangFailed>()[0].reason, "why");
  ASSERT_EQ(r.messages<ReleaseSlices>().size(), 1u);
  EXPECT_EQ(r.messages<ReleaseSlices>()[0].slices, (std::vector<SliceId>{{FrameworkId("f"), 1}}));
  EXPECT_TRUE(r.messages<Launch>().empty());
  const auto updates = r.events<TaskUpdate>();
  ASSERT_EQ(updates.size(), 2u);
  for (const auto& u : updates) {
    EXPECT_EQ(u.status.state, TaskState::kNeverStarted);
    EXPECT_EQ(u.sequence, Sequence(0));
  }
  r.from_master(slice_gone(1, SliceEnd::kReleased));
  EXPECT_EQ(r.events<GangFailed>().size(), 1u);
}

TEST_F(Gang, RefusedAcceptFailsItOnce) {
  r.from_master(reply(1, {{1, Code::kBusy}, {2, Code::kGone}}));
  EXPECT_EQ(r.events<GangFailed>().size(), 1u);
  EXPECT_EQ(r.events<TaskUpdate>().size(), 2u);
  EXPECT_EQ(r.events<AcceptAnswered>().size(), 2u);
}

// --- statuses --------------------------------------------------------------------------------------------------------

TEST(ClientStatus, DuplicatesAreDroppedAndOrderIsKept) {
  Rig r;
  r.connect();
  r.from_master(status(1, "a", TaskState::kRunning));
  r.from_master(status(1, "a", TaskState::kRunning));
  r.from_master(status(3, "c", TaskState::kExited));  // 2 was lost
  EXPECT_EQ(r.events<TaskUpdate>().size(), 1u);
  for (std::uint64_t s : {1, 2, 3}) r.from_master(status(s, "x" + std::to_string(s), TaskState::kExited));  // resent from the first
  const auto updates = r.events<TaskUpdate>();
  ASSERT_EQ(updates.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(updates[i].sequence, Sequence(i + 1));
}

TEST(ClientStatus, StreamsAreCountedByAgentAndStream) {
  Rig r;
  r.connect();
  r.from_master(status(1, "a", TaskState::kExited, 9, "h1"));
  r.from_master(status(1, "b", TaskState::kExited, 9, "h2"));
  r.from_master(status(1, "c", TaskState::kExited, 10, "h1"));
  EXPECT_EQ(r.events<TaskUpdate>().size(), 3u);
}

TEST(ClientStatus, ANewLifeWaitsForTheStartOfAResendSoThatNothingBeforeIsLost) {
  Rig r;
  r.connect(6);
  r.from_master(status(8, "h", TaskState::kExited));  // 5 to 7 went to the life before, which did not acknowledge them
  r.turn();
  EXPECT_TRUE(r.events<TaskUpdate>().empty());
  ASSERT_EQ(r.messages<StatusAck>().size(), 1u) << "asks for a resend";
  EXPECT_EQ(r.messages<StatusAck>()[0].through, Sequence(0));
  r.from_master(status(9, "i", TaskState::kExited));
  EXPECT_TRUE(r.events<TaskUpdate>().empty());
  for (std::uint64_t s = 5; s <= 9; ++s) r.from_master(status(s, "t" + std::to_string(s), TaskState::kExited));
  const auto updates = r.events<TaskUpdate>();
  ASSERT_EQ(updates.size(), 5u);
  EXPECT_EQ(updates.front().sequence, Sequence(5));
  EXPECT_EQ(updates.back().sequence, Sequence(9));
}

TEST(ClientStatus, WhatALifeBeforeAcknowledgedMeanwhileDoesNotStopTheStream) {
  Rig r;
  r.connect(6);
  StatusUpdate five = status(5, "a", TaskState::kExited), eight = status(8, "b", TaskState::kExited);
  five.first = Sequence(5), eight.first = Sequence(8);  // 6 and 7 were acknowledged by the life before
  r.from_master(five);
  r.from_master(eight);
  ASSERT_EQ(r.events<TaskUpdate>().size(), 2u);
  EXPECT_EQ(r.events<TaskUpdate>()[1].sequence, Sequence(8));
}

// A life before acknowledged the end while this one was told of the task's beginning. What the agent has forgotten it calls never
// started, when it is asked; the framework has the end in its records, and this is not another.
TEST(ClientStatus, AnEndThatALifeBeforeAcknowledgedIsNotToldAsNeverStarted) {
  Rig r;
  r.connect(6);
  StatusUpdate running = status(5, "a", TaskState::kRunning), never = status(8, "a", TaskState::kNeverStarted);
  running.first = Sequence(5), never.first = Sequence(8);
  never.slice.number = 0;  // it does not know it
  r.from_master(running);
  r.say(ack(5));
  r.turn();
  r.clear();
  r.from_master(never);
  r.pass(milliseconds(10));
  EXPECT_TRUE(r.events<TaskUpdate>().empty());
  ASSERT_EQ(r.messages<StatusAck>().size(), 1u) << "the agent must not wait for an acknowledgement that nobody will ask for";
  EXPECT_EQ(r.messages<StatusAck>()[0].through, Sequence(8));
}

TEST(ClientStatus, NeverStartedInAnotherStreamIsAnEnd) {  // the agent's host lost power, and with it what it knew of the task
  Rig r;
  r.connect(6);
  r.from_master(status(1, "a", TaskState::kRunning, 9));
  r.clear();
  r.from_master(status(1, "a", TaskState::kNeverStarted, 10));
  EXPECT_EQ(r.events<TaskUpdate>().size(), 1u);
}

TEST(ClientStatus, ASecondEndIsNotToldAndIsAcknowledgedOnlyBehindWhatIsBeforeIt) {
  Rig r;
  r.connect();
  r.from_master(status(1, "a", TaskState::kExited));
  r.from_master(status(2, "b", TaskState::kExited));
  r.from_master(status(3, "a", TaskState::kExited));
  EXPECT_EQ(r.events<TaskUpdate>().size(), 2u);
  r.pass(seconds(1));
  EXPECT_TRUE(r.messages<StatusAck>().empty());
  r.say(ack(1));
  r.pass(seconds(1));
  ASSERT_EQ(r.messages<StatusAck>().size(), 1u);
  EXPECT_EQ(r.messages<StatusAck>()[0].through, Sequence(1));
  r.say(ack(2));
  r.pass(seconds(1));
  EXPECT_EQ(r.messages<StatusAck>().back().through, Sequence(3));
}

TEST(ClientStatus, AKillThatCrossesTheNewsOfTheEndIsDropped) {
  Rig r;
  r.connect();
  r.from_master(status(1, "a", TaskState::kExited));
  KillTask kill;
  kill.kill.agent = AgentId("h1");
  kill.kill.task = TaskId("a");
  r.clear();
  r.say(kill);
  r.say(DeclareTasksLost{AgentId("h1"), {TaskId("a")}});
  r.say(ReconcileTasks{AgentId("h1"), {TaskId("a")}});
  EXPECT_TRUE(r.messages<Kill>().empty());
  EXPECT_TRUE(r.messages<DeclareLost>().empty());
  for (const Reconcile& asked : r.messages<Reconcile>()) EXPECT_TRUE(asked.tasks.empty());
}

TEST(ClientStatus, AcknowledgementsAreCumulativeOneATurnAndNeverBeyondWhatWasDelivered) {
  Rig r;
  r.connect();
  for (std::uint64_t s = 1; s <= 4; ++s) r.from_master(status(s, "t" + std::to_string(s), TaskState::kExited));
  for (std::uint64_t s = 1; s <= 3; ++s) r.say(ack(s));
  r.turn();
  ASSERT_EQ(r.messages<StatusAck>().size(), 1u);
  EXPECT_EQ(r.messages<StatusAck>()[0].through, Sequence(3));
  r.say(ack(99));
  r.pass(milliseconds(10));  // they are gathered for so long
  EXPECT_EQ(r.messages<StatusAck>().back().through, Sequence(4));
}

TEST(ClientStatus, AcknowledgementsAreRepeatedAfterReconnectAndToAnAgentThatResends) {
  Rig r;
  r.connect();
  r.from_master(status(1, "a", TaskState::kExited));
  r.say(ack(1));
  r.event(PeerLost{kMasterPeer});  // before the turn ended: never sent
  r.pass(seconds(1));
  r.clear();
  r.welcome();
  ASSERT_EQ(r.messages<StatusAck>().size(), 1u);
  EXPECT_EQ(r.messages<StatusAck>()[0].through, Sequence(1));
  r.epoch = Epoch(8);
  r.clear();
  r.welcome();
  EXPECT_EQ(r.messages<StatusAck>().size(), 1u);
  r.clear();
  r.from_master(status(1, "a", TaskState::kExited));
  r.turn();
  EXPECT_EQ(r.messages<StatusAck>().size(), 1u);
  EXPECT_TRUE(r.up.empty());
}

TEST(ClientStatus, NothingIsAcknowledgedThatTheFrameworkDidNotAcknowledge) {
  Rig r;
  r.connect();
  r.from_master(status(1, "a", TaskState::kExited));
  r.turn();
  EXPECT_TRUE(r.messages<StatusAck>().empty());
  r.epoch = Epoch(8);
  r.welcome();
  EXPECT_TRUE(r.messages<StatusAck>().empty());
  auto options = Rig::defaults();
  options.manual_acks = false;
  Rig automatic(options);
  automatic.connect();
  automatic.from_master(status(1, "a", TaskState::kExited));
  automatic.turn();
  EXPECT_EQ(automatic.messages<StatusAck>().size(), 1u);
}

// --- views -----------------------------------------------------------------------------------------------------------

TEST(ClientViews, AgentsComeAsOneSnapshotThenDeltasAndAGapAsksAnew) {
  Rig r;
  r.connect();
  AgentFacts h1, h2;
  h1.agent = AgentId("h1");
  h2.agent = AgentId("h2");
  r.from_master(AgentsUpdate{Version(4), true, true, {h1}});
  EXPECT_TRUE(r.up.empty());
  r.from_master(AgentsUpdate{Version(4), true, false, {h2}});
  ASSERT_EQ(r.events<AgentsChanged>().size(), 1u);
  EXPECT_TRUE(r.events<AgentsChanged>()[0].snapshot);
  EXPECT_EQ(r.events<AgentsChanged>()[0].agents.size(), 2u);
  r.from_master(AgentsUpdate{Version(5), false, false, {h1}});
  EXPECT_EQ(r.events<AgentsChanged>().size(), 2u);
  r.from_master(AgentsUpdate{Version(7), false, false, {h1}});
  EXPECT_EQ(r.events<AgentsChanged>().size(), 2u);
  EXPECT_EQ(r.messages<FrameworkHello>().size(), 1u);
}

TEST(ClientViews, ExplainIsAskedAgainAfterAReconnectAndAnsweredOnce) {
  Rig r;
  r.start();
  r.say(Explain{3, 1});
  r.welcome();
  ASSERT_EQ(r.messages<ExplainQuery>().size(), 1u);
  ExplainReply answer;
  answer.tag = 3;
  r.from_master(answer);
  r.from_master(answer);
  EXPECT_EQ(r.events<Explained>().size(), 1u);
}

TEST(ClientNumbers, OfSlicesAndGangsAreNewInEachLife) {
  Rig a, b;
  a.start(5);
  b.start(6);
  const auto first = a.client.make_slice_number();
  EXPECT_EQ(first, (std::uint64_t{5} << 24) + 1);
  EXPECT_EQ(a.client.make_slice_number(), first + 1);
  EXPECT_NE(b.client.make_slice_number(), first);
  EXPECT_NE(a.client.make_gang(), b.client.make_gang());
}

// Soak in small: random loss, repetition and reconnects between a client and a model of one agent's stream. Every status must
// come up exactly once and in order. The first message of a resend is not lost here: a client that meets a stream in its middle
// has nothing else to tell it where that begins.
TEST(ClientStatus, ExactlyOnceUnderRandomLossAndRepetition) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    std::uint64_t state = seed * 0x9e37'79b9'7f4a'7c15;
    auto random = [&state](std::uint64_t n) {
      state ^= state << 13, state ^= state >> 7, state ^= state << 17;
      return state % n;
    };
    Rig r;
    r.connect();
    constexpr std::uint64_t kLast = 200;
    std::uint64_t made = 0, acked = 0;
    for (int round = 0; round < 5'000 && acked < kLast; ++round) {
      if (made < kLast && random(2)) ++made;
      const std::uint64_t from = acked + 1 + (made > acked ? random(made - acked) : 0);
      for (std::uint64_t s = random(4) ? from : acked + 1; s <= made; ++s)
        if (s == acked + 1 || random(10) != 0) r.from_master(status(s, "t" + std::to_string(s), TaskState::kExited));
      if (const auto updates = r.events<TaskUpdate>(); !updates.empty() && random(3) == 0)
        r.say(ack(updates.back().sequence.value));
      if (random(20) == 0) {
        r.event(PeerLost{kMasterPeer});
        r.pass(seconds(6));
        r.welcome();
      }
      r.pass(milliseconds(10));
      for (const auto& a : r.messages<StatusAck>())
        if (random(10) != 0) acked = std::max(acked, a.through.value);
      r.sent.clear();
    }
    const auto updates = r.events<TaskUpdate>();
    ASSERT_EQ(updates.size(), kLast) << "seed " << seed;
    for (std::size_t i = 0; i < updates.size(); ++i) ASSERT_EQ(updates[i].sequence, Sequence(i + 1)) << "seed " << seed;
  }
}

}  // namespace
}  // namespace bourse::test
