// Time as an input. Actors get it with every event and have no clock of their own.
#pragma once

#include <chrono>
#include <compare>

namespace bourse {

using Duration = std::chrono::microseconds;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Two readings of one moment. `mono` (CLOCK_BOOTTIME in the real world) only grows and is what timers, time limits and
// leases are counted in. `wall` (UTC since 1970) may step either way and is only for people and for records that outlive
// a boot. Comparing two Times is a mistake; compare one of the readings.
struct Time {
  Duration mono{0};
  Duration wall{0};
};

}  // namespace bourse
