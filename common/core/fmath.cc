#include "common/core/fmath.h"

#include <bit>
#include <cstdint>
#include <limits>

namespace bourse::fmath {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
// ln 2 in two parts: the first has 32 trailing zero bits, so k * kLn2High is exact for every exponent k.
constexpr double kLn2High = 0x1.62e42feep-1;
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
constexpr double kInverseLn2 = 0x1.71547652b82fep+0;
constexpr double kSqrt2 = 0x1.6a09e667f3bcdp+0;

double power_of_two(int k) { return std::bit_cast<double>(static_cast<std::uint64_t>(k + 1023) << 52); }  // -1022 <= k <= 1023

bool integral(double y) {
  constexpr double kAllIntegral = 0x1.0p53;
  if (y >= kAllIntegral || y <= -kAllIntegral) return true;
  return static_cast<double>(static_cast<std::int64_t>(y)) == y;
}
bool odd(double y) { return y < 0x1.0p53 && y > -0x1.0p53 && (static_cast<std::int64_t>(y) & 1) != 0; }

}  // namespace

double exp(double x) {
  if (x != x) return x;
  if (x > 0x1.62e42fefa39efp+9) return kInf;
  if (x < -0x1.6232bdd7abcd2p+9) return 0;  // ln DBL_MIN
  // x = k ln 2 + r, |r| <= 0.3466: then Taylor's series, whose 15th term is below 2^-62.
  const double scaled = x * kInverseLn2;
  const int k = static_cast<int>(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
  const double r = (x - k * kLn2High) - k * kLn2Low;
  double sum = 1.0;
  for (int n = 14; n >= 2; --n) sum = 1.0 + sum * r / n;
  const double e = 1.0 + r * sum;
  return k > 1023 ? e * 2.0 * power_of_two(k - 1) : k < -1022 ? e * 0.5 * power_of_two(k + 1) : e * power_of_two(k);
}

double log(double x) {
  if (x != x || x < 0) return kNan;
  if (x == 0) return -kInf;
  if (x == kInf) return x;
  int k = 0;
  if (x < std::numeric_limits<double>::min()) {  // subnormal
    x *= 0x1.0p54;
    k = -54;
  }
  const auto bits = std::bit_cast<std::uint64_t>(x);
  k += static_cast<int>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0x000fffffffffffffULL) | 0x3ff0000000000000ULL);  // [1, 2)
  if (m > kSqrt2) {
    m *= 0.5;
    ++k;
  }
  // log m = f - s (f - R) with f = m - 1, s = f / (2 + f) and R = 2 (s^2/3 + s^4/5 + ...), from log m = 2 atanh s: the
  // leading term f is exact, so nothing is lost near 1. |s| <= 0.1716; the last term kept is below 2^-56 of the sum.
  const double f = m - 1.0;
  const double s = f / (2.0 + f);
  const double z = s * s;
  double series = 0;
  for (int n = 23; n >= 3; n -= 2) series = z * (series + 1.0 / n);
  const double remainder = s * (f - 2.0 * series);
  if (k == 0) return f - remainder;
  return k * kLn2High - ((remainder - k * kLn2Low) - f);
}

double pow(double x, double y) {
  if (y == 0 || x == 1) return 1;
  if (x != x || y != y) return kNan;
  if (x == 0) {
    const double zero = odd(y) ? x : 0.0;
    return y > 0 ? zero : 1.0 / zero;
  }
  if (x < 0) {
    if (x == -kInf || integral(y)) {
      const double magnitude = pow(-x, y);
      return odd(y) ? -magnitude : magnitude;
    }
    return kNan;
  }
  if (y == kInf || y == -kInf) return (x > 1) == (y > 0) ? kInf : 0;
  if (x == kInf) return y > 0 ? kInf : 0;
  return exp(y * log(x));
}

double sqrt(double x) { return __builtin_sqrt(x); }  // a basic operation of IEEE 754 (5.4.1), exactly rounded everywhere

}  // namespace bourse::fmath
