// How later jobs may pass the first that waits. One word for configuration, simulation and the pages.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace bourse::batch {

enum class Backfill : std::uint8_t {
  kNone,          // never: first come, first served
  kEasy,          // if they do not delay it; its reservation names nodes
  kEasyCount,     // the same, counting what is free in the whole cluster: right where every node is as good as another
  kConservative,  // if they delay none of those ahead of them: each has a reservation
};

constexpr std::string_view text_of(Backfill backfill) {
  switch (backfill) {
    case Backfill::kNone:
      return "none";
    case Backfill::kEasy:
      return "easy";
    case Backfill::kEasyCount:
      return "easy-count";
    case Backfill::kConservative:
      return "conservative";
  }
  return "?";
}

constexpr std::optional<Backfill> backfill_of(std::string_view text) {
  for (Backfill b : {Backfill::kNone, Backfill::kEasy, Backfill::kEasyCount, Backfill::kConservative})
    if (text == text_of(b)) return b;
  return std::nullopt;
}

}  // namespace bourse::batch
