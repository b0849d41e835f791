// A reservation for everybody who waits: conservative backfilling with compression.
#include <algorithm>
#include <utility>

#include "common/core/hooks.h"
#include "frameworks/batch/planner.h"

namespace bourse::batch {

// Something runs beyond its end: what was promised on its nodes cannot be kept.
bool Planner::overrun(Duration now) const {
  const auto first = ends_.begin();
  return first != ends_.end() && first->first.first <= now;
}

void Planner::rebuild_profile(Duration now) {
  profile_.reset(now, nodes_);
  // What runs comes back at its end; what does not add up any more (an agent that shrank) is left out.
  std::vector<PlannedNode> at_the_end = nodes_;
  for (auto& [key, run] : ends_) {
    run->until = profile_.on_grid(std::max(key.first, now + microseconds(1)));
    std::vector<Holding> given;
    for (const Holding& holding : run->holdings)
      if (at_the_end[holding.node].free.add(holding.amount)) given.push_back(holding);
    profile_.release_at(run->until, given);
  }
  profile_valid_ = true;
  // Promises are kept where they still hold; in order of their times, so that the earlier wins.
  std::vector<std::pair<Duration, std::uint64_t>> order;
  for (const auto& [job, promise] : promises_) order.emplace_back(promise.at, job);
  std::sort(order.begin(), order.end());
  for (const auto& [at, job] : order) {
    const auto it = promises_.find(job);
    if (!profile_.take(it->second.at, it->second.end, it->second.holdings)) promises_.erase(it);
  }
}

void Planner::unpromise(std::unordered_map<std::uint64_t, Promise>::iterator it) {
  if (profile_valid_) profile_.give(it->second.at, it->second.end, it->second.holdings);
  promises_.erase(it);
}

void Planner::forget_promises() {
  promises_.clear();
  profile_valid_ = false;
}

bool Planner::promises_begin(Duration now) {
  ++round_;
  bool again = std::exchange(freed_, false);
  if (profile_valid_) profile_.advance(now);
  // Who was to start and could not yet, since an offer takes its time, runs into those behind him: all move on together.
  const bool late = next_promise() < now && !hooks::mutant("batch.late_promises_stay");
  const bool all_anew = late || overrun(now);
  if (all_anew) promises_.clear();
  if (!profile_valid_ || all_anew) {
    rebuild_profile(now);
    again = true;
  }
  return again && !hooks::mutant("batch.no_compression");
}

Duration Planner::promise(Duration now, const Candidate& job, bool again) {
  if (!profile_valid_) rebuild_profile(now);  // somebody started since
  auto it = promises_.find(job.job);
  if (it != promises_.end()) {
    it->second.round = round_;
    if (!again && it->second.at > now) return it->second.at;
    unpromise(it);
  }
  Profile::Slot slot = profile_.find(*job.need, job.limit, nodes_);
  if (slot.at == kNoLimit) return kNoLimit;
  Promise promise{slot.at, end_of(slot.at, job.limit), std::move(slot.holdings), round_};
  if (const Duration later = profile_.on_grid(promise.end); profile_.holds(promise.at, later, promise.holdings))
    promise.end = later;
  const bool taken = profile_.take(promise.at, promise.end, promise.holdings);
  BOURSE_ASSERT(taken, std::to_string(job.job));
  const Duration at = promise.at;
  promises_.insert_or_assign(job.job, std::move(promise));
  return at;
}

bool Planner::breaks_no_promise(std::uint64_t job, const std::vector<Holding>& holdings, Duration now, Duration end) {
  if (!profile_valid_) rebuild_profile(now);
  auto it = promises_.find(job);
  if (it == promises_.end()) return profile_.holds(now, end, holdings);
  profile_.give(it->second.at, it->second.end, it->second.holdings);
  const bool holds = profile_.holds(now, end, holdings);
  const bool back = profile_.take(it->second.at, it->second.end, it->second.holdings);
  BOURSE_ASSERT(back, std::to_string(job));
  return holds;
}

void Planner::promises_end() {
  for (auto it = promises_.begin(); it != promises_.end();) {
    auto next = std::next(it);
    if (it->second.round != round_) unpromise(it);
    it = next;
  }
}

Duration Planner::next_promise() const {
  Duration first = kNoLimit;
  for (const auto& [job, promise] : promises_) first = std::min(first, promise.at);
  return first;
}

void Planner::pass_conservative(Duration now, Source& queue, const PassOptions& options) {
  const bool again = promises_begin(now);
  bool waiting = false;
  for (std::size_t looked = 0; looked < options.depth; ++looked) {
    Candidate* const next = queue.next();
    if (next == nullptr) break;
    Candidate& job = *next;
    ++operations_;
    const Duration at = promise(now, job, again);
    if (at > now) {
      waiting = true;
      job.verdict = Verdict::kReserved;
      if (known_refused(*job.need, false)) {
        job.verdict = Verdict::kNoRoom;
      } else if (place(*job.need).empty()) {
        note_refused(*job.need, false);
        job.verdict = Verdict::kNoRoom;
      }
      continue;
    }
    // Its reservation becomes the run's place in the profile.
    auto it = promises_.find(job.job);
    std::vector<Holding> holdings = std::move(it->second.holdings);
    const Duration end = it->second.end;
    promises_.erase(it);
    for (const Holding& holding : holdings) {
      const bool taken = static_cast<bool>(nodes_[holding.node].free.subtract(holding.amount));
      BOURSE_ASSERT(taken, std::to_string(job.job));
      reopen(holding.node);
    }
    begin_run(job.job, end, holdings);
    job.started = true;
    queue.started({job.job, std::move(holdings), waiting});
  }
  promises_end();
}

}  // namespace bourse::batch
