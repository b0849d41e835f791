// Where tests reach into the product: named crash points, and mutants that disable one mechanism each.
//
// A crash point ends the process as kill -9 would, at a named place. A mutant makes one mechanism not happen, so that a test
// can show that it would notice (`make check-mutants`). Both are off unless init() found BOURSE_CRASH_AT ("name" or "name:N",
// the N-th passage) or BOURSE_MUTANT ("name,name") in the environment, or a test set them; then every program logs a warning.
#pragma once

#include <string>
#include <string_view>

namespace bourse::hooks {

void init(const char* crash_at, const char* mutants);  // null: none. main.cc passes getenv's answers
void set_mutants(std::string_view names);              // for the simulator: "" is none
[[nodiscard]] std::string active();                    // "" when nothing is set

namespace detail {
extern bool armed;
bool mutant(std::string_view name);
void crash_point(std::string_view name);
}  // namespace detail

inline bool mutant(std::string_view name) { return detail::armed && detail::mutant(name); }
inline void crash_point(std::string_view name) {
  if (detail::armed) detail::crash_point(name);
}

}  // namespace bourse::hooks
