// The disk model of one node: an append-only log that outlives the process, with honest faults.
//
// Safety::kProcess is in the kernel's hands at once and survives a kill of the process. Safety::kPower is reported after a
// flush delay, many appends in order; what is not flushed may be lost, in part, when the host loses power. The kernel writes
// old pages back by itself. A full disk refuses an append whole.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/core/action.h"
#include "common/core/event.h"
#include "common/core/result.h"
#include "common/core/rng.h"
#include "common/sim/queue.h"

namespace bourse::sim {

struct DiskOptions {
  Duration flush_min = microseconds(100), flush_max = milliseconds(3);
  Duration writeback = seconds(5);  // unflushed pages reach the platter by themselves after this
};

class Disk {
 public:
  Disk(EventQueue& queue, Rng rng, DiskOptions options) : queue_(queue), rng_(rng), options_(options) {}

  using Done = std::function<void(const Result<>&)>;
  // Calls done before it returns for Safety::kProcess, later otherwise.
  void append(std::vector<Append> appends, std::string compact, Done done);
  [[nodiscard]] Started load(Incarnation incarnation) const;

  // As a LogFile does it for a replicated log (master/raft.h): the write, or its refusal, at once; the flush of all so far later, in
  // order; a write that is on the platter when it returns; a snapshot in the place of everything.
  Result<> write(const std::vector<std::string>& records);
  void flush(std::function<void(bool flushed)> done);
  Result<> write_through(const std::string& record);
  Result<> compact(const std::string& snapshot);
  Result<> sync();  // all of it is on the platter when it returns

  void power_loss();  // what was not flushed: a prefix of it stays, the rest and a torn record go
  void set_full(bool full) { full_ = full; }
  void set_slow(Duration flush_max) { slow_ = flush_max; }  // 0: as ever
  // Once. The kernel then takes what was to be flushed for clean: it is read as ever, and gone when the power is, unless a snapshot
  // takes the place of everything before that.
  void fail_next_flush() { flush_fails_ = true; }
  [[nodiscard]] std::size_t records() const { return records_.size(); }

 private:
  struct Record {
    std::string bytes;
    Duration written;
  };
  EventQueue& queue_;
  Rng rng_;
  DiskOptions options_;
  std::string snapshot_;
  std::vector<Record> records_;
  std::size_t flushed_ = 0;
  std::uint64_t compactions_ = 0;
  Duration last_flush_{0};
  Duration slow_{0};
  bool full_ = false, flush_fails_ = false;
  std::size_t unreal_ = SIZE_MAX;  // the first record that a failed flush was about
};

}  // namespace bourse::sim
