// What is kept in the ledger, by operators' reservations and by claims, and how it comes to be offered. See allocator.h.
#include <algorithm>
#include <utility>

#include "common/core/hooks.h"
#include "master/house.h"

namespace bourse::house {

namespace {

// What of an agent's free amount may go with what is kept: the kinds that the reservation does not name.
Resources beside_kept(const Account& account, const Counters& named) {
  if (named.empty()) return {};  // it is the whole agent
  Resources rest = account.free;
  const bool cpus = named.get("cpus") > 0, mem = named.get("mem") > 0;
  if (cpus) rest.cpus = MilliCpus(0);
  if (mem) rest.mem = Bytes(0);
  for (NumaAmount& node : rest.numa) {
    if (cpus) node.cpus = MilliCpus(0);
    if (mem) node.mem = Bytes(0);
  }
  std::erase_if(rest.numa, [](const NumaAmount& node) { return node.cpus.value == 0 && node.mem.value == 0; });
  if (named.get("disk") > 0) rest.disk = Bytes(0);
  std::erase_if(rest.devices, [&](const DeviceShare& share) {
    Resources one;
    one.devices = {share};
    const Usage usage = usage_of(one);
    return std::any_of(named.items().begin(), named.items().end(), [&](const auto& kind) {
      return kind.first != "cpus" && kind.first != "mem" && amount_of(usage, kind.first) > 0;
    });
  });
  return rest;
}

}  // namespace

void Allocator::offer_kept(House& h, std::uint64_t key, const std::string& name, const Reservation& reservation,
                           const std::vector<AgentIx>& agents, std::vector<FrameworkIx> frameworks) {
  const auto usable = [&](AgentIx agent) {
    Resources sum = h.ledger.kept(agent, key);
    if (!sum.empty() && !sum.add(beside_kept(h.ledger.account(agent), reservation.amount))) sum = h.ledger.kept(agent, key);
    return sum;
  };
  if (frameworks.size() > 1) policy_->rank(h.now.mono, policy::kNone, frameworks);
  for (const FrameworkIx ix : frameworks) {
    FrameworkRow& row = h.frameworks.at(ix);
    for (LineRow& line : row.lines) {
      if (!ReservationTable::serves(name, reservation, row.role, line.want.reservation)) continue;
      // What names it ends with it.
      const bool named = !line.want.reservation.empty() && reservation.end.count() != 0;
      if (named && line.want.lasts > reservation.end - h.now.wall) continue;
      const std::uint32_t most = std::min(line.wildcard ? UINT32_MAX : line.unmet(), h.roles.room(h, ix, line));
      const std::uint32_t need = line.wildcard ? 0 : gang_need(line);
      if (most == 0 || most < need) continue;
      std::vector<Fit> found;
      std::uint64_t sum = 0;
      for (const AgentIx agent : agents) {
        if (sum >= most) break;
        const Resources kept = usable(agent);
        if (kept.empty() || !may_offer(h, row, line, agent, true)) continue;
        const auto want = static_cast<std::uint32_t>(std::min<std::uint64_t>(most - sum, gang_room(h, agent, row, line)));
        const AgentRow& on = h.agents.at(agent);
        const std::uint32_t units =
            line.wildcard ? 1 : count_fits(line.want.shape, kept, h.ledger.account(agent).total, on.labels, want);
        if (units == 0) continue;
        found.push_back({agent, units});
        sum += line.wildcard ? 0 : units;
      }
      if (sum < need) continue;  // a gang comes out of one reservation, whole
      for (const Fit& fit : found) {
        if (row.offers.size() >= h.options.offers_per_framework_max) break;
        Resources amount;
        std::uint32_t units = 1;
        const std::uint32_t most_there =
            line.placed() ? std::min(fit.units, h.placements.allowed(h, row, line, fit.agent)) : fit.units;
        if (most_there == 0) continue;
        const Resources kept = line.wildcard ? h.ledger.kept(fit.agent, key) : usable(fit.agent);
        const Account& account = h.ledger.account(fit.agent);
        if (line.wildcard) {
          amount = h.roles.trimmed(row.role, kept, account.total, h.agents.at(fit.agent).labels);
        } else {
          units = carve_units(line.want.shape, kept, account.total, h.agents.at(fit.agent).labels, most_there, amount);
        }
        if (units == 0 || amount.empty()) continue;
        if (!h.roles.allows(row.role, usage_of(amount))) {
          h.roles.note_refused(ix);
          continue;
        }
        // What goes with it is kept for a moment, so that all of the offer comes from one place.
        Resources beside = amount;
        const auto known = beside.subtract(common_part(amount, h.ledger.kept(fit.agent, key)));
        if (!known || !account.free.contains(beside)) continue;
        h.ledger.keep(fit.agent, key, beside);
        OfferRow offer{.agent = fit.agent, .framework = ix, .line = line.want.id, .units = units, .resources = std::move(amount)};
        offer.expires = h.now.mono + h.options.offer_ttl;
        offer.kept_under = key;
        offer.reserved = name;
        make_offer(h, std::move(offer));
      }
    }
    framework_refresh(h, ix);
  }
}

bool Allocator::offer_claim(House& h, const Claim& claim) {
  FrameworkRow& row = h.frameworks.at(claim.framework);
  LineRow* line = row.line(claim.line);
  if (line == nullptr || row.offers.size() >= h.options.offers_per_framework_max) return false;
  if (line->placed() && h.placements.allowed(h, row, *line, claim.agent) == 0) return false;
  if (!h.roles.allows(row.role, usage_of(claim.amount))) return h.roles.note_refused(claim.framework), false;
  OfferRow offer{.agent = claim.agent, .framework = claim.framework, .line = claim.line, .units = 1, .resources = claim.amount};
  offer.expires = h.now.mono + h.options.offer_ttl;
  offer.kept_under = claim.key;
  make_offer(h, std::move(offer));
  return true;
}

bool Allocator::gathers_for_another(const RoleName& role, FrameworkIx framework, std::uint64_t line) const {
  const auto found = accumulating_.find(role);
  return found != accumulating_.end() && (found->second.framework != framework || found->second.line != line);
}

void Allocator::extend_accumulation(House& h, FrameworkIx framework, std::uint64_t line, Duration deadline) {
  for (auto& [role, accumulation] : accumulating_) {
    if (accumulation.framework != framework || accumulation.line != line || accumulation.deadline >= deadline) continue;
    accumulation.deadline = deadline;
    gathering.push(deadline, accumulation.reservation.value);
    for (const std::uint64_t id : h.frameworks.at(framework).offers) {
      OfferRow& offer = h.offers.open.at(id);
      if (offer.reservation != accumulation.reservation) continue;
      offer.expires = std::max(offer.expires, deadline + h.options.offer_ttl);
      h.offers.deadlines.push(offer.expires, id);
      h.views.offer(id);
    }
  }
}

}  // namespace bourse::house
