#include "agent/warm_keeper.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "agent/launcher/container_command.h"
#include "agent/launcher/guest_command.h"
#include "common/world/files.h"
#include "common/world/log.h"
#include "common/world/spawn.h"

namespace bourse {
namespace {

namespace fs = std::filesystem;

void shut(int& fd) {
  if (fd >= 0) close(fd);
  fd = -1;
}

// What would be free without the process and its children.
std::int64_t own_bytes(pid_t pid) {
  std::int64_t kib = 0;
  if (const auto text = read_file("/proc/" + std::to_string(pid) + "/smaps_rollup")) {
    for (const char* key : {"Private_Clean:", "Private_Dirty:"})
      if (const auto at = text->find(key); at != std::string::npos) kib += std::atoll(text->c_str() + at + std::strlen(key));
  }
  std::int64_t bytes = kib * 1024;
  const std::string number = std::to_string(pid);
  if (const auto children = read_file("/proc/" + number + "/task/" + number + "/children")) {
    for (std::size_t at = 0; at < children->size();) {
      const std::size_t end = std::min(children->find(' ', at), children->size());
      if (const pid_t child = std::atoi(children->c_str() + at); child > 0) bytes += own_bytes(child);
      at = end + 1;
    }
  }
  return bytes;
}

}  // namespace

WarmKeeper::WarmKeeper(Reactor& reactor, std::string state_dir, std::string programs, MakeConfine confine, Post post)
    : reactor_(reactor),
      state_dir_(std::move(state_dir)),
      directory_(state_dir_ + "/warm"),
      programs_(std::move(programs)),
      confine_(std::move(confine)),
      post_(std::move(post)) {
  std::error_code error;
  fs::create_directory(directory_, error);
  chmod(directory_.c_str(), 0711);
  sweep();
  sweeping_ = reactor_.after(kSweepAgain, [this] {
    sweeping_ = 0;
    sweep();
  });
}

// A task of a dead agent may run in one still: it has its lock.
void WarmKeeper::sweep() {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory_, error)) {
    const std::string path = entry.path();
    if (std::any_of(instances_.begin(), instances_.end(), [&](const auto& one) { return one.second.directory == path; })) continue;
    next_ = std::max<std::uint64_t>(next_, std::strtoull(entry.path().filename().c_str(), nullptr, 10) + 1);
    const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0) {
      std::error_code ignored;
      fs::remove_all(path, ignored);
    }
    if (fd >= 0) close(fd);
  }
}

WarmKeeper::~WarmKeeper() {
  if (again_ != 0) reactor_.cancel(again_);
  if (sweeping_ != 0) reactor_.cancel(sweeping_);
  for (auto& [number, one] : instances_) {
    if (one.reading != 0) reactor_.unwatch(one.reading);
    reactor_.unwatch(one.exiting);
    if (one.timer != 0) reactor_.cancel(one.timer);
    shut(one.input), shut(one.output);
  }
}

void WarmKeeper::keep(const KeepWarm& wanted) {
  for (auto& [name, pool] : pools_) pool.count = 0;
  for (const KeepWarm::Pool& one : wanted.pools) {
    Pool& pool = pools_[one.name];
    pool.wanted = one;
    pool.count = one.count;
  }
  std::erase_if(pools_, [](const auto& entry) { return entry.second.count == 0 && entry.second.failures == 0; });
  balance();
}

void WarmKeeper::balance() {
  std::map<std::string, std::uint32_t> have;
  std::size_t making = 0;
  bool changed = false;
  for (auto& [number, one] : instances_) {
    if (one.claimed || one.leaving) continue;
    const auto pool = pools_.find(one.pool);
    if (++have[one.pool] > (pool == pools_.end() ? 0 : pool->second.count)) {
      changed = changed || one.ready;
      let_go(one);
    } else if (!one.ready) {
      ++making;
    }
  }
  const Duration now = real_time().mono;
  Duration wait{-1};
  for (auto& [name, pool] : pools_) {
    while (have[name] < pool.count && making < kMakingMax) {
      if (const Duration due = std::max(pool.not_before, quiet_until_); now < due) {
        wait = wait < Duration(0) ? due - now : std::min(wait, due - now);
        break;
      }
      if (auto made = make(name, pool); !made) {
        failed(name, made.error().text());
        continue;
      }
      ++have[name], ++making;
    }
  }
  if (wait >= Duration(0) && (again_ == 0 || now + wait < again_at_)) {
    if (again_ != 0) reactor_.cancel(again_);
    again_at_ = now + wait;
    again_ = reactor_.after(wait, [this] {
      again_ = 0;
      balance();
    });
  }
  if (changed) tell();
}

Result<std::vector<std::string>> WarmKeeper::command(const KeepWarm::Pool& wanted, const Instance& one) {
  const TaskSpec& spec = wanted.spec;
  const auto groups = launcher::joined(BOURSE_TRY(users_.groups(spec.user, spec.uid, spec.gid, real_time().mono.count() / 1000)));
  std::vector<std::string> words;
  if (spec.kind == TaskKind::kMicroVm) {
    words = BOURSE_TRY(launcher::guest_command(programs_, one.directory, spec, wanted.hypervisor, groups));
    words.insert(words.end(), {"--mem", std::to_string(wanted.mem.value), "--cpus", std::to_string(wanted.cpus)});
  } else {
    const auto confine = BOURSE_TRY(confine_(spec));
    words = launcher::container_command(programs_, state_dir_, one.directory, spec, confine, groups, {});
  }
  words.insert(words.end(), {"--park", one.place});
  return words;
}

Result<> WarmKeeper::make(const std::string& name, const Pool& pool) {
  const std::uint64_t number = next_++;
  Instance one;
  one.pool = name;
  one.directory = directory_ + "/" + std::to_string(number);
  one.place = one.directory + "/socket";
  auto words = BOURSE_TRY(command(pool.wanted, one));
  if (mkdir(one.directory.c_str(), 0711) != 0) return errno_error("mkdir " + one.directory);
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) != 0) return errno_error("pipe");
  if (pipe2(out, O_CLOEXEC | O_NONBLOCK) != 0) {
    close(in[0]), close(in[1]);
    return errno_error("pipe");
  }
  SpawnOptions options;
  options.argv = std::move(words);
  options.stdin_path.clear();
  options.pass = {{in[0], 0}, {out[1], 1}};
  options.stderr_path = state_dir_ + "/warm.log";
  options.directory = "/";
  options.own_session = true;
  auto pid = spawn(options);
  close(in[0]), close(out[1]);
  one.input = in[1], one.output = out[0];
  if (!pid) {
    shut(one.input), shut(one.output);
    std::error_code error;
    fs::remove_all(one.directory, error);
    return std::move(pid).error();
  }
  one.pid = *pid;
  one.reading = reactor_.watch(one.output, EPOLLIN, [this, number](std::uint32_t) { read(number); });
  one.exiting = reactor_.on_exit(one.pid, [this, number](int status) { ended(number, status); });
  one.timer = reactor_.after(kMakeWithin, [this, number] {  // asked to end first: it takes with it what it has made
    Instance& late = instances_.at(number);
    shut(late.input);
    late.timer = reactor_.after(kEndWithin, [this, number] {
      Instance& deaf = instances_.at(number);
      deaf.timer = 0;
      kill(deaf.pid, SIGKILL);
    });
  });
  instances_.emplace(number, std::move(one));
  return {};
}

void WarmKeeper::read(std::uint64_t number) {
  Instance& one = instances_.at(number);
  char bytes[256];
  const ssize_t n = ::read(one.output, bytes, sizeof bytes);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n > 0) one.said.append(bytes, static_cast<std::size_t>(n));
  const bool ready = one.said.compare(0, 6, "ready ") == 0 && one.said.back() == '\n';
  if (n > 0 && !ready && one.said.size() < 1024) return;
  reactor_.unwatch(std::exchange(one.reading, 0));
  if (!ready || one.ready) return;  // its end says the rest
  one.ready = true;
  if (one.timer != 0) reactor_.cancel(std::exchange(one.timer, 0));
  one.mem = Bytes{own_bytes(one.pid)};
  // A guest is its emulator, which is libvirt's child.
  if (pool_is_guests(one.pool)) one.mem.value += own_bytes(std::atoi(one.said.c_str() + 6));
  if (const auto pool = pools_.find(one.pool); pool != pools_.end()) pool->second.failures = 0, pool->second.failure.clear();
  told_failure_ = false;
  tell();
  balance();
}

bool WarmKeeper::pool_is_guests(const std::string& name) const {
  const auto found = pools_.find(name);
  return found != pools_.end() && found->second.wanted.spec.kind == TaskKind::kMicroVm;
}

void WarmKeeper::ended(std::uint64_t number, int status) {
  const auto it = instances_.find(number);
  Instance one = std::move(it->second);
  instances_.erase(it);
  if (one.reading != 0) reactor_.unwatch(one.reading);
  if (one.timer != 0) reactor_.cancel(one.timer);
  shut(one.input), shut(one.output);
  std::error_code error;
  fs::remove_all(one.directory, error);
  if (!one.claimed && !one.leaving)
    failed(one.pool, "what was to wait ended with status " + std::to_string(status) + ", see " + state_dir_ + "/warm.log");
  if (one.ready && !one.claimed) tell();
  balance();
}

void WarmKeeper::failed(const std::string& name, const std::string& why) {
  const auto found = pools_.find(name);
  if (found == pools_.end()) return;
  Pool& pool = found->second;
  const Duration wait = std::min(kFailedFirst * (1U << std::min(pool.failures, 10U)), Duration(kFailedMost));
  ++pool.failures;
  pool.not_before = real_time().mono + wait;
  pool.failure = why;
  if (!std::exchange(told_failure_, true))
    log_event(LogLevel::kWarn, "no_warm_instance",
              {{"image", pool.wanted.spec.image},
               {"reason", why},
               {"then", "its tasks start cold; trying again in " + format_duration(wait)}});
  tell();
}

void WarmKeeper::claimed(const std::string& place) {
  for (auto& [number, one] : instances_) {
    if (one.place != place || one.claimed) continue;
    one.claimed = true;
    one.timer = reactor_.after(kClaimWithin, [this, n = number] {
      Instance& mine = instances_.at(n);
      mine.timer = 0;
      shut(mine.input);
    });
    tell();
    quiet_until_ = real_time().mono + kRefillAfter;
    return balance();
  }
}

void WarmKeeper::let_go(Instance& instance) {
  instance.leaving = true;
  shut(instance.input);
}

void WarmKeeper::tell() {
  WarmState state;
  for (const auto& [number, one] : instances_)
    if (one.ready && !one.claimed && !one.leaving) state.ready.push_back({one.pool, one.place, one.mem});
  for (const auto& [name, pool] : pools_)
    if (!pool.failure.empty()) state.failed.emplace_back(name, pool.failure);
  post_(std::move(state));
}

}  // namespace bourse
