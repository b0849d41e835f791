#include "frameworks/batch/depend.h"

#include "common/core/hooks.h"

namespace bourse::batch {

Verdict judge(const Dependency& dependency, const TargetFacts& target, Duration now_mono, std::optional<Duration>& wake) {
  switch (dependency.type) {
    case DependencyType::kAfter: {
      if (!target.started && !target.ended) return Verdict::kNotYet;
      if (dependency.delay.count() == 0 || target.started_at.count() == 0) return Verdict::kMet;
      const Duration due = target.started_at + dependency.delay;
      if (due <= now_mono) return Verdict::kMet;
      if (!wake || due < *wake) wake = due;
      return Verdict::kNotYet;
    }
    case DependencyType::kAfterAny:
      return target.ended ? Verdict::kMet : Verdict::kNotYet;
    case DependencyType::kAfterOk:
      if (!target.ended) return Verdict::kNotYet;
      return target.ok || hooks::mutant("batch.afterok_ignores_failure") ? Verdict::kMet : Verdict::kNever;
    case DependencyType::kAfterNotOk:
      if (!target.ended) return Verdict::kNotYet;
      return target.ok ? Verdict::kNever : Verdict::kMet;
    case DependencyType::kAfterCorr:  // judged task by task; as a whole it stands in nobody's way
    case DependencyType::kSingleton:
      return Verdict::kMet;
  }
  return Verdict::kMet;
}

}  // namespace bourse::batch
