// Keeps warm containers and guests for the agent: starts as many as each pool wants, tells when one waits, lets go of those that are not wanted.
//
// Each is a bourse-container --park or a bourse-microvm --park (see their park.h) in a directory of its own, STATE/warm/N, in the agent's own cgroup until a task
// claims it. They end with us, by the end of their standard input, but for those that a task has. At most kMakingMax are made at one
// time; a pool whose instance could not be made is left alone for a while. Used by the agent's Host on the reactor's thread; needs root.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agent/launcher/confine.h"
#include "agent/launcher/users.h"
#include "common/core/action.h"
#include "common/core/event.h"
#include "common/world/reactor.h"

namespace bourse {

class WarmKeeper {
 public:
  static constexpr std::size_t kMakingMax = 2;
  static constexpr Duration kMakeWithin = seconds(120), kEndWithin = seconds(10), kFailedFirst = seconds(10),
                            kFailedMost = seconds(600);
  static constexpr Duration kClaimWithin = seconds(10);       // one that was to be claimed and was not ends after this
  static constexpr Duration kRefillAfter = milliseconds(50);  // a claim: the task that is about to start comes first
  static constexpr Duration kSweepAgain = seconds(3);         // what a dead agent kept may take a moment to end

  using Post = std::function<void(WarmState)>;
  using MakeConfine = std::function<Result<launcher::Confine>(const TaskSpec&)>;
  // `programs`: directory of these programs, with its slash. Removes what dead agents left in STATE/warm.
  WarmKeeper(Reactor& reactor, std::string state_dir, std::string programs, MakeConfine confine, Post post);
  ~WarmKeeper();
  WarmKeeper(const WarmKeeper&) = delete;
  WarmKeeper& operator=(const WarmKeeper&) = delete;

  void keep(const KeepWarm& wanted);
  void claimed(const std::string& place);  // a task is about to run in it

 private:
  struct Instance {
    std::string pool, directory, place;
    pid_t pid = 0;
    int input = -1, output = -1;
    Reactor::WatchId reading = 0, exiting = 0;
    Reactor::TimerId timer = 0;
    std::string said;
    bool ready = false, claimed = false, leaving = false;
    Bytes mem;
  };
  struct Pool {
    KeepWarm::Pool wanted;
    std::uint32_t count = 0;
    std::uint32_t failures = 0;
    Duration not_before{0};
    std::string failure;
  };

  void sweep();  // what nobody has any more
  void balance();
  Result<> make(const std::string& name, const Pool& pool);
  Result<std::vector<std::string>> command(const KeepWarm::Pool& wanted, const Instance& one);
  [[nodiscard]] bool pool_is_guests(const std::string& name) const;
  void read(std::uint64_t number);
  void ended(std::uint64_t number, int status);
  void failed(const std::string& pool, const std::string& why);
  void let_go(Instance& instance);  // its input is closed: it ends unless a task has it
  void tell();

  Reactor& reactor_;
  std::string state_dir_, directory_, programs_;
  MakeConfine confine_;
  Post post_;
  launcher::Users users_;
  std::map<std::string, Pool> pools_;
  std::map<std::uint64_t, Instance> instances_;
  std::uint64_t next_ = 1;
  Reactor::TimerId again_ = 0, sweeping_ = 0;
  Duration again_at_{0}, quiet_until_{0};
  bool told_failure_ = false;
};

}  // namespace bourse
