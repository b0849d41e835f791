#include "frameworks/batch/reserved.h"

#include <algorithm>

#include "common/core/hooks.h"
#include "common/core/role.h"

namespace bourse::batch {
const ReservationView* Reserved::find(const std::string& name) const {
  const auto found = all_.find(name);
  return found == all_.end() ? nullptr : &found->second;
}

bool Reserved::may_use(const ReservationView& reservation) const { return in_tree(role_, reservation.role); }

bool Reserved::facts(const AgentId& agent, const Parts& parts) {
  const auto known = by_agent_.find(agent);
  if (known == by_agent_.end() ? parts.empty() : known->second == parts) return false;
  if (known != by_agent_.end()) {
    for (const AgentFacts::Reserved& part : known->second) {
      const auto was = all_.find(part.name);
      was->second.agents.erase(agent);
      if (was->second.agents.empty()) all_.erase(was);
    }
    by_agent_.erase(known);
  }
  if (parts.empty()) return true;
  by_agent_[agent] = parts;
  for (const AgentFacts::Reserved& part : parts) {
    ReservationView& view = all_[part.name];
    view.role = part.role, view.start = part.start, view.end = part.end, view.named = part.named;
    view.agents.insert(agent);
  }
  return true;
}

bool Reserved::open(const AgentFacts::Reserved& part) const { return !part.named && in_tree(role_, part.role); }

const AgentFacts::Reserved* Reserved::next(const AgentId& agent, const std::string& named) const {
  const auto found = by_agent_.find(agent);
  if (found == by_agent_.end()) return nullptr;
  const AgentFacts::Reserved* first = nullptr;
  Duration at = kNoLimit;
  for (const AgentFacts::Reserved& part : found->second) {
    Duration gone = kNoLimit;
    if (!named.empty() && part.name == named) {
      if (part.end.count() != 0) gone = part.end;
    } else if (part.whole && !(named.empty() && open(part))) {
      gone = part.start;
    }
    if (gone < at) at = gone, first = &part;
  }
  return hooks::mutant("batch.reservation_ignored") ? nullptr : first;
}

Duration Reserved::until(const AgentId& agent, const std::string& named) const {
  const AgentFacts::Reserved* part = next(agent, named);
  if (part == nullptr) return kNoLimit;
  return !named.empty() && part->name == named ? part->end : part->start;
}

bool Reserved::shut(const AgentId& agent, Duration wall) const {
  const auto found = by_agent_.find(agent);
  return found != by_agent_.end() && std::ranges::any_of(found->second, [&](const AgentFacts::Reserved& part) {
           return part.whole && part.start <= wall && !open(part);
         });
}

bool Reserved::must_be_named(const std::string& name) const {
  const auto found = all_.find(name);
  return found != all_.end() && found->second.named;
}

}  // namespace bourse::batch
