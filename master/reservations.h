// Operators' reservations: leases of some agents, or of a part of each, for a role; and maintenance windows, which close agents.
//
// What they are is in the registry (registry.h: Reservation); this table follows it and the clock. Owned by the master, used from its step.
//
// For a role: from its start to its end, what is free on each of its agents is kept in the ledger until the amount is together, before
// anything of it is offered to anybody; what others have there is waited for. What is kept is offered only to frameworks of the role or
// of one below it, by their rank, in offers that name the reservation; their slices carry the name, and count as its amount while they
// live (also for the next master). One that must be named serves only lines of a demand that name it; a line that names one is served
// by nothing else. At its end, or when it is released, what is kept goes back, its offers are rescinded, and its
// slices go on as any others. An offer is all of one reservation or of none.
//
// Maintenance: revoke_grace ahead of the start, frameworks are asked to hand back what they have there, nothing new is offered; at the
// start, or revoke_grace after they were asked where that is later, what is left is taken; at the end the agent is open again. Before, who says how long his work lasts is not offered what would run
// into it (Allocator), and offers and facts tell when it comes.
//
// Times are wall times, looked at again at least every minute, since that clock may be set.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/core/ids.h"
#include "common/core/messages.h"
#include "common/core/result.h"
#include "master/deadlines.h"
#include "master/ledger.h"
#include "master/registry.h"

namespace bourse::house {

struct House;

class ReservationTable {
 public:
  static constexpr std::size_t kReservationsMax = 1'000;
  static constexpr std::size_t kAgentsMax = 10'000;    // of one
  static constexpr std::size_t kNameMax = 64;          // bytes
  static constexpr Duration kLookAgain = seconds(60);  // the wall clock may be set
  static constexpr Duration kLongest = std::chrono::hours(24 * 3660);

  struct Window {
    Duration closes{0}, reopens{0};  // wall; closes 0: none is known
    bool shut = false;               // it has begun, or begins so soon that frameworks are asked to go
    std::string reason;
  };

  void settings_changed(House& house);  // in the registry
  void due(House& house);
  Deadlines<int> looks;  // when something begins or ends, or the clock is looked at again

  [[nodiscard]] bool any() const { return !by_agent_.empty(); }  // for a role, and begun
  void fill(House& house, AgentIx agent);                        // takes what is lacking out of what is free there
  // In a pass, ahead of what is free: what is kept and was not looked at since it or who may have it changed.
  void serve(House& house);
  [[nodiscard]] bool wanted() const;  // a pass, though nothing else has changed
  void demand_changed(const House& house, const RoleName& role);
  [[nodiscard]] Window window(const House& house, const AgentId& agent) const;
  [[nodiscard]] bool active(const House& house, const std::string& name) const;
  // May a framework of this role have something of the reservation, begun or not, for a line that names `named` (or nothing)?
  [[nodiscard]] static bool serves(const std::string& name, const Reservation& reservation, const RoleName& role,
                                   const std::string& named);
  // When all of the agent becomes somebody else's; wall, 0: nothing of that kind is planned.
  [[nodiscard]] Duration taken_from(const House& house, const AgentId& agent, const RoleName& role, const std::string& named) const;
  // Of the agent, not ended, by start and name.
  [[nodiscard]] std::vector<AgentFacts::Reserved> listed(const House& house, const AgentId& agent) const;
  // For whom something is kept on the agent, by role; for Explain.
  [[nodiscard]] std::vector<std::pair<RoleName, std::uint64_t>> kept_on(const House& house, AgentIx agent) const;
  [[nodiscard]] const Resources& kept_of(const House& house, const std::string& name, AgentIx agent) const;

 private:
  struct Row {
    std::string name;
    RoleName role;
    bool dirty = true;
  };
  void rebuild(House& house);
  void arm(House& house);
  [[nodiscard]] Resources lacking(House& house, std::uint64_t key, const Reservation& what, AgentIx agent) const;

  std::map<std::uint64_t, Row> rows_;  // those that have begun, by key: in order of start and name
  std::map<AgentId, std::vector<std::uint64_t>> by_agent_;
  std::map<AgentId, std::vector<std::string>> windows_;  // maintenance, by start
  std::map<AgentId, std::vector<std::string>> all_;      // for roles, planned ones too, by start
};

Result<> check_reservation_name(std::string_view name);
// Does it fit beside the others, on agents that are known? Says what is in the way.
Result<> check_reservation(const House& house, const std::string& name, const Reservation& reservation);

}  // namespace bourse::house
