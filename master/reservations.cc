#include "master/reservations.h"

#include <algorithm>
#include <utility>

#include "common/core/hooks.h"
#include "common/core/units.h"
#include "master/house.h"

namespace bourse::house {

namespace {

bool begun(const House& h, const Reservation& r) { return r.start <= h.now.wall; }
bool over(const House& h, const Reservation& r) { return r.end.count() != 0 && r.end <= h.now.wall; }
bool overlap(const Reservation& a, const Reservation& b) {
  const auto before = [](const Reservation& x, const Reservation& y) { return x.end.count() != 0 && x.end <= y.start; };
  return !before(a, b) && !before(b, a);
}

// A shape of the amounts, less what is had of them already. Devices are whole ones.
Shape shape_of(const Counters& amount, const Usage& had) {
  Shape shape;
  for (const auto& [kind, most] : amount.items()) {
    const std::int64_t left = std::max<std::int64_t>(0, most - amount_of(had, kind));
    if (left == 0) continue;
    if (kind == "cpus") {
      shape.cpus = MilliCpus(left);
    } else if (kind == "mem") {
      shape.mem = Bytes(left);
    } else if (kind == "disk") {
      shape.disk = Bytes(left);
    } else {
      DeviceAsk ask;
      ask.kind = kind.find('/') == std::string::npos ? kind + "/" : kind;
      ask.count = static_cast<std::uint32_t>((left + 999) / 1000);
      shape.devices.push_back(std::move(ask));
    }
  }
  return shape;
}

}  // namespace

Result<> check_reservation_name(std::string_view name) {
  constexpr std::string_view kGood = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  if (name.empty() || name.size() > ReservationTable::kNameMax || name.find_first_not_of(kGood) != std::string_view::npos)
    return Error(Code::kInvalid, "reservation '" + std::string(name) +
                                     "': a name is made of letters, digits, '.', '_' and '-', at most " +
                                     std::to_string(ReservationTable::kNameMax) + " of them");
  return {};
}

Result<> check_reservation(const House& h, const std::string& name, const Reservation& r) {
  const std::string which = "reservation '" + name + "'";
  if (r.agents.empty()) return Error(Code::kInvalid, which + " names no agents");
  if (r.agents.size() > ReservationTable::kAgentsMax)
    return Error(Code::kLimit, which + " names more than " + std::to_string(ReservationTable::kAgentsMax) + " agents");
  if (r.end.count() != 0 && r.end <= std::max(r.start, h.now.wall))
    return Error(Code::kInvalid, which + " would end before it begins");
  for (const AgentId& agent : r.agents) {
    const auto found = h.agents.by_name().find(agent);
    if (found == h.agents.by_name().end()) return Error(Code::kNotFound, "there is no agent '" + agent.str() + "'");
    if (r.maintenance) continue;
    Usage all;  // what is reserved there while this one is
    bool whole = r.amount.empty();
    std::string other;
    for (const auto& [with, kept] : h.registry.reservations()) {
      if (with == name || kept.maintenance || !kept.agents.contains(agent) || !overlap(r, kept)) continue;
      other = with;
      whole = whole || kept.amount.empty();
      if (whole) break;
      all.add(usage_of(shape_of(kept.amount, {})));
    }
    if (whole && !other.empty())
      return Error(Code::kExists, which + ": agent '" + agent.str() + "' is reserved at that time by '" + other + "'");
    const Resources& total = h.ledger.account(found->second).target;
    if (r.amount.empty() || total.empty()) continue;  // it has not shown what it has yet
    const Usage has = usage_of(total);
    all.add(usage_of(shape_of(r.amount, {})));
    for (const auto& [kind, most] : r.amount.items()) {
      const std::string ask = kind == "cpus" || kind == "mem" || kind.find('/') != std::string::npos ? kind : kind + "/";
      const std::int64_t have = kind == "disk" ? total.disk.value : amount_of(has, kind);
      const std::int64_t want = kind == "disk" ? most : std::max(most, amount_of(all, ask));
      if (want <= have) continue;
      const std::string beside = want > most ? ", with what else is reserved there (" + other + ")" : "";
      return Error(Code::kLimit, which + ": agent '" + agent.str() + "' has " + amount_text(kind == "disk" ? "mem" : kind, have) +
                                     " " + kind + ", " + amount_text(kind == "disk" ? "mem" : kind, want) + " would be reserved" +
                                     beside);
    }
  }
  return {};
}

void ReservationTable::settings_changed(House& h) { rebuild(h); }

// All anew, which is rare: what was kept goes back first, and the next pass takes it again ahead of everybody.
void ReservationTable::rebuild(House& h) {
  std::set<AgentId> closing;
  for (const auto& [agent, names] : windows_) closing.insert(agent);
  for (const auto& [agent, keys] : by_agent_) {
    const auto found = h.agents.by_name().find(agent);
    if (found == h.agents.by_name().end()) continue;
    for (const std::uint64_t key : keys) h.ledger.let_go(found->second, key);
    h.allocator.agent_dirty(found->second);
  }
  std::set<AgentId> listed;  // frameworks hear of what is planned, too
  for (const auto& [agent, names] : all_) listed.insert(agent);
  std::set<std::string> were;
  for (const auto& [key, row] : rows_) were.insert(row.name);
  rows_.clear();
  by_agent_.clear();
  windows_.clear();
  all_.clear();
  std::vector<std::pair<Duration, std::string>> order;
  for (const auto& [name, r] : h.registry.reservations()) {
    if (!over(h, r)) order.emplace_back(r.start, name);
  }
  std::sort(order.begin(), order.end());
  for (const auto& [start, name] : order) {
    const Reservation& r = h.registry.reservations().at(name);
    if (r.maintenance) {
      for (const AgentId& agent : r.agents) windows_[agent].push_back(name);
      continue;
    }
    for (const AgentId& agent : r.agents) all_[agent].push_back(name), listed.insert(agent);
    if (!begun(h, r)) continue;
    were.erase(name);
    const std::uint64_t key = rows_.size() + 1;
    rows_[key] = {name, r.role};
    for (const AgentId& agent : r.agents) {
      by_agent_[agent].push_back(key);
      if (const auto found = h.agents.by_name().find(agent); found != h.agents.by_name().end())
        h.allocator.agent_dirty(found->second);
    }
  }
  // Offers of what has ended are of nothing any more.
  std::vector<std::uint64_t> ended;
  for (const auto& [id, offer] : h.offers.open)
    if (!offer.reserved.empty() && were.contains(offer.reserved)) ended.push_back(id);
  for (const std::uint64_t id : ended) end_offer(h, id, OfferEnd::kRescinded);
  for (const auto& [agent, names] : windows_) closing.insert(agent);
  for (const AgentId& agent : closing) {
    const auto found = h.agents.by_name().find(agent);
    if (found != h.agents.by_name().end()) agent_decided(h, found->second);
  }
  for (const AgentId& agent : listed) {
    const auto found = h.agents.by_name().find(agent);
    if (found == h.agents.by_name().end()) continue;
    agent_changed(h, found->second);
    h.allocator.agent_dirty(found->second);
  }
  arm(h);
}

void ReservationTable::arm(House& h) {
  Duration next = Duration::max();
  for (const auto& [name, r] : h.registry.reservations()) {
    for (const Duration at : {r.maintenance ? r.start - h.options.revoke_grace : r.start, r.start, r.end}) {
      if (at > h.now.wall) next = std::min(next, at);
    }
    if (over(h, r)) next = std::min(next, h.now.wall + kLookAgain);  // until that is on record
  }
  if (next != Duration::max()) looks.push(h.now.mono + std::min(next - h.now.wall, kLookAgain), 0);
}

void ReservationTable::due(House& h) {
  bool any_due = false;
  for (int look = 0; looks.pop_due(h.now.mono, look);) any_due = true;
  if (!any_due) return;
  std::vector<std::string> lapsed;
  for (const auto& [name, r] : h.registry.reservations())
    if (over(h, r) && !hooks::mutant("reservations.never_end")) lapsed.push_back(name);
  // Off the record; what it meant has ended with its time, whether that is written or not.
  for (const std::string& name : lapsed) expire_reservation(h, name);
  rebuild(h);
}

ReservationTable::Window ReservationTable::window(const House& h, const AgentId& agent) const {
  Window window;
  const auto found = windows_.find(agent);
  if (found == windows_.end() || hooks::mutant("reservations.no_window")) return window;
  for (const std::string& name : found->second) {
    const auto at = h.registry.reservations().find(name);
    if (at == h.registry.reservations().end() || over(h, at->second)) continue;
    const Reservation& r = at->second;
    window = {r.start, r.end, h.now.wall >= r.start - h.options.revoke_grace,
              "maintenance " + name + (r.reason.empty() ? "" : ": " + r.reason)};
    break;
  }
  return window;
}

bool ReservationTable::active(const House& h, const std::string& name) const {
  const auto found = h.registry.reservations().find(name);
  return found != h.registry.reservations().end() && begun(h, found->second) && !over(h, found->second);
}

bool ReservationTable::serves(const std::string& name, const Reservation& r, const RoleName& role, const std::string& named) {
  if (hooks::mutant("reservations.for_anybody")) return true;
  if (r.maintenance || !in_tree(role, r.role)) return false;
  return named == name || (named.empty() && !r.named) || hooks::mutant("reservations.name_ignored");
}

Duration ReservationTable::taken_from(const House& h, const AgentId& agent, const RoleName& role, const std::string& named) const {
  const auto found = all_.find(agent);
  if (found == all_.end()) return Duration{0};
  for (const std::string& name : found->second) {
    const auto at = h.registry.reservations().find(name);
    if (at == h.registry.reservations().end() || begun(h, at->second) || !at->second.amount.empty()) continue;
    if (!serves(name, at->second, role, named)) return at->second.start;
  }
  return Duration{0};
}

std::vector<AgentFacts::Reserved> ReservationTable::listed(const House& h, const AgentId& agent) const {
  std::vector<AgentFacts::Reserved> out;
  const auto found = all_.find(agent);
  if (found == all_.end()) return out;
  for (const std::string& name : found->second) {
    const auto at = h.registry.reservations().find(name);
    if (at == h.registry.reservations().end() || over(h, at->second)) continue;
    const Reservation& r = at->second;
    out.push_back({name, r.role, r.start, r.end, r.named, r.amount.empty()});
  }
  return out;
}

std::vector<std::pair<RoleName, std::uint64_t>> ReservationTable::kept_on(const House& h, AgentIx agent) const {
  std::vector<std::pair<RoleName, std::uint64_t>> kept;
  const auto found = by_agent_.find(h.agents.at(agent).id);
  if (found == by_agent_.end()) return kept;
  for (const std::uint64_t key : found->second)
    if (!h.ledger.kept(agent, key).empty()) kept.emplace_back(rows_.at(key).role, key);
  return kept;
}

const Resources& ReservationTable::kept_of(const House& h, const std::string& name, AgentIx agent) const {
  const auto row = std::find_if(rows_.begin(), rows_.end(), [&](const auto& entry) { return entry.second.name == name; });
  return h.ledger.kept(agent, row == rows_.end() ? 0 : row->first);
}

// What of the free amount the reservation still lacks there, as far as it is to be had.
Resources ReservationTable::lacking(House& h, std::uint64_t key, const Reservation& what, AgentIx ix) const {
  const Account& account = h.ledger.account(ix);
  if (what.amount.empty()) return account.free;
  const AgentRow& agent = h.agents.at(ix);
  const std::string& name = rows_.at(key).name;
  Usage had = usage_of(h.ledger.kept(ix, key));
  std::int64_t disk = h.ledger.kept(ix, key).disk.value;
  const auto count = [&](const Resources& part) {
    had.add(usage_of(part));
    disk += part.disk.value;
  };
  for (const std::uint64_t id : agent.offers)
    if (h.offers.open.at(id).reserved == name) count(h.offers.open.at(id).resources);
  for (const SliceId& id : agent.slices)
    if (const SliceRow* slice = h.slices.find(id); slice != nullptr && slice->spec.reserved == name) count(slice->spec.resources);
  Shape shape = shape_of(what.amount, had);
  shape.disk = Bytes(std::clamp<std::int64_t>(shape.disk.value - disk, 0, account.free.disk.value));
  shape.cpus = std::min(shape.cpus, account.free.cpus);
  shape.mem = std::min(shape.mem, account.free.mem);
  const std::vector<DeviceAsk> asks = std::exchange(shape.devices, {});
  Resources rest = account.free, part;
  const auto take = [&](const Shape& wanted) {
    auto carved = carve(wanted, rest, account.total, agent.labels);
    return carved && rest.subtract(*carved) && part.add(*carved);
  };
  if (shape.cpus.value > 0 || shape.mem.value > 0 || shape.disk.value > 0) take(shape);
  for (DeviceAsk ask : asks) {
    const std::uint32_t wanted = std::exchange(ask.count, 1);
    Shape one;
    one.devices = {ask};
    for (std::uint32_t n = 0; n < wanted && take(one); ++n) continue;
  }
  return part;
}

void ReservationTable::fill(House& h, AgentIx agent) {
  const auto found = by_agent_.find(h.agents.at(agent).id);
  if (found == by_agent_.end()) return;
  const Account& account = h.ledger.account(agent);
  for (const std::uint64_t key : found->second) {
    if (!account.open || account.shortfall || account.free.empty() || hooks::mutant("reservations.keep_nothing")) return;
    const auto at = h.registry.reservations().find(rows_.at(key).name);
    if (at == h.registry.reservations().end() || over(h, at->second)) continue;
    const Resources part = lacking(h, key, at->second, agent);
    if (part.empty()) continue;
    h.ledger.keep(agent, key, part);
    rows_.at(key).dirty = true;
  }
}

bool ReservationTable::wanted() const {
  return std::any_of(rows_.begin(), rows_.end(), [](const auto& entry) { return entry.second.dirty; });
}

void ReservationTable::demand_changed(const House&, const RoleName& role) {
  for (auto& [key, row] : rows_)
    if (in_tree(role, row.role) || hooks::mutant("reservations.for_anybody")) row.dirty = true;
}

void ReservationTable::serve(House& h) {
  for (auto& [key, row] : rows_) {
    if (!std::exchange(row.dirty, false)) continue;
    const auto at = h.registry.reservations().find(row.name);
    if (at == h.registry.reservations().end() || over(h, at->second)) continue;
    std::vector<AgentIx> agents;
    for (const AgentId& id : at->second.agents) {
      const auto found = h.agents.by_name().find(id);
      if (found != h.agents.by_name().end() && !h.ledger.kept(found->second, key).empty()) agents.push_back(found->second);
    }
    if (agents.empty()) continue;
    std::vector<FrameworkIx> frameworks;
    for (const auto& [id, ix] : h.frameworks.by_name()) {
      const FrameworkRow& framework = h.frameworks.at(ix);
      const bool may = in_tree(framework.role, row.role) || hooks::mutant("reservations.for_anybody");
      if (framework.wants && may) frameworks.push_back(ix);
    }
    h.allocator.offer_kept(h, key, row.name, at->second, agents, frameworks);
  }
}

}  // namespace bourse::house
