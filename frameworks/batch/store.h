// Batch's records on disk: SQLite (WAL, synchronous=FULL), or PostgreSQL, behind one writer thread with group commit. See "Batch store".
//
// In PostgreSQL several instances share them, and one is active: every transaction looks whether `token` is still the highest (claim.h),
// and nothing is written by who has a lower one. Where that is so, or where nobody knows whether the last commit was carried out, nothing
// more is written nor told, and on_lost() hears of it: another life, here or elsewhere, begins with what is there.
//
// Owned by main, used on the reactor's thread; all SQL runs on the writer's. What arrives while a commit runs goes into the next
// one together. A record is kept by what it is about (a job, a task, a blob), so the file holds the present and the history, and a
// start reads only the present. Jobs that ended stay in `history` for batch.history_keep and are then deleted by the writer, a few
// at a time, with the scripts and environments that nobody has any more; numbers are never reused.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/core/action.h"
#include "common/core/result.h"
#include "common/world/log_file.h"
#include "common/world/reactor.h"

namespace bourse::batch {

constexpr std::size_t kOutcomesLoaded = 200'000;     // ended jobs that dependencies and submission keys can name after a restart
constexpr std::uint64_t kPruneRows = 500;            // jobs, and blobs, that one step of pruning looks at
constexpr Duration kPruneEvery = seconds(60);        // between two rounds
constexpr Duration kPruneAgain = milliseconds(200);  // while a round is not at its end
constexpr Duration kBlobUnused = seconds(3600);      // a script or environment goes when nobody has had it for that long
constexpr std::size_t kUnusedMax = 100'000;          // of which that is noted at one time
constexpr std::size_t kGroupRecordsMax = 20'000;     // records in one commit

class Store {
 public:
  // Makes the file (and its directory, 0700) where absent. `records`: as Started wants them. kBusy: another process has it.
  // `where`: a file, or postgresql://..., of which `token` was taken.
  static Result<std::unique_ptr<Store>> open(const std::string& where, std::vector<std::string>& records, std::uint64_t token = 0);
  ~Store();  // writes what is queued
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // Driver::Hooks.append. `done` comes on the reactor's thread, in order; for a group of hints (all kProcess) at once.
  void append(Reactor& reactor, std::vector<Append> appends, LogFile::Done done);
  Result<> append_now(const std::vector<std::string>& records);  // blocking; for tests and tools

  void on_lost(Reactor& reactor,
               std::function<void(std::string reason)> lost);  // called once, on the reactor's thread; before append()
  void keep_history(Duration keep);                            // any thread; kNoLimit, as at first: for good
  struct Pruned {
    std::uint64_t jobs = 0, blobs = 0;
    bool more = false;  // the round is not at its end
  };
  Result<Pruned> prune_now(Time now);  // a step of it, as the writer makes by itself; for tests, while nothing is appended

  [[nodiscard]] std::uint64_t commits() const;
  [[nodiscard]] std::uint64_t records_written() const;

 private:
  Store();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bourse::batch
