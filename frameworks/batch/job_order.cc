#include "frameworks/batch/job_order.h"

#include <algorithm>
#include <utility>

#include "common/core/hooks.h"

namespace bourse::batch {
namespace {

std::uint32_t take_handle(std::vector<std::uint32_t>& free, std::size_t used) {
  if (free.empty()) return static_cast<std::uint32_t>(used);
  const std::uint32_t handle = free.back();
  free.pop_back();
  return handle;
}

// Users sort by their numbers, so that equal shares fall the same way everywhere.
std::string name_of(std::int64_t user) {
  if (user < 0) return "-";
  std::string name = std::to_string(user);
  name.insert(0, 10 - std::min<std::size_t>(name.size(), 10), '0');
  return name;
}

Usage usage_of_all(const Need& need) {
  const Usage one = usage_of(need.shape);
  Usage all;
  all.cpus = one.cpus * need.nodes;
  all.mem = one.mem * need.nodes;
  for (const auto& [kind, amount] : one.devices.items()) all.devices.set(kind, amount * need.nodes);
  return all;
}

}  // namespace

Result<std::unique_ptr<JobOrder>> JobOrder::make(const policy::Choice& choice, policy::HostOptions options) {
  return std::unique_ptr<JobOrder>(new JobOrder(BOURSE_TRY(policy::Host::make(choice, std::move(options)))));
}

void JobOrder::total(const Usage& total) { host_->total(total); }

JobOrder::User& JobOrder::user(std::int64_t number) {
  const auto [it, fresh] = users_.try_emplace(number);
  if (fresh) {
    it->second.handle = take_handle(free_users_, users_.size() - 1);
    host_->account({.handle = it->second.handle, .name = name_of(number)});
    ++idle_users_;
  }
  if (it->second.jobs++ == 0) --idle_users_;
  return it->second;
}

void JobOrder::left(std::int64_t number) {
  if (--users_.at(number).jobs > 0) return;
  if (++idle_users_ <= kIdleUsersMax) return;
  for (auto it = users_.begin(); it != users_.end();) {
    if (it->second.jobs > 0) {
      ++it;
      continue;
    }
    host_->account_removed(it->second.handle);
    free_users_.push_back(it->second.handle);
    it = users_.erase(it);
  }
  idle_users_ = 0;
}

void JobOrder::tell(std::uint32_t handle, const Waiting& job) {
  host_->claimant({.handle = handle,
                   .account = users_.at(job.user).handle,
                   .gang = std::max(job.need->nodes, 1U),
                   .priority = job.priority,
                   .order = job.number,
                   .units = job.tasks * job.need->nodes,
                   .submitted = job.submitted,
                   .limit = job.limit,
                   .shape = &job.need->shape});
}

std::uint32_t JobOrder::add(const Waiting& job) {
  const std::uint32_t handle = take_handle(free_, claims_.size());
  if (handle == claims_.size()) claims_.emplace_back();
  claims_[handle] = {job.user, job.number, 0, true};
  user(job.user);
  tell(handle, job);
  return handle;
}

void JobOrder::change(std::uint32_t handle, const Waiting& job) {
  if (claims_[handle].user != job.user) {
    user(job.user);
    left(std::exchange(claims_[handle].user, job.user));
  }
  claims_[handle].number = job.number;
  tell(handle, job);
}

void JobOrder::remove(std::uint32_t handle) {
  host_->claimant_removed(handle);
  free_.push_back(handle);
  claims_[handle].waits = false;
  if (claims_[handle].given_in == walk_) --given_;
  left(claims_[handle].user);
}

void JobOrder::begin(Duration now) {
  ++walk_;
  given_ = 0;
  passed_by_known_ = false;
  host_->begin(now);
}

std::uint32_t JobOrder::next() {
  const auto give = [this](std::uint32_t handle) {
    if (std::exchange(claims_[handle].given_in, walk_) != walk_) ++given_;
    return handle;
  };
  if (!passed_by_known_) {
    if (const auto next = host_->next()) return give(next->claimant);
    passed_by_known_ = true;
    passed_by_.clear();
    if (given_ < host_->wanting()) {
      for (std::uint32_t h = 0; h < claims_.size(); ++h)
        if (claims_[h].waits && claims_[h].given_in != walk_) passed_by_.push_back(h);
      std::sort(passed_by_.begin(), passed_by_.end(),
                [this](std::uint32_t a, std::uint32_t b) { return claims_[a].number > claims_[b].number; });
    }
  }
  while (!passed_by_.empty()) {
    const std::uint32_t handle = passed_by_.back();
    passed_by_.pop_back();
    if (claims_[handle].waits && claims_[handle].given_in != walk_) return give(handle);
  }
  return policy::kNone;
}

void JobOrder::started(std::uint64_t run, std::uint32_t handle, const Waiting& job, Duration now) {
  ended(run, now);
  Run& entry = runs_[run];
  entry.user = job.user, entry.submitted = job.submitted, entry.started = now, entry.limit = job.limit;
  entry.nodes = std::max(job.need->nodes, 1U), entry.used = usage_of_all(*job.need);
  entry.shape = is_plain(job.need->shape) ? nullptr : std::make_unique<Shape>(job.need->shape);
  User& owner = user(job.user);
  owner.used.add(entry.used);
  if (!hooks::mutant("batch.order_forgets_use")) host_->account_used(owner.handle, owner.used);
  feedback(BOURSE_STARTED, handle, entry, now);
}

void JobOrder::ended(std::uint64_t run, Duration now) {
  const auto it = runs_.find(run);
  if (it == runs_.end()) return;
  const Run entry = std::move(it->second);
  runs_.erase(it);
  User& owner = users_.at(entry.user);
  owner.used.subtract(entry.used);
  host_->account_used(owner.handle, owner.used);
  feedback(BOURSE_ENDED, policy::kNone, entry, now);
  left(entry.user);
}

void JobOrder::feedback(std::uint32_t event, std::uint32_t handle, const Run& run, Duration now) {
  if (!host_->wants_feedback()) return;
  Shape plain;
  plain.cpus = MilliCpus(run.used.cpus / run.nodes), plain.mem = Bytes(run.used.mem / run.nodes);
  host_->feedback({.event = event,
                   .claimant = handle,
                   .account = users_.at(run.user).handle,
                   .now = now,
                   .wait = run.started - run.submitted,
                   .run = event == BOURSE_ENDED ? now - run.started : Duration(0),
                   .limit = run.limit,
                   .units = run.nodes,
                   .shape = run.shape ? run.shape.get() : &plain});
}

}  // namespace bourse::batch
