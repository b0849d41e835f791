// Candidates for the order of the queue, beside the one in force: what would they have done with the same jobs?
//
// Every so often the jobs of the last while (those that started, ran or wait) go through the replay (replay.h) twice: under the policy
// in force and under each candidate, with the planner and the cluster of production. Both are simulated, so that what the simulation
// leaves out is left out of both. The run time of a job that has not ended is estimated: its limit times the share of their limits
// that jobs have used lately. Nothing that is decided depends on any of this. Owned by Batch, used from its steps only; bounded by
// kShadowJobsMax jobs, of which the oldest ended ones are forgotten first.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "frameworks/batch/allocations.h"
#include "frameworks/batch/backfill.h"
#include "frameworks/batch/job_order.h"
#include "frameworks/batch/protocol.h"

namespace bourse::batch {

constexpr std::size_t kShadowJobsMax = 2'000;
constexpr std::size_t kShadowsMax = 4;
constexpr Duration kShadowSpan = std::chrono::hours(24);    // jobs that ended longer ago do not count
constexpr Duration kShadowMoved = std::chrono::seconds(1);  // a start that differs by less is the same

class Shadow {
 public:
  struct Settings {
    policy::Choice live;
    Backfill backfill = Backfill::kEasy;
    std::size_t depth = SIZE_MAX;
    Duration budget{0};
    policy::Guard* guard = nullptr;
  };

  void use(std::vector<policy::Choice> candidates);  // what was found about others is forgotten
  [[nodiscard]] bool any() const { return !candidates_.empty(); }

  void started(std::uint64_t number, const JobOrder::Waiting& job, Duration wall);
  void ended(std::uint64_t number, Duration wall);

  // `waiting`: in the order of their submission. True: what was found differs from the last time.
  bool compare(Duration wall, const Settings& settings, const Allocations& cluster, const std::vector<JobOrder::Waiting>& waiting);
  [[nodiscard]] const std::vector<ShadowFinding>& findings() const { return findings_; }

 private:
  struct Past {
    std::int64_t user = -1, priority = 0;
    Duration submitted{0}, start{0}, end{-1}, limit{0};  // end: negative while it runs
    Need need;
  };
  void forget(Duration wall);

  std::vector<policy::Choice> candidates_;
  std::vector<ShadowFinding> findings_;
  std::map<std::uint64_t, Past> past_;  // by number
  Duration since_{-1};                  // from when on all is known
  double used_ = 1;                     // of their limits, by jobs that ended
  bool any_ended_ = false;
};

}  // namespace bourse::batch
