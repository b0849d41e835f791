// The batch actor's part of bourse.conf, and what of it may change while it runs.
//
// Used by main.cc on the reactor's thread. A reload travels to the actor as text (Reload), because an actor sees values only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/world/config.h"
#include "common/world/config_changes.h"
#include "frameworks/batch/layout.h"

namespace bourse::batch {

BatchOptions options_of(const Config& config);

// The live ones of `options`, "key=integer" a line; take_live() reads them back and leaves the others alone. kCorrupt: nothing is
// changed.
std::string live_text(const BatchOptions& options);
Result<> take_live(std::string_view text, BatchOptions& options);

// Of the sections that this program reads.
ConfigChanges config_changes(const Config& before, const Config& after);

}  // namespace bourse::batch
