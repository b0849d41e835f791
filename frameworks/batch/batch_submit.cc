// What changes the queue from outside: submit, cancel, hold, release, requeue.
#include <algorithm>

#include "common/core/hooks.h"
#include "common/world/digest.h"
#include "frameworks/batch/batch.h"

namespace bourse::batch {
namespace {

std::string join_env(const std::vector<std::string>& env) {
  std::string out;
  for (const std::string& word : env) {
    out += word;
    out += '\0';
  }
  return out;
}

std::string digest_of(std::string_view bytes) { return "sha256:" + sha256_hex(bytes); }

Error unknown_job(const JobSelector& selector) {
  return Error(Code::kNotFound, "there is no job " + to_text(selector) + " that has not ended");
}

}  // namespace

Batch::Who Batch::who(const Request& request) const {
  Who out;
  out.uid = request.uid, out.gid = request.gid;
  out.name = request.identity;
  // The operating system vouches for the other end of the local socket; off the host, a key does.
  out.admin = request.uid == 0 || (request.uid < 0 && request.identity.starts_with("operator:"));
  return out;
}

// Judges the job and takes it in, not durable yet.
Result<JobId> Batch::admit(const Who& caller, const std::string& key, JobSpec spec, bool test_only, std::string& remark) {
  if (caller.uid < 0 && !caller.admin)
    return Error(Code::kDenied, "the connection does not say which user you are; use the local socket or an operator's key");
  if (!caller.admin) {
    if (spec.uid >= 0 && spec.uid != caller.uid) return Error(Code::kDenied, "only root and operators may submit for another user");
    spec.uid = caller.uid;
    if (spec.gid < 0) spec.gid = caller.gid;
    if (spec.gid == 0 && caller.gid != 0) return Error(Code::kDenied, "only root and operators may submit with group 0");
    if (spec.priority && *spec.priority > 0)
      return Error(Code::kDenied, "only root and operators may set a priority; --nice is for everyone");
    if (spec.nice < 0) return Error(Code::kDenied, "only root and operators may use a negative --nice");
  } else {
    if (spec.uid < 0) spec.uid = std::max<std::int64_t>(caller.uid, 0), spec.gid = std::max<std::int64_t>(caller.gid, 0);
    if (spec.gid < 0) spec.gid = spec.uid;
  }
  if (spec.user.empty()) return Error(Code::kInvalid, "the specification does not name the user");
  BOURSE_TRY(check_spec(spec, options_));
  Layout layout = BOURSE_TRY(lay_out(spec, options_, alloc_.largest_cpus()));
  BOURSE_TRY(check_reservation(spec, remark));
  if (const ReservationView* in = alloc_.reserved().find(spec.reservation); in != nullptr) {
    std::map<AgentId, AgentFacts> its;
    for (const AgentId& agent : in->agents)
      if (const auto found = alloc_.agents().find(agent); found != alloc_.agents().end()) its.insert(*found);
    if (auto possible = check_possible(layout, its); !possible)
      return std::move(possible).error().add("in reservation " + spec.reservation);
  } else if (!alloc_.agents().empty())
    BOURSE_TRY(check_possible(layout, alloc_.agents()));
  else
    remark = "no agents yet: it waits until one registers";
  ArraySpec array = BOURSE_TRY(parse_array(spec.array));
  const Dependencies depend = BOURSE_TRY(parse_dependencies(spec.dependency));
  if (spec.name.empty()) spec.name = spec.script_path.empty() ? "wrap" : spec.script_path.substr(spec.script_path.rfind('/') + 1);
  if (jobs_.all().size() >= options_.pending_max)
    return Error(Code::kLimit, "the queue is full: " + std::to_string(options_.pending_max) + " jobs (batch.queue_max)");
  if (remark.empty() && !options_.mail && *parse_mail_types(spec.mail_type) != 0)
    remark = "mail will not be sent: there is no mail program here (batch.mail_program)";
  constexpr std::uint64_t kIdsMax = std::uint64_t{1} << 62;
  if (array.indexes.size() > kIdsMax || next_id_.value > kIdsMax) return Error(Code::kLimit, "array: too many indexes");
  if (test_only) return JobId();

  const JobId id = next_id_;
  spec.group = spec.placement.empty() ? "" : "job-" + std::to_string(id.value);
  Job& job = jobs_.add(id, encode_spec(spec), spec, options_);
  const std::string env = join_env(spec.env);
  const std::string script_digest = digest_of(spec.script), env_digest = digest_of(env);
  job.script = jobs_.share(script_digest, spec.script);
  job.env = jobs_.share(env_digest, env);
  job.submitted = now_.wall;
  job.held = spec.hold;
  job.rank_priority = spec.priority ? static_cast<std::int64_t>(*spec.priority) : -static_cast<std::int64_t>(spec.nice);
  if (array.indexes.size() > 0) job.array = std::make_unique<ArrayState>(std::move(array));
  if (auto added = add_dependencies(job, depend, spec.kill_on_invalid_dependency.value_or(true)); !added) {
    erase_job(id);
    return std::move(added).error();
  }
  next_id_ = JobId(id.value + job.ids());
  if (!job.script->stored) out_->append(Safety::kPower, encode(Record(BlobRecord{script_digest, job.script->bytes})));
  if (!job.env->stored) out_->append(Safety::kPower, encode(Record(BlobRecord{env_digest, job.env->bytes})));
  out_->append(Safety::kPower,
               encode(Record(SubmitRecord{id, job.ids(), key, job.submitted, job.spec->bytes, script_digest, env_digest})));
  return id;
}

void Batch::handle(const Asker& asker, const Who& caller, SubmitRequest request) {
  SubmitReply reply;
  Pending pending;
  std::optional<Ticket> earlier;  // a key that is on its way to the disk for another request
  for (auto& item : request.items) {
    SubmitReply::Item out;
    const std::uint64_t hash =
        item.key.empty()
            ? 0
            : std::hash<std::string>()(
                  std::to_string(caller.admin && item.spec.uid >= 0 ? item.spec.uid : std::max<std::int64_t>(caller.uid, 0)) + "/" +
                  item.key);
    if (auto known = keys_.find(hash);
        hash != 0 && known != keys_.end() && !request.test_only && !hooks::mutant("batch.key_forgotten")) {
      out.id = known->second;
      out.reason = "submitted before with the same key";
      if (const Job* job = jobs_.find(out.id); job != nullptr && !job->durable)
        for (const auto& [ticket, p] : pending_)
          if (std::find(p.submits.begin(), p.submits.end(), out.id) != p.submits.end()) earlier = ticket;
      reply.items.push_back(std::move(out));
      continue;
    }
    auto id = admit(caller, item.key, std::move(item.spec), request.test_only, out.reason);
    if (!id) {
      out.code = id.error().code(), out.reason = id.error().text();
    } else if (!request.test_only) {
      out.id = *id;
      pending.submits.push_back(*id);
      if (hash != 0) {
        jobs_.find(*id)->key_hash = hash;
        if (keys_.emplace(hash, *id).second) key_order_.push_back(hash);
        if (key_order_.size() > kKeysKept) keys_.erase(key_order_.front()), key_order_.pop_front();
      }
    }
    reply.items.push_back(std::move(out));
  }
  if (hooks::mutant("batch.start_before_durable"))
    for (JobId id : pending.submits) qualify(*jobs_.find(id));
  if (hooks::mutant("batch.submit_reply_before_durable") && !pending.submits.empty()) {
    early_.emplace_back(asker, std::move(reply));
    flush_soon();
    pending_[out_->ticket] = std::move(pending);
    return;
  }
  if (pending.submits.empty() && earlier) {
    pending_.at(*earlier).afterwards.emplace_back(asker, std::move(reply));
    return;
  }
  if (!pending.submits.empty()) {
    pending.on_failure.emplace_back(asker, reply);
    if (earlier) {  // that ticket is the older one, so it is safe when this one is
    }
    pending_[out_->ticket] = std::move(pending);
  }
  answer(asker, std::move(reply));
}

void Batch::erase_job(JobId id) {
  Job* job = jobs_.find(id);
  if (job == nullptr) return;
  queue_.remove(*job);
  troubles_.erase(id);
  if (job->depend)
    for (JobId target : job->depend->waits)
      for (auto [it, end] = waiters_.equal_range(target); it != end;) it = it->second == id ? waiters_.erase(it) : std::next(it);
  jobs_.erase(id);
}

// --- cancel --------------------------------------------------------------------------------------------------------

// Ends the tasks of a job between two ranks that have not started. Their records go into `pending`.
std::uint64_t Batch::cancel_waiting(Job& job, std::uint64_t first, std::uint64_t last, Reason reason, const std::string& text,
                                    Pending& pending) {
  std::uint64_t count = 0;
  auto note = [&](std::uint64_t a, std::uint64_t b) {
    Ended e;
    e.job = job.id, e.first = a, e.last = b;
    e.info = base_info(job, true);
    if (job.array) e.info.array = job.id, e.info.id = JobId(job.number(a)), e.info.indexes = job.array->text(a, b);
    e.info.state = JobState::kCancelled, e.info.reason = reason, e.info.reason_text = text;
    e.info.ended = now_.wall;
    count += b - a + 1;
    pending.ends.push_back(std::move(e));
  };
  if (!job.array) {
    if (job.state != JobState::kPending) return 0;
    note(0, 0);
    job.state = JobState::kCompleting;
    job.ending = true;
  } else {
    for (auto [a, b] : job.array->waiting_ranges(SIZE_MAX - 1)) {
      a = std::max(a, first), b = std::min(b, last);
      if (a > b) continue;
      note(a, b);
      job.array->ended(a, b, false);
    }
    job.ending = job.array->finished();
  }
  if (count > 0 && job.ending) pending.ends.back().whole = true;
  if (job.ending)
    queue_.remove(job);
  else
    qualify(job);
  return count;
}

void Batch::cancel_run(Run& run, std::int32_t signal, bool shell_only, const std::string& reason) {
  Kill kill;
  kill.agent = run.agents.front();
  kill.task = run.task;
  kill.signal = signal;
  kill.first_process_only = shell_only;
  if (signal == 0) {
    run.cancelled = true;
    run.cancel_reason = reason;
    if (run.state != JobState::kConfiguring) run.state = JobState::kCompleting;
  }
  out_->session.push_back(KillTask{kill});
}

Result<std::uint64_t> Batch::cancel_one(const Who& caller, const JobSelector& selector, const CancelRequest& request,
                                        Pending& pending) {
  std::optional<std::uint64_t> one;
  Job* job = jobs_.find_number(selector.job.value, one);
  if (job == nullptr || job->ending) {
    if (selector.job.value != 0 && selector.job < next_id_)
      return Error(Code::kGone, "job " + to_text(selector) + " has ended already");
    return unknown_job(selector);
  }
  if (!may_touch(caller, *job)) return Error(Code::kDenied, "job " + to_text(selector) + " belongs to another user");
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranks;
  if (one) {
    ranks.emplace_back(*one, *one);
  } else if (!selector.indexes.empty()) {
    if (!job->array) return Error(Code::kInvalid, "job " + std::to_string(job->id.value) + " is not an array");
    const IndexSet asked = BOURSE_TRY(IndexSet::parse(selector.indexes));
    // Ranges of indexes become ranges of ranks; what is not in the array is passed over.
    for (const IndexRange& range : asked.ranges()) {
      constexpr std::uint64_t kStepsLooked = 1'000'000;
      std::uint64_t looked = 0;
      for (std::uint64_t i = range.first; i <= range.last && looked < kStepsLooked; i += range.step, ++looked) {
        const auto rank = job->array->rank(i);
        if (!rank) continue;
        if (!ranks.empty() && ranks.back().second + 1 == *rank)
          ranks.back().second = *rank;
        else
          ranks.emplace_back(*rank, *rank);
      }
    }
    if (ranks.empty())
      return Error(Code::kNotFound, "array " + std::to_string(job->id.value) + " has none of the tasks " + selector.indexes);
  } else {
    ranks.emplace_back(0, job->array ? job->array->size() - 1 : 0);
  }
  std::uint64_t count = 0;
  const std::string reason = request.reason.empty()
                                 ? "cancelled by " + (caller.uid >= 0 ? "uid " + std::to_string(caller.uid) : caller.name)
                                 : request.reason;
  for (auto [first, last] : ranks) {
    std::vector<std::uint64_t> numbers;
    for (auto it = runs_.lower_bound(job->number(first)); it != runs_.end() && it->first <= job->number(last); ++it)
      numbers.push_back(it->first);
    for (std::uint64_t number : numbers) {
      cancel_run(runs_.at(number), request.signal, request.shell_only, reason);
      ++count;
    }
    // A signal is for what runs; ending is for all.
    if (request.signal == 0 && !job->ending) count += cancel_waiting(*job, first, last, Reason::kCancelled, reason, pending);
  }
  if (count == 0 && request.signal == 0) {
    // Between two attempts: it is neither waiting nor running. It ends once its next attempt is on record, by being held first.
    if (!job->array && job->state == JobState::kConfiguring && !runs_.contains(job->id.value)) {
      job->state = JobState::kPending;
      gathered_.attempts.erase(
          std::remove_if(gathered_.attempts.begin(), gathered_.attempts.end(), [&](const auto& a) { return a.first == job->id; }),
          gathered_.attempts.end());
      return cancel_waiting(*job, 0, 0, Reason::kCancelled, reason, pending);
    }
    return Error(Code::kGone, "nothing of job " + to_text(selector) + " is left to cancel");
  }
  return count;
}

std::vector<JobSelector> Batch::select(const JobFilter& filter) const {
  std::vector<JobSelector> out;
  const bool by_state = !filter.states.empty();
  auto wants = [&](JobState s) {
    return !by_state || std::find(filter.states.begin(), filter.states.end(), s) != filter.states.end();
  };
  for (const auto& [id, job] : jobs_.all()) {
    if (job.ending || !passes(job, filter)) continue;
    if (!by_state && filter.hosts.empty()) {
      out.push_back({id, {}});
      continue;
    }
    if (!job.array) {
      auto run = runs_.find(id.value);
      const JobState state = run != runs_.end() ? run->second.state : job.state;
      if (wants(state)) out.push_back({id, {}});
      continue;
    }
    for (std::uint64_t rank : job.array->running()) {
      auto run = runs_.find(job.number(rank));
      if (run != runs_.end() && wants(run->second.state)) out.push_back({id, std::to_string(job.array->index(rank))});
    }
    if (wants(JobState::kPending))
      for (auto [a, b] : job.array->waiting_ranges(kPageMax)) out.push_back({id, job.array->text(a, b)});
  }
  return out;
}

void Batch::handle(const Asker& asker, const Who& caller, const CancelRequest& request) {
  ChangeReply reply;
  if (request.jobs.empty() && request.filter.empty()) {
    reply.code = Code::kInvalid,
    reply.reason = "name jobs, or say which by user, name or state; cancelling everything needs that said";
    return answer(asker, std::move(reply));
  }
  if (request.signal < 0 || request.signal > 64) {
    reply.code = Code::kInvalid, reply.reason = "there is no signal " + std::to_string(request.signal);
    return answer(asker, std::move(reply));
  }
  Pending pending;
  const bool named = !request.jobs.empty();
  for (const JobSelector& selector : named ? request.jobs : select(request.filter)) {
    auto count = cancel_one(caller, selector, request, pending);
    if (count)
      reply.count += *count;
    else if (named && reply.items.size() < kSelectorsMax)
      reply.items.push_back({selector, count.error().code(), count.error().text()});
  }
  if (!pending.ends.empty()) {
    // Of one request, one transaction; the answer waits for it. Signals to running tasks of this step wait as well, which is harmless.
    for (const Ended& e : pending.ends) {
      const Job* job = jobs_.find(e.job);
      pending.records.push_back(
          encode(Record(EndRecord{e.job, e.first, e.last, e.info.state, e.whole, job->number(e.first), encode_info(e.info)})));
      out_->append(Safety::kPower, pending.records.back());
    }
    pending.on_failure.emplace_back(asker, reply);
    pending_[out_->ticket] = std::move(pending);
  }
  answer(asker, std::move(reply));
}

// --- hold, release, requeue ----------------------------------------------------------------------------------------

Result<std::uint64_t> Batch::change_one(const Who& caller, const JobSelector& selector, Change change, Pending& pending) {
  std::optional<std::uint64_t> one;
  Job* job = jobs_.find_number(selector.job.value, one);
  if (job == nullptr || job->ending) {
    if (selector.job.value != 0 && selector.job < next_id_)
      return Error(Code::kGone, "job " + to_text(selector) + " has ended already");
    return unknown_job(selector);
  }
  if (!may_touch(caller, *job)) return Error(Code::kDenied, "job " + to_text(selector) + " belongs to another user");
  if (change == Change::kRequeue) {
    std::uint64_t count = 0;
    for (auto it = runs_.lower_bound(job->number(one.value_or(0))); it != runs_.end(); ++it) {
      if (it->second.job != job->id || (one && it->second.rank != *one)) break;
      if (!selector.indexes.empty() &&
          !IndexSet::parse(selector.indexes)->contains(job->array ? job->array->index(it->second.rank) : 0))
        continue;
      it->second.requeue_asked = true;
      Kill kill;
      kill.agent = it->second.agents.front(), kill.task = it->second.task;
      out_->session.push_back(KillTask{kill});
      ++count;
    }
    if (count == 0) return Error(Code::kInvalid, "job " + to_text(selector) + " is not running");
    return count;
  }
  if (one || !selector.indexes.empty())
    return Error(Code::kUnsupported, "single tasks of an array cannot be held or released; name the array");
  if (!job->waiting()) return Error(Code::kInvalid, "job " + to_text(selector) + " is not pending");
  const bool hold = change == Change::kHold;
  if (!hold && job->held_admin && !caller.admin)
    return Error(Code::kDenied, "job " + to_text(selector) + " is held by an operator");
  if (hold && caller.admin && caller.uid != job->spec->uid)
    job->held_admin = true;
  else if (hold)
    job->held = true;
  else
    job->held = job->held_admin = false;
  pending.records.push_back(encode(Record(ChangeRecord{job->id, job->held, job->held_admin})));
  out_->append(Safety::kPower, pending.records.back());
  qualify(*job);
  return std::uint64_t{1};
}

void Batch::handle(const Asker& asker, const Who& caller, const ChangeRequest& request) {
  ChangeReply reply;
  if (request.jobs.empty() && request.filter.empty()) {
    reply.code = Code::kInvalid, reply.reason = "name jobs, or say which by user, name or state";
    return answer(asker, std::move(reply));
  }
  Pending pending;
  const bool named = !request.jobs.empty();
  for (const JobSelector& selector : named ? request.jobs : select(request.filter)) {
    auto count = change_one(caller, selector, request.change, pending);
    if (count)
      reply.count += *count;
    else if (named)
      reply.items.push_back({selector, count.error().code(), count.error().text()});
  }
  if (!pending.records.empty()) {
    pending.on_failure.emplace_back(asker, reply);
    pending_[out_->ticket] = std::move(pending);
  }
  answer(asker, std::move(reply));
}

}  // namespace bourse::batch
