// The master's part of bourse.conf, and what of it may change while it runs.
//
// main programs make MasterOptions of it; a reload travels to the actor as text (Reload), because an actor sees values only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/world/config.h"
#include "master/master.h"

namespace bourse {

// Those of the configuration's values that options have; pid, endpoint and the policy are main's.
void take_config(const Config& config, MasterOptions& options);
// "section.key" of what is taken over at once.
const std::vector<std::string_view>& live_master_keys();

// The live ones, "settings" and then "key=microseconds" a line; take_live() reads them back. kCorrupt: nothing is changed.
std::string live_text(const MasterOptions& options);
[[nodiscard]] bool is_live_text(std::string_view text);
Result<> take_live(std::string_view text, MasterOptions& options);

}  // namespace bourse
