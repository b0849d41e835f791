// In which order batch looks at its queue: as it stands (fifo), or as another policy says. Owned by Batch.
//
// To a policy a claimant is a class of alike jobs, shown by its first, with the number of the task that would start next; when that has
// started, or when all jobs are asked for, it is shown by the one after it, and the walk meets it again where that one ranks. So the
// order is that of single jobs for every policy that, of alike jobs of one user, takes the one that came first.
// fifo is not asked at all: a walk over the queue as it stands costs what it gives.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "frameworks/batch/allocations.h"
#include "frameworks/batch/job_order.h"
#include "frameworks/batch/jobs.h"
#include "frameworks/batch/queue.h"
#include "frameworks/batch/shadow.h"

namespace bourse::batch {

class ClassOrder {
 public:
  // All outlive this. `options.policy` must be one that usable() takes: a bug else.
  ClassOrder(const BatchOptions& options, Queue& queue, Jobs& jobs, const LayoutPool& layouts, const Allocations& allocations,
             Shadow& shadow, std::function<void(std::string line)> log);

  // kInvalid: it gives no order, it only places.
  static Result<> usable(const policy::Choice& choice);
  // Another policy, between two events. An error changes nothing.
  Result<> use(const policy::Choice& choice);
  [[nodiscard]] bool plain() const { return plain_; }
  [[nodiscard]] const policy::Choice& choice() const { return order_->host().choice(); }
  [[nodiscard]] std::string policy() const { return order_->host().choice().spec.name; }
  [[nodiscard]] std::string learnt() { return order_->host().save(); }  // "": nothing
  bool load(std::string_view learnt) { return order_->host().load(learnt); }
  [[nodiscard]] std::string in_force() const { return order_->host().in_force(); }

  // A walk. kClass: the first job of each class, and the next one after again(); kJob: all jobs, `most` of them at most.
  enum class Each : std::uint8_t { kClass, kJob };
  void begin(Time now, Each each = Each::kClass, std::size_t most = SIZE_MAX);
  Job* next();   // null: that was all
  void again();  // what was given last has started, or has left the queue: its class has another to show
  std::vector<JobId> page(Time now, std::size_t offset, std::size_t limit);
  std::uint64_t position(Time now, const Job& job);  // from 1; 0: it is not in the queue

  void started(std::uint64_t number, const Job& job, Duration wall);  // while it is still in the queue, if it was
  void ended(std::uint64_t number, Duration wall);

 private:
  struct Known {
    std::uint32_t handle = 0;
    JobId first;
    std::uint64_t number = 0, tasks = 0;
    std::int64_t priority = 0;
    std::uint64_t given_in = 0, given = 0;  // the last walk in which it was given, and its number then
    bool moved = false;                     // the jobs up to `after` are done with in this walk
    Queue::Key after;
  };
  void update(const Queue::ClassKey& key);
  void sync();
  void follow_total();
  Job* next_plain();

  Shadow& shadow_;
  Queue& queue_;
  Jobs& jobs_;
  const LayoutPool& layouts_;
  const Allocations& allocations_;
  std::unique_ptr<JobOrder> order_;
  bool plain_ = true;

  std::map<Queue::ClassKey, Known> known_;
  std::vector<Queue::ClassKey> by_handle_;
  std::uint32_t total_epoch_ = 0;

  // The walk.
  Each each_ = Each::kClass;
  std::uint64_t walk_ = 0;
  Time now_;
  bool walking_ = false, given_ = false, again_ = false;
  Queue::Key last_;               // given last
  std::vector<JobId> jobs_left_;  // plain, by job: backwards
  Queue::ClassKey last_class_;
  std::vector<Queue::ClassKey> moved_;
  std::set<std::uint32_t> not_met_;  // changed in this walk, and not given since
};

}  // namespace bourse::batch
