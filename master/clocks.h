// Whose clock is right, when nobody's is: the median of several. See "Clock drift".
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "common/core/time.h"

namespace bourse {

// The offset of another's clock, from answers to what it was asked. The way there and the way back are taken to be as long as each
// other, so an offset is wrong by at most half of both: the quickest of the last few answers is the one to believe.
class ClockSamples {
 public:
  static constexpr std::size_t kSamples = 8;
  struct Sample {
    Duration round{0}, offset{0};
  };
  void add(Duration round, Duration offset) { samples_[n_++ % kSamples] = {round, offset}; }
  [[nodiscard]] std::optional<Sample> best() const {
    if (n_ == 0) return {};
    return *std::min_element(samples_.begin(), samples_.begin() + static_cast<std::ptrdiff_t>(std::min(n_, kSamples)),
                             [](const Sample& a, const Sample& b) { return a.round < b.round; });
  }

 private:
  std::array<Sample, kSamples> samples_{};
  std::size_t n_ = 0;
};

// Of an even number: the one of the two in the middle that is nearer to zero, so that two halves that disagree accuse nobody.
inline Duration median(std::vector<Duration> values) {
  if (values.empty()) return Duration(0);
  std::sort(values.begin(), values.end());
  const Duration upper = values[values.size() / 2];
  if (values.size() % 2 == 1) return upper;
  const Duration lower = values[values.size() / 2 - 1];
  return std::chrono::abs(lower) < std::chrono::abs(upper) ? lower : upper;
}

}  // namespace bourse
