// qlearn: learns which order of jobs, and which weight of the hybrid, costs least in which situation, and puts it in force.
//
// Time is cut into windows. Of each it keeps the situation at its beginning (load x mix x skew, learner.h) and, once what came of it is
// known, asks a model of the queue (model.h) what every arm would have cost that had been in force for some windows: the same jobs, the
// same run times, another order. So one
// window teaches about all arms, and nothing need be tried out to be known (Sutton's Dyna, 1990: learning from a model made of what was
// seen). Then for each arm a, in the window's situation s and in a row for all situations,
//     Q(s, a) += rate x (r - Q(s, a)),   r = -cost(a) / mean cost of all arms,   rate = mean cost / weight,   weight = (1 - alpha) x weight + mean cost
// so that Q is a fading mean in which windows count by what was waited in them: the sum of that is what is to be least. What a choice does to later
// windows is in its cost, which is counted up to a horizon; there is no discounting beside that. A situation that was seldom met
// leans on the row for all. The arm with the highest Q is taken.
//
// Guard rails: arms have the age guard of the sjf family. Exploring has probability `explore` (at most 5 %) and only takes arms that
// are held to cost at most `margin` times the best. Where the arms that were in force, taken together, cost over `margin` times what
// the best single arm would have, that one alone is used until it is made up for.
//
// goal=completion: seconds waited, which is mean completion time; goal=slowdown: bounded slowdown. learn=false: uses what it has learnt.
// Parameters: window=6h, arms=..., guard=20h, goal=, learn=true, alpha=0.05, explore=0.02, margin=1.1. A change of arm costs
// O(n log n); judging a window up to 3,000 jobs for each arm, in one walk.
#include <fmt/format.h>

#include <algorithm>

#include "common/core/hooks.h"
#include "plugins/policy/builtin.h"
#include "plugins/policy/learner.h"

namespace bourse::policy {

namespace {

constexpr double kLean = 6;          // windows in a situation until its own row weighs as much as the one for all
constexpr double kMemory = 0.98;     // of the guard rail's sums, per window
constexpr double kMadeUp = 1.05;     // the guard rail lets go below this ratio
constexpr double kJudgedLeast = 20;  // windows before the guard rail looks: less proves nothing

class Qlearn final : public Learner {
 public:
  using Learner::Learner;

 protected:
  void configure_more(Params& params) override {
    alpha_ = static_cast<double>(params.milli("alpha", 50, 1, 1000)) / 1000;
    explore_ = static_cast<double>(params.milli("explore", 20, 0, 50)) / 1000;
    margin_ = static_cast<double>(params.milli("margin", 1100, 1000, 10'000)) / 1000;
    rows_.assign(Situation::kAll + 1, Row{});
    for (Row& row : rows_) row.q.assign(arms_.size(), 0);
    spent_.assign(arms_.size(), 0);
  }

  std::uint32_t choose(const Situation& situation, std::string& why) override {
    const Row &own = rows_[situation.index()], &all = rows_[Situation::kAll];
    if (all.windows == 0) return why = "nothing is known yet", 0;
    std::vector<double> q(arms_.size());
    for (std::size_t a = 0; a < q.size(); ++a) q[a] = (own.windows * own.q[a] + kLean * all.q[a]) / (own.windows + kLean);
    std::size_t best = 0;
    for (std::size_t a = 1; a < q.size(); ++a)
      if (q[a] > q[best]) best = a;
    if (alone_ != kNone && !hooks::mutant("policy.qlearn_no_guard_rail")) return why = "guard rail", alone_;
    // Drawn whether it is used or not, so that one choice does not change all later ones.
    const double draw = uniform(), which = uniform();
    if (!frozen_ && draw < explore_) {
      std::vector<std::uint32_t> near;
      for (std::size_t a = 0; a < q.size(); ++a)
        if (-q[a] <= -q[best] * margin_) near.push_back(static_cast<std::uint32_t>(a));
      why = fmt::format("exploring {} near the best", near.size());
      return near[std::min(near.size() - 1, static_cast<std::size_t>(which * static_cast<double>(near.size())))];
    }
    why = fmt::format("q {:.3f}, {} by all and {} windows like this", q[best], names_[best_of(all.q)], own.windows);
    return static_cast<std::uint32_t>(best);
  }

  void judge(const Window& window, const Work& work) override {
    if (work.jobs.empty()) return;
    std::vector<double> cost;
    double mean = 0;
    for (const Arm& arm : arms_) {
      const ModelCost c = QueueModel::run(work.jobs, work.begin, window.from, work.horizon, processors(), arm, guard_us_);
      cost.push_back(by_slowdown_ ? c.slowdown - static_cast<double>(c.jobs) : c.wait_s);
      mean += cost.back() / static_cast<double>(arms_.size());
    }
    if (!(mean > 0)) return;  // nobody waited, whatever the order
    for (Row* row : {&rows_[window.situation.index()], &rows_[Situation::kAll]}) {
      row->weight = (1 - alpha_) * row->weight + mean;
      const double rate = mean / row->weight;
      for (std::size_t a = 0; a < cost.size(); ++a) row->q[a] += rate * (-cost[a] / mean - row->q[a]);
      ++row->windows;
    }
    taken_ = taken_ * kMemory + cost[window.arm];
    for (std::size_t a = 0; a < cost.size(); ++a) spent_[a] = spent_[a] * kMemory + cost[a];
    const auto least = static_cast<std::uint32_t>(std::min_element(spent_.begin(), spent_.end()) - spent_.begin());
    const double ratio = spent_[least] > 0 ? taken_ / spent_[least] : 1;
    if (alone_ == kNone && ratio > margin_ && rows_[Situation::kAll].windows >= kJudgedLeast) {
      alone_ = least;
      say(fmt::format("what was in force cost {:.2f} times what {} alone would have: going on with {} until that is made up for",
                      ratio, names_[least], names_[least]));
    } else if (alone_ != kNone && ratio < kMadeUp) {
      say(fmt::format("{} is in force no longer than needed", names_[alone_]));
      alone_ = kNone;
    } else if (alone_ != kNone) {
      alone_ = least;
    }
    say(fmt::format("window {} judged: {} jobs, {} took {:.4g}, {} would have {:.4g}; it has cost {:.4g}", window.number,
                    work.jobs.size(), names_[window.arm], cost[window.arm], names_[best_of_cost(cost)],
                    *std::min_element(cost.begin(), cost.end()), work.real.wait_s));
  }

  [[nodiscard]] std::string save_more() const override {
    std::string out = fmt::format("{} {}", taken_, alone_);
    for (const double spent : spent_) out += fmt::format(" {}", spent);
    for (std::size_t s = 0; s < rows_.size(); ++s) {
      if (rows_[s].windows == 0) continue;
      out += fmt::format("\n{} {} {}", s, rows_[s].windows, rows_[s].weight);
      for (const double q : rows_[s].q) out += fmt::format(" {}", q);
    }
    return out;
  }

  bool load_more(std::string_view text) override {
    std::vector<std::vector<double>> lines;
    for (std::string_view rest = text; !rest.empty();) {
      const std::string_view line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(std::min(rest.size(), line.size() + 1));
      auto numbers = numbers_of(line);
      if (!numbers) return false;
      lines.push_back(*std::move(numbers));
    }
    if (lines.empty() || lines[0].size() != 2 + arms_.size()) return false;
    auto rows = rows_;
    for (std::size_t i = 1; i < lines.size(); ++i) {
      const auto& line = lines[i];
      if (line.size() != 3 + arms_.size() || !(line[0] >= 0 && line[0] <= Situation::kAll) || !(line[1] >= 1) || !(line[2] > 0))
        return false;
      Row& row = rows[static_cast<std::size_t>(line[0])];
      row.windows = line[1], row.weight = line[2];
      row.q.assign(line.begin() + 3, line.end());
    }
    const double alone = lines[0][1];
    alone_ = alone >= 0 && alone < static_cast<double>(arms_.size()) ? static_cast<std::uint32_t>(alone) : kNone;
    taken_ = lines[0][0];
    spent_.assign(lines[0].begin() + 2, lines[0].end());
    rows_ = std::move(rows);
    return true;
  }

 private:
  struct Row {
    double windows = 0, weight = 0;  // weight: of the costs seen, fading
    std::vector<double> q;           // by arm; -1 is as good as the mean arm
  };
  static std::size_t best_of(const std::vector<double>& q) {
    return static_cast<std::size_t>(std::max_element(q.begin(), q.end()) - q.begin());
  }
  static std::size_t best_of_cost(const std::vector<double>& c) {
    return static_cast<std::size_t>(std::min_element(c.begin(), c.end()) - c.begin());
  }

  double alpha_ = 0.05, explore_ = 0.02, margin_ = 1.1;
  std::vector<Row> rows_;  // by situation; the last for all
  double taken_ = 0;       // by the model, of what was in force; fading
  std::vector<double> spent_;
  std::uint32_t alone_ = kNone;  // the guard rail's
};

}  // namespace

const bourse_policy_1 kQlearn = table_of_learner<Qlearn>();

}  // namespace bourse::policy
