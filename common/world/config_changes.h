// What a reload would change: two configurations, compared. Used by main programs on SIGHUP and `bourse reload`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/world/config.h"

namespace bourse {

// "batch.kill_wait: 30s -> 10s", a change each.
struct ConfigChanges {
  std::vector<std::string> live;     // in force at once
  std::vector<std::string> restart;  // only after a restart
};

// Of the keys of `sections`; `live` names those, "section.key", that the program takes over while it runs.
ConfigChanges config_changes(const Config& before, const Config& after, const std::vector<std::string_view>& sections,
                             const std::vector<std::string_view>& live);

// A line of the log for each; and the same as text for whoever asked, "nothing has changed" where there is none.
void log_changes(const ConfigChanges& changes, const std::string& file);
std::string to_text(const ConfigChanges& changes, std::string_view program);

}  // namespace bourse
