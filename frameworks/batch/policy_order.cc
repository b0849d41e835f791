#include "frameworks/batch/policy_order.h"

#include <algorithm>
#include <unordered_map>

#include "frameworks/batch/job_order.h"

namespace bourse::batch {
namespace {

class PolicyOrder final : public PolicyQueue {
 public:
  explicit PolicyOrder(std::unique_ptr<JobOrder> order) : order_(std::move(order)), host_(order_->host()) {}

  void cluster(const std::vector<PlannedNode>& nodes) override {
    Usage total;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      total.add(usage_of(nodes[i].total.resources()));
      if (host_.wants_agents()) changed(static_cast<NodeSet::Node>(i), nodes[i]);
    }
    order_->total(total);
  }

  void arrived(const Job& job) override {
    Waiting waiting;
    waiting.facts.number = job.job, waiting.facts.user = job.user, waiting.facts.submitted = job.submit;
    waiting.facts.limit = job.estimate, waiting.facts.need = job.need, waiting.facts.priority = job.priority;
    waiting.handle = order_->add(waiting.facts);
    if (jobs_.size() <= waiting.handle) jobs_.resize(waiting.handle + 1);
    jobs_[waiting.handle] = job.job;
    waiting_.emplace(job.job, waiting);
  }
  void started(std::uint64_t job, Duration now) override {
    const auto it = waiting_.find(job);
    order_->started(job, it->second.handle, it->second.facts, now);
    order_->remove(it->second.handle);
    waiting_.erase(it);
  }
  void ended(std::uint64_t job, Duration now) override { order_->ended(job, now); }
  void dropped(std::uint64_t job) override {
    const auto it = waiting_.find(job);
    order_->remove(it->second.handle);
    waiting_.erase(it);
  }

  void begin(Duration now) override { order_->begin(now); }
  std::optional<std::uint64_t> next() override {
    const std::uint32_t handle = order_->next();
    return handle == policy::kNone ? std::nullopt : std::optional(jobs_[handle]);
  }

  [[nodiscard]] std::string fault() const override { return host_.fault(); }
  [[nodiscard]] std::string save() override { return host_.save(); }
  bool load(std::string_view learnt) override { return host_.load(learnt); }

  [[nodiscard]] bool places() const override { return host_.scores(); }
  void changed(NodeSet::Node node, const PlannedNode& facts) override {
    if (!host_.wants_agents()) return;
    const auto name = facts.labels.find("host");
    host_.agent(node, name == facts.labels.end() ? std::string_view{} : std::string_view(name->second), facts.total.resources(),
                facts.free.resources());
  }
  void choose(const Need& need, std::vector<Chosen>& nodes) override {
    agents_.clear();
    for (const Chosen& c : nodes) agents_.push_back(c.node);
    const auto& scores = host_.score(policy::kNone, need.shape, agents_);
    if (scores.size() != nodes.size()) return;  // the usual order, after all
    by_score_.resize(nodes.size());
    for (std::uint32_t i = 0; i < by_score_.size(); ++i) by_score_[i] = i;
    std::erase_if(by_score_, [&](std::uint32_t i) { return scores[i].score < 0; });
    const std::size_t wanted = std::min<std::size_t>(need.nodes, by_score_.size());
    std::partial_sort(by_score_.begin(), by_score_.begin() + static_cast<std::ptrdiff_t>(wanted), by_score_.end(),
                      [&](std::uint32_t a, std::uint32_t b) {
                        return scores[a].score != scores[b].score ? scores[a].score > scores[b].score : a < b;
                      });
    chosen_.clear();
    for (std::size_t i = 0; i < wanted; ++i) chosen_.push_back({nodes[by_score_[i]].node, scores[by_score_[i]].device});
    nodes = chosen_;
  }

 private:
  struct Waiting {
    std::uint32_t handle = 0;
    JobOrder::Waiting facts;
  };

  std::unique_ptr<JobOrder> order_;
  policy::Host& host_;
  std::unordered_map<std::uint64_t, Waiting> waiting_;  // looked up only
  std::vector<std::uint64_t> jobs_;                     // by handle
  std::vector<std::uint32_t> agents_, by_score_;
  std::vector<Chosen> chosen_;
};

}  // namespace

Result<std::unique_ptr<PolicyQueue>> policy_order(const policy::Choice& choice, std::uint64_t seed,
                                                  std::function<void(std::string line)> log) {
  policy::HostOptions options;
  options.seed = seed;
  options.log = std::move(log);
  return policy_order(choice, std::move(options));
}

Result<std::unique_ptr<PolicyQueue>> policy_order(const policy::Choice& choice, policy::HostOptions options) {
  return std::unique_ptr<PolicyQueue>(std::make_unique<PolicyOrder>(BOURSE_TRY(JobOrder::make(choice, std::move(options)))));
}

}  // namespace bourse::batch
