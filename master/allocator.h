// Who is offered what: event driven, only what changed is looked at.
//
// Owned by the master. Other tables say what changed (dirty agents come from the ledger, dirty frameworks from demand and
// offers); a pass runs MasterOptions.coalesce after the first change and looks at
//  - each agent whose free amount grew: frameworks with unmet demand in rank order, until what fits is given;
//  - each framework whose demand grew: agents with free amounts from an index, fullest that fits first, agents without
//    devices before those with, until the demand is met. A line for which the search found nothing is `starved` and
//    is not searched for again until an agent changes.
// On clusters of fewer than kCoarseAgents agents a turn of the rank gives at most a quarter of what fits, so that two hungry
// frameworks share one big host; on larger ones a whole agent at a time is fine enough and costs one offer.
//
// The order of frameworks and, where it scores, the choice among agents that fit are the policy's (plugins/policy/host.h): accounts are
// roles, claimants are frameworks. Whom it wants a reservation for (BOURSE_NEXT_RESERVE), and who found nothing on an agent that could
// carry one of his units if it were empty, has that agent reserved: what frees there goes to him only, for kAccumulationTtls offer lives.
//
// Lines with placement rules (common/core/placement.h) are searched for once a pass over all agents that fit, and the rules choose
// among those (placements.h). A group that lost slices with their agents comes first: see migrate(). Work without devices takes
// hosts with devices only when no other host has room for it.
//
// Gangs: a line with gang_min is offered nothing until enough for it is free at once; when that is not so, one line per role
// may accumulate: what fits, and whatever frees, is offered to it first with a `reservation` and kept for it until kAccumulationTtls offer lives have
// passed; then all of it goes back, and the line is served once after everybody else. See "Accumulation".
//
// Ahead of all that: what an operators' reservation keeps is offered to its role (reservations.h), and what was freed for a line is kept
// for it (claims.h). A line that says how long its work lasts is not offered agents that close for maintenance sooner.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "common/core/messages.h"
#include "master/deadlines.h"
#include "master/frameworks.h"
#include "master/ledger.h"
#include "plugins/policy/host.h"

namespace bourse::house {

struct Claim;
struct House;
struct Reservation;
struct OfferRow;
struct SliceRow;

struct Accumulation {
  FrameworkIx framework = 0;
  std::uint64_t line = 0;
  GangId reservation;
  Duration deadline{0};
  Duration since{0};
};

class Allocator {
 public:
  static constexpr std::size_t kCoarseAgents = 100;
  static constexpr int kAccumulationTtls = 6;

  static constexpr std::size_t kCandidatesMax = 1000;  // agents that a policy scores for one line

  explicit Allocator(House& house);

  // --- what changed
  void framework_changed(House& house, FrameworkIx ix);  // new, or its role or what it asks for changed
  void framework_gone(House& house, FrameworkIx ix);
  void framework_used(House& house, FrameworkIx ix);
  void framework_wants(House& house, FrameworkIx ix, bool was, std::int64_t was_cpus, std::int64_t was_mem);
  void framework_dirty(FrameworkIx ix) { dirty_.insert(ix); }
  void agent_dirty(AgentIx ix) { dirty_agents_.insert(ix); }
  void agent_gone(AgentIx ix);
  void total_changed(const Usage& total) { policy_->total(total); }

  void settle(House& house);  // at the end of a step: arms the pass, where one is due
  void pass(House& house);
  void accumulations_due(House& house);
  void drop_accumulation(House& house, FrameworkIx framework, std::uint64_t line);                       // met, gone or changed
  void extend_accumulation(House& house, FrameworkIx framework, std::uint64_t line, Duration deadline);  // and its offers
  [[nodiscard]] bool gathers_for_another(const RoleName& role, FrameworkIx framework, std::uint64_t line) const;

  // --- what is kept in the ledger
  // Of what is kept under `key` on these agents, to these frameworks by rank: as much as they want.
  // Kinds that the reservation does not name come from what is free there.
  void offer_kept(House& house, std::uint64_t key, const std::string& name, const Reservation& reservation,
                  const std::vector<AgentIx>& agents, std::vector<FrameworkIx> frameworks);
  bool offer_claim(House& house, const Claim& claim);  // all of it, for its line
  // The line may have something of the agent at all: it did not decline it lately, and its work ends before the agent closes or
  // is reserved for others. What is kept for a reservation may go to lines that name it, what is free not.
  [[nodiscard]] bool may_offer(const House& house, const FrameworkRow& framework, const LineRow& line, AgentIx agent,
                               bool kept = false) const;

  [[nodiscard]] policy::Host& policy() { return *policy_; }
  // What becomes of what it gave, for a policy that learns: how long its framework had waited (since it began to want something, or had
  // its slice before this one), and how long the slice was held.
  void slice_started(House& house, SliceRow& row);
  void slice_ended(House& house, const SliceRow& row);
  void declined(House& house, const OfferRow& offer);
  // What it has learnt is put into the registry every kLearntEvery, where that has changed; the next leader begins with it.
  static constexpr Duration kLearntEvery = std::chrono::minutes(5);
  static constexpr std::size_t kLearntMax = 64 << 10;  // bytes; more is not kept, and said so
  void take_learnt(House& house);
  void keep_learnt(House& house);
  // Another policy, between two events. An error changes nothing.
  Result<> use_policy(House& house, const policy::Choice& choice);
  [[nodiscard]] std::optional<AgentIx> reserved(FrameworkIx framework) const;
  [[nodiscard]] std::optional<FrameworkIx> reserved_for(AgentIx agent) const;
  [[nodiscard]] Duration reserved_until(AgentIx agent) const;  // mono; of one that is reserved
  [[nodiscard]] const std::map<RoleName, Accumulation>& accumulations() const { return accumulating_; }

  Deadlines<std::pair<FrameworkIx, std::pair<std::uint64_t, AgentIx>>> hold_offs;
  void hold_offs_due(House& house);
  Deadlines<std::uint64_t> gathering;
  Deadlines<AgentIx> unreserve;
  void reservations_due(House& house);

 private:
  struct Key {  // of the index of agents with free amounts
    bool devices = false;
    std::int64_t cpus = 0, mem = 0;
    AgentIx agent = 0;
    auto operator<=>(const Key&) const = default;
  };
  struct Fit {
    AgentIx agent = 0;
    std::uint32_t units = 0;
    std::uint32_t device = policy::kNone;  // of its devices, the one that the policy chose
  };
  struct RoleAccount {
    std::uint32_t handle = 0, members = 0, children = 0;
    std::int64_t weight = 0;  // as the policy was told; 0: not yet
    Usage used;               // of its own frameworks
    Usage below;              // of those of the roles below it
    // A policy hears of what is held in an account's name: for an inner role without frameworks of its own, all below it.
    [[nodiscard]] const Usage& told() const { return members > 0 ? used : below; }
  };
  struct Member {  // what of a framework is counted in its role's account
    RoleName role;
    Usage counted;
    bool present = false;
    Duration waits_since{0};
  };
  struct Reserved {
    FrameworkIx framework = 0;
    Duration until{0};
  };

  void reindex(House& house);
  static void keep_first(House& house, AgentIx agent);
  void place(const House& house, AgentIx agent);
  void offer_agent(House& house, AgentIx agent);
  void seek(House& house, FrameworkIx framework, LineRow& line);
  void gather(House& house, FrameworkIx framework, LineRow& line);
  void migrate(House& house);
  void wake_placed(House& house);
  std::vector<Fit> search_placed(House& house, FrameworkIx framework, LineRow& line, std::uint32_t enough, bool* exhausted);
  // Agents in the order of the index, with how many units each could give, until `enough`; *exhausted when there were less.
  std::vector<Fit> search(House& house, FrameworkIx framework, LineRow& line, std::uint32_t enough, bool* exhausted);
  // Offers up to `limit` units of the agent's free amount. `given`: offers of this walk, which grow instead of multiplying.
  using Given = std::vector<std::pair<std::pair<FrameworkIx, std::uint64_t>, std::uint64_t>>;
  std::uint32_t give(House& house, const Fit& fit, FrameworkIx framework, LineRow& line, GangId reservation, Given* given);
  void choose(FrameworkIx framework, const LineRow& line, std::uint32_t enough, std::vector<Fit>& fits);
  RoleAccount& account_of(House& house, const RoleName& role);  // with those above it, told to the policy by their weights
  void account_used(const RoleName& role, const Usage* more, const Usage* less);
  void drop_account(const RoleName& role);  // and those above it, where nothing is left of them
  void leave_role(Member& member);
  void feed(House& house, AgentIx agent);
  void tell(House& house, std::uint32_t event, FrameworkIx framework, const Resources& amount, std::uint64_t units, Duration wait,
            Duration run);
  bool serve_reserved(House& house, AgentIx agent);
  bool reserve(House& house, AgentIx agent, FrameworkIx framework);
  [[nodiscard]] bool reserved_for_another(AgentIx agent, FrameworkIx framework) const;
  bool serve(House& house, AgentIx agent, FrameworkIx framework, bool fine, Given& given);
  void consider(House& house, FrameworkIx framework, LineRow& line);
  Accumulation* accumulation(const FrameworkRow& framework);
  void wake_gangs(House& house);
  void serve_accumulations(House& house, AgentIx agent);
  [[nodiscard]] bool scarce(const Resources& free, const LineRow& line) const;
  [[nodiscard]] bool nothing_wanted(const Resources& free) const;

  std::unique_ptr<policy::Host> policy_;
  std::map<RoleName, RoleAccount> roles_;
  std::vector<std::uint32_t> free_accounts_;
  std::vector<Member> members_;  // by framework
  std::map<AgentIx, Reserved> reserved_;
  std::set<FrameworkIx> dirty_;
  std::set<AgentIx> dirty_agents_;
  std::set<std::pair<FrameworkIx, std::uint64_t>> back_;  // lines at the back of the rank
  std::set<FrameworkIx> placed_;                          // frameworks with placement rules
  std::uint64_t woken_ = 0;                               // version of the placements for which their lines were woken
  bool armed_ = false, learnt_armed_ = false, learnt_too_long_ = false;

  std::set<Key> index_;
  std::vector<std::optional<Key>> places_;  // by agent
  std::multiset<std::int64_t> wanted_cpus_, wanted_mem_;
  std::map<RoleName, Accumulation> accumulating_;
  std::uint64_t last_reservation_ = 0;
};

// Units still missing until the gang is together; 0: not a gang, or together.
[[nodiscard]] std::uint32_t gang_need(const LineRow& line);
// A gang is slices on several agents: of each gang that the line still wants, at most one slice on one agent. Where the whole
// cluster has fewer agents than a gang has slices, some must share.
[[nodiscard]] std::uint32_t gang_room(House& house, AgentIx agent, const FrameworkRow& row, const LineRow& line);
// One amount for `units` of the shape, as many as there are. Where a unit need not sit on one node or device, one carve of the sum is
// the same.
std::uint32_t carve_units(const Shape& shape, const Resources& free, const Resources& total, const Labels& labels,
                          std::uint32_t units, Resources& amount);
// Its work would be cut short there, by maintenance, or would be in the way of what is reserved for others from some time on.
[[nodiscard]] bool closes_before(const House& house, const LineRow& line, AgentIx agent);
[[nodiscard]] bool taken_before(const House& house, const FrameworkRow& framework, const LineRow& line, AgentIx agent);

}  // namespace bourse::house
