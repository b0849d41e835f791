// Does a policy keep to bourse/plugin.h? The checks behind `bourse plugin check`, for third parties and for our own policies alike.
//
// To be run in a process of its own: what is checked may crash, loop or scribble. Each check is announced before it runs, so
// that whoever watches can say in which one the process died.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "plugins/policy/host.h"

namespace bourse::policy {

struct Conformance {
  std::uint64_t seed = 1;
  std::uint32_t snapshots = 10'000;
  Duration budget = milliseconds(50);  // of one ranking of 10,000 claimants, one scoring of 1,000 agents, a walk's step
  Guard* guard = nullptr;              // reads the clocks; null: time is not checked
  std::function<void(const std::string& name)> begins;
  std::function<void(const std::string& name, const std::string& why)> ends;  // why "": passed
};

// `spec`: with the parameters to try. True when all passed.
bool check_policy(const Choice& choice, const Conformance& how);

}  // namespace bourse::policy
