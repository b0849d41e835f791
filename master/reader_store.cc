#include "master/reader_store.h"

#include <utility>

namespace bourse {

void ReaderTable::apply(const ViewUpdate& update) {
  if (update.snapshot && update.more) {  // from the start: what is not told again is gone
    ready_ = false;
    rows_.clear();
    changes_.clear();
    removed_.clear();
    gone_.clear();
    forgotten_ = ++version_;
  }
  // A name may go and come in one update, as when an agent is removed and says hello again.
  for (const std::string& name : update.removed) remove(name);
  for (const StatusReply::Row& row : update.rows) put(row);
  if (update.snapshot && !update.more) ready_ = true;
}

void ReaderTable::put(const StatusReply::Row& row) {
  const auto [it, fresh] = rows_.try_emplace(key(row.name));
  if (!fresh) {
    if (it->second.fields == row.fields) return;
    changes_.erase(it->second.version);
  } else if (const auto gone = gone_.find(row.name); gone != gone_.end()) {
    removed_.erase(gone->second);  // back again: a piece never says both
    gone_.erase(gone);
  }
  it->second.fields = row.fields;
  it->second.version = ++version_;
  changes_.emplace(version_, it->first);
  if (!events_ || rows_.size() <= kEventsMax) return;
  changes_.erase(rows_.begin()->second.version);  // that one is old is no change
  rows_.erase(rows_.begin());
}

void ReaderTable::remove(const std::string& name) {
  const auto found = rows_.find(key(name));
  if (found == rows_.end()) return;
  changes_.erase(found->second.version);
  rows_.erase(found);
  removed_.emplace(++version_, name);
  gone_[name] = version_;
  if (removed_.size() <= kRemovedMax) return;
  forgotten_ = removed_.begin()->first;
  gone_.erase(removed_.begin()->second);
  removed_.erase(removed_.begin());
}

ReaderTable::Piece ReaderTable::after(std::uint64_t from, std::size_t limit) const {
  Piece piece;
  piece.through = version_;
  piece.lost = from != 0 && from < forgotten_;
  if (piece.lost) return piece;
  auto change = changes_.upper_bound(from);
  auto gone = removed_.upper_bound(from);
  // A reader that begins has nothing that could have been removed.
  if (from == 0) gone = removed_.end();
  for (std::size_t taken = 0; change != changes_.end() || gone != removed_.end(); ++taken) {
    const bool row = gone == removed_.end() || (change != changes_.end() && change->first < gone->first);
    if (taken == limit) return piece;
    piece.through = row ? change->first : gone->first;
    if (row) {
      piece.rows.push_back({change->second.name, rows_.at(change->second).fields});
      ++change;
    } else {
      piece.removed.push_back(gone->second);
      ++gone;
    }
  }
  piece.through = version_;
  return piece;
}

StatusReply ReaderTable::page(const std::string& name, std::size_t limit) const {
  StatusReply reply;
  for (auto it = name.empty() ? rows_.begin() : rows_.upper_bound(key(name)); it != rows_.end(); ++it) {
    if (reply.rows.size() == limit) {
      reply.more = true;
      break;
    }
    reply.rows.push_back({it->first.name, it->second.fields});
  }
  return reply;
}

std::uint64_t ReaderTable::version_of_event(const std::string& number) const {
  const auto next = rows_.upper_bound(key(number));
  return next == rows_.end() ? version_ : next->second.version - 1;
}

const EncodedPieces::Entry* EncodedPieces::find(const std::string& key) const {
  const auto found = entries_.find(key);
  return found == entries_.end() ? nullptr : &found->second;
}

const EncodedPieces::Entry& EncodedPieces::keep(const std::string& key, Entry entry) {
  if (bytes_ + entry.bytes.size() > kBytesMax) clear();
  bytes_ += entry.bytes.size();
  return entries_.insert_or_assign(key, std::move(entry)).first->second;
}

}  // namespace bourse
