// Host lists as every HPC tool writes them: "h1", "h[1-4,7]", "r[1-2]n[01-16],login". And sets of indexes: "1-1000:2,7".
//
// Expansion is bounded (kHostsMax, kIndexesMax): a list from a command line must not be able to fill memory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/core/result.h"

namespace bourse {

constexpr std::size_t kHostsMax = 1'000'000;
constexpr std::size_t kHostBytesMax = 255;  // of one expanded name
constexpr std::size_t kIndexRangesMax = 100'000;
constexpr std::size_t kIndexesMax = 1'000'000;  // that overlapping ranges with steps may need to be listed one by one

Result<std::vector<std::string>> expand_hosts(std::string_view list);  // in the order written; zero padding is kept
// "h[1-4,7]". Names that differ only in their last number are one group; groups, and numbers in a group, stay in the order of
// first appearance, and a name that appears again is dropped.
// "h2" before "h10": runs of digits are compared as numbers.
bool host_before(std::string_view a, std::string_view b);
std::string compress_hosts(const std::vector<std::string>& hosts);

// A set of 64-bit indexes kept as ranges, so "1-1000000000" costs nothing.
struct IndexRange {
  std::uint64_t first = 0, last = 0, step = 1;  // last is a member: first + k*step
  bool operator==(const IndexRange&) const = default;
};
class IndexSet {
 public:
  static Result<IndexSet> parse(std::string_view text);  // "1,4-20:2"; overlaps are merged on iteration, order ascending
  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] bool contains(std::uint64_t index) const;
  [[nodiscard]] std::uint64_t min() const;
  [[nodiscard]] std::uint64_t max() const;
  [[nodiscard]] std::uint64_t step() const;                  // of the first range; 1 where there is none
  [[nodiscard]] std::uint64_t at(std::uint64_t rank) const;  // rank-th smallest, rank < size()
  [[nodiscard]] const std::vector<IndexRange>& ranges() const { return ranges_; }
  [[nodiscard]] std::string text() const;  // round-trips

 private:
  std::vector<IndexRange> ranges_;  // sorted, disjoint
  std::uint64_t size_ = 0;
};

}  // namespace bourse
