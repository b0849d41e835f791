// How well an ask fits an agent, as numbers in [0, 1]; shared by binpack, fgd and hybrid.
//
// Devices of all kinds count as one sort of amount. Only additions, multiplications and divisions of doubles in a fixed order: the
// same on every machine.
#pragma once

#include <algorithm>
#include <cstdint>

#include "plugins/policy/book.h"

namespace bourse::policy {

struct Amount3 {  // cpus, memory, devices
  double of[3] = {0, 0, 0};
};

inline Amount3 amount3(const Vector& v) {
  Amount3 a;
  for (std::size_t k = 0; k < v.size(); ++k) a.of[std::min<std::size_t>(k, 2)] += static_cast<double>(v[k]);
  return a;
}

struct FitWeights {
  double of[3] = {1, 1, 1};
};

// The largest agent's amounts, component by component. Kept by whoever hears of agents; only grows, until recomputed.
struct MaxSpec {
  Amount3 most;
  void see(const Vector& total) {
    const Amount3 a = amount3(total);
    for (int r = 0; r < 3; ++r) most.of[r] = std::max(most.of[r], a.of[r]);
  }
};

// Best fit: 1 - sum of w_r (free_r - ask_r) / most_r over the sorts that any agent has, the w_r adding up to 1.
inline double best_fit(const Vector& ask, const Vector& free, const MaxSpec& spec, const FitWeights& weights) {
  const Amount3 d = amount3(ask), f = amount3(free);
  double sum = 0, all = 0;
  for (int r = 0; r < 3; ++r) {
    if (!(spec.most.of[r] > 0) || !(weights.of[r] > 0)) continue;
    all += weights.of[r];
    sum += weights.of[r] * (std::max(f.of[r] - d.of[r], 0.0) / spec.most.of[r]);
  }
  return all > 0 ? std::clamp(1 - sum / all, 0.0, 1.0) : 0;
}

// Alignment: mean of w_r (ask_r / total_r)(free_r / total_r) over the sorts that this agent has.
inline double alignment(const Vector& ask, const Vector& free, const Vector& total, const FitWeights& weights) {
  const Amount3 d = amount3(ask), f = amount3(free), t = amount3(total);
  double sum = 0, all = 0;
  for (int r = 0; r < 3; ++r) {
    if (!(t.of[r] > 0) || !(weights.of[r] > 0)) continue;
    all += weights.of[r];
    sum += weights.of[r] * (std::min(d.of[r] / t.of[r], 1.0) * (f.of[r] / t.of[r]));
  }
  return all > 0 ? std::clamp(sum / all, 0.0, 1.0) : 0;
}

}  // namespace bourse::policy
