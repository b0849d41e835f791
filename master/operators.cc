#include "master/operators.h"

#include <array>
#include <utility>

#include "common/core/hooks.h"
#include "common/core/units.h"
#include "master/house.h"
#include "master/reserve_actions.h"

namespace bourse::house {

void EventLog::add(Duration wall, std::string line) {
  if (rows_.size() == kEventsMax) rows_.pop_front();
  rows_.push_back({++last_, wall, std::move(line)});
}

namespace {

using Parameters = std::vector<std::pair<std::string, std::string>>;

constexpr std::size_t kReasonMax = 1'000, kLabelMax = 255;  // bytes
constexpr Duration kDeadlineMost = std::chrono::hours(24 * 366);

template <class T>
T checked(Result<T> value) {
  BOURSE_ASSERT(value, value.error().text());
  return *std::move(value);
}

const std::string* parameter(const OperatorAction& action, std::string_view name) {
  for (const auto& [key, value] : action.parameters)
    if (key == name) return &value;
  return nullptr;
}

Result<> no_parameters(const OperatorAction& action) {
  if (action.parameters.empty()) return {};
  return Error(Code::kInvalid, action.action + " takes no '" + action.parameters.front().first + "'");
}

// --- agents
Result<> check_agent(House& h, const OperatorAction& action) {
  if (h.agents.find(AgentId(action.target)) == nullptr) return Error(Code::kNotFound, "there is no agent '" + action.target + "'");
  return {};
}
Result<> check_plain_agent(House& h, const OperatorAction& action) {
  BOURSE_TRY(check_agent(h, action));
  return no_parameters(action);
}

AgentIx agent_of(House& h, const OperatorAction& action, bool& known) {
  AgentIx ix = 0;
  known = h.agents.find(AgentId(action.target), &ix) != nullptr;
  return ix;
}

void record_cordon(House& h, const OperatorAction& action) {
  h.registry.set_cordon(AgentId(action.target), action.action == "cordon", action.reason, *h.out);
}

Result<Duration> deadline_of(const OperatorAction& action) {
  const std::string* text = parameter(action, "deadline");
  if (text == nullptr || *text == "0") return Duration{0};
  const Duration deadline = BOURSE_TRY(parse_duration(*text));
  if (deadline.count() <= 0 || deadline > kDeadlineMost)
    return Error(Code::kInvalid, "deadline " + *text + ": from a moment to a year from now");
  return deadline;
}

Result<> check_drain(House& h, const OperatorAction& action) {
  BOURSE_TRY(check_agent(h, action));
  for (const auto& [name, value] : action.parameters)
    if (name != "deadline") return Error(Code::kInvalid, "drain takes a deadline, not '" + name + "'");
  BOURSE_TRY(deadline_of(action));
  return {};
}
void record_drain(House& h, const OperatorAction& action) {
  const Duration in = checked(deadline_of(action));
  h.registry.set_drain(AgentId(action.target), {in.count() == 0 ? Duration{0} : h.now.wall + in, action.reason}, *h.out);
}
void record_undrain(House& h, const OperatorAction& action) { h.registry.clear_drain(AgentId(action.target), *h.out); }

// Cordon, drain and labels: the row follows the registry.
void apply_agent(House& h, const OperatorAction& action) {
  bool known = false;
  const AgentIx ix = agent_of(h, action, known);
  if (known) agent_decided(h, ix);
}

Result<Labels> labels_after(const House& h, const OperatorAction& action) {
  const auto found = h.registry.labels().find(AgentId(action.target));
  Labels labels = found == h.registry.labels().end() ? Labels{} : found->second;
  for (const auto& [name, value] : action.parameters) {
    const bool away = !name.empty() && name.back() == '-' && value.empty();
    const std::string key = away ? name.substr(0, name.size() - 1) : name;
    if (key.empty() || key.size() > kLabelMax || value.size() > kLabelMax || key.find_first_of(" \t\n,=&!()") != std::string::npos)
      return Error(Code::kInvalid, "label '" + name + "': a name without blanks or any of ,=&!() and a value, each of at most " +
                                       std::to_string(kLabelMax) + " characters");
    if (key == "host" || key == "arch")
      return Error(Code::kInvalid, "label '" + key + "' is what the agent itself says; give yours another name");
    if (away) {
      labels.erase(key);
    } else {
      labels[key] = value;
    }
  }
  if (labels.size() > kLabelsPerAgentMax)
    return Error(Code::kLimit, "an agent takes at most " + std::to_string(kLabelsPerAgentMax) + " labels of operators");
  return labels;
}
Result<> check_label(House& h, const OperatorAction& action) {
  BOURSE_TRY(check_agent(h, action));
  if (action.parameters.empty()) return Error(Code::kInvalid, "no label is named");
  BOURSE_TRY(labels_after(h, action));
  return {};
}
void record_label(House& h, const OperatorAction& action) {
  h.registry.set_labels(AgentId(action.target), checked(labels_after(h, action)), *h.out);
}

void record_remove_agent(House& h, const OperatorAction& action) { h.registry.drop_agent(AgentId(action.target), *h.out); }
void apply_remove_agent(House& h, const OperatorAction& action) {
  bool known = false;
  const AgentIx ix = agent_of(h, action, known);
  if (known) agent_remove(h, ix, action.reason);
}

Result<> check_reprobe(House& h, const OperatorAction& action) {
  BOURSE_TRY(no_parameters(action));
  if (action.target.empty()) return {};
  BOURSE_TRY(check_agent(h, action));
  bool known = false;
  if (h.agents.at(agent_of(h, action, known)).way().value == 0)
    return Error(Code::kGone, "agent '" + action.target + "' is not connected");
  return {};
}
void apply_reprobe(House& h, const OperatorAction& action) {
  for (const auto& [id, ix] : h.agents.by_name()) {
    const PeerId way = h.agents.at(ix).way();
    if (way.value != 0 && (action.target.empty() || id.str() == action.target)) h.send(way, Heartbeat{h.now.wall, true});
  }
}

// --- frameworks
Result<> check_framework(House& h, const OperatorAction& action) {
  if (h.frameworks.find(FrameworkId(action.target)) == nullptr)
    return Error(Code::kNotFound, "there is no framework '" + action.target + "'");
  return no_parameters(action);
}
void apply_remove_framework(House& h, const OperatorAction& action) {  // its record is written on the way
  FrameworkIx ix = 0;
  if (h.frameworks.find(FrameworkId(action.target), &ix) == nullptr) return;
  h.send(h.frameworks.at(ix).peer, Refused{Code::kGone, "removed by an operator: " + action.reason});
  framework_remove(h, ix, "removed by an operator: " + action.reason);
}

// --- roles
Result<RoleSettings> settings_after(const House& h, const OperatorAction& action) {
  constexpr std::string_view kLimit = "limit.", kGuarantee = "guarantee.";
  const auto found = h.registry.roles().find(RoleName(action.target));
  RoleSettings settings = found == h.registry.roles().end() ? RoleSettings{} : found->second;
  for (const auto& [name, value] : action.parameters) {
    if (name == "weight") {
      const auto weight = parse_cpus(value);
      if (!weight || weight->value % 1000 != 0 || weight->value <= 0 || weight->value / 1000 > RoleTable::kWeightMax)
        return Error(Code::kInvalid, "weight " + value + ": a whole number from 1 to " + std::to_string(RoleTable::kWeightMax));
      settings.weight = weight->value / 1000;
    } else if (name.starts_with(kLimit)) {
      const auto limit = BOURSE_TRY(parse_limit(std::string_view(name).substr(kLimit.size()), value));
      settings.limit.set(limit.first, limit.second);
    } else if (name.starts_with(kGuarantee)) {
      const auto most = BOURSE_TRY(parse_limit(std::string_view(name).substr(kGuarantee.size()), value));
      settings.guarantee.set(most.first, most.second);
    } else if (name == "priority" && value == "none") {
      settings.priority.reset();
    } else if (name == "priority") {
      const bool below = value.starts_with('-');
      const auto number = parse_cpus(below ? std::string_view(value).substr(1) : std::string_view(value));
      if (!number || number->value % 1000 != 0 || number->value < 0 || number->value / 1000 > RoleTable::kPriorityMost)
        return Error(Code::kInvalid, "priority " + value + ": a whole number from -" + std::to_string(RoleTable::kPriorityMost) +
                                         " to " + std::to_string(RoleTable::kPriorityMost) + ", or none");
      settings.priority = below ? -number->value / 1000 : number->value / 1000;
    } else {
      return Error(Code::kInvalid, "a role has a weight, a priority, limits and guarantees, not '" + name + "'");
    }
  }
  if (settings.guarantee.items().size() > RoleTable::kLimitKindsMax)
    return Error(Code::kLimit, "a role takes guarantees of at most " + std::to_string(RoleTable::kLimitKindsMax) + " kinds");
  for (const auto& [kind, amount] : settings.guarantee.items()) {
    const std::int64_t most = settings.limit.get(kind);
    if (most > 0 && amount > most)
      return Error(Code::kInvalid, "role '" + action.target + "' would be guaranteed " + amount_text(kind, amount) + " " + kind +
                                       ", above its limit of " + amount_text(kind, most));
  }
  if (settings.limit.items().size() > RoleTable::kLimitKindsMax)
    return Error(Code::kLimit, "a role takes limits on at most " + std::to_string(RoleTable::kLimitKindsMax) + " kinds");
  return settings;
}
Result<> check_set_role(House& h, const OperatorAction& action) {
  BOURSE_TRY(check_role_name(action.target));
  if (h.registry.roles().size() >= RoleTable::kRolesMax && !h.registry.roles().contains(RoleName(action.target)))
    return Error(Code::kLimit, "there are as many roles with settings as this master keeps");
  BOURSE_TRY(settings_after(h, action));
  return {};
}
void record_set_role(House& h, const OperatorAction& action) {
  h.registry.set_role(RoleName(action.target), checked(settings_after(h, action)), *h.out);
}
Result<> check_remove_role(House& h, const OperatorAction& action) {
  if (!h.registry.roles().contains(RoleName(action.target)))
    return Error(Code::kNotFound, "role '" + action.target + "' has no settings");
  return no_parameters(action);
}
void record_remove_role(House& h, const OperatorAction& action) { h.registry.drop_role(RoleName(action.target), *h.out); }
void apply_roles(House& h, const OperatorAction&) { h.roles.settings_changed(h); }

struct Row {
  std::string_view name;
  Result<> (*check)(House&, const OperatorAction&);
  void (*record)(House&, const OperatorAction&);  // null: nothing to record, or its apply does it
  void (*apply)(House&, const OperatorAction&);   // null as well: leadership.h does it
};
constexpr std::array kActions = {
    Row{"cordon", check_plain_agent, record_cordon, apply_agent},
    Row{"uncordon", check_plain_agent, record_cordon, apply_agent},
    Row{"drain", check_drain, record_drain, apply_agent},
    Row{"undrain", check_plain_agent, record_undrain, apply_agent},
    Row{"label", check_label, record_label, apply_agent},
    Row{"reprobe", check_reprobe, nullptr, apply_reprobe},
    Row{"remove-agent", check_plain_agent, record_remove_agent, apply_remove_agent},
    Row{"remove-framework", check_framework, nullptr, apply_remove_framework},
    Row{"set-role", check_set_role, record_set_role, apply_roles},
    Row{"remove-role", check_remove_role, record_remove_role, apply_roles},
    Row{"reserve", check_reserve, record_reserve, apply_reservations},
    Row{"extend-reservation", check_extend_reservation, record_extend_reservation, apply_reservations},
    Row{"release-reservation", check_release_reservation, record_release_reservation, apply_reservations},
    Row{"add-master", check_add_master, nullptr, nullptr},
    Row{"remove-master", check_remove_master, nullptr, nullptr},
};

const Row* find_action(std::string_view name) {
  for (const Row& row : kActions)
    if (row.name == name) return &row;
  return nullptr;
}

Result<> check(House& h, const Row* row, const OperatorAction& action) {
  if (row == nullptr) {
    std::string names;
    for (const Row& known : kActions) names += (names.empty() ? "" : ", ") + std::string(known.name);
    names += ", " + std::string(kReloadAction);
    return Error(Code::kInvalid, "'" + action.action + "' is none of " + names);
  }
  if (action.reason.size() > kReasonMax)
    return Error(Code::kLimit, "a reason has at most " + std::to_string(kReasonMax) + " characters");
  return row->check(h, action);
}

}  // namespace

// The audit line: who, what, from where, and what came of it.
void conclude(House& h, const Operation& op, Code code, const std::string& reason) {
  std::string with;
  for (const auto& [name, value] : op.action.parameters) with += (with.empty() ? "" : ",") + name + "=" + value;
  h.log(LogLevel::kInfo, "operator_action",
        {{"operator", op.identity.empty() ? "-" : op.identity},
         {"from", op.from},
         {"action", op.action.action},
         {"target", op.action.target},
         {"with", with},
         {"reason", op.action.reason},
         {"code", std::string(code_text(code))},
         {"error", reason}});
  h.send(op.peer, OperatorReply{op.action.tag, code, reason});
}

void on_operator(House& h, const Session& from, const Message& message) {
  Operation op{from.peer, from.identity, std::get<OperatorAction>(message.body), from.from};
  if (op.action.action == kReloadAction) return begin_reload(h, std::move(op));
  const Row* row = find_action(op.action.action);
  h.acting = from.identity;
  if (auto checked = check(h, row, op.action); !checked) return conclude(h, op, checked.error().code(), checked.error().text());
  if (row->record == nullptr && row->apply == nullptr) return change_master(h, std::move(op));
  if (row->record == nullptr) {
    row->apply(h, op.action);
    return conclude(h, op, Code::kOk, "");
  }
  if (h.pending_size >= House::kPendingMax) return conclude(h, op, Code::kBusy, "the registry is behind; try again");
  row->record(h, op.action);
  h.operations[h.out->ticket].push_back(std::move(op));
  ++h.pending_size;
}

void expire_reservation(House& h, const std::string& name) {
  if (h.pending_size >= House::kPendingMax) return;  // looked at again in a minute
  Operation op;
  op.identity = "master";
  op.action = {0, "release-reservation", name, "its time is over", {}};
  record_release_reservation(h, op.action);
  h.operations[h.out->ticket].push_back(std::move(op));
  ++h.pending_size;
}

void operations_durable(House& h, Ticket ticket) {
  const auto node = h.operations.extract(ticket);
  if (node.empty()) return;
  h.pending_size -= node.mapped().size();
  for (const Operation& op : node.mapped()) {
    find_action(op.action.action)->apply(h, op.action);
    conclude(h, op, Code::kOk, "");
  }
}

void operations_failed(House& h, Ticket ticket, const std::string& why) {
  const auto node = h.operations.extract(ticket);
  if (node.empty()) return;
  h.pending_size -= node.mapped().size();
  for (const Operation& op : node.mapped()) conclude(h, op, Code::kIo, "the registry could not be written: " + why);
}

}  // namespace bourse::house
