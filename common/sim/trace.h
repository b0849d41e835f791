// A hash over everything that was delivered, to whom and when: two runs are the same if and only if they have the same hash.
#pragma once

#include <cstdint>
#include <string_view>

#include "common/core/event.h"

namespace bourse::sim {

class Trace {
 public:
  void add(std::uint64_t value) {
    hash_ = (hash_ ^ value) * 0x9e3779b97f4a7c15ULL;
    hash_ ^= hash_ >> 29;
  }
  void add(std::string_view text);
  // Moment, node, kind, and the identities and states in it.
  void add(Duration at, std::uint32_t node, const Event& event);
  [[nodiscard]] std::uint64_t hash() const { return hash_; }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325ULL;
};

}  // namespace bourse::sim
