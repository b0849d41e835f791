// Three masters that run as one, with all that may happen to them, in virtual time.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <sstream>

#include "cluster.h"
#include "common/core/hooks.h"

namespace bourse::sim {
namespace {

RunOptions three(std::uint64_t seed) {
  RunOptions options;
  options.seed = seed;
  options.masters = 3;
  options.lease = seed % 3 == 0 ? seconds(1) : seconds(8);
  return options;
}

std::string again(std::uint64_t seed) {
  return "repeat with: BOURSE_SIM_SEED=" + std::to_string(seed) + " " + ::testing::internal::GetArgvs()[0] +
         " --gtest_filter=Masters.SeedFromTheEnvironment";
}

RunResult expect_clean(const RunOptions& options) {
  const RunResult result = run(options);
  EXPECT_EQ(result.failure, "") << "seed " << options.seed << " (" << result.kinds << "), " << result.faults << " faults, "
                                << result.events << " events\n"
                                << again(options.seed);
  return result;
}

TEST(Masters, WithoutFaultsOneLeadsAndEveryTaskEndsOnce) {
  RunOptions options = three(1);
  options.swarm = false;
  const RunResult result = run(options);
  EXPECT_EQ(result.failure, "");
  EXPECT_GT(result.executions, 50U);
  EXPECT_EQ(result.leaderships, 1U);
}

TEST(Masters, FixedSeeds) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) expect_clean(three(seed));
}

// Faults of masters alone, so that there is a failover every few seconds.
TEST(Masters, FailoverUponFailover) {
  std::size_t leaderships = 0;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    RunOptions options = three(seed);
    options.only = {Fault::kKillMaster, Fault::kMasterPower, Fault::kMasterPartition, Fault::kMasterStall, Fault::kMasterChange};
    options.faults_for = seconds(90);
    leaderships += expect_clean(options).leaderships;
  }
  EXPECT_GT(leaderships, 20U);
}

TEST(Masters, SameSeedSameTrace) {
  for (const std::uint64_t seed : {2, 5}) {
    const RunResult first = run(three(seed)), second = run(three(seed));
    EXPECT_EQ(first.hash, second.hash);
    EXPECT_EQ(first.events, second.events);
  }
}

// An offer that was granted twice, for the checker forgot who had answered; two leaders at once, of a vote that was no promise, of a
// life that had forgotten what the one before had promised, of a transfer; a configuration that was freed and used; a follower that
// answered for more than it shared with the leader; a disk full once, ever after taken for full; a voter that did not know that it
// was one; a log that could not be written when its master began; a server without an address, of a change that was refused.
TEST(Masters, SeedsThatFoundSomething) {
  for (const std::uint64_t seed : {588'262'297U, 262'176'566U, 547'174'395U, 206'859'090U, 351'539'291U, 295'243'808U, 864'494'575U,
                                   237'935'462U, 316'017'705U, 177'288'064U, 923'679'972U, 226'026'532U, 411'530'881U, 165'634'043U,
                                   381'397'518U, 505'793'484U, 642'143'055U, 948'330'510U})
    expect_clean(three(seed));
}

TEST(Masters, RandomSeedsForABoundedTime) {
  const char* limit = std::getenv("BOURSE_SIM_SECONDS");
  if (limit == nullptr) GTEST_SKIP() << "BOURSE_SIM_SECONDS is not set";
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(std::atoi(limit));
  std::uint64_t seeds = 0, faults = 0, leaderships = 0;
  std::random_device entropy;
  while (std::chrono::steady_clock::now() < until && !HasFailure()) {
    const RunOptions options = three(entropy() % 1'000'000'000);
    std::printf("  seed %llu\n", static_cast<unsigned long long>(options.seed));  // a run that does not return says which it was
    std::fflush(stdout);
    const RunResult result = expect_clean(options);
    ++seeds;
    faults += result.faults;
    leaderships += result.leaderships;
  }
  std::printf("  %llu seeds, %llu faults, %llu leaderships\n", static_cast<unsigned long long>(seeds),
              static_cast<unsigned long long>(faults), static_cast<unsigned long long>(leaderships));
}

TEST(Masters, SeedFromTheEnvironment) {
  const char* seed = std::getenv("BOURSE_SIM_SEED");
  if (seed == nullptr) GTEST_SKIP() << "BOURSE_SIM_SEED is not set";
  if (const char* mutants = std::getenv("BOURSE_MUTANT")) hooks::set_mutants(mutants);
  RunOptions options = three(std::strtoull(seed, nullptr, 10));
  options.log = std::getenv("BOURSE_SIM_LOG") != nullptr;
  // BOURSE_SIM_FAULTS="master_change disk_slow": as in mutants_test.cc, in that order.
  if (const char* names = std::getenv("BOURSE_SIM_FAULTS")) {
    std::istringstream words(names);
    for (std::string word; words >> word;)
      for (int i = 0; i < static_cast<int>(Fault::kAll); ++i)
        if (word == fault_text(static_cast<Fault>(i))) options.only.push_back(static_cast<Fault>(i));
    options.faults_for = seconds(60);
    options.lease = options.seed % 2 == 0 ? seconds(1) : seconds(8);
  }
  const RunResult result = run(options);
  std::printf("  %s\n  %llu faults, %llu events, %zu leaderships\n", result.kinds.c_str(),
              static_cast<unsigned long long>(result.faults), static_cast<unsigned long long>(result.events), result.leaderships);
  EXPECT_EQ(result.failure, "");
}

}  // namespace
}  // namespace bourse::sim
