#include "frameworks/batch/allocations.h"

#include <algorithm>
#include <utility>

#include "common/core/hooks.h"

namespace bourse::batch {

bool Allocations::facts(const AgentFacts& facts, Duration wall) {
  auto it = agents_.find(facts.agent);
  const bool same = it != agents_.end() && it->second.total == facts.total && it->second.labels == facts.labels &&
                    (it->second.state == AgentFacts::State::kRemoved) == (facts.state == AgentFacts::State::kRemoved);
  const MilliCpus was = it != agents_.end() ? it->second.total.cpus : MilliCpus{};
  agents_[facts.agent] = facts;
  if (facts.state == AgentFacts::State::kDraining || facts.state == AgentFacts::State::kCordoned) {
    closed_.insert(facts.agent);
  } else {
    closed_.erase(facts.agent);
  }
  if (facts.closes.count() > 0 && facts.state != AgentFacts::State::kRemoved) {
    closing_[facts.agent] = facts.closes;
  } else {
    closing_.erase(facts.agent);
  }
  const bool changed =
      reserved_.facts(facts.agent, facts.state == AgentFacts::State::kRemoved ? Reserved::Parts{} : facts.reserved);
  const bool usable = facts.state == AgentFacts::State::kUp && !reserved_.shut(facts.agent, wall);
  planner_.set_node(node(facts.agent), usable ? facts.total : Resources{}, facts.labels);
  refresh(facts.agent);
  if (facts.state == AgentFacts::State::kRemoved) agents_.erase(facts.agent);
  if (same) return changed;
  ++epoch_;
  if (facts.state != AgentFacts::State::kRemoved && facts.total.cpus >= largest_) {
    largest_ = facts.total.cpus;
    return changed;
  }
  if (was < largest_) return changed;
  largest_ = {};
  for (const auto& [id, f] : agents_) largest_ = std::max(largest_, f.total.cpus);
  return changed;
}

bool Allocations::closes_before(const AgentId& agent, Duration wall, const std::string& reservation) const {
  if (const auto found = closing_.find(agent); found != closing_.end() && wall > found->second) return true;
  return reserved_.any() && wall > reserved_.until(agent, reservation);
}

std::set<AgentId> Allocations::closing() const {
  std::set<AgentId> out;
  for (const auto& [agent, wall] : closing_) out.insert(agent);
  for (const auto& [agent, parts] : reserved_.agents()) out.insert(agent);
  return out;
}

Planner::Node Allocations::node(const AgentId& agent) {
  auto [it, fresh] = nodes_.try_emplace(agent, 0);
  if (fresh) {
    it->second = planner_.add_node({}, {}, {});
    node_names_.push_back(agent);
  }
  return it->second;
}

// The planner takes as free what an agent has less what our tasks hold: what others hold is not known here, and a reservation that
// hopes is better than a queue that lets everybody pass.
void Allocations::refresh(const AgentId& agent) {
  const Planner::Node at = node(agent);
  Resources free = without_traits(planner_.total(at));
  auto it = by_agent_.find(agent);
  if (it == by_agent_.end()) return planner_.set_free(at, std::move(free));
  for (const SliceId& id : it->second) {
    const Slice& s = slices_.at(id);
    if (s.run == 0 || s.revocable || s.apart) continue;
    Resources amount = s.amount;
    // A device that has gone under its task takes nothing from the others.
    std::erase_if(amount.devices, [&free](const DeviceShare& share) {
      Resources one;
      one.devices = {share};
      return !free.contains(one);
    });
    // A refused difference means that the agent has shrunk below what runs on it: nothing is free then.
    if (!free.subtract(amount)) free = Resources{};
  }
  planner_.set_free(at, std::move(free));
}
void Allocations::hold(const Slice& slice) {
  if (slice.revocable || slice.apart) return;
  if (!planner_.take({node(slice.agent), slice.amount})) refresh(slice.agent);
}
void Allocations::unhold(Slice& slice) {
  if (slice.revocable || slice.apart) return;
  // Its devices may have gone or changed meanwhile: then what is free is counted anew, without this one.
  const std::uint64_t run = std::exchange(slice.run, 0);
  if (!slice.amount.devices.empty() || !planner_.give({node(slice.agent), slice.amount})) refresh(slice.agent);
  slice.run = run;
}

void Allocations::offer(Offer offer) {
  end_offer(offer.id);
  if (!agents_.contains(offer.agent) && !offer.revocable) {
    planner_.set_node(node(offer.agent), offer.agent_total, offer.labels);
    refresh(offer.agent);
  }
  const OfferId id = offer.id;
  offers_.emplace(id, std::move(offer));
}

bool Allocations::end_offer(OfferId id) { return offers_.erase(id) > 0; }

void Allocations::clear_offers() { offers_.clear(); }

Result<Resources> Allocations::carve_from(Offer& offer, const Shape& shape) {
  Resources amount = BOURSE_TRY(carve(shape, offer.resources, offer.agent_total, offer.labels));
  BOURSE_TRY(offer.resources.subtract(amount));
  return amount;
}

void Allocations::index(Slice& slice, bool on) {
  if (on) {
    idle_[slice.kind].insert(slice.id);
    ++idle_count_;
  } else {
    auto it = idle_.find(slice.kind);
    it->second.erase(slice.id);
    if (it->second.empty()) idle_.erase(it);
    --idle_count_;
  }
}

// After every change of a slice.
void Allocations::index_follow(Slice& s) {
  const bool may = s.run != 0 && s.ready && !s.releasing && !s.recalled && !s.foreign && s.gang.value == 0;
  const auto now = may ? std::optional<std::size_t>(s.ahead.size()) : std::nullopt;
  if (now != s.follow_indexed) {
    if (s.follow_indexed) {
      auto it = busy_.find(s.kind);
      it->second.erase({*s.follow_indexed, s.id});
      if (it->second.empty()) busy_.erase(it);
    }
    if (now) busy_[s.kind].emplace(*now, s.id);
    s.follow_indexed = now;
  }
  if (s.ahead.empty())
    followed_.erase(s.id);
  else
    followed_.insert(s.id);
}

Slice* Allocations::to_follow(const SliceKind& kind, std::size_t most) {
  const auto it = busy_.find(kind);
  if (it == busy_.end() || it->second.begin()->first >= most) return nullptr;
  return find(it->second.begin()->second);
}

void Allocations::follow(Slice& slice, std::uint64_t run, Duration now) {
  if (slice.ahead.empty()) slice.moved = now;
  slice.ahead.push_back(run);
  index_follow(slice);
}

void Allocations::unfollow(Slice& slice, std::uint64_t run) {
  std::erase(slice.ahead, run);
  index_follow(slice);
}

void Allocations::advance(Slice& slice, Duration now) {
  slice.run = slice.ahead.front();  // held all the time
  slice.ahead.pop_front();
  slice.moved = now;
  index_follow(slice);
}

Slice& Allocations::add(Slice slice) {
  auto [it, fresh] = slices_.emplace(slice.id, std::move(slice));
  Slice& s = it->second;
  if (!fresh) return s;
  by_agent_[s.agent].insert(s.id);
  if (s.offer.value != 0) by_offer_.emplace(s.offer, s.id);
  if (s.gang.value != 0) by_gang_.emplace(s.gang, s.id);
  if (is_idle(s)) index(s, true);
  if (s.run != 0) hold(s);
  index_follow(s);
  return s;
}

Slice* Allocations::find(const SliceId& id) {
  auto it = slices_.find(id);
  return it == slices_.end() ? nullptr : &it->second;
}

namespace {
template <class Map, class Key>
void erase_pair(Map& map, const Key& key, const SliceId& id) {
  for (auto [it, end] = map.equal_range(key); it != end; ++it)
    if (it->second == id) return void(map.erase(it));
}
template <class Map, class Key>
std::vector<SliceId> values_of(const Map& map, const Key& key) {
  std::vector<SliceId> out;
  for (auto [it, end] = map.equal_range(key); it != end; ++it) out.push_back(it->second);
  std::sort(out.begin(), out.end());
  return out;
}
}  // namespace

void Allocations::erase(const SliceId& id) {
  auto it = slices_.find(id);
  if (it == slices_.end()) return;
  Slice& s = it->second;
  if (is_idle(s)) index(s, false);
  if (s.run != 0) unhold(s);
  s.ready = false, s.ahead.clear();
  index_follow(s);
  by_agent_[s.agent].erase(s.id);
  if (s.offer.value != 0) erase_pair(by_offer_, s.offer, id);
  if (s.gang.value != 0) erase_pair(by_gang_, s.gang, id);
  slices_.erase(it);
}

void Allocations::occupy(Slice& slice, std::uint64_t run) {
  if (is_idle(slice)) index(slice, false);
  const bool was_held = slice.run != 0;
  slice.run = run;
  slice.foreign = false;
  if (!was_held) hold(slice);
  index_follow(slice);
}

void Allocations::vacate(Slice& slice, Duration now) {
  if (slice.run == 0) return;
  unhold(slice);
  slice.run = 0;
  slice.idle_since = now;
  if (is_idle(slice)) index(slice, true);
  index_follow(slice);
}

void Allocations::release(Slice& slice) {
  if (is_idle(slice)) index(slice, false);
  slice.releasing = true;
  index_follow(slice);
}

void Allocations::recall(Slice& slice) {
  slice.recalled = !hooks::mutant("batch.recalled_slice_kept");
  index_follow(slice);
}

void Allocations::resize(Slice& slice, Resources amount) {
  if (slice.run != 0) unhold(slice);
  slice.amount = std::move(amount);
  if (slice.run != 0) hold(slice);
  index_follow(slice);  // it may be ready by now
}

std::vector<SliceId> Allocations::idle_of(const SliceKind& kind, std::uint32_t count, Duration wall,
                                          const std::string& reservation) const {
  auto it = idle_.find(kind);
  if (it == idle_.end() || it->second.size() < count) return {};
  if (count == 1 && !any_closes()) return {*it->second.begin()};
  std::vector<SliceId> out;
  std::set<AgentId> agents;
  for (const SliceId& id : it->second) {
    if (closes_before(slices_.at(id).agent, wall, reservation)) continue;
    if (!agents.insert(slices_.at(id).agent).second) continue;
    out.push_back(id);
    if (out.size() == count) return out;
  }
  return {};
}

std::vector<SliceId> Allocations::idle_on(const AgentId& agent) const {
  std::vector<SliceId> out;
  auto it = by_agent_.find(agent);
  if (it == by_agent_.end()) return out;
  for (const SliceId& id : it->second)
    if (is_idle(slices_.at(id))) out.push_back(id);
  return out;
}

std::vector<SliceId> Allocations::idle_on_closed() const {
  std::vector<SliceId> out;
  for (const AgentId& agent : closed_)
    for (const SliceId& id : idle_on(agent)) out.push_back(id);
  return out;
}

std::vector<SliceId> Allocations::from_offer(OfferId offer) const { return values_of(by_offer_, offer); }
std::vector<SliceId> Allocations::of_gang(GangId gang) const { return values_of(by_gang_, gang); }

}  // namespace bourse::batch
