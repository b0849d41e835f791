#include "frameworks/console/history.h"

#include <algorithm>

#include "common/core/hooks.h"

namespace bourse::console {

History::History(Duration span) : spacing_(std::max<std::int64_t>(1, span / seconds(1) / kPointsMax)) {}

void History::add(const View& view, const JobsView& jobs) {
  Point point;
  const std::int64_t now = view.taken.wall / seconds(1);
  point.at = now - now % spacing_;
  const Totals& t = view.totals;
  point.agents_up = t.agents[0];
  point.slices = t.slices, point.unmet = t.unmet;
  point.jobs_pending = jobs.pending, point.jobs_running = jobs.running;
  point.cpus = t.cpus, point.cpus_used = t.cpus_used;
  point.mem = t.mem, point.mem_used = t.mem_used;
  if (!points_.empty() && points_.back().at > point.at) points_.clear();
  if (!points_.empty() && points_.back().at == point.at) points_.pop_back();
  points_.push_back(point);
  if (hooks::mutant("console.history_unbounded")) return;
  while (point.at - points_.front().at >= spacing_ * kPointsMax) points_.pop_front();
}

}  // namespace bourse::console
