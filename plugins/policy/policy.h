// A policy ranks claimants: frameworks in the master, jobs in the batch framework. See "Policies".
//
// It is a state machine fed by deltas, owned by one allocator, used from that actor's step only. It is deterministic, has no
// clock and no randomness, and its amounts are integers. A walk (restart, next, next, ...) gives the claimants that want
// something, lowest rank first; deltas may arrive in the middle of a walk. A claimant whose use grows during the walk is
// met again at its new place, hence a walk ends when what is given away has ended or nobody is left.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/core/resources.h"

namespace bourse {

// What a claimant uses or a cluster has, by kind: milli-cores, bytes, and per device kind permille of devices (a whole device
// is 1000; a share is its "compute" counter, or 1000 where it has none, since what a share leaves cannot be told from here).
struct Usage {
  std::int64_t cpus = 0, mem = 0;
  Counters devices;
  void add(const Usage& other);
  void subtract(const Usage& other);  // must be contained: a bug else
  bool operator==(const Usage&) const = default;
};
Usage usage_of(const Resources& amount);

class Policy {
 public:
  using Handle = std::uint32_t;  // the host's own small number for a claimant
  struct Claimant {
    Handle handle = 0;
    std::string name;         // breaks ties
    std::int64_t weight = 1;  // > 0
    Usage used;
    bool wants = false;
  };

  virtual ~Policy() = default;
  // --- deltas
  virtual void total_changed(const Usage& total) = 0;
  virtual void claimant_changed(const Claimant& claimant) = 0;  // new, or its name or weight changed
  virtual void used_changed(Handle handle, const Usage& used) = 0;
  virtual void wants_changed(Handle handle, bool wants) = 0;
  virtual void claimant_removed(Handle handle) = 0;
  // --- next
  virtual void restart() = 0;
  virtual std::optional<Handle> next() = 0;
  // --- questions
  [[nodiscard]] virtual bool before(Handle a, Handle b) const = 0;        // is a ranked ahead of b?
  [[nodiscard]] virtual std::uint32_t position(Handle handle) const = 0;  // among those that want, from 1; O(n), for people
  [[nodiscard]] virtual std::uint32_t wanting() const = 0;
};

}  // namespace bourse
