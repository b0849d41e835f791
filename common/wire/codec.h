// Inside of common/wire only: what the converters of single values share. Nobody else includes this header.
//
// write(b, value) puts a domain value into a builder; read(in, table, value) takes it out of a verified buffer. Every read
// returns false after a failure, which In remembers with the path of the field; each caller puts its own field in front, so
// that the error says "Demand.lines[3].shape.cpus: -5 is below zero".
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bourse_generated.h"
#include "common/core/messages.h"
#include "common/wire/wire.h"

namespace bourse::wire {

using flatbuffers::Offset;
using flatbuffers::Vector;

// A type of this namespace, so that templates find the write() of every file by its argument.
struct Builder : flatbuffers::FlatBufferBuilder {
  using FlatBufferBuilder::FlatBufferBuilder;
};

// --- writing -------------------------------------------------------------------------------------------------------

inline Offset<flatbuffers::String> put(Builder& b, const std::string& text) {
  return text.empty() ? Offset<flatbuffers::String>() : b.CreateString(text.data(), text.size());
}
template <class Tag>
Offset<flatbuffers::String> put(Builder& b, const Name<Tag>& name) {
  return put(b, name.value);
}
Offset<Vector<std::uint8_t>> put_bytes(Builder& b, std::string_view bytes);
Offset<fb::Texts> put_texts(Builder& b, const std::vector<std::string_view>& texts);
Offset<fb::Texts> put_texts(Builder& b, const std::vector<std::string>& texts);
Offset<fb::Texts> put_pairs(Builder& b, const std::vector<std::pair<std::string, std::string>>& pairs);
Offset<fb::Texts> put_map(Builder& b, const std::map<std::string, std::string>& map);

template <class Tag>
Offset<fb::Texts> put_names(Builder& b, const std::vector<Name<Tag>>& names) {
  std::vector<std::string_view> texts;
  texts.reserve(names.size());
  for (const auto& name : names) texts.emplace_back(name.value);
  return put_texts(b, texts);
}

template <class T>
auto put_list(Builder& b, const std::vector<T>& values) {
  using Item = decltype(write(b, values.front()));
  if (values.empty()) return Offset<Vector<Item>>();
  std::vector<Item> items;
  items.reserve(values.size());
  for (const T& value : values) items.push_back(write(b, value));
  return b.CreateVector(items);
}

// The domain's enumerators and the wire's are the same numbers; each file asserts the ones it uses.
template <class Wire, class Domain>
constexpr bool same(Wire wire, Domain domain) {
  return static_cast<int>(wire) == static_cast<int>(domain);
}

// Whether the elements of a vector lie where their type may be read. The verifier looks at its length only.
template <class T>
bool in_place(const Vector<T>& vector, std::size_t alignment) {
  return vector.size() == 0 || reinterpret_cast<std::uintptr_t>(vector.Data()) % alignment == 0;
}

// --- reading -------------------------------------------------------------------------------------------------------

class In {
 public:
  // `bytes` of the buffer. Our encoder never lets fields share a place, so that no honest message unpacks to more.
  explicit In(std::size_t bytes) : budget_(bytes) {}

  bool fail(Code code, std::string_view field, std::string why);
  bool at(std::string_view field);                     // puts the field in front of the path; false, to return at once
  bool at(std::string_view field, std::size_t index);  // the same for an element of a list
  [[nodiscard]] Error error(std::string_view what) const;

  bool take(std::size_t bytes) {
    if (bytes > budget_) return overlap();
    budget_ -= bytes;
    return true;
  }
  bool table() { return take(sizeof(flatbuffers::soffset_t)); }
  bool count(std::size_t elements, std::size_t element_bytes, std::string_view field);

  bool text(const flatbuffers::String* text, std::string& out, std::string_view field);
  bool name(const flatbuffers::String* text, std::string& out, std::string_view field);           // valid_name
  bool optional_name(const flatbuffers::String* text, std::string& out, std::string_view field);  // or empty
  template <class Tag>
  bool name(const flatbuffers::String* text, Name<Tag>& out, std::string_view field) {
    return name(text, out.value, field);
  }
  template <class Tag>
  bool optional_name(const flatbuffers::String* text, Name<Tag>& out, std::string_view field) {
    return optional_name(text, out.value, field);
  }
  bool bytes(const Vector<std::uint8_t>* bytes, std::string& out, std::size_t most, std::string_view field);
  bool texts(const fb::Texts* texts, std::vector<std::string>& out, std::string_view field);
  bool pairs(const fb::Texts* texts, std::vector<std::pair<std::string, std::string>>& out, std::string_view field);
  bool map(const fb::Texts* texts, std::map<std::string, std::string>& out, std::string_view field);
  bool numbers(const Vector<std::uint32_t>* numbers, std::vector<std::uint32_t>& out, std::string_view field);
  template <class Tag>
  bool names(const fb::Texts* texts, std::vector<Name<Tag>>& out, std::string_view field) {
    return each(texts, field, [&](std::size_t, std::string_view text) {
      out.emplace_back(std::string(text));
      return valid_name(out.back().value) || bad_name(text);
    });
  }

  bool amount(std::int64_t value, std::int64_t& out, std::string_view field) {
    out = value;
    return value >= 0 || below_zero(value, field);
  }
  template <class Tag>
  bool amount(std::int64_t value, Quantity<Tag>& out, std::string_view field) {
    return amount(value, out.value, field);
  }
  bool duration(std::int64_t value, Duration& out, std::string_view field) {
    out = Duration(value);
    return value >= 0 || below_zero(value, field);
  }
  bool signal(std::int32_t value, std::int32_t& out, std::string_view field);
  template <class Wire, class Domain>
  bool enumerator(Wire value, Domain& out, std::string_view field) {
    out = static_cast<Domain>(value);
    return value <= Wire::MAX || unknown(static_cast<unsigned>(value), field);
  }

  // Calls fn(index, text) for each; stops at the first false.
  template <class Fn>
  bool each(const fb::Texts* texts, std::string_view field, Fn fn);

 private:
  bool overlap();
  bool bad_name(std::string_view text);
  bool below_zero(std::int64_t value, std::string_view field);
  bool unknown(unsigned value, std::string_view field);
  bool check_text(std::string_view text, std::string_view field);

  std::size_t budget_;
  Code code_ = Code::kOk;
  std::string path_, why_;
};

template <class Fn>
bool In::each(const fb::Texts* texts, std::string_view field, Fn fn) {
  if (texts == nullptr) return true;
  const std::size_t n = texts->lengths() == nullptr ? 0 : texts->lengths()->size();
  std::size_t left = texts->bytes() == nullptr ? 0 : texts->bytes()->size();
  if (!table() || !count(n, sizeof(std::uint32_t), {}) || !take(sizeof(flatbuffers::uoffset_t) + left)) return at(field);
  const char* next = left == 0 ? "" : reinterpret_cast<const char*>(texts->bytes()->data());
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t length = texts->lengths()->Get(static_cast<flatbuffers::uoffset_t>(i));
    if (length > left) return fail(Code::kCorrupt, {}, "is longer than its bytes") || at(field, i);
    const std::string_view text(next, length);
    if (!check_text(text, {}) || !fn(i, text)) return at(field, i);
    next += length;
    left -= length;
  }
  return left == 0 || fail(Code::kCorrupt, field, "has bytes that belong to no text");
}

template <class F, class T>
bool read_list(In& in, const Vector<Offset<F>>* list, std::vector<T>& out, std::string_view field) {
  if (list == nullptr) return true;
  if (!in.count(list->size(), sizeof(flatbuffers::uoffset_t), field)) return false;
  // A list's claim is paid for with four bytes an element only: memory comes as elements turn out to be good.
  out.reserve(list->size() < 1024 ? list->size() : 1024);
  for (flatbuffers::uoffset_t i = 0; i < list->size(); ++i) {
    if (!in.table() || !read(in, *list->Get(i), out.emplace_back())) return in.at(field, i);
  }
  return true;
}

// A table that may be absent, which means the default value.
template <class F, class T>
bool read_part(In& in, const F* table, T& out, std::string_view field) {
  if (table == nullptr) return true;
  return (in.table() && read(in, *table, out)) || in.at(field);
}

// A table that must be there.
template <class F, class T>
bool read_must(In& in, const F* table, T& out, std::string_view field) {
  if (table == nullptr) return in.fail(Code::kCorrupt, field, "is missing");
  return read_part(in, table, out, field);
}

// --- values of more than one body ------------------------------------------------------------------------------------

Offset<fb::Counters> put_counters(Builder& b, const Counters& counters);  // null where empty
bool read_counters(In& in, const fb::Counters* table, Counters& counters, std::string_view field);
Offset<Vector<Offset<fb::DeviceProfile>>> put_profiles(Builder& b,
                                                       const std::map<std::string, Counters>& profiles);  // null where empty
bool read_profiles(In& in, const Vector<Offset<fb::DeviceProfile>>* list, std::map<std::string, Counters>& profiles);
Offset<fb::Resources> put_resources(Builder& b, const Resources& resources);  // null where empty
Offset<fb::Constraint> write(Builder& b, const Constraint& constraint);
Offset<fb::Shape> write(Builder& b, const Shape& shape);
Offset<fb::Inventory> write(Builder& b, const Inventory& inventory);
Offset<fb::SliceId> write(Builder& b, const SliceId& id);
Offset<fb::SliceSpec> write(Builder& b, const SliceSpec& spec);
Offset<fb::TaskSpec> write(Builder& b, const TaskSpec& spec);
Offset<fb::TaskStatus> write(Builder& b, const TaskStatus& status);
bool read(In& in, const fb::Constraint& table, Constraint& constraint);
bool read(In& in, const fb::Resources& table, Resources& resources);
bool read(In& in, const fb::Shape& table, Shape& shape);
bool read(In& in, const fb::Inventory& table, Inventory& inventory);
bool read(In& in, const fb::SliceId& table, SliceId& id);
bool read(In& in, const fb::SliceSpec& table, SliceSpec& spec);
bool read(In& in, const fb::TaskSpec& table, TaskSpec& spec);
bool read(In& in, const fb::TaskStatus& table, TaskStatus& status);

static_assert(same(fb::Code::Ok, Code::kOk) && same(fb::Code::Invalid, Code::kInvalid) &&
              same(fb::Code::NotFound, Code::kNotFound) && same(fb::Code::Exists, Code::kExists) &&
              same(fb::Code::Busy, Code::kBusy) && same(fb::Code::Limit, Code::kLimit) && same(fb::Code::Denied, Code::kDenied) &&
              same(fb::Code::Gone, Code::kGone) && same(fb::Code::Io, Code::kIo) && same(fb::Code::Corrupt, Code::kCorrupt) &&
              same(fb::Code::Version, Code::kVersion) && same(fb::Code::Timeout, Code::kTimeout) &&
              same(fb::Code::Unsupported, Code::kUnsupported) && same(fb::Code::MAX, Code::kUnsupported));

}  // namespace bourse::wire
