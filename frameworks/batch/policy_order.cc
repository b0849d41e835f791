#include "frameworks/batch/policy_order.h"

#include <algorithm>
#include <unordered_map>

#include "plugins/policy/host.h"

namespace bourse::batch {
namespace {

class PolicyOrder final : public QueueOrder {
 public:
  explicit PolicyOrder(std::unique_ptr<policy::Host> host) : host_(std::move(host)) {}

  void cluster(const std::vector<PlannedNode>& nodes) override {
    Usage total;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      total.add(usage_of(nodes[i].total.resources()));
      if (host_->wants_agents()) changed(static_cast<NodeSet::Node>(i), nodes[i]);
    }
    host_->total(total);
  }

  void arrived(const Job& job) override {
    const std::uint32_t handle = take_handle();
    place_[job.job] = handle;
    if (jobs_.size() <= handle) jobs_.resize(handle + 1);
    jobs_[handle] = job;
    policy::ClaimantFacts facts;
    facts.handle = handle;
    facts.account = account_of(job.user);
    facts.gang = job.need->nodes;
    facts.order = job.job;
    facts.units = job.need->nodes;
    facts.submitted = job.submit;
    facts.limit = job.estimate;
    facts.shape = &job.need->shape;
    host_->claimant(facts);
  }

  void started(std::uint64_t job, Duration now) override {
    const auto it = place_.find(job);
    const std::uint32_t handle = it->second;
    const Job facts = jobs_[handle];
    charge(facts, 1);
    tell(BOURSE_STARTED, facts, handle, now, now, Duration(0));
    host_->claimant_removed(handle);
    free_.push_back(handle);
    place_.erase(it);
    running_[job] = {facts, now};
  }

  void ended(std::uint64_t job, Duration now) override {
    const auto it = running_.find(job);
    if (it == running_.end()) return;
    charge(it->second.job, -1);
    tell(BOURSE_ENDED, it->second.job, policy::kNone, now, it->second.started, now - it->second.started);
    running_.erase(it);
  }

  void dropped(std::uint64_t job) override {
    const auto it = place_.find(job);
    host_->claimant_removed(it->second);
    free_.push_back(it->second);
    place_.erase(it);
  }

  void rank(Duration now, std::vector<Planner::Candidate>& queue) override {
    handles_.clear();
    for (const Planner::Candidate& c : queue) {
      const std::uint32_t handle = place_.at(c.job);
      if (by_handle_.size() <= handle) by_handle_.resize(handle + 1);
      by_handle_[handle] = c;
      handles_.push_back(handle);
    }
    host_->rank(now, policy::kNone, handles_);
    for (std::size_t i = 0; i < queue.size(); ++i) queue[i] = by_handle_[handles_[i]];
  }

  [[nodiscard]] bool places() const override { return host_->scores(); }
  void changed(NodeSet::Node node, const PlannedNode& facts) override {
    if (!host_->wants_agents()) return;
    const auto name = facts.labels.find("host");
    host_->agent(node, name == facts.labels.end() ? std::string_view{} : std::string_view(name->second), facts.total.resources(),
                 facts.free.resources());
  }
  void choose(const Need& need, std::vector<Chosen>& nodes) override {
    agents_.clear();
    for (const Chosen& c : nodes) agents_.push_back(c.node);
    const auto& scores = host_->score(policy::kNone, need.shape, agents_);
    if (scores.size() != nodes.size()) return;  // the usual order, after all
    order_.resize(nodes.size());
    for (std::uint32_t i = 0; i < order_.size(); ++i) order_[i] = i;
    std::erase_if(order_, [&](std::uint32_t i) { return scores[i].score < 0; });
    const std::size_t wanted = std::min<std::size_t>(need.nodes, order_.size());
    std::partial_sort(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(wanted), order_.end(),
                      [&](std::uint32_t a, std::uint32_t b) {
                        return scores[a].score != scores[b].score ? scores[a].score > scores[b].score : a < b;
                      });
    chosen_.clear();
    for (std::size_t i = 0; i < wanted; ++i) chosen_.push_back({nodes[order_[i]].node, scores[order_[i]].device});
    nodes = chosen_;
  }

 private:
  struct Running {
    Job job;
    Duration started{0};
  };
  struct Account {
    std::uint32_t handle = 0;
    std::string name;
    Usage used;
  };

  std::uint32_t take_handle() {
    if (free_.empty()) return next_++;
    const std::uint32_t handle = free_.back();
    free_.pop_back();
    return handle;
  }

  std::uint32_t account_of(std::int32_t user) {
    const auto [it, fresh] = accounts_.try_emplace(user);
    if (fresh) {
      it->second.handle = static_cast<std::uint32_t>(accounts_.size() - 1);
      it->second.name = "user" + std::to_string(user);
      host_->account({it->second.handle, policy::kNone, policy::kUsualWeight, it->second.name, &it->second.used});
    }
    return it->second.handle;
  }

  void charge(const Job& job, int sign) {
    Account& account = accounts_.at(job.user);
    const Usage one = usage_of(job.need->shape);
    for (std::uint32_t i = 0; i < job.need->nodes; ++i) sign > 0 ? account.used.add(one) : account.used.subtract(one);
    host_->account_used(account.handle, account.used);
  }

  void tell(std::uint32_t event, const Job& job, std::uint32_t claimant, Duration now, Duration started, Duration run) {
    if (!host_->wants_feedback()) return;
    policy::Host::Feedback f;
    f.event = event, f.claimant = claimant, f.account = accounts_.at(job.user).handle;
    f.now = now, f.wait = started - job.submit, f.run = run, f.limit = job.estimate;
    f.units = job.need->nodes, f.shape = &job.need->shape;
    host_->feedback(f);
  }

  std::unique_ptr<policy::Host> host_;
  std::vector<std::uint32_t> free_, handles_, agents_, order_;
  std::uint32_t next_ = 0;
  std::unordered_map<std::uint64_t, std::uint32_t> place_;  // handle of a waiting job
  std::vector<Job> jobs_;                                   // by handle
  std::unordered_map<std::uint64_t, Running> running_;
  std::unordered_map<std::int32_t, Account> accounts_;
  std::vector<Planner::Candidate> by_handle_;
  std::vector<Chosen> chosen_;
};

}  // namespace

Result<std::unique_ptr<QueueOrder>> policy_order(const std::string& policy, std::uint64_t seed) {
  const policy::Catalog catalog;
  const policy::Choice choice = BOURSE_TRY(catalog.find(policy));
  policy::HostOptions options;
  options.seed = seed;
  return std::unique_ptr<QueueOrder>(std::make_unique<PolicyOrder>(BOURSE_TRY(policy::Host::make(choice, std::move(options)))));
}

}  // namespace bourse::batch
