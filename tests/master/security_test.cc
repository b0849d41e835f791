// Who may do what, and what becomes of those who may not.
#include <gtest/gtest.h>

#include "tests/master/rig.h"

namespace bourse::test {
namespace {

constexpr std::uint64_t kA1 = 11, kA2 = 12, kF = 21, kG = 22, kR = 31;

MasterOptions keyed() {
  MasterOptions options;
  return options;
}

struct Keyed : Rig {
  Keyed() : Rig(keyed()) {
    options.trust_identities = true;
    start();
  }
  FrameworkHello hello(const std::string& name, const std::string& role) {
    FrameworkHello h;
    h.framework = FrameworkId(name);
    h.role = RoleName(role);
    h.incarnation = Incarnation(1);
    return h;
  }
  std::size_t lines(const std::string& what) const {
    return static_cast<std::size_t>(
        std::count_if(logs.begin(), logs.end(), [&](const std::string& l) { return l.find(what) != std::string::npos; }));
  }
};

TEST(Keys, AFrameworkActsForTheRolesOfItsKeyAndThoseBelowThem) {
  const std::vector<std::pair<std::string, bool>> cases = {
      {"physics", true}, {"physics/lattice", true}, {"chemistry", true},         {"physics2", false},
      {"phys", false},   {"biology", false},        {"chemistry/solid/a", true}, {"", false}};
  for (const auto& [role, may] : cases) {
    Keyed h;
    h.say_as(kF, h.hello("lattice", role), "framework:lattice", "10.0.0.7", "physics,chemistry");
    EXPECT_EQ(h.take<Welcome>(kF).size(), may ? 1U : 0U) << role;
    const auto refused = h.take<Refused>(kF);
    ASSERT_EQ(refused.size(), may ? 0U : 1U) << role;
    if (may) continue;
    EXPECT_EQ(refused[0].code, Code::kDenied);
    EXPECT_NE(refused[0].reason.find("physics,chemistry"), std::string::npos) << refused[0].reason;
    EXPECT_EQ(h.lines("10.0.0.7"), 1U) << "where it came from is logged";
  }
}

TEST(Keys, AKeyWithoutRolesActsForAny) {
  Keyed h;
  h.say_as(kF, h.hello("lattice", "anything"), "framework:lattice", "10.0.0.7");
  EXPECT_EQ(h.take<Welcome>(kF).size(), 1U);
}

TEST(Keys, AnAgentOfAnotherNameIsRefusedAndTheRealOneStays) {
  Keyed h;
  h.say_as(kA1, Rig::agent_hello("h1", amount(8, 16)), "agent:h1", "10.0.0.1");
  ASSERT_EQ(h.take<Welcome>(kA1).size(), 1U);
  h.say_as(kA2, Rig::agent_hello("h1", amount(800, 1600), 99), "agent:h2", "10.0.0.2");
  const auto refused = h.take<Refused>(kA2);
  ASSERT_EQ(refused.size(), 1U);
  EXPECT_EQ(refused[0].code, Code::kDenied);
  EXPECT_EQ(h.account("h1").total.cpus.value, 8000);
  h.say(kA1, Heartbeat{}, "agent:h1");
  EXPECT_TRUE(h.take<Refused>(kA1).empty()) << "its session is as it was";
}

TEST(Keys, AReaderMayNotOperate) {
  Keyed h;
  h.say_as(kR, ReaderHello{kProtocolVersion, "eve"}, "reader:eve", "10.0.0.9");
  ASSERT_EQ(h.take<Welcome>(kR).size(), 1U);
  h.say(kR, OperatorAction{1, "set-role", "physics", "", {{"weight", "9"}}}, "reader:eve");
  const auto refused = h.take<Refused>(kR);
  ASSERT_EQ(refused.size(), 1U);
  EXPECT_EQ(refused[0].code, Code::kDenied);
  EXPECT_EQ(h.lines("identity=reader:eve from=10.0.0.9"), 1U) << "who, and from where";
}

TEST(Keys, AnOperatorsLineSaysWhoWhatAndFromWhere) {
  Keyed h;
  h.say_as(kR, ReaderHello{kProtocolVersion, "alice"}, "operator:alice", "10.0.0.5");
  h.say(kR, OperatorAction{1, "set-role", "physics", "why not", {{"weight", "9"}}}, "operator:alice");
  EXPECT_EQ(h.lines("operator=operator:alice from=10.0.0.5 action=set-role target=physics"), 1U);
}

TEST(Revocation, EndsTheSessionAtOnce) {
  Keyed h;
  h.say_as(kA1, Rig::agent_hello("h1", amount(8, 16)), "agent:h1", "10.0.0.1");
  h.say_as(kF, h.hello("lattice", "physics"), "framework:lattice", "10.0.0.7");
  h.step(PeerLost{PeerId(kA1), "its key was revoked"});
  EXPECT_FALSE(h.account("h1").reachable) << "nothing waits for its timeout";
  EXPECT_EQ(h.account("h1").free.cpus.value, 0);
  EXPECT_EQ(h.lines("event=peer_cut"), 1U);
  h.say(kA1, InventoryUpdate{}, "agent:h1");
  const auto refused = h.take<Refused>(kA1);
  ASSERT_EQ(refused.size(), 1U) << "a stranger from now on";
  EXPECT_EQ(refused[0].code, Code::kGone);
}

TEST(Revocation, AnAgentThatOnlyLostItsConnectionKeepsItsSession) {
  Keyed h;
  h.say_as(kA1, Rig::agent_hello("h1", amount(8, 16)), "agent:h1", "10.0.0.1");
  h.step(PeerLost{PeerId(kA1)});
  EXPECT_TRUE(h.account("h1").reachable);
}

TEST(Strangers, AreToldToSayHelloNowAndThenOnly) {
  Rig h;
  for (int i = 0; i < 1000; ++i) h.say(kF, Demand{});
  EXPECT_EQ(h.take<Refused>(kF).size(), 1U);
  h.now += milliseconds(250);
  h.say(kF, Demand{});
  EXPECT_EQ(h.take<Refused>(kF).size(), 1U);
}

TEST(Theft, AnOfferIsOfNoUseToAnotherFramework) {
  Rig h;
  h.agent(kA1, "h1", amount(8, 16));
  h.framework(kF, "f");
  h.framework(kG, "g");
  h.demand(kF, {line(1, shape(2, 2), 1)});
  h.pass();
  const auto offers = h.offers(kF);
  ASSERT_EQ(offers.size(), 1U);
  h.take<CarveSlices>(kA1);
  h.say(kG, Rig::accept(1, offers[0], 1, shape(2, 2)));
  const auto reply = h.take<AcceptReply>(kG);
  ASSERT_EQ(reply.size(), 1U);
  ASSERT_EQ(reply[0].items.size(), 1U);
  EXPECT_NE(reply[0].items[0].code, Code::kOk);
  EXPECT_TRUE(h.take<CarveSlices>(kA1).empty());
  EXPECT_EQ(h.account("h1").leased.cpus.value, 0);
  h.say(kF, Rig::accept(1, offers[0], 1, shape(2, 2)));
  const auto own = h.take<AcceptReply>(kF);
  ASSERT_EQ(own.size(), 1U);
  EXPECT_EQ(own[0].items.at(0).code, Code::kOk) << "whose it is still has it";
}

TEST(Theft, ALaunchIntoAnothersSliceIsRefused) {
  Rig h;
  h.agent(kA1, "h1", amount(8, 16));
  h.framework(kF, "f");
  h.framework(kG, "g");
  h.demand(kF, {line(1, shape(2, 2), 1)});
  h.pass();
  h.say(kF, Rig::accept(1, h.offers(kF).at(0), 1, shape(2, 2)));
  h.say(kG, Launch{AgentId("h1"), {FrameworkId("f"), 1}, TaskId("t"), "payload"});
  EXPECT_TRUE(h.take<Launch>(kA1).empty());
  ASSERT_EQ(h.take<LaunchRefused>(kG).size(), 1U);
  h.say(kG, ReleaseSlices{{{FrameworkId("f"), 1}}, Duration{0}});
  EXPECT_TRUE(h.take<ReleaseSlices>(kA1).empty());
  h.say(kG, Kill{AgentId("h1"), FrameworkId("f"), TaskId("t")});
  EXPECT_TRUE(h.take<Kill>(kA1).empty());
}

TEST(Lies, AnAgentThatSaysItHasLessThanIsInUseBreaksNoAccount) {
  Rig h;
  h.agent(kA1, "h1", amount(8, 16));
  h.framework(kF, "f");
  h.demand(kF, {line(1, shape(6, 6), 1)});
  h.pass();
  h.say(kF, Rig::accept(1, h.offers(kF).at(0), 1, shape(6, 6)));
  InventoryUpdate update;
  update.inventory.version = Version(2);
  update.inventory.total = amount(1, 1);
  h.say(kA1, update);  // the rig adds everything up after each step
  EXPECT_EQ(h.account("h1").leased.cpus.value, 6000);
  h.demand(kF, {line(1, shape(1, 1), 5)}, 1);
  h.pass();
  EXPECT_TRUE(h.offers(kF).empty()) << "nothing is offered of what it has not";
}

TEST(Lies, AnAgentThatClaimsSlicesOfAnotherAgentIsToldToDropThem) {
  Rig h;
  h.agent(kA1, "h1", amount(8, 16));
  h.framework(kF, "f");
  h.demand(kF, {line(1, shape(2, 2), 1)});
  h.pass();
  h.say(kF, Rig::accept(1, h.offers(kF).at(0), 1, shape(2, 2)));
  h.take<CarveSlices>(kA1);
  AgentHello liar = Rig::agent_hello("h2", amount(8, 16));
  SliceSpec spec;
  spec.id = {FrameworkId("f"), 1};
  spec.resources = amount(2, 2);
  liar.slices.push_back({spec, false, {}});
  h.say(kA2, liar);
  const auto welcome = h.take<Welcome>(kA2);
  ASSERT_EQ(welcome.size(), 1U);
  EXPECT_EQ(welcome[0].release, (std::vector<SliceId>{spec.id}));
  EXPECT_EQ(h.account("h1").leased.cpus.value, 2000);
  EXPECT_EQ(h.account("h2").leased.cpus.value, 0);
}

}  // namespace
}  // namespace bourse::test
