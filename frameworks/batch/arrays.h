// Job arrays: one record for all tasks; a task becomes a thing of its own only when it starts. A task is known inside by its rank
// (its place among the indexes, from 0), so that a billion indexes cost nothing.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "frameworks/batch/job.h"

namespace bourse::batch {

// A set of numbers as disjoint ranges; small when its members cluster, as ended tasks do.
class RankSet {
 public:
  void insert(std::uint64_t first, std::uint64_t last);
  [[nodiscard]] bool contains(std::uint64_t rank) const;
  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] const std::map<std::uint64_t, std::uint64_t>& ranges() const { return ranges_; }

 private:
  std::map<std::uint64_t, std::uint64_t> ranges_;  // first -> last
  std::uint64_t size_ = 0;
};

class ArrayState {
 public:
  explicit ArrayState(ArraySpec spec) : spec_(std::move(spec)) {}
  [[nodiscard]] const ArraySpec& spec() const { return spec_; }
  [[nodiscard]] std::uint64_t size() const { return spec_.indexes.size(); }
  [[nodiscard]] std::uint64_t index(std::uint64_t rank) const { return spec_.indexes.at(rank); }
  [[nodiscard]] std::optional<std::uint64_t> rank(std::uint64_t index) const;

  // The next task that may start now; none where all have, or the limit is reached.
  [[nodiscard]] std::optional<std::uint64_t> next() const;
  [[nodiscard]] std::uint64_t startable() const;  // how many could start now
  [[nodiscard]] bool at_limit() const { return spec_.max_running > 0 && running_.size() >= spec_.max_running && waiting() > 0; }
  [[nodiscard]] std::uint64_t waiting() const;  // tasks that neither started nor ended
  [[nodiscard]] bool finished() const { return ended_.size() == size(); }
  [[nodiscard]] bool all_ok() const { return failed_.size() == 0; }
  [[nodiscard]] bool is_waiting(std::uint64_t rank) const {
    return rank < size() && !running_.contains(rank) && !ended_.contains(rank);
  }
  [[nodiscard]] const std::set<std::uint64_t>& running() const { return running_; }
  [[nodiscard]] const RankSet& ended() const { return ended_; }
  [[nodiscard]] const RankSet& failed() const { return failed_; }

  void started(std::uint64_t rank);
  void back(std::uint64_t rank);  // did not run after all, or runs again
  void ended(std::uint64_t first, std::uint64_t last, bool ok);
  // The waiting tasks as ranges of ranks, and as text of indexes: "5-9".
  [[nodiscard]] std::vector<std::pair<std::uint64_t, std::uint64_t>> waiting_ranges(std::size_t limit) const;
  [[nodiscard]] std::string text(std::uint64_t first_rank, std::uint64_t last_rank) const;
  [[nodiscard]] std::string waiting_text() const;  // "5-9%2"

 private:
  void skip();
  ArraySpec spec_;
  std::uint64_t cursor_ = 0;       // all below it have been started or have ended
  std::set<std::uint64_t> again_;  // below the cursor and waiting again
  std::set<std::uint64_t> running_;
  RankSet ended_, failed_;
};

}  // namespace bourse::batch
