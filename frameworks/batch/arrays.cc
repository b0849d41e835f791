#include "frameworks/batch/arrays.h"

#include <algorithm>

namespace bourse::batch {

void RankSet::insert(std::uint64_t first, std::uint64_t last) {
  auto it = ranges_.upper_bound(first);
  if (it != ranges_.begin()) {
    auto before = std::prev(it);
    if (before->second >= first || before->second + 1 == first) {
      first = before->first;
      last = std::max(last, before->second);
      size_ -= before->second - before->first + 1;
      it = ranges_.erase(before);
    }
  }
  while (it != ranges_.end() && (it->first <= last || it->first == last + 1)) {
    last = std::max(last, it->second);
    size_ -= it->second - it->first + 1;
    it = ranges_.erase(it);
  }
  ranges_.emplace_hint(it, first, last);
  size_ += last - first + 1;
}

bool RankSet::contains(std::uint64_t rank) const {
  auto it = ranges_.upper_bound(rank);
  return it != ranges_.begin() && std::prev(it)->second >= rank;
}

std::optional<std::uint64_t> ArrayState::rank(std::uint64_t index) const {
  if (!spec_.indexes.contains(index)) return std::nullopt;
  std::uint64_t below = 0;
  for (const IndexRange& range : spec_.indexes.ranges()) {
    if (index > range.last)
      below += (range.last - range.first) / range.step + 1;
    else
      return below + (index - range.first) / range.step;
  }
  return std::nullopt;
}

void ArrayState::skip() {
  while (cursor_ < size() && (running_.contains(cursor_) || ended_.contains(cursor_))) {
    auto it = ended_.ranges().upper_bound(cursor_);
    const bool inside = it != ended_.ranges().begin() && std::prev(it)->second >= cursor_;
    cursor_ = inside ? std::prev(it)->second + 1 : cursor_ + 1;
  }
}

std::optional<std::uint64_t> ArrayState::next() const {
  if (spec_.max_running > 0 && running_.size() >= spec_.max_running) return std::nullopt;
  if (!again_.empty()) return *again_.begin();
  if (cursor_ < size()) return cursor_;
  return std::nullopt;
}

std::uint64_t ArrayState::waiting() const { return size() - ended_.size() - running_.size(); }

std::uint64_t ArrayState::startable() const {
  if (spec_.max_running == 0) return waiting();
  return running_.size() >= spec_.max_running ? 0 : std::min<std::uint64_t>(waiting(), spec_.max_running - running_.size());
}

void ArrayState::started(std::uint64_t rank) {
  running_.insert(rank);
  again_.erase(rank);
  skip();
}

void ArrayState::back(std::uint64_t rank) {
  if (running_.erase(rank) > 0 && rank < cursor_) again_.insert(rank);
}

void ArrayState::ended(std::uint64_t first, std::uint64_t last, bool ok) {
  last = std::min(last, size() - 1);
  running_.erase(running_.lower_bound(first), running_.upper_bound(last));
  again_.erase(again_.lower_bound(first), again_.upper_bound(last));
  ended_.insert(first, last);
  if (!ok) failed_.insert(first, last);
  skip();
}

std::vector<std::pair<std::uint64_t, std::uint64_t>> ArrayState::waiting_ranges(std::size_t limit) const {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> out;
  auto add = [&](std::uint64_t first, std::uint64_t last) {
    if (!out.empty() && out.back().second + 1 == first)
      out.back().second = last;
    else
      out.emplace_back(first, last);
  };
  for (std::uint64_t rank : again_) {
    add(rank, rank);
    if (out.size() > limit) return out;
  }
  // Above the cursor only what has ended or runs interrupts the ranges; running ones are few.
  std::uint64_t at = cursor_;
  while (at < size() && out.size() <= limit) {
    auto e = ended_.ranges().upper_bound(at);
    if (e != ended_.ranges().begin() && std::prev(e)->second >= at) {
      at = std::prev(e)->second + 1;
      continue;
    }
    if (running_.contains(at)) {
      ++at;
      continue;
    }
    std::uint64_t stop = size();
    if (e != ended_.ranges().end()) stop = std::min(stop, e->first);
    if (auto r = running_.upper_bound(at); r != running_.end()) stop = std::min(stop, *r);
    add(at, stop - 1);
    at = stop;
  }
  return out;
}

std::string ArrayState::text(std::uint64_t first, std::uint64_t last) const {
  // Walk the ranges of indexes, not the indexes.
  std::string out;
  std::uint64_t below = 0;
  for (const IndexRange& range : spec_.indexes.ranges()) {
    const std::uint64_t count = (range.last - range.first) / range.step + 1;
    const std::uint64_t low = std::max(first, below), high = std::min(last + 1, below + count);
    if (low < high) {
      const std::uint64_t a = range.first + (low - below) * range.step, b = range.first + (high - 1 - below) * range.step;
      if (!out.empty()) out += ',';
      out += std::to_string(a);
      if (b != a) out += '-' + std::to_string(b) + (range.step > 1 ? ':' + std::to_string(range.step) : "");
    }
    below += count;
  }
  return out;
}

std::string ArrayState::waiting_text() const {
  constexpr std::size_t kRangesShown = 20;
  std::string out;
  const auto ranges = waiting_ranges(kRangesShown);
  for (std::size_t i = 0; i < ranges.size() && i < kRangesShown; ++i)
    out += (out.empty() ? "" : ",") + text(ranges[i].first, ranges[i].second);
  if (ranges.size() > kRangesShown) out += ",...";
  if (spec_.max_running > 0) out += '%' + std::to_string(spec_.max_running);
  return out;
}

}  // namespace bourse::batch
