// How long tasks with fence = lease may run on, without the agent. See "Unreachable is not terminal".
//
// Whoever gave such a task away after the leader's lease must be sure that it does not run here any more. The agent tells the launcher until
// when it may, each time it has heard the leader; the launcher ends what has a lease when that moment passes, whether the agent is dead,
// stopped or cut off. The keeper sees to it that the launcher does (keeper.h). Only both of them stopped at once let a lease pass.
//
// One page, STATE/lease, mapped by both: a launcher that follows another knows what that one knew. CLOCK_BOOTTIME in ms, so the time that
// a host sleeps counts. Where the file cannot be made (a full disk) the launcher works on by itself.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/core/result.h"
#include "common/core/task.h"

namespace bourse::launcher {

constexpr std::string_view kLeaseOver = "the leader was not heard for the lease";

// SIGTERM to SIGKILL of one that ends with its lease; -1: it has none.
std::int64_t lease_grace_ms(const TaskSpec& spec);

class LeasePage {
 public:
  LeasePage() = default;
  ~LeasePage();
  LeasePage(const LeasePage&) = delete;
  LeasePage& operator=(const LeasePage&) = delete;
  Result<> open(const std::string& state_dir);

  // Until when what has a lease may run; 0: nothing is known, and it may.
  [[nodiscard]] std::int64_t until() const { return page_->until_ms.load(std::memory_order_relaxed); }
  void set_until(std::int64_t ms) { page_->until_ms.store(ms, std::memory_order_relaxed); }
  // When the launcher has to do something about one; 0: it has not.
  [[nodiscard]] std::int64_t due() const { return page_->due_ms.load(std::memory_order_relaxed); }
  void set_due(std::int64_t ms) { page_->due_ms.store(ms, std::memory_order_relaxed); }
  // The launcher that has taken over, and looks at both.
  [[nodiscard]] std::int64_t server() const { return page_->server.load(std::memory_order_relaxed); }
  void set_server(std::int64_t pid) { page_->server.store(pid, std::memory_order_relaxed); }

 private:
  struct Page {
    std::atomic<std::int64_t> until_ms{0}, due_ms{0}, server{0};
  };
  static_assert(std::atomic<std::int64_t>::is_always_lock_free);
  Page own_;
  Page* page_ = &own_;
};

}  // namespace bourse::launcher
