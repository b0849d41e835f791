// Rows that have changed since somebody looked, each once, the one that waits for longest first. Costs nothing while nobody looks.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

namespace bourse::house {

class Dirty {
 public:
  void watch(bool on) {
    on_ = on;
    marks_.clear();
    waiting_.clear();
  }
  void add(std::uint32_t row) {
    if (!on_) return;
    if (row >= marks_.size()) marks_.resize(row + std::size_t{1}, 0);
    if (marks_[row] != 0) return;
    marks_[row] = 1;
    waiting_.push_back(row);
  }
  bool take(std::uint32_t& row) {
    if (waiting_.empty()) return false;
    row = waiting_.front();
    waiting_.pop_front();
    marks_[row] = 0;
    return true;
  }
  [[nodiscard]] bool empty() const { return waiting_.empty(); }

 private:
  bool on_ = false;
  std::vector<std::uint8_t> marks_;
  std::deque<std::uint32_t> waiting_;
};

}  // namespace bourse::house
