// The tables that readers see, as ViewUpdates built them up, and the encoded pieces of them that are sent to many.
//
// Each row has the version at which it last changed, and a removed one leaves its name for a while: what came after version v is then
// the same question for a reader that begins (v = 0) and one that follows. Pieces are encoded once for all readers that ask the same.
// Owned by Readers, on its thread. No socket here.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/core/messages.h"
#include "common/wire/wire.h"

namespace bourse {

class ReaderTable {
 public:
  static constexpr std::size_t kRemovedMax = 10'000;  // names kept; a reader that lags behind further begins anew
  static constexpr std::size_t kEventsMax = 10'000;

  explicit ReaderTable(bool events = false) : events_(events) {}
  void apply(const ViewUpdate& update);
  [[nodiscard]] bool ready() const { return ready_; }
  [[nodiscard]] std::uint64_t version() const { return version_; }
  // What changed after `from`, at most `limit` rows and names; and through which version that goes. `lost`: from is too long ago.
  struct Piece {
    std::vector<StatusReply::Row> rows;
    std::vector<std::string> removed;
    std::uint64_t through = 0;
    bool lost = false;
  };
  [[nodiscard]] Piece after(std::uint64_t from, std::size_t limit) const;
  // Rows behind `name` in the order of pages: by name, events by number.
  [[nodiscard]] StatusReply page(const std::string& name, std::size_t limit) const;
  // The version of the event with this number, so that a reader goes on behind it.
  [[nodiscard]] std::uint64_t version_of_event(const std::string& number) const;
  [[nodiscard]] std::size_t size() const { return rows_.size(); }

 private:
  struct Key {  // events are in order of their numbers
    std::size_t length;
    std::string name;
    auto operator<=>(const Key&) const = default;
  };
  struct Row {
    std::vector<std::pair<std::string, std::string>> fields;
    std::uint64_t version = 0;
  };
  [[nodiscard]] Key key(const std::string& name) const { return {events_ ? name.size() : 0, name}; }
  void put(const StatusReply::Row& row);
  void remove(const std::string& name);

  bool events_, ready_ = false;
  std::uint64_t version_ = 0;
  std::uint64_t forgotten_ = 0;  // removals up to this version are no longer known
  std::map<Key, Row> rows_;
  std::map<std::uint64_t, Key> changes_;  // rows by their versions
  std::map<std::uint64_t, std::string> removed_;
  std::map<std::string, std::uint64_t> gone_;  // the same by name
};

// Encoded messages by what they answer, for a short while.
class EncodedPieces {
 public:
  static constexpr std::size_t kBytesMax = 64 * 1024 * 1024;
  struct Entry {
    std::string bytes;
    wire::Stamp places;
    std::uint64_t through = 0;
  };
  [[nodiscard]] const Entry* find(const std::string& key) const;
  const Entry& keep(const std::string& key, Entry entry);
  void clear() { entries_.clear(), bytes_ = 0; }

 private:
  std::map<std::string, Entry> entries_;
  std::size_t bytes_ = 0;
};

}  // namespace bourse
