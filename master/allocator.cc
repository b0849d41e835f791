#include "master/allocator.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "master/house.h"
#include "plugins/policy/drf.h"

namespace bourse::house {

Allocator::Allocator() : policy_(std::make_unique<Drf>()) {}

void Allocator::framework_added(House& h, FrameworkIx ix) {
  const FrameworkRow& row = h.frameworks.at(ix);
  policy_->claimant_changed({.handle = ix, .name = row.id.str(), .weight = 1, .used = row.used, .wants = row.wants});
}

void Allocator::framework_gone(House& h, FrameworkIx ix) {
  FrameworkRow& row = h.frameworks.at(ix);
  BOURSE_ASSERT(!row.wants, row.id.str());
  policy_->claimant_removed(ix);
  dirty_.erase(ix);
}

void Allocator::framework_used(House& h, FrameworkIx ix) {
  if (!h.frameworks.at(ix).removed) policy_->used_changed(ix, h.frameworks.at(ix).used);
}

void Allocator::framework_wants(House& h, FrameworkIx ix, bool was, std::int64_t was_cpus, std::int64_t was_mem) {
  const FrameworkRow& row = h.frameworks.at(ix);
  if (was != row.wants) policy_->wants_changed(ix, row.wants);
  if (was == row.wants && (!was || (was_cpus == row.least_cpus && was_mem == row.least_mem))) return;
  if (was) {
    wanted_cpus_.erase(wanted_cpus_.find(was_cpus));
    wanted_mem_.erase(wanted_mem_.find(was_mem));
  }
  if (row.wants) {
    wanted_cpus_.insert(row.least_cpus);
    wanted_mem_.insert(row.least_mem);
  }
}

void Allocator::agent_gone(AgentIx ix) {
  dirty_agents_.erase(ix);
  if (ix < places_.size() && places_[ix]) {
    index_.erase(*places_[ix]);
    places_[ix].reset();
  }
}

void Allocator::settle(House& h) {
  if (armed_ || (!h.ledger.touched() && dirty_.empty() && dirty_agents_.empty() && h.agents.changed.empty())) return;
  armed_ = true;
  h.out->arm(TimerKey{kPassTimer, 0, {}}, h.options.coalesce);
}

void Allocator::place(const House& h, AgentIx agent) {
  if (agent >= places_.size()) places_.resize(agent + 1);
  std::optional<Key>& at = places_[agent];
  const Resources& free = h.ledger.account(agent).free;
  std::optional<Key> key;
  if (free.cpus.value > 0 || free.mem.value > 0 || !free.devices.empty()) {
    key = Key{!free.devices.empty(), free.cpus.value, free.mem.value, agent};
  }
  if (at == key) return;
  if (at && key) {
    auto node = index_.extract(*at);
    node.value() = *key;
    index_.insert(std::move(node));
  } else if (at) {
    index_.erase(*at);
  } else {
    index_.insert(*key);
  }
  at = key;
}

void Allocator::reindex(House& h) {
  for (const Ledger::Touched& touched : h.ledger.take_touched()) {
    place(h, touched.agent);
    if (touched.grew) dirty_agents_.insert(touched.agent);
  }
}

bool Allocator::nothing_wanted(const Resources& free) const {
  return wanted_cpus_.empty() || free.cpus.value < *wanted_cpus_.begin() || free.mem.value < *wanted_mem_.begin();
}

bool Allocator::may_offer(const House& h, const FrameworkRow& framework, std::uint64_t line, AgentIx agent) const {
  if (framework.hold_off.empty()) return true;
  const auto found = framework.hold_off.find({line, agent});
  return found == framework.hold_off.end() || found->second <= h.now.mono;
}

Accumulation* Allocator::accumulation(const FrameworkRow& framework) {
  const auto found = accumulating_.find(framework.role);
  return found == accumulating_.end() ? nullptr : &found->second;
}

namespace {

// One amount for `units` of the shape. Where a unit need not sit on one node or device, one carve of the sum is the same.
std::uint32_t carve_units(const Shape& shape, const Resources& free, const Resources& total, const Labels& labels,
                          std::uint32_t units, Resources& amount) {
  const auto times = [&](std::int64_t one) { return one * static_cast<std::int64_t>(units); };
  if (units > 1 && shape.devices.empty() && !shape.same_numa && !shape.whole_host) {
    Shape all = shape;
    all.cpus = MilliCpus(times(shape.cpus.value));
    all.mem = Bytes(times(shape.mem.value));
    all.disk = Bytes(times(shape.disk.value));
    all.ports = shape.ports * units;
    for (const auto& [kind, one] : shape.others.items()) all.others.set(kind, times(one));
    if (auto carved = carve(all, free, total, labels)) return amount = *std::move(carved), units;
  }
  Resources rest = free;
  std::uint32_t done = 0;
  while (done < units) {
    auto carved = carve(shape, rest, total, labels);
    if (!carved || !rest.subtract(*carved) || !amount.add(*carved)) break;
    ++done;
  }
  return done;
}

std::uint32_t gang_need(const LineRow& line) {  // units still missing until the gang is together; 0: not a gang, or together
  if (line.want.gang_min <= 1) return 0;
  const std::uint64_t left = line.want.count > line.accepted ? line.want.count - line.accepted : 0;
  const std::uint64_t all = std::min<std::uint64_t>(line.want.gang_min, left);
  return all > line.offered ? static_cast<std::uint32_t>(all - line.offered) : 0;
}

// A gang is slices on several agents: of each gang that the line still wants, at most one slice on one agent. Where the whole
// cluster has fewer agents than a gang has slices, some must share.
std::uint32_t gang_room(House& h, AgentIx agent, const FrameworkRow& row, const LineRow& line) {
  if (line.want.gang_min <= 1 || h.agents.size() < line.want.gang_min) return UINT32_MAX;
  const std::uint64_t left = line.want.count > line.accepted ? line.want.count - line.accepted : 0;
  std::uint64_t room = (left + line.want.gang_min - 1) / line.want.gang_min;
  for (const std::uint64_t id : row.offers) {
    const OfferRow& offer = h.offers.open.at(id);
    if (offer.agent == agent && offer.line == line.want.id) room -= std::min(room, offer.units);
  }
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(room, UINT32_MAX));
}

}  // namespace

std::uint32_t Allocator::give(House& h, AgentIx agent, FrameworkIx ix, LineRow& line, std::uint32_t limit, GangId reservation,
                              Given* given) {
  const Account& account = h.ledger.account(agent);
  if (h.frameworks.at(ix).offers.size() >= h.options.offers_per_framework_max || account.free.empty()) return 0;
  Resources amount;
  std::uint32_t units = 1;
  if (line.wildcard) {
    amount = account.free;
  } else {
    const Labels& labels = h.agents.at(agent).labels;
    limit = std::min(limit, gang_room(h, agent, h.frameworks.at(ix), line));
    if (limit == 0) return 0;
    units = count_fits(line.want.shape, account.free, account.total, labels, std::min(limit, line.unmet()));
    if (units > 0) units = carve_units(line.want.shape, account.free, account.total, labels, units, amount);
    if (units == 0) return 0;
  }
  if (given != nullptr) {
    for (const auto& [to, id] : *given) {
      if (to == std::pair(ix, line.want.id)) return grow_offer(h, id, amount, units), units;
    }
  }
  OfferRow offer{.id = {},
                 .generation = {},
                 .agent = agent,
                 .framework = ix,
                 .line = line.want.id,
                 .units = units,
                 .resources = std::move(amount)};
  offer.expires = h.now.mono + h.options.offer_ttl;
  offer.reservation = reservation;
  if (reservation.value != 0) offer.expires += accumulation(h.frameworks.at(ix))->deadline - h.now.mono;
  const std::uint64_t id = make_offer(h, std::move(offer));
  if (given != nullptr) given->push_back({{ix, line.want.id}, id});
  return units;
}

// One framework's turn at one agent. `fine`: at most a quarter of what fits of one line, then the next in rank.
bool Allocator::serve(House& h, AgentIx agent, FrameworkIx ix, bool fine, Given& given) {
  FrameworkRow& row = h.frameworks.at(ix);
  const Account& account = h.ledger.account(agent);
  bool gave = false;
  for (LineRow& line : row.lines) {
    if (line.unmet() == 0 || line.at_back || !may_offer(h, row, line.want.id, agent)) continue;
    const Shape& shape = line.want.shape;
    if (!line.wildcard && (account.free.cpus.value < shape.cpus.value || account.free.mem.value < shape.mem.value)) continue;
    std::uint32_t limit = line.wildcard ? 1 : line.unmet();
    GangId reservation;
    if (const std::uint32_t need = gang_need(line); need > 0) {
      const Accumulation* mine = accumulation(row);
      if (mine != nullptr && (mine->framework != ix || mine->line != line.want.id)) continue;
      if (mine == nullptr) {
        if (fits(shape, account.free, account.total, h.agents.at(agent).labels) != Misfit::kNone) continue;
        reindex(h);
        gather(h, ix, line);
        gave = true;
        continue;
      }
      limit = std::min(limit, need);
      reservation = mine->reservation;
    } else if (fine && !line.wildcard) {
      const std::uint32_t all = count_fits(shape, account.free, account.total, h.agents.at(agent).labels, limit);
      limit = std::min(limit, std::max(1U, (all + 3) / 4));
    }
    ++h.counters.demands_examined;
    if (give(h, agent, ix, line, limit, reservation, &given) == 0) continue;
    gave = true;
    if (reservation.value != 0 && gang_need(line) == 0) drop_accumulation(h, ix, line.want.id);
    if (fine) break;
  }
  if (gave) framework_refresh(h, ix);
  return gave;
}

// What frees goes first to the gangs that are gathering, the oldest first, whatever the rank says of their frameworks.
void Allocator::serve_accumulations(House& h, AgentIx agent) {
  std::map<std::uint64_t, Accumulation> by_age;
  for (const auto& [role, accumulation] : accumulating_) by_age.emplace(accumulation.reservation.value, accumulation);
  for (const auto& [age, accumulation] : by_age) {
    const FrameworkIx ix = accumulation.framework;
    FrameworkRow& row = h.frameworks.at(ix);
    LineRow* line = row.line(accumulation.line);
    const std::uint32_t need = line == nullptr ? 0 : gang_need(*line);
    if (need == 0 || !may_offer(h, row, line->want.id, agent)) continue;
    if (give(h, agent, ix, *line, need, accumulation.reservation, nullptr) == 0) continue;
    if (gang_need(*line) == 0) drop_accumulation(h, ix, line->want.id);
    framework_refresh(h, ix);
  }
}

void Allocator::offer_agent(House& h, AgentIx agent) {
  ++h.counters.agents_examined;
  const Account& account = h.ledger.account(agent);
  const bool fine = h.agents.size() < kCoarseAgents && policy_->wanting() > 1;
  Given given;
  if (!accumulating_.empty()) serve_accumulations(h, agent);
  policy_->restart();
  while (!account.free.empty() && !nothing_wanted(account.free)) {
    const std::optional<Policy::Handle> next = policy_->next();
    if (!next) break;
    const FrameworkRow& row = h.frameworks.at(*next);
    if (account.free.cpus.value < row.least_cpus || account.free.mem.value < row.least_mem) continue;
    serve(h, agent, *next, fine, given);
  }
}

std::vector<Allocator::Fit> Allocator::search(House& h, const FrameworkRow& row, const LineRow& line, std::uint32_t enough,
                                              bool* exhausted) {
  std::vector<Fit> fits;
  const Shape& shape = line.want.shape;
  std::uint64_t sum = 0;
  const std::size_t room =
      h.options.offers_per_framework_max - std::min<std::size_t>(row.offers.size(), h.options.offers_per_framework_max);
  for (const bool devices : {false, true}) {
    if (!devices && !shape.devices.empty()) continue;
    for (auto it = index_.lower_bound(Key{devices, shape.cpus.value, 0, 0}); it != index_.end() && it->devices == devices; ++it) {
      if (sum >= enough || fits.size() >= room) return *exhausted = false, fits;
      ++h.counters.agents_examined;
      if (it->mem < shape.mem.value || !may_offer(h, row, line.want.id, it->agent)) continue;
      const Account& account = h.ledger.account(it->agent);
      const auto want = std::min(static_cast<std::uint32_t>(std::min<std::uint64_t>(enough - sum, UINT32_MAX)),
                                 gang_room(h, it->agent, row, line));
      if (want == 0) continue;
      const std::uint32_t units = line.wildcard
                                      ? (account.free.empty() ? 0 : 1)
                                      : count_fits(shape, account.free, account.total, h.agents.at(it->agent).labels, want);
      if (units == 0) continue;
      fits.push_back({it->agent, units});
      if (!line.wildcard) sum += units;
    }
  }
  *exhausted = sum < enough;
  return fits;
}

void Allocator::seek(House& h, FrameworkIx ix, LineRow& line) {
  ++h.counters.demands_examined;
  bool exhausted = false;
  for (const Fit& fit : search(h, h.frameworks.at(ix), line, line.unmet(), &exhausted)) {
    give(h, fit.agent, ix, line, fit.units, GangId(), nullptr);
  }
  line.starved = exhausted;
}

void Allocator::gather(House& h, FrameworkIx ix, LineRow& line) {
  ++h.counters.demands_examined;
  FrameworkRow& row = h.frameworks.at(ix);
  const std::uint32_t need = gang_need(line);
  bool exhausted = false;
  const std::vector<Fit> found = search(h, row, line, line.unmet(), &exhausted);
  line.starved = exhausted;
  std::uint64_t sum = 0;
  for (const Fit& fit : found) sum += fit.units;
  if (sum == 0) return;
  GangId reservation;
  if (sum < need) {
    const Duration life = h.options.offer_ttl * kAccumulationTtls;
    reservation = GangId((h.epoch.value << 40) | ++last_reservation_);
    accumulating_[row.role] = {ix, line.want.id, reservation, h.now.mono + life, h.now.wall};
    gathering.push(h.now.mono + life, reservation.value);
    h.log(LogLevel::kInfo, "accumulation_started",
          {{"framework", row.id.str()},
           {"line", std::to_string(line.want.id)},
           {"have", std::to_string(sum)},
           {"need", std::to_string(need)}});
  }
  for (const Fit& fit : found) give(h, fit.agent, ix, line, fit.units, reservation, nullptr);
}

void Allocator::consider(House& h, FrameworkIx ix, LineRow& line) {
  if (line.unmet() == 0 || line.starved || line.at_back) return;
  if (const std::uint32_t need = gang_need(line); need > 0) {
    const Accumulation* mine = accumulation(h.frameworks.at(ix));
    if (mine == nullptr) return gather(h, ix, line);
    if (mine->framework != ix || mine->line != line.want.id) return;
    bool exhausted = false;
    const GangId reservation = mine->reservation;
    for (const Fit& fit : search(h, h.frameworks.at(ix), line, need, &exhausted))
      give(h, fit.agent, ix, line, fit.units, reservation, nullptr);
    line.starved = exhausted;
    if (gang_need(line) == 0) drop_accumulation(h, ix, line.want.id);
    return;
  }
  seek(h, ix, line);
}

void Allocator::pass(House& h) {
  armed_ = false;
  send_facts(h);
  reindex(h);
  if (dirty_.empty() && dirty_agents_.empty()) return;
  ++h.counters.passes;

  const std::set<AgentIx> agents = std::exchange(dirty_agents_, {});
  for (const AgentIx agent : agents) offer_agent(h, agent);
  reindex(h);

  const std::set<FrameworkIx> dirty = std::exchange(dirty_, {});
  std::vector<FrameworkIx> ranked;
  for (const FrameworkIx ix : dirty) {
    if (h.frameworks.at(ix).wants) ranked.push_back(ix);
  }
  std::sort(ranked.begin(), ranked.end(), [&](FrameworkIx a, FrameworkIx b) { return policy_->before(a, b); });
  for (const FrameworkIx ix : ranked) {
    for (LineRow& line : h.frameworks.at(ix).lines) consider(h, ix, line);
    framework_refresh(h, ix);
  }

  for (const auto& [ix, id] : std::exchange(back_, {})) {
    LineRow* line = h.frameworks.at(ix).line(id);
    if (line == nullptr) continue;
    line->at_back = line->starved = false;
    reindex(h);
    consider(h, ix, *line);
    framework_refresh(h, ix);
  }
  reindex(h);
  // What the pass itself ended or gave is settled; agents that it dirtied (none, but for a bug) wait for the next one.
  h.flush_made();
}

void Allocator::accumulations_due(House& h) {
  std::uint64_t reservation = 0;
  while (gathering.pop_due(h.now.mono, reservation)) {
    for (auto it = accumulating_.begin(); it != accumulating_.end(); ++it) {
      if (it->second.reservation.value != reservation) continue;
      const Accumulation lapsed = it->second;
      accumulating_.erase(it);
      const std::set<std::uint64_t> offers = h.frameworks.at(lapsed.framework).offers;
      for (const std::uint64_t id : offers) {
        if (h.offers.open.at(id).reservation == lapsed.reservation) end_offer(h, id, OfferEnd::kExpired);
      }
      if (LineRow* line = h.frameworks.at(lapsed.framework).line(lapsed.line); line != nullptr) {
        line->at_back = true;
        back_.emplace(lapsed.framework, lapsed.line);
      }
      dirty_.insert(lapsed.framework);
      wake_gangs(h);
      break;
    }
  }
}

void Allocator::drop_accumulation(House& h, FrameworkIx framework, std::uint64_t line) {
  for (auto it = accumulating_.begin(); it != accumulating_.end(); ++it) {
    if (it->second.framework != framework || it->second.line != line) continue;
    accumulating_.erase(it);
    return wake_gangs(h);
  }
}

// The role's next gang may begin to gather.
void Allocator::wake_gangs(House& h) {
  for (const auto& [id, ix] : h.frameworks.by_name()) {
    FrameworkRow& row = h.frameworks.at(ix);
    if (!row.wants) continue;
    for (LineRow& line : row.lines) {
      if (line.want.gang_min > 1) line.starved = false, dirty_.insert(ix);
    }
  }
}

void Allocator::hold_offs_due(House& h) {
  std::pair<FrameworkIx, std::pair<std::uint64_t, AgentIx>> due;
  while (hold_offs.pop_due(h.now.mono, due)) {
    FrameworkRow& row = h.frameworks.at(due.first);
    const auto found = row.hold_off.find(due.second);
    if (found == row.hold_off.end() || found->second > h.now.mono) continue;
    row.hold_off.erase(found);
    if (row.wants && !h.agents.at(due.second.second).removed) dirty_agents_.insert(due.second.second);
  }
}

}  // namespace bourse::house
