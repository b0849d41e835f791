#include "plugins/policy/model.h"

#include <algorithm>
#include <set>

#include "common/core/fmath.h"
#include "plugins/policy/formula.h"

namespace bourse::policy {

namespace {

constexpr double kMicro = 1e6, kBoundS = 10;

struct Waiting {
  double key = 0;
  bool on_time = true;
  std::size_t job = 0;
  friend bool operator<(const Waiting& a, const Waiting& b) {
    if (a.on_time != b.on_time) return !a.on_time;
    return a.key != b.key ? a.key < b.key : a.job < b.job;
  }
};

class Run {
 public:
  Run(const std::vector<ModelJob>& jobs, std::int64_t begin_us, std::int64_t count_us, std::int64_t horizon_us, std::int64_t total,
      const Arm& arm, std::int64_t guard)
      : jobs_(jobs),
        now_(begin_us),
        count_(count_us),
        horizon_(horizon_us),
        total_(std::max<std::int64_t>(total, 1)),
        free_(total_),
        arm_(arm),
        guard_(guard) {
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      if (jobs[i].account >= use_.size()) use_.resize(jobs[i].account + 1, 0);
      if (jobs[i].started_us >= 0) hold(i, jobs[i].started_us);
    }
    moves_ = arm.order == Arm::Order::kWfp3Order || arm.order == Arm::Order::kUnicepOrder || arm.order == Arm::Order::kXfOrder ||
             arm.order == Arm::Order::kDrfOrder || arm.order == Arm::Order::kHybridOrder;
  }

  ModelCost cost() {
    std::size_t next = 0;
    const auto skip = [&] {
      while (next < jobs_.size() && jobs_[next].started_us >= 0) ++next;
    };
    for (skip(); next < jobs_.size() && jobs_[next].submit_us <= now_; ++next, skip()) arrive(next);
    pass();
    while (next < jobs_.size() || !waiting_.empty()) {
      std::int64_t at = INT64_MAX;
      if (next < jobs_.size()) at = jobs_[next].submit_us;
      if (!ends_.empty()) at = std::min(at, ends_.begin()->first);
      if (at >= horizon_) break;
      now_ = std::max(now_, at);
      while (!ends_.empty() && ends_.begin()->first <= now_) end(ends_.begin()->second);
      for (; next < jobs_.size() && jobs_[next].submit_us <= now_; ++next, skip()) arrive(next);
      pass();
    }
    for (const Waiting& w : waiting_) count(w.job, horizon_);
    return out_;
  }

 private:
  [[nodiscard]] double seconds(std::int64_t us) const { return us <= 0 ? formula::kLeast : static_cast<double>(us) / kMicro; }

  Waiting entry(std::size_t i) const {
    const ModelJob& job = jobs_[i];
    const std::int64_t waited = std::max<std::int64_t>(now_ - job.submit_us, 0);
    // Fairness looks after the old by itself, and first come, first served is by age.
    const bool aged =
        arm_.order != Arm::Order::kDrfOrder && arm_.order != Arm::Order::kHybridOrder && arm_.order != Arm::Order::kFifoOrder;
    if (aged && guard_ > 0 && waited > guard_) return {static_cast<double>(job.submit_us), false, i};
    const formula::Facts f{seconds(job.limit_us), static_cast<double>(job.milli) / 1000, static_cast<double>(waited) / kMicro,
                           seconds(job.submit_us)};
    const auto share = [&] { return static_cast<double>(use_[job.account]) / static_cast<double>(total_); };
    switch (arm_.order) {
      case Arm::Order::kFifoOrder:
        return {f.s, true, i};
      case Arm::Order::kSjfOrder:
        return {formula::sjf(f), true, i};
      case Arm::Order::kSafOrder:
        return {formula::saf(f), true, i};
      case Arm::Order::kF1Order:
        return {formula::f1(f), true, i};
      case Arm::Order::kWfp3Order:
        return {formula::wfp3(f), true, i};
      case Arm::Order::kUnicepOrder:
        return {formula::unicep(f), true, i};
      case Arm::Order::kXfOrder:
        return {formula::xf(f), true, i};
      case Arm::Order::kDrfOrder:
        return {share(), true, i};
      case Arm::Order::kHybridOrder: {
        const double weight = arm_.weight / 1000.0, all = static_cast<double>(total_);
        const double fit = std::min(static_cast<double>(job.milli) / all, 1.0) * (static_cast<double>(free_) / all);
        return {-(weight * (1 - share()) + (1 - weight) * fit), true, i};
      }
    }
    return {f.s, true, i};
  }

  void arrive(std::size_t i) {
    if (jobs_[i].milli > total_) return;  // it never runs, under any order
    const Waiting w = entry(i);
    waiting_.insert(std::upper_bound(waiting_.begin(), waiting_.end(), w), w);
  }
  void hold(std::size_t i, std::int64_t since) {
    const ModelJob& job = jobs_[i];
    free_ -= job.milli;
    use_[job.account] += job.milli;
    ends_.emplace(std::max(since + std::max<std::int64_t>(job.run_us, 1), now_ + 1), i);
    planned_.emplace(since + std::max<std::int64_t>(job.limit_us, 1), i);
    if (since_.size() < jobs_.size()) since_.resize(jobs_.size(), 0);
    since_[i] = since;
  }
  void end(std::size_t i) {
    const ModelJob& job = jobs_[i];
    free_ += job.milli;
    use_[job.account] -= job.milli;
    ends_.erase(ends_.begin());
    planned_.erase({since_[i] + std::max<std::int64_t>(job.limit_us, 1), i});
  }
  void count(std::size_t i, std::int64_t started) {
    if (jobs_[i].submit_us >= count_) out_.add(started - jobs_[i].submit_us, jobs_[i].run_us);
  }
  void start(std::size_t i) {
    hold(i, now_);
    count(i, now_);
  }

  [[nodiscard]] bool grown_old() const {
    return std::any_of(waiting_.begin(), waiting_.end(),
                       [this](const Waiting& w) { return w.on_time && now_ - jobs_[w.job].submit_us > guard_; });
  }
  void resort() {
    for (Waiting& w : waiting_) w = entry(w.job);
    std::sort(waiting_.begin(), waiting_.end());
  }

  void pass() {
    if (waiting_.empty() || free_ <= 0) return;
    const bool fair = arm_.order == Arm::Order::kDrfOrder || arm_.order == Arm::Order::kHybridOrder;
    // With age alone the order of those on time stands still; only who has grown old changes places.
    if (moves_ || (guard_ > 0 && grown_old())) resort();
    std::size_t head = 0;
    while (head < waiting_.size() && jobs_[waiting_[head].job].milli <= free_) {
      start(waiting_[head].job);
      ++head;
      if (fair) {
        waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(head));
        head = 0;
        resort();
      }
    }
    waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(head));
    if (waiting_.size() < 2 || free_ <= 0) return;
    // The reservation of the first: when, and what is left beside it then.
    const std::int64_t wanted = jobs_[waiting_[0].job].milli;
    std::int64_t at = INT64_MAX, spare = free_;
    for (const auto& [time, job] : planned_) {
      if (at != INT64_MAX && time > at) break;
      spare += jobs_[job].milli;
      if (at == INT64_MAX && spare >= wanted) at = std::max(time, now_ + 1);
    }
    spare -= wanted;
    std::size_t kept = 1;
    for (std::size_t i = 1; i < waiting_.size(); ++i) {
      const ModelJob& job = jobs_[waiting_[i].job];
      const bool ends = job.limit_us <= at - now_;
      if (free_ > 0 && job.milli <= free_ && (ends || job.milli <= spare)) {
        if (!ends) spare -= job.milli;
        start(waiting_[i].job);
      } else {
        waiting_[kept++] = waiting_[i];
      }
    }
    waiting_.resize(kept);
  }

  const std::vector<ModelJob>& jobs_;
  std::int64_t now_, count_, horizon_, total_, free_;
  Arm arm_;
  std::int64_t guard_;
  bool moves_ = false;
  std::vector<std::int64_t> use_, since_;
  std::vector<Waiting> waiting_;
  std::set<std::pair<std::int64_t, std::size_t>> ends_, planned_;
  ModelCost out_;
};

}  // namespace

void ModelCost::add(std::int64_t wait_us, std::int64_t run_us) {
  const double wait = static_cast<double>(std::max<std::int64_t>(wait_us, 0)) / kMicro, run = static_cast<double>(run_us) / kMicro;
  const double bounded = std::max(1.0, (wait + run) / std::max(run, kBoundS));
  wait_s += wait;
  slowdown += bounded;
  log_slowdown += fmath::log(bounded);
  ++jobs;
}

ModelCost QueueModel::run(const std::vector<ModelJob>& jobs, std::int64_t begin_us, std::int64_t count_us, std::int64_t horizon_us,
                          std::int64_t total_milli, const Arm& arm, std::int64_t guard_us) {
  return Run(jobs, begin_us, count_us, horizon_us, total_milli, arm, guard_us).cost();
}

}  // namespace bourse::policy
