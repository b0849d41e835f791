#include "master/allocator.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "common/core/hooks.h"
#include "master/house.h"

namespace bourse::house {

Allocator::Allocator(House& house) {
  const MasterOptions& options = house.options;
  policy::HostOptions host;
  host.name = "bourse-master";
  host.fallback = "drf";
  host.seed = options.policy_seed;
  host.budget = options.policy_budget;
  host.guard = options.policy_guard;
  host.log = [&house](std::string line) {
    if (house.out != nullptr) house.out->log(std::move(line));
  };
  auto made = policy::Host::make(options.policy, std::move(host));
  BOURSE_ASSERT(bool(made), made.error().text());  // main checks it
  policy_ = *std::move(made);
}

void Allocator::framework_changed(House& h, FrameworkIx ix) {
  const FrameworkRow& row = h.frameworks.at(ix);
  if (ix >= members_.size()) members_.resize(ix + 1);
  Member& member = members_[ix];
  const bool moves = member.present && member.role != row.role;
  RoleAccount* account = &account_of(h, row.role);
  if (!member.present || moves) {
    ++account->members;
    account_used(row.role, &row.used, nullptr);
  }
  placed_.erase(ix);
  for (const LineRow& line : row.lines) {
    if (!line.placed()) continue;
    placed_.insert(ix);
    h.placements.begin(h, row, line.want.shape);
  }
  const auto asked = std::find_if(row.lines.begin(), row.lines.end(), [](const LineRow& line) { return line.unmet() > 0; });
  policy_->claimant({.handle = ix,
                     .account = account->handle,
                     .gang = asked == row.lines.end() ? 1 : std::max(1U, asked->want.gang_min),
                     .units = row.wants ? std::uint64_t{1} : 0,
                     .name = row.id.str(),
                     .used = &row.used,
                     .shape = asked == row.lines.end() ? nullptr : &asked->want.shape});
  if (moves) leave_role(member);
  member.role = row.role;
  member.counted = row.used;
  member.present = true;
}

void Allocator::framework_gone(House& h, FrameworkIx ix) {
  FrameworkRow& row = h.frameworks.at(ix);
  BOURSE_ASSERT(!row.wants, row.id.str());
  policy_->claimant_removed(ix);
  leave_role(members_[ix]);
  members_[ix] = Member{};
  h.roles.discharge(h, ix);
  h.claims.framework_gone(h, ix);
  dirty_.erase(ix);
  placed_.erase(ix);
  h.placements.forget(row.id);
  std::erase_if(reserved_, [&](const auto& entry) { return entry.second.framework == ix; });
}

void Allocator::framework_used(House& h, FrameworkIx ix) {
  h.views.framework(ix);
  const FrameworkRow& row = h.frameworks.at(ix);
  if (row.removed) return;
  Member& member = members_[ix];
  account_used(member.role, &row.used, &member.counted);
  member.counted = row.used;
  policy_->claimant_used(ix, row.used);
  h.roles.charge(h, ix);
}

Result<> Allocator::use_policy(House& h, const policy::Choice& choice) {
  const bool knew_agents = policy_->wants_agents();
  const std::string former = policy_->choice().spec.name;
  BOURSE_TRY(policy_->swap(choice));
  if (policy_->choice().spec.name != former) take_learnt(h);
  if (policy_->wants_agents() && !knew_agents) {
    for (const auto& [id, ix] : h.agents.by_name()) feed(h, ix);
  }
  for (const auto& [id, ix] : h.frameworks.by_name()) {
    if (h.frameworks.at(ix).wants) dirty_.insert(ix);
  }
  return {};
}

void Allocator::feed(House& h, AgentIx agent) {
  const Account& account = h.ledger.account(agent);
  policy_->agent(agent, h.agents.at(agent).id.str(), account.total, account.free);
}

void Allocator::framework_wants(House& h, FrameworkIx ix, bool was, std::int64_t was_cpus, std::int64_t was_mem) {
  const FrameworkRow& row = h.frameworks.at(ix);
  if (was != row.wants) policy_->claimant_units(ix, row.wants ? 1 : 0);
  if (!was && row.wants && ix < members_.size()) members_[ix].waits_since = h.now.mono;
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
  reserved_.erase(ix);
  policy_->agent_removed(ix);
  if (ix < places_.size() && places_[ix]) {
    index_.erase(*places_[ix]);
    places_[ix].reset();
  }
}

void Allocator::settle(House& h) {
  const bool idle = !h.ledger.touched() && dirty_.empty() && dirty_agents_.empty() && h.agents.changed.empty() &&
                    woken_ == h.placements.version();
  if (armed_ || (idle && !h.lending.due(h) && !h.claims.wanted() && !h.reservations.wanted())) return;
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

// What is kept for somebody is taken before anything is offered: what was freed for a demand, then what operators reserved.
void Allocator::keep_first(House& h, AgentIx agent) {
  h.claims.fill(h, agent);
  h.reservations.fill(h, agent);
}

void Allocator::reindex(House& h) {
  const std::vector<Ledger::Touched> all = h.ledger.take_touched();
  if (h.claims.any() || h.reservations.any()) {
    for (const Ledger::Touched& touched : all) keep_first(h, touched.agent);
    h.ledger.take_touched();  // the same agents, of which less is free now
  }
  for (const Ledger::Touched& touched : all) {
    place(h, touched.agent);
    if (policy_->wants_agents()) feed(h, touched.agent);
    if (touched.grew) dirty_agents_.insert(touched.agent);
  }
}

bool Allocator::nothing_wanted(const Resources& free) const {
  return wanted_cpus_.empty() || free.cpus.value < *wanted_cpus_.begin() || free.mem.value < *wanted_mem_.begin();
}

// A host with devices is offered to work that needs none when no other host could have it.
bool Allocator::scarce(const Resources& free, const LineRow& line) const {
  if (free.devices.empty() || line.wildcard || line.starved || !line.want.shape.devices.empty()) return false;
  const auto other = index_.lower_bound(Key{false, line.want.shape.cpus.value, 0, 0});
  return other != index_.end() && !other->devices && !hooks::mutant("master.scarce_first");
}

bool closes_before(const House& h, const LineRow& line, AgentIx agent) {
  const Duration lasts = line.want.lasts, closes = h.agents.at(agent).closes;
  return lasts.count() > 0 && closes.count() > 0 && lasts > closes - h.now.wall && !hooks::mutant("allocator.window_ignored");
}

bool taken_before(const House& h, const FrameworkRow& framework, const LineRow& line, AgentIx agent) {
  if (line.want.lasts.count() == 0 || hooks::mutant("allocator.reservation_ignored")) return false;
  const Duration start = h.reservations.taken_from(h, h.agents.at(agent).id, framework.role, line.want.reservation);
  return start.count() > 0 && line.want.lasts > start - h.now.wall;
}

bool Allocator::may_offer(const House& h, const FrameworkRow& framework, const LineRow& line, AgentIx agent, bool kept) const {
  if (!kept && !line.want.reservation.empty()) return false;
  if (closes_before(h, line, agent) || taken_before(h, framework, line, agent)) return false;
  if (framework.hold_off.empty()) return true;
  const auto found = framework.hold_off.find({line.want.id, agent});
  return found == framework.hold_off.end() || found->second <= h.now.mono;
}

Accumulation* Allocator::accumulation(const FrameworkRow& framework) {
  const auto found = accumulating_.find(framework.role);
  return found == accumulating_.end() ? nullptr : &found->second;
}

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

std::uint32_t gang_need(const LineRow& line) {
  if (line.want.gang_min <= 1) return 0;
  const std::uint64_t left = line.want.count > line.accepted ? line.want.count - line.accepted : 0;
  const std::uint64_t all = std::min<std::uint64_t>(line.want.gang_min, left);
  return all > line.offered ? static_cast<std::uint32_t>(all - line.offered) : 0;
}

std::uint32_t gang_room(House& h, AgentIx agent, const FrameworkRow& row, const LineRow& line) {
  if (line.want.gang_min <= 1 || h.agents.size() < line.want.gang_min || hooks::mutant("master.gang_room")) return UINT32_MAX;
  const std::uint64_t left = line.want.count > line.accepted ? line.want.count - line.accepted : 0;
  std::uint64_t room = (left + line.want.gang_min - 1) / line.want.gang_min;
  for (const std::uint64_t id : row.offers) {
    const OfferRow& offer = h.offers.open.at(id);
    if (offer.agent == agent && offer.line == line.want.id) room -= std::min(room, offer.units);
  }
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(room, UINT32_MAX));
}

std::uint32_t Allocator::give(House& h, const Fit& fit, FrameworkIx ix, LineRow& line, GangId reservation, Given* given) {
  const AgentIx agent = fit.agent;
  std::uint32_t limit = fit.units;
  const Account& account = h.ledger.account(agent);
  if (h.frameworks.at(ix).offers.size() >= h.options.offers_per_framework_max || account.free.empty()) return 0;
  Resources amount;
  std::uint32_t units = 1;
  const RoleName& role = h.frameworks.at(ix).role;
  if (line.wildcard) {
    amount = h.roles.trimmed(role, account.free, account.total, h.agents.at(agent).labels);
    if (amount.empty()) return 0;
  } else {
    const Labels& labels = h.agents.at(agent).labels;
    limit = std::min(limit, gang_room(h, agent, h.frameworks.at(ix), line));
    if (limit == 0) return 0;
    units = count_fits(line.want.shape, account.free, account.total, labels, std::min(limit, line.unmet()));
    if (units == 1 && fit.device < account.total.devices.size()) {
      // One device was chosen among those that would do.
      const DeviceShare& chosen = account.total.devices[fit.device];
      Resources narrowed = account.free;
      std::erase_if(narrowed.devices, [&](const DeviceShare& d) { return d.kind == chosen.kind && d.device != chosen.device; });
      if (auto carved = carve(line.want.shape, narrowed, account.total, labels)) amount = *std::move(carved);
    }
    if (units > 0 && amount.empty()) units = carve_units(line.want.shape, account.free, account.total, labels, units, amount);
    if (units == 0) return 0;
    if (!h.roles.allows(role, usage_of(amount))) {
      // The shape did not tell, as that of a whole device does not: the most that the limit leaves.
      h.roles.note_refused(ix);
      std::uint32_t few = 0, many = units;
      while (many - few > 1) {
        const std::uint32_t middle = few + (many - few) / 2;
        amount = Resources{};
        carve_units(line.want.shape, account.free, account.total, labels, middle, amount);
        (h.roles.allows(role, usage_of(amount)) ? few : many) = middle;
      }
      amount = Resources{};
      units = few == 0 ? 0 : carve_units(line.want.shape, account.free, account.total, labels, few, amount);
      if (units == 0 || !h.roles.allows(role, usage_of(amount))) return 0;
    }
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
    if (line.unmet() == 0 || line.at_back || !may_offer(h, row, line, agent)) continue;
    const Shape& shape = line.want.shape;
    if (!line.wildcard && (account.free.cpus.value < shape.cpus.value || account.free.mem.value < shape.mem.value)) continue;
    std::uint32_t limit = std::min(line.wildcard ? 1 : line.unmet(), h.roles.room(h, ix, line));
    GangId reservation;
    if (limit == 0 || limit < gang_need(line)) continue;
    if (scarce(account.free, line)) {
      dirty_.insert(ix);  // later in this pass, by the index
      continue;
    }
    if (line.placed() && (gang_need(line) == 0 || accumulation(row) == nullptr)) {
      // Where it belongs is not for one agent to say: all are searched, once a pass.
      if (line.searched == h.counters.passes) continue;
      if (fits(shape, account.free, account.total, h.agents.at(agent).labels) != Misfit::kNone) continue;
      line.searched = h.counters.passes;
      reindex(h);
      gang_need(line) > 0 ? gather(h, ix, line) : seek(h, ix, line);
      gave = true;
      continue;
    }
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
      if (line.placed()) limit = std::min(limit, h.placements.allowed(h, row, line, agent));
      if (limit == 0) continue;
      reservation = mine->reservation;
    } else if (fine && !line.wildcard) {
      const std::uint32_t all = count_fits(shape, account.free, account.total, h.agents.at(agent).labels, limit);
      limit = std::min(limit, std::max(1U, (all + 3) / 4));
    }
    ++h.counters.demands_examined;
    Fit fit{agent, limit};
    if (policy_->scores() && !line.wildcard) {
      const auto& scores = policy_->score(ix, shape, {agent});
      if (!scores.empty() && scores[0].score == BOURSE_UNFIT) continue;
      if (!scores.empty()) fit.device = scores[0].device;
    }
    if (give(h, fit, ix, line, reservation, &given) == 0) continue;
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
    if (need == 0 || !may_offer(h, row, *line, agent)) continue;
    const std::uint32_t units = line->placed() ? std::min(need, h.placements.allowed(h, row, *line, agent)) : need;
    if (units == 0 || give(h, {agent, units}, ix, *line, accumulation.reservation, nullptr) == 0) continue;
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
  if (!reserved_.empty() && serve_reserved(h, agent)) return;
  policy_->begin(h.now.mono, agent);
  while (!account.free.empty() && !nothing_wanted(account.free)) {
    const std::optional<policy::Host::Next> next = policy_->next();
    if (!next) break;
    const FrameworkRow& row = h.frameworks.at(next->claimant);
    const bool may = account.free.cpus.value >= row.least_cpus && account.free.mem.value >= row.least_mem;
    if (may && serve(h, agent, next->claimant, fine, given)) continue;
    if (next->reserve && reserve(h, agent, next->claimant)) break;
  }
}

// --- reservations of agents for who would starve ---------------------------------------------------------------------
std::optional<AgentIx> Allocator::reserved(FrameworkIx framework) const {
  for (const auto& [agent, reserved] : reserved_)
    if (reserved.framework == framework) return agent;
  return std::nullopt;
}

std::optional<FrameworkIx> Allocator::reserved_for(AgentIx agent) const {
  const auto found = reserved_.find(agent);
  return found == reserved_.end() ? std::nullopt : std::optional(found->second.framework);
}

Duration Allocator::reserved_until(AgentIx agent) const { return reserved_.at(agent).until; }

bool Allocator::reserved_for_another(AgentIx agent, FrameworkIx framework) const {
  const auto found = reserved_.find(agent);
  return found != reserved_.end() && found->second.framework != framework;
}

// True: the agent is kept for its owner, nobody else gets anything of it.
bool Allocator::serve_reserved(House& h, AgentIx agent) {
  const auto found = reserved_.find(agent);
  if (found == reserved_.end()) return false;
  const Reserved reserved = found->second;
  Given given;
  const bool lapsed = reserved.until <= h.now.mono || !h.frameworks.at(reserved.framework).wants;
  if (lapsed || serve(h, agent, reserved.framework, false, given)) {
    reserved_.erase(agent);
    return false;
  }
  return true;
}

// An agent on which one of its units would fit if it were empty, and no other has been reserved for it.
bool Allocator::reserve(House& h, AgentIx agent, FrameworkIx ix) {
  if (policy_->wanting() < 2 || reserved(ix) || hooks::mutant("master.no_reservation")) return false;
  const Account& account = h.ledger.account(agent);
  const FrameworkRow& row = h.frameworks.at(ix);
  const bool could = std::any_of(row.lines.begin(), row.lines.end(), [&](const LineRow& line) {
    return line.unmet() > 0 && !line.wildcard && !line.placed() && gang_need(line) == 0 && may_offer(h, row, line, agent) &&
           h.roles.room(h, ix, line) > 0 &&
           fits(line.want.shape, account.total, account.total, h.agents.at(agent).labels) == Misfit::kNone;
  });
  if (!could) return false;
  const Duration until = h.now.mono + h.options.offer_ttl * kAccumulationTtls;
  reserved_[agent] = {ix, until};
  unreserve.push(until, agent);
  h.log(LogLevel::kInfo, "agent_reserved", {{"agent", h.agents.at(agent).id.str()}, {"framework", row.id.str()}});
  return true;
}

void Allocator::reservations_due(House& h) {
  AgentIx agent = 0;
  while (unreserve.pop_due(h.now.mono, agent)) {
    const auto found = reserved_.find(agent);
    if (found == reserved_.end() || found->second.until > h.now.mono) continue;
    reserved_.erase(found);
    dirty_agents_.insert(agent);
  }
}

std::vector<Allocator::Fit> Allocator::search(House& h, FrameworkIx ix, LineRow& line, std::uint32_t enough, bool* exhausted) {
  if (line.placed()) return search_placed(h, ix, line, enough, exhausted);
  std::vector<Fit> fits;
  const FrameworkRow& row = h.frameworks.at(ix);
  const bool scored = policy_->scores() && !line.wildcard;
  const Shape& shape = line.want.shape;
  std::uint64_t sum = 0;
  const std::size_t room =
      h.options.offers_per_framework_max - std::min<std::size_t>(row.offers.size(), h.options.offers_per_framework_max);
  bool stopped = false;
  for (const bool devices : {false, true}) {
    if (stopped || (!devices && !shape.devices.empty())) continue;
    for (auto it = index_.lower_bound(Key{devices, shape.cpus.value, 0, 0}); it != index_.end() && it->devices == devices; ++it) {
      stopped = scored ? fits.size() >= kCandidatesMax : sum >= enough || fits.size() >= room;
      if (stopped) break;
      ++h.counters.agents_examined;
      if (it->mem < shape.mem.value || !may_offer(h, row, line, it->agent)) continue;
      if (!reserved_.empty() && reserved_for_another(it->agent, ix)) continue;
      const Account& account = h.ledger.account(it->agent);
      const std::uint64_t still = scored ? enough : enough - sum;
      const auto want =
          std::min(static_cast<std::uint32_t>(std::min<std::uint64_t>(still, UINT32_MAX)), gang_room(h, it->agent, row, line));
      if (want == 0) continue;
      const std::uint32_t units = line.wildcard
                                      ? (account.free.empty() ? 0 : 1)
                                      : count_fits(shape, account.free, account.total, h.agents.at(it->agent).labels, want);
      if (units == 0) continue;
      fits.push_back({it->agent, units});
      if (!line.wildcard) sum += units;
    }
  }
  *exhausted = !stopped && sum < enough;
  if (scored) choose(ix, line, enough, fits);
  if (fits.size() > room) fits.resize(room);
  return fits;
}

// Every agent that fits, in the order of the index or of the policy's scores, is a candidate; the rules choose. Of agents that are
// alike to the rules only as many as could take everything are looked at.
std::vector<Allocator::Fit> Allocator::search_placed(House& h, FrameworkIx ix, LineRow& line, std::uint32_t enough,
                                                     bool* exhausted) {
  const FrameworkRow& row = h.frameworks.at(ix);
  const Shape& shape = line.want.shape;
  const bool capped = enough > PlacementTable::kUnitsMax && gang_need(line) == 0;
  if (capped) {
    enough = PlacementTable::kUnitsMax;
    dirty_.insert(ix);
  }
  std::vector<Candidate> candidates;
  std::map<std::string, std::uint64_t> units_of;  // by signature
  for (const bool devices : {false, true}) {
    if (!devices && !shape.devices.empty()) continue;
    for (auto it = index_.lower_bound(Key{devices, shape.cpus.value, 0, 0}); it != index_.end() && it->devices == devices; ++it) {
      ++h.counters.agents_examined;
      if (it->mem < shape.mem.value || !may_offer(h, row, line, it->agent)) continue;
      if (!reserved_.empty() && reserved_for_another(it->agent, ix)) continue;
      std::uint64_t& here = units_of[h.placements.signature(h, line, it->agent)];
      if (here >= enough) continue;
      const Account& account = h.ledger.account(it->agent);
      const std::uint32_t want = std::min(enough, gang_room(h, it->agent, row, line));
      const std::uint32_t units = count_fits(shape, account.free, account.total, h.agents.at(it->agent).labels, want);
      if (units == 0) continue;
      candidates.push_back({it->agent, units, policy::kNone});
      here += units;
    }
  }
  if (policy_->scores()) {
    std::vector<Fit> fits;
    for (const Candidate& c : candidates)
      if (fits.size() < kCandidatesMax) fits.push_back({c.agent, c.units});
    choose(ix, line, UINT32_MAX, fits);
    candidates.clear();
    for (const Fit& fit : fits) candidates.push_back({fit.agent, fit.units, fit.device});
  }
  std::vector<Fit> fits;
  std::uint64_t sum = 0;
  const std::size_t room =
      h.options.offers_per_framework_max - std::min<std::size_t>(row.offers.size(), h.options.offers_per_framework_max);
  for (const Candidate& chosen : h.placements.arrange(h, row, line, enough, candidates)) {
    if (fits.size() == room) break;
    fits.push_back({chosen.agent, chosen.units, chosen.device});
    sum += chosen.units;
  }
  *exhausted = sum < enough && fits.size() < std::max<std::size_t>(room, 1);
  return fits;
}

// Lines with rules look again when what the rules are about has changed, though no agent has more free than before.
void Allocator::wake_placed(House& h) {
  h.placements.refresh(h);
  if (std::exchange(woken_, h.placements.version()) == h.placements.version() || hooks::mutant("master.placed_asleep")) return;
  for (const FrameworkIx ix : placed_) {
    FrameworkRow& row = h.frameworks.at(ix);
    if (!row.wants) continue;
    for (LineRow& line : row.lines)
      if (line.placed()) line.starved = false, dirty_.insert(ix);
  }
}

// Demands that were displaced together, by the loss or drain of a zone, say: whole services regain what they lost before the rank
// of frameworks counts. First those of which nothing is left, then those to which the least is missing: the sum of the times that
// services are without their spread is the least if the quickest is mended first.
void Allocator::migrate(House& h) {
  struct Displaced {
    bool alive = false;
    std::uint64_t missing = 0;
    FrameworkIx framework = 0;
    std::uint64_t line = 0;
    auto operator<=>(const Displaced&) const = default;
  };
  std::vector<Displaced> displaced;
  for (const FrameworkIx ix : placed_) {
    FrameworkRow& row = h.frameworks.at(ix);
    if (!row.wants) continue;
    for (LineRow& line : row.lines) {
      if (!line.placed() || line.unmet() == 0 || line.at_back || (line.starved && dirty_agents_.empty())) continue;
      const PlacementTable::Harm harm = h.placements.harm(h, row, line);
      if (harm.harmed) displaced.push_back({harm.left > 0, harm.missing, ix, line.want.id});
    }
  }
  std::sort(displaced.begin(), displaced.end());
  for (const Displaced& one : displaced) {
    LineRow& line = *h.frameworks.at(one.framework).line(one.line);
    line.starved = false;
    line.searched = h.counters.passes;
    reindex(h);
    consider(h, one.framework, line);
    framework_refresh(h, one.framework);
  }
}

// The best of those that fit, by the policy, until there is enough. Equal scores stay in the order of the index.
void Allocator::choose(FrameworkIx ix, const LineRow& line, std::uint32_t enough, std::vector<Fit>& fits) {
  std::vector<AgentIx> agents;
  for (const Fit& fit : fits) agents.push_back(fit.agent);
  const auto& scores = policy_->score(ix, line.want.shape, agents);
  if (!scores.empty()) {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < fits.size(); ++i) {
      fits[i].device = scores[i].device;
      if (scores[i].score != BOURSE_UNFIT) order.push_back(i);
    }
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return scores[a].score > scores[b].score; });
    std::vector<Fit> sorted;
    for (const std::size_t i : order) sorted.push_back(fits[i]);
    fits = std::move(sorted);
  }
  std::uint64_t sum = 0;
  std::size_t kept = 0;
  while (kept < fits.size() && sum < enough) {
    fits[kept].units = static_cast<std::uint32_t>(std::min<std::uint64_t>(fits[kept].units, enough - sum));
    sum += fits[kept++].units;
  }
  fits.resize(kept);
}

void Allocator::seek(House& h, FrameworkIx ix, LineRow& line) {
  ++h.counters.demands_examined;
  bool exhausted = false;
  const std::uint32_t most = std::min(line.unmet(), h.roles.room(h, ix, line));
  for (const Fit& fit : search(h, ix, line, most, &exhausted)) { give(h, fit, ix, line, GangId(), nullptr); }
  line.starved = exhausted;
  if (exhausted) h.claims.lacks(h, ix, line.want.id);
}

void Allocator::gather(House& h, FrameworkIx ix, LineRow& line) {
  ++h.counters.demands_examined;
  FrameworkRow& row = h.frameworks.at(ix);
  const std::uint32_t need = gang_need(line);
  bool exhausted = false;
  const std::vector<Fit> found = search(h, ix, line, line.unmet(), &exhausted);
  line.starved = exhausted;
  std::uint64_t sum = 0;
  for (const Fit& fit : found) sum += fit.units;
  if (sum < need) h.claims.lacks(h, ix, line.want.id);
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
  for (const Fit& fit : found) give(h, fit, ix, line, reservation, nullptr);
}

void Allocator::consider(House& h, FrameworkIx ix, LineRow& line) {
  if (line.unmet() == 0 || line.starved || line.at_back || !line.want.reservation.empty()) return;
  if (const std::uint32_t room = h.roles.room(h, ix, line); room == 0 || room < gang_need(line)) return;
  if (const std::uint32_t need = gang_need(line); need > 0) {
    const Accumulation* mine = accumulation(h.frameworks.at(ix));
    if (mine == nullptr) return gather(h, ix, line);
    if (mine->framework != ix || mine->line != line.want.id) return;
    bool exhausted = false;
    const GangId reservation = mine->reservation;
    for (const Fit& fit : search(h, ix, line, need, &exhausted)) give(h, fit, ix, line, reservation, nullptr);
    line.starved = exhausted;
    if (gang_need(line) == 0) drop_accumulation(h, ix, line.want.id);
    return;
  }
  seek(h, ix, line);
}

void Allocator::pass(House& h) {
  armed_ = false;
  wake_placed(h);
  send_facts(h);
  if (h.claims.any() || h.reservations.any()) {
    for (const AgentIx agent : dirty_agents_) keep_first(h, agent);
  }
  reindex(h);
  if (h.lending.due(h)) {
    h.lending.pass(h);
    h.flush_made();
  }
  if (dirty_.empty() && dirty_agents_.empty() && !h.claims.wanted() && !h.reservations.wanted()) return;
  ++h.counters.passes;
  if (h.reservations.any()) {
    for (const FrameworkIx ix : dirty_) h.reservations.demand_changed(h, h.frameworks.at(ix).role);
    h.reservations.serve(h);
  }

  if (h.placements.harmed() && !hooks::mutant("master.blind_migration")) migrate(h);
  const std::set<AgentIx> dirty_agents = std::exchange(dirty_agents_, {});
  std::vector<AgentIx> agents(dirty_agents.begin(), dirty_agents.end());
  std::stable_partition(agents.begin(), agents.end(), [&](AgentIx ix) { return h.ledger.account(ix).free.devices.empty(); });
  for (const AgentIx agent : agents) offer_agent(h, agent);
  reindex(h);

  const std::set<FrameworkIx> dirty = std::exchange(dirty_, {});
  std::vector<FrameworkIx> ranked;
  for (const FrameworkIx ix : dirty) {
    if (h.frameworks.at(ix).wants) ranked.push_back(ix);
  }
  if (ranked.size() > 1) policy_->rank(h.now.mono, policy::kNone, ranked);
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
  h.claims.turn(h);
  reindex(h);
  // What the pass itself ended or gave is settled; agents that it dirtied (none, but for a bug) wait for the next one.
  h.flush_made();
}

void Allocator::accumulations_due(House& h) {
  std::uint64_t reservation = 0;
  while (gathering.pop_due(h.now.mono, reservation)) {
    for (auto it = accumulating_.begin(); it != accumulating_.end(); ++it) {
      if (it->second.reservation.value != reservation) continue;
      if (it->second.deadline > h.now.mono) break;  // put off
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
    h.lending.poke();
    if (!row.wants || h.agents.at(due.second.second).removed) continue;
    dirty_agents_.insert(due.second.second);
    h.reservations.demand_changed(h, row.role);
  }
}

}  // namespace bourse::house
