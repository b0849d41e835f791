// How bourse-microvm is told about a guest: by the launcher that starts a task, and by the agent that keeps guests warm.
#pragma once

#include <string>
#include <vector>

#include "common/core/result.h"
#include "common/core/task.h"

namespace bourse::launcher {

// All words up to the "--" before the task's own. `groups`: further groups of the user, joined by commas.
Result<std::vector<std::string>> guest_command(const std::string& programs, const std::string& scratch, const TaskSpec& spec,
                                               const std::string& hypervisor, const std::string& groups);

}  // namespace bourse::launcher
