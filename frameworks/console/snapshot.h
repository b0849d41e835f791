// A view as JSON, version kSnapshotVersion: documented in bourse-console(8), which is what programs rely on.
//
// Fields may be added within a version; one that is taken away or changes its meaning makes another version.
#pragma once

#include <string>

#include "frameworks/console/history.h"
#include "frameworks/console/metrics.h"
#include "frameworks/console/view.h"

namespace bourse::console {

constexpr int kSnapshotVersion = 1;

std::string snapshot_json(const View& view, const JobsView& jobs, const Health& health, const History& history);

}  // namespace bourse::console
