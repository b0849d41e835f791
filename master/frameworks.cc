#include "master/frameworks.h"

#include <algorithm>
#include <utility>

#include "common/core/hooks.h"
#include "master/house.h"

namespace bourse::house {

LineRow* FrameworkRow::line(std::uint64_t number) {
  for (LineRow& row : lines) {
    if (row.want.id == number) return &row;
  }
  return nullptr;
}

FrameworkRow* FrameworkTable::find(const FrameworkId& id, FrameworkIx* ix) {
  const auto found = lookup_.find(id);
  if (found == lookup_.end()) return nullptr;
  if (ix != nullptr) *ix = found->second;
  return &rows_[found->second];
}

FrameworkIx FrameworkTable::add(const FrameworkId& id) {
  FrameworkIx ix = 0;
  if (vacant_.empty()) {
    ix = static_cast<FrameworkIx>(rows_.size());
    rows_.emplace_back();
  } else {
    ix = vacant_.back();
    vacant_.pop_back();
    rows_[ix] = FrameworkRow{};
  }
  rows_[ix].id = id;
  by_name_.emplace(id, ix);
  lookup_.emplace(id, ix);
  return ix;
}

FrameworkIx FrameworkTable::ghost(const FrameworkId& id) {
  if (const auto found = ghosts_.find(id); found != ghosts_.end()) return found->second;
  const auto ix = static_cast<FrameworkIx>(rows_.size());
  rows_.emplace_back().id = id;
  rows_[ix].removed = true;
  ghosts_.emplace(id, ix);
  return ix;
}

void FrameworkTable::detach(FrameworkIx ix) {
  by_name_.erase(rows_[ix].id);
  lookup_.erase(rows_[ix].id);
  rows_[ix].removed = true;
}

void FrameworkTable::vacate(FrameworkIx ix) {
  if (const auto found = ghosts_.find(rows_[ix].id); found != ghosts_.end() && found->second == ix) ghosts_.erase(found);
  rows_[ix] = FrameworkRow{};
  rows_[ix].removed = true;
  vacant_.push_back(ix);
}

void expect_framework(House& h, const FrameworkId& id) {
  const FrameworkIdentity& identity = *h.registry.framework(id);
  const FrameworkIx ix = h.frameworks.add(id);
  FrameworkRow& row = h.frameworks.at(ix);
  row.role = identity.role;
  row.incarnation = identity.incarnation;
  row.failover = identity.failover_timeout;
  row.forget_at = h.now.mono + row.failover;
  h.frameworks.failovers.push(row.forget_at, ix);
  h.allocator.framework_changed(h, ix);
}

namespace {

FrameworkIdentity identity_of(const House& h, const FrameworkHello& hello) {
  const Duration asked = hello.failover_timeout.count() > 0 ? hello.failover_timeout : h.options.failover_timeout;
  const Duration failover = std::min(asked, FrameworkTable::kFailoverMost);
  return {hello.framework, hello.role, hello.incarnation, failover};
}

bool fenced(House& h, const Received& received, const FrameworkHello& hello) {
  const FrameworkRow* row = h.frameworks.find(hello.framework);
  if (row == nullptr || hello.incarnation >= row->incarnation || hooks::mutant("master.no_fencing")) return false;
  h.refuse(received.peer, Code::kGone, "framework " + hello.framework.str() + " has a newer life than this one",
           "framework_refused");
  return true;
}

void clear_demand(House& h, FrameworkIx ix) {
  FrameworkRow& row = h.frameworks.at(ix);
  for (const LineRow& line : row.lines) h.allocator.drop_accumulation(h, ix, line.want.id);
  row.lines.clear();
  row.demand = Version();
  framework_refresh(h, ix);
}

void end_offers_of_framework(House& h, FrameworkIx ix, std::optional<OfferEnd> tell) {
  const std::set<std::uint64_t> offers = h.frameworks.at(ix).offers;
  for (const std::uint64_t id : offers) end_offer(h, id, tell);
}

}  // namespace

void on_framework_hello(House& h, const Received& received) {
  const auto& hello = std::get<FrameworkHello>(received.message.body);
  const std::string& name = hello.framework.str();
  if (hello.version != kProtocolVersion) {
    return h.refuse(received.peer, Code::kVersion,
                    "framework " + name + " speaks protocol " + std::to_string(hello.version) + ", this master " +
                        std::to_string(kProtocolVersion),
                    "framework_refused");
  }
  if (h.options.trust_identities && !covers(received.identity, "framework", name)) {
    return h.refuse(received.peer, Code::kDenied, "key '" + received.identity + "' may not be framework " + name,
                    "framework_refused");
  }
  if (!covers_role(received.roles, hello.role.str())) {
    return h.refuse(received.peer, Code::kDenied,
                    "key '" + received.identity + "' is for roles " + received.roles + ", not for '" + hello.role.str() + "'",
                    "framework_refused");
  }
  if (fenced(h, received, hello)) return;
  if (h.frameworks.find(hello.framework) == nullptr && h.frameworks.by_name().size() >= FrameworkTable::kFrameworksMax) {
    return h.refuse(received.peer, Code::kLimit, "there are as many frameworks as this master keeps", "framework_refused");
  }
  const FrameworkIdentity identity = identity_of(h, hello);
  const FrameworkIdentity* known = h.registry.framework(hello.framework);
  if (known != nullptr && *known == identity) return admit_framework(h, received);
  if (h.pending_size >= House::kPendingMax) {
    return h.refuse(received.peer, Code::kBusy, "registry is behind; retrying helps", "framework_refused");
  }
  h.registry.put_framework(identity, *h.out);
  h.pending[h.out->ticket].push_back({received, true});
  ++h.pending_size;
}

void admit_framework(House& h, const Received& received) {
  const auto& hello = std::get<FrameworkHello>(received.message.body);
  if (fenced(h, received, hello)) return;  // overtaken while its record was written
  FrameworkIx ix = 0;
  FrameworkRow* row = h.frameworks.find(hello.framework, &ix);
  const bool fresh = row == nullptr;
  if (fresh) ix = h.frameworks.add(hello.framework);
  row = &h.frameworks.at(ix);
  const bool newer = !fresh && hello.incarnation > row->incarnation;
  if (row->peer.value != 0 && row->peer != received.peer) {
    if (newer) h.send(row->peer, Refused{Code::kGone, "a newer life of framework " + hello.framework.str() + " said hello"});
    h.watchers.erase(row->peer);
    h.drop_peer(row->peer);
  }
  // Offers may have been lost with the old connection, so none of them outlives it.
  end_offers_of_framework(h, ix, newer ? std::nullopt : std::optional(OfferEnd::kRescinded));
  clear_demand(h, ix);
  if (newer) {
    row->answers.clear();
    row->answers_dropped = 0;
    row->taken.clear();
    row->last_accept = Sequence();
    row->hold_off.clear();
  }
  row->incarnation = hello.incarnation;
  const bool moved = row->role != hello.role;
  row->role = hello.role;
  row->failover = identity_of(h, hello).failover_timeout;
  row->watch = hello.watch_agents;
  h.allocator.framework_changed(h, ix);
  if (moved) h.roles.charge(h, ix);
  if (h.sessions.open({received.peer, kFramework, ix, received.identity, h.now.mono, h.now.mono, received.from},
                      h.options.peer_timeout) == nullptr) {
    return h.refuse(received.peer, Code::kLimit, "there are as many connections as this master keeps", "framework_refused");
  }
  row->peer = received.peer;
  h.log(LogLevel::kInfo, "framework_up",
        {{"framework", hello.framework.str()},
         {"role", hello.role.str()},
         {"identity", received.identity},
         {"from", received.from},
         {"incarnation", std::to_string(hello.incarnation.value)},
         {"slices", std::to_string(row->slices.size())}});
  h.send(received.peer, welcome(h));
  if (hello.watch_agents) {
    send_facts(h);  // so that the snapshot's version says exactly what is in it
    h.watchers.insert(received.peer);
    send_all_facts(h, received.peer);
  } else {
    h.watchers.erase(received.peer);
  }
  for (const std::uint64_t number : row->slices) {
    const SliceRow* slice = h.slices.find({row->id, number});
    if (slice->state == SliceRow::State::kUp)
      h.send(received.peer, SliceUp{h.agents.at(slice->agent).id, slice->spec, slice->unhealthy});
  }
  row->claims.clear();
  for (const SliceId& id : hello.slices) {
    if (id.framework == row->id && !row->slices.contains(id.number)) row->claims.insert(id.number);
  }
  settle_claims(h);
}

void settle_claims(House& h) {
  if (h.agents.missing > 0) return;
  for (const auto& [id, ix] : h.frameworks.by_name()) {
    FrameworkRow& row = h.frameworks.at(ix);
    if (row.peer.value == 0 || row.claims.empty()) continue;
    for (const std::uint64_t number : row.claims) {
      h.send(row.peer, SliceGone{AgentId("-"), {id, number}, SliceEnd::kUnknown, "no agent has it"});
    }
    row.claims.clear();
  }
}

// The same line, whatever its count: what was offered for it is still of use.
static bool alike(const DemandLine& a, const DemandLine& b) { return a.shape == b.shape && a.reservation == b.reservation; }

void on_demand(House& h, const Session& from, const Message& message) {
  const auto& demand = std::get<Demand>(message.body);
  const FrameworkIx ix = from.row;
  FrameworkRow& row = h.frameworks.at(ix);
  if (demand.version < row.demand) return;  // older than what we have
  if (demand.lines.size() > FrameworkTable::kDemandLinesMax) {
    return h.refuse(from.peer, Code::kLimit,
                    "a demand has at most " + std::to_string(FrameworkTable::kDemandLinesMax) + " lines, this has " +
                        std::to_string(demand.lines.size()) + "; the former one stays",
                    "demand_refused");
  }
  std::map<std::uint64_t, const DemandLine*> wanted;
  for (const DemandLine& line : demand.lines) {
    if (line.id != 0 && wanted.emplace(line.id, &line).second) continue;
    return h.refuse(from.peer, Code::kInvalid,
                    "demand line " + std::to_string(line.id) + " is 0 or named twice; the former demand stays", "demand_refused");
  }
  row.demand = demand.version;
  row.last_accept = std::max(row.last_accept, demand.last_accept);
  while (!row.taken.empty() && row.taken.front().sequence <= row.last_accept) row.taken.pop_front();

  // Lines that ended or became something else take their offers and hold-offs with them.
  for (const LineRow& old : row.lines) {
    const auto found = wanted.find(old.want.id);
    const bool same = old.wildcard ? demand.wildcard : found != wanted.end() && alike(*found->second, old.want);
    if (same) continue;
    h.allocator.drop_accumulation(h, ix, old.want.id);
    row.hold_off.erase(row.hold_off.lower_bound({old.want.id, 0}), row.hold_off.upper_bound({old.want.id, UINT32_MAX}));
    if (old.offered == 0) continue;
    const std::set<std::uint64_t> offers = row.offers;
    for (const std::uint64_t id : offers) {
      if (h.offers.open.at(id).line == old.want.id) end_offer(h, id, OfferEnd::kDemandGone);
    }
  }

  std::vector<LineRow> lines;
  const auto keep = [&](LineRow line) {
    if (LineRow* old = row.line(line.want.id); old != nullptr && alike(old->want, line.want)) {
      const DemandLine want = line.want;
      // What found nothing finds nothing now, unless it asks for less.
      const bool starved = old->starved && old->want.gang_min == want.gang_min && old->want.lasts == want.lasts;
      line = std::move(*old);
      line.want = want;
      line.starved = starved;
    }
    line.accepted = 0;
    lines.push_back(std::move(line));
  };
  for (const DemandLine& line : demand.lines) keep(LineRow{.want = line});
  if (demand.wildcard)
    keep(LineRow{.want = DemandLine{.id = 0, .shape = {}, .count = 1, .gang_min = 0, .priority = INT32_MIN}, .wildcard = true});
  std::stable_sort(lines.begin(), lines.end(), [](const LineRow& a, const LineRow& b) {
    return a.want.priority != b.want.priority ? a.want.priority > b.want.priority : a.want.id < b.want.id;
  });
  row.lines = std::move(lines);
  for (const FrameworkRow::Taken& taken : row.taken) {
    if (LineRow* line = row.line(taken.line); line != nullptr) line->accepted += taken.units;
  }

  // More on offer than is wanted now: the newest go.
  for (std::size_t i = 0; i < row.lines.size(); ++i) {
    const LineRow& line = row.lines[i];
    const auto need = [&] { return line.want.count > line.accepted ? line.want.count - line.accepted : 0; };
    if (line.wildcard || line.offered <= need()) continue;
    const std::vector<std::uint64_t> newest(row.offers.rbegin(), row.offers.rend());
    for (const std::uint64_t id : newest) {
      const OfferRow& offer = h.offers.open.at(id);
      if (offer.line == line.want.id && line.offered >= need() + offer.units) end_offer(h, id, OfferEnd::kDemandGone);
    }
    if (need() == 0) h.allocator.drop_accumulation(h, ix, line.want.id);
  }
  framework_refresh(h, ix);
  h.allocator.framework_changed(h, ix);
  h.allocator.framework_dirty(ix);
}

void framework_refresh(House& h, FrameworkIx ix) {
  FrameworkRow& row = h.frameworks.at(ix);
  const bool was = row.wants;
  const std::int64_t cpus = row.least_cpus, mem = row.least_mem;
  row.wants = false;
  row.least_cpus = row.least_mem = INT64_MAX;
  bool borrows = false;
  if (row.peer.value != 0 && !row.removed) {
    for (const LineRow& line : row.lines) {
      borrows = borrows || (line.want.shape.revocable && line.missing() > 0);
      if (line.unmet() == 0) continue;
      row.wants = true;
      row.least_cpus = std::min(row.least_cpus, line.want.shape.cpus.value);
      row.least_mem = std::min(row.least_mem, line.want.shape.mem.value);
    }
  }
  h.allocator.framework_wants(h, ix, was, cpus, mem);
  h.lending.demand_changed(ix, borrows);
  h.views.framework(ix);
}

void framework_disconnected(House& h, FrameworkIx ix, std::string_view why) {
  FrameworkRow& row = h.frameworks.at(ix);
  if (row.peer.value == 0) return;
  h.log(LogLevel::kWarn, "framework_disconnected",
        {{"framework", row.id.str()}, {"reason", std::string(why)}, {"slices", std::to_string(row.slices.size())}});
  h.watchers.erase(row.peer);
  row.peer = PeerId();
  row.forget_at = h.now.mono + (hooks::mutant("master.no_failover_timeout") ? Duration(0) : row.failover);
  h.frameworks.failovers.push(row.forget_at, ix);
  end_offers_of_framework(h, ix, std::nullopt);
  clear_demand(h, ix);
}

void framework_remove(House& h, FrameworkIx ix, std::string_view why) {
  FrameworkRow& row = h.frameworks.at(ix);
  h.log(LogLevel::kInfo, "framework_removed",
        {{"framework", row.id.str()}, {"reason", std::string(why)}, {"slices", std::to_string(row.slices.size())}});
  if (row.peer.value != 0) {
    h.watchers.erase(row.peer);
    h.drop_peer(row.peer);
    row.peer = PeerId();
  }
  end_offers_of_framework(h, ix, std::nullopt);
  clear_demand(h, ix);
  std::vector<std::uint32_t> gangs;
  for (const auto& [number, gang] : h.gangs.rows) {
    if (gang.framework == ix) gangs.push_back(number);
  }
  for (const std::uint32_t gang : gangs) abort_gang(h, gang, std::string(why));
  const std::set<std::uint64_t> slices = row.slices;
  for (const std::uint64_t number : slices) {
    SliceRow* slice = h.slices.find({row.id, number});
    if (slice == nullptr) continue;
    slice->told = true;
    release_slice(h, *slice, Duration{0});
  }
  h.registry.drop_framework(row.id, *h.out);
  h.allocator.framework_gone(h, ix);
  h.frameworks.detach(ix);
  if (row.slices.empty()) h.frameworks.vacate(ix);
}

void framework_failovers(House& h) {
  FrameworkIx ix = 0;
  while (h.frameworks.failovers.pop_due(h.now.mono, ix)) {
    const FrameworkRow& row = h.frameworks.at(ix);
    if (row.removed || row.peer.value != 0 || row.forget_at > h.now.mono) continue;
    framework_remove(h, ix, "its failover timeout passed");
  }
}

}  // namespace bourse::house
