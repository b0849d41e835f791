#include "frameworks/batch/class_order.h"

#include <algorithm>
#include <utility>

#include "common/core/hooks.h"

namespace bourse::batch {
namespace {

constexpr Queue::Key kBeforeAll{INT64_MIN, JobId()};

}  // namespace

ClassOrder::ClassOrder(const BatchOptions& options, Queue& queue, Jobs& jobs, const LayoutPool& layouts,
                       const Allocations& allocations, Shadow& shadow, std::function<void(std::string)> log)
    : shadow_(shadow), queue_(queue), jobs_(jobs), layouts_(layouts), allocations_(allocations) {
  policy::HostOptions host;
  host.name = "bourse-batch";
  host.fallback = "fifo";
  host.budget = options.policy_budget;
  host.guard = options.policy_guard;
  host.log = std::move(log);
  auto made = JobOrder::make(policy::built_in("fifo"), std::move(host));
  BOURSE_ASSERT(bool(made), "fifo");
  order_ = *std::move(made);
  const auto used = use(options.policy);
  BOURSE_ASSERT(bool(used), used.error().text());
}

Result<> ClassOrder::usable(const policy::Choice& choice) {
  if (choice.table->rank != nullptr) return {};
  return Error(Code::kInvalid, "policy " + choice.spec.name +
                                   " says where, not who goes first; in [batch] it has nothing to say, since " +
                                   "the master's policy chooses agents");
}

Result<> ClassOrder::use(const policy::Choice& choice) {
  BOURSE_TRY(usable(choice));
  BOURSE_TRY(order_->host().swap(choice));
  plain_ = choice.built_in && choice.spec.name == "fifo";
  queue_.track(!plain_);
  if (plain_) {
    for (const auto& [key, known] : known_) order_->remove(known.handle);
    known_.clear();
    moved_.clear();
    not_met_.clear();
  }
  walking_ = false;
  return {};
}

// --- what the policy knows ---------------------------------------------------------------------------------------------

void ClassOrder::update(const Queue::ClassKey& key) {
  auto it = known_.find(key);
  const Queue::Class* const c = queue_.find(key);
  const Job* first = nullptr;
  if (c != nullptr) {
    const auto at = it != known_.end() && it->second.moved ? c->jobs.upper_bound(it->second.after) : c->jobs.begin();
    if (at != c->jobs.end()) first = jobs_.find(at->job);
  }
  if (first == nullptr) {
    if (it == known_.end()) return;
    not_met_.erase(it->second.handle);
    order_->remove(it->second.handle);
    known_.erase(it);
    return;
  }
  JobOrder::Waiting facts;
  facts.number = first->number(first->array ? first->array->next().value_or(0) : 0);
  facts.user = key.uid;
  facts.priority = first->rank_priority;
  facts.tasks = c->tasks;
  facts.submitted = first->submitted;
  facts.limit = key.limit;
  facts.need = &layouts_.at(key.layout).need;
  if (it == known_.end()) {
    it = known_.try_emplace(key).first;
    it->second.handle = order_->add(facts);
    if (by_handle_.size() <= it->second.handle) by_handle_.resize(it->second.handle + 1);
    by_handle_[it->second.handle] = key;
  } else if (it->second.number == facts.number && it->second.priority == facts.priority && it->second.tasks == facts.tasks) {
    return;
  } else {
    order_->change(it->second.handle, facts);
  }
  Known& known = it->second;
  if (walking_ && known.number != facts.number) not_met_.insert(known.handle);
  known.first = first->id, known.number = facts.number, known.priority = facts.priority, known.tasks = facts.tasks;
}

void ClassOrder::sync() {
  for (const Queue::ClassKey& key : queue_.take_changed()) update(key);
}

void ClassOrder::follow_total() {
  if (total_epoch_ == allocations_.epoch()) return;
  total_epoch_ = allocations_.epoch();
  Usage total;
  for (const auto& [id, facts] : allocations_.agents()) total.add(usage_of(facts.total));
  order_->total(total);
}

void ClassOrder::started(std::uint64_t number, const Job& job, Duration wall) {
  const auto known = plain_ ? known_.end() : known_.find(Queue::class_of(job));
  JobOrder::Waiting facts;
  facts.number = number, facts.user = job.spec->uid, facts.submitted = job.submitted, facts.limit = job.spec->limit;
  facts.need = &layouts_.at(job.layout).need;
  facts.priority = job.rank_priority;
  order_->started(number, known == known_.end() ? policy::kNone : known->second.handle, facts, wall);
  if (shadow_.any()) shadow_.started(number, facts, wall);
}

void ClassOrder::ended(std::uint64_t number, Duration wall) {
  order_->ended(number, wall);
  shadow_.ended(number, wall);
}

// --- the walk ------------------------------------------------------------------------------------------------------------

void ClassOrder::begin(Time now, Each each, std::size_t most) {
  now_ = now;
  each_ = each;
  given_ = again_ = false;
  jobs_left_.clear();
  if (plain_) {
    if (each == Each::kJob) {
      jobs_left_ = queue_.page(kBeforeAll, std::min(most, queue_.jobs()));
      std::reverse(jobs_left_.begin(), jobs_left_.end());
    }
    return;
  }
  walking_ = false;
  ++walk_;
  for (const Queue::ClassKey& key : std::exchange(moved_, {})) {
    if (const auto it = known_.find(key); it != known_.end()) it->second.moved = false;
    update(key);
  }
  sync();
  follow_total();
  not_met_.clear();
  order_->begin(now.wall);
  walking_ = true;
}

Job* ClassOrder::next_plain() {
  if (each_ == Each::kJob) {
    while (!jobs_left_.empty()) {
      Job* const job = jobs_.find(jobs_left_.back());
      jobs_left_.pop_back();
      if (job != nullptr && job->queued > 0) return job;
    }
    return nullptr;
  }
  const auto& order = queue_.order();
  const auto it = !given_ ? order.begin() : std::exchange(again_, false) ? order.lower_bound(last_) : order.upper_bound(last_);
  if (it == order.end()) return nullptr;
  given_ = true;
  last_ = it->first;
  return jobs_.find(last_.job);
}

Job* ClassOrder::next() {
  if (plain_) return next_plain();
  if (given_ && each_ == Each::kJob) {  // the class goes on with the job behind it
    const auto it = known_.find(last_class_);
    if (it != known_.end()) it->second.moved = true, it->second.after = last_;
    moved_.push_back(last_class_);
    update(last_class_);
  }
  given_ = again_ = false;
  sync();
  while (true) {
    const std::uint32_t handle = order_->next();
    if (handle == policy::kNone) {
      // What had changed ranks ahead of where the walk was by then: once more, for those only.
      if (std::exchange(not_met_, {}).empty()) break;
      order_->begin(now_.wall);
      continue;
    }
    not_met_.erase(handle);
    const Queue::ClassKey key = by_handle_[handle];
    Known& known = known_.at(key);
    if (known.given_in == walk_ && known.given == known.number) continue;
    known.given_in = walk_, known.given = known.number;
    Job* const job = jobs_.find(known.first);
    given_ = true;
    last_ = Queue::key_of(*job);
    last_class_ = key;
    return job;
  }
  walking_ = false;
  return nullptr;
}

void ClassOrder::again() { again_ = true; }

std::vector<JobId> ClassOrder::page(Time now, std::size_t offset, std::size_t limit) {
  std::vector<JobId> out;
  begin(now, Each::kJob);
  for (const Job* job = next(); job != nullptr && out.size() < limit; job = next()) {
    if (offset > 0)
      --offset;
    else
      out.push_back(job->id);
  }
  return out;
}

std::uint64_t ClassOrder::position(Time now, const Job& job) {
  if (plain_ || job.queued == 0) return queue_.position(job);
  std::uint64_t at = 0;
  begin(now, Each::kJob);
  for (const Job* each = next(); each != nullptr; each = next())
    if (++at, each->id == job.id) return at;
  return 0;
}

}  // namespace bourse::batch
