// Probe plugins: shared objects with the interface bourse.probe/1 of bourse/plugin.h. Loaded and called in the helper only.
#pragma once

#include "agent/probes/probe.h"

namespace bourse {

// Options "path", the file, and "copies", the directory in which the loader keeps its copies. kInvalid also where the plugin reports what
// cannot be (a name that is none, an amount below zero): nothing of such a report is used.
Result<ProbeReport> run_plugin(const ProbeInput& input);

}  // namespace bourse
