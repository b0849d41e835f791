// Clients that wait for something, what becomes of it when they have gone, and their watches. And the reload.
#include <algorithm>

#include "common/core/hooks.h"
#include "common/world/log.h"
#include "frameworks/batch/batch.h"
#include "frameworks/batch/options.h"

namespace bourse::batch {

// --- who is still there ------------------------------------------------------------------------------------------------

// A client that has gone says nothing, and the socket tells only when something is sent. So each one that waits for something is
// sent an empty answer now and then, which it passes over.
void Batch::probe_soon() {
  if (std::exchange(probe_armed_, true)) return;
  out_->arm({kProbePeers, 0, {}}, kProbeEvery);
}

void Batch::probe_peers() {
  probe_armed_ = false;
  std::set<PeerId> peers;
  for (const auto& [peer, count] : watch_counts_) peers.insert(peer);
  for (const auto& [task, step] : steps_) peers.insert(step.asker.peer);
  for (const auto& [run, share] : step_shares_)
    for (const auto& [asker, request] : share.waiting) peers.insert(asker.peer);
  if (peers.empty()) return;
  for (PeerId peer : peers) answer({peer, 0}, JobChanged{});
  probe_soon();
}

void Batch::on(const PeerLost& e) {
  if (watch_counts_.erase(e.peer) > 0)
    for (auto it = watches_.begin(); it != watches_.end();)
      it = it->second.asker.peer == e.peer ? watches_.erase(it) : std::next(it);
  for (auto it = step_shares_.begin(); it != step_shares_.end();) {
    std::erase_if(it->second.waiting, [&](const auto& waiting) { return waiting.first.peer == e.peer; });
    it = it->second.idle() ? step_shares_.erase(it) : std::next(it);
  }
  // As with ssh: a command does not outlive the one who asked for it and waits. The step itself is forgotten when it has ended.
  for (const auto& [task, step] : steps_) {
    if (step.asker.peer != e.peer) continue;
    Kill kill;
    kill.agent = step.agent, kill.task = task;
    out_->session.push_back(KillTask{kill});
  }
}

// --- configuration -------------------------------------------------------------------------------------------------

void Batch::on(const Reload& e) {
  constexpr std::string_view kShadows = "shadow_policy=";
  if (e.config.starts_with(kShadows)) return use_shadows(std::string_view(e.config).substr(kShadows.size()));
  if (const auto choice = policy::reloaded(e.config, options_.policies)) return use_policy(*choice);
  BatchOptions next = options_;
  if (auto taken = take_live(e.config, next); !taken) {
    out_->log(log_text(LogLevel::kError, "reload_refused", {{"reason", taken.error().text()}}));
    return;
  }
  const bool limits = next.default_time_limit != options_.default_time_limit || next.max_time_limit != options_.max_time_limit;
  const bool memory = next.default_mem_per_cpu != options_.default_mem_per_cpu;
  options_ = std::move(next);
  // Jobs that wait are judged by the new limits, as after a restart; they leave the queue for that, since it keeps them by what they
  // need. Those that run keep what they were started with.
  if (limits || memory) {
    std::vector<JobId> queued;
    for (auto& [id, job] : jobs_.all()) {
      if (job.queued == 0) continue;
      queued.push_back(id);
      queue_.remove(job);
    }
    jobs_.reconsider(options_);
    for (JobId id : queued)
      if (Job* job = jobs_.find(id)) qualify(*job);
  }
  dirty_ = true;
}

// --- candidates for the policy -----------------------------------------------------------------------------------------

// Checked by main.
void Batch::use_shadows(std::string_view specs) {
  std::vector<policy::Choice> candidates;
  while (!specs.empty() && candidates.size() < kShadowsMax) {
    const std::string_view spec = specs.substr(0, specs.find('\n'));
    specs.remove_prefix(std::min(specs.size(), spec.size() + 1));
    const policy::Catalog none;
    auto choice = (options_.policies != nullptr ? *options_.policies : none).find(spec);
    if (choice) candidates.push_back(*std::move(choice));
  }
  shadow_.use(std::move(candidates));
  shadows_soon();
}

void Batch::shadows_soon() {
  if (!shadow_.any() || std::exchange(shadow_armed_, true)) return;
  out_->arm({kShadow, 0, {}}, options_.shadow_every);
}

void Batch::compare_shadows() {
  shadow_armed_ = false;
  if (!shadow_.any()) return;
  std::vector<JobOrder::Waiting> waiting;
  for (const JobId id : queue_.page({INT64_MIN, JobId()}, kShadowJobsMax / 2)) {
    const Job& job = *jobs_.find(id);
    JobOrder::Waiting facts;
    facts.user = job.spec->uid, facts.priority = job.rank_priority, facts.submitted = job.submitted, facts.limit = job.spec->limit;
    facts.need = &layouts_.at(job.layout).need;
    const std::uint64_t tasks = job.array ? std::min<std::uint64_t>(job.array->waiting(), kShadowJobsMax / 2) : 1;
    const std::uint64_t first = job.number(job.array ? job.array->next().value_or(0) : 0);
    for (std::uint64_t i = 0; i < tasks && waiting.size() < kShadowJobsMax / 2; ++i) {
      facts.number = first + i;
      waiting.push_back(facts);
    }
  }
  const Shadow::Settings settings{order_.choice(), options_.backfill, options_.backfill_depth, options_.policy_budget,
                                  options_.policy_guard};
  if (shadow_.compare(now_.wall, settings, alloc_, waiting))
    for (const ShadowFinding& found : shadow_.findings())
      out_->log(log_text(LogLevel::kInfo, "shadow", {{"live", order_.in_force()}, {"candidate", text_of(found)}}));
  shadows_soon();
}

// --- what a policy has learnt --------------------------------------------------------------------------------------------

void Batch::load_learnt() {
  const std::string name = order_.policy();
  const auto known = learnt_.find(name);
  const std::string& state = known != learnt_.end() ? known->second : options_.policy_learnt;
  if (state.empty() || hooks::mutant("batch.forgets_what_was_learnt")) return;
  const bool taken = order_.load(state);
  out_->log(log_text(taken ? LogLevel::kInfo : LogLevel::kWarn, taken ? "policy_learnt" : "policy_learnt_refused",
                     {{"policy", name},
                      {"from", known != learnt_.end() ? "the store" : "batch.policy_learnt"},
                      {"bytes", std::to_string(state.size())}}));
}

void Batch::keep_learnt() {
  if (now_.mono - learnt_at_ < kKeepLearnt) return;
  learnt_at_ = now_.mono;
  std::string state = order_.learnt();
  std::string& known = learnt_[order_.policy()];
  if (state.empty() || state == known) return;
  learnt_record_ = encode(Record(LearntRecord{order_.policy(), state}));
  known = std::move(state);
  flush_later();
}

// Checked by main. What runs and what is offered stays; the next pass asks the new one.
void Batch::use_policy(const Result<policy::Choice>& choice) {
  learnt_at_ = -kKeepLearnt;
  keep_learnt();
  const std::string former = order_.policy();
  const Result<> taken = choice ? order_.use(*choice) : Result<>(choice.error());
  if (!taken) {
    out_->log(
        log_text(LogLevel::kError, "policy_refused", {{"reason", taken.error().text()}, {"then", "going on with the former one"}}));
    return;
  }
  out_->log(log_text(LogLevel::kInfo, "policy_changed", {{"policy", order_.in_force()}}));
  if (order_.policy() != former) load_learnt();
  dirty_ = true;
  demand_soon(true);
}

// --- watch ---------------------------------------------------------------------------------------------------------

void Batch::handle(const Asker& asker, const Who&, const WatchRequest& request) {
  for (const JobSelector& selector : request.jobs) {
    JobChanged first;
    first.asked = selector;
    std::optional<std::uint64_t> rank;
    Job* job = jobs_.find_number(selector.job.value, rank);
    if (job == nullptr) {
      first.code = Code::kNotFound, first.reason = "there is no job " + to_text(selector) + " that has not ended",
      first.last = true;
      answer(asker, std::move(first));
      continue;
    }
    const auto mine = watch_counts_.find(asker.peer);
    const bool all_full = watches_.size() >= kWatchesTotalMax;
    if (all_full || (mine != watch_counts_.end() && mine->second >= kWatchesMax)) {
      first.code = Code::kLimit, first.last = true;
      first.reason = all_full ? "too many jobs are watched at this time; try again" : "this client watches too many jobs";
      answer(asker, std::move(first));
      continue;
    }
    ++watch_counts_[asker.peer];
    watches_.emplace(job->id, Watch{asker, selector});
    probe_soon();
    JobFilter filter;
    filter.jobs = {selector};
    std::vector<JobInfo> rows;
    rows_of(*job, filter, true, false, 1, rows);
    first.job = rows.empty() ? base_info(*job, false) : rows.front();
    answer(asker, std::move(first));
  }
}

// `job_over`: nothing of the job is left; `info` is then its last task's.
void Batch::changed(const JobInfo& info, JobId job, bool job_over) {
  for (auto [it, end] = watches_.equal_range(job); it != end;) {
    const Watch& watch = it->second;
    const bool single = !watch.asked.indexes.empty() || watch.asked.job != job;
    const bool one_of_many = !single && !job_over && info.array.value != 0;  // who watches a whole array waits for its end
    const bool mine = !single || watch.asked.job == info.id || watch.asked.indexes == info.indexes;
    if (one_of_many || (!mine && !job_over)) {
      ++it;
      continue;
    }
    JobChanged change;
    change.asked = watch.asked;
    change.job = info;
    if (!single && job_over && info.array.value != 0) {
      // The worst of a whole array.
      change.job.id = job;
      change.job.indexes.clear();
      const bool ok = outcomes_.find(job.value).value_or(false);
      if (!ok && info.state == JobState::kCompleted)
        change.job.state = JobState::kFailed, change.job.exit_code = 1, change.job.reason = Reason::kNonZeroExit;
    }
    change.last = job_over || (single && mine && is_terminal(info.state));
    const bool last = change.last;
    answer(watch.asker, std::move(change));
    if (last && --watch_counts_[watch.asker.peer] == 0) watch_counts_.erase(watch.asker.peer);
    it = last ? watches_.erase(it) : std::next(it);
  }
}

}  // namespace bourse::batch
