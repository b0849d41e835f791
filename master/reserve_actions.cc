#include "master/reserve_actions.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "common/core/hostlist.h"
#include "common/core/units.h"
#include "master/house.h"

namespace bourse::house {

namespace {

// "1700000000", seconds since 1970.
Result<Duration> moment(const std::string& name, const std::string& text) {
  const auto parsed = parse_duration(text, seconds(1));
  if (!parsed || text.find_first_not_of("0123456789") != std::string::npos || parsed->count() <= 0)
    return Error(Code::kInvalid, name + " " + text + ": seconds since 1970");
  return *parsed;
}

Result<Duration> length(const std::string& name, const std::string& text) {
  const Duration parsed = BOURSE_TRY(parse_duration(text));
  if (parsed.count() <= 0 || parsed > ReservationTable::kLongest)
    return Error(Code::kInvalid, name + " " + text + ": from a moment to ten years");
  return parsed;
}

// Those with the least on them; they are named in the record, so that they stay the same.
Result<std::set<AgentId>> choose_agents(const House& h, const std::string& text, const OperatorAction& action,
                                        const Reservation& r) {
  const auto count = parse_cpus(text);
  if (!count || count->value <= 0 || count->value % 1000 != 0 ||
      count->value / 1000 > static_cast<std::int64_t>(ReservationTable::kAgentsMax))
    return Error(Code::kInvalid, "nodes " + text + ": a whole number from 1 to " + std::to_string(ReservationTable::kAgentsMax));
  const auto wanted = static_cast<std::size_t>(count->value / 1000);
  std::vector<std::tuple<std::size_t, AgentId>> order;
  for (const auto& [id, ix] : h.agents.by_name()) {
    Reservation one = r;
    one.agents = {id};
    if (h.agents.at(ix).open() && check_reservation(h, action.target, one)) order.emplace_back(h.agents.at(ix).slices.size(), id);
  }
  if (order.size() < wanted)
    return Error(Code::kLimit, "reservation '" + action.target + "': " + std::to_string(wanted) + " agents are asked for, " +
                                   std::to_string(order.size()) + " that are up could be reserved");
  std::sort(order.begin(), order.end());
  std::set<AgentId> chosen;
  for (std::size_t i = 0; i < wanted; ++i) chosen.insert(std::get<1>(order[i]));
  return chosen;
}

Result<Reservation> reservation_of(const House& h, const OperatorAction& action) {
  constexpr std::string_view kAmount = "amount.";
  Reservation r;
  r.start = h.now.wall;
  r.owner = h.acting;
  r.reason = action.reason;
  Duration lasts{0};
  const std::string *agents = nullptr, *nodes = nullptr;
  for (const auto& [name, value] : action.parameters) {
    if (name == "role") {
      BOURSE_TRY(check_role_name(value));
      r.role = RoleName(value);
    } else if (name == "maintenance" && value == "yes") {
      r.maintenance = true;
    } else if (name == "named" && value == "yes") {
      r.named = true;
    } else if (name == "agents") {
      agents = &value;
    } else if (name == "nodes") {
      nodes = &value;
    } else if (name == "start") {
      r.start = std::max(h.now.wall, BOURSE_TRY(moment(name, value)));
    } else if (name == "duration") {
      lasts = BOURSE_TRY(length(name, value));
    } else if (name.starts_with(kAmount)) {
      const std::string kind = name.substr(kAmount.size());
      const bool size = kind == "disk" || kind == "mem";
      if (is_counter(kind)) return Error(Code::kInvalid, kind + ": whole devices are reserved, not amounts of their counters");
      const auto amount = BOURSE_TRY(parse_limit(size ? "mem" : kind, value));
      if (!size && kind != "cpus" && amount.second % 1000 != 0)
        return Error(Code::kInvalid, kind + "=" + value + ": devices are reserved whole");
      r.amount.set(kind, amount.second);
    } else {
      return Error(Code::kInvalid,
                   "a reservation has no '" + name + "'" + (name == "maintenance" || name == "named" ? " " + value : ""));
    }
  }
  if (r.maintenance == !r.role.str().empty())
    return Error(Code::kInvalid, "reservation '" + action.target + "' is for a role or for maintenance, one of them");
  if (r.maintenance && r.named) return Error(Code::kInvalid, "maintenance is for nobody's work, so none can name it");
  if (r.maintenance && !r.amount.empty()) return Error(Code::kInvalid, "maintenance closes whole agents, not amounts of them");
  if (r.amount.items().size() > RoleTable::kLimitKindsMax)
    return Error(Code::kLimit, "a reservation names at most " + std::to_string(RoleTable::kLimitKindsMax) + " kinds");
  if (lasts.count() > 0) r.end = r.start + lasts;
  if ((agents == nullptr) == (nodes == nullptr))
    return Error(Code::kInvalid, "reservation '" + action.target + "' names agents, or how many: one of them");
  if (nodes != nullptr) {
    r.agents = BOURSE_TRY(choose_agents(h, *nodes, action, r));
  } else {
    for (const std::string& host : BOURSE_TRY(expand_hosts(*agents))) r.agents.insert(AgentId(host));
  }
  return r;
}

Result<Reservation> extended(const House& h, const OperatorAction& action) {
  const auto found = h.registry.reservations().find(action.target);
  if (found == h.registry.reservations().end()) return Error(Code::kNotFound, "there is no reservation '" + action.target + "'");
  Reservation r = found->second;
  if (action.parameters.size() != 1)
    return Error(Code::kInvalid, "a reservation is extended by a time, to an end, or for ever: one of them");
  const auto& [name, value] = action.parameters.front();
  if (name == "by") {
    if (r.end.count() == 0) return Error(Code::kInvalid, "reservation '" + action.target + "' has no end");
    r.end += BOURSE_TRY(length(name, value));
  } else if (name == "end") {
    r.end = BOURSE_TRY(moment(name, value));
  } else if (name == "forever" && value == "yes") {
    r.end = Duration{0};
  } else {
    return Error(Code::kInvalid, "a reservation is extended by=, to end= or forever=yes, not by '" + name + "'");
  }
  BOURSE_TRY(check_reservation(h, action.target, r));
  return r;
}

}  // namespace

Result<> check_reserve(House& h, const OperatorAction& action) {
  BOURSE_TRY(check_reservation_name(action.target));
  if (h.registry.reservations().contains(action.target))
    return Error(Code::kExists, "there is a reservation '" + action.target + "' already");
  if (h.registry.reservations().size() >= ReservationTable::kReservationsMax)
    return Error(Code::kLimit, "there are as many reservations as this master keeps");
  const Reservation r = BOURSE_TRY(reservation_of(h, action));
  return check_reservation(h, action.target, r);
}
void record_reserve(House& h, const OperatorAction& action) {
  const auto r = reservation_of(h, action);
  BOURSE_ASSERT(r, r.error().text());
  h.registry.set_reservation(action.target, *r, *h.out);
}

Result<> check_extend_reservation(House& h, const OperatorAction& action) {
  BOURSE_TRY(extended(h, action));
  return {};
}
void record_extend_reservation(House& h, const OperatorAction& action) {
  const auto r = extended(h, action);
  BOURSE_ASSERT(r, r.error().text());
  h.registry.set_reservation(action.target, *r, *h.out);
}

Result<> check_release_reservation(House& h, const OperatorAction& action) {
  if (!action.parameters.empty())
    return Error(Code::kInvalid, "release-reservation takes no '" + action.parameters.front().first + "'");
  if (!h.registry.reservations().contains(action.target))
    return Error(Code::kNotFound, "there is no reservation '" + action.target + "'");
  return {};
}
void record_release_reservation(House& h, const OperatorAction& action) { h.registry.drop_reservation(action.target, *h.out); }

void apply_reservations(House& h, const OperatorAction&) { h.reservations.settings_changed(h); }

}  // namespace bourse::house
