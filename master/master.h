// The master actor: routes messages to the tables that own the rules. Knows no jobs, services or bitstreams. See "Thin".
//
// What cannot be rebuilt from agents is in the registry (agent and framework identities, cordons, the cluster's name, epochs),
// appended with Safety::kPower. The rest (ledger, offers, slices) is memory, rebuilt after a restart from the agents' hellos.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "common/core/actor.h"
#include "plugins/policy/host.h"

namespace bourse {

struct MasterOptions {
  std::string cluster_name = "bourse";
  Duration offer_ttl = seconds(10);
  Duration heartbeat = seconds(5);
  Duration peer_timeout = seconds(30);  // silence until an agent is unreachable or a framework disconnected
  Duration failover_timeout = std::chrono::hours(24 * 7);
  Duration coalesce = milliseconds(2);  // between a change and the allocation pass
  Duration revoke_grace = seconds(30);  // between a framework's notice and the end of what is taken back
  Duration gang_hold = seconds(10);
  Duration slice_expiry_max = std::chrono::hours(24);
  std::uint32_t offers_per_framework_max = 20'000;
  bool replicated = false;       // the registry's log is one of several masters, or of one of that kind: lead when Leader says so
  bool trust_identities = true;  // false: peers without keys may be anyone (simulator, inproc tests)
  std::string name = "master";   // among the masters
  bool trace = false;            // tell of offers and slices that come with a trace context, as spans
  Duration leader_lease = seconds(8);
  std::int64_t pid = 0;  // reported by status
  std::string endpoint;  // reported by status
  std::string readers;   // where readers are served beside this actor; "": nowhere

  // The order of frameworks. main.cc has checked that the policy takes its parameters.
  policy::Choice policy = policy::built_in("drf");
  const policy::Catalog* policies = nullptr;  // where a reload looks for another; null: only those built in
  policy::Guard* policy_guard = nullptr;      // null: nothing watches the time it takes
  Duration policy_budget = milliseconds(50);
  std::uint64_t policy_seed = 1;
};

class Master final : public Actor {
 public:
  explicit Master(MasterOptions options);
  ~Master() override;
  void step(Time now, const Event& event, Actions& out) override;

  // For checkers and tests: per agent what the ledger says, in its own words. See "Ledger".
  struct Account {
    Resources total, free, offered, held, leased, reserved, unavailable;
    bool reachable = true;
  };
  [[nodiscard]] std::map<AgentId, Account> accounts() const;
  [[nodiscard]] std::map<AgentId, Account> lent_accounts() const;  // of what agents lend
  [[nodiscard]] std::size_t open_offers() const;
  [[nodiscard]] Epoch epoch() const;  // 0: does not lead
  [[nodiscard]] const std::string& cluster() const;
  [[nodiscard]] std::string registry() const;  // its snapshot
  struct Counters {
    std::uint64_t passes = 0, agents_examined = 0, demands_examined = 0, offers_made = 0, offers_ended = 0, accepts = 0,
                  launches = 0, statuses = 0, refused = 0, wire_errors = 0;
  };
  [[nodiscard]] const Counters& counters() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bourse
