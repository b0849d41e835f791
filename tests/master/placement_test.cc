// Placement rules: what is offered by spread, pack, affinity and anti-affinity, against recounts of this test's own; what is mended
// first after a zone is lost; and which hosts scarce devices stay free on.
#include <map>
#include <set>

#include "common/core/hooks.h"
#include "tests/master/rig.h"

namespace bourse::test {
namespace {

using Counts = std::map<std::string, std::int64_t>;

// Agents with labels, frameworks that accept all that they are offered at once, and a book of what is where.
struct Town : Rig {
  struct Host {
    std::uint64_t peer = 0;
    AgentHello hello;
    bool up = true, draining = false;
  };
  struct Slice {
    std::string host, framework, group;
    std::uint64_t number = 0;
  };
  std::map<std::string, Host> hosts;
  std::vector<Slice> slices;
  std::map<std::uint64_t, std::string> frameworks;                     // by peer
  std::map<std::uint64_t, std::map<std::uint64_t, DemandLine>> wants;  // by peer and line: what is still to come
  std::map<std::uint64_t, std::uint64_t> accepts;
  std::uint64_t next = 1;

  explicit Town(MasterOptions o = {}) : Rig(std::move(o)) {}

  void host(const std::string& name, std::int64_t cpus, Labels labels, std::vector<DeviceShare> devices = {}) {
    Host h;
    h.peer = 10'000 + hosts.size();
    Resources total = amount(cpus, 64);
    total.devices = std::move(devices);
    h.hello = agent_hello(name, total);
    for (const auto& [key, value] : labels) h.hello.inventory.labels[key] = value;
    hosts[name] = h;
    say(h.peer, h.hello);
  }
  std::uint64_t client(const std::string& name) {
    const std::uint64_t peer = 100 + frameworks.size();
    frameworks[peer] = name;
    framework(peer, name);
    return peer;
  }
  void want(std::uint64_t peer, DemandLine l) {
    wants[peer][l.id] = std::move(l);
    publish(peer);
  }
  void publish(std::uint64_t peer) {
    std::vector<DemandLine> lines;
    for (const auto& [id, l] : wants[peer]) lines.push_back(l);
    demand(peer, lines, accepts[peer]);
  }
  // One pass, and all of its offers accepted. The slices that came.
  std::vector<Slice> round() {
    pass();
    std::vector<Slice> made;
    for (auto& [peer, name] : frameworks) {
      const std::vector<Offer> all = offers(peer);
      if (all.empty()) continue;
      Accept a;
      a.sequence = Sequence(++accepts[peer]);
      for (const Offer& offer : all) {
        DemandLine& l = wants[peer].at(offer.line);
        const auto units = static_cast<std::uint32_t>(offer.resources.cpus.value / l.shape.cpus.value);
        add_item(a, offer, next, l.shape, units, offer.line);
        l.count -= units;
        for (std::uint32_t i = 0; i < units; ++i) made.push_back({offer.agent.str(), name, l.shape.group, next++});
      }
      say(peer, a);
      for (const AcceptReply& reply : take<AcceptReply>(peer))
        for (const auto& item : reply.items) EXPECT_EQ(item.code, Code::kOk) << item.reason;
      publish(peer);
    }
    slices.insert(slices.end(), made.begin(), made.end());
    return made;
  }
  void settle() {
    for (int i = 0; i < 20 && !round().empty(); ++i) {}
  }
  void end(std::size_t i) {
    const Slice s = slices[i];
    slices.erase(slices.begin() + static_cast<std::ptrdiff_t>(i));
    say(hosts.at(s.host).peer, SliceGone{AgentId(s.host), {FrameworkId(s.framework), s.number}, SliceEnd::kReleased, ""});
  }
  void lose(const std::string& name) {
    hosts.at(name).up = false;
    say(hosts.at(name).peer, Goodbye{});
  }
  // Is back, with what it had.
  void comes_back(const std::string& name) {
    Host& h = hosts.at(name);
    h.up = true;
    h.hello.incarnation = h.hello.incarnation.next();
    h.hello.slices.clear();
    for (const Slice& s : slices)
      if (s.host == name) {
        SliceSpec spec;
        spec.id = {FrameworkId(s.framework), s.number};
        spec.resources = amount(1, 1);
        spec.group = s.group;
        h.hello.slices.push_back({spec, false, {}});
      }
    say(h.peer, h.hello);
  }
  void lose_where(const std::string& level, const std::string& value) {
    for (const auto& [name, h] : hosts)
      if (label(name, level) == value) lose(name);
  }
  [[nodiscard]] std::string label(const std::string& host, const std::string& level) const {
    const Labels& labels = hosts.at(host).hello.inventory.labels;
    const auto at = labels.find(level);
    return at == labels.end() ? "" : at->second;
  }
  [[nodiscard]] bool good(const std::string& host) const { return hosts.at(host).up && !hosts.at(host).draining; }
  [[nodiscard]] Counts counts(const std::string& framework, const std::optional<std::string>& group,
                              const std::string& level) const {
    Counts out;
    for (const Slice& s : slices)
      if (s.framework == framework && (!group || s.group == *group) && good(s.host) && !label(s.host, level).empty())
        ++out[label(s.host, level)];
    return out;
  }
  ExplainReply why(std::uint64_t peer, std::uint64_t id) {
    say(peer, ExplainQuery{7, FrameworkId(frameworks.at(peer)), id});
    return take<ExplainReply>(peer).at(0);
  }
};

std::uint32_t count_of(const ExplainReply& reply, const std::string& reason) {
  for (const auto& count : reply.counts)
    if (count.reason == reason) return count.agents;
  return 0;
}

DemandLine placed(std::uint64_t id, std::uint32_t count, const std::string& rules, const std::string& group = "web",
                  std::uint32_t gang = 0) {
  DemandLine l = line(id, shape(1, 1), count, gang);
  l.shape.group = group;
  l.shape.placement = *parse_placements(rules);
  return l;
}

// Three zones of four hosts each; those of zone a are the smallest, which the index offers first.
void three_zones(Town& t) {
  for (const char* zone : {"a", "b", "c"})
    for (int i = 1; i <= 4; ++i)
      t.host(std::string(zone) + std::to_string(i), zone[0] - 'a' + 4,
             {{"zone", zone}, {"rack", std::string(zone) + "-r" + std::to_string((i + 1) / 2)}});
}

TEST(Spread, IsEvenOverZonesFromTheFirstOfferOn) {
  Town t;
  three_zones(t);
  const auto f = t.client("f");
  t.want(f, placed(1, 6, "spread zone"));
  t.round();
  EXPECT_EQ(t.counts("f", "web", "zone"), (Counts{{"a", 2}, {"b", 2}, {"c", 2}}));
  t.want(f, placed(1, 5, "spread zone"));
  t.settle();
  const Counts more = t.counts("f", "web", "zone");
  for (const auto& [zone, n] : more) EXPECT_TRUE(n == 3 || n == 4) << zone << " " << n;
  EXPECT_EQ(t.slices.size(), 11U);
}

TEST(Spread, WithoutARuleTheFullestHostsAreFilled) {
  Town t;
  three_zones(t);
  const auto f = t.client("f");
  t.want(f, placed(1, 6, ""));
  t.round();
  EXPECT_EQ(t.counts("f", "web", "zone"), (Counts{{"a", 6}}));
}

TEST(Spread, StopsAtItsSkewAndSaysSoAndGoesOnWhenThereIsRoom) {
  Town t;
  t.host("a1", 8, {{"zone", "a"}});
  t.host("b1", 1, {{"zone", "b"}});
  const auto f = t.client("f");
  t.want(f, placed(1, 6, "spread zone:2"));
  t.settle();
  EXPECT_EQ(t.counts("f", "web", "zone"), (Counts{{"a", 3}, {"b", 1}}));
  const ExplainReply why = t.why(f, 1);
  EXPECT_EQ(count_of(why, "placement"), 1U);
  EXPECT_EQ(count_of(why, "yours already"), 1U);
  ASSERT_EQ(why.failing.size(), 1U);
  EXPECT_EQ(why.failing[0].reason, "spread zone:2");
  EXPECT_EQ(why.unmet, 2U);
  t.host("b2", 1, {{"zone", "b"}});
  t.settle();
  EXPECT_EQ(t.counts("f", "web", "zone"), (Counts{{"a", 4}, {"b", 2}}));
}

TEST(Spread, PreferredGoesOnWhereThereIsRoom) {
  Town t;
  t.host("a1", 8, {{"zone", "a"}});
  t.host("b1", 1, {{"zone", "b"}});
  t.host("x1", 8, {});  // in no zone: the last choice
  const auto f = t.client("f");
  t.want(f, placed(1, 10, "prefer spread zone"));
  t.settle();
  EXPECT_EQ(t.counts("f", "web", "zone"), (Counts{{"a", 8}, {"b", 1}}));
  EXPECT_EQ(t.slices.size(), 10U);
}

TEST(Spread, TwoLevelsAtOnce) {
  Town t;
  three_zones(t);
  const auto f = t.client("f");
  t.want(f, placed(1, 12, "spread zone; spread host"));
  t.settle();
  EXPECT_EQ(t.counts("f", "web", "zone"), (Counts{{"a", 4}, {"b", 4}, {"c", 4}}));
  for (const auto& [host, n] : t.counts("f", "web", "host")) EXPECT_EQ(n, 1) << host;
}

TEST(Spread, AZoneThatIsLostOrCouldNotHaveASliceHoldsNobodyBack) {
  Town t;
  three_zones(t);
  t.host("d1", 8, {{"zone", "d"}, {"old", ""}});
  const auto f = t.client("f");
  DemandLine l = placed(1, 6, "spread zone");
  l.shape.constraints = *parse_constraints("!old");
  t.want(f, l);
  t.settle();
  EXPECT_EQ(t.counts("f", "web", "zone"), (Counts{{"a", 2}, {"b", 2}, {"c", 2}}));
  t.lose_where("zone", "a");
  l.count = 2;
  t.want(f, l);
  t.settle();
  EXPECT_EQ(t.counts("f", "web", "zone"), (Counts{{"b", 3}, {"c", 3}}));
  // Blocked by the skew, until the zone that would have to come first is lost too: no agent has more free than before.
  t.host("e1", 0, {{"zone", "e"}});
  l.count = 40;
  t.want(f, l);
  t.settle();
  EXPECT_EQ(t.counts("f", "web", "zone"), (Counts{{"b", 20}, {"c", 21}}));
  t.lose_where("zone", "b");
  t.settle();
  EXPECT_EQ(t.counts("f", "web", "zone"), (Counts{{"c", 24}}));
}

TEST(Spread, CountsAreRebuiltFromTheSlicesThatAgentsShow) {
  Town t;
  t.host("a1", 8, {{"zone", "a"}});
  t.host("b1", 8, {{"zone", "b"}});
  const auto f = t.client("f");
  t.want(f, placed(1, 3, "spread zone"));
  t.settle();
  const Counts before = t.counts("f", "web", "zone");
  t.start();
  for (const auto& [name, h] : t.hosts) t.comes_back(name);
  t.frameworks.clear();
  t.framework(100, "f", 2);
  t.frameworks[100] = "f";
  t.accepts[100] = 0;
  t.want(100, placed(1, 1, "spread zone"));
  t.settle();
  EXPECT_NE(before, (Counts{{"a", 2}, {"b", 2}}));
  EXPECT_EQ(t.counts("f", "web", "zone"), (Counts{{"a", 2}, {"b", 2}}));
}

TEST(Pack, TakesTheSmallestRackThatHoldsAllAndOnlyThat) {
  Town t;
  three_zones(t);  // racks of 8, 8, 10, 10, 12, 12 cores
  const auto f = t.client("f");
  t.want(f, placed(1, 9, "pack rack"));
  t.settle();
  const Counts racks = t.counts("f", "web", "rack");
  ASSERT_EQ(racks.size(), 1U);
  EXPECT_EQ(racks.begin()->first[0], 'b');
  t.want(f, placed(1, 5, "pack rack"));  // one is left there, and the rest waits
  t.settle();
  EXPECT_EQ(t.counts("f", "web", "rack").size(), 1U);
  EXPECT_EQ(t.slices.size(), 10U);
  EXPECT_EQ(count_of(t.why(f, 1), "placement"), 10U);
}

TEST(Pack, PreferredTakesAsFewRacksAsWillDo) {
  Town t;
  three_zones(t);
  const auto f = t.client("f");
  t.want(f, placed(1, 22, "prefer pack rack"));
  t.settle();
  EXPECT_EQ(t.counts("f", "web", "rack").size(), 2U);
}

TEST(Pack, AGangGathersInOneRack) {
  Town t;
  three_zones(t);
  const auto f = t.client("f");
  t.want(f, placed(1, 2, "pack rack", "mpi", 2));
  t.settle();
  EXPECT_EQ(t.counts("f", "mpi", "rack").size(), 1U);
  EXPECT_EQ(t.counts("f", "mpi", "host").size(), 2U);
}

TEST(Affinity, WaitsForWhatItIsAboutAndGoesThere) {
  Town t;
  three_zones(t);
  const auto f = t.client("f"), store = t.client("store");
  t.want(f, placed(1, 3, "affinity rack of store#db"));
  t.settle();
  EXPECT_TRUE(t.slices.empty());
  EXPECT_EQ(count_of(t.why(f, 1), "placement"), 12U);
  DemandLine db = placed(1, 1, "", "db");
  db.shape.constraints = *parse_constraints("host=c3");
  t.want(store, db);
  t.settle();
  EXPECT_EQ(t.counts("f", "web", "rack"), (Counts{{"c-r2", 3}}));
}

TEST(Affinity, OfAGroupToItselfStartsAnywhereAndKeepsTogether) {
  Town t;
  three_zones(t);
  const auto f = t.client("f");
  t.want(f, placed(1, 7, "affinity rack"));
  t.settle();
  EXPECT_EQ(t.counts("f", "web", "rack").size(), 1U);
}

TEST(AntiAffinity, OneAHostAndNotBesideTheOthers) {
  Town t;
  three_zones(t);
  const auto f = t.client("f"), store = t.client("store");
  DemandLine db = placed(1, 4, "anti-affinity host", "db");
  db.shape.constraints = *parse_constraints("zone=b");
  t.want(store, db);
  t.settle();
  EXPECT_EQ(t.counts("store", "db", "host").size(), 4U);
  t.want(f, placed(1, 100, "anti-affinity zone of store"));
  t.settle();
  const Counts zones = t.counts("f", "web", "zone");
  EXPECT_EQ(zones.count("b"), 0U);
  EXPECT_EQ(zones.at("a") + zones.at("c"), 16 + 24);
}

// --- random towns: every rule kept, and nothing left undone that the rules allow -------------------------------------------

struct Judge {
  const Town& town;
  const Placement& rule;
  const std::string framework, group;

  [[nodiscard]] bool about_own() const {
    return rule.kind == Placement::Kind::kSpread || rule.kind == Placement::Kind::kPack ||
           (rule.framework.value.empty() && rule.group.empty());
  }
  [[nodiscard]] Counts counts() const {
    if (about_own()) return town.counts(framework, group, rule.level);
    const std::string of = rule.framework.value.empty() ? framework : rule.framework.value;
    return town.counts(of, rule.group.empty() ? std::nullopt : std::optional(rule.group), rule.level);
  }
  // May `domain`, which has what `counts` says, have one more?
  [[nodiscard]] bool allows(const Counts& counts, const std::string& domain, const std::set<std::string>& eligible) const {
    if (domain.empty()) return false;
    const auto at = [&](const std::string& d) { return counts.count(d) != 0 ? counts.at(d) : 0; };
    switch (rule.kind) {
      case Placement::Kind::kSpread: {
        std::int64_t least = INT64_MAX;
        for (const std::string& d : eligible) least = std::min(least, at(d) + (d == domain ? 1 : 0));
        return at(domain) + 1 - least <= rule.max_skew;
      }
      case Placement::Kind::kPack:
        return counts.empty() || at(domain) > 0;
      case Placement::Kind::kAffinity:
        return at(domain) > 0 || (about_own() && counts.empty());
      case Placement::Kind::kAntiAffinity:
        return at(domain) == 0;
    }
    return false;
  }
};

TEST(Placement, RandomTownsKeepEveryRuleAndLeaveNothingUndone) {
  int placed_slices = 0, blocked = 0;
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    Town t;
    const std::uint64_t zones = rng.between(1, 4), count = rng.between(2, 12);
    for (std::uint64_t i = 0; i < count; ++i) {
      Labels labels;
      if (!rng.chance(100)) labels["zone"] = "z" + std::to_string(rng.below(zones));
      labels["rack"] = "r" + std::to_string(rng.below(3));
      t.host("h" + std::to_string(i), static_cast<std::int64_t>(rng.between(1, 5)), labels);
    }
    const auto f = t.client("f"), g = t.client("g");
    const char* const kRules[] = {"spread zone",
                                  "spread zone:2",
                                  "spread rack",
                                  "spread host",
                                  "pack zone",
                                  "pack rack",
                                  "affinity zone",
                                  "anti-affinity host",
                                  "anti-affinity rack of g",
                                  "affinity rack of g#other",
                                  "affinity host of #web"};
    const std::string text = kRules[rng.below(std::size(kRules))];
    const Placement rule = parse_placements(text)->front();
    SCOPED_TRACE(text);
    const Judge judge{t, rule, "f", "web"};
    for (int step = 0; step < 12; ++step) {
      switch (rng.below(6)) {
        case 0:
        case 1:
          t.want(f,
                 placed(1, static_cast<std::uint32_t>(t.wants[f].count(1) != 0 ? t.wants[f][1].count + rng.below(5) : rng.below(9)),
                        text));
          break;
        case 2:
          t.want(g, placed(2, static_cast<std::uint32_t>(rng.below(3)), "", rng.chance(500) ? "other" : ""));
          break;
        case 3:
          if (!t.slices.empty()) {
            const std::size_t i = rng.below(t.slices.size());
            if (t.hosts.at(t.slices[i].host).up) t.end(i);
          }
          break;
        default: {
          auto it = t.hosts.begin();
          std::advance(it, static_cast<std::ptrdiff_t>(rng.below(t.hosts.size())));
          it->second.up ? t.lose(it->first) : t.comes_back(it->first);
        }
      }
      for (int round = 0; round < 10; ++round) {
        const Counts before = judge.counts();
        const std::vector<Town::Slice> made = t.round();
        const Shape& s = placed(1, 1, text).shape;
        std::set<std::string> eligible;
        for (const auto& [name, h] : t.hosts)
          if (h.up && !t.label(name, rule.level).empty() && h.hello.inventory.total.cpus >= s.cpus)
            eligible.insert(t.label(name, rule.level));
        // There is an order in which each of the new ones was allowed when it came: fewest first is one where any is.
        Counts now = before;
        std::vector<std::string> domains;
        for (const Town::Slice& slice : made)
          if (slice.framework == "f") domains.push_back(t.label(slice.host, rule.level));
        placed_slices += static_cast<int>(domains.size());
        while (!domains.empty()) {
          const auto at = [&](const std::string& d) { return now.count(d) != 0 ? now.at(d) : 0; };
          const auto least =
              std::min_element(domains.begin(), domains.end(), [&](const auto& a, const auto& b) { return at(a) < at(b); });
          // What g got in the same pass may have made room for an affinity; the demand of f then came after.
          if (judge.about_own()) { ASSERT_TRUE(judge.allows(now, *least, eligible)) << *least; }
          if (judge.about_own()) ++now[*least];
          domains.erase(least);
        }
        if (made.empty()) break;
      }
      const auto want = t.wants[f].find(1);
      if (want == t.wants[f].end() || want->second.count == 0) continue;
      std::set<std::string> eligible;
      for (const auto& [name, h] : t.hosts)
        if (h.up && !t.label(name, rule.level).empty()) eligible.insert(t.label(name, rule.level));
      std::uint32_t by_rule = 0;
      for (const auto& [name, h] : t.hosts) {
        if (!h.up || t.account(name).free.cpus.value < 1000) continue;
        EXPECT_FALSE(judge.allows(judge.counts(), t.label(name, rule.level), eligible)) << name << " could have one more";
        ++by_rule, ++blocked;
      }
      const ExplainReply why = t.why(f, 1);
      EXPECT_EQ(count_of(why, "placement"), by_rule);
      if (by_rule > 0) {
        ASSERT_EQ(why.failing.size(), 1U);
        EXPECT_EQ(why.failing[0].agents, by_rule);
        EXPECT_EQ(why.failing[0].reason, to_text(rule));
      }
    }
  }
  EXPECT_GT(placed_slices, 500);
  EXPECT_GT(blocked, 100);
}

// --- migration -------------------------------------------------------------------------------------------------------------

// Room frees one core at a time, while services that lost a zone and one that is only growing all want it.
TEST(Migration, WhatLostMostIsMendedFirstThenWhatIsQuicklyWhole) {
  Town t;
  t.host("a1", 20, {{"zone", "a"}});
  t.host("b1", 20, {{"zone", "b"}});
  t.host("c1", 20, {{"zone", "c"}});
  const auto grower = t.client("a-grower"), big = t.client("b-big"), small = t.client("c-small"), filler = t.client("z-filler");
  t.want(big, placed(1, 9, "spread zone", "big"));
  t.want(small, placed(1, 3, "spread zone", "small"));
  t.settle();
  const auto down = t.client("d-down");
  DemandLine all_in_a = placed(1, 1, "prefer spread zone", "down");
  all_in_a.shape.constraints = *parse_constraints("zone=a");
  t.want(down, all_in_a);
  t.settle();
  DemandLine fill = line(1, shape(1, 1), 60);
  t.want(filler, fill);
  t.settle();
  ASSERT_EQ(t.slices.size(), 60U);
  t.want(grower, placed(1, 5, "spread zone", "grower"));
  t.settle();
  t.lose_where("zone", "a");
  t.wants[filler].clear();
  t.publish(filler);
  t.want(big, placed(1, 3, "spread zone", "big"));
  t.want(small, placed(1, 1, "spread zone", "small"));
  t.want(down, placed(1, 1, "prefer spread zone", "down"));
  t.settle();
  std::vector<std::string> order;
  for (int freed = 0; freed < 6; ++freed) {
    // By turns in the two zones, so that no spread is in the way.
    for (std::size_t i = 0; i < t.slices.size(); ++i) {
      if (t.slices[i].framework != "z-filler" || t.label(t.slices[i].host, "zone") != (freed % 2 == 0 ? "b" : "c")) continue;
      t.end(i);
      break;
    }
    for (const Town::Slice& s : t.round()) order.push_back(s.framework);
  }
  // `big` waits with what it has until its turn; b-big before a-grower though names, rank and demand say otherwise.
  ASSERT_EQ(order.size(), 6U);
  EXPECT_EQ(order[0], "d-down");
  EXPECT_EQ(order[1], "c-small");
  EXPECT_EQ(order[2], "b-big");
  EXPECT_EQ(order[3], "b-big");
  EXPECT_EQ(order[4], "b-big");
  EXPECT_EQ(order[5], "a-grower");
}

TEST(Migration, ADrainCountsAsALossFromItsBeginning) {
  Town t;
  three_zones(t);
  const auto f = t.client("f");
  t.want(f, placed(1, 6, "spread zone"));
  t.settle();
  t.say(1, ReaderHello{kProtocolVersion, "op"});
  for (int i = 1; i <= 4; ++i) {
    t.hosts.at("a" + std::to_string(i)).draining = true;
    t.say(1, OperatorAction{
                 static_cast<std::uint64_t>(i), "drain", "a" + std::to_string(i), "work on the power", {{"deadline", "10m"}}});
  }
  t.want(f, placed(1, 2, "spread zone"));
  t.settle();
  EXPECT_EQ(t.counts("f", "web", "zone"), (Counts{{"b", 3}, {"c", 3}}));
}

// --- scarce devices --------------------------------------------------------------------------------------------------------

DeviceShare gpu(const std::string& id) {
  DeviceShare d;
  d.device = DeviceId(id);
  d.kind = "gpu/acme";
  d.generation = Generation(1);
  d.whole = true;
  return d;
}

TEST(Scarce, WorkWithoutDevicesIsOfferedHostsWithDevicesLast) {
  Town t;
  t.host("gpu1", 4, {}, {gpu("G1")});  // first by name, first to come, and the smallest
  t.host("plain1", 8, {});
  t.host("gpu2", 4, {}, {gpu("G2")});
  t.host("plain2", 8, {});
  const auto f = t.client("f");
  t.want(f, line(1, shape(1, 1), 16));
  t.settle();
  const Counts hosts = t.counts("f", std::nullopt, "host");
  EXPECT_EQ(hosts, (Counts{{"plain1", 8}, {"plain2", 8}}));
  t.want(f, line(1, shape(1, 1), 2));
  t.settle();
  EXPECT_EQ(t.slices.size(), 18U) << "they are offered when nothing else is left";
}

TEST(Scarce, AHostWithDevicesThatFreesIsNotTakenWhileAnotherIsFree) {
  Town t;
  t.host("gpu1", 2, {}, {gpu("G1")});
  t.host("plain1", 2, {});
  const auto f = t.client("f");
  t.want(f, line(1, shape(1, 1), 4));
  t.settle();
  ASSERT_EQ(t.slices.size(), 4U);
  // One core has been free on the other; now one frees on this, as the demand comes.
  for (const char* name : {"plain1", "gpu1"}) {
    t.pass();
    for (std::size_t i = 0; i < t.slices.size(); ++i)
      if (t.slices[i].host == name) {
        t.end(i);
        break;
      }
  }
  t.want(f, line(1, shape(1, 1), 1));
  t.settle();
  EXPECT_EQ(t.counts("f", std::nullopt, "host"), (Counts{{"gpu1", 1}, {"plain1", 2}}));
  // And work that needs the device has it.
  DemandLine needs = line(2, shape(1, 1), 1);
  needs.shape.devices = {{"gpu/", 1, true, "", {}, {}}};
  t.want(f, needs);
  t.settle();
  EXPECT_EQ(t.slices.size(), 4U);
}

}  // namespace
}  // namespace bourse::test
