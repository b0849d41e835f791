// A program that does something slow for the launcher, which does not wait for it: reaped with all others, its end is nobody's news.
#pragma once

#include <string>
#include <vector>

namespace bourse::launcher {

// Looked for in the PATH; with no signal blocked. One that cannot be started is said on standard error.
void spawn_aside(const std::vector<std::string>& words);

}  // namespace bourse::launcher
