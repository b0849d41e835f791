// What a crash can leave of a local cluster: processes, cgroups, sockets. Finding and removing them.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "frameworks/cli/cluster.h"

namespace bourse::cli {

// Keepers and launchers whose state lies below `dir`; keepers first.
std::vector<pid_t> launchers_below(const std::string& dir);
// Ends them and what runs in the cluster's cgroups, removes the cgroups and the sockets. Nothing of a cluster that was ended
// in good order is left for it to do.
Result<> remove_leftovers(const Cluster& cluster);

}  // namespace bourse::cli
