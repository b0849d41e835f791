// bandit: chooses among the same arms as qlearn, and learns only from what really happened: the plain alternative beside it.
//
// Reward of a window: minus the mean logarithm of the bounded slowdown of the jobs that started in it and have ended by the time it is
// judged, so that a reward goes to the window of the start.
// rule=linucb (default): contextual, Li et al., WWW 2010, with disjoint models over (1, backlog, width, spread of limits); the arm with
//   the highest theta'x + bonus x sqrt(x'A^-1 x); A and b fade by `fade` a window, since workloads drift.
// rule=epsilon: the arm with the best mean reward, another with probability `explore`; no context.
// rule=random: any arm; learns nothing. What every learner has to be better than.
//
// Parameters: rule=, bonus=0.3, fade=0.995, explore=0.05, and window, arms, guard, learn as qlearn has them.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "common/core/fmath.h"
#include "plugins/policy/builtin.h"
#include "plugins/policy/learner.h"

namespace bourse::policy {

namespace {

constexpr std::size_t kFeatures = 4;
using Features = std::array<double, kFeatures>;
using Matrix = std::array<Features, kFeatures>;

// x of A x = b, A symmetric and positive definite: Gauss without pivoting is stable there.
Features solve(Matrix a, Features b) {
  for (std::size_t i = 0; i < kFeatures; ++i) {
    for (std::size_t j = i + 1; j < kFeatures; ++j) {
      const double f = a[j][i] / a[i][i];
      for (std::size_t k = i; k < kFeatures; ++k) a[j][k] -= f * a[i][k];
      b[j] -= f * b[i];
    }
  }
  Features x{};
  for (std::size_t i = kFeatures; i-- > 0;) {
    double sum = b[i];
    for (std::size_t k = i + 1; k < kFeatures; ++k) sum -= a[i][k] * x[k];
    x[i] = sum / a[i][i];
  }
  return x;
}
double dot(const Features& a, const Features& b) {
  double sum = 0;
  for (std::size_t i = 0; i < kFeatures; ++i) sum += a[i] * b[i];
  return sum;
}
Features features(const Situation& s) {
  return {1, std::min(s.backlog, 4.0) / 4, std::min(s.width, 0.5) * 2, std::min(s.spread, 4.0) / 4};
}

class Bandit final : public Learner {
 public:
  using Learner::Learner;

 protected:
  void configure_more(Params& params) override {
    rule_ = params.choice("rule", "linucb", {"linucb", "epsilon", "random"});
    bonus_ = static_cast<double>(params.milli("bonus", 300, 0, 10'000)) / 1000;
    fade_ = static_cast<double>(params.milli("fade", 995, 500, 1000)) / 1000;
    explore_ = static_cast<double>(params.milli("explore", 50, 0, 1000)) / 1000;
    models_.assign(arms_.size(), Model{});
  }

  std::uint32_t choose(const Situation& situation, std::string& why) override {
    const double draw = uniform(), which = uniform();
    const auto any = std::min(arms_.size() - 1, static_cast<std::size_t>(which * static_cast<double>(arms_.size())));
    why = rule_;
    if (rule_ == "random") return static_cast<std::uint32_t>(any);
    if (rule_ == "epsilon" && !frozen_ && draw < explore_) return why = "exploring", static_cast<std::uint32_t>(any);
    const Features x = features(situation);
    std::size_t best = 0;
    double most = 0;
    for (std::size_t a = 0; a < models_.size(); ++a) {
      const Model& m = models_[a];
      double value = 0;
      if (rule_ == "epsilon") {
        if (m.windows == 0 && !frozen_) return why = "not tried yet", static_cast<std::uint32_t>(a);
        value = m.windows > 0 ? m.mean : -1e9;
      } else {
        value = dot(solve(m.a, m.b), x) + (frozen_ ? 0 : bonus_ * fmath::sqrt(std::max(0.0, dot(x, solve(m.a, x)))));
      }
      if (a == 0 || value > most) best = a, most = value;
    }
    why = fmt::format("{} {:.3f}", rule_, most);
    return static_cast<std::uint32_t>(best);
  }

  void judge(const Window& window, const Work&) override {
    if (window.ended == 0) return;
    const double reward = -window.log_slowdown / static_cast<double>(window.ended);
    const Features x = features(window.situation);
    for (Model& m : models_) {
      for (std::size_t i = 0; i < kFeatures; ++i) {
        for (std::size_t j = 0; j < kFeatures; ++j) m.a[i][j] = m.a[i][j] * fade_ + (i == j ? 1 - fade_ : 0);
        m.b[i] *= fade_;
      }
    }
    Model& m = models_[window.arm];
    for (std::size_t i = 0; i < kFeatures; ++i) {
      for (std::size_t j = 0; j < kFeatures; ++j) m.a[i][j] += x[i] * x[j];
      m.b[i] += reward * x[i];
    }
    m.windows += 1;
    m.mean += (reward - m.mean) / std::min(m.windows, 1 / (1 - std::min(fade_, 0.999)));
    say(fmt::format("window {} judged: {} jobs under {}, reward {:.3f}", window.number, window.ended, names_[window.arm], reward));
  }

  [[nodiscard]] std::string save_more() const override {
    std::string out;
    for (const Model& m : models_) {
      out += fmt::format("{} {}", m.windows, m.mean);
      for (const Features& row : m.a)
        for (const double v : row) out += fmt::format(" {}", v);
      for (const double v : m.b) out += fmt::format(" {}", v);
      out += '\n';
    }
    return out;
  }

  bool load_more(std::string_view text) override {
    const auto numbers = numbers_of(text);
    constexpr std::size_t kEach = 2 + kFeatures * kFeatures + kFeatures;
    if (!numbers || numbers->size() != models_.size() * kEach) return false;
    auto models = models_;
    const double* at = numbers->data();
    for (Model& m : models) {
      m.windows = *at++, m.mean = *at++;
      for (Features& row : m.a)
        for (double& v : row) v = *at++;
      for (double& v : m.b) v = *at++;
      for (std::size_t i = 0; i < kFeatures; ++i)
        if (!(m.a[i][i] > 0)) return false;
      if (!(m.windows >= 0)) return false;
    }
    models_ = std::move(models);
    return true;
  }

 private:
  struct Model {
    Matrix a{{{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}}};
    Features b{};
    double windows = 0, mean = 0;
  };
  std::string rule_;
  double bonus_ = 0.3, fade_ = 0.995, explore_ = 0.05;
  std::vector<Model> models_;
};

}  // namespace

const bourse_policy_1 kBandit = table_of_learner<Bandit>();

}  // namespace bourse::policy
