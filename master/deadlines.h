// Things that are due at a time, behind one timer: a heap whose entries may be stale.
//
// Nothing is removed when a thing ends early; whoever pops an entry looks whether it still means anything. So a message
// never arms or disarms a timer, and the timer is armed only when an earlier deadline appears.
#pragma once

#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "common/core/action.h"
#include "common/core/time.h"

namespace bourse::house {

enum TimerKind : std::uint32_t {
  kPassTimer = 1,
  kPeerTimer,
  kOfferTimer,
  kGangTimer,
  kHoldOffTimer,
  kFrameworkTimer,
  kGatheringTimer,
  kLeadTimer,
  kReservedTimer,
  kDrainTimer,
  kRoleTimer,
  kViewTimer,
  kReservationTimer,
  kClaimTimer,
  kLearntTimer,
};

template <class T>
class Deadlines {
 public:
  void push(Duration at, T what) { heap_.emplace(at, std::move(what)); }
  bool pop_due(Duration now, T& what) {
    if (heap_.empty() || heap_.top().first > now) return false;
    what = heap_.top().second;
    heap_.pop();
    return true;
  }
  void fired() { armed_ = kNever; }
  void settle(Actions& out, Duration now, TimerKind kind) {
    if (heap_.empty() || heap_.top().first >= armed_) return;
    armed_ = heap_.top().first;
    out.arm(TimerKey{kind, 0, {}}, armed_ > now ? armed_ - now : Duration{0});
  }
  [[nodiscard]] std::size_t size() const { return heap_.size(); }

 private:
  static constexpr Duration kNever = Duration::max();
  using Item = std::pair<Duration, T>;
  std::priority_queue<Item, std::vector<Item>, std::greater<>> heap_;
  Duration armed_ = kNever;
};

}  // namespace bourse::house
