// A set of small node numbers as bits: walked in ascending order, 64 nodes a step.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

namespace bourse::batch {

class NodeSet {
 public:
  using Node = std::uint32_t;
  void resize(std::size_t nodes) { words_.resize((nodes + 63) / 64); }
  void clear() { words_.assign(words_.size(), 0), count_ = 0; }
  [[nodiscard]] bool contains(Node n) const { return (words_[n / 64] >> (n % 64) & 1) != 0; }
  bool insert(Node n) {
    std::uint64_t& word = words_[n / 64];
    const std::uint64_t bit = std::uint64_t{1} << (n % 64);
    if ((word & bit) != 0) return false;
    word |= bit, ++count_;
    return true;
  }
  bool erase(Node n) {
    std::uint64_t& word = words_[n / 64];
    const std::uint64_t bit = std::uint64_t{1} << (n % 64);
    if ((word & bit) == 0) return false;
    word &= ~bit, --count_;
    return true;
  }
  void intersect(const NodeSet& other) {
    count_ = 0;
    for (std::size_t i = 0; i < words_.size(); ++i) {
      words_[i] &= other.words_[i];
      count_ += static_cast<std::size_t>(std::popcount(words_[i]));
    }
  }
  [[nodiscard]] std::size_t size() const { return count_; }
  [[nodiscard]] bool empty() const { return count_ == 0; }

  // `keep_going(node)` for each, lowest first, until it says false.
  template <class F>
  void each(F&& keep_going) const {
    for (std::size_t i = 0; i < words_.size(); ++i)
      for (std::uint64_t word = words_[i]; word != 0; word &= word - 1)
        if (!keep_going(static_cast<Node>(i * 64 + static_cast<std::size_t>(std::countr_zero(word))))) return;
  }
  bool operator==(const NodeSet& other) const { return words_ == other.words_; }

 private:
  std::vector<std::uint64_t> words_;
  std::size_t count_ = 0;
};

}  // namespace bourse::batch
