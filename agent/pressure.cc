#include "agent/pressure.h"

#include <algorithm>

#include "common/core/hooks.h"

namespace bourse {
namespace {

std::string percent(std::int32_t permille) {
  const std::string whole = std::to_string(permille / 10);
  return permille % 10 == 0 ? whole : whole + "." + std::to_string(permille % 10);
}

constexpr std::int32_t kNoise = 10;  // permille that a figure must sink to count as falling

}  // namespace

std::int32_t PressureRule::level() const {
  std::int32_t most = 0;
  for (const auto& [scope, permille] : levels_) most = std::max(most, permille);
  return most;
}

const std::string& PressureRule::scope() const {
  static const std::string kNone;
  const std::string* found = &kNone;
  std::int32_t most = -1;
  for (const auto& [scope, permille] : levels_)
    if (permille > most) most = permille, found = &scope;
  return *found;
}

std::string PressureRule::text(const PressureSample& why) const {
  // The sample that it is decided at need not be the one that matters.
  const bool most = !why.trigger && level() > why.some_avg10_permille;
  const std::string whose =
      (most ? scope() : why.scope) == "slices" ? "memory pressure of the slices" : "memory pressure of the host";
  const std::string figure =
      ": some avg10 is " + percent(most ? level() : why.some_avg10_permille) + ", the limit is " + percent(limits_.evict);
  return whose + figure + (why.trigger ? "; the kernel's alarm: tasks stand still for most of the time" : "");
}

PressureRule::Step PressureRule::sample(Duration now, const PressureSample& sample) {
  levels_[sample.scope] = sample.some_avg10_permille;
  const std::int32_t most = level();
  if (!too_much_) {
    if (most < limits_.evict && !sample.trigger) return Step::kNothing;
    too_much_ = true;
    warned_ = now;
    looked_ = kNever;
    if (limits_.notice > Duration(0) && !hooks::mutant("agent.evicts_without_notice")) return Step::kWarn;
  }
  // A trigger that has just fired is not over, whatever an average over ten seconds says.
  if (most < (hooks::mutant("agent.no_hysteresis") ? limits_.evict : limits_.stop) && !sample.trigger) {
    too_much_ = false;
    return Step::kCalm;
  }
  if (now - warned_ < limits_.notice) return Step::kNothing;
  if (looked_ != kNever && now - looked_ < limits_.settle) return Step::kNothing;
  const bool falls = looked_ != kNever && most < was_ - kNoise;  // what was done begins to show
  looked_ = now;
  was_ = most;
  return falls && !sample.trigger ? Step::kNothing : Step::kEvict;
}

}  // namespace bourse
