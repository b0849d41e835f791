// Short jobs that follow one another in a slice.
//
// A message to the agent and back takes longer than such a job. So while a kept slice is busy, the first jobs of the queue are sent to
// wait there for their turn (TaskSpec.in_turn), as many as amount to options.launch_ahead by the pace of jobs of their kind. The agent's
// launcher starts each when the one before has ended. Only the head of the queue is ever sent: nobody is passed. What does not have
// its turn for long, because a long job came to be before it, is taken back and queued again under its next number; that once. Its
// amount is the slice's, so the planner hears of it when it has its turn.
#include <algorithm>

#include "common/core/hooks.h"
#include "frameworks/batch/batch.h"

namespace bourse::batch {
namespace {

constexpr std::int64_t kPatience = 3;  // times launch_ahead
constexpr Duration kShortest{500};     // no job is taken to be shorter

Duration plus(Duration a, Duration b) { return b > kNoLimit - a ? kNoLimit : a + b; }

}  // namespace

void Batch::note_pace(const SliceKind& kind, Duration ran) {
  ran = std::max(ran, kShortest);
  const auto it = paces_.find(kind);
  if (it == paces_.end()) {
    if (paces_.size() < kPacesMax) paces_.emplace(kind, ran);
  } else {
    it->second = ran > it->second * 4 ? ran : (it->second * 3 + ran) / 4;  // a long one counts at once
  }
}

bool Batch::start_behind(Job& job, std::uint64_t rank, const SliceKind& kind) {
  if (layouts_.at(job.layout).need.nodes != 1 || options_.slice_idle == Duration{0} || !connected_) return false;
  if (attempt_of(job, rank) != 1 || job.doubt) return false;  // taken back once is enough
  const auto pace = paces_.find(kind);
  if (pace == paces_.end()) return false;
  const auto most = static_cast<std::size_t>(options_.launch_ahead / pace->second);
  Slice* slice = alloc_.to_follow(kind, std::min(most, kAheadMax));
  if (slice == nullptr || alloc_.closes_at_all(slice->agent)) return false;  // nobody knows when it would have its turn
  const std::uint64_t number = job.number(rank);
  Run& run = note_run(job, rank, 1, false);
  run.slices = {slice->id};
  run.agents = {slice->agent};
  run.state = JobState::kConfiguring;
  run.follows = run.in_turn = true;
  alloc_.follow(*slice, number, now_.mono);
  if (!ahead_armed_) {
    ahead_armed_ = true;
    out_->arm({kAhead, 0, {}}, options_.launch_ahead * kPatience);
  }
  started(job, run, number);
  return true;
}

// When nothing is free the pass does not look at the queue at all.
void Batch::start_ahead() {
  order_.begin(now_);
  for (Job* job = order_.next(); job != nullptr; job = order_.next()) {
    const auto rank = next_rank(*job);
    if (!rank || !start_behind(*job, *rank, {layouts_.at(job->layout).key, job->spec->uid})) return;
    order_.again();
  }
}

void Batch::let_follow(Slice& slice) {
  alloc_.advance(slice, now_.mono);
  const auto it = runs_.find(slice.run);
  if (it == runs_.end()) return;
  Run& run = it->second;
  run.follows = false;
  run.end_at = plus(now_.mono, run.limit);
  alloc_.planner().start(slice.run, run.end_at, {{alloc_.node(slice.agent), slice.amount}});
  order_.started(slice.run, *jobs_.find(run.job), now_.wall);
}

// Those that have been started by now go on: the agent decides.
void Batch::take_back(Slice& slice) {
  for (const std::uint64_t number : slice.ahead) {
    const auto it = runs_.find(number);
    if (it == runs_.end() || it->second.cancelled) continue;
    Kill kill;
    kill.agent = slice.agent, kill.task = it->second.task;
    kill.unstarted_only = true;
    out_->session.push_back(KillTask{kill});
  }
}

void Batch::take_back_late() {
  const Duration patience = options_.launch_ahead * kPatience;
  ahead_armed_ = false;
  Duration next = kNoLimit;
  for (const SliceId& id : alloc_.followed()) {
    Slice& slice = *alloc_.find(id);
    const Duration due = slice.moved + patience;
    if (due <= now_.mono) {
      note_pace(slice.kind, patience);
      take_back(slice);
      slice.moved = now_.mono;  // a word that was lost is said again
    }
    next = std::min(next, std::max(due, now_.mono + milliseconds(1)));
  }
  if (next == kNoLimit) return;
  ahead_armed_ = true;
  out_->arm({kAhead, 0, {}}, std::max<Duration>(next - now_.mono, milliseconds(1)));
}

// After a restart, where a task is said to be: several may have been sent to one slice.
void Batch::find_slice(Run& run, std::uint64_t number, Slice slice) {
  run.slices.push_back(slice.id);
  Slice* there = alloc_.find(slice.id);
  if (there == nullptr) {
    alloc_.add(std::move(slice));
  } else if (there->run == 0) {
    if (there->foreign) there->kind = slice.kind, there->apart = slice.apart;
    alloc_.occupy(*there, number);
  } else if (there->run != number) {
    run.follows = run.in_turn = true;
    alloc_.follow(*there, number, now_.mono);
  }
}

}  // namespace bourse::batch
