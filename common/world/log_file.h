// An append-only record log with checksums, that survives a torn tail.
//
// Used on the reactor's thread; must be destroyed before the reactor.
//
// File: 16-byte header (magic, version, crc32c of both), then records: length (u32 LE), crc32c of type and body (u32 LE), type (u8), body.
// Type 1 is a record, type 2 a snapshot. On open the file is read to the first record that is short or fails its sum; if
// only the tail is damaged (nothing valid follows) it is cut there and reported; damage before valid records is kCorrupt, because
// silently forgetting acknowledged records is worse than not starting. compact() writes NAME.new with one snapshot, flushes,
// renames over NAME and flushes the directory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/core/action.h"
#include "common/core/result.h"
#include "common/world/reactor.h"

namespace bourse {

constexpr std::size_t kLogRecordMax = 1024 * 1024 * 1024;  // a snapshot is one record

class LogFile {
 public:
  struct Content {
    std::string snapshot;
    std::vector<std::string> records;
    std::uint64_t torn_bytes = 0;  // cut off at the end
  };
  // Creates the file (and its directory, 0700) where absent. Holds an exclusive flock: kBusy when another process has it.
  static Result<std::unique_ptr<LogFile>> open(const std::string& path, Content& content);
  ~LogFile();

  // Both write() before returning; the write is in order. Safety::kPower is flushed by a writer thread, many at once, and
  // `done` is called on the reactor's thread, in order. kProcess: `done` is called before append returns.
  // A write that fails (no space) leaves no half record, and later appends are tried anew. After a failed flush nobody can
  // say what is on the disk: every append fails from then on, and the process should end.
  using Done = std::function<void(const Result<>&)>;
  void append(Reactor& reactor, Safety safety, const std::vector<std::string>& records, Done done);
  Result<> append_now(Safety safety, const std::vector<std::string>& records);  // blocking; for tools and tests
  Result<> compact(const std::string& snapshot);
  [[nodiscard]] std::uint64_t bytes() const;
  [[nodiscard]] std::uint64_t flushes() const;  // fdatasync calls so far

 private:
  LogFile();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// CRC-32C (Castagnoli; RFC 3720 appendix B.4 gives test vectors).
// `seed` is the sum of what went before.
std::uint32_t crc32c(std::string_view bytes, std::uint32_t seed = 0);
std::uint32_t crc32c_by_table(std::string_view bytes, std::uint32_t seed = 0);  // what it does where the CPU cannot

}  // namespace bourse
