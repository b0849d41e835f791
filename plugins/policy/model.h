// A small model of the queue, for policies that learn: what would this order have cost, had it been in force?
//
// One resource (processors in thousandths), jobs as they were seen, count-based EASY backfilling: enough to tell orders apart,
// thousands of times faster than the replay (frameworks/batch/replay.h), which has nodes and devices. Deterministic, no I/O.
#pragma once

#include <cstdint>
#include <vector>

namespace bourse::policy {

// What a learner may put in force.
struct Arm {
  enum class Order : std::uint8_t {
    kFifoOrder,
    kSjfOrder,
    kSafOrder,
    kF1Order,
    kWfp3Order,
    kUnicepOrder,
    kXfOrder,
    kDrfOrder,
    kHybridOrder
  };
  Order order = Order::kFifoOrder;
  std::int32_t weight = 500;  // kHybridOrder: thousandths
};

struct ModelJob {
  std::int64_t submit_us = 0;
  std::int64_t limit_us = 0, run_us = 0;
  std::int64_t milli = 1000;     // processors
  std::uint32_t account = 0;     // dense and small
  std::int64_t started_us = -1;  // it runs since, when the model begins; negative: it waits, or comes later
};

struct ModelCost {
  double wait_s = 0;        // that jobs which did not run at the beginning gathered until they started, or until the horizon
  double slowdown = 0;      // of the same, bounded at 10 s
  double log_slowdown = 0;  // its logarithm
  std::uint64_t jobs = 0;
  void add(std::int64_t wait_us, std::int64_t run_us);
};

class QueueModel {
 public:
  // `jobs` by submission. From `begin_us` until all have started, or `horizon_us`; of jobs that were submitted before `count_us` the
  // cost is not counted. `guard_us`: as of the sjf family; 0: none.
  static ModelCost run(const std::vector<ModelJob>& jobs, std::int64_t begin_us, std::int64_t count_us, std::int64_t horizon_us,
                       std::int64_t total_milli, const Arm& arm, std::int64_t guard_us);
};

}  // namespace bourse::policy
