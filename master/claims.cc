#include "master/claims.h"

#include <algorithm>
#include <tuple>

#include "common/core/hooks.h"
#include "master/house.h"

namespace bourse::house {

namespace {

constexpr std::uint64_t kFirstKey = std::uint64_t{1} << 32;  // below are the reservations'

Duration claim_life(const House& h) { return h.options.offer_ttl * ClaimTable::kTtls; }

void add_usage(std::map<RoleName, Usage>& taken, const RoleName& role, const Usage& usage) {
  for (const RoleName& above : role_line(role)) taken[above].add(usage);
}

}  // namespace

// --- who waits for what ------------------------------------------------------------------------------------------------

void ClaimTable::lacks(House& h, FrameworkIx framework, std::uint64_t line) {
  if (!h.roles.preempts() || hungry_.size() >= kHungryMax) return;
  hungry_.try_emplace({framework, line}, h.now.mono);
}

void ClaimTable::reconsider(House& h) {
  if (!h.roles.preempts()) return hungry_.clear();
  for (const auto& [id, ix] : h.frameworks.by_name()) {
    const FrameworkRow& row = h.frameworks.at(ix);
    if (!row.wants) continue;
    for (const LineRow& line : row.lines) {
      if (line.wildcard || line.unmet() == 0 || hungry_.size() >= kHungryMax) continue;
      hungry_[{ix, line.want.id}] = h.now.mono;
      h.allocator.framework_dirty(ix);
    }
  }
}

std::uint64_t ClaimTable::claimed(FrameworkIx framework, std::uint64_t line) const {
  return static_cast<std::uint64_t>(std::count_if(claims_.begin(), claims_.end(), [&](const auto& entry) {
    return entry.second.framework == framework && entry.second.line == line;
  }));
}

std::string ClaimTable::progress(const House& h, FrameworkIx framework, std::uint64_t line) const {
  std::size_t slices = 0;
  std::uint64_t units = 0;
  Duration until{0};
  std::string where;
  for (const auto& [key, claim] : claims_) {
    if (claim.framework != framework || claim.line != line) continue;
    ++units;
    slices += claim.victims.size();
    until = std::max(until, claim.take_at);
    if (where.empty()) where = h.agents.at(claim.agent).id.str();
  }
  if (units == 0) return "";
  const Duration left = std::chrono::ceil<seconds>(std::max(Duration{0}, until - h.now.mono));
  return "room for " + std::to_string(units) + " is being made on " + where + (units > 1 ? " and others" : "") + ": " +
         std::to_string(slices) + (slices == 1 ? " slice" : " slices") + " of others " +
         (left.count() > 0 ? "to be back within " + format_duration(left) : "being taken back");
}

// --- a turn ------------------------------------------------------------------------------------------------------------

void ClaimTable::turn(House& h) {
  wanted_ = false;
  if (!pending()) return;
  check_claims(h);
  std::vector<std::tuple<std::int64_t, Duration, std::pair<FrameworkIx, std::uint64_t>>> order;
  for (auto it = hungry_.begin(); it != hungry_.end();) {
    const FrameworkRow& row = h.frameworks.at(it->first.first);
    const LineRow* line = row.removed ? nullptr : h.frameworks.at(it->first.first).line(it->first.second);
    if (line == nullptr || row.peer.value == 0 || line->wildcard || line->unmet() == 0) {
      it = hungry_.erase(it);
      continue;
    }
    if (it->second <= h.now.mono) order.emplace_back(-h.roles.priority(h, row.role), it->second, it->first);
    ++it;
  }
  std::sort(order.begin(), order.end());
  std::int64_t looks = kLooksPerTurn;
  for (const auto& [priority, since, key] : order) {
    if (looks <= 0) break;
    feed(h, key.first, key.second, looks);
    hungry_[key] = h.now.mono + kAgain;
  }
  check_claims(h);
  if (!hungry_.empty()) timers.push(h.now.mono + kAgain, 0);
}

// What could be had on each agent for a line of this framework: of lower priorities, or with `reclaim` beside those of who is outside
// the role that is covered and no higher.
void ClaimTable::pools(House& h, FrameworkIx ix, LineRow& line, bool reclaim, const RoleName& covered,
                       std::map<AgentIx, Pool>& pools) {
  const FrameworkRow& mine = h.frameworks.at(ix);
  const std::int64_t priority = h.roles.priority(h, mine.role);
  const auto usable = [&](AgentIx agent) {
    const Account& account = h.ledger.account(agent);
    if (!account.open || account.shortfall || !h.allocator.may_offer(h, mine, line, agent)) return false;
    return !line.placed() || h.placements.allowed(h, mine, line, agent) > 0;
  };
  const auto pool = [&](AgentIx agent) -> Pool* {
    const auto found = pools.find(agent);
    if (found != pools.end()) return &found->second;
    if (!usable(agent)) return nullptr;
    return &pools.emplace(agent, Pool{h.ledger.account(agent).free, {}, {}}).first->second;
  };
  if (line.want.gang_min > 1 && !reclaim) {
    for (const auto& [id, agent] : h.agents.by_name()) pool(agent);
  }
  for (const auto& [id, other] : h.frameworks.by_name()) {
    if (other == ix) continue;
    const FrameworkRow& row = h.frameworks.at(other);
    const std::int64_t theirs = h.roles.priority(h, row.role);
    const bool below = theirs < priority || hooks::mutant("claims.any_priority");
    const bool reclaims = !below && theirs == priority && !covered.str().empty() && !in_tree(row.role, covered);
    if (reclaim ? !reclaims : !below) continue;
    for (const std::uint64_t number : row.offers) {
      const OfferRow& offer = h.offers.open.at(number);
      if (!offer.reserved.empty() || offer.revocable || offer.resources.empty()) continue;
      Pool* at = pool(offer.agent);
      if (at != nullptr && at->free.add(offer.resources)) at->offers.push_back(number);
    }
    std::map<std::uint64_t, std::uint32_t> gangs;
    for (const std::uint64_t number : row.slices) {
      const SliceRow* slice = h.slices.find({row.id, number});
      if (slice != nullptr && slice->spec.gang.value != 0) ++gangs[slice->spec.gang.value];
    }
    for (const std::uint64_t number : row.slices) {
      const SliceRow* slice = h.slices.find({row.id, number});
      if (slice == nullptr || slice->state != SliceRow::State::kUp || slice->gang_row != 0) continue;
      if (!slice->spec.reserved.empty() || slice->spec.revocable || victims_.contains(slice->spec.id)) continue;
      Pool* at = pool(slice->agent);
      if (at == nullptr) continue;
      const std::uint64_t gang = slice->spec.gang.value;
      at->candidates.push_back(
          {slice->spec.id, slice->spec.resources, theirs, slice->spec.since, gang == 0 ? 1 : gangs[gang], gang, other});
    }
  }
  for (auto& [agent, at] : pools) sort_candidates(at.candidates);
}

std::optional<ClaimTable::Pick> ClaimTable::pick(House& h, const LineRow& line, std::map<AgentIx, Pool>& pools,
                                                 const std::set<AgentIx>& not_there, const std::map<RoleName, Usage>& taken,
                                                 std::int64_t& looks) {
  std::optional<Pick> best;
  std::string best_name;
  for (const auto& [agent, pool] : pools) {
    if (not_there.contains(agent) || looks <= 0) continue;
    const AgentRow& row = h.agents.at(agent);
    const Resources& total = h.ledger.account(agent).total;
    --looks;
    if (fits(line.want.shape, total, total, row.labels) != Misfit::kNone) continue;
    const auto may = [&](std::span<const std::size_t> victims) {
      std::map<RoleName, Usage> with = taken;
      for (const std::size_t i : victims) {
        const Victim& c = pool.candidates[i];
        const RoleName& role = h.frameworks.at(c.owner).role;
        const Usage usage = usage_of(c.amount);
        if (!h.roles.may_lose(role, usage, with) && !hooks::mutant("claims.guarantee_ignored")) return false;
        add_usage(with, role, usage);
      }
      return true;
    };
    auto taking = least_harm(line.want.shape, pool.free, total, row.labels, pool.candidates, may, looks);
    if (!taking) continue;
    const bool better =
        !best || taking->harm.less_than(best->taking.harm) || (taking->harm == best->taking.harm && row.id.str() < best_name);
    if (!better) continue;
    best_name = row.id.str();
    best.emplace();
    best->agent = agent;
    best->taking = *std::move(taking);
  }
  if (!best) return std::nullopt;

  // Take it out of the pool, so that the next unit does not count on it.
  Pool& pool = pools.at(best->agent);
  const AgentRow& row = h.agents.at(best->agent);
  std::vector<Victim> left;
  for (std::size_t i = 0, at = 0; i < pool.candidates.size(); ++i) {
    if (at < best->taking.victims.size() && best->taking.victims[at] == i) {
      ++at;
      const auto added = pool.free.add(pool.candidates[i].amount);
      BOURSE_ASSERT(added, "slices of one agent do not overlap");
      best->victims.push_back(std::move(pool.candidates[i]));
    } else {
      left.push_back(std::move(pool.candidates[i]));
    }
  }
  pool.candidates = std::move(left);
  auto amount = carve(line.want.shape, pool.free, h.ledger.account(best->agent).total, row.labels);
  BOURSE_ASSERT(static_cast<bool>(amount), "it fits: " + to_text(line.want.shape));
  const auto done = pool.free.subtract(*amount);
  BOURSE_ASSERT(done, "it was carved out of this");
  best->amount = *std::move(amount);
  best->offers = pool.offers;
  return best;
}

// Finds room for what the line lacks: all of a gang or nothing, else as many as there are.
bool ClaimTable::feed(House& h, FrameworkIx ix, std::uint64_t id, std::int64_t& looks) {
  FrameworkRow& row = h.frameworks.at(ix);
  LineRow& line = *row.line(id);
  const std::uint64_t had = claimed(ix, id);
  const std::uint32_t allowed = std::min(line.unmet(), h.roles.room(h, ix, line));
  const std::uint32_t together = gang_need(line);
  std::uint64_t units = allowed > had ? allowed - had : 0;
  if (together > 0) units = had > 0 || allowed < together ? 0 : together;
  if (together == 0) units = std::min<std::uint64_t>(units, kUnitsPerTurn);
  if (units == 0 || claims_.size() + units > kClaimsMax) return false;
  if (together > 0 && h.allocator.gathers_for_another(row.role, ix, id)) return false;

  // How many units the guarantee covers, beside those that room is being made for.
  const Usage one = usage_of(line.want.shape);
  RoleName covered;
  std::uint64_t guaranteed = 0;
  Usage so_many;
  for (std::uint64_t i = 1; i <= had + units; ++i) {
    so_many.add(one);
    const RoleName by = h.roles.covered(row.role, so_many);
    if (by.str().empty()) break;
    if (i > had) ++guaranteed, covered = by;
  }
  bool reclaim = false;
  std::map<AgentIx, Pool> all;
  const auto look = [&] {
    pools(h, ix, line, reclaim, covered, all);
    bool anything = false;
    for (const auto& [agent, pool] : all) {
      looks -= static_cast<std::int64_t>(pool.candidates.size());
      anything = anything || !pool.candidates.empty() || !pool.offers.empty();
    }
    return anything;
  };
  bool anything = look();
  if (!anything && guaranteed > 0) reclaim = true, anything = look();
  if (!anything) return false;

  std::map<RoleName, Usage> taken;
  for (const auto& [slice, keys] : victims_) {
    if (const SliceRow* lost = h.slices.find(slice); lost != nullptr)
      add_usage(taken, h.frameworks.at(lost->framework).role, usage_of(lost->spec.resources));
  }
  std::vector<Pick> picks;
  std::map<AgentIx, std::uint32_t> there;
  std::set<AgentIx> not_there;
  if (together > 0) {
    for (const auto& [agent, pool] : all)
      if (gang_room(h, agent, row, line) == 0) not_there.insert(agent);
  }
  while (picks.size() < (reclaim ? std::min(units, guaranteed) : units)) {
    auto next = pick(h, line, all, not_there, taken, looks);
    if (!next && !reclaim && picks.size() < guaranteed) {
      reclaim = true;
      if (look()) continue;
    }
    if (!next) break;
    // Room without taking anything from anybody is not for us to give, but as a part of a gang.
    if (together == 0 && next->victims.empty() && next->offers.empty() && !there.contains(next->agent)) {
      not_there.insert(next->agent);
      continue;
    }
    for (const Victim& c : next->victims) add_usage(taken, h.frameworks.at(c.owner).role, usage_of(c.amount));
    if (++there[next->agent] >= (together > 0 ? gang_room(h, next->agent, row, line) : UINT32_MAX)) not_there.insert(next->agent);
    picks.push_back(*std::move(next));
  }
  if (picks.empty() || (picks.size() < together && !hooks::mutant("claims.half_a_gang"))) return false;
  carry_out(h, ix, line, std::move(picks), together > 0);
  return true;
}

void ClaimTable::carry_out(House& h, FrameworkIx ix, const LineRow& line, std::vector<Pick> picks, bool gang) {
  const FrameworkRow& row = h.frameworks.at(ix);
  const std::string id = row.id.str(), role = row.role.str();
  const std::uint64_t number = line.want.id, group = gang ? ++last_gang_ : 0;
  const std::int64_t priority = h.roles.priority(h, row.role);
  const Duration grace = h.options.revoke_grace, take_at = h.now.mono + grace, deadline = take_at + claim_life(h);
  std::map<AgentIx, std::set<SliceId>> on_agent;
  std::map<AgentIx, Resources> coming, needed;  // there, for all claims of this plan
  std::map<SliceId, std::string> reasons;
  for (Pick& pick : picks) {
    Claim claim;
    claim.key = kFirstKey + ++last_;
    claim.framework = ix, claim.line = number, claim.agent = pick.agent, claim.gang = group;
    claim.amount = std::move(pick.amount);
    claim.take_at = take_at, claim.deadline = deadline;
    for (const Victim& c : pick.victims) {
      const bool by_priority = c.priority < priority;
      reasons[c.slice] = by_priority ? "preempted for framework " + id + " of role " + role + ", whose priority is " +
                                           std::to_string(priority) + ", not " + std::to_string(c.priority)
                                     : "reclaimed for framework " + id + " of role " + role + ", which was guaranteed it";
      on_agent[pick.agent].insert(c.slice);
    }
    // What an earlier unit's victims leave over may be a part of this one's.
    claim.victims = on_agent[pick.agent];
    Resources& there = coming.try_emplace(pick.agent, h.ledger.account(pick.agent).free).first->second;
    bool known = static_cast<bool>(needed[pick.agent].add(claim.amount));
    for (const Victim& c : pick.victims) known = known && there.add(c.amount);
    // Offers that are in the way end, the newest first; no more of them than it takes.
    for (auto offer = pick.offers.rbegin(); offer != pick.offers.rend(); ++offer) {
      const auto open = h.offers.open.find(*offer);
      if (open == h.offers.open.end() || (known && there.contains(needed[pick.agent]))) continue;
      known = known && there.add(open->second.resources);
      end_offer(h, *offer, OfferEnd::kRescinded);
    }
    for (const SliceId& slice : claim.victims) victims_[slice].insert(claim.key);
    by_agent_[pick.agent].insert(claim.key);
    const AgentIx agent = pick.agent;
    claims_.emplace(claim.key, std::move(claim));
    fill(h, agent);
  }
  timers.push(take_at, 0);
  timers.push(deadline, 0);
  if (gang) h.allocator.extend_accumulation(h, ix, number, deadline);
  for (const auto& [slice, reason] : reasons) {
    for (const std::uint64_t key : victims_[slice]) claims_.at(key).reason = reason;
    h.log(LogLevel::kInfo, "slice_preempted",
          {{"slice", to_text(slice)},
           {"agent", h.agents.at(h.slices.find(slice)->agent).id.str()},
           {"for", id},
           {"line", std::to_string(number)},
           {"reason", reason}});
    if (grace > Duration{0}) revoke_slice(h, slice, grace, reason);
  }
  if (grace <= Duration{0}) due(h);
}

// --- from a claim to an offer --------------------------------------------------------------------------------------------

void ClaimTable::fill(House& h, AgentIx agent) {
  const auto found = by_agent_.find(agent);
  if (found == by_agent_.end() || hooks::mutant("claims.keep_nothing")) return;
  const Account& account = h.ledger.account(agent);
  for (const std::uint64_t key : found->second) {
    if (!account.open || account.shortfall || account.free.empty()) return;
    Resources missing = claims_.at(key).amount;
    const auto ok = missing.subtract(h.ledger.kept(agent, key));
    BOURSE_ASSERT(ok, "more is kept than was claimed");
    h.ledger.keep(agent, key, common_part(missing, account.free));
  }
}

// Drops what nobody wants any more, and offers what is together.
void ClaimTable::check_claims(House& h) {
  std::map<std::pair<FrameworkIx, std::uint64_t>, std::vector<std::uint64_t>> by_line;
  for (const auto& [key, claim] : claims_) by_line[{claim.framework, claim.line}].push_back(key);
  for (auto& [whose, keys] : by_line) {
    FrameworkRow& row = h.frameworks.at(whose.first);
    LineRow* line = row.removed || row.peer.value == 0 ? nullptr : row.line(whose.second);
    const std::uint32_t lacking = line == nullptr ? 0 : line->want.gang_min > 1 ? gang_need(*line) : line->unmet();
    while (keys.size() > lacking && !hooks::mutant("claims.outlive_demand")) {
      drop(h, keys.back());
      keys.pop_back();
    }
    const auto together = [&](std::uint64_t key) {
      const Claim& claim = claims_.at(key);
      return h.ledger.kept(claim.agent, key).contains(claim.amount);
    };
    const bool gang = !keys.empty() && claims_.at(keys.front()).gang != 0;
    if (gang && !std::all_of(keys.begin(), keys.end(), together)) continue;
    bool offered = false;
    for (const std::uint64_t key : keys) {
      if (line == nullptr || !together(key)) continue;
      const Claim claim = claims_.at(key);
      if (h.allocator.offer_claim(h, claim)) offered = true;
      drop(h, key);
    }
    if (!offered) continue;
    if (line->want.gang_min > 1 && gang_need(*line) == 0) h.allocator.drop_accumulation(h, whose.first, whose.second);
    framework_refresh(h, whose.first);
  }
}

// Without the claim its slices are not taken any more, unless the agent has been told.
void ClaimTable::drop(House& h, std::uint64_t key) {
  const auto node = claims_.extract(key);
  if (node.empty()) return;
  const Claim& claim = node.mapped();
  for (const SliceId& slice : claim.victims) {
    const auto found = victims_.find(slice);
    if (found == victims_.end()) continue;
    found->second.erase(key);
    if (found->second.empty()) victims_.erase(found);
  }
  const auto at = by_agent_.find(claim.agent);
  at->second.erase(key);
  if (at->second.empty()) by_agent_.erase(at);
  h.ledger.let_go(claim.agent, key);
}

void ClaimTable::due(House& h) {
  for (int what = 0; timers.pop_due(h.now.mono, what);) wanted_ = true;
  std::map<SliceId, std::string> take;
  std::vector<std::uint64_t> lapsed;
  check_claims(h);
  for (auto& [key, claim] : claims_) {
    if (claim.take_at <= h.now.mono && !claim.taken && !hooks::mutant("claims.never_take")) {
      claim.taken = true;
      for (const SliceId& slice : claim.victims) take.emplace(slice, claim.reason);
    }
    if (claim.deadline <= h.now.mono) lapsed.push_back(key);
  }
  for (const auto& [slice, reason] : take) revoke_slice(h, slice, Duration{0}, reason);
  for (const std::uint64_t key : lapsed) {
    const auto found = claims_.find(key);
    if (found == claims_.end()) continue;
    h.log(LogLevel::kWarn, "claim_lapsed",
          {{"framework", h.frameworks.at(found->second.framework).id.str()},
           {"line", std::to_string(found->second.line)},
           {"agent", h.agents.at(found->second.agent).id.str()},
           {"hint", "what was to be freed for it was not, in time; it is looked for anew"}});
    drop(h, key);
  }
  h.flush_made();
}

void ClaimTable::slice_ended(const SliceId& slice) {
  const auto node = victims_.extract(slice);
  if (node.empty()) return;
  for (const std::uint64_t key : node.mapped()) claims_.at(key).victims.erase(slice);
}

void ClaimTable::framework_gone(House& h, FrameworkIx framework) {
  std::erase_if(hungry_, [&](const auto& entry) { return entry.first.first == framework; });
  std::vector<std::uint64_t> keys;
  for (const auto& [key, claim] : claims_)
    if (claim.framework == framework) keys.push_back(key);
  for (const std::uint64_t key : keys) drop(h, key);
}

void ClaimTable::agent_lost(House& h, AgentIx agent) {
  const auto found = by_agent_.find(agent);
  if (found == by_agent_.end()) return;
  const std::set<std::uint64_t> keys = found->second;
  std::set<std::uint64_t> gangs;  // without one of its parts, a gang has to be thought out anew
  for (const std::uint64_t key : keys)
    if (const std::uint64_t gang = claims_.at(key).gang; gang != 0) gangs.insert(gang);
  std::vector<std::uint64_t> all(keys.begin(), keys.end());
  for (const auto& [key, claim] : claims_)
    if (gangs.contains(claim.gang) && !keys.contains(key)) all.push_back(key);
  for (const std::uint64_t key : all) drop(h, key);
}

}  // namespace bourse::house
