// With one mechanism of the product disabled, a checker must notice: within a few seeds of the faults that the mechanism is for.
#include <gtest/gtest.h>

#include "cluster.h"
#include "common/core/hooks.h"

namespace bourse::sim {
namespace {

struct Case {
  const char* mutant;
  std::vector<Fault> faults;
  std::uint32_t ignore_permille = 50;
  bool slow = false;
  std::uint32_t duplicate_permille = 0, ghost_permille = 0;
  std::uint32_t masters = 1;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.mutant; }

class Mutant : public ::testing::TestWithParam<Case> {
 protected:
  void TearDown() override { hooks::set_mutants(""); }
};

constexpr std::uint64_t kSeeds = 100, kSeedsOfMasters = 600;

RunOptions options_for(const Case& c, std::uint64_t seed) {
  RunOptions options;
  options.seed = seed;
  options.only = c.faults;
  options.swarm = !c.faults.empty();
  options.ignore_permille = c.ignore_permille;
  options.slow = c.slow;
  options.duplicate_permille = c.duplicate_permille;
  options.ghost_permille = c.ghost_permille;
  options.masters = c.masters;
  if (c.masters > 1 && seed % 2 == 0) options.lease = seconds(1);
  options.faults_for = seconds(60);
  return options;
}

TEST_P(Mutant, IsNoticed) {
  hooks::set_mutants(GetParam().mutant);
  const std::uint64_t seeds = GetParam().masters > 1 ? kSeedsOfMasters : kSeeds;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const RunResult result = run(options_for(GetParam(), seed));
    if (result.failure.empty()) continue;
    hooks::set_mutants("");
    const RunResult healthy = run(options_for(GetParam(), seed));
    EXPECT_EQ(healthy.failure, "") << "seed " << seed << " fails without the mutant as well";
    RecordProperty("seed", static_cast<int>(seed));
    std::printf("  %s: seed %llu: %.160s\n", GetParam().mutant, static_cast<unsigned long long>(seed), result.failure.c_str());
    return;
  }
  ADD_FAILURE() << GetParam().mutant << " was noticed by no checker in " << seeds << " seeds";
}

INSTANTIATE_TEST_SUITE_P(
    Checkers, Mutant,
    ::testing::Values(
        Case{"master.ledger_forgets_rest", {}}, Case{"master.accept_twice", {Fault::kReset}, 50, true},
        Case{"master.offer_never_expires", {}, 400}, Case{"master.epoch_constant", {Fault::kKillMaster}},
        Case{"master.status_not_forwarded_ack", {}}, Case{"agent.no_tombstone", {Fault::kReset, Fault::kKillFramework}},
        Case{"agent.hold_never_lapses", {Fault::kKillMaster, Fault::kPartition}}, Case{"agent.no_checkpoint", {Fault::kKillAgent}},
        Case{"agent.status_not_resent", {Fault::kKillMaster, Fault::kReset}},
        Case{"client.no_dedup", {Fault::kReset, Fault::kKillMaster}}, Case{"client.gang_starts_early", {}},
        Case{"driver.hold_sends", {Fault::kFrameworkPower, Fault::kDiskSlow}},
        Case{"master.accept_twice", {Fault::kReset}, 50, false, 1000}, Case{"client.no_dedup", {}, 50, false, 1000},
        Case{"agent.reboot_unnoticed", {Fault::kHostReboot}}, Case{"agent.stream_outlives_reboot", {Fault::kHostPower}},
        Case{"client.end_told_twice", {Fault::kKillFramework, Fault::kReset}, 50, true},
        Case{"master.unreachable_is_terminal", {Fault::kPartition}},
        Case{"raft.no_lease", {Fault::kMasterPartition, Fault::kMasterStall}, 50, false, 0, 0, 3},
        Case{"raft.no_flush", {Fault::kMasterPower, Fault::kDiskSlow}, 50, false, 0, 0, 3},
        Case{"raft.vote_not_stored", {Fault::kMasterPower, Fault::kMasterNetwork, Fault::kMasterPartition}, 50, false, 0, 0, 3},
        Case{"raft.votes_at_once", {Fault::kKillMaster, Fault::kMasterPartition}, 50, false, 0, 0, 3},
        Case{"raft.leads_on_when_it_yields",
             {Fault::kMasterDiskFull, Fault::kMasterChange, Fault::kMasterPartition},
             50,
             false,
             0,
             0,
             3},
        Case{"raft.starts_unflushed", {Fault::kMasterPower, Fault::kMasterFlush, Fault::kKillMaster}, 50, false, 0, 0, 3}),
    [](const auto& each) {
      std::string name = each.param.mutant;
      for (char& c : name) c = c == '.' ? '_' : c;
      return name + (each.param.duplicate_permille != 0 ? "_twice" : "");
    });

}  // namespace
}  // namespace bourse::sim
