// A policy (plugins/policy) as what ranks the jobs of a replay and chooses their nodes: the same calls that batch makes.
//
// A claimant is a waiting job; what is charged is its user. Owned by the caller, used by one replay.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "common/core/result.h"
#include "frameworks/batch/replay.h"
#include "plugins/policy/host.h"

namespace bourse::batch {

class PolicyQueue : public QueueOrder {
 public:
  [[nodiscard]] virtual std::string save() = 0;         // what it has learnt; "": nothing
  virtual bool load(std::string_view learnt) = 0;       // before anything else; false: of another policy, or refused
  [[nodiscard]] virtual std::string fault() const = 0;  // why another policy answers for it by now; "": none does
};

// kInvalid: the policy refuses its parameters. `log`: what the policy says; null: nobody listens.
Result<std::unique_ptr<PolicyQueue>> policy_order(const policy::Choice& choice, std::uint64_t seed,
                                                  std::function<void(std::string line)> log = nullptr);

Result<std::unique_ptr<PolicyQueue>> policy_order(const policy::Choice& choice, policy::HostOptions options);

}  // namespace bourse::batch
