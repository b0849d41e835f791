#include "agent/launcher/launcher.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "agent/isolators/cgroup_files.h"
#include "agent/launcher/container_command.h"
#include "agent/launcher/init.h"
#include "agent/launcher/proc.h"
#include "common/core/hooks.h"
#include "common/world/log.h"

namespace bourse::launcher {

namespace {

constexpr int kLentOomScore = 900, kOomSpread = 100;  // oom_score_adj of revocable tasks, by priority: 800 to 1000

constexpr int kWorkLeastMs = 1, kWorkMostMs = 100;
constexpr std::int64_t kLeftoverMs = 5'000;  // after this the end is told although something in the leaf will not die
constexpr int kPacketsPerTurn = 64;
// A start is told so much later, or with the task's end: one wake-up of the agent for both. As long as enough tasks wait for their turn
// in the slice to keep it busy meanwhile, nobody is in a hurry: starts and ends are told so many milliseconds later, all together.
constexpr std::int64_t kHoldMs = 5, kHoldBusyMs = 40;
constexpr std::size_t kWaitingEnough = 8;

std::string own_path() {
  char path[4096] = {};
  return readlink("/proc/self/exe", path, sizeof path - 1) > 0 ? path : "/";
}

bool no_child() {
  siginfo_t info{};
  return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 && errno == ECHILD;
}

// A signal for the first process of a task carries a mark: an init passes those on, and no others. See init.h.
siginfo_t marked(int signal) {
  siginfo_t info{};
  info.si_signo = signal;
  info.si_code = SI_QUEUE;
  info.si_pid = getpid();
  info.si_uid = geteuid();
  info.si_value.sival_int = kPassOn;
  return info;
}

void pidfd_send(int fd, int signal) {
  siginfo_t info = marked(signal);
  syscall(SYS_pidfd_send_signal, fd, signal, &info, 0);
}

Duration wall_now() {
  struct timespec now {};
  clock_gettime(CLOCK_REALTIME, &now);
  return Duration(now.tv_sec * 1'000'000 + now.tv_nsec / 1000);
}

Duration cpu_of(const struct rusage& used) {
  return Duration((used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1'000'000 + used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

}  // namespace

Launcher::Launcher(Options options)
    : options_(std::move(options)), proofs_(options_.identity, options_.state_dir + "/artifacts/") {}

Launcher::~Launcher() {
  for (const auto& [fd, key] : watched_) close(fd);
  for (const auto& [key, fd] : pidfds_) {
    if (watched_.count(fd) == 0) close(fd);
  }
  for (const int fd : {epoll_, signals_, null_fd_}) {
    if (fd >= 0) close(fd);
  }
}

void Launcher::note(const Result<>& result) {
  if (!result) std::fprintf(stderr, "bourse-launcher: %s\n", result.error().text().c_str());
}

int Launcher::run() {
  auto opened = open();
  if (opened) opened = loop();
  if (opened) return 0;
  note(opened);
  return 1;
}

Result<> Launcher::open() {
  prctl(PR_SET_NAME, "bourse-launcher");
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  keeper_ = getppid();
  privileged_ = geteuid() == 0;
  for (const int fd : {options_.inherited.listener, options_.inherited.lock, options_.inherited.nudge})
    fcntl(fd, F_SETFD, FD_CLOEXEC);

  // Blocked for good, and given as events. A task's own mask is empty.
  sigset_t signals;
  sigemptyset(&signals);
  for (const int s : {SIGCHLD, SIGUSR1, SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, s);
  sigprocmask(SIG_SETMASK, &signals, nullptr);
  signals_ = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signals_ < 0) return errno_error("signalfd");
  null_fd_ = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null_fd_ < 0) return errno_error("open /dev/null");

  // Tasks get the limit that we were given; we need more.
  getrlimit(RLIMIT_NOFILE, &descriptors_);
  struct rlimit more = descriptors_;
  more.rlim_cur = more.rlim_max;
  setrlimit(RLIMIT_NOFILE, &more);

  const char* boot_id = std::getenv("BOURSE_BOOT_ID_FILE");  // a test's, see agent/main.cc
  boot_id_ = read_text(boot_id != nullptr ? boot_id : "/proc/sys/kernel/random/boot_id");
  boot_id_.erase(std::remove(boot_id_.begin(), boot_id_.end(), '\n'), boot_id_.end());
  wait_for_half_started();
  log_ = BOURSE_TRY(ExitLog::open(exit_log_path(options_.state_dir), boot_id_));
  rebooted_ = log_->rebooted();
  isolator_ = make_isolator(options_.cgroup_root, options_.isolation);

  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  if (epoll_ < 0) return errno_error("epoll_create1");
  for (const int fd : {signals_, options_.inherited.listener, options_.inherited.nudge}) {
    struct epoll_event event {};
    event.events = EPOLLIN;
    event.data.fd = fd;
    if (epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0) return errno_error("epoll_ctl");
  }
  programs_ = own_path();
  programs_.resize(programs_.rfind('/') + 1);
  scratch_ = std::make_unique<Scratch>(options_.state_dir + "/scratch");
  note(lease_.open(options_.state_dir));
  opened_ms_ = now_ms();
  if (rebooted_) lease_.set_until(0);
  take_over();
  std::set<std::string> keep;
  for (const auto& [key, task] : log_->tasks()) {
    if (task.how == ExitLog::How::kRunning || clearing_.count(key) != 0) keep.insert(key_word(key));
  }
  scratch_->recover(keep);
  return {};
}

Result<> Launcher::loop() {
  struct epoll_event events[32];
  lease_.set_server(getpid());
  for (;;) {
    // The last children are those that remove what tasks had on disk.
    if (stopping_ && clearing_.empty() && killing_.empty() && releasing_.empty() && !recovering_ && no_child()) {
      note(isolator_->remove_root());
      return {};
    }
    int wait_ms = work_ms_;
    if (!begun_.empty() || !held_.empty()) {
      std::int64_t due = begun_.empty() ? held_.front().due_ms : begun_.front().due_ms;
      if (!held_.empty()) due = std::min(due, held_.front().due_ms);
      const auto left = static_cast<int>(std::clamp<std::int64_t>(due - now_ms(), 0, kHoldBusyMs));
      wait_ms = wait_ms < 0 ? left : std::min(wait_ms, left);
    }
    if (lease_due_ms_ != 0) {
      const auto left = static_cast<int>(std::clamp<std::int64_t>(lease_due_ms_ - now_ms(), 0, 60'000));
      wait_ms = wait_ms < 0 ? left : std::min(wait_ms, left);
    }
    const int n = epoll_wait(epoll_, events, 32, wait_ms);
    if (n < 0 && errno != EINTR) return errno_error("epoll_wait");
    for (int i = 0; i < n; ++i) {
      const int fd = events[i].data.fd;
      if (fd == signals_) {
        signalfd_siginfo info{};
        while (read(signals_, &info, sizeof info) == sizeof info) {
          if (info.ssi_signo == SIGUSR1) become_keeper(options_);  // our keeper is gone
          if (info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT) stop();
        }
        reap();
      } else if (fd == options_.inherited.listener) {
        accept_agent();
      } else if (fd == options_.inherited.nudge) {
        std::uint64_t count = 0;
        (void)!read(fd, &count, sizeof count);
        log_has_grown();
      } else if (fd == agent_.fd()) {
        if ((events[i].events & EPOLLOUT) != 0 && !agent_.flush()) agent_.close();
        if ((events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) read_agent();
      } else if (const auto it = watched_.find(fd); it != watched_.end()) {
        const TaskKey key = it->second;
        close(fd);
        watched_.erase(it);
        pidfds_.erase(key);
        log_has_grown();
        if (const auto* task = log_->find(key); task && task->how == ExitLog::How::kRunning) not_known(key);
      }
    }
    forget_all();
    tell_due();
    if (lease_due_ms_ != 0 && now_ms() >= lease_due_ms_) end_leased();
    if (n <= 0 && work_ms_ >= 0) work();
  }
}

// --- the agent -----------------------------------------------------------------------------------------------------

void Launcher::accept_agent() {
  const int fd = accept4(options_.inherited.listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) return;
  struct ucred peer {};
  socklen_t size = sizeof peer;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || (peer.uid != 0 && peer.uid != geteuid())) {
    close(fd);
    return;
  }
  size_buffers(fd);
  agent_ = Channel(fd);  // a new one replaces the old: the agent restarted
  begun_.clear();        // State tells it, and the ends
  held_.clear();
  turns_.forget_waiting();  // it asks for them again
  struct epoll_event event {};
  event.events = EPOLLIN;
  event.data.fd = fd;
  epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event);
}

void Launcher::read_agent() {
  for (int i = 0; i < kPacketsPerTurn; ++i) {
    auto packet = agent_.receive();
    if (!packet) {
      if (packet.error().code() == Code::kBusy) return;
      if (packet.error().code() == Code::kCorrupt) {
        note(packet.error());
        continue;
      }
      agent_.close();
      return;
    }
    std::visit(
        [this](auto&& p) {
          using P = std::decay_t<decltype(p)>;
          if constexpr (std::is_same_v<P, Hello> || std::is_same_v<P, Prepare> || std::is_same_v<P, Release> ||
                        std::is_same_v<P, Start> || std::is_same_v<P, Signal> || std::is_same_v<P, Forget> ||
                        std::is_same_v<P, Measure> || std::is_same_v<P, LimitLent> || std::is_same_v<P, Squeeze> ||
                        std::is_same_v<P, Lease>) {
            if (!stopping_) handle(std::move(p));
          } else {
            note(Error(Code::kInvalid, "a packet that only the launcher may send"));
          }
        },
        *std::move(packet));
  }
}

void Launcher::send(const Packet& packet) {
  if (!agent_.open()) return;
  const bool waited = agent_.waiting();
  if (auto sent = agent_.send(packet); !sent) {
    note(sent);
    agent_.close();  // it connects again, and is told all anew
    return;
  }
  if (agent_.waiting() == waited) return;
  struct epoll_event event {};
  event.events = EPOLLIN | (agent_.waiting() ? static_cast<std::uint32_t>(EPOLLOUT) : 0U);
  event.data.fd = agent_.fd();
  epoll_ctl(epoll_, EPOLL_CTL_MOD, agent_.fd(), &event);
}

void Launcher::tell_due() {
  const std::int64_t now = begun_.empty() && held_.empty() ? 0 : now_ms();
  const bool begun_due = !begun_.empty() && begun_.front().due_ms <= now;
  if (!held_.empty() && (held_.front().due_ms <= now || begun_due)) tell_held();  // who followed was started later
  while (!begun_.empty() && begun_.front().due_ms <= now) {
    send(StartedTask{begun_.front().task, begun_.front().pid});
    begun_.pop_front();
  }
}

// All of them, though only the first is due: one wake-up of the agent.
void Launcher::tell_held() {
  for (const Held& one : std::exchange(held_, {})) {
    if (const auto* task = log_->find(one.task)) send_end(one.task, *task);
  }
}

void Launcher::send_end(const TaskKey& key, const ExitLog::Task& task) {
  send(Ended{key, task.how == ExitLog::How::kEnded, task.wait_status, task.cpu, task.out_of_memory, task.mem_peak,
             task.started_wall, task.ended_wall, task.fenced});
}

bool Launcher::no_hurry(const SliceId& slice) const { return turns_.waiting(slice) >= kWaitingEnough && agent_.open(); }

void Launcher::hold_start(const Start& start, pid_t pid) {
  const Begun one{now_ms() + (no_hurry(start.slice) ? kHoldBusyMs : kHoldMs), start.task, pid};
  auto at = begun_.end();  // those that are in no hurry are few, and the last
  while (at != begun_.begin() && std::prev(at)->due_ms > one.due_ms) --at;
  begun_.insert(at, one);
}

void Launcher::tell(const TaskKey& key, const ExitLog::Task& task) {
  const bool clear = clearing_.count(key) == 0, ended = task.how != ExitLog::How::kRunning;
  const bool later = ended && clear && no_hurry(task.slice);
  const auto held = std::find_if(begun_.begin(), begun_.end(), [&](const Begun& one) { return one.task == key; });
  if (held != begun_.end() && clear) {
    if (ended && !later) send(StartedTask{key, held->pid});  // else the end says it all
    begun_.erase(held);
  }
  if (!ended) {
    send(StartedTask{key, task.pid});
  } else if (later) {
    held_.push_back({now_ms() + kHoldBusyMs, key});
  } else if (clear) {
    tell_held();
    send_end(key, task);
  }
}

void Launcher::handle(Hello hello) {
  known_ = std::set<SliceId>(hello.slices.begin(), hello.slices.end());
  for (const auto& [key, task] : log_->tasks()) {
    if (known_.count(task.slice) == 0) releasing_.emplace(task.slice, false);
  }
  recovering_ = true;
  State state;
  state.isolation = std::string(isolator_->name());
  state.degraded = isolator_->degraded();
  state.rebooted = rebooted_;
  for (const auto& [key, task] : log_->tasks()) {
    if (task.how == ExitLog::How::kRunning || clearing_.count(key) != 0) state.running.push_back({key, task.slice, task.pid});
  }
  send(state);
  for (const auto& [key, task] : log_->tasks()) {
    if (task.how != ExitLog::How::kRunning) tell(key, task);
  }
  work();
}

void Launcher::handle(Prepare prepare) {
  if (releasing_.count(prepare.slice) != 0) {
    send(Prepared{prepare.slice, "the slice is being removed"});
    return;
  }
  auto done = isolator_->prepare(slice_word(prepare.slice), prepare.limits);
  if (done) known_.insert(prepare.slice);
  if (done && prepare.limits.revocable) lent_.insert(prepare.slice);
  send(Prepared{prepare.slice, done ? "" : done.error().text()});
  // What there is of it; recover() finds the rest.
  if (!done && known_.count(prepare.slice) == 0) (void)isolator_->release(slice_word(prepare.slice));
}

void Launcher::handle(const Measure&) {
  Measured all;
  for (const SliceId& slice : known_) {
    if (auto use = isolator_->measure(slice_word(slice))) all.slices.push_back({slice, *use});
  }
  send(all);
}

// A limit that cannot be written leaves the slice as it is; the agent has further means.
void Launcher::handle(const LimitLent& limit) { note(isolator_->limit_lent(limit.mem)); }
void Launcher::handle(const Squeeze& squeeze) {
  if (known_.count(squeeze.slice) != 0) note(isolator_->squeeze(slice_word(squeeze.slice), squeeze.mem_high));
}

void Launcher::handle(Release release) {
  known_.erase(release.slice);
  lent_.erase(release.slice);
  releasing_[release.slice] = true;
  for (const Start& start : turns_.withdraw_all(release.slice)) withdrawn(start, "its slice was released");
  work();
}

void Launcher::handle(Start start) {
  if (const auto* task = log_->find(start.task)) {  // known already: not started again
    tell(start.task, *task);
    return;
  }
  if (turns_.waits(start.slice, start.task)) return;
  const auto fail = [&](std::string reason) { send(StartFailed{start.task, std::move(reason), false}); };
  if (known_.count(start.slice) == 0 || releasing_.count(start.slice) != 0) {
    return fail("slice " + to_text(start.slice) + " is not prepared on this host");
  }
  if (log_->tasks().size() >= kTasksMax) return fail("this host has " + std::to_string(kTasksMax) + " tasks, which is its limit");
  if (!privileged_ && (start.spec.uid != geteuid())) {
    return fail("the launcher does not run as root and cannot start tasks of uid " + std::to_string(start.spec.uid));
  }
  if (auto proven = proofs_.check(start, wall_now()); !proven) {
    log_event(LogLevel::kWarn, "task_refused",
              {{"task", start.task.task.str()},
               {"framework", start.task.framework.str()},
               {"user", start.spec.user},
               {"uid", std::to_string(start.spec.uid)},
               {"reason", proven.error().text()}});
    return fail(proven.error().text());
  }
  Proofs::settle_environment(start);
  auto waits = turns_.wait(start);
  if (!waits) return fail(waits.error().text());
  if (!*waits) begin(std::move(start));
}

void Launcher::next_in_turn(const SliceId& slice) {
  while (auto start = turns_.next(slice)) begin(*std::move(start));
}

void Launcher::begin(Start start) {
  const auto fail = [&](std::string reason) { send(StartFailed{start.task, std::move(reason), false}); };
  const std::string slice = slice_word(start.slice), task = key_word(start.task);
  if (start.spec.fence_lease && lease_until() != 0 && now_ms() >= lease_until() && !hooks::mutant("launcher.no_fence"))
    return fail(std::string(kLeaseOver));
  auto groups = users_.groups(start.spec.user, start.spec.uid, start.spec.gid, now_ms());
  if (!groups) return fail(groups.error().text());
  Launch plan;
  plan.groups = *std::move(groups);
  plan.confine = start.confine;
  plan.init = programs_ + "bourse-init";
  // When the host runs out, the kernel takes lent ones before all others, and of them the least important.
  if (lent_.count(start.slice) != 0 && !hooks::mutant("launcher.lent_as_others"))
    plan.oom_score_adj = std::to_string(kLentOomScore - std::clamp(start.spec.priority, -kOomSpread, kOomSpread));
  if (auto ready = into_container(start, plan); !ready) return fail(ready.error().text());
  LaunchFailed failed;
  const Launched launched = start_in_leaf(start, plan, failed);
  hooks::crash_point("launcher.after_clone");
  const std::string leaf = isolator_->leaf(slice, task);
  if (!failed.reason.empty()) {
    if (failed.recorded != 0) note(log_->failed(start.task, failed.recorded, failed.reason));
    isolator_->started(slice, task, 0);
    (void)isolator_->detach(slice, task);
    scratch_->drop(task);
    return fail(std::move(failed.reason));
  }
  isolator_->started(slice, task, launched.pid);
  ExitLog::Task record;
  record.slice = start.slice;
  record.pid = launched.pid;
  record.ticks = launched.ticks;
  record.leaf = leaf;
  record.lease_grace_ms = lease_grace_ms(start.spec);
  record.started_wall = wall_now();
  turns_.enter(start.slice, start.task);
  if (record.lease_grace_ms >= 0) leased(start.task, record);
  log_->started(start.task, std::move(record));
  rebooted_ = false;
  hold_start(start, launched.pid);
}

void Launcher::withdrawn(const Start& start, const std::string& why) { send(StartFailed{start.task, why, true}); }

// A directory of its own for what it needs on disk; and a container is started by a program that makes it.
Result<> Launcher::into_container(Start& start, Launch& plan) {
  if (start.spec.kind == TaskKind::kMicroVm) return into_guest(start, plan);
  const bool container = start.spec.kind == TaskKind::kContainer;
  const bool private_tmp = plan.confine.tmp == Confine::Tmp::kDisk && !container;
  if (!container && !private_tmp) return {};
  const std::string task = key_word(start.task);
  if (private_tmp) {
    plan.tmp_dir = BOURSE_TRY(scratch_->make(task, start.spec.uid, start.spec.gid));
    return {};
  }
  if (access((programs_ + "bourse-container").c_str(), X_OK) != 0)
    return Error(Code::kUnsupported, "containers cannot be run here: " + programs_ + "bourse-container is not installed");
  if (!privileged_) return Error(Code::kUnsupported, "the launcher does not run as root and cannot start containers");
  if (start.spec.image.empty()) return Error(Code::kInvalid, "the task is a container and names no image");
  const std::string directory = BOURSE_TRY(scratch_->make(task, 0, 0));
  std::vector<std::string> words = container_command(programs_, options_.state_dir, directory, start.spec, plan.confine,
                                                     joined(plan.groups), start.device_nodes);
  if (!start.warm.empty() && !hooks::mutant("container.never_warm")) {
    words.front() = programs_ + "bourse-wait";  // which becomes the other where nothing waits
    words.insert(words.end(), {"--warm", start.warm});
  }
  words.emplace_back("--");
  words.insert(words.end(), start.spec.argv.begin(), start.spec.argv.end());
  start.spec.argv = std::move(words);
  plan.stays_root = true;
  return {};
}

// Where somebody else removed the groups of its slice (nobody is in them), they are made again, once.
Launched Launcher::start_in_leaf(const Start& start, Launch& plan, LaunchFailed& failed) {
  const std::string slice = slice_word(start.slice), task = key_word(start.task);
  for (bool again = false;; again = true) {
    failed = {};
    auto entry = isolator_->attach(slice, task);
    Launched launched;
    if (entry) {
      plan.spec = &start.spec;
      plan.entry = *std::move(entry);
      plan.marker = isolator_->marker(slice, task);
      plan.record_prefix = start_prefix(start.task, start.slice);
      plan.record_suffix = start_suffix(isolator_->leaf(slice, task), lease_grace_ms(start.spec));
      plan.log_fd = log_->fd();
      plan.null_fd = null_fd_;
      plan.privileged = privileged_;
      plan.descriptors = descriptors_;
      launched = launch(plan, failed);
      if (failed.reason.empty() || !failed.leaf_gone) return launched;
    } else {
      failed.reason = entry.error().text();
    }
    if (again) return {};
    (void)isolator_->detach(slice, task);
    if (auto made = isolator_->renew(slice); !made) {
      failed.reason += "; its slice cannot be made again: " + made.error().text();
      return {};
    }
    note(Error(Code::kGone, "slice " + to_text(start.slice) + ": its cgroup was removed by somebody else; made again"));
  }
}

void Launcher::handle(const Signal& signal) {
  const auto* task = log_->find(signal.task);
  if (!task && (signal.signal == SIGTERM || signal.signal == SIGKILL || signal.signal == 0)) {
    if (const auto start = turns_.withdraw(signal.task)) {
      withdrawn(*start, "taken back before it was started");
      next_in_turn(start->slice);
    }
    return;
  }
  if (signal.signal == 0) return;
  if (!task || (task->how != ExitLog::How::kRunning && clearing_.count(signal.task) == 0)) return;
  if (signal.whole && signal.signal == SIGKILL) {
    killing_.insert(signal.task);
    work();
  } else if (signal.whole &&
             (scratch_->mark_of(key_word(signal.task)).empty() || hooks::mutant("launcher.guest_signalled_whole"))) {
    (void)isolator_->signal(slice_word(task->slice), key_word(signal.task), signal.signal);
  } else if (task->how == ExitLog::How::kRunning) {
    // A guest's emulator must not get it: the first process passes it on to the program inside.
    // Our own child keeps its pid until we reap it; another's may have lost it already.
    const auto it = pidfds_.find(signal.task);
    if (it == pidfds_.end()) {
      siginfo_t info = marked(signal.signal);
      syscall(SYS_rt_sigqueueinfo, task->pid, signal.signal, &info);
    } else {
      pidfd_send(it->second, signal.signal);
    }
  }
}

void Launcher::handle(const Forget& forget) {
  const auto* task = log_->find(forget.task);
  // One whose end has not been told yet is told first, and forgotten when that is confirmed.
  if (!task || task->how == ExitLog::How::kRunning || clearing_.count(forget.task) != 0) return;
  forgets_.push_back(forget.task);
}

// Those of one turn in one write. Until then they are only told again, should we die.
void Launcher::forget_all() {
  if (forgets_.empty()) return;
  note(log_->forget(forgets_));
  forgets_.clear();
  const std::int64_t before = log_->bytes();
  note(log_->tidy());
  if (log_->bytes() < before) log_has_grown();  // it was read to its end for that
}

// --- ends ----------------------------------------------------------------------------------------------------------

void Launcher::reap() {
  for (;;) {
    siginfo_t info{};
    struct rusage used {};
    if (syscall(SYS_waitid, P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT, &used) < 0 || info.si_pid == 0) return;
    const int status =
        info.si_code == CLD_EXITED ? (info.si_status & 0xff) << 8 : info.si_status | (info.si_code == CLD_DUMPED ? 0x80 : 0);
    const TaskKey* running = log_->running(info.si_pid);
    if (running) {
      // First recorded, then reaped: up to that a keeper would find the same end. Others are leftovers of a task, taken in.
      const TaskKey key = *running;
      hooks::crash_point("launcher.before_exit_record");
      first_process_ended(key, status, cpu_of(used), Bytes{used.ru_maxrss * 1024});
      hooks::crash_point("launcher.after_exit_record");
      waitpid(info.si_pid, nullptr, 0);
      clear_leaf(key);
    } else {
      waitpid(info.si_pid, nullptr, 0);
    }
  }
}

void Launcher::first_process_ended(const TaskKey& key, int wait_status, Duration cpu, Bytes largest) {
  auto* task = log_->find(key);
  task->ended_wall = wall_now();
  const auto usage = isolator_->usage(slice_word(task->slice), key_word(key));
  const Usage u = usage ? *usage : Usage{};
  if (hooks::mutant("launcher.exit_not_logged")) {
    auto* t = log_->find(key);
    t->how = ExitLog::How::kEnded;
    t->wait_status = wait_status;
    return;
  }
  note(log_->ended(key, wait_status, std::max(cpu, u.cpu), u.out_of_memory, u.mem_peak.value > 0 ? u.mem_peak : largest));
}

void Launcher::log_has_grown() {
  for (const auto& key : log_->read_new()) {
    const auto* task = log_->find(key);
    if (!task) continue;
    const auto it = pidfds_.find(key);
    if (it != pidfds_.end()) {
      watched_.erase(it->second);
      close(it->second);
      pidfds_.erase(it);
    }
    // The keeper knows its wait status; the leaf, where there still is one, the rest.
    const auto usage = isolator_->usage(slice_word(task->slice), key_word(key));
    if (usage) note(log_->resources(key, std::max(task->cpu, usage->cpu), usage->out_of_memory, usage->mem_peak));
    clear_leaf(key);
  }
}

void Launcher::not_known(const TaskKey& key) {
  note(log_->unknown(key));
  clear_leaf(key);
}

// What a task has left running must not outlive it: the next task of the slice gets an empty leaf.
void Launcher::clear_leaf(const TaskKey& key) {
  clearing_.emplace(key, now_ms());
  const auto* task = log_->find(key);
  const std::string slice = task ? slice_word(task->slice) : std::string(), name = key_word(key);
  if (!task || hooks::mutant("launcher.no_kill_leftovers") || isolator_->detach(slice, name)) {
    clearing_.erase(key);
  } else if (isolator_->kill(slice, name) && isolator_->detach(slice, name)) {
    clearing_.erase(key);
  } else {
    ask_for_work();
    return;
  }
  killing_.erase(key);
  // Its own end it took along, whatever that was; not so when it was killed.
  if (task && !(task->how == ExitLog::How::kEnded && WIFEXITED(task->wait_status)))
    if (const std::string uri = scratch_->mark_of(name); !uri.empty()) sweep_guests(uri);
  scratch_->drop(name);
  if (task) cleared(key, *task);
}

// The next one of the slice first: everything else can wait.
void Launcher::cleared(const TaskKey& key, const ExitLog::Task& task) {
  const SliceId slice = task.slice;
  turns_.leave(slice, key);
  if (leased_.erase(key) + fenced_.erase(key) != 0) next_lease_due();
  if (!stopping_) next_in_turn(slice);
  if (const auto* same = log_->find(key)) tell(key, *same);
}

void Launcher::ask_for_work() {
  const bool any = !clearing_.empty() || !killing_.empty() || !releasing_.empty() || recovering_;
  work_ms_ = any ? (work_ms_ < 0 ? kWorkLeastMs : work_ms_) : -1;
}

void Launcher::work() {
  const std::size_t before = clearing_.size() + killing_.size() + releasing_.size() + (recovering_ ? 1 : 0);
  for (auto it = killing_.begin(); it != killing_.end();) {
    const auto* task = log_->find(*it);
    const bool gone = !task || isolator_->kill(slice_word(task->slice), key_word(*it));
    it = gone ? killing_.erase(it) : std::next(it);
  }
  std::vector<TaskKey> keys;
  for (const auto& [key, since] : clearing_) keys.push_back(key);
  for (const auto& key : keys) {
    const std::int64_t since = clearing_[key];
    clear_leaf(key);
    const auto* task = log_->find(key);
    if (task && clearing_.count(key) != 0 && now_ms() - since > kLeftoverMs) {
      clearing_.erase(key);
      note(Error(Code::kBusy, to_text(key) + ": a process that it left cannot be killed; its slice stays until it ends"));
      cleared(key, *task);
    }
  }
  std::set<SliceId> busy;
  for (const auto& [key, task] : log_->tasks()) {
    if (releasing_.count(task.slice) == 0) continue;
    if (task.how != ExitLog::How::kRunning && clearing_.count(key) == 0) continue;
    (void)isolator_->kill(slice_word(task.slice), key_word(key));
    busy.insert(task.slice);
  }
  for (auto it = releasing_.begin(); it != releasing_.end();) {
    if (busy.count(it->first) != 0 || !isolator_->release(slice_word(it->first))) {
      ++it;
      continue;
    }
    if (it->second) send(Released{it->first});
    it = releasing_.erase(it);
  }
  if (recovering_) {
    std::vector<std::string> keep;
    for (const auto& slice : known_) keep.push_back(slice_word(slice));
    for (const auto& [slice, told] : releasing_) keep.push_back(slice_word(slice));
    recovering_ = !isolator_->recover(keep);
  }
  const std::size_t after = clearing_.size() + killing_.size() + releasing_.size() + (recovering_ ? 1 : 0);
  work_ms_ = after == 0 ? -1 : after < before || work_ms_ < 0 ? kWorkLeastMs : std::min(work_ms_ * 2, kWorkMostMs);
}

// The orderly end: nothing of ours stays.
void Launcher::stop() {
  stopping_ = true;
  turns_.forget_waiting();
  for (const auto& slice : known_) releasing_.emplace(slice, false);
  for (const auto& [key, task] : log_->tasks()) releasing_.emplace(task.slice, false);
  known_.clear();
  recovering_ = true;
  work();
}

}  // namespace bourse::launcher
