// Batch's records on disk: SQLite (WAL, synchronous=FULL) behind one writer thread with group commit. See "Batch store".
//
// Owned by main, used on the reactor's thread; all SQL runs on the writer's. What arrives while a commit runs goes into the next
// one together. A record is kept by what it is about (a job, a task, a blob), so the file holds the present and the history, and a
// start reads only the present. Jobs that ended stay in `history` for good; numbers are never reused.
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

constexpr std::size_t kOutcomesLoaded = 200'000;  // ended jobs that dependencies and submission keys can name after a restart
constexpr std::size_t kGroupRecordsMax = 20'000;  // records in one commit

class Store {
 public:
  // Makes the file (and its directory, 0700) where absent. `records`: as Started wants them. kBusy: another process has it.
  static Result<std::unique_ptr<Store>> open(const std::string& path, std::vector<std::string>& records);
  ~Store();  // writes what is queued
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // Driver::Hooks.append. `done` comes on the reactor's thread, in order; for a group of hints (all kProcess) at once.
  void append(Reactor& reactor, std::vector<Append> appends, LogFile::Done done);
  Result<> append_now(const std::vector<std::string>& records);  // blocking; for tests and tools

  [[nodiscard]] std::uint64_t commits() const;
  [[nodiscard]] std::uint64_t records_written() const;

 private:
  Store();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bourse::batch
