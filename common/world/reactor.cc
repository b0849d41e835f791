#include "common/world/reactor.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <limits>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "common/core/hooks.h"

namespace bourse {
namespace {

constexpr int kEventsPerTurn = 128;
constexpr Duration kFarthest = std::chrono::hours(24 * 365 * 10);  // longer delays are cut to this, so sums cannot overflow

Duration read_clock(clockid_t clock) {
  timespec ts{};
  clock_gettime(clock, &ts);
  return seconds(ts.tv_sec) + microseconds(ts.tv_nsec / 1000);
}

std::string errno_state(const char* what) { return errno_error(what).text(); }

}  // namespace

Time real_time() { return {read_clock(CLOCK_BOOTTIME), read_clock(CLOCK_REALTIME)}; }

struct Reactor::Impl {
  struct Watch {
    int fd = -1;
    bool owned = false;  // a pidfd: closed with the watch
    std::function<void(std::uint32_t)> callback;
  };
  using Watches = std::unordered_map<WatchId, Watch>;
  using Timers = std::map<std::pair<Duration, TimerId>, std::function<void()>>;

  int epoll_fd = -1, timer_fd = -1, wake_fd = -1, signal_fd = -1;
  Watches watches;
  WatchId next_watch = 1;
  // A callback may unwatch itself: its node stays alive, at its place, until the turn ends.
  std::vector<Watches::node_type> graveyard;

  Timers timers;
  std::unordered_map<TimerId, Duration> deadlines;
  TimerId next_timer = 1;
  Duration armed = Duration::max();  // what timer_fd is set to; max: not set

  std::map<int, std::function<void()>> signals;
  sigset_t signal_set{};

  std::vector<std::function<void()>> deferred;
  std::mutex wake_mutex;
  std::vector<std::function<void()>> woken;  // guarded by wake_mutex
  bool stopped = false;
  bool settled = false;  // wake_fd is readable for the sake of `deferred` or of a timer that is due

  Impl() {
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    BOURSE_ASSERT(epoll_fd >= 0 && timer_fd >= 0 && wake_fd >= 0, errno_state("reactor descriptors"));
    sigemptyset(&signal_set);
    add(timer_fd, EPOLLIN, false, [this](std::uint32_t) {
      std::uint64_t count = 0;
      (void)!read(timer_fd, &count, sizeof count);
      armed = Duration::max();
    });
    add(wake_fd, EPOLLIN, false, [this](std::uint32_t) {
      std::uint64_t count = 0;
      (void)!read(wake_fd, &count, sizeof count);
      settled = false;
      run_woken();
    });
  }

  ~Impl() {
    for (auto& [id, watch] : watches)
      if (watch.owned) close(watch.fd);
    // Signals stay blocked: one that is pending now must not kill the process on its way out.
    for (int fd : {signal_fd, wake_fd, timer_fd, epoll_fd})
      if (fd >= 0) close(fd);
  }

  WatchId add(int fd, std::uint32_t events, bool owned, std::function<void(std::uint32_t)> callback) {
    const WatchId id = next_watch++;
    epoll_event event{};
    event.events = events;
    event.data.u64 = id;
    const int rc = epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event);
    BOURSE_ASSERT(rc == 0, errno_state("epoll_ctl add"));
    watches.emplace(id, Watch{fd, owned, std::move(callback)});
    return id;
  }

  void remove(WatchId id) {
    auto it = watches.find(id);
    if (it == watches.end()) return;
    // The owner may have closed the descriptor already, which took it out of the set.
    epoll_ctl(epoll_fd, EPOLL_CTL_DEL, it->second.fd, nullptr);
    if (it->second.owned) close(it->second.fd);
    graveyard.push_back(watches.extract(it));
  }

  // The timer descriptor is only ever moved nearer. Where the nearest timer was cancelled or moved away we wake once for
  // nothing at its old time: cheaper than a system call each time a heartbeat is put off.
  void set_timer() {
    if (timers.empty()) return;
    const Duration first = timers.begin()->first.first;
    if (first >= armed) return;
    armed = first;
    const auto us = std::max<Duration::rep>(first.count(), 1);
    itimerspec spec{};
    spec.it_value.tv_sec = static_cast<time_t>(us / 1'000'000);
    spec.it_value.tv_nsec = static_cast<long>(us % 1'000'000 * 1000);
    timerfd_settime(timer_fd, TFD_TIMER_ABSTIME, &spec, nullptr);
  }

  // Of zero length, mostly: cheaper to look once more than to have the kernel tell us.
  [[nodiscard]] bool timer_due() const { return !timers.empty() && timers.begin()->first.first <= read_clock(CLOCK_BOOTTIME); }

  void run_timers() {
    if (timers.empty()) return;
    const Duration now = read_clock(CLOCK_BOOTTIME);
    const TimerId fence = next_timer;  // timers made meanwhile wait for the next turn, so that sockets get theirs
    while (!stopped) {
      auto it = timers.begin();
      while (it != timers.end() && it->first.first <= now && it->first.second >= fence) ++it;
      if (it == timers.end() || it->first.first > now) return;
      auto callback = std::move(it->second);
      deadlines.erase(it->first.second);
      timers.erase(it);
      callback();
    }
  }

  void run_woken() {
    std::vector<std::function<void()>> batch;
    {
      std::lock_guard lock(wake_mutex);
      batch.swap(woken);
    }
    for (auto& callback : batch) callback();
  }

  void run_deferred() {
    if (deferred.empty()) return;
    std::vector<std::function<void()>> batch;
    batch.swap(deferred);
    for (auto& callback : batch) callback();
  }

  void take_signals() {
    signalfd_siginfo info{};
    while (read(signal_fd, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      auto it = signals.find(static_cast<int>(info.ssi_signo));
      if (it == signals.end()) continue;
      auto callback = it->second;  // a copy: it may replace itself
      callback();
    }
  }
};

Reactor::Reactor() : impl_(std::make_unique<Impl>()) {}
Reactor::~Reactor() = default;

Reactor::WatchId Reactor::watch(int fd, std::uint32_t events, std::function<void(std::uint32_t)> callback) {
  return impl_->add(fd, events, false, std::move(callback));
}

void Reactor::rearm(WatchId id, std::uint32_t events) {
  auto it = impl_->watches.find(id);
  BOURSE_ASSERT(it != impl_->watches.end(), "rearm of an unknown watch " + std::to_string(id));
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  const int rc = epoll_ctl(impl_->epoll_fd, EPOLL_CTL_MOD, it->second.fd, &event);
  BOURSE_ASSERT(rc == 0, errno_state("epoll_ctl mod"));
}

void Reactor::unwatch(WatchId id) { impl_->remove(id); }

Reactor::TimerId Reactor::after(Duration delay, std::function<void()> callback) {
  const Duration deadline = read_clock(CLOCK_BOOTTIME) + std::clamp(delay, Duration{0}, Duration{kFarthest});
  const TimerId id = impl_->next_timer++;
  impl_->timers.emplace(std::pair{deadline, id}, std::move(callback));
  impl_->deadlines.emplace(id, deadline);
  return id;
}

void Reactor::cancel(TimerId id) {
  auto it = impl_->deadlines.find(id);
  if (it == impl_->deadlines.end()) return;
  if (!hooks::mutant("reactor.cancel_timer")) impl_->timers.erase({it->second, id});
  impl_->deadlines.erase(it);
}

void Reactor::on_signal(int signal, std::function<void()> callback) {
  Impl& im = *impl_;
  sigaddset(&im.signal_set, signal);
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, signal);
  pthread_sigmask(SIG_BLOCK, &one, nullptr);
  im.signals[signal] = std::move(callback);
  const bool fresh = im.signal_fd < 0;
  im.signal_fd = signalfd(im.signal_fd, &im.signal_set, SFD_CLOEXEC | SFD_NONBLOCK);
  BOURSE_ASSERT(im.signal_fd >= 0, errno_state("signalfd"));
  if (fresh) im.add(im.signal_fd, EPOLLIN, false, [&im](std::uint32_t) { im.take_signals(); });
}

Reactor::WatchId Reactor::on_exit(pid_t pid, std::function<void(int wait_status)> callback) {
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  BOURSE_ASSERT(fd >= 0, errno_state("pidfd_open") + ", pid " + std::to_string(pid));
  const WatchId id = impl_->next_watch;  // the one that add() is about to take
  return impl_->add(fd, EPOLLIN, true, [this, id, pid, callback = std::move(callback)](std::uint32_t) {
    int status = -1;  // stays -1 where somebody else has reaped it
    pid_t got = 0;
    do got = waitpid(pid, &status, WNOHANG);
    while (got < 0 && errno == EINTR);
    if (got == 0) return;  // the leader is gone but a thread of it is being traced: readable again when it is over
    if (got < 0) status = -1;
    impl_->remove(id);
    callback(status);
  });
}

void Reactor::defer(std::function<void()> callback) { impl_->deferred.push_back(std::move(callback)); }

void Reactor::wake(std::function<void()> callback) {
  bool first = false;
  {
    std::lock_guard lock(impl_->wake_mutex);
    first = impl_->woken.empty();
    impl_->woken.push_back(std::move(callback));
  }
  if (!first) return;
  const std::uint64_t one = 1;
  (void)!write(impl_->wake_fd, &one, sizeof one);
}

void Reactor::stop() { impl_->stopped = true; }

void Reactor::run() {
  while (turn(Duration::max())) {}
}

int Reactor::fd() const { return impl_->epoll_fd; }

void Reactor::settle() {
  const bool due = impl_->timer_due();
  if (!due) impl_->set_timer();
  if ((impl_->deferred.empty() && !due) || std::exchange(impl_->settled, true)) return;
  const std::uint64_t one = 1;
  (void)!write(impl_->wake_fd, &one, sizeof one);
}

bool Reactor::turn(Duration max_wait) {
  Impl& im = *impl_;
  if (im.stopped) return false;
  // Who calls turn() waits for something, and what was deferred may have brought it: then this turn must not sleep.
  const bool busy = !im.deferred.empty();
  im.run_deferred();
  if (im.stopped) return false;
  int timeout = -1;
  if (busy) {
    timeout = 0;
  } else if (max_wait < std::chrono::hours(24)) {
    timeout = static_cast<int>((std::max(max_wait, Duration{0}).count() + 999) / 1000);
  }
  if (timeout != 0 && im.timer_due()) timeout = 0;
  if (timeout != 0) im.set_timer();
  std::array<epoll_event, kEventsPerTurn> events;  // NOLINT: filled by the kernel
  const int count = epoll_wait(im.epoll_fd, events.data(), kEventsPerTurn, timeout);
  BOURSE_ASSERT(count >= 0 || errno == EINTR, errno_state("epoll_wait"));
  for (int i = 0; i < count && !im.stopped; ++i) {
    auto it = im.watches.find(events[static_cast<std::size_t>(i)].data.u64);
    if (it != im.watches.end()) it->second.callback(events[static_cast<std::size_t>(i)].events);
  }
  im.run_timers();
  if (!im.stopped) im.run_deferred();
  im.graveyard.clear();
  return !im.stopped;
}

}  // namespace bourse
