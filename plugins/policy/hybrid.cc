// hybrid: fairness and packing together.
//
// form=weighted (default): claimants by weight x (1 - s) + (1 - weight) x fit, highest first; s is the dominant share of the claimant's
//   account (its own without one), at most 1, fit how well one unit fits (below). weight=1 is fairness alone, 0 packing alone.
// form=stages: only the ceil((1 - weight) x n) accounts furthest below their share may be chosen, at least one; among their claimants the
//   best fit goes first, and the others follow by share. So whoever is served is always among that many of the lowest shares,
//   whatever fits: Tetris's fairness knob (SIGCOMM 2014). weight=1 is strict fairness.
// fit: on the agent that has something free, best fit (binpack, rule=best); where no one agent is meant, the alignment with what is free
//   in the whole cluster over its total (rule=dot-max).
// Placement: binpack, rule=best.
//
// Order: higher priority; then that score; then the lower share; then lower `order`, name, handle. Equal placement scores: the host's
// order of candidates.
//
// Parameters: weight=0.5, form=weighted|stages, cpus=, mem=, devices= as in binpack. A ranking is O(n log n).
#include <algorithm>
#include <map>

#include "plugins/policy/builtin.h"
#include "plugins/policy/fit.h"
#include "plugins/policy/share.h"

namespace bourse::policy {

namespace {

class Hybrid final : public Base {
 public:
  using Base::Base;

  void configure(Params& params) override {
    weight_ = params.milli("weight", 500, 0, 1000);
    stages_ = params.choice("form", "weighted", {"weighted", "stages"}) == "stages";
    weights_ = fit_weights(params);
  }
  void agent_changed(std::uint32_t h) override {
    spec_.see(book.agents()[h].total);
    if (h >= counted_.size()) counted_.resize(std::size_t{h} + 1);
    add(counted_[h], -1);
    counted_[h] = book.agents()[h].free;
    add(counted_[h], 1);
  }
  void agent_removed(std::uint32_t h) override {
    add(counted_[h], -1);
    counted_[h].clear();
  }

  void rank(std::int64_t, std::uint32_t agent, std::uint32_t* claimants, std::uint32_t count) override {
    keyed_.clear();
    std::map<std::pair<bool, std::uint32_t>, Share> accounts;
    for (std::uint32_t i = 0; i < count; ++i) {
      Keyed k{.claimant = claimants[i]};
      const Claimant& c = book.of(k.claimant);
      const bool own = c.account == kNone || !book.has_account(c.account);
      k.account = {own, own ? k.claimant : c.account};
      k.share = own ? dominant(c.used, book.all(), c.weight)
                    : dominant(book.accounts()[c.account].used, book.all(), book.accounts()[c.account].weight);
      k.fit = agent != kNone && book.has_agent(agent) ? best_fit(c.ask, book.agents()[agent].free, spec_, weights_)
                                                      : alignment(c.ask, free_, book.all(), weights_);
      accounts.emplace(k.account, k.share);
      keyed_.push_back(k);
    }
    const double w = static_cast<double>(weight_) / 1000;
    if (stages_) {
      // The least shares, ties by account, so that exactly that many accounts are in.
      std::vector<std::pair<Share, std::pair<bool, std::uint32_t>>> order;
      for (const auto& [account, share] : accounts) order.emplace_back(share, account);
      std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
      const std::size_t n = order.size();
      const std::size_t in = std::max<std::size_t>(1, (n * static_cast<std::size_t>(1000 - weight_) + 999) / 1000);
      std::map<std::pair<bool, std::uint32_t>, bool> chosen;
      for (std::size_t i = 0; i < n; ++i) chosen[order[i].second] = i < in;
      for (Keyed& k : keyed_) k.score = chosen[k.account] ? 1 + k.fit : 0;
    } else {
      for (Keyed& k : keyed_) {
        const double s = std::min(1.0, static_cast<double>(k.share.numerator) / static_cast<double>(k.share.denominator));
        k.score = w * (1 - s) + (1 - w) * k.fit;
      }
    }
    std::sort(keyed_.begin(), keyed_.end(), [this](const Keyed& a, const Keyed& b) {
      const std::int64_t p = book.of(a.claimant).priority, q = book.of(b.claimant).priority;
      if (p != q) return p > q;
      if (a.score != b.score) return a.score > b.score;
      if (const int shares = compare(a.share, b.share); shares != 0) return shares < 0;
      return earlier(a.claimant, b.claimant);
    });
    for (std::uint32_t i = 0; i < count; ++i) claimants[i] = keyed_[i].claimant;
  }

  void score(const Placement& what, const std::uint32_t* agents, std::uint32_t count, bourse_score* scores) override {
    for (std::uint32_t i = 0; i < count; ++i) scores[i].score = best_fit(what.ask, book.agents()[agents[i]].free, spec_, weights_);
  }

 private:
  struct Keyed {
    std::uint32_t claimant = 0;
    std::pair<bool, std::uint32_t> account{};
    Share share{};
    double fit = 0, score = 0;
  };
  void add(const Vector& free, std::int64_t sign) {
    if (free_.size() < free.size()) free_.resize(free.size(), 0);
    for (std::size_t k = 0; k < free.size(); ++k) free_[k] += sign * free[k];
  }

  std::int64_t weight_ = 500;
  bool stages_ = false;
  FitWeights weights_;
  MaxSpec spec_;
  Vector free_;                  // of all agents
  std::vector<Vector> counted_;  // by agent, in free_
  std::vector<Keyed> keyed_;
};

}  // namespace

const bourse_policy_1 kHybrid = table_of<Hybrid>({.ranks = true, .scores = true, .wants = BOURSE_WANTS_AGENTS | BOURSE_WANTS_USED});

}  // namespace bourse::policy
