// The whole cluster in one thread, under faults: fixed seeds, then random ones for a bounded time.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <random>

#include "cluster.h"

namespace bourse::sim {
namespace {

std::string repeat_with(std::uint64_t seed) {
  return "repeat with: BOURSE_SIM_SEED=" + std::to_string(seed) + " " + ::testing::internal::GetArgvs()[0] +
         " --gtest_filter=Swarm.SeedFromTheEnvironment";
}

void expect_clean(const RunOptions& options) {
  const RunResult result = run(options);
  EXPECT_EQ(result.failure, "") << "seed " << options.seed << " (" << result.kinds << "), " << result.faults << " faults, "
                                << result.events << " events\n"
                                << repeat_with(options.seed);
}

TEST(Cluster, WithoutFaultsEveryTaskEndsOnceAndNothingIsLeft) {
  RunOptions options;
  options.swarm = false;
  const RunResult result = run(options);
  EXPECT_EQ(result.failure, "");
  EXPECT_GT(result.executions, 50u);
}

TEST(Cluster, MessagesSurviveTheirEncoding) {
  RunOptions options;
  options.swarm = false;
  options.wire = true;
  const RunResult encoded = run(options);
  options.wire = false;
  EXPECT_EQ(encoded.failure, "");
  EXPECT_EQ(encoded.hash, run(options).hash);
}

TEST(Swarm, FixedSeeds) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    RunOptions options;
    options.seed = seed;
    expect_clean(options);
  }
}

TEST(Swarm, SameSeedSameTrace) {
  for (const std::uint64_t seed : {3, 7, 11}) {
    RunOptions options;
    options.seed = seed;
    const RunResult first = run(options), second = run(options);
    EXPECT_EQ(first.hash, second.hash);
    EXPECT_EQ(first.events, second.events);
    options.seed = seed + 1000;
    EXPECT_NE(run(options).hash, first.hash);
  }
}

TEST(Swarm, RandomSeedsForABoundedTime) {
  const char* limit = std::getenv("BOURSE_SIM_SECONDS");
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(limit != nullptr ? std::atoi(limit) : 20);
  std::uint64_t seeds = 0, faults = 0, events = 0;
  Duration virtual_time{0};
  std::random_device entropy;
  while (std::chrono::steady_clock::now() < until && !HasFailure()) {
    RunOptions options;
    options.seed = entropy() % 1'000'000'000;
    std::printf("  seed %llu\n", static_cast<unsigned long long>(options.seed));  // a run that does not return says which it was
    std::fflush(stdout);
    const RunResult result = run(options);
    EXPECT_EQ(result.failure, "") << "seed " << options.seed << " (" << result.kinds << ")\n" << repeat_with(options.seed);
    ++seeds;
    faults += result.faults;
    events += result.events;
    virtual_time += result.virtual_time;
  }
  std::printf("  %llu seeds, %llu faults, %llu events, %s of virtual time\n", static_cast<unsigned long long>(seeds),
              static_cast<unsigned long long>(faults), static_cast<unsigned long long>(events), format_clock(virtual_time).c_str());
}

// Found here once; each is a fault alone, so that a seed that fails is short.
void expect_clean_with(std::vector<Fault> only, RunOptions options = {}) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    options.seed = seed;
    options.only = only;
    expect_clean(options);
  }
}
TEST(Swarm, EpochsGrowThoughAnAppendOfTheMasterFailed) { expect_clean_with({Fault::kMasterDiskFull, Fault::kKillMaster}); }
TEST(Swarm, StatusesAreHeardThoughPowerLossTookTheTailOfACheckpoint) { expect_clean_with({Fault::kHostPower}); }
TEST(Swarm, NoStatusLeavesAnAgentBeforeItIsRecordedThoughItsDiskIsFull) {
  expect_clean_with({Fault::kAgentDiskFull, Fault::kKillAgent});
}

// The rows of the failure table that need no process of their own to die.
TEST(Swarm, EveryMessageComesTwice) {
  RunOptions twice;
  twice.duplicate_permille = 1000;
  expect_clean_with({}, twice);
  expect_clean_with({Fault::kKillAgent, Fault::kKillFramework}, twice);
}
TEST(Swarm, MessagesComeLate) {
  RunOptions late;
  late.slow = true;
  expect_clean_with({Fault::kReset}, late);
}
TEST(Swarm, ADeposedLeaderStillTalks) {
  RunOptions ghosts;
  ghosts.ghost_permille = 500;
  expect_clean_with({Fault::kKillMaster}, ghosts);
}
TEST(Swarm, APartitionedAgentComesBack) { expect_clean_with({Fault::kPartition}); }

// Found at random, one in some thousands.
TEST(Swarm, SeedsThatFoundSomething) {
  for (const std::uint64_t seed : {154'982'595, 292'521'964}) {
    RunOptions options;
    options.seed = seed;
    expect_clean(options);
  }
}

// What repeats a seed; without one in the environment it is one more fixed seed.
TEST(Swarm, SeedFromTheEnvironment) {
  const char* seed = std::getenv("BOURSE_SIM_SEED");
  RunOptions options;
  options.seed = seed != nullptr ? std::strtoull(seed, nullptr, 10) : 21;
  options.log = std::getenv("BOURSE_SIM_LOG") != nullptr;
  expect_clean(options);
}

}  // namespace
}  // namespace bourse::sim
