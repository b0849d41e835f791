#include "master/registry.h"

#include <utility>

#include "common/core/hooks.h"

namespace bourse::house {

namespace {

// A record: type (u8), version (u8), fields. A number is 8 bytes, a text 4 bytes of length and its bytes; little endian.
enum class Type : std::uint8_t {
  kCluster = 1,
  kLead = 2,
  kAgent = 3,
  kAgentGone = 4,
  kFramework = 5,
  kFrameworkGone = 6,
  kCordon = 7,
  kUncordon = 8,
  kDrain = 9,
  kUndrain = 10,
  kLabels = 11,
  kRole = 12,
  kRoleGone = 13,
  kReservation = 14,
  kReservationGone = 15,
  kLearnt = 16,
};
constexpr std::uint8_t kRecordVersion = 1;
constexpr std::uint8_t kReservationVersion = 2;  // 1 had none that must be named
constexpr std::uint8_t kRoleVersion = 2;         // 1 had no priority and no guarantee
constexpr std::uint8_t kSnapshotVersion = 1;

class Writer {
 public:
  Writer() = default;
  explicit Writer(Type type, std::uint8_t version = kRecordVersion) {
    bytes_.push_back(static_cast<char>(type));
    bytes_.push_back(static_cast<char>(version));
  }
  Writer& amounts(const Counters& counters) {
    number(counters.items().size());
    for (const auto& [kind, amount] : counters.items()) text(kind).number(static_cast<std::uint64_t>(amount));
    return *this;
  }
  Writer& number(std::uint64_t value) { return little(value, 8); }
  Writer& text(std::string_view value) {
    little(value.size(), 4);
    bytes_.append(value);
    return *this;
  }
  std::string take() { return std::move(bytes_); }

 private:
  Writer& little(std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) bytes_.push_back(static_cast<char>((value >> (8 * i)) & 0xff));
    return *this;
  }
  std::string bytes_;
};

// Reads past the end as zero and remembers that it did.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}
  std::uint64_t number() { return little(8); }
  std::string text() {
    const std::uint64_t size = little(4);
    if (size > rest_.size()) return torn_ = true, std::string();
    std::string value(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return value;
  }
  Counters amounts() {
    Counters counters;
    for (std::uint64_t n = number(); n > 0 && !torn_; --n) {
      const std::string kind = text();
      counters.set(kind, static_cast<std::int64_t>(number()));
    }
    return counters;
  }
  std::uint8_t byte() { return static_cast<std::uint8_t>(little(1)); }
  [[nodiscard]] bool torn() const { return torn_; }
  [[nodiscard]] bool empty() const { return rest_.empty(); }

 private:
  std::uint64_t little(std::size_t bytes) {
    if (rest_.size() < bytes) return torn_ = true, 0;
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i) value |= std::uint64_t{static_cast<std::uint8_t>(rest_[i])} << (8 * i);
    rest_.remove_prefix(bytes);
    return value;
  }
  std::string_view rest_;
  bool torn_ = false;
};

std::string framework_record(const FrameworkIdentity& f) {
  return Writer(Type::kFramework)
      .text(f.id.str())
      .text(f.role.str())
      .number(f.incarnation.value)
      .number(static_cast<std::uint64_t>(f.failover_timeout.count()))
      .take();
}

std::string drain_record(const AgentId& agent, const Drain& drain) {
  return Writer(Type::kDrain)
      .text(agent.str())
      .number(static_cast<std::uint64_t>(drain.deadline.count()))
      .text(drain.reason)
      .take();
}

std::string labels_record(const AgentId& agent, const Labels& labels) {
  Writer out(Type::kLabels);
  out.text(agent.str()).number(labels.size());
  for (const auto& [key, value] : labels) out.text(key).text(value);
  return out.take();
}

std::string role_record(const RoleName& role, const RoleSettings& settings) {
  Writer out(Type::kRole, kRoleVersion);
  out.text(role.str()).number(static_cast<std::uint64_t>(settings.weight)).amounts(settings.limit);
  out.number(settings.priority ? 1 : 0).number(static_cast<std::uint64_t>(settings.priority.value_or(0)));
  out.amounts(settings.guarantee);
  return out.take();
}

std::string reservation_record(const std::string& name, const Reservation& r) {
  Writer out(Type::kReservation, kReservationVersion);
  out.text(name).text(r.role.str()).number(r.maintenance ? 1 : 0).number(r.agents.size());
  for (const AgentId& agent : r.agents) out.text(agent.str());
  out.amounts(r.amount);
  out.number(static_cast<std::uint64_t>(r.start.count())).number(static_cast<std::uint64_t>(r.end.count()));
  return out.text(r.owner).text(r.reason).number(r.named ? 1 : 0).take();
}

}  // namespace

// A newer version of a known type has more fields at its end, which are not read.
Result<> LogRegistry::apply(State& state, std::string_view record) {
  Reader in(record);
  const auto type = static_cast<Type>(in.byte());
  const std::uint8_t version = in.byte();
  switch (type) {
    case Type::kCluster: {  // the first counts: a new leader may not have heard yet that there is one
      std::string name = in.text();
      if (state.cluster.empty()) state.cluster = std::move(name);
      break;
    }
    case Type::kLead:
      in.number();
      break;
    case Type::kAgent:
      state.agents.insert(AgentId(in.text()));
      break;
    case Type::kAgentGone: {
      const AgentId agent(in.text());
      state.agents.erase(agent);
      state.cordons.erase(agent);
      state.drains.erase(agent);
      state.labels.erase(agent);
      break;
    }
    case Type::kFramework: {
      FrameworkIdentity f;
      f.id = FrameworkId(in.text());
      f.role = RoleName(in.text());
      f.incarnation = Incarnation(in.number());
      f.failover_timeout = Duration(static_cast<std::int64_t>(in.number()));
      state.frameworks[f.id] = f;
      break;
    }
    case Type::kFrameworkGone:
      state.frameworks.erase(FrameworkId(in.text()));
      break;
    case Type::kCordon: {
      const AgentId agent(in.text());
      state.cordons[agent] = in.text();
      break;
    }
    case Type::kUncordon:
      state.cordons.erase(AgentId(in.text()));
      break;
    case Type::kDrain: {
      const AgentId agent(in.text());
      Drain drain;
      drain.deadline = Duration(static_cast<std::int64_t>(in.number()));
      drain.reason = in.text();
      state.drains[agent] = drain;
      break;
    }
    case Type::kUndrain:
      state.drains.erase(AgentId(in.text()));
      break;
    case Type::kLabels: {
      const AgentId agent(in.text());
      Labels labels;
      for (std::uint64_t n = in.number(); n > 0 && !in.torn(); --n) {
        const std::string key = in.text();
        labels[key] = in.text();
      }
      if (labels.empty())
        state.labels.erase(agent);
      else
        state.labels[agent] = std::move(labels);
      break;
    }
    case Type::kRole: {
      const RoleName role(in.text());
      RoleSettings settings;
      settings.weight = static_cast<std::int64_t>(in.number());
      settings.limit = in.amounts();
      if (version >= 2) {
        const bool set = in.number() != 0;
        const auto priority = static_cast<std::int64_t>(in.number());
        if (set) settings.priority = priority;
        settings.guarantee = in.amounts();
      }
      state.roles[role] = std::move(settings);
      break;
    }
    case Type::kRoleGone:
      state.roles.erase(RoleName(in.text()));
      break;
    case Type::kReservation: {
      const std::string name = in.text();
      Reservation r;
      r.role = RoleName(in.text());
      r.maintenance = in.number() != 0;
      for (std::uint64_t n = in.number(); n > 0 && !in.torn(); --n) r.agents.insert(AgentId(in.text()));
      r.amount = in.amounts();
      r.start = Duration(static_cast<std::int64_t>(in.number()));
      r.end = Duration(static_cast<std::int64_t>(in.number()));
      r.owner = in.text();
      r.reason = in.text();
      if (version >= 2) r.named = in.number() != 0;
      state.reservations[name] = std::move(r);
      break;
    }
    case Type::kReservationGone:
      state.reservations.erase(in.text());
      break;
    case Type::kLearnt:
      state.learnt = in.text();
      break;
    default:
      state.unknown.emplace_back(record);
      return {};
  }
  if (in.torn())
    return Error(Code::kCorrupt, "a registry record of type " + std::to_string(static_cast<int>(type)) + " is cut short");
  return {};
}

Result<> LogRegistry::replay(const std::string& snapshot, const std::vector<std::string>& records) {
  State state;
  std::uint64_t index = 0;
  if (!snapshot.empty()) {
    Reader in(snapshot);
    const std::uint8_t version = in.byte();
    if (version != kSnapshotVersion) {
      return Error(Code::kVersion,
                   "the registry's snapshot has version " + std::to_string(version) + "; this program reads version 1");
    }
    index = in.number();
    while (!in.empty() && !in.torn()) BOURSE_TRY(apply(state, in.text()));
    if (in.torn()) return Error(Code::kCorrupt, "the registry's snapshot is cut short");
  }
  for (const std::string& record : records) {
    ++index;
    if (auto done = apply(state, record); !done) return std::move(done).error().add("registry record " + std::to_string(index));
    // A failed append used up indexes that no record shows: the record of a lead says where it stood.
    if (Reader in(record); static_cast<Type>(in.byte()) == Type::kLead) {
      in.byte();
      index = std::max(index, in.number());
    }
  }
  state_ = std::move(state);
  index_ = committed_ = index;
  since_snapshot_ = records.size();
  return {};
}

std::string LogRegistry::snapshot() const {
  Writer out;
  std::string bytes(1, static_cast<char>(kSnapshotVersion));
  out.number(index_);
  if (!state_.cluster.empty()) out.text(Writer(Type::kCluster).text(state_.cluster).take());
  for (const AgentId& agent : state_.agents) out.text(Writer(Type::kAgent).text(agent.str()).take());
  for (const auto& [id, framework] : state_.frameworks) out.text(framework_record(framework));
  for (const auto& [agent, reason] : state_.cordons) out.text(Writer(Type::kCordon).text(agent.str()).text(reason).take());
  for (const auto& [agent, drain] : state_.drains) out.text(drain_record(agent, drain));
  for (const auto& [agent, labels] : state_.labels) out.text(labels_record(agent, labels));
  for (const auto& [role, settings] : state_.roles) out.text(role_record(role, settings));
  for (const auto& [name, reservation] : state_.reservations) out.text(reservation_record(name, reservation));
  if (!state_.learnt.empty()) out.text(Writer(Type::kLearnt).text(state_.learnt).take());
  for (const std::string& record : state_.unknown) out.text(record);
  return bytes + out.take();
}

void LogRegistry::write(std::string record, Actions& out) {
  ++index_;
  since_snapshot_ += 1 + record.size() / kRecordUsual;
  pending_[out.ticket].push_back({index_, record});
  out.append(Safety::kPower, std::move(record));
  hooks::crash_point("master.after_append");
}

void LogRegistry::lead(const std::string& cluster_if_new, Actions& out) {
  if (state_.cluster.empty()) write(Writer(Type::kCluster).text(cluster_if_new).take(), out);
  write(Writer(Type::kLead).number(index_ + 1).take(), out);
}
void LogRegistry::put_agent(const AgentId& agent, Actions& out) { write(Writer(Type::kAgent).text(agent.str()).take(), out); }
void LogRegistry::drop_agent(const AgentId& agent, Actions& out) { write(Writer(Type::kAgentGone).text(agent.str()).take(), out); }
void LogRegistry::put_framework(const FrameworkIdentity& framework, Actions& out) { write(framework_record(framework), out); }
void LogRegistry::drop_framework(const FrameworkId& id, Actions& out) {
  write(Writer(Type::kFrameworkGone).text(id.str()).take(), out);
}
void LogRegistry::set_cordon(const AgentId& agent, bool cordoned, const std::string& reason, Actions& out) {
  write(cordoned ? Writer(Type::kCordon).text(agent.str()).text(reason).take() : Writer(Type::kUncordon).text(agent.str()).take(),
        out);
}

void LogRegistry::set_drain(const AgentId& agent, const Drain& drain, Actions& out) { write(drain_record(agent, drain), out); }
void LogRegistry::clear_drain(const AgentId& agent, Actions& out) { write(Writer(Type::kUndrain).text(agent.str()).take(), out); }
void LogRegistry::set_labels(const AgentId& agent, const Labels& labels, Actions& out) { write(labels_record(agent, labels), out); }
void LogRegistry::set_role(const RoleName& role, const RoleSettings& settings, Actions& out) {
  write(role_record(role, settings), out);
}
void LogRegistry::drop_role(const RoleName& role, Actions& out) { write(Writer(Type::kRoleGone).text(role.str()).take(), out); }

void LogRegistry::set_reservation(const std::string& name, const Reservation& reservation, Actions& out) {
  write(reservation_record(name, reservation), out);
}
void LogRegistry::drop_reservation(const std::string& name, Actions& out) {
  write(Writer(Type::kReservationGone).text(name).take(), out);
}

void LogRegistry::set_learnt(const std::string& learnt, Actions& out) { write(Writer(Type::kLearnt).text(learnt).take(), out); }

void LogRegistry::durable(Ticket ticket, std::uint64_t index) {
  const auto found = pending_.find(ticket);
  if (found == pending_.end()) return;
  if (index != 0) {  // a replicated log numbers its entries itself; those of one step are one
    index_ = std::max(index_, index);
    committed_ = index;
    numbered_ = true;
    for (Pending& pending : found->second) pending.index = index;
  }
  for (const Pending& pending : found->second) {
    BOURSE_ASSERT(apply(state_, pending.record), "a record of our own making is damaged");
    if (static_cast<Type>(pending.record[0]) == Type::kLead)
      epoch_ = Epoch(hooks::mutant("master.epoch_constant") ? 1 : pending.index);
  }
  pending_.erase(found);
  renumber();
}

// The indexes stay used up: an epoch may skip numbers but never repeats one that was durable, for the log that failed may
// hold the record after all.
void LogRegistry::failed(Ticket ticket) {
  pending_.erase(ticket);
  renumber();
}

// A replicated log gives a number to what it takes only.
void LogRegistry::renumber() {
  if (numbered_ && pending_.empty()) index_ = committed_;
}

// Only when nothing is in flight: a snapshot replaces every record appended before it, durable or not.
void LogRegistry::compact_if_worth(Actions& out) {
  const std::uint64_t live = state_.agents.size() + state_.frameworks.size() + state_.cordons.size() + state_.drains.size() +
                             state_.labels.size() + state_.roles.size() + state_.reservations.size() + state_.unknown.size();
  if (since_snapshot_ < kCompactAfter || since_snapshot_ < 2 * live || !pending_.empty() || !out.appends.empty()) return;
  since_snapshot_ = 0;
  out.compact = snapshot();
}

Result<> LogRegistry::committed(std::uint64_t index, const std::vector<std::string>& records) {
  for (const std::string& record : records) BOURSE_TRY(apply(state_, record));
  index_ = std::max(index_, index);
  committed_ = index;
  numbered_ = true;
  renumber();
  return {};
}

void LogRegistry::deposed() {
  pending_.clear();  // it is void, or comes back with its number
  numbered_ = true;
  renumber();
  epoch_ = Epoch();
}

const FrameworkIdentity* LogRegistry::framework(const FrameworkId& id) const {
  const auto found = state_.frameworks.find(id);
  return found == state_.frameworks.end() ? nullptr : &found->second;
}

}  // namespace bourse::house
