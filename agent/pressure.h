// When memory pressure is too much, and what is to be done about it next. See "Pressure".
//
// The figure is memory's `some avg10` of each scope (the host, the tree of our slices), in permille. It is too much when the figure
// reaches `evict`, or when the kernel's own trigger fires, and stays so until every scope is below `stop`. While it is too much the
// answer is, in this order: warn (once: memory.high and a notice), and `notice` later evict one; then one more whenever `settle` has
// passed and the figure has not fallen meanwhile, or the trigger fires again. Pure; owned by the agent actor.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "common/core/event.h"
#include "common/core/time.h"

namespace bourse {

class PressureRule {
 public:
  struct Limits {
    std::int32_t evict = 600, stop = 400;  // permille of `some avg10`
    Duration notice = seconds(1), settle = seconds(2);
    bool operator==(const Limits&) const = default;
  };
  enum class Step { kNothing, kWarn, kEvict, kCalm };  // kCalm: it was too much and is no longer

  void configure(const Limits& limits) { limits_ = limits; }
  [[nodiscard]] const Limits& limits() const { return limits_; }
  Step sample(Duration now, const PressureSample& sample);
  // Nothing could be done at the last kEvict (nobody to evict): asked again with the next sample.
  void nobody() { looked_ = kNever; }

  [[nodiscard]] bool too_much() const { return too_much_; }
  [[nodiscard]] std::int32_t level() const;        // the highest of all scopes, at last sight
  [[nodiscard]] const std::string& scope() const;  // whose that is; "": none was seen
  [[nodiscard]] const std::map<std::string, std::int32_t>& levels() const { return levels_; }
  // "memory pressure of the host: some avg10 is 73.2, the limit is 60"
  [[nodiscard]] std::string text(const PressureSample& why) const;

 private:
  static constexpr Duration kNever{-1};
  Limits limits_;
  std::map<std::string, std::int32_t> levels_;
  bool too_much_ = false;
  Duration warned_{0}, looked_ = kNever;  // looked: when what the last step did was judged, or it was taken
  std::int32_t was_ = 0;                  // the level then
};

}  // namespace bourse
