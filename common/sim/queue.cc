#include "common/sim/queue.h"

#include <algorithm>

namespace bourse::sim {

EventQueue::Handle EventQueue::at(Duration when, std::function<void()> call) {
  std::uint32_t slot = 0;
  if (free_.empty()) {
    slot = static_cast<std::uint32_t>(slots_.size());
    slots_.emplace_back();
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  slots_[slot] = {std::move(call), ++orders_};
  heap_.push_back({std::max(when, now_), orders_, slot});
  std::push_heap(heap_.begin(), heap_.end(), Later{});
  return {slot, orders_};
}

void EventQueue::cancel(Handle handle) {
  if (handle.slot >= slots_.size() || slots_[handle.slot].order != handle.order || handle.order == 0) return;
  slots_[handle.slot] = {};  // its entry in the heap finds another order, or none, and is dropped when it comes up
  free_.push_back(handle.slot);
}

void EventQueue::drop_cancelled() {
  while (!heap_.empty() && slots_[heap_.front().slot].order != heap_.front().order) {
    std::pop_heap(heap_.begin(), heap_.end(), Later{});
    heap_.pop_back();
  }
}

bool EventQueue::run_one() {
  drop_cancelled();
  if (heap_.empty()) return false;
  const Entry entry = heap_.front();
  std::pop_heap(heap_.begin(), heap_.end(), Later{});
  heap_.pop_back();
  now_ = entry.when;
  const std::function<void()> call = std::move(slots_[entry.slot].call);
  slots_[entry.slot] = {};
  free_.push_back(entry.slot);
  call();
  return true;
}

Duration EventQueue::next() {
  drop_cancelled();
  return heap_.empty() ? Duration::max() : heap_.front().when;
}

void EventQueue::advance(Duration to) { now_ = std::max(now_, std::min(to, next())); }

}  // namespace bourse::sim
