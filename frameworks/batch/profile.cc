#include "frameworks/batch/profile.h"

#include <algorithm>

#include "common/core/hooks.h"

namespace bourse::batch {
namespace {

// What a run gives back. Where a device of it is another one by now, that one is not its to give.
void give_back(Amount& free, const Amount& amount, NodeSet::Node node) {
  if (free.add(amount)) return;
  Resources rest = amount.resources();
  rest.devices.clear();
  const bool given = static_cast<bool>(free.add(Amount(std::move(rest))));
  BOURSE_ASSERT(given, std::to_string(node));
}

}  // namespace

void Profile::reset(Duration now, const std::vector<PlannedNode>& nodes) {
  slices_.clear();
  grid_ = Duration(0);
  Slice slice;
  slice.from = now;
  slice.open.resize(nodes.size());
  slice.free.reserve(nodes.size());
  for (const PlannedNode& node : nodes) {
    if (node.free.cpus().value > 0) slice.open.insert(static_cast<NodeSet::Node>(slice.free.size()));
    slice.free.push_back(node.free);
  }
  slices_.push_back(std::move(slice));
}

Duration Profile::on_grid(Duration time) {
  if (time == kNoLimit || hooks::mutant("batch.profile_unbounded")) return time;
  const std::size_t most = std::max(kSlicesLeast, cells_max_ / std::max<std::size_t>(slices_.front().free.size(), 1));
  if (slices_.size() >= most && slices_.back().from > slices_.front().from) {
    // As coarse as spreads that many over the time that is looked ahead.
    const Duration even = (slices_.back().from - slices_.front().from) / static_cast<std::int64_t>(most) + microseconds(1);
    grid_ = std::max(grid_, even * 2);
  } else if (slices_.size() < most / 2) {
    grid_ = Duration(0);
  }
  if (grid_ == Duration(0)) return time;
  const Duration rounded = time > kNoLimit - grid_ ? time : (time + grid_ - microseconds(1)) / grid_.count() * grid_.count();
  const auto next = std::lower_bound(slices_.begin(), slices_.end(), time, [](const Slice& s, Duration t) { return s.from < t; });
  return next != slices_.end() && next->from <= rounded ? next->from : rounded;
}

void Profile::advance(Duration now) {
  std::size_t over = 0;
  while (over + 1 < slices_.size() && slices_[over + 1].from <= now) ++over;
  slices_.erase(slices_.begin(), slices_.begin() + static_cast<std::ptrdiff_t>(over));
  slices_.front().from = std::max(slices_.front().from, now);
}

void Profile::release_at(Duration time, const std::vector<Holding>& holdings) {
  if (time == kNoLimit) return;
  const std::size_t first = split(time);
  if (time > now()) ++slices_[first].marks;
  for (std::size_t i = first; i < slices_.size(); ++i) {
    for (const Holding& holding : holdings) {
      ++operations_;
      Amount& free = slices_[i].free[holding.node];
      give_back(free, holding.amount, holding.node);
      if (free.cpus().value > 0) slices_[i].open.insert(holding.node);
    }
  }
}

std::size_t Profile::at(Duration time) const {
  const auto it = std::upper_bound(slices_.begin(), slices_.end(), time, [](Duration t, const Slice& s) { return t < s.from; });
  return it == slices_.begin() ? 0 : static_cast<std::size_t>(it - slices_.begin()) - 1;
}

std::size_t Profile::split(Duration time) {
  const std::size_t i = at(time);
  if (slices_[i].from >= time) return i;
  Slice after = slices_[i];
  after.from = time;
  after.marks = 0;
  operations_ += after.free.size();
  slices_.insert(slices_.begin() + static_cast<std::ptrdiff_t>(i) + 1, std::move(after));
  return i + 1;
}

void Profile::unmark(Duration time) {
  if (time == kNoLimit || time <= now()) return;
  const std::size_t i = at(time);
  BOURSE_ASSERT(slices_[i].from == time && slices_[i].marks > 0, std::to_string(time.count()));
  if (--slices_[i].marks == 0) slices_.erase(slices_.begin() + static_cast<std::ptrdiff_t>(i));
}

bool Profile::holds(Duration from, Duration to, const std::vector<Holding>& holdings) const {
  for (std::size_t i = at(from); i < slices_.size() && slices_[i].from < to; ++i) {
    for (const Holding& holding : holdings) {
      ++operations_;
      const Amount& free = slices_[i].free[holding.node];
      if (holding.amount.rest() == nullptr && free.rest() == nullptr) {
        if (holding.amount.cpus() > free.cpus() || holding.amount.mem() > free.mem()) return false;
      } else if (!free.resources().contains(holding.amount.resources())) {
        return false;
      }
    }
  }
  return true;
}

bool Profile::take(Duration from, Duration to, const std::vector<Holding>& holdings) {
  from = std::max(from, now());
  if (from >= to) return true;
  if (!holds(from, to, holdings)) return false;
  // Both ends of a commitment are marks; the one at the very beginning of the profile needs none.
  const std::size_t first = split(from);
  if (from > now()) ++slices_[first].marks;
  if (to != kNoLimit) ++slices_[split(to)].marks;
  for (std::size_t i = first; i < slices_.size() && slices_[i].from < to; ++i) {
    for (const Holding& holding : holdings) {
      ++operations_;
      Amount& free = slices_[i].free[holding.node];
      const bool taken = static_cast<bool>(free.subtract(holding.amount));
      BOURSE_ASSERT(taken, std::to_string(holding.node));
      if (free.cpus().value <= 0) slices_[i].open.erase(holding.node);
    }
  }
  return true;
}

void Profile::give(Duration from, Duration to, const std::vector<Holding>& holdings) {
  const Duration begin = std::max(from, now());
  if (begin >= to) return;
  for (std::size_t i = at(begin); i < slices_.size() && slices_[i].from < to; ++i) {
    for (const Holding& holding : holdings) {
      ++operations_;
      Amount& free = slices_[i].free[holding.node];
      give_back(free, holding.amount, holding.node);
      if (free.cpus().value > 0) slices_[i].open.insert(holding.node);
    }
  }
  unmark(from);
  unmark(to);
}

// What to take of a node whose every slice from `first` to `last` has room for the need. Devices are carved by name, and the one that
// is free in one slice may be taken in another: the carving of each slice is tried, and the first that is free in all is it.
Amount Profile::common_part(const Need& need, NodeSet::Node node, std::size_t first, std::size_t last, const PlannedNode& facts,
                            bool& fits) const {
  fits = true;
  if (slices_[first].free[node].rest() == nullptr && is_plain(need.shape)) return Amount(need.shape.cpus, need.shape.mem);
  for (std::size_t from = first; from < last; ++from) {
    auto part = carve(need.shape, slices_[from].free[node], facts.total, facts.labels);
    if (!part) break;
    const Resources amount = part->resources();
    bool all = true;
    for (std::size_t i = first; all && i < last; ++i) all = slices_[i].free[node].resources().contains(amount);
    if (all) return *std::move(part);
  }
  fits = false;
  return {};
}

Profile::Slot Profile::find(const Need& need, Duration limit, const std::vector<PlannedNode>& nodes) const {
  const bool plain = is_plain(need.shape);
  const auto room = [&](const Slice& slice, NodeSet::Node node) {
    ++operations_;
    return fits(need.shape, slice.free[node], nodes[node].total, nodes[node].labels);
  };
  Slot slot;
  for (std::size_t first = 0; first < slices_.size();) {
    const Duration from = slices_[first].from;
    const Duration to = limit > kNoLimit - from ? kNoLimit : from + limit;
    std::size_t last = first, failed = first;
    candidates_ = slices_[first].open;
    bool enough = true;
    for (; enough && last < slices_.size() && (last == first || slices_[last].from < to); ++last) {
      const Slice& slice = slices_[last];
      if (last != first) candidates_.intersect(slice.open);
      kept_ = candidates_;
      candidates_.each([&](NodeSet::Node node) {
        if (!room(slice, node)) kept_.erase(node);
        return true;
      });
      std::swap(candidates_, kept_);
      enough = candidates_.size() >= need.nodes;
      failed = last;
    }
    if (enough) {
      slot.holdings.clear();
      candidates_.each([&](NodeSet::Node node) {
        bool good = true;
        Amount part = common_part(need, node, first, last, nodes[node], good);
        if (good) slot.holdings.push_back({node, std::move(part)});
        return slot.holdings.size() < need.nodes;
      });
      if (slot.holdings.size() == need.nodes) {
        slot.at = from;
        return slot;
      }
      ++first;
      continue;
    }
    // Where one slice alone has too little room, no window over it will do: on from behind it.
    std::size_t alone = 0;
    if (slices_[failed].open.size() >= need.nodes && !(plain && nodes.size() == 1)) {
      slices_[failed].open.each([&](NodeSet::Node node) {
        alone += room(slices_[failed], node) ? 1 : 0;
        return alone < need.nodes;
      });
    }
    first = alone < need.nodes ? failed + 1 : first + 1;
  }
  slot.holdings.clear();
  return slot;
}

}  // namespace bourse::batch
