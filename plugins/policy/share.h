// A share of the cluster as an exact fraction.
//
// The dominant share of a claimant is the largest, over the kinds, of used / (total x weight) (Ghodsi et al., NSDI 2011, section 4).
// Compared by cross multiplication in 128 bits. Kinds of which the cluster has nothing do not count.
#pragma once

#include <cstdint>
#include <numeric>

#include "plugins/policy/book.h"

namespace bourse::policy {

struct Share {  // numerator / denominator, denominator > 0
  std::int64_t numerator = 0, denominator = 1;

  friend int compare(const Share& a, const Share& b) {
    __extension__ using Wide = unsigned __int128;
    const Wide left = static_cast<Wide>(a.numerator) * static_cast<Wide>(b.denominator),
               right = static_cast<Wide>(b.numerator) * static_cast<Wide>(a.denominator);
    return left < right ? -1 : left > right ? 1 : 0;
  }
  friend bool operator<(const Share& a, const Share& b) { return compare(a, b) < 0; }

  // used / (total x weight / 1000). Exact while total x weight stays below 2^63; beyond, both halves lose their last bits.
  static Share of(std::int64_t used, std::int64_t total, std::uint32_t weight) {
    __extension__ using Wide = unsigned __int128;
    const std::uint32_t common = std::gcd(weight, kUsualWeight);
    Wide n = static_cast<Wide>(used) * (kUsualWeight / common), d = static_cast<Wide>(total) * (weight / common);
    while ((n >> 63) != 0 || (d >> 63) != 0) n >>= 1, d >>= 1;
    return {static_cast<std::int64_t>(n), static_cast<std::int64_t>(d == 0 ? 1 : d)};
  }
};

inline Share dominant(const Vector& used, const Vector& total, std::uint32_t weight) {
  Share best;
  for (std::size_t k = 0; k < used.size() && k < total.size(); ++k) {
    if (total[k] <= 0 || used[k] <= 0) continue;
    const Share share = Share::of(used[k], total[k], weight);
    if (best < share) best = share;
  }
  return best;
}

// Totals move with every agent that comes or goes; ranking everybody anew each time would make one changed agent cost as much
// as there are claimants. So shares are taken against a reference that follows the true total as soon as any kind differs from it
// by more than one part in kSlack.
class ReferenceTotal {
 public:
  static constexpr std::int64_t kSlack = 32;
  [[nodiscard]] const Vector& get() const { return reference_; }
  bool follow(const Vector& truth) {  // true: it moved
    bool far = reference_.size() != truth.size();
    for (std::size_t k = 0; !far && k < truth.size(); ++k) {
      const std::int64_t gap = reference_[k] > truth[k] ? reference_[k] - truth[k] : truth[k] - reference_[k];
      far = gap > reference_[k] / kSlack;
    }
    if (far) reference_ = truth;
    return far;
  }

 private:
  Vector reference_;
};

}  // namespace bourse::policy
