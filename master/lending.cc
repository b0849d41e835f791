#include "master/lending.h"

#include <utility>

#include "common/core/hooks.h"
#include "master/house.h"

namespace bourse::house {

void Lending::demand_changed(FrameworkIx framework, bool wants) {
  if (wants) {
    dirty_ = true;  // perhaps for more than before
    wanting_.insert(framework);
  } else {
    wanting_.erase(framework);
  }
}

void Lending::used(FrameworkIx framework, std::int64_t cpus) {
  std::int64_t& sum = used_[framework];
  sum += cpus;
  if (sum == 0) used_.erase(framework);
}

bool Lending::due(const House& h) const { return h.lent.touched() || (dirty_ && !wanting_.empty() && !having_.empty()); }

// One unit of the first of its lines that fits, into the offer that this pass has begun for that line. False: nothing of it fits.
bool Lending::give_unit(House& h, AgentIx agent, FrameworkIx ix, Given& given) {
  FrameworkRow& row = h.frameworks.at(ix);
  const Account& account = h.lent.account(agent);
  for (LineRow& line : row.lines) {
    const Shape& shape = line.want.shape;
    if (!shape.revocable || line.missing() == 0 || line.want.gang_min > 1) continue;
    if (const auto held = row.hold_off.find({line.want.id, agent}); held != row.hold_off.end() && held->second > h.now.mono)
      continue;
    auto amount = carve(shape, account.free, account.total, h.agents.at(agent).labels);
    if (!amount) continue;
    const auto key = std::pair(ix, line.want.id);
    if (const auto begun = given.find(key); begun != given.end()) return grow_offer(h, begun->second, *amount, 1), true;
    if (row.offers.size() >= h.options.offers_per_framework_max) continue;
    OfferRow offer{.agent = agent, .framework = ix, .line = line.want.id, .units = 1, .resources = *std::move(amount)};
    offer.revocable = true;
    offer.expires = h.now.mono + h.options.offer_ttl;
    given[key] = make_offer(h, std::move(offer));
    return true;
  }
  return false;
}

void Lending::offer_agent(House& h, AgentIx agent) {
  Given given;
  std::set<std::pair<std::int64_t, FrameworkIx>> order;
  for (const FrameworkIx ix : wanting_) {
    const auto found = used_.find(ix);
    order.emplace(found == used_.end() ? 0 : found->second, ix);
  }
  while (!order.empty() && !h.lent.account(agent).free.empty()) {
    const FrameworkIx ix = order.begin()->second;
    order.erase(order.begin());
    if (!give_unit(h, agent, ix, given)) continue;  // nothing of it fits here any more
    const auto found = used_.find(ix);
    order.emplace(found == used_.end() ? 0 : found->second, ix);
  }
}

void Lending::pass(House& h) {
  for (const Ledger::Touched& touched : h.lent.take_touched()) {
    const bool has = !h.lent.account(touched.agent).free.empty() && !h.agents.at(touched.agent).removed;
    has ? (void)having_.insert(touched.agent) : (void)having_.erase(touched.agent);
    dirty_ = dirty_ || (has && touched.grew);
  }
  if (!std::exchange(dirty_, false) || wanting_.empty() || hooks::mutant("master.lends_nothing")) return;
  const std::set<AgentIx> agents = having_;
  const std::set<FrameworkIx> frameworks = wanting_;
  for (const AgentIx agent : agents) {
    if (wanting_.empty()) break;
    offer_agent(h, agent);
  }
  for (const FrameworkIx ix : frameworks) framework_refresh(h, ix);
  for (const Ledger::Touched& touched : h.lent.take_touched())
    if (h.lent.account(touched.agent).free.empty()) having_.erase(touched.agent);
  dirty_ = false;  // what this pass itself changed is looked at
}

}  // namespace bourse::house
