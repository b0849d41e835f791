// Faults drawn from a seed: runs that differ in kind, not only in numbers.
//
// Each seed switches some kinds of fault on, others off, and shrinks some knobs to extremes. Faults happen until heal(), which
// undoes all of them and starts what is dead; after that the cluster must come to rest by itself.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/sim/world.h"

namespace bourse::sim {

enum class Fault : std::uint8_t {
  kKillAgent,
  kKillMaster,
  kKillFramework,
  kCrashAfterAppend,
  kPartition,
  kReset,
  kHostReboot,
  kHostPower,
  kMasterPower,
  kFrameworkPower,
  kLauncher,
  kMasterDiskFull,
  kAgentDiskFull,
  kDiskSlow,
  kClock,
  kCount,  // of those that a seed draws from for every cluster; what follows is for several masters
  kMasterPartition,
  kMasterStall,
  kMasterChange,
  kMasterNetwork,
  kMasterFlush,
  kMasterLease,
  kAll,
};
std::string_view fault_text(Fault fault);

class Swarm {
 public:
  Swarm(World& world, std::uint64_t seed);
  Swarm(World& world, std::uint64_t seed, std::vector<Fault> only);  // these kinds, as often as the seed says

  void begin();
  void heal();
  [[nodiscard]] std::string text() const;  // "kill_agent every 7s, small queues, ..."
  [[nodiscard]] std::uint64_t faults() const { return faults_; }

 private:
  struct Kind {
    Fault fault;
    Duration every;
  };
  void knobs();
  void schedule(const Kind& kind);
  void happen(Fault fault);
  void kill(Node& node, Duration for_at_most);
  void restart_later(Node& node, Duration at_most);
  Node& pick(Node::Kind kind);
  Node& pick_master();  // of one master no number is drawn
  void cut_masters(Duration lasting);
  void change_masters();
  void restore_masters();

  World& world_;
  Rng rng_, repeats_, masters_;
  std::vector<Kind> kinds_;
  std::string knobs_;
  NetworkOptions healthy_;
  std::uint64_t faults_ = 0;
  bool healed_ = false;
};

}  // namespace bourse::sim
