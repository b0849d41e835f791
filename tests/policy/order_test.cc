// fifo and the sjf family: the formulae as published, every tie, the guard, priorities.
#include <algorithm>
#include <cmath>
#include <functional>

#include "common/core/rng.h"
#include "tests/policy/rig.h"

namespace bourse::test {
namespace {

TEST(Fifo, IsByPriorityThenNumberThenName) {
  PolicyRig rig("fifo");
  rig.job(7, seconds(5), seconds(10), 1);
  rig.job(3, seconds(9), seconds(10), 1);
  rig.job(9, seconds(1), seconds(10), 1, 2);
  EXPECT_EQ(rig.order(), "9 3 7");
  PolicyRig frameworks("fifo");
  for (const char* name : {"b", "c", "a"}) frameworks.claimant(name);
  EXPECT_EQ(frameworks.order(), "a b c");
}

struct Job {
  std::uint64_t number;
  double r, p, s;
};

// The formulae of Carastan-Santos and de Camargo (SC 2017) and Tang et al. (2009), with the C library's functions.
double value(const std::string& policy, const Job& j, double now) {
  const double w = now - j.s;
  if (policy == "sjf") return j.r;
  if (policy == "saf") return j.r * j.p;
  if (policy == "f1") return std::log10(j.r) * j.p + 870 * std::log10(j.s > 0 ? j.s : 0.1);
  if (policy == "wfp3") return -std::pow(w / j.r, 3) * j.p;
  if (policy == "unicep") return -(w / (std::log2(std::max(j.p, 2.0)) * j.r));
  return -(w + j.r) / j.r;
}

class Formula : public ::testing::TestWithParam<const char*> {};

TEST_P(Formula, OrdersAsPublished) {
  const std::string policy = GetParam();
  Rng rng(7);
  for (int round = 0; round < 50; ++round) {
    PolicyRig rig(policy + ":guard=off");
    std::vector<Job> jobs;
    const double now = 100'000;
    for (std::uint64_t n = 1; n <= 40; ++n) {
      const Job j{n, static_cast<double>(rng.below(50'000) + 1), static_cast<double>(rng.below(64) + 1),
                  static_cast<double>(rng.below(100'000))};
      jobs.push_back(j);
      rig.job(n, seconds(static_cast<std::int64_t>(j.s)), seconds(static_cast<std::int64_t>(j.r)), static_cast<std::uint32_t>(j.p));
    }
    std::stable_sort(jobs.begin(), jobs.end(),
                     [&](const Job& a, const Job& b) { return value(policy, a, now) < value(policy, b, now); });
    std::string expected;
    for (const Job& j : jobs) expected += (expected.empty() ? "" : " ") + std::to_string(j.number);
    ASSERT_EQ(rig.order(seconds(100'000)), expected) << "round " << round;
  }
}

TEST_P(Formula, TiesGoToTheLowerNumber) {
  PolicyRig rig(std::string(GetParam()) + ":guard=off");
  for (const std::uint64_t n : {5, 2, 9, 1}) rig.job(n, seconds(100), seconds(60), 4);
  EXPECT_EQ(rig.order(seconds(500)), "1 2 5 9");
}

TEST_P(Formula, PriorityGoesFirst) {
  PolicyRig rig(GetParam());
  rig.job(1, seconds(10), seconds(1), 1);
  rig.job(2, seconds(20), seconds(90'000), 64, 1);
  EXPECT_EQ(rig.order(seconds(30)), "2 1");
}

TEST_P(Formula, WhoWaitsLongerThanTheGuardGoesFirst) {
  // 1 is long, wide and old; the others are what each formula likes better, at the moment when 1 has waited for 20 hours.
  const std::string policy = GetParam();
  const Duration hour = std::chrono::hours(1);
  for (const bool guarded : {true, false}) {
    PolicyRig rig(policy + (guarded ? "" : ":guard=off"));
    rig.job(1, seconds(50'000), std::chrono::hours(1000), policy == "f1" ? 10'000 : 2);
    rig.job(2, seconds(50'001), seconds(1), 2);
    rig.job(3, seconds(50'002), std::chrono::hours(1000), policy == "f1" ? 10'000 : 2);
    EXPECT_EQ(rig.order(seconds(50'000) + 20 * hour).substr(0, 1), "2") << "just not too long";
    // One microsecond later only job 1 is beyond it.
    EXPECT_EQ(rig.order(seconds(50'000) + 20 * hour + microseconds(1)), guarded ? "1 2 3" : "2 1 3");
    EXPECT_EQ(rig.order(seconds(50'010) + 20 * hour), guarded ? "1 2 3" : "2 1 3");
  }
}

TEST_P(Formula, AWalkGivesTheNextOfAClassInPlace) {
  PolicyRig rig(GetParam());
  const auto first = rig.job(1, seconds(10), seconds(100), 4);
  rig.job(2, seconds(10), seconds(100), 4);
  rig.host->begin(seconds(1000));
  auto next = rig.host->next();
  ASSERT_TRUE(next);
  EXPECT_EQ(next->claimant, first);
  // The first job of the class started; its next one is like it, with a higher number than job 2's.
  Shape shape;
  shape.cpus = MilliCpus(1000);
  rig.host->claimant(
      {.handle = first, .gang = 4, .order = 3, .units = 4, .submitted = seconds(10), .limit = seconds(100), .shape = &shape});
  next = rig.host->next();
  ASSERT_TRUE(next);
  EXPECT_EQ(next->claimant, 1U);
  next = rig.host->next();
  ASSERT_TRUE(next) << "the class is met again";
  EXPECT_EQ(next->claimant, first);
  EXPECT_FALSE(rig.host->next());
}

INSTANTIATE_TEST_SUITE_P(Family, Formula, ::testing::Values("sjf", "saf", "f1", "wfp3", "unicep", "xf"),
                         [](const auto& p) { return std::string(p.param); });

TEST(Sjf, AnUnknownParameterIsNamed) {
  policy::Catalog catalog;
  auto host = policy::Host::make(*catalog.find("sjf:gaurd=1h"), {});
  ASSERT_FALSE(host);
  EXPECT_NE(host.error().text().find("`gaurd' is not known here; there are: guard"), std::string::npos) << host.error().text();
  host = policy::Host::make(*catalog.find("sjf:guard=soon"), {});
  ASSERT_FALSE(host);
  EXPECT_NE(host.error().text().find("expected a time such as 20h, or off"), std::string::npos) << host.error().text();
}

TEST(Spec, IsReadAndWritten) {
  const auto spec = policy::parse("hybrid:weight=0.25,form=stages");
  ASSERT_TRUE(spec);
  EXPECT_EQ(spec->text(), "hybrid:form=stages,weight=0.25");
  EXPECT_TRUE(policy::parse("/opt/x.so:a=1")->is_path());
  for (const char* bad : {"", ":a=1", "drf:a", "drf:=1", "drf:a=1,a=2"}) EXPECT_FALSE(policy::parse(bad)) << bad;
  const auto none = policy::Catalog().find("fiffo");
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().text().find("there is no policy `fiffo'; there are bandit, binpack, drf"), std::string::npos);
}

}  // namespace
}  // namespace bourse::test
