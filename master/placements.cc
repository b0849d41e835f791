#include "master/placements.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "common/core/hooks.h"
#include "master/house.h"

namespace bourse::house {

namespace {

using Kind = Placement::Kind;
constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max() / 4;
constexpr std::size_t kNowhere = std::numeric_limits<std::size_t>::max();  // the agent lacks the label

bool about_own(const Placement& rule) {
  return rule.kind == Kind::kSpread || rule.kind == Kind::kPack || (rule.framework.value.empty() && rule.group.empty());
}

bool counts(const AgentRow& row) { return row.reachable && !row.draining && !row.removed; }

}  // namespace

// One rule while a search goes on: how many units each domain has, and among how many it is to be even.
struct PlacementTable::Level {
  const Placement* rule = nullptr;
  bool own = false;  // what is placed counts
  std::map<std::string, std::size_t> index;
  std::vector<std::int64_t> counts;
  std::vector<std::int64_t> room;              // kPack: units that candidates of the domain have
  std::vector<char> eligible;                  // kSpread: a line's slice could be there
  std::map<std::int64_t, std::uint64_t> even;  // of the eligible domains: count -> how many have it
  std::int64_t total = 0;

  std::size_t domain(const std::string& value) {
    const auto [at, fresh] = index.emplace(value, counts.size());
    if (fresh) counts.push_back(0), room.push_back(0), eligible.push_back(0);
    return at->second;
  }
  void put(std::size_t domain, std::int64_t units) {
    if (!own) return;
    if (eligible[domain] != 0) {
      if (const auto at = even.find(counts[domain]); --at->second == 0) even.erase(at);
      ++even[counts[domain] + units];
    }
    counts[domain] += units;
    total += units;
  }
  std::size_t domain_of(const Labels& labels) {
    const auto label = labels.find(rule->level);
    return label == labels.end() ? kNowhere : domain(label->second);
  }
  // How many more units the rule lets a domain have.
  [[nodiscard]] std::int64_t allowed(std::size_t domain) const {
    if (!rule->required) return kAny;
    if (domain == kNowhere) return 0;
    const std::int64_t here = counts[domain];
    switch (rule->kind) {
      case Kind::kSpread: {
        auto least = even.begin();
        if (least != even.end() && eligible[domain] != 0 && least->first == here && least->second == 1) ++least;
        return least == even.end() ? kAny : std::max<std::int64_t>(0, least->first + rule->max_skew - here);
      }
      case Kind::kPack:
        return total == 0 || here > 0 ? kAny : 0;
      case Kind::kAffinity:
        return here > 0 || (own && total == 0) ? kAny : 0;  // the first of a group that keeps together is free
      case Kind::kAntiAffinity:
        if (here > 0) return 0;
        return own ? 1 : kAny;
    }
    return kAny;
  }
  // The lower the better. `wanted`: units that are still to be placed.
  [[nodiscard]] std::int64_t penalty(std::size_t domain, std::int64_t wanted) const {
    if (domain == kNowhere) return kAny;
    const std::int64_t here = counts[domain];
    switch (rule->kind) {
      case Kind::kSpread:
        return here;
      case Kind::kPack:  // where some are; else the smallest that holds all; else the largest
        if (here > 0) return -here;
        return room[domain] >= wanted ? 1 + room[domain] : kAny / 2 - room[domain];
      case Kind::kAffinity:
        return here > 0 || (own && total == 0) ? 0 : 1;
      case Kind::kAntiAffinity:
        return own ? here : here > 0 ? 1 : 0;
    }
    return 0;
  }
};

GroupKey PlacementTable::own(const FrameworkRow& framework, const Shape& shape) { return {framework.id.str(), shape.group, false}; }

GroupKey PlacementTable::target(const FrameworkRow& framework, const Shape& shape, const Placement& rule) {
  if (about_own(rule)) return own(framework, shape);
  if (rule.framework.value.empty()) return {framework.id.str(), rule.group, false};
  return {rule.framework.str(), rule.group, rule.group.empty()};
}

void PlacementTable::begin(const House& h, const FrameworkRow& framework, const Shape& shape) {
  for (const Placement& rule : shape.placement)
    if (rule.kind == Kind::kAffinity) awaited_.insert(target(framework, shape, rule));
  if (std::exchange(active_, true)) return;
  for (const auto& [id, ix] : h.agents.by_name()) {
    seen(h, ix);
    for (const SliceId& slice : h.agents.at(ix).slices)
      add(h, ix, slice.framework, const_cast<House&>(h).slices.find(slice)->spec.group, 1);
  }
  for (const auto& [id, offer] : h.offers.open) add(h, offer.agent, h.frameworks.at(offer.framework).id, offer.group, offer.units);
}

PlacementTable::Seen& PlacementTable::seen(const House& h, AgentIx agent) {
  if (agent < seen_.size()) return seen_[agent];
  for (auto ix = static_cast<AgentIx>(seen_.size()); ix <= agent; ++ix) {
    const AgentRow& row = h.agents.at(ix);
    const Resources& total = h.ledger.account(ix).total;
    seen_.push_back({house::counts(row), row.open(), total.cpus, total.mem, total.devices.size(), row.labels});
  }
  ++agents_version_, ++version_;
  return seen_[agent];
}

void PlacementTable::recount(Group& group, AgentIx agent, std::uint64_t units, bool more) {
  const Seen& at = seen_[agent];
  group.counted = more ? group.counted + units : group.counted - std::min(units, group.counted);
  for (auto& [level, tally] : group.tallies) {
    const auto label = at.labels.find(level);
    if (label == at.labels.end()) continue;
    std::uint32_t& count = tally[label->second];
    count = static_cast<std::uint32_t>(more ? count + units : count - std::min<std::uint64_t>(units, count));
    if (count == 0) tally.erase(label->second);
  }
}

void PlacementTable::add(const House& h, AgentIx agent, const FrameworkId& framework, const std::string& name,
                         std::uint64_t units) {
  if (!active_ || units == 0 || hooks::mutant("master.placement_uncounted")) return;
  const bool good = seen(h, agent).counts;
  for (const GroupKey& key : {GroupKey{framework.str(), name, false}, GroupKey{framework.str(), "", true}}) {
    Group& group = groups_[key];
    std::uint64_t& here = group.agents[agent];
    if (here == 0 && awaited_.contains(key)) ++version_;
    here += units;
    if (good) recount(group, agent, units, true);
  }
}

void PlacementTable::remove(AgentIx agent, const FrameworkId& framework, const std::string& name, std::uint64_t units) {
  if (!active_) return;
  for (const GroupKey& key : {GroupKey{framework.str(), name, false}, GroupKey{framework.str(), "", true}}) {
    const auto found = groups_.find(key);
    if (found == groups_.end()) continue;
    Group& group = found->second;
    const auto at = group.agents.find(agent);
    if (at == group.agents.end()) continue;
    const std::uint64_t gone = std::min(units, at->second);
    if (seen_[agent].counts) recount(group, agent, gone, false);
    if ((at->second -= gone) == 0) group.agents.erase(at);
    if (group.agents.empty() && group.goal == 0) groups_.erase(found);
  }
}

void PlacementTable::forget(const FrameworkId& framework) {
  for (auto it = groups_.lower_bound({framework.str(), "", false});
       it != groups_.end() && it->first.framework == framework.str();) {
    harmed_.erase(it->first);
    it->second.goal = 0;
    it = it->second.agents.empty() ? groups_.erase(it) : std::next(it);
  }
}

// Migration: what is on an agent that is lost or drained has to be placed anew. From then on its group is harmed.
void PlacementTable::refresh(const House& h) {
  if (!active_) return;
  // Not as it is counted: while an offer becomes slices both are.
  std::erase_if(harmed_, [&](const GroupKey& key) {
    Group& group = groups_.at(key);
    if (group.harmed()) return false;
    group.goal = 0;
    return true;
  });
  for (const AgentIx ix : h.agents.changed) {
    const AgentRow& row = h.agents.at(ix);
    const Resources& total = h.ledger.account(ix).total;
    Seen now{house::counts(row), row.open(), total.cpus, total.mem, total.devices.size(), row.labels};
    Seen& before = seen(h, ix);
    if (before == now) continue;
    ++agents_version_, ++version_;
    const bool moved = before.counts != now.counts || before.labels != now.labels;
    for (auto& [key, group] : groups_) {
      if (!moved) break;
      const auto at = group.agents.find(ix);
      if (at == group.agents.end()) continue;
      const std::uint64_t was = group.counted;
      if (before.counts) recount(group, ix, at->second, false);
      if (before.counts && !now.counts && !key.all) {
        harmed_.insert(key);
        group.goal = std::max(group.goal, was);
      }
    }
    before = std::move(now);
    for (auto& [key, group] : groups_) {
      if (!moved || !before.counts) break;
      if (const auto at = group.agents.find(ix); at != group.agents.end()) recount(group, ix, at->second, true);
    }
  }
}

Domains& PlacementTable::tally(const GroupKey& key, const std::string& level) {
  Group& group = groups_[key];
  const auto [at, fresh] = group.tallies.try_emplace(level);
  if (!fresh) return at->second;
  for (const auto& [agent, units] : group.agents) {
    const Seen& seen = seen_[agent];
    const auto label = seen.labels.find(level);
    if (seen.counts && label != seen.labels.end()) at->second[label->second] += static_cast<std::uint32_t>(units);
  }
  return at->second;
}

std::uint64_t PlacementTable::count(const GroupKey& key, const std::string& level, const std::string& value) {
  const auto found = groups_.find(key);
  if (found == groups_.end()) return 0;
  const Domains& domains = tally(key, level);
  const auto at = domains.find(value);
  return at == domains.end() ? 0 : at->second;
}

const LineDomains& PlacementTable::domains(const House& h, LineRow& line) const {
  LineDomains& out = line.domains;
  if (out.version == agents_version_) return out;
  const Shape& shape = line.want.shape;
  out.version = agents_version_;
  out.by_rule.assign(shape.placement.size(), {});
  for (const auto& [id, ix] : h.agents.by_name()) {
    const AgentRow& row = h.agents.at(ix);
    if (!row.open()) continue;
    const Resources& total = h.ledger.account(ix).total;
    if (fits(shape, total, total, row.labels) != Misfit::kNone) continue;
    for (std::size_t i = 0; i < shape.placement.size(); ++i) {
      const auto label = row.labels.find(shape.placement[i].level);
      if (label != row.labels.end()) ++out.by_rule[i][label->second];
    }
  }
  return out;
}

std::vector<PlacementTable::Level> PlacementTable::levels(const House& h, const FrameworkRow& framework, LineRow& line) {
  const Shape& shape = line.want.shape;
  std::vector<Level> out(shape.placement.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    Level& level = out[i];
    level.rule = &shape.placement[i];
    level.own = about_own(*level.rule);
    for (const auto& [value, units] : tally(target(framework, shape, *level.rule), level.rule->level)) {
      level.counts[level.domain(value)] = units;
      level.total += units;
    }
    if (level.rule->kind != Kind::kSpread) continue;
    for (const auto& [value, agents] : domains(h, line).by_rule[i]) {
      const std::size_t domain = level.domain(value);
      level.eligible[domain] = 1;
      ++level.even[level.counts[domain]];
    }
  }
  return out;
}

std::uint32_t PlacementTable::allowed(const House& h, const FrameworkRow& framework, LineRow& line, AgentIx agent) {
  std::int64_t least = UINT32_MAX;
  const Labels& labels = h.agents.at(agent).labels;
  for (Level& level : levels(h, framework, line)) least = std::min(least, level.allowed(level.domain_of(labels)));
  return static_cast<std::uint32_t>(least);
}

std::vector<const Placement*> PlacementTable::obstacles(const House& h, const FrameworkRow& framework, LineRow& line) {
  std::vector<Level> levels = this->levels(h, framework, line);
  std::vector<const Placement*> out;
  out.reserve(h.agents.size());
  for (const auto& [id, ix] : h.agents.by_name()) {
    const Labels& labels = h.agents.at(ix).labels;
    const Placement* first = nullptr;
    for (Level& level : levels)
      if (first == nullptr && level.allowed(level.domain_of(labels)) == 0) first = level.rule;
    out.push_back(first);
  }
  return out;
}

std::string PlacementTable::signature(const House& h, const LineRow& line, AgentIx agent) const {
  const Labels& labels = h.agents.at(agent).labels;
  std::string out;
  for (const Placement& rule : line.want.shape.placement) {
    const auto label = labels.find(rule.level);
    out += label == labels.end() ? std::string("\1") : label->second;
    out += '\0';
  }
  return out;
}

// The best domain, unit by unit: by the rules in the order in which they are written, then in the order of the candidates. Candidates
// of the same domains are alike, so the work is units x different domains, both bounded.
std::vector<Candidate> PlacementTable::arrange(const House& h, const FrameworkRow& framework, LineRow& line, std::uint32_t enough,
                                               const std::vector<Candidate>& candidates) {
  struct Alike {
    std::array<std::size_t, kPlacementsMax> domains{};
    std::vector<std::size_t> members;  // of `candidates`, in their order
    std::size_t next = 0;
  };
  std::vector<Level> levels = this->levels(h, framework, line);
  std::map<std::string, std::size_t> by_signature;
  std::vector<Alike> alike;
  std::vector<std::uint32_t> left(candidates.size()), taken(candidates.size(), 0);
  for (std::size_t c = 0; c < candidates.size(); ++c) {
    left[c] = candidates[c].units;
    const auto [at, fresh] = by_signature.emplace(signature(h, line, candidates[c].agent), alike.size());
    if (fresh) {
      Alike& one = alike.emplace_back();
      const Labels& labels = h.agents.at(candidates[c].agent).labels;
      for (std::size_t i = 0; i < levels.size(); ++i) one.domains[i] = levels[i].domain_of(labels);
    }
    Alike& one = alike[at->second];
    one.members.push_back(c);
    for (std::size_t i = 0; i < levels.size(); ++i)
      if (one.domains[i] != kNowhere) levels[i].room[one.domains[i]] += candidates[c].units;
  }
  const bool one_by_one = std::any_of(levels.begin(), levels.end(), [](const Level& l) {
    return l.own && (l.rule->kind == Kind::kSpread || l.rule->kind == Kind::kAntiAffinity);
  });
  std::vector<std::size_t> order;  // of candidates, as they were first chosen
  std::int64_t wanted = enough;
  while (wanted > 0) {
    using Rank = std::array<std::int64_t, kPlacementsMax + 1>;
    Alike* best = nullptr;
    Rank best_rank{};
    std::int64_t best_allowed = 0;
    for (Alike& one : alike) {
      while (one.next < one.members.size() && left[one.members[one.next]] == 0) ++one.next;
      if (one.next == one.members.size()) continue;
      std::int64_t allowed = wanted;
      Rank rank{};
      for (std::size_t i = 0; i < levels.size() && allowed > 0; ++i) {
        allowed = std::min(allowed, levels[i].allowed(one.domains[i]));
        rank[i] = levels[i].penalty(one.domains[i], wanted);
      }
      rank[kPlacementsMax] = static_cast<std::int64_t>(one.members[one.next]);
      if (allowed <= 0 || (best != nullptr && best_rank <= rank)) continue;
      best = &one;
      best_rank = rank;
      best_allowed = allowed;
    }
    if (best == nullptr) break;
    const std::size_t chosen = best->members[best->next];
    const std::int64_t units = one_by_one ? 1 : std::min<std::int64_t>(best_allowed, left[chosen]);
    if (taken[chosen] == 0) order.push_back(chosen);
    taken[chosen] += static_cast<std::uint32_t>(units);
    left[chosen] -= static_cast<std::uint32_t>(units);
    wanted -= units;
    for (std::size_t i = 0; i < levels.size(); ++i)
      if (best->domains[i] != kNowhere) levels[i].put(best->domains[i], units), levels[i].room[best->domains[i]] -= units;
  }
  std::vector<Candidate> out;
  for (const std::size_t c : order) out.push_back({candidates[c].agent, taken[c], candidates[c].device});
  return out;
}

PlacementTable::Harm PlacementTable::harm(const House& h, const FrameworkRow& framework, LineRow& line) {
  Harm out;
  const auto found = groups_.find(own(framework, line.want.shape));
  if (found == groups_.end() || !found->second.harmed()) return out;
  out.harmed = true;
  out.left = found->second.counted;
  out.missing = found->second.goal - found->second.counted;
  for (Level& level : levels(h, framework, line)) {
    if (level.rule->kind != Kind::kSpread || level.even.empty()) continue;
    std::uint64_t domains = 0, total = line.unmet();
    for (const auto& [count, how_many] : level.even) domains += how_many, total += static_cast<std::uint64_t>(count) * how_many;
    const auto share = static_cast<std::int64_t>(total / domains);
    out.missing = 0;
    for (const auto& [count, how_many] : level.even)
      if (count < share) out.missing += static_cast<std::uint64_t>(share - count) * how_many;
    break;
  }
  return out;
}

}  // namespace bourse::house
