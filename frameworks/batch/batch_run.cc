// When jobs start: qualification, the scheduling pass, launches, demand.
#include <algorithm>
#include <utility>

#include "common/core/hooks.h"
#include "common/core/vm_image.h"
#include "common/world/log.h"
#include "frameworks/batch/batch.h"

namespace bourse::batch {
namespace {

constexpr Duration kHoldOff = milliseconds(500);

Duration plus(Duration a, Duration b) { return b > kNoLimit - a ? kNoLimit : a + b; }

}  // namespace

std::uint32_t Batch::attempt_of(const Job& job, std::uint64_t rank) const {
  if (!job.array) return job.attempt;
  if (!job.retries) return 1;
  auto it = job.retries->find(rank);
  return it == job.retries->end() ? 1 : it->second.attempt;
}
std::uint32_t Batch::restarts_of(const Job& job, std::uint64_t rank) const {
  if (!job.array) return job.restarts;
  if (!job.retries) return 0;
  auto it = job.retries->find(rank);
  return it == job.retries->end() ? 0 : it->second.restarts;
}

// --- may it start? -------------------------------------------------------------------------------------------------

const Layout& Batch::layout_of(Job& job) {
  SpecEntry& entry = *job.spec;
  if (entry.layout_epoch == 0 || (entry.layout_epoch != alloc_.epoch() && layouts_.at(entry.layout).depends_on_agents)) {
    auto spec = decode_spec(entry.bytes);
    auto layout = spec ? lay_out(*spec, options_, alloc_.largest_cpus()) : Result<Layout>(spec.error());
    entry.layout = layouts_.intern(layout ? *std::move(layout) : Layout{});
    entry.layout_epoch = alloc_.epoch();
  }
  return layouts_.at(entry.layout);
}

// What does not depend on the date: delays of our own, and those behind a dependency.
void Batch::wake_at(JobId job, Duration mono) {
  mono_wakes_.emplace(mono, job);
  out_->arm({kWakeLater, 0, {}}, std::max(mono_wakes_.begin()->first - now_.mono, Duration{0}));
}

void Batch::wake_at_wall(JobId job, Duration wall) {
  wakes_.emplace(wall, job);
  // The wall clock may step: look again at least every minute.
  const Duration wait = std::clamp<Duration>(wakes_.begin()->first - now_.wall, Duration{0}, seconds(60));
  out_->arm({kWakeJobs, 0, {}}, wait);
}

void Batch::qualify(Job& job) {
  job.reason = Reason::kNone;
  std::uint64_t tasks = 0;
  const bool durable = job.durable || hooks::mutant("batch.start_before_durable");
  if (job.ending || !durable) {
  } else if (job.held_admin) {
    job.reason = Reason::kHeldAdmin;
  } else if (job.held) {
    job.reason = Reason::kHeldUser;
  } else if (job.suspect && recovering_) {
    job.reason = Reason::kNodeNotAvailable;
  } else if (job.spec->begin > now_.wall) {
    job.reason = Reason::kBeginTime;
    wake_at_wall(job.id, job.spec->begin);
  } else if (job.not_before > now_.mono) {
    job.reason = Reason::kBeginTime;
    wake_at(job.id, job.not_before);
  } else if (job.depend && !job.depend->items.items.empty()) {
    job.reason = Reason::kDependency;
  } else if (const Reason reserved = reservation_in_way(job); reserved != Reason::kNone) {
    job.reason = reserved;
  } else {
    tasks = job.array ? corresponding(job, job.array->startable()) : (job.state == JobState::kPending ? 1 : 0);
    if (job.ending) tasks = 0;
    if (job.array && tasks == 0 && job.array->waiting() > 0) job.reason = Reason::kDependency;
    if (job.array && job.array->at_limit()) job.reason = Reason::kArrayTaskLimit;
    if (tasks > 0) job.reason = Reason::kPriority;
    if (job.eligible.count() == 0) job.eligible = now_.wall;
  }
  if (tasks > 0 && job.queued == 0) {
    layout_of(job);
    job.layout = job.spec->layout;
  }
  if (tasks == job.queued) return;
  const bool grew = tasks > job.queued;
  queue_.put(job, tasks);
  if (!grew && !queue_.empty()) {
    if (alloc_.any_closes()) demand_soon();  // the shortest may have gone, and what is offered for it with it
    return;
  }
  dirty_ = true;
  demand_soon();
}

TargetFacts Batch::facts_of(const Dependency& d) const {
  TargetFacts out;
  auto it = jobs_.all().find(d.job);
  if (it == jobs_.all().end()) {
    if (auto ok = outcomes_.find(d.job.value)) out.known = out.started = out.ended = true, out.ok = *ok;
    return out;
  }
  const Job& job = it->second;
  out.known = true;
  auto from_run = [&](std::uint64_t number) {
    auto run = runs_.find(number);
    if (run == runs_.end()) return;
    out.started = run->second.started.count() > 0;
    out.started_at = run->second.started_mono;
  };
  if (!job.array) {
    from_run(job.id.value);
  } else if (d.index) {
    const auto rank = job.array->rank(*d.index);
    if (!rank) return {};
    out.ended = job.array->ended().contains(*rank);
    out.started = out.ended;
    out.ok = out.ended && !job.array->failed().contains(*rank);
    if (!out.ended) from_run(job.number(*rank));
  } else {
    out.started = job.array->waiting() == 0;
    for (std::uint64_t rank : job.array->running()) {
      auto run = runs_.find(job.number(rank));
      out.started = out.started && run != runs_.end() && run->second.started.count() > 0;
      if (run != runs_.end()) out.started_at = std::max(out.started_at, run->second.started_mono);
    }
  }
  return out;
}

Result<> Batch::add_dependencies(Job& job, const Dependencies& dependencies, bool kill_when_never) {
  if (dependencies.items.empty()) return {};
  auto state = std::make_unique<DependState>();
  state->items = dependencies;
  for (Dependency& d : state->items.items)  // a job that is no array has no tasks to compare
    if (d.type == DependencyType::kAfterCorr && !job.array) d.type = DependencyType::kAfterOk;
  state->kill_when_never = kill_when_never;
  for (const Dependency& d : state->items.items) {
    if (d.type == DependencyType::kSingleton) continue;
    if (!facts_of(d).known && !job.durable)
      return Error(Code::kInvalid, "dependency: there is no job " + std::to_string(d.job.value) +
                                       (d.index ? "_" + std::to_string(*d.index) : "") + ", or it ended too long ago to be known");
    if (d.type == DependencyType::kAfterCorr && !job.durable && jobs_.find(d.job) == nullptr &&
        !outcomes_.find(d.job.value).value_or(false))
      return Error(Code::kInvalid, "dependency: array " + std::to_string(d.job.value) +
                                       " has ended and some of it failed; aftercorr works while it is in the queue");
    if (d.job == job.id) return Error(Code::kInvalid, "dependency: a job cannot depend on itself");
    waiters_.emplace(d.job, job.id);
    state->waits.push_back(d.job);
    if (d.type == DependencyType::kAfterCorr) state->corr = d.job;
  }
  job.depend = std::move(state);
  if (job.durable) settle_depend(job);
  return {};
}

void Batch::settle_depend(Job& job) {
  if (!job.depend || job.ending || !job.durable) return;
  DependState& state = *job.depend;
  std::vector<Dependency> open;
  std::optional<Duration> wake;
  bool met = false, never = false;
  for (const Dependency& d : state.items.items) {
    if (d.type == DependencyType::kSingleton) {
      // Waits for the nearest earlier job of that name and user, then looks again.
      const SpecView mine = Jobs::view(job);
      const Job* blocker = nullptr;
      for (auto it = jobs_.all().find(job.id); it != jobs_.all().begin() && blocker == nullptr;) {
        --it;
        const SpecView other = Jobs::view(it->second);
        if (other.uid == mine.uid && other.name == mine.name) blocker = &it->second;
      }
      if (blocker == nullptr) {
        met = true;
        continue;
      }
      open.push_back(d);
      if (std::find(state.waits.begin(), state.waits.end(), blocker->id) == state.waits.end()) {
        waiters_.emplace(blocker->id, job.id);
        state.waits.push_back(blocker->id);
      }
      continue;
    }
    const TargetFacts target = facts_of(d);
    Verdict verdict = judge(d, target, now_.mono, wake);
    if (!target.known) {  // of a job so old that nobody knows how it ended
      const bool any =
          d.type == DependencyType::kAfterAny || d.type == DependencyType::kAfter || d.type == DependencyType::kAfterCorr;
      verdict = any ? Verdict::kMet : Verdict::kNotYet;
    }
    if (verdict == Verdict::kMet && d.type != DependencyType::kAfterCorr)
      met = true;
    else if (verdict == Verdict::kNever)
      never = true;
    if (verdict != Verdict::kMet && !(verdict == Verdict::kNever && state.items.any)) open.push_back(d);
  }
  if (state.items.any && met)
    open.clear(), never = false;
  else if (state.items.any)
    never = open.empty() && never;
  if (wake) wake_at(job.id, *wake);
  if (never) {
    if (state.kill_when_never) {
      cancel_waiting(job, 0, job.array ? job.array->size() - 1 : 0, Reason::kDependencyNeverSatisfied,
                     "a job that it depends on did not end as it asks", gathered_);
      flush_soon();
      return;
    }
    open = state.items.items;
    job.reason = Reason::kDependencyNeverSatisfied;
  }
  state.items.items = std::move(open);
}

void Batch::target_changed(JobId target) {
  std::vector<JobId> waiting;
  for (auto [it, end] = waiters_.equal_range(target); it != end; ++it) waiting.push_back(it->second);
  for (JobId id : waiting) {
    Job* job = jobs_.find(id);
    if (job == nullptr || job->ending) continue;
    settle_depend(*job);
    if (job->ending) continue;
    const Reason before = job->reason;
    qualify(*job);
    if (before == Reason::kDependencyNeverSatisfied && job->reason == Reason::kDependency) job->reason = before;
  }
}

// --- the pass ------------------------------------------------------------------------------------------------------

std::optional<std::uint64_t> Batch::next_rank(Job& job) {
  if (!job.array) return job.state == JobState::kPending ? std::optional<std::uint64_t>(0) : std::nullopt;
  return job.array->next();
}

// aftercorr: the first tasks in order whose counterparts have ended well may start; those of failed ones never will.
std::uint64_t Batch::corresponding(Job& job, std::uint64_t startable) {
  if (!job.array || !job.depend || job.depend->corr.value == 0) return startable;
  const Job* target = jobs_.find(job.depend->corr);
  if (target == nullptr || !target->array || target->array->finished()) {
    // The last word on all of them. What failed there ends here; the rest is free, and the other array may be forgotten.
    const JobId corr = std::exchange(job.depend->corr, JobId());
    if (target != nullptr && target->array && job.depend->kill_when_never)
      for (auto [first, last] : target->array->failed().ranges())
        for (std::uint64_t rank = first; rank <= last; ++rank)
          if (const auto mine = job.array->rank(target->array->index(rank)); mine && job.array->is_waiting(*mine))
            cancel_waiting(job, *mine, *mine, Reason::kDependencyNeverSatisfied,
                           "its counterpart in job " + std::to_string(corr.value) + " failed", gathered_);
    flush_soon();
    return job.ending ? 0 : job.array->startable();
  }
  std::uint64_t ready = 0;
  for (const auto& [first, last] : job.array->waiting_ranges(16)) {
    for (std::uint64_t rank = first; rank <= last && ready < startable; ++rank) {
      const Dependency d{DependencyType::kAfterOk, job.depend->corr, job.array->index(rank), Duration{0}};
      std::optional<Duration> wake;
      const Verdict verdict = judge(d, facts_of(d), now_.mono, wake);
      if (verdict == Verdict::kNotYet) return ready;
      if (verdict == Verdict::kNever && job.depend->kill_when_never) {
        cancel_waiting(job, rank, rank, Reason::kDependencyNeverSatisfied, "its counterpart failed", gathered_);
        flush_soon();
        if (job.ending) return 0;
        return ready > 0 ? ready : corresponding(job, job.array->startable());
      }
      if (verdict == Verdict::kNever) return ready;
      ++ready;
    }
  }
  return ready;
}

// One pass over the queue, by the configured way of backfilling; see planner.h for the rules.
void Batch::schedule() {
  if (!dirty_) return;
  dirty_ = false;
  taking_.clear();
  used_up_.clear();
  cursor_.clear();
  ++launch_round_;
  for (const SliceId& id : alloc_.idle_on_closed()) release(*alloc_.find(id), Duration{0});  // no next job comes there
  const Need* head = nullptr;
  Planner::Reservation reservation;
  head_ = JobId();
  reserved_heads_.clear();
  passed_over_ = false;
  if (options_.backfill == Backfill::kConservative)
    pass_with_promises(head, reservation);
  else
    pass_with_head(head, reservation);
  if (!taking_.empty()) {
    AcceptOffers accept;
    accept.trace = std::exchange(taking_trace_, {});
    for (auto& [offer, item] : taking_) accept.accept.items.push_back(std::move(item));
    out_->session.insert(out_->session.begin(), std::move(accept));  // ahead of the launches into these slices
    taking_.clear();
  }
  for (OfferId id : used_up_) alloc_.end_offer(id);
  used_up_.clear();
  keep_learnt();
  if (head == nullptr)
    start_ahead();
  else
    make_room(*head, reservation);
  if (options_.backfill == Backfill::kNone) demand_soon();  // there may be another head now
  return_offers(head);
  if (alloc_.idle() > 0 && !idle_armed_) {
    idle_armed_ = true;
    out_->arm({kIdleSlices, 0, {}}, options_.slice_idle / 2 + milliseconds(1));
  }
}

// First come, first served over classes; the first that does not fit gets a reservation, the rest may pass it by EASY's rule.
void Batch::pass_with_head(const Need*& head, Planner::Reservation& reservation) {
  std::uint32_t looked = 0;
  order_.begin(now_);
  while (alloc_.idle() > 0 || used_up_.size() < alloc_.offers().size()) {
    Job* const next = order_.next();
    if (next == nullptr) break;
    Job& job = *next;
    if (job.spec->reservation) {
      if (start_reserved(job)) order_.again();
      continue;
    }
    if (try_start(job, head != nullptr ? &reservation : nullptr, head)) {
      order_.again();
      continue;
    }
    if (layouts_.at(job.layout).need.shape.revocable) {  // it waits for what others do not use, and keeps nobody waiting
      job.reason = Reason::kResources;
      continue;
    }
    if (head == nullptr) {
      const Need* first = &layouts_.at(job.layout).need;
      reservation = alloc_.planner().reserve(*first, now_.mono, options_.backfill, Planner::Named::kLatest);
      // One that would run into maintenance there is kept no room: it would only keep out those that end before.
      if (runs_into_window(job, reservation)) {
        passed_over_ = true;
        if (options_.backfill == Backfill::kNone || ++looked > options_.backfill_depth) break;
        continue;
      }
      head = first;
      head_ = job.id;
      job.reason = Reason::kResources;
    }
    if (options_.backfill == Backfill::kNone || ++looked > options_.backfill_depth) break;
  }
}

// Everybody waiting has a reservation, so jobs count one by one here, not by class; of an array its next task does.
void Batch::pass_with_promises(const Need*& head, Planner::Reservation& reservation) {
  const bool again = alloc_.planner().promises_begin(now_.mono);
  const std::size_t most = std::min<std::size_t>(queue_.jobs(), std::max(options_.backfill_depth, 1u));
  order_.begin(now_, ClassOrder::Each::kJob, most);
  for (std::size_t looked = 0; looked < most; ++looked) {
    Job* const next = order_.next();
    if (next == nullptr) break;
    Job& job = *next;
    const bool revocable = layouts_.at(job.layout).need.shape.revocable;
    while (job.queued > 0) {
      const auto rank = next_rank(job);
      if (!rank) break;
      if (job.spec->reservation) {
        if (!start_reserved(job)) break;
        continue;
      }
      if (revocable) {
        job.reason = Reason::kResources;
        if (!try_start(job, nullptr, nullptr)) break;
        continue;
      }
      if (alloc_.any_closes() && window_in_way(job)) {  // promised nothing: it would only keep out those that end before
        if (try_start(job, nullptr, nullptr)) continue;
        passed_over_ = true;
        break;
      }
      const Planner::Candidate wanted{job.number(*rank), &layouts_.at(job.layout).need, job.spec->limit};
      const bool now = alloc_.planner().promise(now_.mono, wanted, again) <= now_.mono;
      if (now && try_start(job, nullptr, nullptr)) continue;
      if (head == nullptr) {
        head_ = job.id;
        head = wanted.need;
        job.reason = Reason::kResources;
        reservation = alloc_.planner().reserve(*head, now_.mono);
      }
      break;
    }
  }
  alloc_.planner().promises_end();
}

// In its reservation, where the first that does not fit is waited for.
bool Batch::start_reserved(Job& job) {
  const Layout& layout = layouts_.at(job.layout);
  if (!reserved_heads_.contains(layout.reservation) && try_start(job, nullptr, nullptr)) return true;
  reserved_heads_.try_emplace(layout.reservation, &layout.need);
  job.reason = Reason::kResources;
  return false;
}

// An agent that could hold a node of the job, were it not that it closes before the job would end.
std::optional<AgentId> Batch::window_in_way(const Job& job) const {
  const Duration ends = plus(now_.wall, job.spec->limit);
  const Shape& shape = layouts_.at(job.layout).need.shape;
  for (const AgentId& agent : alloc_.closing())
    if (alloc_.closes_before(agent, ends, "") && const_cast<Allocations&>(alloc_).could_hold(shape, agent)) return agent;
  return std::nullopt;
}

bool Batch::runs_into_window(const Job& job, const Planner::Reservation& reservation) const {
  if (!alloc_.any_closes()) return false;
  const Duration starts = reservation.at == kNoLimit ? now_.wall : now_.wall + (reservation.at - now_.mono);
  const Duration ends = plus(starts, job.spec->limit);
  return std::any_of(reservation.nodes.begin(), reservation.nodes.end(),
                     [&](Planner::Node node) { return alloc_.closes_before(alloc_.agent_of(node), ends, ""); });
}

bool Batch::try_start(Job& job, Planner::Reservation* reservation, const Need* head) {
  const auto rank = next_rank(job);
  if (!rank) {
    queue_.put(job, 0);  // cannot be, but a pass must end
    return true;
  }
  if (job.doubt && attempt_of(job, *rank) == 1) {
    // An agent that has not spoken may have it: only under a new number, which must be on record first.
    if (job.array)
      job.array->started(*rank);
    else
      job.state = JobState::kConfiguring;
    bump(job, *rank, false);
    qualify(job);
    return true;
  }
  const Layout& layout = layouts_.at(job.layout);
  const Duration limit = limit_of(job), end = plus(now_.mono, limit);
  const bool promised = options_.backfill == Backfill::kConservative;
  // What is lent is nobody's reservation.
  const bool revocable = layout.need.shape.revocable;
  auto allowed = [&](const std::vector<Planner::Holding>& holdings) {
    if (revocable || !layout.reservation.empty()) return true;
    if (promised) return alloc_.planner().breaks_no_promise(job.number(*rank), holdings, now_.mono, end);
    return head == nullptr || alloc_.planner().allow(*reservation, *head, holdings, end);
  };
  const SliceKind kind{layout.key, job.spec->uid};
  const Duration ends = plus(now_.wall, limit);  // not into an agent's maintenance
  if (auto slices = alloc_.idle_of(kind, layout.need.nodes, ends, layout.reservation); !slices.empty()) {
    std::vector<Planner::Holding> holdings;
    for (const SliceId& id : slices) {
      const Slice& slice = *alloc_.find(id);
      holdings.push_back({alloc_.node(slice.agent), slice.amount});
    }
    if (allowed(holdings)) return start_run(job, *rank, std::move(slices), GangId()), true;
  }
  // New slices out of offers, on different agents.
  std::vector<std::pair<Offer*, Resources>> parts;
  std::set<AgentId> agents;
  OfferId& cursor = cursor_[job.layout];
  for (auto it = alloc_.offers().lower_bound(cursor); it != alloc_.offers().end(); ++it) {
    const OfferId id = it->first;
    Offer& offer = it->second;
    if (used_up_.contains(id) || (layout.need.nodes > 1 && taking_.contains(id)) || agents.contains(offer.agent)) continue;
    if (offer.revocable != revocable) continue;
    if (alloc_.closes_before(offer.agent, ends, layout.reservation) && !hooks::mutant("batch.window_ignored")) continue;
    if (!of_reservation(offer, layout)) continue;
    // Where its rules want it is what was offered for it, and nothing else.
    if (!layout.need.shape.placement.empty() && offer.line != job.layout + std::uint64_t{1}) continue;
    auto amount = carve(layout.need.shape, offer.resources, offer.agent_total, offer.labels);
    if (!amount) {
      if (offer.resources.cpus.value <= 0) used_up_.insert(id);
      if (parts.empty()) cursor = OfferId(id.value + 1);
      continue;
    }
    const Planner::Holding part{alloc_.node(offer.agent), *amount};
    if (layout.need.nodes == 1 && !allowed({part})) continue;
    // What would outlast the head's reservation looks for nodes beside it.
    if (layout.need.nodes > 1 && promised && !allowed({part})) continue;
    if (layout.need.nodes > 1 && head != nullptr && !alloc_.planner().spares(*reservation, *head, part, end)) continue;
    agents.insert(offer.agent);
    parts.emplace_back(&offer, *std::move(amount));
    if (parts.size() == layout.need.nodes) break;
  }
  if (parts.size() < layout.need.nodes) return head == nullptr && start_behind(job, *rank, kind);
  if (layout.need.nodes > 1) {
    std::vector<Planner::Holding> holdings;
    for (auto& [offer, amount] : parts) holdings.push_back({alloc_.node(offer->agent), amount});
    if (!allowed(holdings)) return false;
  }
  const bool gang = layout.need.nodes > 1;
  const GangId gang_id = gang ? GangId((incarnation_.value << 24) + next_gang_++) : GangId();
  std::vector<SliceId> slices;
  AcceptOffers together;
  for (auto& [offer, amount] : parts) {
    auto carved = alloc_.carve_from(*offer, layout.need.shape);
    BOURSE_ASSERT(static_cast<bool>(carved), to_text(layout.need.shape));
    Slice slice;
    slice.id = {FrameworkId(options_.framework), (incarnation_.value << 24) + next_slice_++};
    slice.agent = offer->agent;
    slice.amount = *std::move(carved);
    slice.kind = kind;
    slice.offer = offer->id;
    slice.gang = gang_id;
    slice.revocable = revocable;
    slice.apart = !layout.reservation.empty();
    slice.run = job.number(*rank);
    Accept::Slice asked{slice.id.number, layout.need.shape, Duration{0}, job.layout + 1};
    if (gang) {
      together.accept.items.push_back({offer->id, offer->generation, {std::move(asked)}, false});
      used_up_.insert(offer->id);
    } else {
      if (trace_ && taking_trace_.empty()) taking_trace_ = accept_trace(job, *rank);
      auto& item = taking_[offer->id];
      item.offer = offer->id, item.generation = offer->generation;
      item.slices.push_back(std::move(asked));
      if (offer->resources.cpus.value == 0) used_up_.insert(offer->id);
    }
    slices.push_back(slice.id);
    alloc_.add(std::move(slice));
  }
  if (gang) {
    together.accept.all_or_nothing = true;
    together.accept.gang = gang_id;
    if (trace_) together.trace = accept_trace(job, *rank);
    out_->session.push_back(std::move(together));
  }
  // The master takes off by itself what is accepted. Else a job that comes now would make the demand what it was, and not be told. Not
  // while a gang waits: its offers come together because more is demanded than is left.
  const bool gangs = std::any_of(demanded_.begin(), demanded_.end(), [](const DemandLine& l) { return l.gang_min > 1; });
  for (DemandLine& line : demanded_)
    if (line.id == job.layout + 1 && !gangs && !hooks::mutant("batch.demand_forgets_accepts"))
      line.count -= std::min(line.count, layout.need.nodes);
  const std::uint64_t number = start_run(job, *rank, std::move(slices), gang_id);
  if (gang) gangs_[gang_id] = number;
  return true;
}

// Work that names a reservation uses that; all other what is free, or reserved for our role without a name.
bool Batch::of_reservation(const Offer& offer, const Layout& layout) const {
  if (!layout.reservation.empty()) return offer.reserved == layout.reservation;
  return offer.reserved.empty() || !alloc_.reserved().must_be_named(offer.reserved);
}

// What the head waits for is there, but in pieces: idle slices and offers on one node. Given back, the master joins them.
void Batch::make_room(const Need& head, const Planner::Reservation& reservation) {
  if (reservation.at > now_.mono) {
    // It does not fit yet. Idle slices that no queued class can use only stand in the way of others.
    std::vector<SliceId> useless;
    for (const auto& [kind, ids] : alloc_.idle_by_kind()) {
      const bool wanted = std::any_of(queue_.order().begin(), queue_.order().end(), [&](const auto& entry) {
        return entry.second->key.uid == kind.uid && layouts_.at(entry.second->key.layout).key == kind.shape;
      });
      if (!wanted) useless.insert(useless.end(), ids.begin(), ids.end());
    }
    for (const SliceId& id : useless) release(*alloc_.find(id), Duration{0});
    return;
  }
  for (Planner::Node node : reservation.nodes) {
    const AgentId agent = alloc_.agent_of(node);
    const auto idle = alloc_.idle_on(agent);
    bool one_offer = false;
    for (const auto& [id, offer] : alloc_.offers())
      one_offer = one_offer || (offer.agent == agent && !offer.revocable && offer.reserved.empty() &&
                                fits(head.shape, offer.resources, offer.agent_total, offer.labels) == Misfit::kNone);
    if (one_offer) continue;
    for (const SliceId& id : idle) release(*alloc_.find(id), Duration{0});
    DeclineOffers decline;
    for (const auto& [id, offer] : alloc_.offers())
      if (offer.agent == agent && !offer.revocable && offer.reserved.empty())
        decline.items.push_back({id, DeclineReason::kTooSmall, "to be joined with more on this agent", Duration{0}});
    for (const auto& item : decline.items) alloc_.end_offer(item.offer);
    if (!decline.items.empty()) out_->session.push_back(std::move(decline));
  }
}

// Offers that help nobody go back. The head of the queue, when it needs several nodes, keeps what it can use until their time is up.
void Batch::return_offers(const Need* head) {
  DeclineOffers decline;
  for (const auto& [id, offer] : alloc_.offers()) {
    if (queue_.empty() || offer.revocable) {  // what is lent is of use now or not at all
      decline.items.push_back({id, DeclineReason::kNoWork, {}, Duration{0}});
      continue;
    }
    if (const auto waits = reserved_heads_.find(offer.reserved); waits != reserved_heads_.end()) {
      const Need& first = *waits->second;  // of several nodes, it keeps what it can use
      if (first.nodes > 1 && fits(first.shape, offer.resources, offer.agent_total, offer.labels) == Misfit::kNone) continue;
      decline.items.push_back({id, DeclineReason::kTooSmall, {}, kHoldOff});
      continue;
    }
    // The pass ended before the queue did: something else used it all up. Or what is left of the queue has to wait for a window.
    if (head == nullptr || alloc_.reserved().must_be_named(offer.reserved)) {
      decline.items.push_back({id, DeclineReason::kNoWork, {}, passed_over_ ? kHoldOff : Duration{0}});
      continue;
    }
    const Misfit misfit = fits(head->shape, offer.resources, offer.agent_total, offer.labels);
    if (misfit == Misfit::kNone && head->nodes > 1) continue;
    const DeclineReason reason = misfit == Misfit::kLabels ? DeclineReason::kLabels
                                 : misfit == Misfit::kNone ? DeclineReason::kReserved
                                                           : DeclineReason::kTooSmall;
    decline.items.push_back({id, reason, {}, kHoldOff});
  }
  for (const auto& item : decline.items) alloc_.end_offer(item.offer);
  if (!decline.items.empty()) out_->session.push_back(std::move(decline));
}

Run& Batch::note_run(Job& job, std::uint64_t rank, std::uint32_t attempt, bool recovered) {
  const std::uint64_t index = job.array ? job.array->index(rank) : 0;
  Run run;
  run.job = job.id, run.rank = rank, run.attempt = attempt, run.restarts = restarts_of(job, rank);
  run.task = TaskId(std::to_string(job.id.value) + "." + std::to_string(index) + "." + std::to_string(attempt));
  if (job.queued == 0) {
    layout_of(job);
    job.layout = job.spec->layout;
  }
  run.layout = job.layout;
  run.launched_wall = now_.wall;
  run.launched_mono = recovered ? kNoLimit : now_.mono;
  run.limit = limit_of(job);
  run.end_at = plus(now_.mono, run.limit);
  if (job.array)
    job.array->started(rank);
  else
    job.state = JobState::kRunning;
  return runs_[job.number(rank)] = std::move(run);
}

std::uint64_t Batch::start_run(Job& job, std::uint64_t rank, std::vector<SliceId> slices, GangId gang) {
  const std::uint64_t number = job.number(rank);
  Run& run = note_run(job, rank, attempt_of(job, rank), false);
  run.gang = gang;
  // The script runs on the first host, and users expect that to be the first of the list.
  std::ranges::stable_sort(slices, [this](const SliceId& a, const SliceId& b) {
    return host_before(alloc_.find(a)->agent.str(), alloc_.find(b)->agent.str());
  });
  run.slices = std::move(slices);
  std::vector<Planner::Holding> holdings;
  bool ready = true;
  for (const SliceId& id : run.slices) {
    Slice& slice = *alloc_.find(id);
    alloc_.occupy(slice, number);
    ready = ready && slice.ready;
    run.agents.push_back(slice.agent);
    if (!slice.revocable && !slice.apart) holdings.push_back({alloc_.node(slice.agent), slice.amount});
  }
  run.state = ready ? JobState::kRunning : JobState::kConfiguring;
  alloc_.planner().start(number, run.end_at, std::move(holdings));
  order_.started(number, job, now_.wall);
  if (job.spec->reservation) {
    bind_to_reservation(run);
    end_with_reservation();
  }
  started(job, run, number);
  return number;
}

// It has its place: from here on it is on its way.
void Batch::started(Job& job, Run& run, std::uint64_t number) {
  std::string agents, numbers;
  for (std::size_t i = 0; i < run.slices.size(); ++i) {
    agents += (i == 0 ? "" : ",") + run.agents[i].str();
    numbers += (i == 0 ? "" : ",") + std::to_string(run.slices[i].number);
  }
  hints_.emplace_back(number, encode(Record(HintRecord{job.id, run.rank, run.attempt, agents, numbers})));
  flush_later();
  launch(job, run);
  ++started_;
  qualify(job);
  if (watches_.contains(job.id)) changed(run_info(job, run, false), job.id, false);
}

Placement Batch::placement_of(const Job& job, const Run& run) const {
  Placement p;
  p.id = JobId(job.number(run.rank));
  if (job.array) p.array = job.id, p.index = job.array->index(run.rank);
  p.restarts = run.restarts;
  for (const AgentId& agent : run.agents) p.hosts.push_back(agent.str());
  const Shape& shape = layouts_.at(run.layout).need.shape;
  p.cpus_per_node = shape.cpus, p.mem_per_node = shape.mem;
  for (const DeviceAsk& ask : shape.devices)
    if (ask.kind != kHypervisorKind) p.devices_per_node += ask.count;
  if (shape.whole_host && !run.slices.empty())
    if (const Slice* slice = const_cast<Allocations&>(alloc_).find(run.slices.front());
        slice != nullptr && slice->amount.cpus > p.cpus_per_node)
      p.cpus_per_node = slice->amount.cpus, p.mem_per_node = slice->amount.mem;
  return p;
}

void Batch::launch(Job& job, Run& run) {
  const JobSpec& spec = jobs_.full_spec(job);
  const Placement placement = placement_of(job, run);
  LaunchTask command;
  command.agent = run.agents.front(), command.slice = run.slices.front(), command.task = run.task;
  TaskSpec& task = command.spec;
  task.user = spec.user, task.uid = static_cast<std::uint32_t>(spec.uid), task.gid = static_cast<std::uint32_t>(spec.gid);
  const bool program = spec.script.empty();  // --exec
  if (!program) task.argv.emplace_back("{artifact:script}");
  task.argv.insert(task.argv.end(), spec.args.begin(), spec.args.end());
  task.env = job_environment(spec, job.array ? job.array->spec() : ArraySpec{}, layouts_.at(run.layout), placement, options_);
  task.directory = spec.directory;
  const OutputNames names = output_names(spec, placement);
  task.stdin_path = names.in, task.stdout_path = names.out, task.stderr_path = names.error;
  task.append_output = spec.append_output;
  task.umask = spec.umask;
  task.rlimits = spec.rlimits;
  if (!spec.vm.empty()) task.kind = TaskKind::kMicroVm, task.image = spec.vm;
  if (!spec.container.empty()) task.kind = TaskKind::kContainer, task.image = spec.container;
  task.mounts = spec.container_mounts, task.isolate = spec.isolate;
  task.credential = spec.credential;
  if (job.script != nullptr && !program) task.artifacts.push_back({"script", job.script->digest, job.script->bytes, {}});
  task.time_limit = run.limit;
  task.kill_grace = options_.kill_grace;
  task.in_turn = run.in_turn;
  task.priority = static_cast<std::int32_t>(std::clamp<std::int64_t>(job.rank_priority, INT32_MIN, INT32_MAX));
  if (trace_) task.trace = trace_launch(job, run);
  task.warn_signal = spec.warn_signal, task.warn_before = spec.warn_before, task.warn_shell_only = spec.warn_shell_only;
  out_->session.push_back(std::move(command));
}

// --- demand --------------------------------------------------------------------------------------------------------

void Batch::demand_soon(bool force) {
  demand_forced_ = demand_forced_ || force;
  if (demand_armed_) return;
  demand_armed_ = true;
  out_->arm({kDemand, 0, {}}, milliseconds(1));
}

// Pending tasks by shape, in queue order. Published when it differs in kind or grew, or shrank to half: what is accepted in between the
// master takes off by itself.
void Batch::publish_demand() {
  std::vector<DemandLine> lines;
  std::map<std::uint32_t, std::size_t> by_layout;
  bool plain = false;  // one that names no reservation is among them
  const auto add = [&](const Queue::Class& c) {
    // Without backfilling only the head can use anything: what is offered for others comes back, to be offered again and again.
    const std::string& reservation = layouts_.at(c.key.layout).reservation;
    if (options_.backfill == Backfill::kNone && plain && reservation.empty() && !by_layout.contains(c.key.layout)) return true;
    plain = plain || reservation.empty();
    auto [it, fresh] = by_layout.try_emplace(c.key.layout, lines.size());
    if (fresh) {
      if (lines.size() == kDemandLinesMax) {
        by_layout.erase(it);
        return true;
      }
      const Layout& layout = layouts_.at(c.key.layout);
      DemandLine line;
      line.id = c.key.layout + 1;
      line.shape = layout.need.shape;
      line.gang_min = layout.need.nodes > 1 ? layout.need.nodes : 0;
      line.priority = -static_cast<std::int32_t>(lines.size());
      line.reservation = reservation;
      // One without a limit ends with its reservation.
      if (alloc_.any_closes() && (reservation.empty() || c.key.limit != kNoLimit)) line.lasts = c.key.limit;
      lines.push_back(std::move(line));
    }
    DemandLine& line = lines[it->second];
    line.lasts = std::min(line.lasts, c.key.limit);
    const std::uint64_t slices = std::min<std::uint64_t>(c.tasks, kDemandCountMax) * layouts_.at(c.key.layout).need.nodes;
    line.count = static_cast<std::uint32_t>(std::min<std::uint64_t>(line.count + slices, kDemandCountMax));
    return true;
  };
  order_.begin(now_);
  for (const Job* job = order_.next(); job != nullptr && add(*queue_.find(Queue::class_of(*job))); job = order_.next()) {}
  bool same = !demand_forced_ && lines.size() == demanded_.size();
  for (std::size_t i = 0; same && i < lines.size(); ++i) {
    const DemandLine &a = lines[i], &b = demanded_[i];
    same =
        a.id == b.id && a.lasts == b.lasts && a.count <= b.count && (a.count >= 16 ? a.count >= b.count / 2 : a.count == b.count);
  }
  if (same) return;
  demand_forced_ = false;
  demanded_ = lines;
  out_->session.push_back(SetDemand{false, std::move(lines)});
}

}  // namespace bourse::batch
