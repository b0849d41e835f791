#include "frameworks/batch/replay.h"

#include <algorithm>
#include <deque>
#include <queue>
#include <set>

#include "frameworks/batch/layout.h"

namespace bourse::batch {

namespace {

constexpr std::string_view kModel = "gpu_model";

class Engine {
 public:
  Engine(std::vector<sim::TraceJob>& jobs, const ReplayOptions& options)
      : jobs_(jobs), options_(options), largest_(largest_of(options.nodes)) {
    if (options.cluster != nullptr) {
      for (const PlannedNode& node : *options.cluster)
        planner_.add_node(node.total.resources(), node.labels, node.total.resources());
      if (options.order != nullptr) planner_.choose_by(options.order);
      return;
    }
    const std::vector<std::string> names = names_of(options.nodes);
    std::size_t at = 0;
    for (const SimulatedNodes& group : options.nodes) {
      for (std::uint32_t i = 0; i < group.count; ++i, ++at) {
        Resources total = total_of(group, names[at]);
        memory_ = memory_ || group.mem > 0;
        Labels labels = group.labels;
        labels["host"] = names[at];
        if (!group.gpu_model.empty()) labels[std::string(kModel)] = group.gpu_model;
        planner_.add_node(total, std::move(labels), total);
      }
    }
    if (options.order != nullptr) planner_.choose_by(options.order);
  }

  Result<sim::Report> run() {
    std::size_t next = 0;
    while (next < jobs_.size() || !ends_.empty() || any_waits()) {
      Duration now = kNoLimit;
      if (next < jobs_.size()) now = jobs_[next].submit;
      if (!ends_.empty()) now = std::min(now, ends_.top().first);
      if (options_.backfill == Backfill::kConservative && any_waits()) now = std::min(now, std::max(planner_.next_promise(), now_));
      BOURSE_ASSERT(now != kNoLimit, std::to_string(now_.count()));
      now_ = now;
      ++events_;
      for (; !ends_.empty() && ends_.top().first == now; ends_.pop()) end(ends_.top().second);
      for (; next < jobs_.size() && jobs_[next].submit == now; ++next) BOURSE_TRY(arrive(next));
      if (any_waits()) pass();
    }
    sim::Report report = sim::summarise(jobs_, processors_of(options_.nodes));
    report.refused = refused_;
    report.first_refusal = first_refusal_;
    if (gpus_ > 0) {
      gpu_taken({}, 1);
      const double capacity = static_cast<double>(gpus_) * 1000;
      report.gpu_alloc_percent = options_.once           ? static_cast<double>(gpu_now_) / capacity * 100
                                 : report.makespan_s > 0 ? gpu_integral_ / 1e6 / report.makespan_s / capacity * 100
                                                         : 0;
    }
    report.events = events_;
    report.passes = passes_;
    report.operations = planner_.operations();
    return report;
  }

 private:
  struct Kind {  // of jobs that ask alike
    Need need;
    std::string refusal;
    bool known = false;
  };
  struct LastTwo {
    Duration run[2]{Duration(-1), Duration(-1)};
  };

  Result<const Need*> need(const sim::TraceJob& job) {
    const std::uint32_t key = options_.shapes != nullptr || options_.needs != nullptr ? job.shape : job.processors;
    Kind& kind = kinds_[key];
    if (!kind.known) {
      kind.known = true;
      if (options_.needs != nullptr) {
        kind.need = (*options_.needs)[job.shape];
        kind.refusal = impossible(kind.need);
        return need(job);
      }
      sim::TraceShape shape;
      shape.tasks = job.processors;
      if (options_.shapes != nullptr) shape = (*options_.shapes)[job.shape];
      if (!memory_) shape.mem = shape.mem_per_task = 0;
      if (auto need = need_of(shape, largest_); need) {
        kind.need = *std::move(need);
        kind.refusal = impossible(kind.need);
      } else {
        kind.refusal = need.error().text();
      }
    }
    if (kind.refusal.empty()) return &kind.need;
    if (refused_++ == 0) first_refusal_ = "job " + std::to_string(job.number) + ": " + kind.refusal;
    return nullptr;
  }

  std::string impossible(const Need& need) const {
    std::uint32_t fitting = 0;
    for (Planner::Node n = 0; n < planner_.nodes(); ++n)
      if (planner_.could_hold(need.shape, n) && ++fitting >= need.nodes) return {};
    return "it needs " + std::to_string(need.nodes) + (need.nodes == 1 ? " node" : " nodes") + " with " + to_text(need.shape) +
           ", and the cluster has " + (fitting == 0 ? "none" : std::to_string(fitting)) + " such";
  }

  Result<> arrive(std::size_t index) {
    sim::TraceJob& job = jobs_[index];
    const Need* const wanted = BOURSE_TRY(need(job));
    if (wanted == nullptr) return {};
    if (options_.once) {
      if (options_.order != nullptr) options_.order->arrived({index, wanted, seen(job.submit), job.limit, job.user, 0});
      const auto* const holdings = planner_.start_now(index, *wanted, kNoLimit);
      if (holdings == nullptr) {
        if (options_.order != nullptr) options_.order->dropped(index);
        return {};
      }
      job.start = job.submit, job.end = end_of(job.submit, job.run);
      gpu_taken(*holdings, 1);
      if (options_.order != nullptr) options_.order->started(index, seen(now_));
      if (options_.on_start) options_.on_start(index, *holdings);
      return {};
    }
    Planner::Candidate candidate{index, wanted, job.limit};
    if (options_.last2) candidate.limit = predicted(job);
    const std::int64_t priority = options_.priorities != nullptr ? (*options_.priorities)[index] : 0;
    const QueueOrder::Job facts{index, wanted, seen(job.submit), candidate.limit, job.user, priority};
    if (options_.order != nullptr) options_.order->arrived(facts);
    if (options_.backfill_order != nullptr) options_.backfill_order->arrived(facts);
    if (ordered_)
      waiting_.emplace_hint(waiting_.end(), index, Waiting{candidate, 0, 0});
    else
      queue_.push_back(candidate);
    return {};
  }

  Duration predicted(const sim::TraceJob& job) const {
    const auto it = history_.find(job.user);
    if (it == history_.end() || it->second.run[1] < Duration(0)) return job.limit;
    return std::min((it->second.run[0] + it->second.run[1]) / 2, job.limit);
  }

  void end(std::size_t index) {
    sim::TraceJob& job = jobs_[index];
    if (gpus_ > 0) gpu_taken(*planner_.holdings(index), -1);
    planner_.end_run(index);
    if (options_.order != nullptr) options_.order->ended(index, seen(now_));
    if (options_.backfill_order != nullptr) options_.backfill_order->ended(index, seen(now_));
    if (options_.last2) {
      LastTwo& last = history_[job.user];
      last.run[1] = std::exchange(last.run[0], job.end - job.start);
    }
    if (++done_ % kProgressEvery == 0 && options_.progress) options_.progress(done_);
  }

  void pass() {
    if (!planner_.anything_free() && options_.backfill != Backfill::kConservative) return;
    ++passes_;
    Planner::PassOptions how{options_.backfill, options_.depth, nullptr};
    if (ordered_) {
      InOrder queue(*this, options_.order, &Waiting::seen), behind(*this, options_.backfill_order, &Waiting::seen_behind);
      if (options_.backfill_order != nullptr) how.behind = &behind;
      return planner_.pass(now_, queue, how);
    }
    const auto starts = planner_.pass(now_, queue_, how);
    if (starts.empty()) return;
    for (const Planner::Start& start : starts) started(start);
    std::erase_if(queue_, [&](const Planner::Candidate& c) {
      if (c.started) note_reason(c);
      return c.started;
    });
  }

  void started(const Planner::Start& start) {
    sim::TraceJob& job = jobs_[start.job];
    job.start = now_;
    job.end = end_of(now_, std::min(job.run, job.limit));
    ends_.emplace(job.end, start.job);
    if (options_.order != nullptr) options_.order->started(start.job, seen(now_));
    if (options_.backfill_order != nullptr) options_.backfill_order->started(start.job, seen(now_));
    if (gpus_ > 0) gpu_taken(start.holdings, 1);
    if (options_.on_start) options_.on_start(start.job, start.holdings);
  }

  // The waiting jobs as an order gives them (null: as they came), each once in a pass.
  struct Waiting {
    Planner::Candidate candidate;
    std::uint64_t seen = 0, seen_behind = 0;  // the last pass in which it was given
  };
  class InOrder final : public Planner::Source {
   public:
    InOrder(Engine& engine, QueueOrder* order, std::uint64_t Waiting::*seen) : engine_(engine), order_(order), seen_(seen) {}
    Planner::Candidate* next() override {
      auto& waiting = engine_.waiting_;
      if (order_ == nullptr) {
        const auto it = begun_ ? waiting.upper_bound(last_) : waiting.begin();
        begun_ = true;
        if (it == waiting.end()) return nullptr;
        last_ = it->first;
        return &it->second.candidate;
      }
      if (!std::exchange(begun_, true)) order_->begin(engine_.seen(engine_.now_));
      while (const auto job = order_->next()) {
        Waiting& found = waiting.at(*job);
        if (std::exchange(found.*seen_, engine_.passes_) != engine_.passes_) return &found.candidate;
      }
      return nullptr;
    }
    void started(Planner::Start start) override {
      engine_.started(start);
      const auto it = engine_.waiting_.find(start.job);
      engine_.note_reason(it->second.candidate);
      engine_.waiting_.erase(it);
    }

   private:
    Engine& engine_;
    QueueOrder* order_;
    std::uint64_t Waiting::*seen_;
    bool begun_ = false;
    std::uint64_t last_ = 0;
  };

  void note_reason(const Planner::Candidate& c) { jobs_[c.job].reason = static_cast<std::uint8_t>(reason_of(c)); }
  [[nodiscard]] bool any_waits() const { return ordered_ ? !waiting_.empty() : !queue_.empty(); }
  [[nodiscard]] Duration seen(Duration time) const { return time + options_.origin; }

  [[nodiscard]] sim::Wait reason_of(const Planner::Candidate& c) const {
    if (jobs_[c.job].start == jobs_[c.job].submit) return sim::Wait::kNone;
    if (c.verdict == Planner::Verdict::kReserved) return sim::Wait::kReserved;
    if (c.verdict == Planner::Verdict::kNoRoom) return sim::Wait::kRoom;
    return options_.backfill == Backfill::kNone ? sim::Wait::kOrder : sim::Wait::kRoom;
  }

  // Permille of GPUs in use, over time.
  void gpu_taken(const std::vector<Holding>& holdings, std::int64_t sign) {
    gpu_integral_ += static_cast<double>(gpu_now_) * static_cast<double>((now_ - gpu_since_).count());
    gpu_since_ = now_;
    for (const Holding& holding : holdings) {
      if (holding.amount.rest() == nullptr) continue;
      for (const DeviceShare& share : holding.amount.rest()->devices)
        gpu_now_ += sign * (share.whole ? 1000 : share.counters.get("compute"));
    }
  }

  std::vector<sim::TraceJob>& jobs_;
  const ReplayOptions& options_;
  const Largest largest_;
  Planner planner_;
  bool memory_ = false;  // the cluster's is known
  Duration now_{0};
  std::map<std::uint32_t, Kind> kinds_;
  const bool ordered_ = options_.order != nullptr || options_.backfill_order != nullptr;
  std::vector<Planner::Candidate> queue_;     // not ordered_
  std::map<std::uint64_t, Waiting> waiting_;  // ordered_; by job
  using End = std::pair<Duration, std::size_t>;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
  std::unordered_map<std::int32_t, LastTwo> history_;
  std::uint64_t events_ = 0, passes_ = 0, refused_ = 0, done_ = 0;
  std::string first_refusal_;
  const std::uint64_t gpus_ = gpus_of(options_.nodes);
  std::int64_t gpu_now_ = 0;
  Duration gpu_since_{0};
  double gpu_integral_ = 0;
};

}  // namespace

Largest largest_of(const std::vector<SimulatedNodes>& groups) {
  Largest out;
  for (const SimulatedNodes& group : groups) {
    out.cpus = std::max(out.cpus, MilliCpus(group.cpu_milli > 0 ? group.cpu_milli : std::int64_t{group.cores} * 1000));
    out.gpus = std::max(out.gpus, group.gpus);
  }
  return out;
}

Result<> ask_for(const sim::TraceShape& shape, Largest largest, JobSpec& spec) {
  spec.tasks = shape.tasks;
  spec.nodes_min = shape.nodes;
  spec.cpus_per_task = 1;
  if (shape.cpu_milli > 0) {
    spec.tasks = std::max(shape.nodes, 1u);
    spec.cpus_per_task = static_cast<std::uint32_t>((shape.cpu_milli + 999) / 1000);
  }
  if (shape.mem > 0) spec.mem_per_node = shape.mem;
  if (shape.mem_per_task > 0) spec.mem_per_cpu = shape.mem_per_task;
  std::uint32_t gpus = shape.gpus;
  if (shape.gpus_in_all > 0) {
    const std::uint32_t most = std::max(largest.gpus, 1u);
    spec.nodes_min = std::max(spec.nodes_min, (shape.gpus_in_all + most - 1) / most);
    spec.tasks = std::max(spec.tasks, spec.nodes_min);
    gpus = (shape.gpus_in_all + spec.nodes_min - 1) / spec.nodes_min;
  }
  if (gpus > 0) {
    DeviceAsk ask;
    ask.kind = "gpu/";
    ask.count = gpus;
    ask.whole = shape.gpu_milli == 0 || shape.gpu_milli >= 1000;
    if (!ask.whole) ask.counters.set("compute", shape.gpu_milli);
    spec.devices_per_node.push_back(std::move(ask));
  }
  if (!shape.where.empty()) spec.constraints = BOURSE_TRY(parse_constraints(shape.where));
  if (!shape.gpu_models.empty()) {
    Constraint models{std::string(kModel), Constraint::Op::kIn, {}};
    for (std::string_view rest = shape.gpu_models; !rest.empty();) {
      const std::string_view word = rest.substr(0, rest.find('|'));
      models.values.emplace_back(word);
      rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    }
    std::sort(models.values.begin(), models.values.end());
    spec.constraints.push_back(std::move(models));
  }
  return {};
}

Result<Need> need_of(const sim::TraceShape& shape, Largest largest) {
  JobSpec spec;
  BOURSE_TRY(ask_for(shape, largest, spec));
  Layout layout = BOURSE_TRY(lay_out(spec, BatchOptions{}, largest.cpus));
  if (shape.cpu_milli > 0) layout.need.shape.cpus = MilliCpus(shape.cpu_milli);
  return std::move(layout.need);
}

Result<sim::Report> replay(std::vector<sim::TraceJob>& jobs, const ReplayOptions& options) { return Engine(jobs, options).run(); }

}  // namespace bourse::batch
