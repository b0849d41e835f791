#include "common/core/units.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <limits>

namespace bourse {

namespace {

__extension__ typedef __int128 Wide;
constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

bool digit(char c) { return c >= '0' && c <= '9'; }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool same_word(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (lower(a[i]) != lower(b[i])) return false;
  }
  return true;
}

Error bad(std::string_view what, std::string_view text, std::string_view why) {
  constexpr std::size_t kShown = 64;  // a complaint does not repeat a megabyte
  return Error(Code::kInvalid, std::string(what) + " \"" + std::string(text.substr(0, kShown)) + "\": " + std::string(why));
}

// A decimal number as an exact fraction: value = digits / scale.
struct Decimal {
  std::int64_t digits = 0;
  std::int64_t scale = 1;
};

// Takes "12", "12.5" or ".5" off the front of text. False: none there. Overflow leaves digits at -1.
bool take_decimal(std::string_view& text, Decimal& out) {
  constexpr std::int64_t kScaleMax = 1'000'000'000'000;
  std::size_t i = 0;
  bool any = false, point = false;
  Decimal d;
  for (; i < text.size(); ++i) {
    if (text[i] == '.' && !point) {
      point = true;
      continue;
    }
    if (!digit(text[i])) break;
    any = true;
    if (d.digits < 0) continue;
    if (point && d.scale >= kScaleMax) continue;  // finer than any unit here
    if (__builtin_mul_overflow(d.digits, std::int64_t{10}, &d.digits) ||
        __builtin_add_overflow(d.digits, std::int64_t{text[i] - '0'}, &d.digits)) {
      d.digits = -1;
    } else if (point) {
      d.scale *= 10;
    }
  }
  if (!any || (point && text[i - 1] == '.')) return false;
  text.remove_prefix(i);
  out = d;
  return true;
}

// Rounded down. Negative: does not fit.
std::int64_t scaled(const Decimal& d, std::int64_t unit) {
  if (d.digits < 0) return -1;
  const Wide v = static_cast<Wide>(d.digits) * unit / d.scale;
  return v > kMax ? -1 : static_cast<std::int64_t>(v);
}

}  // namespace

Result<std::int64_t> checked_add(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return Error(Code::kLimit, "sum is too large");
  if (sum < 0) return Error(Code::kLimit, "sum is below zero");
  return sum;
}

Result<std::int64_t> checked_subtract(std::int64_t a, std::int64_t b) {
  std::int64_t rest = 0;
  if (__builtin_sub_overflow(a, b, &rest)) return Error(Code::kLimit, "difference is too large");
  if (rest < 0) return Error(Code::kLimit, "difference is below zero");
  return rest;
}

Result<std::int64_t> checked_multiply(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return Error(Code::kLimit, "product is too large");
  if (product < 0) return Error(Code::kLimit, "product is below zero");
  return product;
}

// --- sizes ---------------------------------------------------------------------------------------------------------

Result<Bytes> parse_size(std::string_view text, Bytes bare_unit) {
  std::string_view rest = text;
  Decimal number;
  if (!take_decimal(rest, number)) return bad("size", text, "write a number and a unit, as in 4GiB, 512M or 1.5G");
  std::int64_t unit = bare_unit.value;
  if (!rest.empty()) {
    constexpr std::string_view kPrefixes = "kmgtp";
    const std::size_t power = kPrefixes.find(lower(rest.front()));
    unit = 1;
    if (power != std::string_view::npos) {
      for (std::size_t i = 0; i <= power; ++i) unit *= 1024;
      rest.remove_prefix(1);
      if (!rest.empty() && lower(rest.front()) == 'i') rest.remove_prefix(1);
    }
    if (!rest.empty() && lower(rest.front()) == 'b') rest.remove_prefix(1);
    if (!rest.empty()) return bad("size", text, "units are B, K, M, G, T and P (powers of 1024), as in 4GiB or 512M");
  }
  const std::int64_t bytes = scaled(number, unit);
  if (bytes < 0) return bad("size", text, "too large");
  return Bytes{bytes};
}

std::string format_size(Bytes bytes) {
  constexpr std::array<std::string_view, 6> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  std::int64_t value = bytes.value;
  std::size_t unit = 0;
  while (value != 0 && value % 1024 == 0 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return std::to_string(value) + std::string(kUnits[unit]);
}

// --- durations -----------------------------------------------------------------------------------------------------

namespace {

struct TimeUnit {
  std::string_view name;
  std::int64_t micros;
};
constexpr std::array<TimeUnit, 6> kTimeUnits = {
    {{"d", 86'400'000'000}, {"h", 3'600'000'000}, {"m", 60'000'000}, {"s", 1'000'000}, {"ms", 1000}, {"us", 1}}};

constexpr std::string_view kDurationHelp = "write 90s, 5m, 1h30m, 7d, or a clock as MM:SS, HH:MM:SS, D-HH:MM:SS";

// "MM:SS", "HH:MM:SS", "D-HH", "D-HH:MM", "D-HH:MM:SS". Fields are not held to 60 or 24: users write "00:90:00" and
// "100:00:00" and mean it.
Result<Duration> parse_clock(std::string_view text) {
  std::array<std::int64_t, 4> fields{};  // days, then as written
  std::size_t count = 1, digits = 0;
  bool days = false;
  std::int64_t value = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ':';
    if (digit(c)) {
      if (++digits > 9) return bad("duration", text, "too large");
      value = value * 10 + (c - '0');
      continue;
    }
    if (digits == 0) return bad("duration", text, kDurationHelp);
    if (c == '-') {
      if (days || count != 1) return bad("duration", text, kDurationHelp);
      days = true;
      fields[0] = value;
    } else if (c == ':') {
      if (count >= fields.size()) return bad("duration", text, kDurationHelp);
      fields[count++] = value;
    } else {
      return bad("duration", text, kDurationHelp);
    }
    digits = 0;
    value = 0;
  }
  const std::size_t written = count - 1;
  std::int64_t hours = 0, minutes = 0, secs = 0;
  if (days) {
    hours = fields[1];
    minutes = written > 1 ? fields[2] : 0;
    secs = written > 2 ? fields[3] : 0;
  } else if (written == 3) {
    hours = fields[1];
    minutes = fields[2];
    secs = fields[3];
  } else {
    minutes = fields[1];
    secs = fields[2];
  }
  const Wide total = ((static_cast<Wide>(fields[0]) * 24 + hours) * 60 + minutes) * 60 + secs;
  if (total * 1'000'000 >= kMax) return bad("duration", text, "too large");
  return Duration(static_cast<std::int64_t>(total * 1'000'000));
}

}  // namespace

Result<Duration> parse_duration(std::string_view text, Duration bare_unit, bool allow_unlimited) {
  if (same_word(text, "unlimited") || same_word(text, "infinite")) {
    if (allow_unlimited) return kNoLimit;
    return bad("duration", text, "a limit is needed here");
  }
  if (text.find_first_of(":-") != std::string_view::npos) return parse_clock(text);

  std::string_view rest = text;
  std::int64_t total = 0;
  std::size_t next_unit = 0;  // units only get smaller: "1h30m", not "30m1h"
  if (rest.empty()) return bad("duration", text, kDurationHelp);
  while (!rest.empty()) {
    const bool first = rest.size() == text.size();
    Decimal number;
    if (!take_decimal(rest, number)) return bad("duration", text, kDurationHelp);
    std::int64_t unit = 0;
    if (rest.empty() && first) {
      unit = bare_unit.count();
    } else {
      const std::size_t end = rest.find_first_of("0123456789.");
      const std::string_view name = rest.substr(0, end);
      while (next_unit < kTimeUnits.size() && kTimeUnits[next_unit].name != name) ++next_unit;
      if (next_unit == kTimeUnits.size()) return bad("duration", text, kDurationHelp);
      unit = kTimeUnits[next_unit++].micros;
      rest.remove_prefix(name.size());
    }
    const std::int64_t part = scaled(number, unit);
    if (part < 0 || __builtin_add_overflow(total, part, &total) || total == kMax) return bad("duration", text, "too large");
  }
  return Duration(total);
}

std::string format_duration(Duration d) {
  if (d == kNoLimit) return "unlimited";
  if (d == Duration::zero()) return "0s";
  std::string out;
  Wide left = d.count();
  if (left < 0) {
    out += '-';
    left = -left;
  }
  for (const TimeUnit& unit : kTimeUnits) {
    const auto n = static_cast<std::int64_t>(left / unit.micros);
    left %= unit.micros;
    if (n != 0) {
      out += std::to_string(n);
      out += unit.name;
    }
  }
  return out;
}

std::string format_hours(Duration d) {
  const std::int64_t s = std::max<std::int64_t>(std::chrono::duration_cast<seconds>(d).count(), 0);
  char text[48];
  const int n = std::snprintf(text, sizeof text, "%02d:%02d:%02d", static_cast<int>(s / 3600 % 24), static_cast<int>(s / 60 % 60),
                              static_cast<int>(s % 60));
  const std::string time(text, static_cast<std::size_t>(n));
  return s < 86'400 ? time : std::to_string(s / 86'400) + "-" + time;
}

std::string format_utc(Duration wall) {
  const std::time_t whole = static_cast<std::time_t>(std::chrono::duration_cast<seconds>(wall).count());
  std::tm parts{};
  char text[32];
  gmtime_r(&whole, &parts);
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

std::string format_clock(Duration d) {
  if (d == kNoLimit) return "unlimited";
  const std::int64_t secs = std::abs(d.count() / 1'000'000);
  const auto two = [](std::int64_t v) { return (v < 10 ? "0" : "") + std::to_string(v); };
  const std::int64_t days = secs / 86'400, hours = secs / 3600 % 24, minutes = secs / 60 % 60;
  std::string out = d.count() / 1'000'000 < 0 ? "-" : "";
  if (days > 0) {
    out += std::to_string(days) + "-" + two(hours) + ":" + two(minutes);
  } else if (hours > 0) {
    out += std::to_string(hours) + ":" + two(minutes);
  } else {
    out += std::to_string(minutes);
  }
  return out + ":" + two(secs % 60);
}

// --- cpus ----------------------------------------------------------------------------------------------------------

Result<MilliCpus> parse_cpus(std::string_view text) {
  std::string_view rest = text;
  Decimal number;
  if (!take_decimal(rest, number)) return bad("cpus", text, "write a number of cores, as in 2, 0.5 or 1500m");
  std::int64_t unit = 1000;
  if (rest == "m") {
    unit = 1;
    rest = {};
  }
  if (!rest.empty()) return bad("cpus", text, "write a number of cores, as in 2, 0.5 or 1500m");
  const std::int64_t milli = scaled(number, unit);
  if (milli < 0) return bad("cpus", text, "too large");
  if (static_cast<Wide>(milli) * number.scale != static_cast<Wide>(number.digits) * unit) {
    return bad("cpus", text, "a thousandth of a core is the smallest part");
  }
  return MilliCpus{milli};
}

std::string format_cpus(MilliCpus cpus) {
  const std::int64_t whole = cpus.value / 1000, part = std::abs(cpus.value % 1000);
  std::string out = (cpus.value < 0 && whole == 0 ? "-" : "") + std::to_string(whole);
  if (part == 0) return out;
  std::string digits = std::to_string(1000 + part).substr(1);
  while (digits.back() == '0') digits.pop_back();
  return out + "." + digits;
}

}  // namespace bourse
