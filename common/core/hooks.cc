#include "common/core/hooks.h"

#include <unistd.h>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <set>

namespace bourse::hooks {

namespace {

// Process-wide by nature: they stand for faults of the process. Written before threads start, or by a single-threaded test.
struct State {
  std::set<std::string, std::less<>> mutants;
  std::string mutants_text;
  std::string crash_name;
  std::uint64_t crash_passage = 1, passed = 0;
};
State& state() {
  static State instance;
  return instance;
}

void rearm() { detail::armed = !state().mutants.empty() || !state().crash_name.empty(); }

}  // namespace

namespace detail {

bool armed = false;

bool mutant(std::string_view name) { return state().mutants.contains(name); }

void crash_point(std::string_view name) {
  State& s = state();
  if (s.crash_name != name || ++s.passed != s.crash_passage) return;
  kill(getpid(), SIGKILL);
  for (;;) pause();  // the signal is on its way; nothing after this point may happen
}

}  // namespace detail

void init(const char* crash_at, const char* mutants) {
  State& s = state();
  s.crash_name.clear();
  s.crash_passage = 1;
  s.passed = 0;
  if (crash_at != nullptr) {
    s.crash_name = crash_at;
    const std::size_t colon = s.crash_name.rfind(':');
    if (colon != std::string::npos) {
      const long long n = std::atoll(s.crash_name.c_str() + colon + 1);
      s.crash_passage = n > 0 ? static_cast<std::uint64_t>(n) : 1;
      s.crash_name.resize(colon);
    }
  }
  set_mutants(mutants == nullptr ? "" : mutants);
}

void set_mutants(std::string_view names) {
  State& s = state();
  s.mutants.clear();
  s.mutants_text = std::string(names);
  while (!names.empty()) {
    const std::size_t comma = names.find(',');
    const std::string_view one = names.substr(0, comma);
    if (!one.empty()) s.mutants.emplace(one);
    names.remove_prefix(comma == std::string_view::npos ? names.size() : comma + 1);
  }
  rearm();
}

std::string active() {
  const State& s = state();
  std::string out;
  if (!s.mutants.empty()) out = "mutants=" + s.mutants_text;
  if (!s.crash_name.empty()) {
    if (!out.empty()) out += ' ';
    out += "crash_at=" + s.crash_name + ":" + std::to_string(s.crash_passage);
  }
  return out;
}

}  // namespace bourse::hooks
