#include "frameworks/api/task_table.h"

#include <utility>

#include "common/core/hooks.h"

namespace bourse::api {

TaskTable::Entry& TaskTable::put(const TaskId& task, const AgentId& agent, const SliceId& slice) {
  Entry& entry = tasks_[task];
  if (entry.agent != agent) {
    if (auto old = by_agent_.find(entry.agent); old != by_agent_.end()) {
      old->second.erase(task);
      if (old->second.empty()) by_agent_.erase(old);
    }
    entry.agent = agent;
    by_agent_[agent].insert(task);
  }
  if (slice.number != 0) entry.slice = slice;
  return entry;
}

TaskTable::Entry* TaskTable::find(const TaskId& task) {
  auto it = tasks_.find(task);
  return it == tasks_.end() ? nullptr : &it->second;
}

void TaskTable::erase(const TaskId& task) {
  auto it = tasks_.find(task);
  if (it == tasks_.end()) return;
  if (it->second.waiting) {
    std::string trace;
    (void)sent(task, trace);
  }
  if (auto agent = by_agent_.find(it->second.agent); agent != by_agent_.end()) {
    agent->second.erase(task);
    if (agent->second.empty()) by_agent_.erase(agent);
  }
  tasks_.erase(it);
}

void TaskTable::told(const TaskId& task) {
  erase(task);
  if (!told_.insert(task).second) return;
  told_order_.push_back(task);
  if (told_order_.size() <= kToldMax) return;
  told_.erase(told_order_.front());
  told_order_.pop_front();
}

bool TaskTable::was_told(const TaskId& task) const { return told_.contains(task) && !hooks::mutant("client.end_is_forgotten"); }

void TaskTable::wait(const TaskId& task, Blob payload, std::string trace) {
  Entry& entry = tasks_.at(task);
  entry.waiting = true;
  entry.payload = std::move(payload);
  entry.trace = std::move(trace);
  waiting_by_slice_[entry.slice].push_back(task);
  ++waiting_;
}

Launch TaskTable::sent(const TaskId& task, std::string& trace) {
  Entry& entry = tasks_.at(task);
  auto it = waiting_by_slice_.find(entry.slice);
  if (it->second.front() == task)  // the common case, and what keeps a long queue linear
    it->second.pop_front();
  else
    std::erase(it->second, task);
  if (it->second.empty()) waiting_by_slice_.erase(it);
  --waiting_;
  entry.waiting = false;
  trace = std::exchange(entry.trace, {});
  return {entry.agent, entry.slice, task, std::exchange(entry.payload, {})};
}

std::vector<TaskId> TaskTable::waiting_in(const SliceId& slice) const {
  auto it = waiting_by_slice_.find(slice);
  if (it == waiting_by_slice_.end()) return {};
  return {it->second.begin(), it->second.end()};
}

std::vector<SliceId> TaskTable::waiting_slices() const {
  std::vector<SliceId> slices;
  for (const auto& [slice, tasks] : waiting_by_slice_) slices.push_back(slice);
  return slices;
}

void TaskTable::session_lost() {
  for (auto& [task, entry] : tasks_) entry.confirmed = false;
}

void TaskTable::doubt(const AgentId& agent, const SliceId& slice) {
  auto it = by_agent_.find(agent);
  if (it == by_agent_.end()) return;
  for (const TaskId& task : it->second) {
    Entry& entry = tasks_.at(task);
    if (entry.slice == slice) entry.confirmed = false;
  }
}

std::vector<TaskId> TaskTable::on(const AgentId& agent) const {
  std::vector<TaskId> tasks;
  if (auto it = by_agent_.find(agent); it != by_agent_.end())
    for (const TaskId& task : it->second)
      if (!tasks_.at(task).waiting) tasks.push_back(task);
  return tasks;
}

std::set<AgentId> TaskTable::agents() const {
  std::set<AgentId> agents;
  for (const auto& [agent, tasks] : by_agent_) agents.insert(agent);
  return agents;
}

std::set<AgentId> TaskTable::unconfirmed_agents(std::uint64_t before_round) const {
  std::set<AgentId> agents;
  for (const auto& [task, entry] : tasks_)
    if (!entry.confirmed && !entry.waiting && entry.round < before_round) agents.insert(entry.agent);
  return agents;
}

}  // namespace bourse::api
