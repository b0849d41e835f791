// Which of several bourse-batch over one PostgreSQL store is the active one. See "Standbys".
//
// The store has a token. Who takes the queue over raises it, in one transaction with a new incarnation, and from then on nobody who
// holds a lower one can write: every transaction looks at it (Store). The active one raises a beat; a standby takes over when by its own
// clock the beat has stood still for `takeover`, or at once when the active one has said that it goes, or was the one before on this
// host (its lock is free, so it is dead). No two clocks are compared.
//
// Owned by main. try_take() and the calls before it block, on a standby that has nothing else to do; afterwards a thread of its own
// beats, and `lost` is called on the reactor's thread when somebody else has taken over.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/core/ids.h"
#include "common/core/result.h"
#include "common/core/time.h"
#include "common/world/reactor.h"

namespace bourse::batch {

class Claim {
 public:
  static constexpr int kBeats = 5;  // in the time until somebody takes over
  // `owner`: of this place, the same in each of its lives. Makes the tables where absent.
  static Result<std::unique_ptr<Claim>> open(const std::string& uri, const std::string& owner, Duration takeover);
  ~Claim();  // does not give it up
  // Whether it is ours now. An error: the store cannot be asked; try again.
  Result<bool> try_take();
  [[nodiscard]] std::uint64_t token() const { return token_; }
  [[nodiscard]] Incarnation incarnation() const { return incarnation_; }

  void keep(Reactor& reactor, std::function<void(std::string reason)> lost);
  void give_up();  // in good order: a standby need not wait

 private:
  Claim() = default;
  struct Impl;
  std::unique_ptr<Impl> impl_;
  Duration takeover_{0};
  std::uint64_t token_ = 0;
  Incarnation incarnation_;
};

}  // namespace bourse::batch
