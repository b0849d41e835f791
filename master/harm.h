// Which of some slices on one agent to take back so that something fits there: the least harm, as arithmetic. No tables, no clock.
//
// Less harm is, in this order: fewer slices lost (one of a gang counts as all of it, since the work that has it ends as a whole); a
// lower priority of the highest among them; younger work, by the oldest among them; the set whose first difference, in the order of the
// candidates, is the earlier one. The order of candidates is: lower priority, younger, lower id.
//
// Exact while the sets of one size are at most kSetsMost: sizes from the smallest that can be enough. Beyond that two greedy choices
// are made (in the order of the candidates; the largest first), each is thinned out, what does most harm first, until nothing in it could
// stay, and the better one is taken. So what is taken is always needed, if not always the least.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "common/core/ids.h"
#include "common/core/resources.h"
#include "common/core/time.h"

namespace bourse::house {

struct Victim {
  SliceId slice;
  Resources amount;
  std::int64_t priority = 0;
  Duration since{0};         // wall; when it was granted
  std::uint32_t weight = 1;  // slices that are lost with it, itself among them
  std::uint64_t gang = 0;    // of the same owner: counted once. 0: none
  std::uint32_t owner = 0;
};

struct Harm {
  std::uint64_t slices = 0;
  std::int64_t priority = 0;  // the highest
  Duration oldest{0};         // the larger, the younger the work
  [[nodiscard]] bool less_than(const Harm& other) const {
    return std::tuple(slices, priority, -oldest.count()) < std::tuple(other.slices, other.priority, -other.oldest.count());
  }
  bool operator==(const Harm&) const = default;
};

struct Taking {
  std::vector<std::size_t> victims;  // indexes, ascending; empty: it fits without
  Harm harm;
};

void sort_candidates(std::vector<Victim>& candidates);
[[nodiscard]] Harm harm_of(std::span<const Victim> candidates, std::span<const std::size_t> victims);

constexpr std::uint64_t kSetsMost = 2'000;

// `candidates` sorted. `may`: is this set allowed at all? nullopt: not even all of them would do. `looks` is lowered by each question
// whether something fits; at 0 no more are asked, and what was found so far is the answer.
std::optional<Taking> least_harm(const Shape& shape, const Resources& free, const Resources& total, const Labels& labels,
                                 std::span<const Victim> candidates, const std::function<bool(std::span<const std::size_t>)>& may,
                                 std::int64_t& looks);

}  // namespace bourse::house
