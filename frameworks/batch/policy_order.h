// A policy (plugins/policy) as what ranks the jobs of a replay and chooses their nodes: the same calls that batch makes.
//
// A claimant is a waiting job; what is charged is its user. Owned by the caller, used by one replay.
#pragma once

#include <cstdint>
#include <memory>

#include "common/core/result.h"
#include "frameworks/batch/replay.h"
#include "plugins/policy/catalog.h"

namespace bourse::batch {

// kInvalid: the policy refuses its parameters.
Result<std::unique_ptr<QueueOrder>> policy_order(const policy::Choice& choice, std::uint64_t seed);

}  // namespace bourse::batch
