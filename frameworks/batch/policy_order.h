// A policy (plugins/policy) as what ranks the jobs of a replay and chooses their nodes: the same calls that batch makes.
//
// A claimant is a waiting job; what is charged is its user. Owned by the caller, used by one replay.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/core/result.h"
#include "frameworks/batch/replay.h"

namespace bourse::batch {

// "NAME[:KEY=VALUE,...]" of a policy that comes with Bourse, or the path of a plugin. kNotFound, kInvalid: with what there is.
Result<std::unique_ptr<QueueOrder>> policy_order(const std::string& policy, std::uint64_t seed);

}  // namespace bourse::batch
