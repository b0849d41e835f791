// Virtual time: calls in the order of their moments, and of their making within one moment.
//
// One thread, no clock. Owned by the World. Cancelling is exact: a cancelled call does not happen.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "common/core/time.h"

namespace bourse::sim {

class EventQueue {
 public:
  struct Handle {
    std::uint32_t slot = std::numeric_limits<std::uint32_t>::max();
    std::uint64_t order = 0;
  };

  Handle at(Duration when, std::function<void()> call);  // a moment that has passed means now
  Handle after(Duration delay, std::function<void()> call) { return at(now_ + delay, std::move(call)); }
  void cancel(Handle handle);
  bool run_one();  // false: nothing is left
  [[nodiscard]] Duration now() const { return now_; }
  [[nodiscard]] Duration next();  // Duration::max(): nothing is left
  void advance(Duration to);      // time passes though nothing happens; never beyond next()

 private:
  struct Entry {
    Duration when;
    std::uint64_t order;
    std::uint32_t slot;
  };
  struct Later {
    bool operator()(const Entry& a, const Entry& b) const { return a.when != b.when ? a.when > b.when : a.order > b.order; }
  };
  struct Slot {
    std::function<void()> call;
    std::uint64_t order = 0;  // 0: free
  };
  void drop_cancelled();

  Duration now_{0};
  std::uint64_t orders_ = 0;
  std::vector<Entry> heap_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
};

}  // namespace bourse::sim
