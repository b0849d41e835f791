#include "common/core/rng.h"

#include "common/core/fnv.h"
#include "common/core/result.h"

namespace bourse {

namespace {
std::uint64_t rotl(std::uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }

// splitmix64 (Steele, Lea, Flood 2014): the seeding that the authors of xoshiro recommend.
std::uint64_t splitmix(std::uint64_t& x) {
  std::uint64_t z = (x += 0x9e3779b97f4a7c15ULL);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}
}  // namespace

Rng::Rng(std::uint64_t seed) {
  for (std::uint64_t& word : state_) word = splitmix(seed);
}

Rng Rng::fork(std::string_view name) const {
  std::uint64_t seed = fnv1a(name);
  for (const std::uint64_t word : state_) {
    seed ^= word;
    seed = splitmix(seed);
  }
  return Rng(seed);
}

std::uint64_t Rng::next() {
  const std::uint64_t result = rotl(state_[1] * 5, 7) * 9;
  const std::uint64_t t = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = rotl(state_[3], 45);
  return result;
}

std::uint64_t Rng::below(std::uint64_t bound) {
  BOURSE_ASSERT(bound > 0, "Rng::below(0)");
  const std::uint64_t reject = (0 - bound) % bound;  // 2^64 mod bound: values below it would favour the small ones
  std::uint64_t x = next();
  while (x < reject) x = next();
  return x % bound;
}

std::int64_t Rng::between(std::int64_t low, std::int64_t high) {
  BOURSE_ASSERT(low <= high, std::to_string(low) + " > " + std::to_string(high));
  const std::uint64_t span = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low) + 1;
  const std::uint64_t offset = span == 0 ? next() : below(span);
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + offset);
}

bool Rng::chance(std::uint32_t permille) { return below(1000) < permille; }

double Rng::unit() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

}  // namespace bourse
