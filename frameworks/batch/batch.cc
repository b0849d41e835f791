#include "frameworks/batch/batch.h"

#include <algorithm>

#include "common/core/hooks.h"
#include "common/world/log.h"

namespace bourse::batch {
namespace {

constexpr Duration kFlushDelay{0}, kDemandDelay = milliseconds(1), kRetryDelay = seconds(1);
constexpr Duration kGatherEnds = milliseconds(10);  // between two flushes of ends: each is a commit

}  // namespace

Batch::Batch(BatchOptions options)
    : options_(std::move(options)),
      order_(options_, queue_, jobs_, layouts_, alloc_, shadow_,
             [this](std::string line) {
               if (out_ != nullptr) out_->log(std::move(line));
             }),
      cluster_(options_.cluster) {
  alloc_.reserved().of_role(RoleName(options_.role));
}
Batch::~Batch() = default;

void Batch::step(Time now, const Event& event, Actions& out) {
  now_ = now;
  out_ = &out;
  std::visit(
      [&](const auto& e) {
        using E = std::decay_t<decltype(e)>;
        if constexpr (std::is_same_v<E, Started> || std::is_same_v<E, Request> || std::is_same_v<E, TimerFired> ||
                      std::is_same_v<E, Durable> || std::is_same_v<E, AppendFailed> || std::is_same_v<E, SessionEvent> ||
                      std::is_same_v<E, PeerLost> || std::is_same_v<E, Reload>)
          on(e);
      },
      event);
  // Session commands of a step that appended would wait for the disk: launches belong into steps that do not append.
  if (out.appends.empty())
    schedule();
  else if (dirty_)
    flush_soon();
  out_ = nullptr;
}

bool Batch::knows(const JobSelector& job) const {
  std::optional<std::uint64_t> rank;
  const Job* found = const_cast<Jobs&>(jobs_).find_number(job.job.value, rank);
  if (found == nullptr) return false;
  if (!found->array) return true;
  if (!rank && !job.indexes.empty())
    if (const auto set = IndexSet::parse(job.indexes); set && set->size() == 1) rank = found->array->rank(set->min());
  return !rank || !found->array->ended().contains(*rank) || runs_.contains(found->number(*rank));
}

Batch::Counts Batch::counts() const {
  return {jobs_.all().size(), queue_.tasks(), runs_.size(), alloc_.slices().size(), alloc_.idle(), submitted_,
          started_,           ended_,         recovering_};
}

// --- start ---------------------------------------------------------------------------------------------------------

void Batch::load(Record record, std::map<std::uint64_t, HintRecord>& hints, std::vector<SharedBlob*>& loaded) {
  if (auto* r = std::get_if<BlobRecord>(&record)) {
    loaded.push_back(jobs_.share(r->digest, r->bytes));
    loaded.back()->stored = true;
  } else if (auto* s = std::get_if<SubmitRecord>(&record)) {
    next_id_ = std::max(next_id_, JobId(s->id.value + s->ids));
    if (jobs_.find(s->id) != nullptr) return;
    auto spec = decode_spec(s->spec);
    if (!spec) {
      out_->log(
          log_text(LogLevel::kError, "job_unreadable", {{"job", std::to_string(s->id.value)}, {"reason", spec.error().text()}}));
      return;
    }
    Job& job = jobs_.add(s->id, s->spec, *spec, options_);
    job.script = jobs_.share_known(s->script_digest);
    job.env = jobs_.share_known(s->env_digest);
    job.submitted = s->submitted;
    job.held = spec->hold;
    job.durable = true;
    job.suspect = true;
    job.rank_priority = spec->priority ? static_cast<std::int64_t>(*spec->priority) : -static_cast<std::int64_t>(spec->nice);
    if (auto array = parse_array(spec->array); array && array->indexes.size() > 0)
      job.array = std::make_unique<ArrayState>(*std::move(array));
    if (!s->key.empty()) {
      job.key_hash = std::hash<std::string>()(std::to_string(spec->uid) + "/" + s->key);
      keys_[job.key_hash] = job.id;
      key_order_.push_back(job.key_hash);
    }
    if (auto depend = parse_dependencies(spec->dependency); depend && !depend->items.empty()) {
      job.depend = std::make_unique<DependState>();
      job.depend->items = *std::move(depend);
      job.depend->kill_when_never = spec->kill_on_invalid_dependency.value_or(true);
    }
  } else if (auto* a = std::get_if<AttemptRecord>(&record)) {
    Job* job = jobs_.find(a->job);
    if (job == nullptr) return;
    hints.erase(job->number(a->rank));
    if (a->held) job->held_admin = true;
    if (!job->array) {
      job->attempt = a->attempt, job->restarts = a->restarts;
    } else {
      if (!job->retries) job->retries = std::make_unique<std::map<std::uint64_t, ArrayRetry>>();
      (*job->retries)[a->rank] = {a->attempt, a->restarts};
    }
  } else if (auto* h = std::get_if<HintRecord>(&record)) {
    Job* job = jobs_.find(h->job);
    if (job != nullptr && h->attempt == attempt_of(*job, h->rank)) hints[job->number(h->rank)] = *h;
  } else if (auto* e = std::get_if<EndRecord>(&record)) {
    const bool ok = e->state == JobState::kCompleted;
    Job* job = jobs_.find(e->job);
    if (job != nullptr && job->array) {
      job->array->ended(e->first, e->last, ok);
      job->mail_begun = true;
      for (std::uint64_t n = job->number(e->first); !hints.empty() && n <= job->number(e->last); ++n) {
        auto it = hints.lower_bound(n);
        if (it == hints.end() || it->first > job->number(e->last)) break;
        n = it->first;
        hints.erase(it);
      }
    }
    outcomes_.note(e->number, e->number + (e->last - e->first), ok);
    next_id_ = std::max(next_id_, JobId(e->number + (e->last - e->first) + 1));
    if (!e->whole) return;
    if (job != nullptr && job->array) outcomes_.note(e->job.value, e->job.value, job->array->all_ok());
    hints.erase(e->number);
    jobs_.erase(e->job);
  } else if (auto* c = std::get_if<ChangeRecord>(&record)) {
    if (Job* job = jobs_.find(c->job)) job->held = c->held, job->held_admin = c->held_by_admin;
  } else if (auto* o = std::get_if<OutcomeRecord>(&record)) {
    outcomes_.note(o->job.value, o->job.value, o->ok);
    if (!o->key.empty()) {
      const auto hash = std::hash<std::string>()(std::to_string(o->uid) + "/" + o->key);
      keys_[hash] = o->job;
      key_order_.push_back(hash);
    }
  } else if (auto* l = std::get_if<LearntRecord>(&record)) {
    learnt_[l->policy] = std::move(l->state);
  } else if (auto* n = std::get_if<CounterRecord>(&record)) {
    next_id_ = std::max(next_id_, n->next);
  }
}

void Batch::on(const Started& e) {
  incarnation_ = e.incarnation;
  std::map<std::uint64_t, HintRecord> hints;
  std::vector<SharedBlob*> loaded;
  for (const std::string& bytes : e.records) {
    auto record = decode_record(bytes);
    if (!record) {
      out_->log(log_text(LogLevel::kError, "record_unreadable", {{"reason", record.error().text()}}));
      continue;
    }
    load(*std::move(record), hints, loaded);
  }
  for (SharedBlob* blob : loaded) jobs_.unshare(blob);
  load_learnt();
  use_shadows(options_.shadow_policy);
  while (key_order_.size() > kKeysKept) keys_.erase(key_order_.front()), key_order_.pop_front();
  recovering_ = !jobs_.all().empty();
  for (const auto& [number, hint] : hints) {
    Job* job = jobs_.find(hint.job);
    auto agents = expand_hosts(hint.agents);
    if (job == nullptr || !agents || agents->empty()) continue;
    Run& run = note_run(*job, hint.rank, hint.attempt, true);
    run.recovered = true;
    run.state = JobState::kRunning;
    for (std::string& agent : *agents) run.agents.emplace_back(std::move(agent));
    recovered_on_[run.agents.front()].push_back(run.task);
    // Slice numbers are written in the agents' order.
    std::string_view rest = hint.slices;
    while (!rest.empty() && run.slices.size() < run.agents.size()) {
      const auto comma = rest.find(',');
      std::uint64_t value = 0;
      for (char c : rest.substr(0, comma)) value = value * 10 + static_cast<std::uint64_t>(c - '0');
      Slice slice;
      slice.id = {FrameworkId(options_.framework), value};
      slice.agent = run.agents[run.slices.size()];
      slice.kind = {layouts_.at(run.layout).key, job->spec->uid};
      slice.apart = job->spec->reservation != nullptr;
      slice.run = number;
      find_slice(run, number, std::move(slice));
      if (comma == std::string_view::npos) break;
      rest.remove_prefix(comma + 1);
    }
  }
  // In id order, so that a job that depends on an earlier one finds it judged. Jobs whose dependency can never be met end here.
  std::vector<JobId> ids;
  for (auto& [id, job] : jobs_.all()) ids.push_back(id);
  for (JobId id : ids) {
    Job* job = jobs_.find(id);
    if (job == nullptr) continue;
    if (job->depend) {
      const Dependencies items = job->depend->items;
      (void)static_cast<bool>(add_dependencies(*job, items, job->depend->kill_when_never));
    }
    if ((job = jobs_.find(id)) != nullptr) qualify(*job);
  }
  flush_soon();
}

// --- requests ------------------------------------------------------------------------------------------------------

void Batch::on(const Request& e) {
  auto request = decode_request(e.payload);
  if (!request) {
    out_->replies.push_back(
        {e.peer, encode(ToolReply{kBatchProtocol, 0, RequestRefused{request.error().code(), request.error().text()}})});
    return;
  }
  const Asker asker{e.peer, request->tag};
  const Who caller = who(e);
  std::visit([&](auto& body) { handle(asker, caller, std::move(body)); }, request->body);
}

void Batch::answer(const Asker& asker, ReplyBody body) {
  out_->replies.push_back({asker.peer, encode(ToolReply{kBatchProtocol, asker.tag, std::move(body)})});
}

// --- records -------------------------------------------------------------------------------------------------------

void Batch::flush_soon() {
  if (flush_armed_ && flush_at_ <= now_.mono) return;
  flush_armed_ = true;
  flush_at_ = now_.mono + kFlushDelay;
  out_->arm({kFlush, 0, {}}, kFlushDelay);
}

// For what nobody waits for but an acknowledgement: ends and hints. In a burst they share a flush and an acknowledgement; one
// that comes alone, whose user may well wait, is not held up.
void Batch::flush_later() {
  if (flush_armed_) return;
  flush_armed_ = true;
  flush_at_ = std::max(now_.mono, flushed_at_ + kGatherEnds);
  out_->arm({kFlush, 0, {}}, flush_at_ - now_.mono);
}

// Appends what has gathered. Acknowledgements leave in the same step, so the driver holds them until the records are safe; a
// step without records must not overtake one that still waits.
void Batch::flush() {
  flush_armed_ = false;
  flushed_at_ = now_.mono;
  for (auto& [asker, body] : early_) answer(asker, std::move(body));
  early_.clear();
  if (!retry_.empty()) return;  // the disk refused lately: the retry timer goes on
  Pending now = std::move(gathered_);
  gathered_ = {};
  if (now.ends.size() > kFlushRecordsMax) {  // rare: a long pause, or an array's end; the rest follows
    gathered_.ends.assign(std::make_move_iterator(now.ends.begin() + kFlushRecordsMax), std::make_move_iterator(now.ends.end()));
    now.ends.resize(kFlushRecordsMax);
    flush_soon();
  }
  for (const Ended& e : now.ends) {  // where a task runs is no use to the next life once it has ended
    const Job* job = jobs_.find(e.job);
    if (job == nullptr || e.first != e.last) continue;
    std::erase_if(hints_, [number = job->number(e.first)](const auto& hint) { return hint.first == number; });
  }
  for (auto& [number, hint] : hints_) out_->append(Safety::kProcess, std::move(hint));
  hints_.clear();
  if (!learnt_record_.empty()) out_->append(Safety::kProcess, std::exchange(learnt_record_, {}));
  for (const Ended& e : now.ends) {
    const Job* job = jobs_.find(e.job);
    now.records.push_back(encode(Record(EndRecord{e.job, e.first, e.last, e.info.state, e.whole,
                                                  job != nullptr ? job->number(e.first) : e.info.id.value, encode_info(e.info)})));
  }
  const bool power = !now.records.empty();
  if ((power || pending_.empty()) && gathered_.ends.empty()) {
    for (auto& [stream, mark] : streams_) {
      if (!mark.dirty) continue;
      mark.dirty = false;
      if (hooks::mutant("batch.ack_before_durable")) continue;
      now.acks.push_back({stream.first, stream.second, mark.seen});
      out_->session.push_back(now.acks.back());
    }
  }
  if (!power) return;
  for (const std::string& record : now.records) out_->append(Safety::kPower, record);
  pending_[out_->ticket] = std::move(now);
}

void Batch::wake(JobId id) {
  Job* job = jobs_.find(id);
  if (job == nullptr) return;
  settle_depend(*job);
  if ((job = jobs_.find(id)) != nullptr) qualify(*job);
}

void Batch::on(const TimerFired& e) {
  switch (e.key.kind) {
    case kFlush:
      return flush();
    case kDemand:
      demand_armed_ = false;
      return publish_demand();
    case kRetryAppend: {
      if (retry_.empty()) return;
      Pending again = std::move(retry_.front());
      retry_.pop_front();
      for (const std::string& record : again.records) out_->append(Safety::kPower, record);
      for (const AckStatus& ack : again.acks) out_->session.push_back(ack);
      pending_[out_->ticket] = std::move(again);
      return;
    }
    case kWakeJobs: {
      while (!wakes_.empty() && wakes_.begin()->first <= now_.wall) {
        const JobId id = wakes_.begin()->second;
        wakes_.erase(wakes_.begin());
        wake(id);
      }
      if (!wakes_.empty()) wake_at_wall(wakes_.begin()->second, wakes_.begin()->first);
      return;
    }
    case kWakeLater: {
      while (!mono_wakes_.empty() && mono_wakes_.begin()->first <= now_.mono) {
        const JobId id = mono_wakes_.begin()->second;
        mono_wakes_.erase(mono_wakes_.begin());
        wake(id);
      }
      if (!mono_wakes_.empty()) wake_at(mono_wakes_.begin()->second, mono_wakes_.begin()->first);
      return;
    }
    case kAhead:
      return take_back_late();
    case kShadow:
      return compare_shadows();
    case kReservationEnd:
      return end_with_reservation();
    case kMailTimes:
      return mail_due();
    case kProbePeers:
      return probe_peers();
    case kIdleSlices: {
      idle_armed_ = false;
      std::vector<SliceId> old;
      for (const auto& [kind, ids] : alloc_.idle_by_kind())
        for (const SliceId& id : ids)
          if (alloc_.find(id)->idle_since + options_.slice_idle <= now_.mono) old.push_back(id);
      for (const SliceId& id : old) release(*alloc_.find(id), Duration{0});
      if (alloc_.idle() > 0) {
        idle_armed_ = true;
        out_->arm({kIdleSlices, 0, {}}, options_.slice_idle / 2 + milliseconds(1));
      }
      return;
    }
    case kRecovery:
      return check_recovery(true);
    default:
      return;
  }
}

void Batch::on(const Durable& e) {
  auto it = pending_.find(e.ticket);
  if (it == pending_.end()) return;
  Pending done = std::move(it->second);
  pending_.erase(it);
  if (full_) {
    full_ = false;
    out_->log(log_text(LogLevel::kInfo, "store_works_again", {}));
  }
  for (auto& [asker, body] : done.afterwards) answer(asker, std::move(body));
  for (JobId id : done.submits) {
    Job* job = jobs_.find(id);
    if (job == nullptr) continue;
    job->durable = true;
    if (job->script != nullptr) job->script->stored = true;
    if (job->env != nullptr) job->env->stored = true;
    ++submitted_;
    if (trace_) trace_submitted(*job);
    settle_depend(*job);
    if ((job = jobs_.find(id)) != nullptr) qualify(*job);
  }
  for (auto [id, rank] : done.attempts) {
    Job* job = jobs_.find(id);
    if (job == nullptr) continue;
    if (job->array)
      job->array->back(rank);
    else
      job->state = JobState::kPending;
    qualify(*job);
  }
  for (Ended& note : done.ends) ended(std::move(note));
  if (!retry_.empty())
    out_->arm({kRetryAppend, 0, {}}, Duration{0});
  else if (pending_.empty())
    flush_later();  // acknowledgements may have waited
}

// The disk refused. New jobs are forgotten and their users told so; everything else is kept and tried again until it works.
void Batch::on(const AppendFailed& e) {
  auto it = pending_.find(e.ticket);
  if (it == pending_.end()) return;
  Pending failed = std::move(it->second);
  pending_.erase(it);
  if (!full_) {
    full_ = true;
    out_->log(log_text(LogLevel::kError, "store_failed",
                       {{"reason", e.reason}, {"what", "retrying every second; submits are refused meanwhile"}}));
  }
  const std::string sentence =
      "the queue's disk refused the record (" + e.reason + "); nothing was kept, submit again when there is room";
  for (auto& [asker, body] : failed.on_failure) {
    if (auto* reply = std::get_if<SubmitReply>(&body))
      for (auto& item : reply->items)
        if (item.code == Code::kOk) item = {JobId(), Code::kIo, sentence, Duration{0}};
    if (auto* reply = std::get_if<ChangeReply>(&body); reply != nullptr && failed.records.empty())
      reply->code = Code::kIo, reply->reason = sentence, reply->count = 0;
    answer(asker, std::move(body));
  }
  for (auto& [asker, body] : failed.afterwards) answer(asker, RequestRefused{Code::kIo, sentence});
  for (JobId id : failed.submits) {
    if (Job* job = jobs_.find(id)) {
      if (job->key_hash != 0) keys_.erase(job->key_hash);
      erase_job(id);
    }
  }
  if (failed.records.empty()) return;
  failed.on_failure.clear(), failed.afterwards.clear(), failed.submits.clear();
  retry_.push_back(std::move(failed));
  out_->arm({kRetryAppend, 0, {}}, kRetryDelay);
}

// --- session -------------------------------------------------------------------------------------------------------

void Batch::on(const SessionEvent& e) {
  std::visit([&](const auto& s) { session(s); }, e);
}

void Batch::session(const SessionUp& e) {
  connected_ = true;
  down_reason_.clear();
  if (!e.cluster.empty()) cluster_ = e.cluster;
  demand_soon(true);
}
void Batch::session(const SessionDown& e) {
  connected_ = false;
  down_reason_ = e.reason;
  alloc_.clear_offers();
}
void Batch::session(const SessionRefused& e) {
  connected_ = false;
  down_reason_ = e.reason;
  out_->log(log_text(LogLevel::kError, "session_refused", {{"reason", e.reason}}));
  out_->stop = true;
}
void Batch::session(const OfferMade& e) {
  if (trace_) trace_offer(e.offer.id);
  alloc_.offer(e.offer);
  dirty_ = true;
}
void Batch::session(const OfferEnded& e) { alloc_.end_offer(e.offer); }

void Batch::session(const AcceptAnswered& e) {
  if (e.code == Code::kOk) return;
  // Its slices never come to be. What was launched into them is certainly not running: it starts anew under a new number.
  for (const SliceId& id : alloc_.from_offer(e.offer)) {
    Slice* slice = alloc_.find(id);
    if (slice == nullptr || slice->ready) continue;
    const std::uint64_t number = slice->run;
    alloc_.erase(id);
    if (auto it = runs_.find(number); it != runs_.end()) requeue(it->second, false, "the offer had ended: " + e.reason);
  }
  demand_soon(true);
}

void Batch::session(const SliceReady& e) {
  Slice* slice = alloc_.find(e.spec.id);
  if (slice == nullptr) {
    // Of an earlier life. A task in it will tell; when all agents have answered, what nobody claimed goes back.
    Slice foreign;
    foreign.id = e.spec.id;
    foreign.agent = e.agent;
    foreign.amount = e.spec.resources;
    foreign.ready = true;
    foreign.foreign = true;
    foreign.revocable = e.spec.revocable;
    Slice& added = alloc_.add(std::move(foreign));
    if (!recovering_) release(added, Duration{0});
    return;
  }
  slice->ready = true;
  slice->agent = e.agent;
  slice->unhealthy = !e.unhealthy.empty();
  if (slice->unhealthy && slice->run == 0 && !slice->releasing) return release(*slice, Duration{0});
  alloc_.resize(*slice, e.spec.resources);
  auto it = runs_.find(slice->run);
  if (it == runs_.end() || it->second.state != JobState::kConfiguring) return;
  for (const SliceId& id : it->second.slices)
    if (const Slice* s = alloc_.find(id); s == nullptr || !s->ready) return;
  it->second.state = JobState::kRunning;
  const Job& job = *jobs_.find(it->second.job);
  if (watches_.contains(job.id)) changed(run_info(job, it->second, false), job.id, false);
  if (it->second.trace) it->second.trace->ready = now_.wall;
}

void Batch::session(const GangReady&) {}

void Batch::session(const GangFailed& e) {
  auto it = gangs_.find(e.gang);
  if (it == gangs_.end()) return;
  const std::uint64_t number = it->second;
  gangs_.erase(it);
  for (const SliceId& id : alloc_.of_gang(e.gang)) alloc_.erase(id);
  if (auto run = runs_.find(number); run != runs_.end() && run->second.gang == e.gang)
    requeue(run->second, false, "its nodes could not be had together: " + e.reason);
  demand_soon(true);
}

void Batch::session(const SliceLost& e) {
  Slice* slice = alloc_.find(e.slice);
  if (slice == nullptr) return;
  const std::uint64_t number = slice->run;
  alloc_.erase(e.slice);
  dirty_ = true;
  auto it = runs_.find(number);
  if (it == runs_.end()) return;
  Run& run = it->second;
  if (e.end == SliceEnd::kCarveFailed) return requeue(run, false, "the agent could not make the slice: " + e.reason);
  if (!run.slices.empty() && run.slices.front() == e.slice) return;  // the task's own status says what became of it
  // Another node of a job on several nodes: without it the job is of no use.
  if (run.node_failed || run.task.empty() || run.agents.empty()) return;
  run.node_failed = true;
  Kill kill;
  kill.agent = run.agents.front();
  kill.task = run.task;
  out_->session.push_back(KillTask{kill});
}

void Batch::session(const SliceRecalled& e) {
  Slice* slice = alloc_.find(e.slice);
  if (slice == nullptr || slice->releasing) return;
  take_back(*slice);
  if (slice->run == 0) return release(*slice, Duration{0});
  alloc_.recall(*slice);
  auto it = runs_.find(slice->run);
  if (it == runs_.end() || it->second.agents.empty()) return;
  Kill kill;
  kill.agent = it->second.agents.front();
  kill.task = it->second.task;
  kill.grace = e.grace;
  kill.preempt = true;
  it->second.recalled = e.reason;
  out_->session.push_back(KillTask{kill});
}

void Batch::session(const TaskUpdate& e) { update(e); }

void Batch::session(const AgentsChanged& e) {
  const std::uint32_t epoch = alloc_.epoch();
  bool reservations = e.snapshot && !alloc_.seen_agents();
  for (const AgentFacts& facts : e.agents) {
    reservations = alloc_.facts(facts, now_.wall) || reservations;
    if (facts.state == AgentFacts::State::kRemoved) {
      std::vector<std::uint64_t> lost;
      for (auto& [number, run] : runs_)
        if (std::find(run.agents.begin(), run.agents.end(), facts.agent) != run.agents.end()) lost.push_back(number);
      for (std::uint64_t number : lost) {
        Run& run = runs_.at(number);
        out_->session.push_back(DeclareTasksLost{facts.agent, {run.task}});
        TaskStatus status;
        status.task = run.task;
        status.state = TaskState::kLost;
        status.message = "agent " + facts.agent.str() + " was removed by an operator";
        status.ended = now_.wall;
        finish(run, status);
      }
      asked_.erase(facts.agent);
    } else if (recovering_) {
      ask_agent(facts.agent);
    }
  }
  if (e.snapshot) {
    alloc_.snapshot();
    if (recovering_ && !recovery_armed_) {
      recovery_armed_ = true;
      out_->arm({kRecovery, 0, {}}, options_.recovery_wait);
    }
  }
  if (recovering_) check_recovery(false);
  if (epoch != alloc_.epoch()) relayout();
  if (reservations) reservations_changed();
  dirty_ = true;
  demand_soon();
}

}  // namespace bourse::batch
