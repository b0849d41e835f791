// A standing order of claimants by a key, and a walk through it that deltas may change underneath.
//
// The walk gives what lies after the last one given, so a claimant that moves behind it is met again and one that moves ahead of
// it is not met in this walk: the interface's rule for next().
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "plugins/policy/book.h"

namespace bourse::policy {

// Key: a value with operator<. Equal keys: lower order, then name, then handle.
template <class Key>
class Ordered {
 public:
  explicit Ordered(const Book& book) : book_(&book), set_(Less{&book}) {}
  Ordered(const Ordered&) = delete;
  Ordered& operator=(const Ordered&) = delete;

  void put(std::uint32_t handle, const Key& key) {
    if (handle >= entries_.size()) entries_.resize(std::size_t{handle} + 1);
    entries_[handle] = Entry{key, handle, book_->of(handle).order};
    set_.insert(*entries_[handle]);
  }
  void take(std::uint32_t handle) {  // no matter whether it is in; before the book changes what it knows of it
    if (!has(handle)) return;
    leave(handle);
    set_.erase(*entries_[handle]);
    entries_[handle].reset();
  }
  // With another key, without giving its storage back. It must be in.
  void move(std::uint32_t handle, const Key& key) {
    leave(handle);
    auto node = set_.extract(*entries_[handle]);
    node.value().key = key;
    entries_[handle]->key = key;
    set_.insert(std::move(node));
  }
  [[nodiscard]] bool has(std::uint32_t handle) const { return handle < entries_.size() && entries_[handle].has_value(); }
  [[nodiscard]] const Key& key(std::uint32_t handle) const { return entries_[handle]->key; }
  [[nodiscard]] bool empty() const { return set_.empty(); }
  [[nodiscard]] std::size_t size() const { return set_.size(); }
  [[nodiscard]] std::uint32_t first() const { return set_.begin()->handle; }

  void begin() { cursor_.reset(), stands_ = false; }
  bool next(std::uint32_t* handle) {
    const auto it = stands_ ? std::next(at_) : cursor_ ? set_.upper_bound(*cursor_) : set_.begin();
    if (it == set_.end()) return false;
    at_ = it, stands_ = true;
    *handle = it->handle;
    return true;
  }

 private:
  // What was given last goes: the cursor keeps what it was then, since the claimant may be another one by the next step.
  void leave(std::uint32_t handle) {
    if (!stands_ || at_->handle != handle) return;
    stands_ = false;
    cursor_ = *at_;
    cursor_name_ = book_->of(handle).name;
    cursor_->name = &cursor_name_;
  }
  struct Entry {
    Key key;
    std::uint32_t handle = 0;
    std::uint64_t order = 0;
    const std::string* name = nullptr;  // null: the book's
  };
  struct Less {
    const Book* book;
    [[nodiscard]] const std::string& name(const Entry& e) const { return e.name != nullptr ? *e.name : book->of(e.handle).name; }
    bool operator()(const Entry& a, const Entry& b) const {
      if (a.key < b.key) return true;
      if (b.key < a.key) return false;
      if (a.order != b.order) return a.order < b.order;
      const int names = name(a).compare(name(b));
      return names != 0 ? names < 0 : a.handle < b.handle;
    }
  };

  const Book* book_;
  std::set<Entry, Less> set_;
  std::vector<std::optional<Entry>> entries_;    // by handle, of those in the set
  typename std::set<Entry, Less>::iterator at_;  // given last, while stands_
  bool stands_ = false;
  std::optional<Entry> cursor_;  // given last, and gone or moved since
  std::string cursor_name_;
};

}  // namespace bourse::policy
