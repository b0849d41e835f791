// Lending what slices do not use, and taking it back when memory runs short. Off unless the configuration turns it on.
//
// What is lent is an amount of its own in the inventory (Inventory.revocable); slices made of it are marked `revocable`. Under pressure
// their tasks go one by one, the one with the lowest priority first and among equals the youngest; before the first goes all of them
// are slowed down (memory.high) and the first gets the warning signal that it asked for. Decides; the agent actor carries out the end
// of a task or slice. Owned by the agent actor. See "Pressure".
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "agent/settings.h"
#include "agent/slices.h"
#include "agent/tasks.h"

namespace bourse {

class Oversubscription {
 public:
  static constexpr Duration kFast = seconds(1);  // between two looks while something is lent, or pressure is too much
  static constexpr std::int64_t kSqueezePermille = 900;

  Oversubscription(const SliceTable& slices, const TaskTable& tasks) : slices_(slices), tasks_(tasks) {}

  // True: it was turned off, and what is lent has to come back.
  bool configure(const LendSettings& settings);
  void begin(Turn& turn);  // of a life, after a change of settings, and when a slice has been lent: arms the timer
  void due(Turn& turn);
  void host_is_back(Turn& turn) const;                // the launcher forgets its limit when it is restarted
  bool usage(Turn& turn, const UsageSample& sample);  // true: lendable() has changed

  struct Victim {
    SliceId slice;
    TaskKey task;
    bool last = false;  // of its slice: the slice goes too
    std::string why;
  };
  std::optional<Victim> pressure(Turn& turn, const PressureSample& sample);
  void evicted() { ++evicted_; }

  [[nodiscard]] const Resources& lendable() const { return lendable_; }
  [[nodiscard]] std::vector<SliceId> lent() const;
  void figures(Counters& out) const;  // for readers; see bourse-agent(8)

 private:
  void warn(Turn& turn, const PressureSample& sample);
  void calm(Turn& turn);

  const SliceTable& slices_;
  const TaskTable& tasks_;
  LendSettings settings_;
  SlackMeter meter_;
  PressureRule rule_;
  Resources lendable_;
  std::map<SliceId, Bytes> used_;  // of lent slices, as measured last
  std::set<SliceId> squeezed_;
  std::int64_t evicted_ = 0;
  bool nobody_told_ = false;
};

}  // namespace bourse
