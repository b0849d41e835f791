// After a restart: what do the agents have? A hint record says where a task was sent, but the last hints before a crash may be
// missing, so every job that had not ended is suspect until every agent has been asked.
//
// An agent's stream has no end mark for "that was all". Hence each agent is asked twice, each time with a task id that nobody ever
// launched: the answer to the second one comes, in order, after everything that the first question brought up.
#include <algorithm>

#include "common/core/hooks.h"
#include "common/world/log.h"
#include "frameworks/batch/batch.h"

namespace bourse::batch {
namespace {

constexpr std::uint32_t kRounds = 2;

// Another one for each agent: a task is on one agent only, and the client asks no second one about it.
TaskId sentinel(Incarnation incarnation, std::uint32_t round, Planner::Node node) {
  if (hooks::mutant("batch.one_sentinel_for_all")) node = 0;
  return TaskId("recover." + std::to_string(incarnation.value) + "." + std::to_string(round) + "." + std::to_string(node));
}

}  // namespace

void Batch::ask_agent(const AgentId& agent) {
  if (!asked_.try_emplace(agent, 0).second) return;
  std::vector<TaskId> tasks;
  if (auto it = recovered_on_.find(agent); it != recovered_on_.end()) tasks = it->second;
  tasks.push_back(sentinel(incarnation_, 1, alloc_.node(agent)));
  out_->session.push_back(ReconcileTasks{agent, std::move(tasks)});
}

void Batch::agent_answered(const AgentId& agent, std::uint32_t round) {
  auto it = asked_.find(agent);
  if (it == asked_.end() || it->second >= round) return;
  it->second = round;
  if (round < kRounds)
    out_->session.push_back(ReconcileTasks{agent, {sentinel(incarnation_, round + 1, alloc_.node(agent))}});
  else
    check_recovery(false);
}

void Batch::check_recovery(bool late) {
  if (!recovering_ || !alloc_.seen_agents()) return;
  std::string silent;
  for (const auto& [agent, facts] : alloc_.agents()) {
    auto it = asked_.find(agent);
    if (it != asked_.end() && it->second >= kRounds) continue;
    if (!late) return;
    silent += (silent.empty() ? "" : ",") + agent.str();
  }
  recovering_ = false;
  out_->disarm({kRecovery, 0, {}});
  if (!silent.empty())
    out_->log(log_text(
        LogLevel::kWarn, "agents_silent",
        {{"agents", silent}, {"what", "jobs that they may run are started as a new attempt; an old one that turns up is ended"}}));
  for (auto& [id, job] : jobs_.all()) {
    if (!job.suspect) continue;
    job.suspect = false;
    job.doubt = !silent.empty();
    qualify(job);
  }
  std::vector<SliceId> unclaimed;
  for (const auto& [id, slice] : alloc_.slices())
    if (slice.foreign && !slice.releasing) unclaimed.push_back(id);
  for (const SliceId& id : unclaimed) release(*alloc_.find(id), Duration{0});
  dirty_ = true;
  demand_soon();
}

// Jobs that left the number of nodes to us are spread anew.
void Batch::relayout() {
  std::vector<JobId> jobs;
  for (const auto& [key, c] : queue_.order()) {
    if (!layouts_.at(c->key.layout).depends_on_agents) continue;
    for (const Queue::Key& k : c->jobs) jobs.push_back(k.job);
  }
  for (JobId id : jobs) {
    Job& job = *jobs_.find(id);
    queue_.remove(job);
    qualify(job);
  }
}

}  // namespace bourse::batch
