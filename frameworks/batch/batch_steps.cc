// Steps: commands run inside a running job's slices, beside its script, for `bourse step`, srun, and mpirun by way of bourse-rsh.
//
// A step that names an amount of cores (srun --exact) counts with it, and waits in the order of asking until the cores of its host, or
// where it names none of any host of the job, are free of other such steps. One that names none runs at once and counts nothing.
#include <algorithm>
#include <csignal>

#include "common/core/hooks.h"
#include "frameworks/batch/batch.h"
#include "frameworks/batch/environment.h"

namespace bourse::batch {
namespace {

// The node of that name; nodes.size(): none. Names may be short on one side: the part before the first dot decides then.
std::size_t find_node(const std::vector<AgentId>& nodes, const std::string& name) {
  const auto short_name = [](const std::string& s) { return s.substr(0, s.find('.')); };
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (nodes[i].str() == name) return i;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (short_name(nodes[i].str()) == short_name(name)) return i;
  return nodes.size();
}

}  // namespace

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
  if (!request.key.empty() && (request.key.size() > kStepKeyBytesMax ||
                               request.key.find_first_not_of("0123456789abcdefghijklmnopqrstuvwxyz-") != std::string::npos))
    return refuse(Code::kInvalid, "a step's key is at most " + std::to_string(kStepKeyBytesMax) + " letters, digits and hyphens");
  Run& run = it->second;
  const std::size_t nodes = std::min(run.agents.size(), run.slices.size());
  std::size_t node = request.node.empty() ? 0 : find_node(run.agents, request.node);
  if (node >= nodes) return refuse(Code::kNotFound, "job " + to_text(request.job) + " has no node " + request.node);
  if (!request.key.empty()) {
    if (auto known = steps_.find(step_id(run, request.key));
        known != steps_.end()) {  // its client lost the connection and asks again
      known->second.asker = asker;
      return;
    }
  }
  if (request.cpus <= MilliCpus(0)) return start_step(asker, it->first, node, request);

  MilliCpus most;
  for (std::size_t n = 0; n < nodes; ++n)
    if (request.node.empty() || n == node) most = std::max(most, cores_of(run, n));
  if (request.cpus > most)
    return refuse(Code::kInvalid, "it asks for " + format_cpus(request.cpus) + " cores, and the job has " + format_cpus(most) +
                                      (request.node.empty() ? " on a host" : " on " + request.node));
  StepShare& share = step_shares_[it->first];
  if (share.waiting.size() >= kStepsMax) return refuse(Code::kLimit, "too many steps wait for this job's cores");
  share.waiting.emplace_back(asker, request);
  probe_soon();
  start_waiting_steps(it->first);
}

MilliCpus Batch::cores_of(const Run& run, std::size_t node) {
  const Slice* slice = alloc_.find(run.slices[node]);
  return slice == nullptr ? MilliCpus(0) : slice->amount.cpus;
}

// In the order of asking: what waits for one host does not hold up what wants another.
void Batch::start_waiting_steps(std::uint64_t number) {
  const auto it = step_shares_.find(number);
  const auto run = runs_.find(number);
  if (it == step_shares_.end() || run == runs_.end()) return;
  StepShare& share = it->second;
  const std::size_t nodes = std::min(run->second.agents.size(), run->second.slices.size());
  share.used.resize(std::max(share.used.size(), nodes));
  std::vector<bool> closed(nodes, false);
  for (auto waiting = share.waiting.begin(); waiting != share.waiting.end();) {
    const StepRequest& request = waiting->second;
    const std::size_t named = request.node.empty() ? nodes : find_node(run->second.agents, request.node);
    std::size_t node = nodes;
    for (std::size_t n = 0; n < nodes && node == nodes; ++n)
      if ((request.node.empty() || n == named) && !closed[n] &&
          share.used[n] + request.cpus.value <= cores_of(run->second, n).value)
        node = n;
    if (node == nodes && !hooks::mutant("batch.steps_pass_each_other")) {
      for (std::size_t n = 0; n < nodes; ++n)
        if (request.node.empty() || n == named) closed[n] = true;
    }
    if (node == nodes) {
      ++waiting;
      continue;
    }
    const auto [asker, started] = std::move(*waiting);
    waiting = share.waiting.erase(waiting);
    share.used[node] += started.cpus.value;
    start_step(asker, number, node, started);
  }
}

TaskId Batch::step_id(Run& run, const std::string& key) {
  return TaskId(run.task.str() + ".s" + (key.empty() ? std::to_string(run.next_step++) : "-" + key));
}

void Batch::start_step(const Asker& asker, std::uint64_t number, std::size_t node, const StepRequest& request) {
  Run& run = runs_.at(number);
  const Job& job = *jobs_.find(run.job);
  const auto spec = decode_spec(job.spec->bytes);
  BOURSE_ASSERT(spec, "our own record");
  LaunchTask command;
  command.agent = run.agents[node], command.slice = run.slices[node];
  command.task = step_id(run, request.key);
  TaskSpec& task = command.spec;
  task.user = spec->user, task.uid = static_cast<std::uint32_t>(spec->uid), task.gid = static_cast<std::uint32_t>(spec->gid);
  task.argv = request.argv;
  task.env = request.env;
  task.credential = request.credential;
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
    const OutputNames names = output_names(*spec, placement_of(job, run));
    if (task.stdout_path.empty()) task.stdout_path = names.out;
    if (task.stderr_path.empty()) task.stderr_path = names.error;
  }
  task.append_output = true;
  task.umask = spec->umask;
  task.isolate = spec->isolate;  // not the container: what is asked for here is a program of the host, such as an MPI's daemon
  task.kill_grace = options_.kill_grace;
  ++run.steps;
  steps_[command.task] = {asker, number, command.agent, node, request.cpus};
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
  const Step step = it->second;
  steps_.erase(it);
  if (auto run = runs_.find(step.run); run != runs_.end() && run->second.steps > 0) --run->second.steps;
  if (step.cpus <= MilliCpus(0)) return;
  const auto share = step_shares_.find(step.run);
  if (share == step_shares_.end()) return;
  if (step.node < share->second.used.size()) share->second.used[step.node] -= step.cpus.value;
  if (share->second.idle())
    step_shares_.erase(share);
  else
    start_waiting_steps(step.run);
}

// Its job has ended: nothing of it starts any more.
void Batch::refuse_waiting_steps(std::uint64_t number) {
  const auto it = step_shares_.find(number);
  if (it == step_shares_.end()) return;
  for (const auto& [asker, request] : it->second.waiting)
    answer(asker, StepReply{Code::kGone, "job " + to_text(request.job) + " has ended before its cores were free", 0, 0});
  step_shares_.erase(it);
}

}  // namespace bourse::batch
