// qlearn and bandit, as `bourse simulate` runs them: what they learn, what they keep, and that they do no harm.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>

#include "common/core/rng.h"
#include "frameworks/batch/policy_order.h"
#include "plugins/policy/model.h"
#include "tests/sim/oracle.h"

namespace bourse::sim {
namespace {

using policy::Arm;
using policy::ModelJob;
using policy::QueueModel;

// The worked examples of FCFS and EASY (ten processors): id, submit, run, processors, asked time.
struct Example {
  std::vector<std::array<std::int64_t, 4>> jobs;
  double easy_wait;
};
std::vector<ModelJob> model_jobs(const Example& e) {
  std::vector<ModelJob> out;
  for (const auto& [submit, run, processors, asked] : e.jobs)
    out.push_back({submit * 1'000'000, asked * 1'000'000, run * 1'000'000, processors * 1000, 0, -1});
  return out;
}

TEST(QueueModel, WaitsAsEasyDoes) {
  const Example examples[] = {
      {{{0, 100, 6, 100}, {1, 50, 8, 50}, {2, 10, 10, 10}, {3, 200, 2, 200}}, 0 + 99 + 201 + 0},
      {{{0, 100, 6, 100}, {1, 50, 8, 50}, {2, 90, 3, 90}, {3, 200, 2, 200}, {4, 95, 2, 95}}, 0 + 99 + 0 + 89 + 146},
      {{{0, 40, 6, 100}, {1, 50, 8, 50}, {2, 10, 10, 10}, {3, 200, 2, 200}, {4, 30, 4, 35}}, 0 + 39 + 201 + 0 + 86}};
  for (const Example& e : examples) {
    const auto cost = QueueModel::run(model_jobs(e), 0, 0, INT64_MAX, 10'000, Arm{}, 0);
    EXPECT_DOUBLE_EQ(cost.wait_s, e.easy_wait);
    EXPECT_EQ(cost.jobs, e.jobs.size());
  }
  // Only who came in from a moment on is counted: the last two.
  EXPECT_DOUBLE_EQ(QueueModel::run(model_jobs(examples[0]), 0, 2'000'000, INT64_MAX, 10'000, Arm{}, 0).wait_s, 201 + 0);
  // Until a horizon: who waits then has waited until then.
  EXPECT_DOUBLE_EQ(QueueModel::run(model_jobs(examples[0]), 0, 0, 50'000'000, 10'000, Arm{}, 0).wait_s, 49 + 48 + 0);
}

std::vector<TraceJob> drawn(std::uint64_t seed, std::size_t count) {
  Rng rng(seed);
  std::vector<TraceJob> out(count);
  double at = 0;
  for (std::size_t i = 0; i < count; ++i) {
    TraceJob& job = out[i];
    job.number = static_cast<std::int64_t>(i) + 1;
    job.submit = seconds(static_cast<std::int64_t>(at));
    job.processors = 1U << rng.below(5);
    job.run = seconds(static_cast<std::int64_t>(30 * std::pow(2.0, rng.unit() * 9)));
    job.limit = job.run + job.run / 5;
    job.user = static_cast<std::int32_t>(rng.below(9));
    at += -std::log(1 - rng.unit()) * 2457 * 6.2 / 32;  // load 1
  }
  return out;
}

// The model against the engine that is shipped: the same jobs on one node, each order that stands still.
TEST(QueueModel, CostsWhatTheReplayDoes) {
  const auto trace = drawn(5, 400);
  std::vector<ModelJob> jobs;
  for (const TraceJob& j : trace)
    jobs.push_back({j.submit.count(), j.limit.count(), j.run.count(), std::int64_t{j.processors} * 1000,
                    static_cast<std::uint32_t>(j.user), -1});
  const std::pair<const char*, Arm::Order> arms[] = {{"fifo", Arm::Order::kFifoOrder},     {"sjf", Arm::Order::kSjfOrder},
                                                     {"saf", Arm::Order::kSafOrder},       {"wfp3", Arm::Order::kWfp3Order},
                                                     {"unicep", Arm::Order::kUnicepOrder}, {"drf", Arm::Order::kDrfOrder}};
  for (const auto& [name, order] : arms) {
    batch::ReplayOptions options;
    options.nodes[0].cores = 32;
    options.backfill = batch::Backfill::kEasyCount;
    auto queue = batch::policy_order(*policy::Catalog().find(name), 1);
    options.order = queue->get();
    auto ran = trace;
    ASSERT_TRUE(batch::replay(ran, options));
    double wait = 0;
    for (const TraceJob& j : ran) wait += static_cast<double>((j.start - j.submit).count()) / 1e6;
    Arm arm;
    arm.order = order;
    const double by_model = QueueModel::run(jobs, 0, 0, INT64_MAX, 32'000, arm, Duration(std::chrono::hours(20)).count()).wait_s;
    EXPECT_NEAR(by_model, wait, 1e-6 * wait) << name;
  }
}

struct Ran {
  std::vector<std::string> log;
  std::string learnt;
  double mean_wait_s = 0;
  std::uint64_t hash = 0;
};
Ran run(const std::string& spec, const std::vector<TraceJob>& trace, std::uint64_t seed = 1, const std::string& learnt = "") {
  Ran out;
  auto queue =
      batch::policy_order(*policy::Catalog().find(spec), seed, [&](std::string line) { out.log.push_back(std::move(line)); });
  EXPECT_TRUE(queue) << (queue ? "" : queue.error().text());
  if (!learnt.empty()) { EXPECT_TRUE((*queue)->load(learnt)); }
  batch::ReplayOptions options;
  options.nodes[0].cores = 32;
  options.order = queue->get();
  auto jobs = trace;
  const auto report = batch::replay(jobs, options);
  EXPECT_TRUE(report);
  out.learnt = (*queue)->save();
  out.mean_wait_s = report->mean_wait_s, out.hash = report->schedule_hash;
  return out;
}
std::size_t lines_with(const Ran& ran, const std::string& text) {
  std::size_t out = 0;
  for (const std::string& line : ran.log) out += line.find(text) != std::string::npos ? 1 : 0;
  return out;
}

TEST(Qlearn, FindsWhatCostsLeastAndIsNeverFarFromIt) {
  const auto trace = drawn(11, 3000);
  const double fifo = run("fifo", trace).mean_wait_s, sjf = run("sjf", trace).mean_wait_s, saf = run("saf", trace).mean_wait_s;
  const double best = std::min({fifo, sjf, saf}), worst = std::max({fifo, sjf, saf});
  ASSERT_LT(best, 0.8 * worst) << "there is nothing to learn here";
  const Ran learner = run("qlearn:arms=fifo+sjf+saf,window=2h", trace);
  // Seventeen days at a load of one, of which the first are spent with the first arm.
  ASSERT_GT(worst, 1.24 * best);
  EXPECT_LT(learner.mean_wait_s, 1.2 * best) << "with learning and exploring";
  const Ran nothing = run("qlearn:arms=fifo+sjf+saf,window=2h,learn=false", trace);
  EXPECT_NEAR(nothing.mean_wait_s, fifo, 1e-9) << "without learning it stays with the first arm";
  // What was learnt is worth something at once.
  const Ran warm = run("qlearn:arms=fifo+sjf+saf,window=2h,learn=false", trace, 1, learner.learnt);
  EXPECT_LT(warm.mean_wait_s, 1.15 * best);
}

TEST(Qlearn, DecidesTheSameWayEachTimeAndSaysEachDecision) {
  const auto trace = drawn(3, 1500);
  for (const std::string spec :
       {"qlearn:window=2h", "bandit:window=2h", "bandit:window=2h,rule=epsilon", "bandit:window=2h,rule=random"}) {
    const Ran a = run(spec, trace), b = run(spec, trace);
    EXPECT_EQ(a.hash, b.hash) << spec;
    EXPECT_EQ(a.log, b.log) << spec;
    EXPECT_EQ(a.learnt, b.learnt) << spec;
    EXPECT_GT(lines_with(a, "arm "), 10U) << spec;
  }
  const Ran one = run("bandit:window=2h,rule=random", trace, 1), other = run("bandit:window=2h,rule=random", trace, 2);
  EXPECT_NE(one.log, other.log) << "the seed is what differs";
}

TEST(Qlearn, ExploresLittleAndOnlyNearTheBest) {
  const auto trace = drawn(4, 3000);
  const Ran none = run("qlearn:window=1h,explore=0", trace);
  EXPECT_EQ(lines_with(none, "exploring"), 0U);
  const Ran some = run("qlearn:window=1h,explore=0.05,margin=10", trace);
  const std::size_t windows = lines_with(some, ": arm ");
  EXPECT_GT(lines_with(some, "exploring"), 0U);
  EXPECT_LT(lines_with(some, "exploring"), windows / 10) << "of " << windows;
  EXPECT_FALSE(policy::Catalog().find("qlearn:explore=0.06") &&
               batch::policy_order(*policy::Catalog().find("qlearn:explore=0.06"), 1));
}

// The state says: by what was learnt sjf is best, and the guard rail holds fifo.
TEST(Qlearn, TheGuardRailGoesBeforeWhatWasLearnt) {
  const auto trace = drawn(3, 300);
  const std::string row = "100 100 -1.5 -0.5";
  const auto state = [&](const char* alone) { return std::string("qlearn\n1 5 0 fifo+sjf\n100 ") + alone + " 50 50\n48 " + row; };
  const std::string spec = "qlearn:arms=fifo+sjf,window=2h,learn=false";
  const Ran held = run(spec, trace, 1, state("0")), free = run(spec, trace, 1, state("4294967295"));
  EXPECT_GT(lines_with(held, "arm fifo (guard rail)"), 3U);
  EXPECT_EQ(lines_with(held, "arm sjf"), 0U);
  EXPECT_EQ(lines_with(free, "arm fifo"), 0U);
}

TEST(Learners, TakeBackWhatTheySavedAndRefuseAnythingElse) {
  const auto trace = drawn(3, 1500);
  for (const std::string name : {"qlearn", "bandit"}) {
    const Ran ran = run(name + ":window=2h", trace);
    ASSERT_TRUE(ran.learnt.starts_with(name + "\n")) << ran.learnt;
    const auto fresh = [&](const std::string& spec) { return std::move(*batch::policy_order(*policy::Catalog().find(spec), 1)); };
    auto again = fresh(name + ":window=2h");
    ASSERT_TRUE(again->load(ran.learnt));
    EXPECT_EQ(again->save(), ran.learnt);
    EXPECT_FALSE(fresh(name + ":arms=sjf+fifo")->load(ran.learnt)) << "of other arms";
    for (const std::string bad : {"", "x", "1", "1 2 0 fifo\n", "9 1 0 fifo+sjf+saf+wfp3+unicep+drf+hybrid-0.5\n1"}) {
      auto one = fresh(name);
      EXPECT_FALSE(one->load(name + "\n" + bad)) << bad;
      EXPECT_EQ(one->save(), "") << "it is as new";
    }
    std::string torn = ran.learnt.substr(0, ran.learnt.size() * 2 / 3);
    torn.resize(torn.find_last_of(' '));
    EXPECT_FALSE(fresh(name)->load(torn));
    std::string nan = ran.learnt;
    nan.replace(nan.find_last_of(' ') + 1, std::string::npos, "nan");
    EXPECT_FALSE(fresh(name)->load(nan));
  }
}

TEST(Learners, RefuseArmsThatAreNone) {
  for (const std::string arms : {"fifo+nonsense", "sjf-0.5", "hybrid-2", "hybrid-x", "+"}) {
    const auto choice = policy::Catalog().find("qlearn:arms=" + arms);
    ASSERT_TRUE(choice);
    const auto made = batch::policy_order(*choice, 1);
    ASSERT_FALSE(made) << arms;
    EXPECT_NE(made.error().text().find("arms"), std::string::npos) << made.error().text();
  }
}

}  // namespace
}  // namespace bourse::sim
