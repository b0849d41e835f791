#include "frameworks/batch/queue.h"

#include <algorithm>
#include <queue>

namespace bourse::batch {

void Queue::put(Job& job, std::uint64_t tasks) {
  if (job.queued == tasks) return;
  const Key key = key_of(job);
  auto it = classes_.try_emplace(class_of(job), Class{class_of(job), {}, 0}).first;
  Class& c = it->second;
  if (tracked_) changed_.insert(it->first);
  const bool had_first = !c.jobs.empty();
  const Key first = had_first ? *c.jobs.begin() : Key{};
  if (job.queued == 0) {
    c.jobs.insert(key);
    ++jobs_;
  } else if (tasks == 0) {
    BOURSE_ASSERT(c.jobs.erase(key) == 1, std::to_string(job.id.value));
    --jobs_;
  }
  c.tasks += tasks - job.queued;
  tasks_ += tasks - job.queued;
  job.queued = tasks;
  if (had_first && (c.jobs.empty() || *c.jobs.begin() != first)) order_.erase(first);
  if (!c.jobs.empty())
    order_.insert_or_assign(*c.jobs.begin(), &c);
  else
    classes_.erase(it);
}

void Queue::track(bool on) {
  changed_.clear();
  tracked_ = on;
  if (on)
    for (const auto& [key, c] : classes_) changed_.insert(key);
}

std::vector<JobId> Queue::page(const Key& after, std::size_t limit) const {
  // Merge of the classes' sets.
  using Cursor = std::pair<std::set<Key>::const_iterator, const Class*>;
  auto later = [](const Cursor& a, const Cursor& b) { return *b.first < *a.first; };
  std::priority_queue<Cursor, std::vector<Cursor>, decltype(later)> heap(later);
  for (const auto& [key, c] : classes_)
    if (auto it = c.jobs.upper_bound(after); it != c.jobs.end()) heap.push({it, &c});
  std::vector<JobId> out;
  while (!heap.empty() && out.size() < limit) {
    auto [it, c] = heap.top();
    heap.pop();
    out.push_back(it->job);
    if (++it != c->jobs.end()) heap.push({it, c});
  }
  return out;
}

std::uint64_t Queue::position(const Job& job) const {
  if (job.queued == 0) return 0;
  const Key key = key_of(job);
  std::uint64_t ahead = 0;
  for (const auto& [class_key, c] : classes_)
    for (const Key& k : c.jobs) {
      if (!(k < key)) break;
      ++ahead;
    }
  return ahead + 1;
}

}  // namespace bourse::batch
