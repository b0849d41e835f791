// What batch knows of operators' reservations: of which agents, for whom, from when to when. Follows the agents' facts.
//
// As with Slurm, work that names a reservation runs in nothing else and only while it lasts. Work that names none keeps off hosts that
// are reserved whole for others, or for work that names it, before the reservation begins; in those for its role that need not be named
// it runs as anywhere. Reservations of a part of a host are the master's to keep, and delay nobody here. Owned by Allocations.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/core/messages.h"

namespace bourse::batch {

struct ReservationView {
  RoleName role;
  Duration start{0}, end{0};  // wall; end 0: until it is released
  bool named = false;         // only for work that names it
  std::set<AgentId> agents;
  bool operator==(const ReservationView&) const = default;
};

class Reserved {
 public:
  using Parts = std::vector<AgentFacts::Reserved>;

  void of_role(RoleName role) { role_ = std::move(role); }  // in whose name this framework runs
  bool facts(const AgentId& agent, const Parts& parts);     // has anything changed?
  [[nodiscard]] bool any() const { return !by_agent_.empty(); }
  [[nodiscard]] bool on(const AgentId& agent) const { return by_agent_.contains(agent); }
  [[nodiscard]] const std::map<AgentId, Parts>& agents() const { return by_agent_; }
  [[nodiscard]] const std::map<std::string, ReservationView>& all() const { return all_; }
  [[nodiscard]] const ReservationView* find(const std::string& name) const;
  [[nodiscard]] bool may_use(const ReservationView& reservation) const;

  // When work that names `named`, or nothing, has to be gone from the agent; wall, kNoLimit: nothing is known.
  [[nodiscard]] Duration until(const AgentId& agent, const std::string& named) const;
  // What of it makes that so; null: nothing does.
  [[nodiscard]] const AgentFacts::Reserved* next(const AgentId& agent, const std::string& named) const;
  // All of the agent is for others at present, or for work that names it.
  [[nodiscard]] bool shut(const AgentId& agent, Duration wall) const;
  [[nodiscard]] bool must_be_named(const std::string& name) const;

 private:
  [[nodiscard]] bool open(const AgentFacts::Reserved& part) const;  // to work that names nothing
  RoleName role_;
  std::map<AgentId, Parts> by_agent_;
  std::map<std::string, ReservationView> all_;
};

}  // namespace bourse::batch
