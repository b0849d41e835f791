// Results, names, random numbers, deterministic mathematics, hooks, and the words for enumerations.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>

#include "common/core/action.h"
#include "common/core/fmath.h"
#include "common/core/hooks.h"
#include "common/core/messages.h"
#include "common/core/rng.h"

namespace bourse {
namespace {

constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();

Result<int> half(int n) {
  if (n % 2 != 0) return Error(Code::kInvalid, std::to_string(n) + " is odd");
  return n / 2;
}
Result<int> quarter(int n) {
  const int once = BOURSE_TRY(half(n));
  return BOURSE_TRY(half(once));
}

TEST(ResultType, CarriesAValueOrAnErrorWithContext) {
  EXPECT_EQ(*quarter(12), 3);
  const auto failed = quarter(6);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code(), Code::kInvalid);
  EXPECT_EQ(Error(failed.error()).add("quarter 6").text(), "quarter 6: 3 is odd");
  errno = ENOENT;
  const Error e = errno_error("open /x/y");
  EXPECT_EQ(e.text(), "open /x/y: No such file or directory");
  EXPECT_EQ(e.code(), Code::kNotFound);
  EXPECT_EQ(code_text(Code::kGone), "gone");
}

TEST(ResultTypeDeathTest, AssertionsStayOnAndPrintState) { EXPECT_DEATH(BOURSE_ASSERT(1 > 2, "agent=h1"), "1 > 2.*agent=h1"); }

TEST(Names, OnlyWhatIsSafeInAPathIsValid) {
  for (const char* ok : {"h1", "org/team", "12.0.1", "a:b@c+d-e_f", "GPU-1", "gpu/"}) EXPECT_TRUE(valid_name(ok)) << ok;
  for (const char* bad : {"", ".hidden", "..", "/abs", "a b", "a/../b", "a/.b", "a\n", "a;b", "\xc3\xa9"})
    EXPECT_FALSE(valid_name(bad)) << bad;
  EXPECT_TRUE(valid_name(std::string(128, 'a')));
  EXPECT_FALSE(valid_name(std::string(129, 'a')));
  EXPECT_EQ(to_text(SliceId{FrameworkId("batch"), 4711}), "batch#4711");
  EXPECT_EQ(to_text(TaskKey{FrameworkId("batch"), TaskId("12.0.1")}), "batch/12.0.1");
}

TEST(Quantities, CheckedArithmeticRefusesOverflowAndBelowZero) {
  EXPECT_EQ(*checked_add(2, 3), 5);
  EXPECT_FALSE(checked_add(kHuge, 1));
  EXPECT_FALSE(checked_add(1, -2));
  EXPECT_EQ(*checked_subtract(3, 3), 0);
  EXPECT_FALSE(checked_subtract(3, 4));
  EXPECT_FALSE(checked_subtract(kHuge, -1));
  EXPECT_EQ(*checked_multiply(1LL << 31, 1LL << 31), 1LL << 62);
  EXPECT_FALSE(checked_multiply(1LL << 32, 1LL << 31));
  EXPECT_FALSE(checked_multiply(-1, 5));
  EXPECT_EQ(checked_subtract(0, 1).error().code(), Code::kLimit);
}

// Values of a second implementation of the published algorithms (splitmix64 seeding, xoshiro256** 1.0), in Python.
TEST(Random, IsXoshiro256StarStarSeededBySplitmix64) {
  Rng rng(42);
  for (const std::uint64_t expected : {1546998764402558742ULL, 6990951692964543102ULL, 12544586762248559009ULL,
                                       17057574109182124193ULL, 18295552978065317476ULL}) {
    EXPECT_EQ(rng.next(), expected);
  }
}

TEST(Random, StreamsAreIndependentAndBoundsHold) {
  Rng a = Rng(7).fork("network"), b = Rng(7).fork("network"), c = Rng(7).fork("disk");
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(a.next(), b.next());
    seen.insert(c.next());
  }
  EXPECT_EQ(seen.size(), 100u);
  std::array<int, 6> faces{};
  for (int i = 0; i < 60'000; ++i) {
    faces[a.below(6)]++;
    const std::int64_t v = a.between(-3, 3);
    ASSERT_TRUE(v >= -3 && v <= 3);
    const double u = a.unit();
    ASSERT_TRUE(u >= 0 && u < 1);
  }
  // Five degrees of freedom; 30 is far beyond the 99.99 % point (25.7).
  double chi = 0;
  for (const int n : faces) chi += (n - 10'000.0) * (n - 10'000.0) / 10'000.0;
  EXPECT_LT(chi, 30);
  EXPECT_FALSE(a.chance(0));
  EXPECT_TRUE(a.chance(1000));
  (void)a.between(std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max());  // the full span is allowed
}

// The C library's long double functions are the outside truth: 64 bits of mantissa against our 53.
TEST(Mathematics, StaysWithinItsStatedErrorBounds) {
  Rng rng(9);
  const long double unit = 0x1.0p-53L;
  long double worst_exp = 0, worst_log = 0, worst_pow = 0;
  for (int i = 0; i < 200'000; ++i) {
    const double x = (rng.unit() - 0.5) * 1400;
    const double e = fmath::exp(x);
    if (e >= std::numeric_limits<double>::min() && std::isfinite(e)) {
      const long double truth = expl(static_cast<long double>(x));
      worst_exp = std::max(worst_exp, fabsl(static_cast<long double>(e) - truth) / truth / unit);
    }
    const double y = i % 2 == 0 ? fmath::exp((rng.unit() - 0.5) * 1400) : 1 + (rng.unit() - 0.5) * 0.01;
    if (y > 0 && std::isfinite(y) && y != 1) {
      const long double truth = logl(static_cast<long double>(y));
      worst_log = std::max(worst_log, fabsl((static_cast<long double>(fmath::log(y)) - truth) / truth) / unit);
    }
    const double base = rng.unit() * 100 + 1e-6, power = (rng.unit() - 0.5) * 60;
    const long double truth = powl(static_cast<long double>(base), static_cast<long double>(power));
    const long double bound = 8 + 4 * fabsl(static_cast<long double>(power) * logl(static_cast<long double>(base)));
    worst_pow = std::max(worst_pow, fabsl(static_cast<long double>(fmath::pow(base, power)) - truth) / truth / unit / bound);
  }
  EXPECT_LT(worst_exp, 4);
  EXPECT_LT(worst_log, 4);
  EXPECT_LT(worst_pow, 1);
  for (int i = 0; i < 1000; ++i) {
    const double x = rng.unit() * 1e6;
    EXPECT_EQ(fmath::sqrt(x), std::sqrt(x));
  }
}

TEST(Mathematics, SpecialValuesFollowAnnexF) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(fmath::exp(0), 1);
  EXPECT_EQ(fmath::exp(inf), inf);
  EXPECT_EQ(fmath::exp(-inf), 0);
  EXPECT_EQ(fmath::log(1), 0);
  EXPECT_EQ(fmath::log(0), -inf);
  EXPECT_TRUE(std::isnan(fmath::log(-1)));
  EXPECT_TRUE(std::isnan(fmath::exp(nan)));
  for (const double x : {-inf, -2.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.0, inf, nan}) {
    for (const double y : {-inf, -3.0, -2.0, -0.5, 0.0, 0.5, 2.0, 3.0, inf, nan}) {
      const double ours = fmath::pow(x, y), theirs = std::pow(x, y);
      if (std::isnan(theirs)) {
        EXPECT_TRUE(std::isnan(ours)) << x << " " << y;
      } else if (std::isinf(theirs) || theirs == 0) {
        EXPECT_EQ(ours, theirs) << x << " " << y;
        EXPECT_EQ(std::signbit(ours), std::signbit(theirs)) << x << " " << y;
      } else {
        EXPECT_NEAR(ours, theirs, 1e-12) << x << " " << y;
      }
    }
  }
}

TEST(Hooks, MutantsAreOffUntilNamed) {
  EXPECT_FALSE(hooks::mutant("ledger.check"));
  hooks::set_mutants("ledger.check,agent.fence");
  EXPECT_TRUE(hooks::mutant("ledger.check") && hooks::mutant("agent.fence"));
  EXPECT_FALSE(hooks::mutant("ledger"));
  EXPECT_EQ(hooks::active(), "mutants=ledger.check,agent.fence");
  hooks::set_mutants("");
  EXPECT_FALSE(hooks::mutant("ledger.check"));
  EXPECT_EQ(hooks::active(), "");
}

TEST(HooksDeathTest, ACrashPointKillsAtTheNamedPassage) {
  EXPECT_EXIT(
      {
        hooks::init("agent.append:3", nullptr);
        for (int i = 0; i < 2; ++i) hooks::crash_point("agent.append");
        hooks::crash_point("agent.send");
        hooks::crash_point("agent.append");
        std::exit(0);
      },
      ::testing::KilledBySignal(SIGKILL), "");
}

TEST(HooksDeathTest, AMarkedCrashPointKillsOnceAndOnlyItsProgram) {
  const std::string mark = (std::filesystem::temp_directory_path() / ("bourse-mark-" + std::to_string(getpid()))).string();
  std::filesystem::remove(mark);
  const std::string armed = "another/agent.append@" + mark + ",agent.send:2@" + mark;
  const auto pass = [&] {
    hooks::init(armed.c_str(), nullptr);
    hooks::crash_point("agent.append");  // another program's
    hooks::crash_point("agent.send");
    hooks::crash_point("agent.send");
    std::exit(7);
  };
  EXPECT_EXIT(pass(), ::testing::KilledBySignal(SIGKILL), "");
  EXPECT_EXIT(pass(), ::testing::ExitedWithCode(7), "") << "the next life goes on";
  std::ifstream in(mark);
  std::string name;
  EXPECT_TRUE(in >> name);
  EXPECT_EQ(name, "agent.send");
  std::filesystem::remove(mark);
}

TEST(ActionList, ClearEmptiesEverythingAndKeepsItsMemory) {
  Actions a;
  for (int i = 0; i < 100; ++i) {
    a.send(PeerId(1), {});
    a.log("x");
  }
  a.arm({1, 2, "x"}, seconds(1));
  a.append(Safety::kPower, "r");
  a.compact = "s";
  a.reconnect = a.stop = true;
  a.ticket = 5;
  const std::size_t room = a.sends.capacity();
  a.clear();
  EXPECT_TRUE(a.sends.empty() && a.logs.empty() && a.arms.empty() && a.appends.empty() && a.compact.empty());
  EXPECT_FALSE(a.reconnect || a.stop);
  EXPECT_EQ(a.ticket, 0u);
  EXPECT_EQ(a.sends.capacity(), room);
}

TEST(Words, EveryEnumeratorHasItsOwn) {
  std::set<std::string_view> words;
  for (int i = 0; i <= static_cast<int>(TaskState::kNeverStarted); ++i) words.insert(task_state_text(static_cast<TaskState>(i)));
  EXPECT_EQ(words.size(), static_cast<std::size_t>(TaskState::kNeverStarted) + 1);
  words.clear();
  for (int i = 0; i <= static_cast<int>(Misfit::kBusyHost); ++i) words.insert(misfit_text(static_cast<Misfit>(i)));
  EXPECT_EQ(words.size(), static_cast<std::size_t>(Misfit::kBusyHost) + 1);
  words.clear();
  for (int i = 0; i <= static_cast<int>(DeclineReason::kOther); ++i) words.insert(decline_text(static_cast<DeclineReason>(i)));
  EXPECT_EQ(words.size(), static_cast<std::size_t>(DeclineReason::kOther) + 1);
  words.clear();
  for (int i = 0; i <= static_cast<int>(Code::kUnsupported); ++i) words.insert(code_text(static_cast<Code>(i)));
  EXPECT_EQ(words.size(), static_cast<std::size_t>(Code::kUnsupported) + 1);
  EXPECT_EQ(body_name(AgentHello{}), "AgentHello");
  EXPECT_EQ(body_name(Heartbeat{}), "Heartbeat");
  EXPECT_EQ(body_name(AcceptReply{}), "AcceptReply");
  EXPECT_EQ(body_name(GangHeld{}), "GangHeld");
  EXPECT_EQ(body_name(SliceGone{}), "SliceGone");
  EXPECT_EQ(body_name(Kill{}), "Kill");
  EXPECT_EQ(body_name(Reconcile{}), "Reconcile");
  EXPECT_EQ(body_name(AgentsUpdate{}), "AgentsUpdate");
  EXPECT_EQ(body_name(StatusReply{}), "StatusReply");
  EXPECT_EQ(body_name(OperatorReply{}), "OperatorReply");
}

}  // namespace
}  // namespace bourse
