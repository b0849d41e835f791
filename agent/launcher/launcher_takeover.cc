// How a launcher takes over from one that has died: from the exit log and from the processes that there are.
#include <dirent.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "agent/launcher/launcher.h"
#include "agent/launcher/proc.h"

namespace bourse::launcher {

namespace {

constexpr std::int64_t kHalfStartedMs = 10'000;  // a child of a dead launcher that has not executed by then is killed

struct Stat {
  char state = 0;
  int parent = 0;
  std::int64_t start_ticks = 0;
};

// Fields 3, 4 and 22 of proc(5)'s stat, counted from the last ')' as the command before it may hold anything.
bool read_stat(pid_t pid, Stat& out) {
  const std::string text = read_text("/proc/" + std::to_string(pid) + "/stat");
  const auto at = text.rfind(')');
  if (at == std::string::npos) return false;
  long long start = 0;
  const int n =
      std::sscanf(text.c_str() + at + 1, " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %lld",
                  &out.state, &out.parent, &start);
  out.start_ticks = start;
  return n == 3;
}

int pidfd_open(pid_t pid) { return static_cast<int>(syscall(SYS_pidfd_open, pid, 0)); }

}  // namespace

// A child of a launcher that was killed may still be on its way to exec. It has not written its record yet, or it has: who
// reads the log now would not know, and start the task again. Such a child still shows our command line.
void Launcher::wait_for_half_started() {
  const std::string mine = read_text("/proc/self/cmdline");
  const auto inherit = mine.find("--inherit");
  const std::string command = mine.substr(0, inherit);
  const std::int64_t begin = now_ms();
  for (bool found = true; found;) {
    found = false;
    DIR* dir = opendir("/proc");
    if (!dir) return;
    while (const dirent* entry = readdir(dir)) {
      const pid_t pid = std::atoi(entry->d_name);
      if (pid <= 1 || pid == getpid() || pid == keeper_) continue;
      const std::string other = read_text("/proc/" + std::to_string(pid) + "/cmdline");
      if (other.substr(0, other.find("--inherit")) != command) continue;
      found = true;
      if (now_ms() - begin > kHalfStartedMs) kill(pid, SIGKILL);
    }
    closedir(dir);
    if (found && now_ms() - begin > 2 * kHalfStartedMs) return;  // it cannot even be killed: it hangs in a file system
    if (found) usleep(1000);
  }
}

void Launcher::take_over() {
  // A leaf is used again and again: it belongs to the last task that had it, running or not. It may be gone with its task.
  for (const auto& key : log_->last_in_leaf()) {
    const auto& task = *log_->find(key);
    const bool adopted = static_cast<bool>(isolator_->adopt(slice_word(task.slice), key_word(key), task.leaf));
    if (adopted && task.how != ExitLog::How::kRunning) clearing_[key] = now_ms(), turns_.enter(task.slice, key);
  }
  std::vector<TaskKey> running;
  for (const auto& [key, task] : log_->tasks()) {
    known_.insert(task.slice);
    if (task.how == ExitLog::How::kRunning) running.push_back(key), turns_.enter(task.slice, key);
  }
  for (const auto& key : running) {
    take_over_task(key, *log_->find(key));
    if (const auto* task = log_->find(key); task && task->how == ExitLog::How::kRunning) leased(key, *task);
  }
  log_has_grown();
  ask_for_work();
}

void Launcher::take_over_task(const TaskKey& key, ExitLog::Task& task) {
  isolator_->started(slice_word(task.slice), key_word(key), task.pid);
  const int fd = pidfd_open(task.pid);
  Stat stat;
  const bool there = fd >= 0 && read_stat(task.pid, stat) && stat.start_ticks <= task.ticks;
  if (there) pidfds_[key] = fd;
  if (there && stat.parent == keeper_) return;  // the keeper reaps it, and says so
  if (!there) {
    if (fd >= 0) close(fd);
    // It may have ended between our reading of the log and now, under the keeper's eyes.
    log_has_grown();
    if (task.how == ExitLog::How::kRunning) not_known(key);
    return;
  }
  struct epoll_event event {};
  event.events = EPOLLIN;
  event.data.fd = fd;
  epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event);
  watched_[fd] = key;
}

}  // namespace bourse::launcher
