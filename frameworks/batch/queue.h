// Pending jobs that may start, in order: highest priority first, then lowest id.
//
// Jobs that are alike to the scheduler (same layout, user and time limit) form a class; a pass looks at the first job of each class,
// because where that one does not fit its followers do not either. So a pass costs classes, not jobs. Owned by Batch.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "frameworks/batch/jobs.h"

namespace bourse::batch {

class Queue {
 public:
  struct Key {
    std::int64_t minus_priority = 0;
    JobId job;
    auto operator<=>(const Key&) const = default;
  };
  struct ClassKey {
    std::uint32_t layout = 0, uid = 0;
    Duration limit{0};
    auto operator<=>(const ClassKey&) const = default;
  };
  struct Class {
    ClassKey key;
    std::set<Key> jobs;
    std::uint64_t tasks = 0;  // that could start
  };

  // `tasks`: how many of it could start now; 0 removes it. Sets job.queued.
  void put(Job& job, std::uint64_t tasks);
  void remove(Job& job) { put(job, 0); }
  [[nodiscard]] bool empty() const { return order_.empty(); }
  [[nodiscard]] std::size_t jobs() const { return jobs_; }
  [[nodiscard]] std::uint64_t tasks() const { return tasks_; }
  // Classes by their first job.
  [[nodiscard]] const std::map<Key, Class*>& order() const { return order_; }
  // In order over all classes, from after `after`; for people.
  [[nodiscard]] std::vector<JobId> page(const Key& after, std::size_t limit) const;
  [[nodiscard]] std::uint64_t position(const Job& job) const;   // from 1; counts, so O(jobs ahead of it)
  [[nodiscard]] const Class* find(const ClassKey& key) const {  // null: none of it waits
    const auto it = classes_.find(key);
    return it == classes_.end() ? nullptr : &it->second;
  }
  // Classes of which something has changed since the last time, for who keeps an order of his own. All, when tracking begins.
  void track(bool on);
  std::set<ClassKey> take_changed() { return std::exchange(changed_, {}); }
  [[nodiscard]] static Key key_of(const Job& job) { return {-job.rank_priority, job.id}; }
  [[nodiscard]] static ClassKey class_of(const Job& job) { return {job.layout, job.spec->uid, job.spec->limit}; }

 private:
  std::map<ClassKey, Class> classes_;
  std::map<Key, Class*> order_;
  std::set<ClassKey> changed_;
  bool tracked_ = false;
  std::size_t jobs_ = 0;
  std::uint64_t tasks_ = 0;
};

}  // namespace bourse::batch
