// What slices have and do not use, measured: the amount that an agent may lend.
//
// Of each slice: what it was given, less the most that it used within the last `window`, less `keep` of what it was given. Nothing of
// a slice younger than `settle`, and never anything of one in which a process with a negative oom_score_adj was seen. Amounts are
// rounded down (kCpuStep, kMemStep) so that noise is no news. Pure; owned by the agent actor. See "Pressure".
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "common/core/event.h"
#include "common/core/resources.h"
#include "common/core/time.h"

namespace bourse {

class SlackMeter {
 public:
  static constexpr std::int64_t kCpuStep = 100;  // milli
  static constexpr std::int64_t kMemStep = 64LL * 1024 * 1024;
  static constexpr std::size_t kSamplesMax = 64;  // of one slice; older ones are folded into their maximum

  struct Rule {
    Duration window = seconds(60), settle = seconds(60);
    std::int32_t keep_permille = 200;
    bool operator==(const Rule&) const = default;
  };
  struct Lender {
    SliceId slice;
    MilliCpus cpus;
    Bytes mem;
  };

  void configure(const Rule& rule) { rule_ = rule; }
  // `lenders`: the slices that may lend at all (up, not lent themselves), sorted. Others are forgotten.
  void sample(Duration now, const UsageSample& usage, const std::vector<Lender>& lenders);
  [[nodiscard]] Resources lendable(Duration now) const;  // cpus and mem, not split by node
  [[nodiscard]] std::size_t critical() const;            // slices that never lend
  void forget() { slices_.clear(); }

 private:
  struct Reading {
    Duration at{0};
    std::int64_t cpus = 0, mem = 0;  // milli, since the reading before; bytes
  };
  struct Track {
    Lender lender;
    Duration since{0}, last_at{-1}, last_cpu{0};
    std::deque<Reading> readings;
    bool critical = false;
  };
  Rule rule_;
  std::map<SliceId, Track> slices_;
};

}  // namespace bourse
