// What one master's part of the replicated log comes to: term and vote, a snapshot, the entries behind it. No I/O here.
//
// It lies in one LogFile (registry.log of the state directory): a snapshot record that holds all of it, then records that change it.
// The first byte of the snapshot is kLayout; a log of a master of before replication begins otherwise (see takes_over), and a program
// of that time refuses ours by that very byte. Owned by Raft, which writes a record before it applies it here.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "common/core/result.h"

namespace bourse {

struct RaftServer {
  std::uint64_t id = 0;  // raft_id_of(name)
  std::string name;
  std::string address;  // where the other masters reach it
  int role = 0;         // libraft's: RAFT_VOTER, RAFT_SPARE, RAFT_STANDBY
  bool operator==(const RaftServer&) const = default;
};

struct RaftEntry {
  std::uint64_t term = 0;
  std::uint8_t type = 0;  // libraft's: RAFT_COMMAND, RAFT_BARRIER, RAFT_CHANGE
  std::string data;
  bool operator==(const RaftEntry&) const = default;
};

struct RaftSnapshot {
  std::uint64_t index = 0, term = 0;  // of the last entry in it; index 0: there is none
  std::uint64_t configuration_index = 0;
  std::vector<RaftServer> configuration;
  std::string data;
  bool operator==(const RaftSnapshot&) const = default;
};

// Numbers are 8 bytes, texts 4 bytes of length and their bytes; little endian. Reads past the end as zero and remembers that.
class RaftWriter {
 public:
  RaftWriter& byte(std::uint8_t value) {
    bytes_.push_back(static_cast<char>(value));
    return *this;
  }
  RaftWriter& number(std::uint64_t value);
  RaftWriter& text(std::string_view value);
  RaftWriter& servers(const std::vector<RaftServer>& list);
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class RaftReader {
 public:
  explicit RaftReader(std::string_view bytes) : rest_(bytes) {}
  std::uint8_t byte() { return static_cast<std::uint8_t>(little(1)); }
  std::uint64_t number() { return little(8); }
  std::string text();
  std::vector<RaftServer> servers();
  // How many elements follow, each of at least `bytes`: more than there is room for is torn.
  std::uint64_t count(std::size_t bytes);
  [[nodiscard]] bool torn() const { return torn_; }
  [[nodiscard]] bool empty() const { return rest_.empty(); }

 private:
  std::uint64_t little(std::size_t bytes);
  std::string_view rest_;
  bool torn_ = false;
};

class RaftLog {
 public:
  static constexpr std::uint8_t kLayout = 2;

  std::string name;           // of this master; the configuration may not change it
  std::uint64_t cluster = 0;  // drawn when the cluster began; 0: this master belongs to none yet
  std::uint64_t term = 0, vote = 0;
  RaftSnapshot snapshot;
  std::uint64_t first = 1;  // index of entries.front(), or of what will be
  std::deque<RaftEntry> entries;

  // True where a LogFile's content is that of a master of before replication: records, or a snapshot of the registry itself.
  static bool takes_over(std::string_view snapshot, const std::vector<std::string>& records);
  Result<> load(std::string_view snapshot, const std::vector<std::string>& records);
  Result<> apply(std::string_view record);
  [[nodiscard]] std::string whole() const;

  static std::string entry_record(std::uint64_t index, const RaftEntry& entry);
  static std::string cut_record(std::uint64_t from);  // entries from there on are void
  static std::string term_record(std::uint64_t term, std::uint64_t vote);
  static std::string cluster_record(std::uint64_t cluster);

  [[nodiscard]] std::uint64_t last() const { return first + entries.size() - 1; }
  [[nodiscard]] const RaftEntry* at(std::uint64_t index) const;
  void append(std::uint64_t index, RaftEntry entry);
  void cut(std::uint64_t from);
  // The state machine is at `next`; of the entries before it the last `trailing` stay. 0: none of any stays.
  void snapshot_taken(RaftSnapshot next, std::uint64_t trailing);
  [[nodiscard]] bool pristine() const { return snapshot.index == 0 && entries.empty(); }
};

[[nodiscard]] std::uint64_t raft_id_of(std::string_view name);  // never 0

}  // namespace bourse
