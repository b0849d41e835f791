// When memory pressure is too much and what follows, and how it is read.
#include "agent/pressure.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fstream>

#include "agent/psi.h"
#include "agent/slack.h"
#include "tests/support/tree.h"

namespace bourse {
namespace {

using Step = PressureRule::Step;

PressureSample host(std::int32_t permille, bool trigger = false) { return {permille, "host", trigger}; }

struct Clocked : PressureRule {
  Duration now = seconds(100);
  Step after(Duration d, const PressureSample& s) {
    now += d;
    return sample(now, s);
  }
};

TEST(PressureRule, BelowTheLimitNothingHappens) {
  Clocked rule;
  for (int i = 0; i < 100; ++i) EXPECT_EQ(rule.after(seconds(1), host(599)), Step::kNothing);
  EXPECT_FALSE(rule.too_much());
}

TEST(PressureRule, AtTheLimitItWarnsAndEvictsOneWhenTheNoticeIsOver) {
  Clocked rule;
  EXPECT_EQ(rule.after(seconds(1), host(600)), Step::kWarn);
  EXPECT_EQ(rule.after(milliseconds(500), host(700)), Step::kNothing);
  EXPECT_EQ(rule.after(milliseconds(500), host(700)), Step::kEvict);
}

TEST(PressureRule, WithoutANoticeItEvictsAtOnce) {
  Clocked rule;
  rule.configure({600, 400, Duration(0), seconds(2)});
  EXPECT_EQ(rule.after(seconds(1), host(600)), Step::kEvict);
}

TEST(PressureRule, NoMoreAreEvictedWhileWhatWasDoneBeginsToShow) {
  Clocked rule;
  rule.configure({600, 400, Duration(0), seconds(2)});
  ASSERT_EQ(rule.after(seconds(1), host(800)), Step::kEvict);
  EXPECT_EQ(rule.after(seconds(1), host(800)), Step::kNothing) << "not settled";
  EXPECT_EQ(rule.after(seconds(1), host(700)), Step::kNothing) << "it falls";
  EXPECT_EQ(rule.after(seconds(2), host(620)), Step::kNothing) << "it falls";
  EXPECT_EQ(rule.after(seconds(2), host(615)), Step::kEvict) << "it has stopped falling, and is too much still";
}

TEST(PressureRule, ItGoesOnUntilTheLowerLimitAndNotOnlyUntilTheUpperOne) {
  Clocked rule;
  rule.configure({600, 400, Duration(0), seconds(2)});
  ASSERT_EQ(rule.after(seconds(1), host(610)), Step::kEvict);
  EXPECT_EQ(rule.after(seconds(2), host(450)), Step::kNothing);
  EXPECT_TRUE(rule.too_much());
  EXPECT_EQ(rule.after(seconds(2), host(450)), Step::kEvict);
  EXPECT_EQ(rule.after(seconds(2), host(399)), Step::kCalm);
  EXPECT_FALSE(rule.too_much());
  EXPECT_EQ(rule.after(seconds(2), host(450)), Step::kNothing) << "between the limits nothing begins";
}

TEST(PressureRule, TheKernelsTriggerNeedsNoAverage) {
  Clocked rule;
  rule.configure({600, 400, seconds(1), seconds(2)});
  EXPECT_EQ(rule.after(seconds(1), host(120, true)), Step::kWarn);
  EXPECT_EQ(rule.after(seconds(1), host(250, true)), Step::kEvict);
  EXPECT_EQ(rule.after(seconds(2), host(240, true)), Step::kEvict)
      << "it stands still now, whatever an average over ten seconds says";
  EXPECT_EQ(rule.after(seconds(2), host(220)), Step::kCalm);
}

TEST(PressureRule, TheHighestOfAllScopesCounts) {
  Clocked rule;
  rule.configure({600, 400, Duration(0), seconds(2)});
  EXPECT_EQ(rule.after(seconds(1), host(300)), Step::kNothing);
  EXPECT_EQ(rule.after(seconds(1), {650, "slices", false}), Step::kEvict);
  EXPECT_EQ(rule.after(seconds(1), host(100)), Step::kNothing);
  EXPECT_TRUE(rule.too_much());
  EXPECT_EQ(rule.after(seconds(1), {390, "slices", false}), Step::kCalm);
}

TEST(PressureRule, SaysItsFigures) {
  PressureRule rule;
  EXPECT_EQ(rule.text({732, "host", false}), "memory pressure of the host: some avg10 is 73.2, the limit is 60");
}

TEST(Psi, ReadsTheKernelsText) {
  const auto value =
      parse_pressure("some avg10=61.72 avg60=5.10 avg300=1.00 total=123\nfull avg10=99.00 avg60=0.00 avg300=0.00 total=1\n");
  ASSERT_TRUE(value);
  EXPECT_EQ(*value, 617);
  for (const auto& [text, permille] : {std::pair("some avg10=0.00 x", 0), std::pair("some avg10=100.00 x", 1000)}) {
    const auto read = parse_pressure(text);
    ASSERT_TRUE(read) << text;
    EXPECT_EQ(*read, permille);
  }
  for (const char* bad : {"", "full avg10=1.00", "some avg10=", "some avg10=-1.00", "some avg10=101.00", "xsome avg10=1.00"})
    EXPECT_FALSE(parse_pressure(bad)) << bad;
}

TEST(Psi, PlainFilesAreReadAndMissingOnesComeLater) {
  char name[] = "/tmp/bourse-psi-XXXXXX";
  const std::string dir = mkdtemp(name);
  const std::string first = dir + "/memory", later = dir + "/later";
  std::ofstream(first) << "some avg10=12.34 avg60=0.00 avg300=0.00 total=0\n";
  Reactor reactor;
  std::vector<PressureSample> seen;
  {
    PsiWatch watch(reactor, {{"host", first}, {"slices", later}}, [&](PressureSample s) { seen.push_back(std::move(s)); });
    EXPECT_EQ(watch.triggers(), 0U) << "a plain file has none";
    watch.sample();
    ASSERT_EQ(seen.size(), 1U);
    EXPECT_EQ(seen[0].some_avg10_permille, 123);
    EXPECT_EQ(seen[0].scope, "host");
    EXPECT_FALSE(seen[0].trigger);
    std::ofstream(later) << "some avg10=60.00 avg60=0.00 avg300=0.00 total=0\n";
    watch.sample();
    ASSERT_EQ(seen.size(), 3U);
    EXPECT_EQ(seen[2].scope, "slices");
    EXPECT_EQ(seen[2].some_avg10_permille, 600);
  }
  std::ifstream again(first);
  std::string text;
  std::getline(again, text);
  EXPECT_EQ(text, "some avg10=12.34 avg60=0.00 avg300=0.00 total=0") << "nothing was written to it";
  unlink(first.c_str()), unlink(later.c_str()), rmdir(dir.c_str());
}

TEST(Psi, TakesATriggerOnTheKernelsOwnFile) {
  if (access("/proc/pressure/memory", W_OK) != 0) GTEST_SKIP() << "this kernel measures no pressure, or we may not";
  Reactor reactor;
  PsiWatch watch(reactor, {{"host", "/proc/pressure/memory"}}, [](PressureSample) {});
  EXPECT_EQ(watch.triggers(), 1U);
}

// --- what is lent ------------------------------------------------------------------------------------------------------------

const SliceId kSlice{FrameworkId("batch"), 1};
const SlackMeter::Lender kLender{kSlice, MilliCpus(4000), Bytes(4LL << 30)};

UsageSample used(Duration cpu, std::int64_t mib, bool critical = false) {
  return UsageSample{{{kSlice, cpu, Bytes(mib << 20), critical}}};
}

struct Meter : SlackMeter {
  Duration now = seconds(100);
  Duration cpu{0};
  void use(Duration d, std::int64_t milli, std::int64_t mib, bool critical = false) {
    now += d;
    cpu += Duration(d.count() * milli / 1000);
    sample(now, used(cpu, mib, critical), {kLender});
  }
};

TEST(Slack, IsWhatIsLeftOfASliceBeyondItsMostUseAndItsReserve) {
  Meter meter;
  meter.configure({seconds(60), seconds(30), 200});
  for (int i = 0; i < 6; ++i) meter.use(seconds(10), 1000, 1024);
  // 4000 - 1000 - 800; 4096 MiB - 1024 - 819.2, down to a multiple of 64.
  EXPECT_EQ(meter.lendable(meter.now).cpus.value, 2200);
  EXPECT_EQ(meter.lendable(meter.now).mem.value, 2240LL << 20);
}

TEST(Slack, ASliceLendsNothingBeforeItHasSettled) {
  Meter meter;
  meter.configure({seconds(60), seconds(30), 200});
  meter.use(seconds(10), 0, 0);
  meter.use(seconds(10), 0, 0);
  EXPECT_TRUE(meter.lendable(meter.now).empty());
  meter.use(seconds(20), 0, 0);
  EXPECT_FALSE(meter.lendable(meter.now).empty());
}

TEST(Slack, ThePeakOfTheWindowCountsAndNoLonger) {
  Meter meter;
  meter.configure({seconds(60), Duration(0), 0});
  meter.use(seconds(10), 0, 0);
  meter.use(seconds(10), 3000, 3072);
  for (int i = 0; i < 5; ++i) meter.use(seconds(10), 500, 512);
  EXPECT_EQ(meter.lendable(meter.now).cpus.value, 1000) << "it used 3 of 4 within the window";
  EXPECT_EQ(meter.lendable(meter.now).mem.value, 1024LL << 20);
  for (int i = 0; i < 2; ++i) meter.use(seconds(10), 500, 512);
  EXPECT_EQ(meter.lendable(meter.now).cpus.value, 3500);
  EXPECT_EQ(meter.lendable(meter.now).mem.value, 3584LL << 20);
}

TEST(Slack, ASliceWithACriticalProcessNeverLends) {
  Meter meter;
  meter.configure({seconds(60), Duration(0), 0});
  meter.use(seconds(10), 0, 64);
  meter.use(seconds(10), 0, 64, true);
  EXPECT_TRUE(meter.lendable(meter.now).empty());
  for (int i = 0; i < 100; ++i) meter.use(seconds(10), 0, 64);
  EXPECT_TRUE(meter.lendable(meter.now).empty()) << "not even when that process has ended";
  EXPECT_EQ(meter.critical(), 1U);
}

TEST(Slack, WhoIsNoLenderAnyMoreIsForgotten) {
  Meter meter;
  meter.configure({seconds(60), Duration(0), 0});
  meter.use(seconds(10), 0, 64);
  meter.use(seconds(10), 0, 64);
  meter.sample(meter.now + seconds(1), used(meter.cpu, 64), {});
  EXPECT_TRUE(meter.lendable(meter.now).empty());
}

}  // namespace
}  // namespace bourse
