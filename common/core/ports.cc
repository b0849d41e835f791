#include <algorithm>

#include "common/core/resources.h"

namespace bourse {

namespace {

using Range = std::pair<std::uint16_t, std::uint16_t>;
constexpr std::uint32_t kPortMax = 65535;

Error bad(std::string_view text, std::string_view why) {
  constexpr std::size_t kShown = 64;
  return Error(Code::kInvalid, "ports \"" + std::string(text.substr(0, kShown)) + "\": " + std::string(why));
}

// 0: not a port number.
std::uint16_t port(std::string_view s) {
  if (s.empty() || s.size() > 5) return 0;
  std::uint32_t v = 0;
  for (const char c : s) {
    if (c < '0' || c > '9') return 0;
    v = v * 10 + static_cast<std::uint32_t>(c - '0');
  }
  return v > kPortMax ? 0 : static_cast<std::uint16_t>(v);
}

// Sorted; adjacent ones become one.
void join(std::vector<Range>& ranges) {
  std::size_t kept = 0;
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].first <= std::uint32_t{ranges[kept].second} + 1) {
      ranges[kept].second = std::max(ranges[kept].second, ranges[i].second);
    } else {
      ranges[++kept] = ranges[i];
    }
  }
  if (!ranges.empty()) ranges.resize(kept + 1);
}

std::string text_of(const Range& r) {
  return r.first == r.second ? std::to_string(r.first) : std::to_string(r.first) + "-" + std::to_string(r.second);
}

}  // namespace

Result<Ports> Ports::parse(std::string_view text) {
  Ports out;
  if (text.empty()) return out;
  std::string_view rest = text;
  while (true) {
    const std::size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    const std::size_t dash = part.find('-');
    const std::uint16_t first = port(part.substr(0, dash));
    const std::uint16_t last = dash == std::string_view::npos ? first : port(part.substr(dash + 1));
    if (first == 0 || last == 0) return bad(text, "write numbers from 1 to 65535 and ranges, as in 8080,31000-32000");
    if (last < first) return bad(text, "a range runs from the lower number to the higher");
    if (out.ranges_.size() > kPortMax) return bad(text, "too many ranges");
    out.ranges_.emplace_back(first, last);
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  std::sort(out.ranges_.begin(), out.ranges_.end());
  join(out.ranges_);
  return out;
}

std::string Ports::text() const {
  std::string out;
  for (const Range& r : ranges_) out += (out.empty() ? "" : ",") + text_of(r);
  return out;
}

std::uint32_t Ports::size() const {
  std::uint32_t n = 0;
  for (const Range& r : ranges_) n += std::uint32_t{r.second} - r.first + 1;
  return n;
}

bool Ports::contains(const Ports& other) const {
  auto at = ranges_.begin();
  for (const Range& r : other.ranges_) {
    while (at != ranges_.end() && at->second < r.first) ++at;
    if (at == ranges_.end() || at->first > r.first || at->second < r.second) return false;
  }
  return true;
}

Result<> Ports::add(const Ports& other) {
  if (other.ranges_.empty()) return {};
  std::vector<Range> merged;
  merged.reserve(ranges_.size() + other.ranges_.size());
  std::merge(ranges_.begin(), ranges_.end(), other.ranges_.begin(), other.ranges_.end(), std::back_inserter(merged));
  for (std::size_t i = 1; i < merged.size(); ++i) {
    if (merged[i].first <= merged[i - 1].second) {
      return Error(Code::kLimit, "ports " + text_of({merged[i].first, std::min(merged[i].second, merged[i - 1].second)}) +
                                     " would be there twice");
    }
  }
  join(merged);
  ranges_ = std::move(merged);
  return {};
}

Result<> Ports::subtract(const Ports& other) {
  if (other.ranges_.empty()) return {};
  if (!contains(other)) return Error(Code::kLimit, "ports " + other.text() + " are not all in " + text());
  std::vector<Range> left;
  auto cut = other.ranges_.begin();
  for (Range r : ranges_) {
    bool used_up = false;
    for (; cut != other.ranges_.end() && cut->first <= r.second; ++cut) {
      if (cut->first > r.first) left.emplace_back(r.first, static_cast<std::uint16_t>(cut->first - 1));
      if (cut->second == r.second) {
        used_up = true;
        ++cut;
        break;
      }
      r.first = static_cast<std::uint16_t>(cut->second + 1);
    }
    if (!used_up) left.push_back(r);
  }
  ranges_ = std::move(left);
  return {};
}

Ports Ports::take(std::uint32_t count) const {
  Ports out;
  for (const Range& r : ranges_) {
    if (count == 0) break;
    const std::uint32_t n = std::min(count, std::uint32_t{r.second} - r.first + 1);
    out.ranges_.emplace_back(r.first, static_cast<std::uint16_t>(r.first + n - 1));
    count -= n;
  }
  return out;
}

}  // namespace bourse
