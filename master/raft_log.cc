#include "master/raft_log.h"

#include <algorithm>
#include <utility>

#include "common/core/fnv.h"

namespace bourse {

namespace {

enum class Kind : std::uint8_t { kEntry = 0x41, kCut, kTerm, kCluster };  // far from the registry's own types

Error torn(std::string_view what) { return Error(Code::kCorrupt, "the replicated log's " + std::string(what) + " is cut short"); }

void put_entry(RaftWriter& out, const RaftEntry& entry) { out.number(entry.term).byte(entry.type).text(entry.data); }
RaftEntry get_entry(RaftReader& in) {
  RaftEntry entry;
  entry.term = in.number();
  entry.type = in.byte();
  entry.data = in.text();
  return entry;
}

}  // namespace

RaftWriter& RaftWriter::number(std::uint64_t value) {
  for (int i = 0; i < 8; ++i) bytes_.push_back(static_cast<char>((value >> (8 * i)) & 0xff));
  return *this;
}

RaftWriter& RaftWriter::text(std::string_view value) {
  for (int i = 0; i < 4; ++i) bytes_.push_back(static_cast<char>((value.size() >> (8 * i)) & 0xff));
  bytes_.append(value);
  return *this;
}

RaftWriter& RaftWriter::servers(const std::vector<RaftServer>& list) {
  number(list.size());
  for (const RaftServer& s : list) number(s.id).text(s.name).text(s.address).byte(static_cast<std::uint8_t>(s.role));
  return *this;
}

std::uint64_t RaftReader::little(std::size_t bytes) {
  if (rest_.size() < bytes) {
    rest_ = {};
    torn_ = true;
    return 0;
  }
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes; ++i) value |= std::uint64_t{static_cast<std::uint8_t>(rest_[i])} << (8 * i);
  rest_.remove_prefix(bytes);
  return value;
}

std::string RaftReader::text() {
  const std::uint64_t size = little(4);
  if (size > rest_.size()) {
    rest_ = {};
    torn_ = true;
    return {};
  }
  std::string value(rest_.substr(0, size));
  rest_.remove_prefix(size);
  return value;
}

std::uint64_t RaftReader::count(std::size_t bytes) {
  const std::uint64_t n = number();
  if (n <= rest_.size() / bytes) return n;
  rest_ = {};
  torn_ = true;
  return 0;
}

std::vector<RaftServer> RaftReader::servers() {
  std::vector<RaftServer> list;
  for (std::uint64_t n = count(17); n > 0; --n) {
    RaftServer& s = list.emplace_back();
    s.id = number();
    s.name = text();
    s.address = text();
    s.role = byte();
  }
  return list;
}

// The same in every master and every life of it.
std::uint64_t raft_id_of(std::string_view name) {
  const std::uint64_t h = fnv1a(name);
  return h == 0 ? 1 : h;
}

bool RaftLog::takes_over(std::string_view snapshot, const std::vector<std::string>& records) {
  return snapshot.empty() ? !records.empty() : static_cast<std::uint8_t>(snapshot.front()) == 1;
}

Result<> RaftLog::load(std::string_view bytes, const std::vector<std::string>& records) {
  if (!bytes.empty()) {
    RaftReader in(bytes);
    const std::uint8_t layout = in.byte();
    if (layout != kLayout)
      return Error(Code::kVersion, "the registry has layout " + std::to_string(layout) +
                                       ", written by a newer bourse-master; this one reads " + std::to_string(kLayout) +
                                       " and older ones");
    name = in.text();
    cluster = in.number();
    term = in.number();
    vote = in.number();
    snapshot.index = in.number();
    snapshot.term = in.number();
    snapshot.configuration_index = in.number();
    snapshot.configuration = in.servers();
    snapshot.data = in.text();
    first = in.number();
    entries.clear();
    for (std::uint64_t n = in.count(13); n > 0; --n) entries.push_back(get_entry(in));
    if (in.torn()) return torn("snapshot");
  }
  for (const std::string& record : records) BOURSE_TRY(apply(record));
  return {};
}

Result<> RaftLog::apply(std::string_view record) {
  RaftReader in(record);
  const auto kind = static_cast<Kind>(in.byte());
  switch (kind) {
    case Kind::kEntry: {
      const std::uint64_t index = in.number();
      RaftEntry entry = get_entry(in);
      if (in.torn()) return torn("entry " + std::to_string(index));
      if (index < first || index > last() + 1)
        return Error(Code::kCorrupt,
                     "the replicated log has entry " + std::to_string(index) + " where " + std::to_string(last() + 1) + " was due");
      append(index, std::move(entry));
      return {};
    }
    case Kind::kCut: {
      const std::uint64_t from = in.number();
      if (in.torn()) return torn("record");
      cut(from);
      return {};
    }
    case Kind::kTerm:
      term = in.number();
      vote = in.number();
      break;
    case Kind::kCluster:
      cluster = in.number();
      break;
    default:
      return Error(Code::kVersion, "the replicated log has a record of kind " + std::to_string(static_cast<int>(kind)) +
                                       ", written by a newer bourse-master");
  }
  if (in.torn()) return torn("record");
  return {};
}

std::string RaftLog::whole() const {
  RaftWriter out;
  out.byte(kLayout).text(name).number(cluster).number(term).number(vote);
  out.number(snapshot.index).number(snapshot.term).number(snapshot.configuration_index).servers(snapshot.configuration);
  out.text(snapshot.data).number(first).number(entries.size());
  for (const RaftEntry& entry : entries) put_entry(out, entry);
  return out.take();
}

std::string RaftLog::entry_record(std::uint64_t index, const RaftEntry& entry) {
  RaftWriter out;
  out.byte(static_cast<std::uint8_t>(Kind::kEntry)).number(index);
  put_entry(out, entry);
  return out.take();
}
std::string RaftLog::cut_record(std::uint64_t from) {
  return RaftWriter().byte(static_cast<std::uint8_t>(Kind::kCut)).number(from).take();
}
std::string RaftLog::term_record(std::uint64_t term, std::uint64_t vote) {
  return RaftWriter().byte(static_cast<std::uint8_t>(Kind::kTerm)).number(term).number(vote).take();
}
std::string RaftLog::cluster_record(std::uint64_t cluster) {
  return RaftWriter().byte(static_cast<std::uint8_t>(Kind::kCluster)).number(cluster).take();
}

const RaftEntry* RaftLog::at(std::uint64_t index) const {
  if (index < first || index > last()) return nullptr;
  return &entries[index - first];
}

// An entry in the place of another voids what follows that.
void RaftLog::append(std::uint64_t index, RaftEntry entry) {
  cut(index);
  BOURSE_ASSERT(index == last() + 1, std::to_string(index) + " after " + std::to_string(last()));
  entries.push_back(std::move(entry));
}

void RaftLog::cut(std::uint64_t from) {
  while (!entries.empty() && last() >= from) entries.pop_back();
}

void RaftLog::snapshot_taken(RaftSnapshot next, std::uint64_t trailing) {
  snapshot = std::move(next);
  const std::uint64_t keep_from = trailing == 0 ? last() + 1 : snapshot.index > trailing ? snapshot.index - trailing + 1 : 1;
  while (!entries.empty() && first < keep_from) {
    entries.pop_front();
    ++first;
  }
  if (entries.empty()) first = snapshot.index + 1;
}

}  // namespace bourse
