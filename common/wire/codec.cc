#include "common/wire/codec.h"

#include "common/core/hooks.h"

namespace bourse::wire {

// --- writing -------------------------------------------------------------------------------------------------------

Offset<Vector<std::uint8_t>> put_bytes(Builder& b, std::string_view bytes) {
  if (bytes.empty()) return {};
  return b.CreateVector(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
}

namespace {

// `each` calls its argument with every text, in order, the same ones on each of two calls.
template <class Each>
Offset<fb::Texts> pack(Builder& b, std::size_t count, Each each) {
  if (count == 0) return {};
  std::size_t bytes = 0;
  each([&](std::string_view text) { bytes += text.size(); });
  std::uint8_t* next = nullptr;
  const auto packed = Offset<Vector<std::uint8_t>>(b.CreateUninitializedVector(bytes, 1, &next));
  each([&](std::string_view text) {
    if (!text.empty()) std::memcpy(next, text.data(), text.size());
    next += text.size();
  });
  std::uint8_t* raw = nullptr;
  const auto lengths = Offset<Vector<std::uint32_t>>(b.CreateUninitializedVector(count, sizeof(std::uint32_t), &raw));
  each([&](std::string_view text) {
    flatbuffers::WriteScalar(raw, static_cast<std::uint32_t>(text.size()));
    raw += sizeof(std::uint32_t);
  });
  return fb::CreateTexts(b, lengths, packed);
}

}  // namespace

Offset<fb::Texts> put_texts(Builder& b, const std::vector<std::string_view>& texts) {
  return pack(b, texts.size(), [&](auto fn) {
    for (std::string_view text : texts) fn(text);
  });
}

Offset<fb::Texts> put_texts(Builder& b, const std::vector<std::string>& texts) {
  return pack(b, texts.size(), [&](auto fn) {
    for (const std::string& text : texts) fn(text);
  });
}

Offset<fb::Texts> put_pairs(Builder& b, const std::vector<std::pair<std::string, std::string>>& pairs) {
  return pack(b, 2 * pairs.size(), [&](auto fn) {
    for (const auto& [key, value] : pairs) fn(key), fn(value);
  });
}

Offset<fb::Texts> put_map(Builder& b, const std::map<std::string, std::string>& map) {
  return pack(b, 2 * map.size(), [&](auto fn) {
    for (const auto& [key, value] : map) fn(key), fn(value);
  });
}

// --- reading -------------------------------------------------------------------------------------------------------

bool In::fail(Code code, std::string_view field, std::string why) {
  code_ = code;
  path_ = field;
  why_ = std::move(why);
  return false;
}

bool In::at(std::string_view field) {
  path_ = path_.empty() || path_.front() == '[' ? std::string(field) + path_ : std::string(field) + "." + path_;
  return false;
}

bool In::at(std::string_view field, std::size_t index) { return at("[" + std::to_string(index) + "]"), at(field); }

Error In::error(std::string_view what) const {
  std::string text(what);
  if (!path_.empty()) text += "." + path_;
  return {code_, text + ": " + why_};
}

bool In::overlap() { return fail(Code::kCorrupt, {}, "the message unpacks to more than it holds: its parts overlap"); }

bool In::bad_name(std::string_view text) {
  std::string shown(text.substr(0, 40));
  for (char& c : shown) c = c < ' ' || c > '~' ? '?' : c;
  return fail(Code::kCorrupt, {}, "'" + shown + "' is not a name");
}

bool In::below_zero(std::int64_t value, std::string_view field) {
  if (hooks::mutant("wire.amounts_unchecked")) return true;
  return fail(Code::kCorrupt, field, std::to_string(value) + " is below zero");
}

bool In::unknown(unsigned value, std::string_view field) {
  return fail(Code::kCorrupt, field, std::to_string(value) + " is not a value that this version knows");
}

bool In::count(std::size_t elements, std::size_t element_bytes, std::string_view field) {
  if (elements > kListMax) {
    return fail(Code::kLimit, field, std::to_string(elements) + " elements; a list may have " + std::to_string(kListMax));
  }
  return take(sizeof(flatbuffers::uoffset_t) + elements * element_bytes) || at(field);
}

bool In::check_text(std::string_view text, std::string_view field) {
  if (text.size() > kTextBytesMax) {
    return fail(Code::kLimit, field, std::to_string(text.size()) + " bytes; a text may have " + std::to_string(kTextBytesMax));
  }
  // Texts end up in C strings (paths, arguments, environments), where one would silently end early.
  if (!text.empty() && std::memchr(text.data(), 0, text.size()) != nullptr) {
    return fail(Code::kCorrupt, field, "has a zero byte in it");
  }
  return true;
}

bool In::text(const flatbuffers::String* text, std::string& out, std::string_view field) {
  if (text == nullptr) return out.clear(), true;
  if (!take(sizeof(flatbuffers::uoffset_t) + text->size() + 1)) return at(field);
  if (!check_text({text->c_str(), text->size()}, field)) return false;
  out.assign(text->c_str(), text->size());
  return true;
}

bool In::name(const flatbuffers::String* text, std::string& out, std::string_view field) {
  if (!this->text(text, out, field)) return false;
  if (valid_name(out) || hooks::mutant("wire.names_unchecked")) return true;
  if (out.empty()) return fail(Code::kCorrupt, field, "is missing");
  return bad_name(out) || at(field);
}

bool In::optional_name(const flatbuffers::String* text, std::string& out, std::string_view field) {
  if (text == nullptr || text->size() == 0) return this->text(text, out, field);
  return name(text, out, field);
}

bool In::bytes(const Vector<std::uint8_t>* bytes, std::string& out, std::size_t most, std::string_view field) {
  if (bytes == nullptr) return out.clear(), true;
  if (bytes->size() > most) {
    return fail(Code::kLimit, field, std::to_string(bytes->size()) + " bytes; it may have " + std::to_string(most));
  }
  if (!take(sizeof(flatbuffers::uoffset_t) + bytes->size())) return at(field);
  out.assign(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  return true;
}

bool In::texts(const fb::Texts* texts, std::vector<std::string>& out, std::string_view field) {
  return each(texts, field, [&](std::size_t, std::string_view text) {
    out.emplace_back(text);
    return true;
  });
}

bool In::pairs(const fb::Texts* texts, std::vector<std::pair<std::string, std::string>>& out, std::string_view field) {
  std::size_t count = 0;
  const bool ok = each(texts, field, [&](std::size_t i, std::string_view text) {
    ++count;
    if (i % 2 == 0) {
      out.emplace_back(std::string(text), std::string());
    } else {
      out.back().second = text;
    }
    return true;
  });
  return ok && (count % 2 == 0 || fail(Code::kCorrupt, field, "the last key has no value"));
}

bool In::map(const fb::Texts* texts, std::map<std::string, std::string>& out, std::string_view field) {
  std::size_t count = 0;
  auto last = out.end();
  const bool ok = each(texts, field, [&](std::size_t i, std::string_view text) {
    ++count;
    if (i % 2 != 0) return last->second = text, true;
    if (text.empty()) return fail(Code::kCorrupt, {}, "a key is empty");
    if (last != out.end() && last->first >= text) return fail(Code::kCorrupt, {}, "keys are not in order");
    last = out.emplace_hint(out.end(), text, std::string());
    return true;
  });
  return ok && (count % 2 == 0 || fail(Code::kCorrupt, field, "the last key has no value"));
}

bool In::numbers(const Vector<std::uint32_t>* numbers, std::vector<std::uint32_t>& out, std::string_view field) {
  if (numbers == nullptr) return true;
  if (!count(numbers->size(), sizeof(std::uint32_t), field)) return false;
  out.assign(numbers->begin(), numbers->end());
  return true;
}

bool In::signal(std::int32_t value, std::int32_t& out, std::string_view field) {
  constexpr std::int32_t kSignalMax = 64;  // SIGRTMAX
  out = value;
  return (value >= 0 && value <= kSignalMax) || fail(Code::kCorrupt, field, std::to_string(value) + " is not a signal");
}

}  // namespace bourse::wire
