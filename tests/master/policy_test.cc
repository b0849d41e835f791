// The master and its policy: a reload swaps it between two events, who would starve has an agent kept for him, and a policy that
// scores chooses the agent.
#include "operated.h"

namespace bourse::test {
namespace {

constexpr std::uint64_t kH1 = 11, kH2 = 12, kA = 21, kB = 22;

MasterOptions with(const std::string& spec) {
  MasterOptions options;
  options.policy = *policy::Catalog().find(spec);
  return options;
}

// Framework a holds all of h1, and both want what h2 brings. Who gets it?
std::string served(Rig& rig, const std::string& reload) {
  rig.framework(kA, "a");
  rig.framework(kB, "b");
  rig.demand(kA, {line(1, shape(4, 4), 1)});
  rig.agent(kH1, "h1", amount(4, 4));
  rig.pass();
  const Offer first = rig.offers(kA).at(0);
  rig.say(kA, Rig::accept(1, first, 900, shape(4, 4)));
  rig.demand(kA, {line(1, shape(4, 4), 1)}, 1);
  rig.demand(kB, {line(1, shape(4, 4), 1)});
  rig.pass();
  if (!reload.empty()) rig.step(Reload{reload});
  rig.pass();
  rig.agent(kH2, "h2", amount(4, 4));
  rig.pass();
  return std::string(rig.offers(kA).empty() ? "" : "a") + (rig.offers(kB).empty() ? "" : "b");
}

TEST(MasterPolicy, AReloadChangesWhoIsServed) {
  Rig drf, fifo(with("fifo")), reloaded, refused;
  EXPECT_EQ(served(drf, ""), "b");  // it holds nothing
  EXPECT_EQ(served(fifo, ""), "a");
  EXPECT_EQ(served(reloaded, "policy=fifo"), "a");
  EXPECT_EQ(served(refused, "policy=no-such-thing"), "b");
  EXPECT_TRUE(std::any_of(refused.logs.begin(), refused.logs.end(),
                          [](const std::string& l) { return l.find("policy_refused") != std::string::npos; }));
}

TEST(MasterPolicy, AReloadEndsNoOffer) {
  Rig rig;
  rig.framework(kA, "a");
  rig.demand(kA, {line(1, shape(1, 1), 4)});
  rig.agent(kH1, "h1", amount(4, 4));
  rig.pass();
  const auto offers = rig.offers(kA);
  ASSERT_EQ(offers.size(), 1U);
  for (const char* spec : {"policy=hybrid", "policy=fgd", "policy=hdrf", "policy=binpack", "policy=drf"}) rig.step(Reload{spec});
  rig.pass();
  EXPECT_TRUE(rig.ended(kA).empty());
  rig.say(kA, Rig::accept(1, offers[0], 900, shape(1, 1), 4));
  EXPECT_EQ(rig.take<AcceptReply>(kA).at(0).items.at(0).code, Code::kOk);
}

TEST(MasterPolicy, AnAgentIsKeptForWhoWouldStarve) {
  for (const bool reserves : {true, false}) {
    Rig rig(with(reserves ? "drf:reserve=8s" : "drf:reserve=off"));
    rig.framework(kA, "small");
    rig.framework(kB, "big");
    rig.demand(kA, {line(1, shape(1, 1), 1000)});
    rig.agent(kH1, "h1", amount(4, 4));
    rig.pass();
    rig.say(kA, Rig::accept(1, rig.offers(kA).at(0), 900, shape(1, 1), 4));
    rig.demand(kB, {line(1, shape(4, 4), 1)});
    rig.pass();
    // One unit after the other ends; small takes each again as soon as it is offered.
    std::uint64_t sequence = 1, next = 904;
    std::vector<std::uint64_t> running = {900, 901, 902, 903};
    bool big = false;
    for (int i = 0; i < 40 && !big && !running.empty(); ++i) {
      rig.say(kH1, SliceGone{AgentId("h1"), {FrameworkId("small"), running.front()}, SliceEnd::kReleased, ""});
      running.erase(running.begin());
      rig.run(seconds(2));
      rig.say(kH1, Heartbeat{});
      rig.say(kA, Heartbeat{});
      rig.say(kB, Heartbeat{});
      for (const Offer& offer : rig.offers(kA)) {
        const auto units = static_cast<std::uint32_t>(offer.resources.cpus.value / 1000);
        rig.say(kA, Rig::accept(++sequence, offer, next, shape(1, 1), units));
        for (std::uint32_t u = 0; u < units; ++u) running.push_back(next++);
      }
      for (const Offer& offer : rig.offers(kB)) big = big || offer.resources.cpus.value == 4000;
    }
    EXPECT_EQ(big, reserves);
  }
}

TEST(MasterPolicy, APolicyThatScoresChoosesTheAgent) {
  for (const std::string rule : {"best", "worst"}) {
    Rig rig(with("binpack:rule=" + rule));
    rig.framework(kA, "a");
    rig.agent(kH1, "h1", amount(8, 8));
    rig.demand(kA, {line(1, shape(6, 6), 1)});
    rig.pass();
    rig.say(kA, Rig::accept(1, rig.offers(kA).at(0), 900, shape(6, 6)));
    rig.demand(kA, {}, 1);
    rig.agent(kH2, "h2", amount(8, 8));
    rig.pass();
    rig.demand(kA, {line(2, shape(1, 1), 1)}, 1);
    rig.pass();
    const auto offers = rig.offers(kA);
    ASSERT_EQ(offers.size(), 1U);
    EXPECT_EQ(offers[0].agent, AgentId(rule == "best" ? "h1" : "h2"));
  }
}

// By hand: 16 cores, one by one, to who has the least share for his weight. org weighs 3, other 1: 12 and 4. Within org, a and b are
// equals: 6 each. Flat, all three would weigh 1.
TEST(MasterPolicy, AWeightOfAnInnerRoleCountsForAllBelowIt) {
  Operated rig(with("hdrf"));
  rig.join(kA, "a", "org/a");
  rig.join(kB, "b", "org/b");
  rig.join(kB + 1, "c", "other");
  rig.ok("set-role", "org", {{"weight", "3"}});
  for (const std::uint64_t peer : {kA, kB, kB + 1}) rig.demand(peer, {line(1, shape(1, 1), 100)});
  rig.pass();
  for (std::uint64_t i = 1; i <= 16; ++i) rig.agent(100 + i, "h" + std::to_string(i), amount(1, 1));
  rig.pass();
  EXPECT_EQ(rig.offered_cpus(kA), 6);
  EXPECT_EQ(rig.offered_cpus(kB), 6);
  EXPECT_EQ(rig.offered_cpus(kB + 1), 4);
  // The account of the tree goes when the last of it has gone, and comes again.
  for (const std::uint64_t peer : {kA, kB}) rig.say(peer, Goodbye{true});
  rig.join(kA, "a", "org/a");
  rig.demand(kA, {line(1, shape(1, 1), 100)});
  rig.pass();
  EXPECT_EQ(rig.offered_cpus(kA), 12);
}

// A framework wants much, and an agent has room for one slice of it: it has one after the other, for `span`.
void work(Rig& rig, Duration span) {
  rig.framework(kA, "a");
  rig.demand(kA, {line(1, shape(1, 1), 1000)});
  rig.agent(kH1, "h1", amount(1, 1));
  std::uint64_t sequence = 0, slice = 900;
  const Duration until = rig.now + span;
  while (rig.now < until) {
    for (const std::uint64_t peer : {kH1, kA}) rig.say(peer, Heartbeat{});
    rig.pass();
    const auto offers = rig.offers(kA);
    ASSERT_EQ(offers.size(), 1U);
    rig.say(kA, Rig::accept(++sequence, offers[0], ++slice, shape(1, 1)));
    rig.run(seconds(2));
    rig.say(kH1, SliceGone{AgentId("h1"), {FrameworkId("a"), slice}, SliceEnd::kReleased, ""});
  }
}
std::string learnt_of(const std::string& registry) {
  const std::size_t at = registry.find("qlearn\n");
  return at == std::string::npos ? "" : registry.substr(at);
}
std::size_t said(const Rig& rig, const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(rig.logs.begin(), rig.logs.end(), [&](const std::string& l) { return l.find(text) != std::string::npos; }));
}

TEST(MasterPolicy, WhatWasLearntOutlivesTheLeader) {
  Rig rig(with("qlearn:window=10s"));
  work(rig, std::chrono::minutes(6));
  // It was told of slices: windows were judged, and what came of that is in the registry.
  EXPECT_GT(said(rig, " judged: "), 3U);
  const std::string learnt = learnt_of(rig.master->registry());
  ASSERT_NE(learnt, "");
  EXPECT_EQ(said(rig, "event=policy_learnt "), 0U);
  rig.start();  // the next one
  EXPECT_EQ(said(rig, "event=policy_learnt "), 1U);
  rig.run(std::chrono::minutes(6));
  EXPECT_EQ(learnt_of(rig.master->registry()), learnt) << "nothing happened, nothing is written";
  // Another policy leaves it alone, and the same one takes it again.
  rig.step(Reload{"policy=drf"});
  rig.step(Reload{"policy=qlearn:window=10s"});
  EXPECT_EQ(said(rig, "event=policy_learnt "), 2U);
  // Of other arms: refused, said so, and led on.
  rig.options = with("qlearn:window=10s,arms=drf+hybrid-0.5");
  rig.start();
  EXPECT_EQ(said(rig, "event=policy_learnt_refused"), 1U);
}

}  // namespace
}  // namespace bourse::test
