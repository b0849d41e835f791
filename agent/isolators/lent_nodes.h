// On which NUMA nodes lent slices may have their memory: not on those that run short of it.
//
// A slice that is bound to a node and finds it full is helped by the kernel at the cost of whoever is likeliest to go there, and that is
// who borrows, though other nodes may have room. So who borrows is taken off a node while it can still be moved: the kernel moves
// its pages when the set changes. With one node there is nothing to choose. Owned by an isolator; reads files only.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace bourse {

class LentNodes {
 public:
  static constexpr std::int64_t kShortPart = 8, kWellPart = 4;  // short below an eighth of the node, well again above a quarter

  explicit LentNodes(std::string directory) : directory_(std::move(directory)) {}
  std::vector<std::uint32_t> roomy();  // now; empty: all of them, since all have room or none has
  [[nodiscard]] std::vector<std::uint32_t> with_memory() const;

 private:
  std::string directory_;
  std::set<std::uint32_t> short_;
};

}  // namespace bourse
