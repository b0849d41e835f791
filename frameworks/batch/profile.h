// What will be free on each node, as a step function of time from now on: what conservative backfilling plans with.
//
// Owned by a Planner. Amounts that are taken and given back must match; a node's free amount never goes below zero. Cost of a step:
// the slices it covers times the nodes it looks at.
#pragma once

#include <cstdint>
#include <vector>

#include "common/core/labels.h"
#include "common/core/time.h"
#include "frameworks/batch/amount.h"
#include "frameworks/batch/node_set.h"

namespace bourse::batch {

struct Need {
  Shape shape;              // on each node
  std::uint32_t nodes = 1;  // different ones
};

struct Holding {
  NodeSet::Node node = 0;
  Amount amount;
};

struct PlannedNode {
  Amount free, total;
  Labels labels;
};

class Profile {
 public:
  struct Slot {
    Duration at = kNoLimit;  // kNoLimit: never
    std::vector<Holding> holdings;
  };
  // One slice, from `now` on for ever, with what `nodes` have free.
  void reset(Duration now, const std::vector<PlannedNode>& nodes);
  void release_at(Duration at, const std::vector<Holding>& holdings);  // from then on they are free, too
  void advance(Duration now);                                          // forgets what is over
  [[nodiscard]] Duration now() const { return slices_.front().from; }
  // False: it was not free all that time, and nothing has changed.
  bool take(Duration from, Duration to, const std::vector<Holding>& holdings);
  void give(Duration from, Duration to, const std::vector<Holding>& holdings);
  [[nodiscard]] bool holds(Duration from, Duration to, const std::vector<Holding>& holdings) const;
  // The earliest time from which `need` fits for `limit`, on the lowest nodes that are free all that time.
  [[nodiscard]] Slot find(const Need& need, Duration limit, const std::vector<PlannedNode>& nodes) const;
  [[nodiscard]] std::size_t slices() const { return slices_.size(); }
  // A slice has a place for every node, so their number is bounded: beyond kCellsMax in all, times at which something comes free are put
  // off to a grid, which grows coarser until the bound is kept. What is reserved is then held a little longer; nothing is given twice.
  static constexpr std::size_t kCellsMax = 4'000'000, kSlicesLeast = 64;
  void bound(std::size_t cells) { cells_max_ = cells; }
  // `time`, or, where there are too many slices, the next boundary at or after it.
  [[nodiscard]] Duration on_grid(Duration time);
  [[nodiscard]] std::uint64_t operations() const { return operations_; }

 private:
  struct Slice {
    Duration from{0};
    std::uint32_t marks = 0;  // commitments that begin or end here; 0 but for the first: no boundary any more
    std::vector<Amount> free;
    NodeSet open;
  };
  [[nodiscard]] std::size_t at(Duration time) const;  // the slice that time is in
  std::size_t split(Duration time);
  void unmark(Duration time);
  [[nodiscard]] Amount common_part(const Need& need, NodeSet::Node node, std::size_t first, std::size_t last,
                                   const PlannedNode& facts, bool& fits) const;

  std::vector<Slice> slices_;  // never empty after reset()
  std::size_t cells_max_ = kCellsMax;
  Duration grid_{0};  // 0: every time is as good as another
  mutable std::uint64_t operations_ = 0;
  mutable NodeSet candidates_, kept_;
};

}  // namespace bourse::batch
