// What the tests of common/world share: a directory that goes away, a loop with a limit, a child process.
#pragma once

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>

#include "common/world/reactor.h"

namespace bourse::test {

class TempDir {
 public:
  TempDir() {
    const char* base = getenv("TMPDIR");  // NOLINT(concurrency-mt-unsafe)
    path_ = std::string(base == nullptr ? "/tmp" : base) + "/bourse-test-XXXXXX";
    if (mkdtemp(path_.data()) == nullptr) abort();
  }
  ~TempDir() { std::filesystem::remove_all(path_); }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  [[nodiscard]] std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Turns the loop until the condition holds. False after `limit`: long enough for the slowest machine, never waited for in a
// run that passes.
inline bool run_until(Reactor& reactor, const std::function<bool()>& condition, Duration limit = seconds(20)) {
  const Duration end = real_time().mono + limit;
  while (!condition()) {
    if (real_time().mono > end) return false;
    reactor.turn(milliseconds(50));
  }
  return true;
}

// Runs `body` in a child process; its exit status, or 1000 + signal.
inline int in_child(const std::function<int()>& body) {
  const pid_t pid = fork();
  if (pid == 0) _exit(body());
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

}  // namespace bourse::test
