// FNV-1a, 64 bits (Fowler, Noll and Vo): the same number for a text in every process and every release. Not for adversaries.
#pragma once

#include <cstdint>
#include <string_view>

namespace bourse {

inline constexpr std::uint64_t kFnvBasis = 0xcbf29ce484222325ULL;

constexpr std::uint64_t fnv1a(std::string_view text, std::uint64_t hash = kFnvBasis) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

}  // namespace bourse
