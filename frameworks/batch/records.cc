#include "frameworks/batch/records.h"

#include "common/core/one_of_members.h"

namespace bourse::batch {
namespace {

constexpr std::uint8_t kRecordVersion = 1;

// One visitor writes and one reads, so that the fields of a record are listed once.
struct Writer {
  std::string out;
  void operator()(std::uint64_t v) {
    for (; v >= 0x80; v >>= 7) out += static_cast<char>(v | 0x80);
    out += static_cast<char>(v);
  }
  void operator()(std::uint32_t v) { (*this)(static_cast<std::uint64_t>(v)); }
  void operator()(bool v) { (*this)(static_cast<std::uint64_t>(v ? 1 : 0)); }
  void operator()(std::int64_t v) { (*this)((static_cast<std::uint64_t>(v) << 1) ^ static_cast<std::uint64_t>(v >> 63)); }
  void operator()(const std::string& s) {
    (*this)(static_cast<std::uint64_t>(s.size()));
    out += s;
  }
  void operator()(JobId id) { (*this)(id.value); }
  void operator()(Duration d) { (*this)(static_cast<std::int64_t>(d.count())); }
  void operator()(JobState s) { (*this)(static_cast<std::uint64_t>(s)); }
};

struct Reader {
  std::string_view in;
  bool bad = false;
  void operator()(std::uint64_t& v) {
    v = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (in.empty()) return void(bad = true);
      const auto byte = static_cast<unsigned char>(in.front());
      in.remove_prefix(1);
      v |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if ((byte & 0x80) == 0) return;
    }
    bad = true;
  }
  void operator()(std::uint32_t& v) {
    std::uint64_t wide = 0;
    (*this)(wide);
    if (wide > UINT32_MAX) bad = true;
    v = static_cast<std::uint32_t>(wide);
  }
  void operator()(bool& v) {
    std::uint64_t wide = 0;
    (*this)(wide);
    v = wide != 0;
  }
  void operator()(std::int64_t& v) {
    std::uint64_t wide = 0;
    (*this)(wide);
    v = static_cast<std::int64_t>(wide >> 1) ^ -static_cast<std::int64_t>(wide & 1);
  }
  void operator()(std::string& s) {
    std::uint64_t size = 0;
    (*this)(size);
    if (bad || size > in.size()) return void(bad = true);
    s.assign(in.substr(0, size));
    in.remove_prefix(size);
  }
  void operator()(JobId& id) { (*this)(id.value); }
  void operator()(Duration& d) {
    std::int64_t v = 0;
    (*this)(v);
    d = Duration(v);
  }
  void operator()(JobState& s) {
    std::uint64_t v = 0;
    (*this)(v);
    if (v >= kJobStates)
      bad = true;
    else
      s = static_cast<JobState>(v);
  }
};

template <class V, class R>
void fields(V& v, R& r) requires std::is_same_v<std::remove_const_t<R>, BlobRecord> {
  v(r.digest), v(r.bytes);
}
template <class V, class R>
void fields(V& v, R& r) requires std::is_same_v<std::remove_const_t<R>, SubmitRecord> {
  v(r.id), v(r.ids), v(r.key), v(r.submitted), v(r.spec), v(r.script_digest), v(r.env_digest);
}
template <class V, class R>
void fields(V& v, R& r) requires std::is_same_v<std::remove_const_t<R>, AttemptRecord> {
  v(r.job), v(r.rank), v(r.attempt), v(r.restarts), v(r.held);
}
template <class V, class R>
void fields(V& v, R& r) requires std::is_same_v<std::remove_const_t<R>, HintRecord> {
  v(r.job), v(r.rank), v(r.attempt), v(r.agents), v(r.slices);
}
template <class V, class R>
void fields(V& v, R& r) requires std::is_same_v<std::remove_const_t<R>, EndRecord> {
  v(r.job), v(r.first), v(r.last), v(r.state), v(r.whole), v(r.number), v(r.info);
}
template <class V, class R>
void fields(V& v, R& r) requires std::is_same_v<std::remove_const_t<R>, ChangeRecord> {
  v(r.job), v(r.held), v(r.held_by_admin);
}
template <class V, class R>
void fields(V& v, R& r) requires std::is_same_v<std::remove_const_t<R>, OutcomeRecord> {
  v(r.job), v(r.ok), v(r.key), v(r.uid);
}
template <class V, class R>
void fields(V& v, R& r) requires std::is_same_v<std::remove_const_t<R>, CounterRecord> {
  v(r.next);
}
template <class V, class R>
void fields(V& v, R& r) requires std::is_same_v<std::remove_const_t<R>, LearntRecord> {
  v(r.policy), v(r.state);
}

template <std::size_t I = 0>
bool make(std::size_t type, Record& out) {
  if constexpr (I < Record::kCount) {
    if (type == I) return out.emplace<I>(), true;
    return make<I + 1>(type, out);
  }
  return false;
}

}  // namespace

std::string encode(const Record& record) {
  Writer w;
  w.out += static_cast<char>(record.index() + 1);
  w.out += static_cast<char>(kRecordVersion);
  std::visit([&](const auto& r) { fields(w, r); }, record);
  return std::move(w.out);
}

Result<Record> decode_record(std::string_view bytes) {
  if (bytes.size() < 2) return Error(Code::kCorrupt, "record is too short");
  Record out;
  if (!make(static_cast<std::size_t>(static_cast<unsigned char>(bytes[0])) - 1, out))
    return Error(Code::kVersion, "record of unknown type " + std::to_string(static_cast<unsigned char>(bytes[0])) +
                                     "; it was written by a newer bourse-batch");
  if (bytes[1] == 0) return Error(Code::kCorrupt, "record has version 0");
  Reader r{bytes.substr(2)};
  std::visit([&](auto& record) { fields(r, record); }, out);
  if (r.bad) return Error(Code::kCorrupt, "record is damaged");
  return out;
}

}  // namespace bourse::batch

namespace bourse {
template struct OneOf<batch::Records>;
}  // namespace bourse
