// Clients that wait for something: watches and steps, and what becomes of those whose client has gone. And the reload.
#include <algorithm>
#include <csignal>

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
  if (peers.empty()) return;
  for (PeerId peer : peers) answer({peer, 0}, JobChanged{});
  probe_soon();
}

void Batch::on(const PeerLost& e) {
  if (watch_counts_.erase(e.peer) > 0)
    for (auto it = watches_.begin(); it != watches_.end();)
      it = it->second.asker.peer == e.peer ? watches_.erase(it) : std::next(it);
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

// Checked by main. What runs and what is offered stays; the next pass asks the new one.
void Batch::use_policy(const Result<policy::Choice>& choice) {
  const Result<> taken = choice ? order_.use(*choice) : Result<>(choice.error());
  if (!taken) {
    out_->log(
        log_text(LogLevel::kError, "policy_refused", {{"reason", taken.error().text()}, {"then", "going on with the former one"}}));
    return;
  }
  out_->log(log_text(LogLevel::kInfo, "policy_changed", {{"policy", order_.in_force()}}));
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

// --- step ----------------------------------------------------------------------------------------------------------

void Batch::handle(const Asker& asker, const Who& caller, const StepRequest& request) {
  auto refuse = [&](Code code, std::string reason) { answer(asker, StepReply{code, std::move(reason), 0, 0}); };
  std::optional<std::uint64_t> rank;
  Job* job = jobs_.find_number(request.job.job.value, rank);
  if (job != nullptr && !request.job.indexes.empty() && job->array)
    if (auto set = IndexSet::parse(request.job.indexes); set && set->size() == 1) rank = job->array->rank(set->min());
  auto it = job == nullptr ? runs_.end() : runs_.find(job->number(rank.value_or(0)));
  if (it == runs_.end()) return refuse(Code::kNotFound, "job " + to_text(request.job) + " is not running");
  if (!may_touch(caller, *job)) return refuse(Code::kDenied, "job " + to_text(request.job) + " belongs to another user");
  if (request.argv.empty()) return refuse(Code::kInvalid, "no command");
  if (!connected_) return refuse(Code::kBusy, "not connected to a master: " + down_reason_);
  if (steps_.size() >= kStepsMax) return refuse(Code::kLimit, "too many steps run at once");
  Run& run = it->second;
  std::size_t node = 0;
  if (!request.node.empty()) {
    while (node < run.agents.size() && run.agents[node].str() != request.node) ++node;
    // Names may be short on one side: the part before the first dot decides then.
    const auto short_name = [](const std::string& s) { return s.substr(0, s.find('.')); };
    if (node == run.agents.size())
      for (node = 0; node < run.agents.size() && short_name(run.agents[node].str()) != short_name(request.node);) ++node;
  }
  if (node >= run.agents.size() || node >= run.slices.size())
    return refuse(Code::kNotFound, "job " + to_text(request.job) + " has no node " + request.node);
  const auto spec = decode_spec(job->spec->bytes);
  if (!spec) return refuse(Code::kCorrupt, spec.error().text());
  LaunchTask command;
  command.agent = run.agents[node], command.slice = run.slices[node];
  const bool keyed = !request.key.empty();
  if (keyed && (request.key.size() > kStepKeyBytesMax ||
                request.key.find_first_not_of("0123456789abcdefghijklmnopqrstuvwxyz-") != std::string::npos))
    return refuse(Code::kInvalid, "a step's key is at most " + std::to_string(kStepKeyBytesMax) + " letters, digits and hyphens");
  command.task = TaskId(run.task.str() + ".s" + (keyed ? "-" + request.key : std::to_string(run.next_step++)));
  if (auto known = steps_.find(command.task); known != steps_.end()) {  // its client lost the connection and asks again
    known->second.asker = asker;
    return;
  }
  TaskSpec& task = command.spec;
  task.user = spec->user, task.uid = static_cast<std::uint32_t>(spec->uid), task.gid = static_cast<std::uint32_t>(spec->gid);
  task.argv = request.argv;
  task.env = request.env;
  // Where it is differs from where the command that asked for it is.
  const std::vector<std::pair<std::string, std::string>> here = {{"SLURMD_NODENAME=", run.agents[node].str()},
                                                                 {"SLURM_NODEID=", std::to_string(node)},
                                                                 {"SUBMIT_NODEID=", std::to_string(node)}};
  for (const auto& [name, value] : here) {
    std::erase_if(task.env, [&](const std::string& word) { return word.starts_with(name); });
    task.env.push_back(name + value);
  }
  task.directory = request.directory.empty() ? spec->directory : request.directory;
  task.stdin_path = request.stdin_path, task.stdout_path = request.stdout_path, task.stderr_path = request.stderr_path;
  if (task.stdout_path.empty() || task.stderr_path.empty()) {
    const OutputNames names = output_names(*spec, placement_of(*job, run));
    if (task.stdout_path.empty()) task.stdout_path = names.out;
    if (task.stderr_path.empty()) task.stderr_path = names.error;
  }
  task.append_output = true;
  task.umask = spec->umask;
  task.isolate = spec->isolate;  // not the container: what is asked for here is a program of the host, such as an MPI's daemon
  task.kill_grace = options_.kill_grace;
  ++run.steps;
  steps_[command.task] = {asker, it->first, command.agent};
  probe_soon();
  out_->session.push_back(std::move(command));
}

void Batch::step_update(const TaskUpdate& e) {
  if (!is_terminal(e.status.state)) return;
  auto it = steps_.find(e.status.task);
  if (it == steps_.end()) return;
  StepReply reply;
  reply.exit_code = e.status.exit_code, reply.exit_signal = e.status.signal;
  reply.reason = e.status.message;
  if (e.status.state == TaskState::kFailedStart || e.status.state == TaskState::kNeverStarted)
    reply.code = Code::kIo;
  else if (e.status.state != TaskState::kExited && reply.exit_signal == 0)
    reply.exit_signal = SIGKILL;
  answer(it->second.asker, std::move(reply));
  if (auto run = runs_.find(it->second.run); run != runs_.end() && run->second.steps > 0) --run->second.steps;
  steps_.erase(it);
}

}  // namespace bourse::batch
