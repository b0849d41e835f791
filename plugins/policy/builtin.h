// The policies that come with Bourse, by name. Each is one file here and one bourse_policy_1, the same as a plugin's.
#pragma once

#include <algorithm>
#include <memory>
#include <string_view>
#include <vector>

#include "plugins/policy/base.h"

namespace bourse::policy {

struct Builtin {
  std::string_view name, help;  // help: one sentence
  const bourse_policy_1* table = nullptr;
};
const std::vector<Builtin>& builtins();  // by name
const bourse_policy_1* find_builtin(std::string_view name);

extern const bourse_policy_1 kFifo, kDrf, kHdrf, kSjf, kSaf, kF1, kWfp3, kUnicep, kXf, kBinpack, kFgd, kHybrid, kQlearn, kBandit;

// What policies share that is no state.
template <class Less>
void sort_claimants(std::uint32_t* claimants, std::uint32_t count, const Less& less) {
  if (!std::is_sorted(claimants, claimants + count, less)) std::sort(claimants, claimants + count, less);
}
struct FitWeights;
FitWeights fit_weights(Params& params);       // cpus=, mem=, devices=
double in_steps(double score, double steps);  // rounded down to multiples of 1 / steps; 0: as it is
std::int64_t reserve_of(Params& params);      // reserve=off|always|TIME in microseconds, -1 off; default 60s

}  // namespace bourse::policy
