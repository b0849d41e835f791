// The last hours, as a bounded ring of points at even distances. A gap is where nothing was known.
//
// Owned by main, on the reactor's thread. In memory only: a console that is started again begins anew.
#pragma once

#include <cstdint>
#include <deque>

#include "common/core/time.h"
#include "frameworks/console/view.h"

namespace bourse::console {

struct Point {
  std::int64_t at = 0;  // seconds since 1970 of the slot's beginning
  std::uint64_t agents_up = 0, slices = 0, unmet = 0, jobs_pending = 0, jobs_running = 0;
  MilliCpus cpus, cpus_used;
  Bytes mem, mem_used;
  bool operator==(const Point&) const = default;
};

class History {
 public:
  static constexpr std::int64_t kPointsMax = 720;
  explicit History(Duration span);
  // The latest of a slot is kept. A clock that was set back begins the history anew: points stay in order.
  void add(const View& view, const JobsView& jobs);
  [[nodiscard]] const std::deque<Point>& points() const { return points_; }
  [[nodiscard]] std::int64_t spacing_seconds() const { return spacing_; }

 private:
  std::int64_t spacing_;
  std::deque<Point> points_;
};

}  // namespace bourse::console
