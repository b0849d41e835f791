// Pools of instances that wait for a task: how many of which image, who gets one, and what that was worth. See DESIGN §8.
//
// A pool is made by the first task of its kind (kinds are told apart by pool_name()). Its size is `factor` times the forecast of how
// many will be wanted at one time: the rate of claims over the last minutes, times the time in which an instance can be replaced
// (kReplacements times the time that one takes to be made). The factor is 1.2 where demand scatters as much as its mean, less
// where it is steadier, more where it comes in bursts. It is never less than were claimed of late within the time that one takes to be
// made: of that no rate knows anything where claims are few. A pool whose claims are so few and old that none is expected has no
// instance. Where all pools together would have more memory than the budget, those last claimed longest ago get none.
//
// Integers only, in thousandths of a claim; decays by a fixed part each tick, so that equal claims give equal sizes on every machine.
// Pure; owned by the agent actor.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/core/action.h"
#include "common/core/event.h"
#include "common/core/task.h"

namespace bourse {

struct WarmSettings {
  bool on = false;
  Bytes budget = kGiB;
  bool operator==(const WarmSettings&) const = default;
};

// What a guest is made for, beside its task: by which hypervisor, and the memory and the cores of its slice.
struct WarmGuest {
  std::string hypervisor;
  Bytes mem;
  std::uint32_t cpus = 0;
};
// Equal for tasks that can run in each other's instance; "" for those that are not kept warm: of guests all but those with a kernel and
// an initramfs, which alone can be told their task after they have booted.
std::string pool_name(const TaskSpec& spec, const WarmGuest& guest = {});

class WarmPools {
 public:
  static constexpr Duration kTick = seconds(10);
  static constexpr std::int64_t kSlowTicks = 120, kFastTicks = 12;  // mean ages of a claim that counts: 20 and 2 minutes
  static constexpr std::int64_t kKeptAt = 500;                      // thousandths of claims from which on an instance is kept
  static constexpr std::int64_t kReplacements = 4;
  static constexpr std::int64_t kBurstKept = 1500;  // thousandths: less is left of a burst that is too long ago
  static constexpr std::int64_t kFactor = 1200, kFactorLeast = 1000, kFactorMost = 3000, kTune = 400;  // permille
  static constexpr std::size_t kPoolsMax = 256;       // the one claimed longest ago is forgotten
  static constexpr std::uint32_t kInstancesMax = 64;  // of one pool
  static constexpr Bytes kGuess{16LL << 20};          // memory of an instance before one was seen
  static constexpr Bytes kGuestGuess{128LL << 20};    // and of a guest
  static constexpr Duration kMakingGuess = seconds(2);

  void configure(const WarmSettings& settings) { settings_ = settings; }
  [[nodiscard]] bool on() const { return settings_.on; }

  // A task of this kind starts. The instance that it gets, or "" (it starts cold).
  std::string claim(Duration now, const std::string& pool, const TaskSpec& spec, const WarmGuest& guest = {});
  void tick(Duration now);                              // every kTick
  void state(Duration now, const WarmState& state);     // what there is
  void took(const std::string& pool, Duration making);  // how long an instance of it takes to be made
  void asked(Duration now);                             // wanted() has just been told: what is missing is being made from now on
  // What is to be ready now, by name. Changes with claims and ticks only.
  [[nodiscard]] std::vector<KeepWarm::Pool> wanted() const;

  struct Figures {
    std::int64_t hits = 0, misses = 0;
    std::int64_t ready = 0, pools = 0;
    Bytes mem;                           // of what is ready
    std::int64_t waste_mib_seconds = 0;  // of instances that went without having been claimed
  };
  [[nodiscard]] const Figures& figures() const { return figures_; }
  void figures(Counters& out) const;                                   // "warm.hits", ...; nothing while it is off
  [[nodiscard]] std::uint32_t size_of(const std::string& pool) const;  // wanted of it, before the budget

 private:
  struct Instance {
    std::string place;
    Bytes mem;
    Duration since{0};
  };
  struct Pool {
    TaskSpec spec;
    WarmGuest guest;
    std::int64_t slow = 0, fast = 0;  // thousandths of claims, decayed
    std::int64_t scatter = 1000;      // mean deviation of claims a tick from their mean, permille of the mean
    std::int64_t in_tick = 0;         // claims since the last tick
    std::deque<Duration> burst;       // claims no longer ago than one takes to be made; at most kInstancesMax
    std::int64_t most = 0;            // of them at one time, thousandths, decayed as `slow`
    Duration last{0}, making = kMakingGuess, asked{-1};
    Bytes mem = kGuess;
    std::vector<Instance> ready;
  };
  [[nodiscard]] std::uint32_t size(const Pool& pool) const;

  WarmSettings settings_;
  std::map<std::string, Pool> pools_;
  Figures figures_;
};

}  // namespace bourse
