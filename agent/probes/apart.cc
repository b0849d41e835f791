#include "agent/probes/apart.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

#include "common/core/hooks.h"
#include "common/world/files.h"

namespace bourse {
namespace {

using Clock = std::chrono::steady_clock;

struct Child {
  pid_t pid = -1;
  int from = -1;
  std::string bytes;
  bool too_long = false, killed = false;
};

Result<Child> begin(const Part& part) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return errno_error("pipe");
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) {
    Error error = errno_error("fork");
    close(fds[0]);
    close(fds[1]);
    return error;
  }
  if (pid == 0) {
    // When the helper is killed at its limit we go with it, whatever a library has done to signals.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    close(kReportFd);  // the helper's own answer is not ours to give
    const bool written = write_all(fds[1], encode_report(part.look()));
    _exit(written ? 0 : 1);  // not exit: destructors of a vendor's library are where many of them crash
  }
  close(fds[1]);
  Child child;
  child.pid = pid;
  child.from = fds[0];
  return child;
}

std::string death(int status) {
  if (!WIFSIGNALED(status)) return "ended with status " + std::to_string(WEXITSTATUS(status)) + " and no answer";
  const char* name = sigabbrev_np(WTERMSIG(status));
  return "crashed: SIG" + std::string(name == nullptr ? "?" : name) + " (signal " + std::to_string(WTERMSIG(status)) + ")";
}

void read_some(Child& child) {
  char buffer[65536];
  const ssize_t n = read(child.from, buffer, sizeof buffer);
  if (n < 0 && errno == EINTR) return;
  if (n > 0) {
    child.bytes.append(buffer, static_cast<std::size_t>(n));
    if (child.bytes.size() <= kReportBytesMax) return;
    child.too_long = true;
    kill(child.pid, SIGKILL);
  }
  close(child.from);
  child.from = -1;
}

Result<ProbeReport> end(Child& child, Duration limit) {
  if (child.killed) kill(child.pid, SIGKILL);
  int status = 0;
  // One that hangs in the kernel does not end; it is left to its parent's end.
  pid_t got = 0;
  for (int tries = 0; tries < 100 && got == 0; ++tries) {
    got = waitpid(child.pid, &status, child.killed ? WNOHANG : 0);
    if (got < 0 && errno == EINTR) got = 0;
    if (got == 0) poll(nullptr, 0, 10);
  }
  if (child.killed) return Error(Code::kTimeout, "gave no answer within " + format_duration(limit));
  if (child.too_long) return Error(Code::kLimit, "answered more than " + format_size(Bytes{kReportBytesMax}));
  if (child.bytes.empty()) return Error(Code::kIo, got == child.pid ? death(status) : "ended, and nobody knows how");
  return decode_report(child.bytes);
}

}  // namespace

std::vector<Result<ProbeReport>> look_apart(const std::vector<Part>& parts, Duration limit) {
  std::vector<Result<ProbeReport>> answers(parts.size(), Result<ProbeReport>(ProbeReport{}));
  if (hooks::mutant("probe.no_apart")) {
    for (std::size_t i = 0; i < parts.size(); ++i) answers[i] = parts[i].look();
    return answers;
  }
  std::vector<Child> children(parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    auto child = begin(parts[i]);
    if (child)
      children[i] = *std::move(child);
    else
      answers[i] = child.error();
  }
  const auto until = Clock::now() + limit;
  while (true) {
    std::vector<pollfd> waiting;
    std::vector<std::size_t> whose;
    for (std::size_t i = 0; i < children.size(); ++i) {
      if (children[i].from < 0) continue;
      waiting.push_back({children[i].from, POLLIN, 0});
      whose.push_back(i);
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    if (waiting.empty() || left <= 0) break;
    if (poll(waiting.data(), waiting.size(), static_cast<int>(left)) < 0 && errno != EINTR) break;
    for (std::size_t w = 0; w < waiting.size(); ++w)
      if (waiting[w].revents != 0) read_some(children[whose[w]]);
  }
  for (std::size_t i = 0; i < children.size(); ++i) {
    if (children[i].pid < 0) continue;
    if (children[i].from >= 0) {
      children[i].killed = true;
      close(children[i].from);
    }
    answers[i] = end(children[i], limit);
  }
  return answers;
}

}  // namespace bourse
