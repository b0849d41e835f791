// The functions behind the catalog, linked into bourse-helper only. See probe.h.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "agent/probes/probe.h"

namespace bourse {

// Name and function of every probe of the catalog, in its order.
const std::vector<std::pair<std::string_view, ProbeFunction>>& probe_functions();
// kNotFound: there is no such probe. "plugin:NAME" takes the option "path".
Result<ProbeReport> run_probe(const std::string& name, const ProbeInput& input);

}  // namespace bourse
