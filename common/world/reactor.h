// The one event loop of every Bourse process: epoll with timers, signals and child exits in it. Not thread-safe, but for
// wake(), which any thread may call. Asleep unless something happens: there is no tick.
#pragma once

#include <csignal>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/core/result.h"
#include "common/core/time.h"

namespace bourse {

Time real_time();  // CLOCK_BOOTTIME and CLOCK_REALTIME: the only place that reads a clock for actors

class Reactor {
 public:
  using WatchId = std::uint64_t;
  using TimerId = std::uint64_t;

  Reactor();
  ~Reactor();
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  // Level-triggered. events: EPOLLIN etc. The callback may unwatch itself or anything else.
  WatchId watch(int fd, std::uint32_t events, std::function<void(std::uint32_t events)> callback);
  void rearm(WatchId id, std::uint32_t events);
  void unwatch(WatchId id);

  TimerId after(Duration delay, std::function<void()> callback);  // once
  void cancel(TimerId id);

  void on_signal(int signal, std::function<void()> callback);  // blocks it in this thread and takes it by signalfd
  // By pidfd, then reaped; pid must be our child, not waited for. wait_status is -1 where somebody else has reaped it.
  WatchId on_exit(pid_t pid, std::function<void(int wait_status)> callback);
  void defer(std::function<void()> callback);  // runs before the loop next sleeps
  void wake(std::function<void()> callback);   // thread-safe defer

  void run();  // until stop()
  void stop();
  bool turn(Duration max_wait);  // one round, without sleep where deferred work was done in it; false when stopped

  // For an owner with a loop of its own (the C API): after settle(), fd() is readable, level-triggered, whenever turn(0) would do
  // something. Call settle() each time before waiting elsewhere.
  [[nodiscard]] int fd() const;
  void settle();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bourse
