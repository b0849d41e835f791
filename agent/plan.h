// From bourse.conf to what the agent probes and how. Used by bourse-agent at start and on SIGHUP, and by `bourse probe`.
#pragma once

#include <string>

#include "agent/helper/prober.h"
#include "agent/settings.h"
#include "common/core/result.h"
#include "common/world/config.h"

namespace bourse {

struct ProbingPlan {
  AgentSettings settings;
  ProbeInputs inputs;
};

// `config_path` is the file that `config` was read from ("" for none): the directory devices.d beside it is where declarations are
// looked for when agent.declare is empty. kInvalid: an unknown probe, a limit that is no duration, a plugin that is not there.
Result<ProbingPlan> plan_probes(const Config& config, const std::string& config_path);

}  // namespace bourse
