// The master's view of reservations, for the commands that also make them.
#pragma once

#include <string>

namespace bourse::cli {

// Those for roles, or maintenance windows; `name` empty: all. Prints; the exit status.
int show_reservations(const std::string& program, bool maintenance, const std::string& name, bool json, const std::string& format);

}  // namespace bourse::cli
