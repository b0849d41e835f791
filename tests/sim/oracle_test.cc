// The replay against schedules that other programs made: start by start, and node by node where they say so.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "frameworks/batch/policy_order.h"
#include "tests/sim/oracle.h"

namespace bourse::sim {
namespace {

using batch::Backfill;

struct Oracle {
  std::vector<TraceJob> jobs;
  std::vector<Row> rows;
};

Oracle read_jobs(const std::string& file, const char* processors) {
  Oracle out;
  out.rows = read_table(oracle(file));
  for (const Row& row : out.rows) {
    TraceJob job;
    job.number = std::stoll(row.at("job"));
    job.submit = micros(row.at("submit_s"));
    job.run = micros(row.at("run_s")), job.limit = micros(row.at("walltime_s"));
    job.processors = static_cast<std::uint32_t>(std::stoul(row.at(processors)));
    out.jobs.push_back(job);
  }
  return out;
}

batch::ReplayOptions plain(std::uint32_t nodes, std::uint32_t cores, Backfill backfill) {
  batch::ReplayOptions options;
  options.nodes[0].count = nodes, options.nodes[0].cores = cores;
  options.backfill = backfill;
  return options;
}

void compare_starts(const Oracle& oracle, const std::string& column) {
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < oracle.jobs.size(); ++i) {
    if (oracle.jobs[i].start == micros(oracle.rows[i].at(column))) continue;
    if (++wrong <= 3)
      ADD_FAILURE() << column << ": job " << oracle.jobs[i].number << " started at " << oracle.jobs[i].start.count() << " us, not "
                    << oracle.rows[i].at(column) << " s";
  }
  EXPECT_EQ(wrong, 0u) << "of " << oracle.jobs.size();
}

class Batsim : public testing::TestWithParam<std::pair<Backfill, std::string>> {};

TEST_P(Batsim, StartsEveryJobWhenAndWhereItDid) {
  const auto& [backfill, name] = GetParam();
  Oracle oracle = read_jobs("batsim_medium_late_32nodes.csv.gz", "nodes");
  ASSERT_EQ(oracle.jobs.size(), 801u);
  batch::ReplayOptions options = plain(32, 1, backfill);
  std::size_t elsewhere = 0;
  options.on_start = [&, column = name + "_nodes"](std::size_t job, const std::vector<batch::Holding>& holdings) {
    std::vector<std::uint32_t> nodes;
    for (const auto& h : holdings) nodes.push_back(h.node);
    if (nodes != indexes(oracle.rows[job].at(column)) && ++elsewhere <= 3)
      ADD_FAILURE() << "job " << oracle.jobs[job].number << " is not on " << oracle.rows[job].at(column);
  };
  const auto report = batch::replay(oracle.jobs, options);
  ASSERT_TRUE(report) << report.error().text();
  compare_starts(oracle, name + "_start_s");
  EXPECT_EQ(elsewhere, 0u);
  EXPECT_NEAR(report->mean_wait_s, backfill == Backfill::kEasy ? 9.516326 : 9.852251, 1e-6);
}
INSTANTIATE_TEST_SUITE_P(Backfills, Batsim,
                         testing::Values(std::pair(Backfill::kEasy, std::string("easy")),
                                         std::pair(Backfill::kConservative, std::string("conservative"))),
                         [](const auto& p) { return p.param.second; });

TEST(Oracle, CountedReservationsAreAnotherAlgorithm) {
  Oracle oracle = read_jobs("batsim_medium_late_32nodes.csv.gz", "nodes");
  const auto report = batch::replay(oracle.jobs, plain(32, 1, Backfill::kEasyCount));
  EXPECT_NEAR(report->mean_wait_s, 8.673, 5e-4);
}

TEST(Oracle, AThousandJobsUnderFiveOrders) {
  struct Case {
    const char* column;
    Backfill backfill;
    bool order, backfill_order;
    double mean;
  };
  for (const Case& c : {Case{"fcfs_start", Backfill::kNone, false, false, 15654.725},
                        Case{"easy_start", Backfill::kEasyCount, false, false, 2834.630},
                        Case{"easy_sjbf_start", Backfill::kEasyCount, false, true, 2711.647},
                        Case{"sjf_easy_start", Backfill::kEasyCount, true, true, 2405.276},
                        Case{"conservative_start", Backfill::kConservative, false, false, 2661.024}}) {
    // On one node of all cores a reservation that names it is one that counts.
    for (const bool one_node : {true, false}) {
      if (!one_node && c.backfill == Backfill::kConservative) continue;
      Oracle oracle = read_jobs("kth_first1000_100procs.csv.gz", "procs");
      ASSERT_EQ(oracle.jobs.size(), 1000u);
      batch::ReplayOptions options = one_node ? plain(1, 100, c.backfill) : plain(100, 1, c.backfill);
      ByKey shortest(shortest_first), also(shortest_first);
      if (c.order) options.order = &shortest;
      if (c.backfill_order) options.backfill_order = &also;
      const auto report = batch::replay(oracle.jobs, options);
      ASSERT_TRUE(report) << report.error().text();
      compare_starts(oracle, c.column);
      EXPECT_NEAR(report->mean_wait_s, c.mean, 6e-4) << c.column;
    }
  }
}

// Rows of the table through the policies as they ship, without the age guard; whole logs, where they are found.
TEST(Oracle, WholeLogsUnderEasy) {
  const std::map<std::string, std::string> logs = {{"KTH-SP2", "swf/KTH-SP2-1996-2.1-cln.swf.gz"},
                                                   {"SDSC-SP2-first5000", "swf/SDSC-SP2-1998-first5000.swf.gz"},
                                                   {"lublin_256_1", "swf/lublin_256_1.swf.gz"},
                                                   {"lublin_256_2", "swf/lublin_256_2.swf.gz"},
                                                   {"LLNL-Thunder", "swf/LLNL-Thunder-2007-1.1-cln.swf.gz"}};
  if (trace(logs.begin()->second).empty()) GTEST_SKIP() << "no workload logs: set BOURSE_TRACES to a directory with swf/";
  std::size_t checked = 0;
  std::map<std::string, Workload> read;
  for (const Row& row : read_table(oracle("easy_policy_table.csv"))) {
    const std::string &log = row.at("trace"), &order = row.at("queue_order"), &behind = row.at("backfill_order");
    if (log == "LLNL-Thunder" && order != "fcfs" && order != "unicep" && order != "drf") continue;  // seconds each
    if (!read.contains(log)) {
      auto lines = Lines::open(trace(logs.at(log)));
      ASSERT_TRUE(lines) << lines.error().text();
      auto work = workload_of_swf(*lines, {});
      ASSERT_TRUE(work) << work.error().text();
      EXPECT_EQ(std::to_string(work->jobs.size()), row.at("jobs")) << log;
      read[log] = *std::move(work);
    }
    batch::ReplayOptions options = plain(static_cast<std::uint32_t>(std::stoul(row.at("procs"))), 1, Backfill::kEasyCount);
    options.shapes = &read[log].shapes;
    options.origin = read[log].origin;
    const auto policy = [](const std::string& name) {
      return batch::policy_order(*policy::Catalog().find(name == "fcfs" ? "fifo" : name == "drf" ? "drf" : name + ":guard=off"), 1);
    };
    auto first = policy(order), second = policy(behind);
    ASSERT_TRUE(first && second);
    if (order != "fcfs") options.order = first->get();
    if (behind != order) options.backfill_order = second->get();
    std::vector<TraceJob> jobs = read[log].jobs;
    const auto r = batch::replay(jobs, options);
    ASSERT_TRUE(r) << r.error().text();
    const auto near = [&](double value, const char* column, double half) {
      EXPECT_NEAR(value, std::stod(row.at(column)), half) << log << " " << order << " " << behind << " " << column;
    };
    near(r->mean_wait_s, "mean_wait_s", 0.0501);
    near(r->mean_bsld, "mean_bsld", 0.000501);
    near(r->p95_wait_s, "p95_wait_s", 0.51);
    near(r->max_wait_s, "max_wait_s", 0.51);
    near(r->utilisation, "utilisation", 0.0000501);
    near(r->makespan_s, "makespan_s", 0.51);
    ++checked;
  }
  EXPECT_EQ(checked, 36u);
}

}  // namespace
}  // namespace bourse::sim
