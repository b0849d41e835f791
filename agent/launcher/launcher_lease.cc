// The launcher's part of leases: see lease.h.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "agent/launcher/launcher.h"
#include "agent/launcher/proc.h"
#include "common/core/hooks.h"

namespace bourse::launcher {

namespace {

constexpr std::int64_t kNewMs = 1'000;  // a lease that passed while there was no launcher is not over before it is so old

}  // namespace

void Launcher::handle(const Lease& lease) {
  lease_.set_until(lease.until_ms);
  next_lease_due();
}

void Launcher::leased(const TaskKey& key, const ExitLog::Task& task) {
  if (task.lease_grace_ms < 0) return;
  if (task.fenced) {
    fenced_[key] = now_ms() + task.lease_grace_ms;  // by an earlier launcher, at a time that we do not know
  } else {
    leased_.insert(key);
  }
  next_lease_due();
}

void Launcher::end_leased() {
  const std::int64_t now = now_ms(), until = lease_until();
  const auto running = [this](const TaskKey& key) {
    const auto* task = log_->find(key);
    return task != nullptr && task->how == ExitLog::How::kRunning ? task : nullptr;
  };
  if (until != 0 && now >= until && !hooks::mutant("launcher.no_fence"))
    for (const TaskKey& key : std::exchange(leased_, {})) {
      const auto* task = running(key);
      if (task == nullptr) continue;
      const std::int64_t grace = task->lease_grace_ms;
      note(log_->fenced(key));
      note(Error(Code::kGone, "task " + to_text(key) + " is ended: " + std::string(kLeaseOver)));
      if (grace > 0) handle(Signal{key, SIGTERM, true});
      fenced_[key] = until + grace;
    }
  std::vector<TaskKey> due;
  for (const auto& [key, kill_at] : fenced_)
    if (now >= kill_at) due.push_back(key);
  for (const TaskKey& key : due) {
    fenced_.erase(key);
    if (running(key) != nullptr) handle(Signal{key, SIGKILL, true});
  }
  next_lease_due();
}

void Launcher::next_lease_due() {
  std::int64_t due = leased_.empty() || hooks::mutant("launcher.no_fence") ? 0 : lease_until();
  for (const auto& [key, kill_at] : fenced_) due = due == 0 ? kill_at : std::min(due, kill_at);
  const bool first = lease_due_ms_ == 0 && due != 0;
  lease_due_ms_ = due;
  lease_.set_due(due);
  if (first && getppid() == keeper_) kill(keeper_, SIGHUP);  // it sleeps while there is nothing to mind
}

// An agent that was there all the time gets a moment to say so to a new launcher.
std::int64_t Launcher::lease_until() const {
  const std::int64_t until = lease_.until();
  return until == 0 ? 0 : std::max(until, opened_ms_ + kNewMs);
}

}  // namespace bourse::launcher
