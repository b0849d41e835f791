// BOURSE_CRASH_AT is one or more of [PROGRAM/]NAME[:N][@MARK], with commas between: only in that program, at the N-th passage of
// a life. MARK is an absolute path, a file that the crash makes before it happens; while it exists the point is passed unharmed.
// So a supervisor's next life goes on, and a test sees that the point was reached, and by whom: the file has "NAME PID".
#include "common/core/hooks.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <vector>

namespace bourse::hooks {

namespace {

// Process-wide by nature: they stand for faults of the process. Written before threads start, or by a single-threaded test.
struct State {
  std::set<std::string, std::less<>> mutants;
  std::string mutants_text;
  struct Point {
    std::string name, mark;
    std::uint64_t passage = 1, passed = 0;
  };
  std::vector<Point> points;
  std::string points_text;
};
State& state() {
  static State instance;
  return instance;
}

void rearm() { detail::armed = !state().mutants.empty() || !state().points.empty(); }

}  // namespace

namespace detail {

bool armed = false;

bool mutant(std::string_view name) { return state().mutants.contains(name); }

void crash_point(std::string_view name) {
  for (State::Point& point : state().points) {
    if (point.name != name || ++point.passed != point.passage) continue;
    if (!point.mark.empty()) {
      const int fd = open(point.mark.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
      if (fd < 0) continue;
      const std::string said = point.name + " " + std::to_string(getpid()) + "\n";
      (void)!write(fd, said.data(), said.size());
    }
    kill(getpid(), SIGKILL);
    for (;;) pause();  // the signal is on its way; nothing after this point may happen
  }
}

}  // namespace detail

void init(const char* crash_at, const char* mutants) {
  State& s = state();
  s.points.clear();
  s.points_text = crash_at == nullptr ? "" : crash_at;
  std::string_view all = s.points_text;
  while (!all.empty()) {
    const std::size_t comma = all.find(',');
    std::string_view one = all.substr(0, comma);
    all.remove_prefix(comma == std::string_view::npos ? all.size() : comma + 1);
    State::Point point;
    if (const std::size_t at = one.find('@'); at != std::string_view::npos) {
      point.mark = std::string(one.substr(at + 1));
      one = one.substr(0, at);
    }
    if (const std::size_t slash = one.find('/'); slash != std::string_view::npos) {
      if (one.substr(0, slash) != program_invocation_short_name) continue;
      one.remove_prefix(slash + 1);
    }
    if (const std::size_t colon = one.rfind(':'); colon != std::string_view::npos) {
      const long long n = std::atoll(std::string(one.substr(colon + 1)).c_str());
      point.passage = n > 0 ? static_cast<std::uint64_t>(n) : 1;
      one = one.substr(0, colon);
    }
    point.name = std::string(one);
    if (!point.name.empty()) s.points.push_back(std::move(point));
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
  if (!s.points.empty()) {
    if (!out.empty()) out += ' ';
    out += "crash_at=" + s.points_text;
  }
  return out;
}

}  // namespace bourse::hooks
