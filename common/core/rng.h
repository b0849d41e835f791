// Deterministic randomness, handed out by name from one seed. Same numbers on every machine and library.
#pragma once

#include <cstdint>
#include <string_view>

namespace bourse {

class Rng {  // xoshiro256** 1.0 (Blackman, Vigna 2018), seeded through splitmix64
 public:
  explicit Rng(std::uint64_t seed);
  Rng fork(std::string_view name) const;  // an independent stream
  std::uint64_t next();
  std::uint64_t below(std::uint64_t bound);                   // [0, bound), unbiased; bound > 0
  std::int64_t between(std::int64_t low, std::int64_t high);  // inclusive
  bool chance(std::uint32_t permille);
  double unit();  // [0, 1) with 53 bits

 private:
  std::uint64_t state_[4];
};

}  // namespace bourse
