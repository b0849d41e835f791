// Calls of a vendor's library in a child of the probe, so that one vendor's crash or hang costs that vendor's results only.
//
// The helper is one process for each run of a probe; inside it a probe that loads several vendors' libraries gives each a process
// of its own. All run side by side. The caller must have no threads yet (it forks).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "agent/probes/probe.h"

namespace bourse {

struct Part {
  std::string name;  // for messages: "/etc/OpenCL/vendors/x.icd"
  std::function<Result<ProbeReport>()> look;
};

// One answer for each part, in order: its report, or kTimeout, or kIo "crashed: SIGSEGV (signal 11)".
std::vector<Result<ProbeReport>> look_apart(const std::vector<Part>& parts, Duration limit);

}  // namespace bourse
