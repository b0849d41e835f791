// How bourse-container is told about a task: by the launcher that starts one, and by the agent that keeps containers warm.
#pragma once

#include <string>
#include <vector>

#include "agent/launcher/confine.h"
#include "common/core/task.h"

namespace bourse::launcher {

// All words up to the "--" before the task's own. `groups`: further groups of the user, joined by commas.
std::vector<std::string> container_command(const std::string& programs, const std::string& state_dir, const std::string& scratch,
                                           const TaskSpec& spec, const Confine& confine, const std::string& groups,
                                           const std::vector<std::string>& device_nodes);

}  // namespace bourse::launcher
