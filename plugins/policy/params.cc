#include "plugins/policy/params.h"

#include <algorithm>
#include <charconv>

#include "common/core/units.h"

namespace bourse::policy {

namespace {

Result<std::int64_t> whole(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size()) return Error(Code::kInvalid, "expected a whole number");
  return value;
}

Result<std::int64_t> thousandths(std::string_view text) {
  const std::size_t point = text.find('.');
  const std::string_view before = text.substr(0, point);
  std::string after(point == std::string_view::npos ? "" : text.substr(point + 1));
  const bool digits = std::all_of(after.begin(), after.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (after.size() > 3 || !digits || (point != std::string_view::npos && after.empty()))
    return Error(Code::kInvalid, "expected a number such as 0.25, with at most three digits after the point");
  const std::int64_t units = BOURSE_TRY(whole(before));
  if (units < 0 || units > INT64_MAX / 2000) return Error(Code::kInvalid, "is out of range");
  after.resize(3, '0');
  return units * 1000 + *whole(after);
}

std::string milli_text(std::int64_t value) {
  std::string text = std::to_string(value / 1000);
  if (value % 1000 == 0) return text;
  std::string rest = std::to_string(1000 + value % 1000).substr(1);
  while (rest.back() == '0') rest.pop_back();
  return text + "." + rest;
}

}  // namespace

std::string Spec::text() const {
  std::string out = name;
  for (const auto& [key, value] : params) {
    out += out.size() == name.size() ? ':' : ',';
    out += key;
    out += '=';
    out += value;
  }
  return out;
}

Result<Spec> parse(std::string_view text) {
  const auto bad = [&](const std::string& why) {
    return Error(Code::kInvalid, "policy \"" + std::string(text.substr(0, 200)) + "\": " + why);
  };
  Spec spec;
  const std::size_t colon = text.find(':');
  spec.name = text.substr(0, colon);
  if (spec.name.empty()) return bad("expected NAME[:KEY=VALUE,...], or a plugin's path");
  if (text.find('\0') != std::string_view::npos) return bad("it has a NUL in it");
  std::string_view rest = colon == std::string_view::npos ? "" : text.substr(colon + 1);
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    const std::string_view item = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? "" : rest.substr(comma + 1);
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos || equals == 0) return bad("expected KEY=VALUE instead of `" + std::string(item) + "'");
    if (!spec.params.emplace(item.substr(0, equals), item.substr(equals + 1)).second)
      return bad("`" + std::string(item.substr(0, equals)) + "' is said twice");
  }
  if (spec.params.size() > BOURSE_PARAMS_MAX) return bad("more than " + std::to_string(BOURSE_PARAMS_MAX) + " parameters");
  return spec;
}

Params::Params(const bourse_param* params, std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i) {
    const bourse_param& param = *BOURSE_AT(bourse_param, params, i);
    left_.emplace(param.key, param.value);
  }
}

const std::string* Params::take(std::string_view key) {
  known_.emplace_back(key);
  const auto found = left_.find(key);
  if (found == left_.end()) return nullptr;
  taken_ = found->second;
  left_.erase(found);
  return &taken_;
}

void Params::complain(std::string_view key, const std::string& why) {
  if (complaint_.empty()) complaint_ = "`" + std::string(key) + "' is `" + taken_ + "': " + why;
}

void Params::refuse(std::string_view key, const std::string& value, const std::string& why) {
  taken_ = value;
  complain(key, why);
}

std::int64_t Params::integer(std::string_view key, std::int64_t otherwise, std::int64_t min, std::int64_t max) {
  const std::string* said = take(key);
  if (said == nullptr) return otherwise;
  const auto value = whole(*said);
  if (value && *value >= min && *value <= max) return *value;
  complain(key, value ? "expected " + std::to_string(min) + " to " + std::to_string(max) : value.error().text());
  return otherwise;
}

std::int64_t Params::milli(std::string_view key, std::int64_t otherwise, std::int64_t min, std::int64_t max) {
  const std::string* said = take(key);
  if (said == nullptr) return otherwise;
  const auto value = thousandths(*said);
  if (value && *value >= min && *value <= max) return *value;
  complain(key, value ? "expected " + milli_text(min) + " to " + milli_text(max) : value.error().text());
  return otherwise;
}

Duration Params::duration(std::string_view key, Duration otherwise) {
  const std::string* said = take(key);
  if (said == nullptr) return otherwise;
  if (*said == "0" || *said == "off") return Duration{0};
  const auto value = parse_duration(*said, seconds(1), false);
  if (value && *value > Duration{0}) return *value;
  complain(key, "expected a time such as 20h, or off");
  return otherwise;
}

bool Params::flag(std::string_view key, bool otherwise) {
  return choice(key, otherwise ? "true" : "false", {"true", "false"}) == "true";
}

std::string Params::choice(std::string_view key, std::string_view otherwise, const std::vector<std::string_view>& choices) {
  const std::string* said = take(key);
  if (said == nullptr) return std::string(otherwise);
  if (std::find(choices.begin(), choices.end(), *said) != choices.end()) return *said;
  std::string all;
  for (const std::string_view choice : choices) {
    if (!all.empty()) all += choice == choices.back() ? " or " : ", ";
    all += choice;
  }
  complain(key, "expected " + all);
  return std::string(otherwise);
}

std::string Params::text(std::string_view key, std::string_view otherwise) {
  const std::string* said = take(key);
  return said == nullptr ? std::string(otherwise) : *said;
}

std::string Params::complaint() const {
  if (!complaint_.empty() || left_.empty()) return complaint_;
  std::string known;
  for (const std::string& key : known_) known += (known.empty() ? "" : ", ") + key;
  return "`" + left_.begin()->first + "' is not known here; " + (known.empty() ? "there are no parameters" : "there are: " + known);
}

}  // namespace bourse::policy
