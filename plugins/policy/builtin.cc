#include "plugins/policy/builtin.h"

#include "common/core/units.h"

namespace bourse::policy {

const std::vector<Builtin>& builtins() {
  static const std::vector<Builtin> all = {
      {"bandit", "Learns from what happened which order to use: a contextual bandit over orders and hybrid weights.", &kBandit},
      {"binpack", "Placement only: best fit, worst fit or a dot product.", &kBinpack},
      {"drf", "Weighted dominant-resource fairness over accounts, then over their claimants.", &kDrf},
      {"f1", "log10(time) x processors + 870 x log10(submit time), lowest first.", &kF1},
      {"fgd", "Placement only: where it leaves devices least fragmented for the usual asks.", &kFgd},
      {"fifo", "First come, first served.", &kFifo},
      {"hdrf", "Hierarchical dominant-resource fairness over a tree of accounts.", &kHdrf},
      {"hybrid", "Dominant-resource fairness and packing, weighed or in two stages.", &kHybrid},
      {"qlearn", "Learns from a model of the queue which order or hybrid weight to use in which situation.", &kQlearn},
      {"saf", "Smallest area (time x processors) first.", &kSaf},
      {"sjf", "Shortest first.", &kSjf},
      {"unicep", "Wait over log2(processors) x time, highest first.", &kUnicep},
      {"wfp3", "(wait / time) cubed x processors, highest first.", &kWfp3},
      {"xf", "Expansion factor, (wait + time) / time, highest first.", &kXf},
  };
  return all;
}

const bourse_policy_1* find_builtin(std::string_view name) {
  for (const Builtin& builtin : builtins())
    if (builtin.name == name) return builtin.table;
  return nullptr;
}

std::int64_t reserve_of(Params& params) {
  const std::string said = params.text("reserve", "60s");
  if (said == "off") return -1;
  if (said == "always") return 0;
  const auto value = parse_duration(said, seconds(1), false);
  if (value && *value > Duration{0}) return value->count();
  params.refuse("reserve", said, "expected off, always or a time such as 60s");
  return -1;
}

}  // namespace bourse::policy
