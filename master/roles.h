// Roles: the accounts that frameworks spend from. An operator gives them weights and hard limits, live.
//
// Names form a tree ("physics/lattice"): what a role's frameworks are offered, hold and lease counts against its own limit and
// against that of every role above it. A limit names kinds: "cpus" (milli-cores), "mem" (bytes), a kind of device (permille
// of devices; "gpu" stands for every "gpu/..."), a counter of devices in its own unit ("npu.compute"; "gpu/acme:mem" of one kind only),
// or a kind that a site declared (thousandths). It is hard: nothing that would pass it is offered, however idle the cluster.
// Lowering it below what is in use takes nothing back; it only stops the growth.
//
// A role may have a priority, which those below it inherit, and a guarantee. They decide whose slices are taken for whom: claims.h.
//
// Use is counted only while some role has a limit or a guarantee; with none, this table costs nothing. After a start, roles with a limit wait until
// every agent that the registry names has shown its slices or has been silent for the timeout. See "Ledger".
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/core/ids.h"
#include "common/core/result.h"
#include "common/core/role.h"
#include "master/deadlines.h"
#include "master/ledger.h"
#include "master/registry.h"
#include "plugins/policy/usage.h"

namespace bourse::house {

struct House;
struct FrameworkRow;
struct LineRow;

class RoleTable {
 public:
  static constexpr std::size_t kRolesMax = 10'000;   // with settings of an operator
  static constexpr std::size_t kNameMax = 128;       // bytes
  static constexpr std::size_t kDepthMax = 8;        // parts
  static constexpr std::size_t kLimitKindsMax = 64;  // of one role
  static constexpr std::int64_t kWeightMax = 1'000'000;
  static constexpr std::int64_t kPriorityMost = 1'000'000;  // and as much below zero

  [[nodiscard]] static std::int64_t weight(const House& house, const RoleName& role);
  void settings_changed(House& house);  // in the registry: weights and limits of every framework are taken anew
  // The framework's use or role has changed: the accounts above it follow, and who waited for room is looked at again.
  void charge(House& house, FrameworkIx framework);
  void discharge(House& house, FrameworkIx framework);  // it is gone

  [[nodiscard]] static std::int64_t priority(const House& house, const RoleName& role);  // its own, or the nearest above it
  [[nodiscard]] bool preempts() const { return preempts_; }                              // some role has a priority or a guarantee
  // The role whose guarantee covers this much more for `role`: itself or one above it; empty: none does.
  [[nodiscard]] RoleName covered(const RoleName& role, const Usage& more) const;
  // Would `role` and those above it still have what was guaranteed to them without `less`? `taken`: what is taken of each beside that.
  [[nodiscard]] bool may_lose(const RoleName& role, const Usage& less, const std::map<RoleName, Usage>& taken) const;
  void note_refused(FrameworkIx framework) { waiting_.insert(framework); }  // a limit kept it from something when it was carved

  [[nodiscard]] bool limited() const { return !limits_.empty(); }
  // How many more units of the line the limits allow, at most its unmet ones; by the shape, so that a pass need not carve first.
  // 0: none; the framework is remembered and looked at again when there is room.
  std::uint32_t room(House& house, FrameworkIx framework, const LineRow& line);
  // Would this much more keep every limit? Exact.
  [[nodiscard]] bool allows(const RoleName& role, const Usage& more) const;
  // What a wildcard offer may contain at most: nothing where a kind has no room.
  [[nodiscard]] Resources trimmed(const RoleName& role, const Resources& amount, const Resources& total,
                                  const Labels& labels) const;
  [[nodiscard]] bool waits(FrameworkIx framework) const { return waiting_.contains(framework); }
  // The limit that is in the way, in words: "role physics has 8 of 8 cpus". Empty where none is.
  [[nodiscard]] std::string obstacle(const House& house, const FrameworkRow& framework, const LineRow& line) const;

  // Every limit above the role and how much of it is used: "physics 8 of at most 8 cpus; ..." Empty where there is none.
  [[nodiscard]] std::string standing(const RoleName& role) const;

  void agents_settled(House& house);  // every known agent has said hello, or its time is over
  Deadlines<int> grace;               // until then at most, after a start

 private:
  struct Limit {
    Counters most;
    Counters guarantee;
    Usage used;
  };
  struct Charge {
    RoleName role;
    Usage used;
  };
  void book(const Charge& charge, bool add);
  void wake(House& house);
  [[nodiscard]] bool settled(const House& house) const;

  std::map<RoleName, Limit> limits_;  // of roles that have one
  std::map<FrameworkIx, Charge> charged_;
  std::set<FrameworkIx> waiting_;
  bool grace_over_ = false, preempts_ = false;
};

// "a/b/c": itself and every role above it, itself first.
std::vector<RoleName> role_line(const RoleName& role);
Result<> check_role_name(std::string_view name);
// "cpus=8", "mem=1TiB", "gpu=4", "gpu/acme=0.5", "npu.compute=500", "gpu/acme:mem=65536" or KIND=none, into the units of RoleSettings.limit; 0 stands for none.
Result<std::pair<std::string, std::int64_t>> parse_limit(std::string_view kind, std::string_view amount);
[[nodiscard]] bool is_counter(std::string_view kind);                             // of devices, in its own unit
[[nodiscard]] std::int64_t amount_of(const Usage& usage, std::string_view kind);  // what a limit on `kind` counts of it
std::string amount_text(std::string_view kind, std::int64_t amount);
std::string limit_text(const Counters& limit);  // "cpus=8,mem=1TiB,gpu=4"; "" where there is none
std::string use_text(const Usage& used);        // the same of what is used

}  // namespace bourse::house
