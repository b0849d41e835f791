// What the master cannot learn from agents: who exists, what operators decided, and who led. See "Epoch".
//
// LogRegistry keeps it as records of the driver's log: a file of its own, or the log that the masters replicate (raft.h). A record is
// appended with Safety::kPower; `Durable` for its ticket makes it so; what others wrote comes as `Committed`. Records are typed and versioned: one of a
// type that this program does not know (a newer master wrote it) is counted, reported, and carried along through snapshots;
// one that is damaged refuses the start, because forgetting what was acknowledged is worse than not starting.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/core/action.h"
#include "common/core/ids.h"
#include "common/core/resources.h"
#include "common/core/result.h"
#include "common/core/time.h"

namespace bourse::house {

// What an operator has set for an account. Names form a tree, parts joined by '/'; see roles.h for what is made of it.
struct RoleSettings {
  std::int64_t weight = 1;
  Counters limit;  // "cpus" in milli-cores, "mem" in bytes, a device kind in permille of devices; absent: unlimited
  std::optional<std::int64_t> priority;  // against other roles; absent: that of the role above it, 0 at the top
  Counters guarantee;                    // what it may take back from others, in the units of `limit`
  bool operator==(const RoleSettings&) const = default;
};

// A lease of some agents, or of a part of each, for a role; or, with `maintenance`, of agents for those who mend them. Times are wall
// times, since they have to outlive the master.
struct Reservation {
  RoleName role;  // maintenance: empty
  bool maintenance = false;
  bool named = false;  // only for demand that names it
  std::set<AgentId> agents;
  Counters amount;            // of each agent, in the units of RoleSettings.limit; empty: all of it
  Duration start{0}, end{0};  // end 0: until it is released
  std::string owner, reason;
  bool operator==(const Reservation&) const = default;
};

// An agent that shall be empty. `deadline` is wall time, since it has to outlive the master; 0: none, work ends by itself.
struct Drain {
  Duration deadline{0};
  std::string reason;
  bool operator==(const Drain&) const = default;
};

struct FrameworkIdentity {
  FrameworkId id;
  RoleName role;
  Incarnation incarnation;
  Duration failover_timeout{0};
  bool operator==(const FrameworkIdentity&) const = default;
};

class Registry {
 public:
  virtual ~Registry() = default;
  virtual Result<> replay(const std::string& snapshot, const std::vector<std::string>& records) = 0;

  // Each appends through `out` and remembers out.ticket until it is durable or has failed.
  virtual void lead(const std::string& cluster_if_new, Actions& out) = 0;
  virtual void put_agent(const AgentId& agent, Actions& out) = 0;
  virtual void drop_agent(const AgentId& agent, Actions& out) = 0;
  virtual void put_framework(const FrameworkIdentity& framework, Actions& out) = 0;
  virtual void drop_framework(const FrameworkId& framework, Actions& out) = 0;
  virtual void set_cordon(const AgentId& agent, bool cordoned, const std::string& reason, Actions& out) = 0;
  virtual void set_drain(const AgentId& agent, const Drain& drain, Actions& out) = 0;
  virtual void clear_drain(const AgentId& agent, Actions& out) = 0;
  virtual void set_labels(const AgentId& agent, const Labels& labels, Actions& out) = 0;  // an operator's, all of them
  virtual void set_role(const RoleName& role, const RoleSettings& settings, Actions& out) = 0;
  virtual void drop_role(const RoleName& role, Actions& out) = 0;
  virtual void set_reservation(const std::string& name, const Reservation& reservation, Actions& out) = 0;
  virtual void drop_reservation(const std::string& name, Actions& out) = 0;
  virtual void set_learnt(const std::string& learnt, Actions& out) = 0;
  virtual void durable(Ticket ticket, std::uint64_t index = 0) = 0;  // index: of a replicated log's entry
  virtual void failed(Ticket ticket) = 0;                            // what that ticket wrote is unsaid: ask again
  virtual void compact_if_worth(Actions& out) = 0;

  // Of a replicated log: an entry that is nobody's here; no leadership, and nothing under way, any more; what it all comes to.
  virtual Result<> committed(std::uint64_t index, const std::vector<std::string>& records) = 0;
  virtual void deposed() = 0;
  [[nodiscard]] virtual std::string snapshot() const = 0;

  // Only what is durable.
  [[nodiscard]] virtual Epoch epoch() const = 0;  // of this leadership; 0 until its record is durable
  [[nodiscard]] virtual const std::string& cluster() const = 0;
  [[nodiscard]] virtual bool knows_agent(const AgentId& agent) const = 0;
  [[nodiscard]] virtual const FrameworkIdentity* framework(const FrameworkId& id) const = 0;
  [[nodiscard]] virtual const std::set<AgentId>& agents() const = 0;
  [[nodiscard]] virtual const std::map<FrameworkId, FrameworkIdentity>& frameworks() const = 0;
  [[nodiscard]] virtual const std::map<AgentId, std::string>& cordons() const = 0;
  [[nodiscard]] virtual const std::map<AgentId, Drain>& drains() const = 0;
  [[nodiscard]] virtual const std::map<AgentId, Labels>& labels() const = 0;
  [[nodiscard]] virtual const std::map<RoleName, RoleSettings>& roles() const = 0;
  [[nodiscard]] virtual const std::map<std::string, Reservation>& reservations() const = 0;  // by name
  [[nodiscard]] virtual const std::string& learnt() const = 0;                               // what the policy had, see Allocator
  [[nodiscard]] virtual std::uint64_t unknown_records() const = 0;
};

class LogRegistry final : public Registry {
 public:
  static constexpr std::uint64_t kCompactAfter = 10'000;  // records since the last snapshot, and twice what is live
  static constexpr std::size_t kRecordUsual = 256;        // bytes; a longer one counts as so many

  Result<> replay(const std::string& snapshot, const std::vector<std::string>& records) override;
  void lead(const std::string& cluster_if_new, Actions& out) override;
  void put_agent(const AgentId& agent, Actions& out) override;
  void drop_agent(const AgentId& agent, Actions& out) override;
  void put_framework(const FrameworkIdentity& framework, Actions& out) override;
  void drop_framework(const FrameworkId& framework, Actions& out) override;
  void set_cordon(const AgentId& agent, bool cordoned, const std::string& reason, Actions& out) override;
  void set_drain(const AgentId& agent, const Drain& drain, Actions& out) override;
  void clear_drain(const AgentId& agent, Actions& out) override;
  void set_labels(const AgentId& agent, const Labels& labels, Actions& out) override;
  void set_role(const RoleName& role, const RoleSettings& settings, Actions& out) override;
  void drop_role(const RoleName& role, Actions& out) override;
  void set_reservation(const std::string& name, const Reservation& reservation, Actions& out) override;
  void drop_reservation(const std::string& name, Actions& out) override;
  void set_learnt(const std::string& learnt, Actions& out) override;
  void durable(Ticket ticket, std::uint64_t index = 0) override;
  void failed(Ticket ticket) override;
  void compact_if_worth(Actions& out) override;
  Result<> committed(std::uint64_t index, const std::vector<std::string>& records) override;
  void deposed() override;
  [[nodiscard]] std::string snapshot() const override;
  [[nodiscard]] std::uint64_t index() const { return index_; }

  [[nodiscard]] Epoch epoch() const override { return epoch_; }
  [[nodiscard]] const std::string& cluster() const override { return state_.cluster; }
  [[nodiscard]] bool knows_agent(const AgentId& agent) const override { return state_.agents.contains(agent); }
  [[nodiscard]] const FrameworkIdentity* framework(const FrameworkId& id) const override;
  [[nodiscard]] const std::set<AgentId>& agents() const override { return state_.agents; }
  [[nodiscard]] const std::map<FrameworkId, FrameworkIdentity>& frameworks() const override { return state_.frameworks; }
  [[nodiscard]] const std::map<AgentId, std::string>& cordons() const override { return state_.cordons; }
  [[nodiscard]] const std::map<AgentId, Drain>& drains() const override { return state_.drains; }
  [[nodiscard]] const std::map<AgentId, Labels>& labels() const override { return state_.labels; }
  [[nodiscard]] const std::map<RoleName, RoleSettings>& roles() const override { return state_.roles; }
  [[nodiscard]] const std::map<std::string, Reservation>& reservations() const override { return state_.reservations; }
  [[nodiscard]] const std::string& learnt() const override { return state_.learnt; }
  [[nodiscard]] std::uint64_t unknown_records() const override { return state_.unknown.size(); }

 private:
  struct State {
    std::string cluster;
    std::set<AgentId> agents;
    std::map<FrameworkId, FrameworkIdentity> frameworks;
    std::map<AgentId, std::string> cordons;
    std::map<AgentId, Drain> drains;
    std::map<AgentId, Labels> labels;
    std::map<RoleName, RoleSettings> roles;
    std::map<std::string, Reservation> reservations;
    std::string learnt;
    std::vector<std::string> unknown;  // records of types we do not know, as they are
  };
  struct Pending {
    std::uint64_t index = 0;
    std::string record;
  };

  void write(std::string record, Actions& out);
  static Result<> apply(State& state, std::string_view record);

  State state_;
  std::uint64_t index_ = 0;  // of the last record ever appended
  void renumber();

  bool numbered_ = false;        // by a replicated log
  std::uint64_t committed_ = 0;  // its last entry here
  std::uint64_t since_snapshot_ = 0;
  Epoch epoch_;
  std::map<Ticket, std::vector<Pending>> pending_;
};

}  // namespace bourse::house
