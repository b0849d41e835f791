#include "agent/launcher/keeper.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "agent/launcher/channel.h"
#include "agent/launcher/exit_log.h"
#include "agent/launcher/lease.h"
#include "agent/launcher/proc.h"
#include "common/core/hooks.h"

namespace bourse::launcher {

namespace {

constexpr std::int64_t kBackoffLeastMs = 5;
constexpr std::int64_t kBackoffMostMs = 2'000;
constexpr std::int64_t kSteadyMs = 5'000;  // a launcher that lived this long starts the back-off anew
constexpr std::int64_t kAppendAgainMs = 500;
constexpr std::int64_t kLeaseLateMs = 2'000;  // a launcher that has not done then what a lease asks for hangs
constexpr std::int64_t kTakeOverMs = 30'000;  // one that has not taken over yet may wait for what its predecessor had half started
constexpr std::int64_t kLeaseLookMs = 60'000;

void say(const char* what, int number) { std::fprintf(stderr, "bourse-launcher keeper: %s (%d)\n", what, number); }

// Words of a command line for either role, in buffers that live as long as the process.
struct Command {
  std::string inherit;
  std::vector<const char*> argv;
  Command(const Options& o, bool keeper) {
    inherit =
        std::to_string(o.inherited.listener) + "," + std::to_string(o.inherited.lock) + "," + std::to_string(o.inherited.nudge);
    argv = {"bourse-launcher", "--state", o.state_dir.c_str(), "--cgroup-root", o.cgroup_root.c_str()};
    if (!o.isolation) argv.push_back("--no-isolation");
    if (!o.identity.empty()) argv.insert(argv.end(), {"--identity", o.identity.c_str()});
    if (keeper) argv.push_back("--keeper");
    argv.push_back("--inherit");
    argv.push_back(inherit.c_str());
    argv.push_back(nullptr);
  }
  [[noreturn]] void exec() {
    execv("/proc/self/exe", const_cast<char* const*>(argv.data()));
    _exit(126);
  }
};

class Keeper {
 public:
  explicit Keeper(const Options& options)
      : options_(options), command_(options, false), log_path_(exit_log_path(options.state_dir)), ends_(log_path_.c_str()) {}

  int run() {
    sigset_t signals;
    sigemptyset(&signals);
    for (const int s : {SIGCHLD, SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, s);
    sigprocmask(SIG_BLOCK, &signals, nullptr);
    const int fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0) return 1;
    if (auto opened = lease_.open(options_.state_dir); !opened) say("no watch over leases", errno);
    start_launcher();
    for (;;) {
      reap();
      mind_lease();
      if (stopping_ && launcher_ < 0) return 0;
      pollfd p{fd, POLLIN, 0};
      poll(&p, 1, wait_ms());
      signalfd_siginfo info{};
      while (read(fd, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT) stop();
      }
      if (launcher_ < 0 && !stopping_ && now_ms() >= start_at_) start_launcher();
    }
  }

 private:
  int wait_ms() const {
    if (append_failed_) return static_cast<int>(kAppendAgainMs);
    if (launcher_ < 0 && !stopping_) return static_cast<int>(std::max<std::int64_t>(0, start_at_ - now_ms()));
    const std::int64_t due = lease_.due();
    if (due == 0) return -1;  // SIGHUP says when that changes
    return static_cast<int>(std::clamp<std::int64_t>(late_at(due) - now_ms(), 1, kLeaseLookMs));
  }

  std::int64_t late_at(std::int64_t due) const {
    return std::max(due, started_at_) + (lease_.server() == launcher_ ? kLeaseLateMs : kTakeOverMs);
  }
  // Moved by the launcher in time, unless it hangs.
  void mind_lease() {
    const std::int64_t due = lease_.due(), now = now_ms();
    if (launcher_ <= 0 || due == 0 || now < late_at(due) || hooks::mutant("keeper.no_fence")) return;
    say("the launcher lets a lease pass, ending it; ms late", static_cast<int>(now - due));
    kill(launcher_, SIGKILL);
    started_at_ = now;
  }

  void stop() {
    if (launcher_ < 0) start_launcher();  // it is the one that knows how to clean up
    stopping_ = true;
    if (launcher_ > 0) kill(launcher_, SIGTERM);  // blocked in it up to where it listens
  }

  void start_launcher() {
    started_at_ = now_ms();
    const pid_t self = getpid();
    const pid_t pid = fork();
    if (pid == 0) {
      // Before anything can be missed: the launcher has to know when its keeper is gone. Its mask goes through exec.
      sigset_t wanted;
      sigemptyset(&wanted);
      sigaddset(&wanted, SIGUSR1);
      sigprocmask(SIG_BLOCK, &wanted, nullptr);
      prctl(PR_SET_PDEATHSIG, SIGUSR1);
      if (getppid() != self) raise(SIGUSR1);
      command_.exec();
    }
    // A crash point is for one life: the next launcher lives.
    unsetenv("BOURSE_CRASH_AT");
    launcher_ = pid;
    if (pid < 0) again("cannot fork", errno);
  }

  void again(const char* what, int number) {
    launcher_ = -1;
    say(what, number);
    if (now_ms() - started_at_ > kSteadyMs) backoff_ms_ = kBackoffLeastMs;
    start_at_ = now_ms() + backoff_ms_;
    backoff_ms_ = std::min(backoff_ms_ * 2, kBackoffMostMs);
  }

  void reap() {
    append_failed_ = false;
    for (;;) {
      siginfo_t info{};
      struct rusage used {};
      // The raw call, since it tells the CPU time too.
      if (syscall(SYS_waitid, P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT, &used) < 0 || info.si_pid == 0) return;
      const int status =
          info.si_code == CLD_EXITED ? (info.si_status & 0xff) << 8 : info.si_status | (info.si_code == CLD_DUMPED ? 0x80 : 0);
      if (info.si_pid != launcher_) {
        hooks::crash_point("keeper.before_append");
        const std::int64_t us =
            (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1'000'000 + used.ru_utime.tv_usec + used.ru_stime.tv_usec;
        if (!hooks::mutant("keeper.no_append") && !ends_.append(info.si_pid, status, us)) {
          append_failed_ = true;  // it stays a zombie; its end is not lost
          return;
        }
      }
      waitpid(info.si_pid, nullptr, 0);
      const std::uint64_t one = 1;
      (void)!write(options_.inherited.nudge, &one, sizeof one);
      if (info.si_pid != launcher_) continue;
      if (stopping_) {
        launcher_ = -1;
      } else {
        again("the launcher ended, starting another; wait status", status);
      }
    }
  }

  const Options& options_;
  Command command_;
  std::string log_path_;
  EndWriter ends_;
  LeasePage lease_;
  pid_t launcher_ = -1;
  bool stopping_ = false, append_failed_ = false;
  std::int64_t started_at_ = 0, start_at_ = 0, backoff_ms_ = kBackoffLeastMs;
};

bool keep_through_exec(const Inherited& fds, bool keep) {
  for (const int fd : {fds.listener, fds.lock, fds.nudge}) {
    if (fcntl(fd, F_SETFD, keep ? 0 : FD_CLOEXEC) < 0) return false;
  }
  return true;
}

Result<Inherited> open_all(const std::string& state_dir) {
  Inherited out;
  if (mkdir(state_dir.c_str(), 0700) != 0 && errno != EEXIST) return errno_error("mkdir " + state_dir);
  const std::string lock = state_dir + "/launcher.lock";
  out.lock = open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (out.lock < 0) return errno_error("open " + lock);
  if (flock(out.lock, LOCK_EX | LOCK_NB) != 0) return Error(Code::kBusy, state_dir + ": another keeper or launcher serves it");
  const mode_t mask = umask(0177);
  auto listener = listen_launcher(state_dir);
  umask(mask);
  out.listener = BOURSE_TRY(std::move(listener));
  out.nudge = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (out.nudge < 0) return errno_error("eventfd");
  return out;
}

}  // namespace

std::string exit_log_path(const std::string& state_dir) { return state_dir + "/exits"; }

int run_keeper(const Options& options) {
  prctl(PR_SET_NAME, "bourse-keeper");
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  Options mine = options;
  if (mine.inherited.listener < 0) {
    close_range(3, ~0U, 0);  // whatever the agent forgot to keep from us
    auto opened = open_all(options.state_dir);
    if (!opened && opened.error().code() == Code::kBusy) return 0;
    if (!opened) {
      std::fprintf(stderr, "bourse-launcher: %s\n", opened.error().text().c_str());
      return 1;
    }
    mine.inherited = *opened;
  }
  if (!keep_through_exec(mine.inherited, true)) return 1;
  return Keeper(mine).run();
}

void become_keeper(const Options& options) {
  if (!keep_through_exec(options.inherited, true)) return;
  prctl(PR_SET_PDEATHSIG, 0);
  unsetenv("BOURSE_CRASH_AT");
  Command(options, true).exec();
}

}  // namespace bourse::launcher
