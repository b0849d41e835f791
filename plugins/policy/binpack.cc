// binpack: where a unit goes. The order of claimants is the host's own (drf in the master, fifo in batch).
//
// rule=best (default): best fit. Score 1 - x, x the weighted mean over cpus, memory and devices of (free - ask) / (the largest
//   agent's amount); sorts that no agent has do not count. So the fullest agent on which it fits wins.
// rule=worst: x. The emptiest wins; spreads load, and wastes room for gangs.
// rule=dot-max: the dot product of ask and free, both over the agent's own total; the LARGEST wins (Tetris, SIGCOMM 2014).
// rule=dot-min: the same product, the SMALLEST wins (the "DotProd" baseline of the FGD study, ATC 2023). Mind the sign: these two are
//   both called "dot product" in the literature.
// rule=random: any, each as likely; what every other rule has to be better than. From the host's randomness.
// steps=N: scores are rounded down to multiples of 1/N; 0 (default): not rounded. Fewer steps, more ties.
// cpus=W, mem=W, devices=W: weights, 1 each; 0 leaves a sort out.
//
// Equal scores: the host's order of candidates. O(candidates).
#include "common/core/fmath.h"
#include "plugins/policy/builtin.h"
#include "plugins/policy/fit.h"

namespace bourse::policy {

namespace {

constexpr double kUniform = 9007199254740992;  // 2^53

class Binpack final : public Base {
 public:
  using Base::Base;

  void configure(Params& params) override {
    rule_ = params.choice("rule", "best", {"best", "worst", "dot-max", "dot-min", "random"});
    if (rule_ == "random") random_ = static_cast<const bourse_random_1*>(host()->get(host(), BOURSE_RANDOM_1));
    steps_ = static_cast<double>(params.integer("steps", 0, 0, 1'000'000));
    weights_ = fit_weights(params);
  }
  void agent_changed(std::uint32_t h) override { spec_.see(book.agents()[h].total); }

  void score(const Placement& what, const std::uint32_t* agents, std::uint32_t count, bourse_score* scores) override {
    if (random_ != nullptr) {
      for (std::uint32_t i = 0; i < count; ++i) scores[i].score = static_cast<double>(random_->next(host()) >> 11) / kUniform;
      return;
    }
    for (std::uint32_t i = 0; i < count; ++i) {
      const Agent& agent = book.agents()[agents[i]];
      double score = rule_ == "best" || rule_ == "worst" ? best_fit(what.ask, agent.free, spec_, weights_)
                                                         : alignment(what.ask, agent.free, agent.total, weights_);
      if (rule_ == "worst" || rule_ == "dot-min") score = 1 - score;
      scores[i].score = in_steps(score, steps_);
    }
  }

 private:
  std::string rule_;
  const bourse_random_1* random_ = nullptr;
  double steps_ = 0;
  FitWeights weights_;
  MaxSpec spec_;
};

}  // namespace

FitWeights fit_weights(Params& params) {
  FitWeights w;
  const char* names[] = {"cpus", "mem", "devices"};
  for (int r = 0; r < 3; ++r) w.of[r] = static_cast<double>(params.milli(names[r], 1000, 0, 1'000'000)) / 1000;
  return w;
}

double in_steps(double score, double steps) {
  return steps > 0 ? static_cast<double>(static_cast<std::int64_t>(score * steps)) / steps : score;
}

const bourse_policy_1 kBinpack = table_of<Binpack>({.scores = true, .wants = BOURSE_WANTS_AGENTS});

}  // namespace bourse::policy
