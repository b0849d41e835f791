// Who is offered what is lent: resources that slices have and do not use, which their agents take back under pressure.
//
// A second account of every agent (House::lent, a Ledger of its own with its own sum) holds them; a demand line whose shape says
// `revocable` is served out of it and out of nothing else, and other lines never are. They stand outside fair share and the limits of
// roles: nobody is kept from what he is owed by what may be gone in a moment. Among frameworks the one with the fewest lent cpus comes
// first, a unit at a time; its lines by priority. Lines that want a gang get nothing: a gang that may lose any member is none.
//
// Owned by the master; looks only when a lent amount or a demand for one has changed, in the allocator's pass. See "Ledger".
#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "master/frameworks.h"
#include "master/ledger.h"

namespace bourse::house {

struct House;

class Lending {
 public:
  void demand_changed(FrameworkIx framework, bool wants);  // wants: it has a revocable line that is not met
  void poke() { dirty_ = true; }                           // a hold-off is over, an offer ended
  void agent_gone(AgentIx agent) { having_.erase(agent); }
  // Lent cpus that a framework has offered or leased, for the order among frameworks.
  void used(FrameworkIx framework, std::int64_t cpus);
  [[nodiscard]] bool due(const House& house) const;
  void pass(House& house);

 private:
  using Given = std::map<std::pair<FrameworkIx, std::uint64_t>, std::uint64_t>;  // offers of this pass on one agent, by line
  bool give_unit(House& house, AgentIx agent, FrameworkIx framework, Given& given);
  void offer_agent(House& house, AgentIx agent);

  std::set<FrameworkIx> wanting_;
  std::set<AgentIx> having_;  // agents with something lent that is free
  std::map<FrameworkIx, std::int64_t> used_;
  bool dirty_ = false;
};

}  // namespace bourse::house
