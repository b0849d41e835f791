// Preemption across roles: what is taken from some for others, and what was freed is kept for whom it was freed.
//
// Owned by the master. Off unless an operator gives some role a priority or a guarantee (roles.h). A line of a demand that the limits of
// its role allow and that has found no room, on any agent, may have slices of others taken back:
//  - of frameworks whose role has a lower priority than its own; and,
//  - where a role above it (or itself) has a guarantee that its use and this unit stay within, of frameworks outside that role whose
//    priority is not higher than its own.
// Never: what leaves a role less than its guarantee; what is part of a reservation; a slice that is being made, given back or taken
// already, or whose gang is not complete. Offers of such frameworks count as free: they are rescinded.
//
// Agent by agent, the set with the least harm is found (harm.h); of agents, the one with the least harm, then the name that sorts first.
// A gang's units are found together, what fits free among them, or nothing is taken. Nothing is taken for what would still not fit, and
// not more than the line lacks.
//
// Then a claim is made: the concrete amount, kept in the ledger; what of it is free now is kept at once, the rest as it frees, ahead of
// everybody, reservations too. The slices' frameworks hear SliceRevoking with revoke_grace; what they have not handed back then is taken
// by the agents, unless the claim has ended because its demand has. When the amount is together it is offered for the line; claims of a
// gang are offered at once. A claim that is not together kTtls offer lives after that is given up.
//
// A line that found nobody is asked about again after kAgain while it lacks anything, and at once when roles change. After a failover
// nothing of this is left but what was carried out: the new master finds its own.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/core/ids.h"
#include "common/core/resources.h"
#include "common/core/time.h"
#include "master/deadlines.h"
#include "master/harm.h"
#include "master/ledger.h"
#include "plugins/policy/usage.h"

namespace bourse::house {

struct House;
struct LineRow;

struct Claim {
  std::uint64_t key = 0;  // in the ledger
  FrameworkIx framework = 0;
  std::uint64_t line = 0;
  AgentIx agent = 0;
  Resources amount;
  std::set<SliceId> victims;         // that are not gone yet
  Duration take_at{0}, deadline{0};  // mono
  bool taken = false;                // the agent has been told
  std::uint64_t gang = 0;            // claims that are offered together; 0: alone
  std::string reason;
};

class ClaimTable {
 public:
  static constexpr std::size_t kClaimsMax = 10'000;
  static constexpr std::uint32_t kUnitsPerTurn = 64;      // of a line; the rest has its turn after kAgain
  static constexpr std::int64_t kLooksPerTurn = 200'000;  // questions whether something fits; what is left waits kAgain
  static constexpr std::size_t kHungryMax = 10'000;       // lines that wait for a turn
  static constexpr int kTtls = 6;
  static constexpr Duration kAgain = seconds(1);

  void lacks(House& house, FrameworkIx framework, std::uint64_t line);  // it found no room in this pass
  void reconsider(House& house);                                        // roles have changed
  void turn(House& house);                                              // at the end of a pass
  void due(House& house);
  Deadlines<int> timers;

  [[nodiscard]] bool any() const { return !claims_.empty(); }
  [[nodiscard]] bool pending() const { return !hungry_.empty() || !claims_.empty(); }
  [[nodiscard]] bool wanted() const { return wanted_ && pending(); }  // a pass, though nothing has changed
  void fill(House& house, AgentIx agent);
  void slice_ended(const SliceId& slice);
  void agent_lost(House& house, AgentIx agent);
  void framework_gone(House& house, FrameworkIx framework);
  [[nodiscard]] const std::map<std::uint64_t, Claim>& claims() const { return claims_; }
  // What is being freed for this line, in words; empty: nothing is.
  [[nodiscard]] std::string progress(const House& house, FrameworkIx framework, std::uint64_t line) const;

 private:
  struct Pool {  // what could be had on one agent
    Resources free;
    std::vector<std::uint64_t> offers;
    std::vector<Victim> candidates;
  };
  struct Pick {
    AgentIx agent = 0;
    Taking taking;
    Resources amount;
    std::vector<Victim> victims;
    std::vector<std::uint64_t> offers;
  };
  bool feed(House& house, FrameworkIx framework, std::uint64_t line, std::int64_t& looks);
  void pools(House& house, FrameworkIx framework, LineRow& line, bool reclaim, const RoleName& covered,
             std::map<AgentIx, Pool>& pools);
  std::optional<Pick> pick(House& house, const LineRow& line, std::map<AgentIx, Pool>& pools, const std::set<AgentIx>& not_there,
                           const std::map<RoleName, Usage>& taken, std::int64_t& looks);
  void carry_out(House& house, FrameworkIx framework, const LineRow& line, std::vector<Pick> picks, bool gang);
  void check_claims(House& house);
  void drop(House& house, std::uint64_t key);
  [[nodiscard]] std::uint64_t claimed(FrameworkIx framework, std::uint64_t line) const;

  std::map<std::uint64_t, Claim> claims_;
  std::map<std::pair<FrameworkIx, std::uint64_t>, Duration> hungry_;  // -> not before
  std::map<AgentIx, std::set<std::uint64_t>> by_agent_;
  std::map<SliceId, std::set<std::uint64_t>> victims_;  // -> the claims that wait for it
  std::uint64_t last_ = 0, last_gang_ = 0;
  bool wanted_ = false;
};

}  // namespace bourse::house
