#include "frameworks/batch/picked_replay.h"

#include <algorithm>

namespace bourse::batch {

namespace {

class Picked {
 public:
  Picked(std::vector<sim::TraceJob>& jobs, const ReplayOptions& options) : jobs_(jobs), options_(options) {
    Resources total;
    processors_ = processors_of(options.nodes);
    total.cpus = MilliCpus(static_cast<std::int64_t>(processors_) * 1000);
    planner_.add_node(total, {}, total);
    needs_.resize(jobs.size());
    for (std::size_t i = 0; i < jobs.size(); ++i) needs_[i].shape.cpus = MilliCpus(std::int64_t{jobs[i].processors} * 1000);
  }

  sim::Report run() {
    std::uint64_t refused = 0;
    std::string first;
    while (true) {
      while (queue_.empty() && (next_ < jobs_.size() || !running_.empty())) {
        if (next_ < jobs_.size() && jobs_[next_].processors > processors_) {
          if (refused++ == 0) first = "job " + std::to_string(jobs_[next_].number) + ": it needs more processors than there are";
          ++next_;
          continue;
        }
        step();
      }
      if (queue_.empty()) break;
      options_.order->begin(now_ + options_.origin);
      const auto chosen = options_.order->next();
      BOURSE_ASSERT(chosen.has_value(), std::to_string(queue_.size()));
      if (!fits(*chosen)) wait_for(*chosen);
      start(*chosen);
    }
    sim::Report report = sim::summarise(jobs_, processors_);
    report.refused = refused, report.first_refusal = first;
    if (const double used = utilisation(); used > 0) report.utilisation = used;
    report.operations = planner_.operations();
    return report;
  }

 private:
  // All the work over the time from the first submission until the last job has started, with which an episode ends there.
  [[nodiscard]] double utilisation() const {
    double work = 0;
    Duration last{0};
    for (const sim::TraceJob& job : jobs_) {
      if (job.start < Duration(0)) continue;
      work += static_cast<double>((job.end - job.start).count()) * job.processors;
      last = std::max(last, job.start);
    }
    if (jobs_.empty() || last <= jobs_[0].submit) return 0;
    return work / static_cast<double>((last - jobs_[0].submit).count()) / static_cast<double>(processors_);
  }
  [[nodiscard]] bool fits(std::size_t i) const { return !planner_.place(needs_[i]).empty(); }

  void start(std::size_t i) {
    BOURSE_ASSERT(planner_.start_now(i, needs_[i], now_ + jobs_[i].limit) != nullptr, std::to_string(i));
    jobs_[i].start = now_, jobs_[i].end = now_ + jobs_[i].run;
    running_.push_back(i);
    queue_.erase(std::find(queue_.begin(), queue_.end(), i));
    options_.order->started(i, now_ + options_.origin);
  }

  // One arrival, or one end.
  void step() {
    const auto first = std::min_element(running_.begin(), running_.end(),
                                        [this](std::size_t a, std::size_t b) { return jobs_[a].end < jobs_[b].end; });
    const Duration end = first == running_.end() ? kNoLimit : jobs_[*first].end;
    if (next_ < jobs_.size() && jobs_[next_].submit <= end) {
      now_ = std::max(now_, jobs_[next_].submit);
      const sim::TraceJob& job = jobs_[next_];
      if (job.processors <= processors_) {
        queue_.push_back(next_);
        options_.order->arrived({next_, &needs_[next_], job.submit + options_.origin, job.limit, job.user, 0});
      }
      ++next_;
    } else {
      now_ = std::max(now_, end);
      planner_.end_run(*first);
      options_.order->ended(*first, now_ + options_.origin);
      running_.erase(first);
    }
  }

  void wait_for(std::size_t chosen) {
    const Duration earliest = planner_.reserve(needs_[chosen], now_).at;
    while (!fits(chosen)) {
      if (options_.backfill != Backfill::kNone) {
        const std::vector<std::size_t> order = queue_;  // as they came
        for (const std::size_t i : order)
          if (i != chosen && now_ + jobs_[i].limit < earliest && fits(i)) start(i);
      }
      step();
    }
  }

  std::vector<sim::TraceJob>& jobs_;
  const ReplayOptions& options_;
  std::uint64_t processors_ = 0;
  Planner planner_;
  std::vector<Need> needs_;
  std::vector<std::size_t> queue_, running_;  // in the order in which they came, and started
  Duration now_{0};
  std::size_t next_ = 0;
};

}  // namespace

Result<sim::Report> picked_replay(std::vector<sim::TraceJob>& jobs, const ReplayOptions& options) {
  if (options.order == nullptr) return Error(Code::kInvalid, "an order is needed");
  for (const SimulatedNodes& group : options.nodes)
    if (group.gpus > 0 || group.mem > 0)
      return Error(Code::kUnsupported, "these rules count processors only: nodes may have neither memory nor GPUs");
  return Picked(jobs, options).run();
}

}  // namespace bourse::batch
