// What a dependency says of the job it names: met, not yet, or never. Pure; how past jobs ended is remembered by Outcomes.
#pragma once

#include <cstdint>
#include <optional>

#include "frameworks/batch/arrays.h"
#include "frameworks/batch/job.h"

namespace bourse::batch {

enum class Verdict : std::uint8_t { kMet, kNotYet, kNever };

struct TargetFacts {
  bool known = false;
  bool started = false;  // an array: every task of it
  bool ended = false;
  bool ok = false;         // every task exited with 0
  Duration started_at{0};  // mono, so that a delay is not shortened by a clock that is set; 0: not known any more
};

// `wake`: when a delay behind after:ID+min is over, mono.
Verdict judge(const Dependency& dependency, const TargetFacts& target, Duration now_mono, std::optional<Duration>& wake);

// How jobs and array tasks ended, by their numbers. Numbers cluster, so a million of them cost little.
class Outcomes {
 public:
  void note(std::uint64_t first, std::uint64_t last, bool ok) { (ok ? ok_ : bad_).insert(first, last); }
  [[nodiscard]] std::optional<bool> find(std::uint64_t number) const {
    if (bad_.contains(number)) return false;
    if (ok_.contains(number)) return true;
    return std::nullopt;
  }

 private:
  RankSet ok_, bad_;
};

}  // namespace bourse::batch
