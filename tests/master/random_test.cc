// Random event sequences with an agent model beside the master; explain against brute force; fairness arithmetic.
#include <set>

#include "rig.h"

namespace bourse::test {
namespace {

// Agents that answer as real ones do, but carry out nothing; messages to and from them may be delayed or lost with their
// connection. Frameworks that accept, decline, ignore, ask again and leave.
struct Swarm : Rig {
  struct AgentModel {
    std::string name;
    std::uint64_t peer = 0, life = 1;
    Resources total;
    std::map<SliceId, AgentHello::Slice> slices;
    bool up = false;
  };
  struct FrameworkModel {
    std::string name;
    std::uint64_t peer = 0, life = 1, sequence = 0, number = 0, gang = 0;
    std::map<std::uint64_t, Offer> offers;
    std::set<SliceId> slices;
    bool up = false;
  };
  Rng rng;
  std::uint64_t next_peer = 100;
  std::uint64_t carves = 0, holds = 0, commits = 0;
  std::vector<AgentModel> agents;
  std::vector<FrameworkModel> frameworks;

  explicit Swarm(std::uint64_t seed) : Rig(options_for(seed)), rng(seed) {
    for (int i = 0; i < 4; ++i) {
      AgentModel a;
      a.name = "h" + std::to_string(i);
      a.total = amount(rng.between(1, 8), rng.between(1, 16));
      agents.push_back(a);
    }
    for (int i = 0; i < 3; ++i) {
      FrameworkModel f;
      f.name = "f" + std::to_string(i);
      frameworks.push_back(f);
    }
  }
  static MasterOptions options_for(std::uint64_t seed) {
    MasterOptions o;
    o.offer_ttl = seconds(seed % 2 == 0 ? 2 : 10);
    o.offers_per_framework_max = seed % 3 == 0 ? 2 : 1000;
    return o;
  }
  void hello(AgentModel& a) {
    AgentHello h = agent_hello(a.name, a.total, a.life);
    for (const auto& [id, slice] : a.slices) h.slices.push_back(slice);
    a.up = true;
    say(a.peer, h);
  }
  void hello(FrameworkModel& f) {
    f.up = true;
    f.offers.clear();
    framework(f.peer, f.name, f.life, seconds(60), {f.slices.begin(), f.slices.end()}, rng.chance(300));
  }
  void deliver() {
    for (int round = 0; round < 20 && !sent.empty(); ++round) {
      auto batch = std::move(sent);
      sent.clear();
      for (auto& [to, message] : batch) {
        for (AgentModel& a : agents) {
          if (a.up && a.peer == to.value) to_agent(a, message);
        }
        for (FrameworkModel& f : frameworks) {
          if (f.up && f.peer == to.value) to_framework(f, message);
        }
      }
    }
  }
  void to_agent(AgentModel& a, const Message& message) {
    if (const auto* carve = std::get_if<CarveSlices>(&message.body)) {
      const bool fail = rng.chance(50);
      for (const SliceSpec& spec : carve->slices) {
        if (!fail) a.slices[spec.id] = {spec, carve->hold, {}};
        ++(carve->hold ? holds : carves);
      }
      if (carve->hold) {
        if (rng.chance(900))
          say(a.peer, GangHeld{carve->slices[0].id.framework, carve->slices[0].gang, fail ? Code::kBusy : Code::kOk, ""});
      } else {
        for (const SliceSpec& spec : carve->slices) {
          if (fail) {
            say(a.peer, SliceGone{AgentId(a.name), spec.id, SliceEnd::kCarveFailed, "no"});
          } else {
            say(a.peer, SliceUp{AgentId(a.name), spec});
          }
        }
      }
    } else if (const auto* commit = std::get_if<CommitGang>(&message.body)) {
      ++commits;
      for (auto& [id, slice] : a.slices) {
        if (id.framework != commit->framework || slice.spec.gang != commit->gang || !slice.held) continue;
        slice.held = false;
        say(a.peer, SliceUp{AgentId(a.name), slice.spec});
      }
    } else if (const auto* abort = std::get_if<AbortGang>(&message.body)) {
      std::erase_if(a.slices, [&](const auto& item) {
        return item.first.framework == abort->framework && item.second.spec.gang == abort->gang && item.second.held;
      });
    } else if (const auto* release = std::get_if<ReleaseSlices>(&message.body)) {
      for (const SliceId& id : release->slices) {
        const bool had = a.slices.erase(id) > 0;
        say(a.peer, SliceGone{AgentId(a.name), id, had ? SliceEnd::kReleased : SliceEnd::kUnknown, ""});
      }
    } else if (const auto* welcome = std::get_if<Welcome>(&message.body)) {
      for (const SliceId& id : welcome->release) {
        a.slices.erase(id);
        say(a.peer, SliceGone{AgentId(a.name), id, SliceEnd::kReleased, ""});
      }
    } else if (std::holds_alternative<Refused>(message.body)) {
      a.up = false;
    }
  }
  static void to_framework(FrameworkModel& f, const Message& message) {
    if (const auto* made = std::get_if<Offers>(&message.body)) {
      for (const Offer& offer : made->offers) f.offers[offer.id.value] = offer;
    } else if (const auto* ended = std::get_if<OffersEnded>(&message.body)) {
      for (const auto& item : ended->items) EXPECT_LE(f.offers.erase(item.offer.value), 1U);
    } else if (const auto* up = std::get_if<SliceUp>(&message.body)) {
      f.slices.insert(up->spec.id);
    } else if (const auto* gone = std::get_if<SliceGone>(&message.body)) {
      f.slices.erase(gone->slice);
    } else if (std::holds_alternative<Refused>(message.body)) {
      f.up = false;
    }
  }
  AgentModel& any_agent() { return agents[rng.below(agents.size())]; }
  FrameworkModel& any_framework() { return frameworks[rng.below(frameworks.size())]; }

  void something() {
    for (AgentModel& a : agents) {
      if (a.up || !rng.chance(250)) continue;
      a.peer = ++next_peer;
      hello(a);
    }
    for (FrameworkModel& f : frameworks) {
      if (f.up || !rng.chance(250)) continue;
      f.peer = ++next_peer;
      hello(f);
    }
    const std::uint64_t what = rng.below(100);
    if (what < 8) {
      AgentModel& a = any_agent();
      if (rng.chance(500) || a.peer == 0) a.peer = ++next_peer;
      if (rng.chance(200)) ++a.life;
      if (rng.chance(100)) a.slices.clear();
      hello(a);
    } else if (what < 12) {
      FrameworkModel& f = any_framework();
      f.peer = ++next_peer;
      if (rng.chance(300)) {
        ++f.life;
        f.sequence = 0;
      }
      hello(f);
    } else if (what < 14) {
      step(PeerLost{PeerId(rng.chance(500) ? any_agent().peer : any_framework().peer)});
    } else if (what < 30) {
      FrameworkModel& f = any_framework();
      std::vector<DemandLine> lines;
      for (std::uint64_t i = rng.below(4); i > 0; --i) {
        Shape s = shape(rng.between(0, 3), rng.between(0, 4));
        s.whole_host = rng.chance(50);
        const auto count = static_cast<std::uint32_t>(rng.below(5));
        lines.push_back(line(i, s, count, rng.chance(300) ? count : 0));
      }
      if (f.up) demand(f.peer, lines, f.sequence, rng.chance(50));
      if (rng.chance(800)) pass();
    } else if (what < 50) {
      FrameworkModel& f = any_framework();
      if (!f.up || f.offers.empty()) return;
      Accept a;
      a.sequence = Sequence(rng.chance(900) ? ++f.sequence : f.sequence);
      a.all_or_nothing = rng.chance(200);
      if (rng.chance(300)) a.gang = GangId(++f.gang);
      while (!f.offers.empty() && rng.chance(700)) {
        const Offer offer = f.offers.begin()->second;
        const Shape s = rng.chance(800) ? shape(std::max<std::int64_t>(1, offer.resources.cpus.value / 2000), 0) : shape(100, 1);
        add_item(a, offer, (f.life << 24) + f.number + 1, s, 1, offer.line);
        ++f.number;
        a.items.back().keep_rest = rng.chance(300);
        if (!a.items.back().keep_rest) f.offers.erase(offer.id.value);
        if (a.items.back().keep_rest) break;
      }
      say(f.peer, a);
    } else if (what < 58) {
      FrameworkModel& f = any_framework();
      if (!f.up || f.offers.empty()) return;
      Decline d;
      d.items.push_back({f.offers.begin()->second.id, DeclineReason::kOther, "", seconds(rng.below(20))});
      f.offers.erase(f.offers.begin());
      say(f.peer, d);
    } else if (what < 66) {
      FrameworkModel& f = any_framework();
      if (f.up && !f.slices.empty()) say(f.peer, ReleaseSlices{{*f.slices.begin()}, seconds(1)});
    } else if (what < 69) {
      AgentModel& a = any_agent();
      if (!a.up || a.slices.empty()) return;
      const SliceId id = a.slices.begin()->first;
      a.slices.erase(id);
      say(a.peer, SliceGone{AgentId(a.name), id, SliceEnd::kIdle, ""});
    } else if (what < 73) {
      AgentModel& a = any_agent();
      a.total = amount(rng.between(0, 8), rng.between(1, 16));
      Inventory inventory;
      inventory.total = a.total;
      if (a.up) say(a.peer, InventoryUpdate{inventory});
    } else if (what < 75) {
      FrameworkModel& f = any_framework();
      if (f.up) say(f.peer, Goodbye{rng.chance(300)});
      f.up = false;
    } else if (what < 76) {
      start();
      for (AgentModel& a : agents) a.up = false;
      for (FrameworkModel& f : frameworks) f.up = false;
    } else if (what < 77) {
      say(1, ReaderHello{kProtocolVersion, "op"});
      static const char* actions[] = {"cordon", "uncordon", "remove-agent", "remove-framework"};
      const std::string action = actions[rng.below(rng.chance(700) ? 2 : 4)];
      say(1, OperatorAction{1, action, action == "remove-framework" ? any_framework().name : any_agent().name, "test"});
    } else {
      run(milliseconds(static_cast<std::int64_t>(rng.below(rng.chance(50) ? 40'000 : rng.chance(300) ? 3'000 : 20))));
      for (AgentModel& a : agents) {
        if (a.up && rng.chance(900)) say(a.peer, Heartbeat{});
      }
      for (FrameworkModel& f : frameworks) {
        if (f.up && rng.chance(900)) say(f.peer, Heartbeat{});
      }
    }
    if (rng.chance(900)) deliver();
  }

  // With everybody back and quiet, what the master leases is what the agents have.
  void settle() {
    for (AgentModel& a : agents) {
      a.peer = ++next_peer;
      ++a.life;
      hello(a);
    }
    for (int i = 0; i < 12; ++i) {
      deliver();
      run(seconds(4));
      for (AgentModel& a : agents) say(a.peer, Heartbeat{});
    }
    deliver();
    for (AgentModel& a : agents) {
      // A hold that nobody commits lapses on the agent by itself.
      std::vector<SliceId> lapsed;
      for (const auto& [id, slice] : a.slices) {
        if (slice.held) lapsed.push_back(id);
      }
      for (const SliceId& id : lapsed) {
        a.slices.erase(id);
        say(a.peer, SliceGone{AgentId(a.name), id, SliceEnd::kGangAborted, "lapsed"});
      }
    }
    deliver();
    for (AgentModel& a : agents) {
      Resources sum;
      for (const auto& [id, slice] : a.slices) {
        if (slice.held) continue;
        ASSERT_TRUE(sum.add(slice.spec.resources));
      }
      const Master::Account account = this->account(a.name);
      EXPECT_EQ(account.leased.cpus, sum.cpus) << a.name;
      EXPECT_EQ(account.leased.mem, sum.mem) << a.name;
      EXPECT_EQ(account.held.cpus.value, 0) << a.name;
      EXPECT_EQ(account.offered.cpus.value, 0) << a.name;  // the frameworks have been silent for longer than the timeout
      EXPECT_EQ(account.offered.mem.value, 0) << a.name;
    }
  }
};

TEST(Random, TheLedgerBalancesAfterEveryEventAndAgreesWithTheAgentsInTheEnd) {
  std::uint64_t carves = 0, holds = 0, commits = 0;
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Swarm swarm(seed);
    for (int i = 0; i < 90; ++i) swarm.something();
    swarm.settle();
    if (HasFailure()) return;
    carves += swarm.carves, holds += swarm.holds, commits += swarm.commits;
  }
  // The sequences must reach what they are for.
  EXPECT_GT(carves, 500U);
  EXPECT_GT(holds, 500U);
  EXPECT_GT(commits, 100U);
}

TEST(Random, NoMessageOfAnyKindFromAnySideEndsTheMaster) {
  Swarm swarm(7);
  for (int i = 0; i < 200; ++i) swarm.something();
  const Body bodies[] = {Welcome{},       Refused{},        Heartbeat{},     InventoryUpdate{}, Goodbye{},        Demand{},
                         Offers{},        OffersEnded{},    Accept{},        AcceptReply{},     Decline{},        CarveSlices{},
                         CommitGang{},    AbortGang{},      GangHeld{},      SliceUp{},         SliceGone{},      ReleaseSlices{},
                         SliceRevoking{}, Launch{},         Kill{},          StatusUpdate{},    StatusAck{},      Reconcile{},
                         DeclareLost{},   LaunchRefused{},  AgentsUpdate{},  ExplainQuery{},    ExplainReply{},   StatusQuery{},
                         StatusReply{},   OperatorAction{}, OperatorReply{}, AgentHello{},      FrameworkHello{}, ReaderHello{}};
  for (const Body& body : bodies) {
    for (const std::uint64_t peer : {swarm.agents[0].peer, swarm.frameworks[0].peer, std::uint64_t{1}, std::uint64_t{99'999}})
      swarm.say(peer, body);
  }
  SUCCEED();
}

TEST(Explain, EqualsBruteForceAndAddsUpToAllAgents) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    Rig rig;
    rig.framework(21, "me");
    rig.framework(22, "other");
    std::map<std::string, Labels> labels;
    for (std::uint64_t i = 0; i < 12; ++i) {
      const std::string name = "h" + std::to_string(i);
      AgentHello hello = Rig::agent_hello(name, amount(rng.between(1, 6), rng.between(1, 6)));
      if (rng.chance(700)) hello.inventory.labels["ssd"] = "";
      rig.say(100 + i, hello);
      labels[name] = hello.inventory.labels;
    }
    rig.demand(22, {line(1, shape(2, 2), static_cast<std::uint32_t>(rng.below(6)))});
    rig.pass();
    const auto others = rig.offers(22);
    for (std::size_t i = 0; i < others.size() / 2; ++i) { rig.say(22, Rig::accept(i + 1, others[i], 500 + i, shape(2, 2))); }
    Shape s = shape(rng.between(1, 4), rng.between(1, 4));
    if (rng.chance(500)) s.constraints = *parse_constraints(rng.chance(500) ? "ssd" : "agent.cpus>=3&(ssd|agent.mem<=4GiB)");
    rig.demand(21, {line(9, s, static_cast<std::uint32_t>(1 + rng.below(20)))});
    rig.say(100, Goodbye{});
    rig.say(1, ReaderHello{kProtocolVersion, "op"});
    rig.say(1, OperatorAction{1, "cordon", "h1", "x"});
    rig.pass();
    std::set<std::string> mine;
    for (const Offer& offer : rig.offers(21)) mine.insert(offer.agent.str());
    rig.say(1, ExplainQuery{77, FrameworkId("me"), 9});
    const ExplainReply reply = rig.take<ExplainReply>(1).at(0);

    std::map<std::string, std::uint32_t> expected, failing;
    for (const auto& [name, agent_labels] : labels) {
      const Master::Account a = rig.account(name);
      Resources with_offered = a.free;
      ASSERT_TRUE(with_offered.add(a.offered));
      const Misfit never = fits(s, a.total, a.total, agent_labels);
      const bool fits_free = fits(s, a.free, a.total, agent_labels) == Misfit::kNone;
      const bool fits_offered = fits(s, with_offered, a.total, agent_labels) == Misfit::kNone;
      const std::string reason = name == "h0"             ? "unreachable"
                                 : name == "h1"           ? "cordoned"
                                 : never != Misfit::kNone ? std::string(misfit_text(never))
                                 : mine.contains(name)    ? "offered to you"
                                 : fits_free              ? "free"
                                 : fits_offered           ? "offered to other"
                                                          : "in use";
      ++expected[reason];
      if (reason != "labels") continue;
      const bool ssd = agent_labels.count("ssd") != 0, plain = to_text(s.constraints) == "ssd";
      ++failing[plain ? "ssd" : a.total.cpus.value < 3000 ? "agent.cpus>=3" : "ssd|agent.mem<=4GiB"];
      EXPECT_TRUE(plain || a.total.cpus.value < 3000 || (!ssd && a.total.mem.value > 4LL << 30)) << name;
    }
    std::map<std::string, std::uint32_t> parts;
    for (const auto& part : reply.failing) parts[part.reason] = part.agents;
    EXPECT_EQ(parts, failing);
    std::uint32_t sum = 0;
    std::map<std::string, std::uint32_t> counts;
    for (const auto& count : reply.counts) {
      sum += count.agents;
      counts[count.reason] = count.agents;
    }
    EXPECT_EQ(sum, 12U);
    EXPECT_EQ(reply.agents, 12U);
    EXPECT_EQ(counts, expected);
    EXPECT_EQ(reply.tag, 77U);
  }
}

TEST(Explain, NamesTheReasonOfEachClass) {
  Rig rig;
  rig.framework(21, "me");
  rig.framework(22, "other");
  rig.agent(101, "small", amount(1, 1));
  rig.agent(102, "lean", amount(8, 1));
  AgentHello tagged = Rig::agent_hello("tagged", amount(4, 4));
  tagged.inventory.labels["ssd"] = "";
  rig.say(103, tagged);
  AgentHello taken = Rig::agent_hello("taken", amount(4, 4));
  taken.inventory.labels["ssd"] = "";
  rig.demand(22, {}, 0, /*wildcard=*/true);
  rig.pass();
  Decline decline;
  for (const Offer& offer : rig.offers(22)) decline.items.push_back({offer.id, DeclineReason::kOther, "", std::chrono::hours(1)});
  rig.say(22, decline);
  rig.say(104, taken);
  rig.pass();
  EXPECT_EQ(rig.offers(22).size(), 1U);
  Shape s = shape(4, 4);
  s.constraints = {{"ssd", Constraint::Op::kPresent, {}}};
  rig.demand(21, {line(1, s, 5)});
  rig.pass();
  const Offer mine = rig.offers(21).at(0);
  EXPECT_EQ(mine.agent, AgentId("tagged"));
  rig.say(21, ExplainQuery{1, FrameworkId("me"), 1});
  const ExplainReply reply = rig.take<ExplainReply>(21).at(0);
  std::map<std::string, std::uint32_t> counts;
  for (const auto& count : reply.counts) counts[count.reason] = count.agents;
  EXPECT_EQ(counts, (std::map<std::string, std::uint32_t>{{"labels", 2}, {"offered to other", 1}, {"offered to you", 1}}));
  EXPECT_EQ(reply.nearest, "needs 4 more cores and 4GiB more memory on tagged") << "it is in use, by the offer to itself";
  EXPECT_EQ(reply.asks, "cpus=4;mem=4GiB;if=ssd");
  EXPECT_EQ(std::tuple(reply.wanted, reply.offered, reply.unmet), std::tuple(5U, 1U, 4U));
  EXPECT_NE(reply.last_offer.find("tagged"), std::string::npos);
  rig.say(21, Rig::accept(1, mine, 900, s));
  rig.say(21, ExplainQuery{2, FrameworkId("me"), 1});
  counts.clear();
  const ExplainReply later = rig.take<ExplainReply>(21).at(0);
  for (const auto& count : later.counts) counts[count.reason] = count.agents;
  EXPECT_EQ(counts["yours already"], 1U);
  rig.say(21, ExplainQuery{3, FrameworkId("me"), 4711});
  EXPECT_EQ(rig.take<ExplainReply>(21).at(0).code, Code::kNotFound);
}

}  // namespace
}  // namespace bourse::test
