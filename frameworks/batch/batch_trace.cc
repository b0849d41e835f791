// What becomes of jobs, as spans: one trace a job, or an array.
//
//   array              of an array: from its submission until its last task has ended
//     job              from the submission until its end is on record
//       submit         until it is on disk and its number is told
//       queue          from then, or from when it was queued again, until it is given its place
//       offer          the offer out of which its place comes, since it came; not where a slice is used again
//       accept         from taking it until the agent has made the slice
//       task           from its launch until its end: what the task itself gets as TRACEPARENT
//         start        from its launch until it runs
//       end            from its end until that is on record
//
// A job that was submitted under a trace of its user's is a part of that. Ids come from the job's number and when it was submitted, so
// that a later life of this process tells the rest of the same trace.
#include <algorithm>

#include "common/core/hooks.h"
#include "frameworks/batch/batch.h"
#include "frameworks/batch/ending.h"

namespace bourse::batch {
namespace {

std::string root_name(const Job& job) { return std::to_string(job.id.value) + "/" + std::to_string(job.submitted.count()); }

Span make(const TraceContext& context, std::uint64_t parent, std::string name, Duration start, Duration end) {
  Span span;
  span.context = context, span.parent = parent;
  span.name = std::move(name);
  span.start = start, span.end = end;
  return span;
}

// A span below another one. A trace of a user's has many jobs, all with the same parts: whose part it is counts.
TraceContext part_of(const TraceContext& over, const std::string& what) {
  return span_of(over, hooks::mutant("batch.trace_parts_alike") ? what : what + " of " + span_id_text(over.span));
}

Span below(const TraceContext& over, std::string name, const std::string& about, Duration start, Duration end) {
  const TraceContext context = part_of(over, name + " " + about);
  return make(context, over.span, std::move(name), start, end);
}

std::int64_t number(std::uint64_t value) { return static_cast<std::int64_t>(value); }

// The trace that a job was submitted under, as its environment has it.
std::optional<TraceContext> submitters(const std::vector<std::string>& env) {
  constexpr std::string_view kVariable = "TRACEPARENT=";
  for (const std::string& variable : env)
    if (variable.starts_with(kVariable)) return parse_traceparent(std::string_view(variable).substr(kVariable.size()));
  return std::nullopt;
}

}  // namespace

// Of the job as a whole. Another one for each submission, the same one each time it is asked for.
TraceContext Batch::job_trace(const Job& job, std::optional<TraceContext>* submitter) const {
  const std::string name = options_.framework + "/" + root_name(job);
  const auto over = submitters(jobs_.full_spec(job).env);
  if (submitter != nullptr) *submitter = over;
  if (over && !hooks::mutant("batch.trace_forgets_submitter")) return span_of(*over, "job " + name);
  TraceContext own = new_trace(name);
  own.sampled = is_sampled(own, trace_permille_);
  return own;
}

TraceContext Batch::rank_trace(const Job& job, std::uint64_t rank, const TraceContext& whole) const {
  return job.array ? span_of(whole, "task " + root_name(job) + "/" + std::to_string(rank)) : whole;
}

std::string Batch::accept_trace(const Job& job, std::uint64_t rank) const {
  const TraceContext own = rank_trace(job, rank, job_trace(job));
  return to_traceparent(part_of(own, "accept " + std::to_string(attempt_of(job, rank))));
}

void Batch::trace_offer(OfferId offer) {
  if (offer_times_.size() >= kTraceTimesMax)  // those of the past: an offer that is used or ended is not told of again
    std::erase_if(offer_times_, [this](const auto& one) { return !alloc_.offers().contains(one.first); });
  if (offer_times_.size() < kTraceTimesMax) offer_times_.emplace(offer, now_.wall);
}

void Batch::trace_submitted(const Job& job) {
  const TraceContext whole = job_trace(job);
  if (whole.sampled) out_->span(below(whole, "submit", "", job.submitted, now_.wall));
}

// It is about to be launched. What its task is told.
std::string Batch::trace_launch(const Job& job, Run& run) {
  auto trace = std::make_unique<RunTrace>();
  trace->job = rank_trace(job, run.rank, job_trace(job));
  trace->task = part_of(trace->job, "task " + std::to_string(run.attempt));
  const auto again = requeue_times_.find(job.number(run.rank));
  trace->queued = again == requeue_times_.end() ? job.submitted : again->second;
  if (again != requeue_times_.end()) requeue_times_.erase(again);
  trace->decided = now_.wall;
  if (const Slice* slice = run.slices.empty() ? nullptr : alloc_.find(run.slices.front()); slice != nullptr) {
    if (const auto it = offer_times_.find(slice->offer); slice->offer.value != 0 && it != offer_times_.end())
      trace->offered = it->second;
    if (slice->ready) trace->ready = now_.wall;
  }
  const std::string told = to_traceparent(trace->task);
  run.trace = std::move(trace);
  return told;
}

// How it came to run, once that is known; `failure`: why it did not.
void Batch::trace_way(Run& run, Duration started, const std::string& failure) {
  if (!run.trace || run.trace->told) return;
  RunTrace& t = *run.trace;
  t.told = true;
  if (!t.job.sampled) return;
  const std::string attempt = std::to_string(run.attempt);
  const std::string agent = run.agents.empty() ? "" : run.agents.front().str();
  Span queue = below(t.job, "queue", attempt, t.queued, t.decided);
  queue.attributes = {{"bourse.attempt", number(run.attempt)}};
  out_->span(std::move(queue));
  if (t.offered > Duration{0}) {
    Span offer = below(t.job, "offer", attempt, t.offered, t.decided);
    offer.attributes = {{"bourse.agent", agent}};
    out_->span(std::move(offer));
    Span accept = below(t.job, "accept", attempt, t.decided, t.ready > Duration{0} ? t.ready : started);
    accept.attributes = {{"bourse.agent", agent}, {"bourse.nodes", number(run.agents.size())}};
    out_->span(std::move(accept));
  }
  Span start = below(t.task, "start", attempt, t.decided, started);
  start.attributes = {{"bourse.agent", agent}, {"bourse.task", run.task.str()}};
  start.failed = !failure.empty(), start.message = failure;
  out_->span(std::move(start));
}

void Batch::trace_over(const Job& job, Run& run, Duration started, Duration ended, const std::string& failure) {
  started = std::min(started, ended);  // as two clocks have it, of something very short
  if (!run.trace) {                    // it was launched by an earlier life, which has told how it started, if it got so far
    run.trace = std::make_unique<RunTrace>();
    run.trace->job = rank_trace(job, run.rank, job_trace(job));
    run.trace->task = part_of(run.trace->job, "task " + std::to_string(run.attempt));
    run.trace->decided = started > Duration{0} ? started : ended;
    run.trace->told = true;
  }
  trace_way(run, started > Duration{0} ? started : ended, started > Duration{0} ? "" : failure);
  const RunTrace& t = *run.trace;
  if (!t.job.sampled) return;
  Span task = make(t.task, t.job.span, "task", t.decided, ended);
  task.attributes = {{"bourse.task", run.task.str()},
                     {"bourse.agent", run.agents.empty() ? std::string() : run.agents.front().str()},
                     {"bourse.attempt", number(run.attempt)}};
  task.failed = !failure.empty(), task.message = failure;
  out_->span(std::move(task));
}

void Batch::trace_requeue(const Job& job, Run& run, const std::string& why) {
  trace_over(job, run, run.started, now_.wall, why);
  if (requeue_times_.size() < kTraceTimesMax) requeue_times_[job.number(run.rank)] = now_.wall;
}

// Its end is on record.
void Batch::trace_ended(const Job& job, const Ended& note) {
  const JobInfo& info = note.info;
  std::optional<TraceContext> over;
  const TraceContext whole = job_trace(job, &over);
  if (!whole.sampled) return;
  const std::uint64_t parent = over ? over->span : 0;
  const auto describe = [&](Span& span) {
    span.attributes = {{"bourse.cluster", cluster_},
                       {"bourse.framework", options_.framework},
                       {"bourse.job.id", display_id(info)},
                       {"bourse.job.name", info.name},
                       {"bourse.job.state", std::string(state_name(info.state))},
                       {"bourse.user", info.user}};
    if (!info.node_list.empty()) span.attributes.emplace_back("bourse.hosts", info.node_list);
    if (!note.ok) span.failed = true, span.message = how_it_ended(info).front();
  };
  // Array tasks that were cancelled before they started are not told of one by one: there may be millions.
  if (note.first == note.last || !job.array) {
    const TraceContext own = rank_trace(job, note.first, whole);
    out_->span(below(own, "end", "", std::max(info.ended, info.submitted), now_.wall));
    Span span = make(own, job.array ? whole.span : parent, "job", job.submitted, now_.wall);
    describe(span);
    span.attributes.emplace_back("bourse.exit_code", std::int64_t{info.exit_code});
    if (info.exit_signal != 0) span.attributes.emplace_back("bourse.exit_signal", std::int64_t{info.exit_signal});
    span.attributes.emplace_back("bourse.restarts", number(info.restarts));
    out_->span(std::move(span));
  }
  if (!job.array || !note.whole) return;
  Span span = make(whole, parent, "array", job.submitted, now_.wall);
  span.attributes = {{"bourse.cluster", cluster_},
                     {"bourse.framework", options_.framework},
                     {"bourse.job.id", std::to_string(job.id.value)},
                     {"bourse.job.name", info.name},
                     {"bourse.job.tasks", number(job.array->size())},
                     {"bourse.user", info.user}};
  span.failed = !job.array->all_ok();
  if (span.failed) span.message = "some of its tasks failed";
  out_->span(std::move(span));
}

}  // namespace bourse::batch
