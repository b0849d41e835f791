// RLScheduler's table (DIR-LAB/deep-batch-scheduler) for slices of the Lublin logs, to the last digit, with the policies as they ship.
#include <gtest/gtest.h>

#include "frameworks/batch/picked_replay.h"
#include "frameworks/batch/policy_order.h"
#include "tests/sim/oracle.h"

namespace bourse::sim {
namespace {

TEST(Oracle, SlicesOfLublinAsRLSchedulerCountsThem) {
  const std::string path = trace("swf/lublin_256_1.swf.gz");
  if (path.empty()) GTEST_SKIP() << "no workload logs: set BOURSE_TRACES to a directory with swf/";
  auto lines = Lines::open(path);
  ASSERT_TRUE(lines) << lines.error().text();
  const auto work = workload_of_swf(*lines, {});
  ASSERT_TRUE(work) << work.error().text();
  std::size_t checked = 0;
  for (const Row& row : read_table(oracle("rlscheduler_slices.csv"))) {
    const auto first = work->jobs.begin() + std::stol(row.at("start_index"));
    std::vector<TraceJob> jobs(first, first + std::stol(row.at("jobs")));
    batch::ReplayOptions options;
    options.nodes[0].cores = 256;
    options.origin = work->origin;
    options.backfill = row.at("backfill") == "1" ? batch::Backfill::kEasy : batch::Backfill::kNone;
    const std::string& policy = row.at("policy");
    auto order = batch::policy_order(*policy::Catalog().find(policy == "FCFS"  ? "fifo"
                                                             : policy == "SJF" ? "sjf:guard=off"
                                                                               : "f1:guard=off"),
                                     1);
    ASSERT_TRUE(order);
    options.order = order->get();
    const auto report = batch::picked_replay(jobs, options);
    ASSERT_TRUE(report) << report.error().text();
    EXPECT_NEAR(report->mean_bsld, std::stod(row.at("avg_bsld")), 1e-6) << policy << " from " << row.at("start_index");
    EXPECT_NEAR(report->utilisation, std::stod(row.at("utilisation")), 1e-6) << policy << " from " << row.at("start_index");
    ++checked;
  }
  EXPECT_EQ(checked, 60u);
}

}  // namespace
}  // namespace bourse::sim
