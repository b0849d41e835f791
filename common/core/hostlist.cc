#include "common/core/hostlist.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace bourse {

namespace {

constexpr std::size_t kNumberDigitsMax = 18;  // always fits 63 bits

bool digit(char c) { return c >= '0' && c <= '9'; }

bool host_character(char c) {
  return digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '_' || c == '-' || c == ':' || c == '+' ||
         c == '@' || c == '/';
}

std::string_view trim(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t')) s.remove_suffix(1);
  return s;
}

Error bad(std::string_view what, std::string_view text, std::string_view why) {
  constexpr std::size_t kShown = 64;
  return Error(Code::kInvalid, std::string(what) + " \"" + std::string(text.substr(0, kShown)) + "\": " + std::string(why));
}

std::uint64_t number(std::string_view digits) {
  std::uint64_t v = 0;
  for (const char c : digits) v = v * 10 + static_cast<std::uint64_t>(c - '0');
  return v;
}

std::string padded(std::uint64_t value, std::size_t width) {
  std::string s = std::to_string(value);
  if (s.size() < width) s.insert(0, width - s.size(), '0');
  return s;
}

bool all_digits(std::string_view s) { return !s.empty() && std::all_of(s.begin(), s.end(), digit); }

// "1-4,7" inside brackets, to texts.
Result<std::vector<std::string>> expand_bracket(std::string_view item, std::string_view body) {
  std::vector<std::string> out;
  while (true) {
    const std::size_t comma = body.find(',');
    const std::string_view part = trim(body.substr(0, comma));
    const std::size_t dash = part.find('-');
    const std::string_view low = part.substr(0, dash);
    const std::string_view high = dash == std::string_view::npos ? low : part.substr(dash + 1);
    if (!all_digits(low) || !all_digits(high)) return bad("host list", item, "brackets hold numbers and ranges, as in h[1-4,7]");
    if (low.size() > kNumberDigitsMax || high.size() > kNumberDigitsMax) return bad("host list", item, "number too large");
    const std::uint64_t first = number(low), last = number(high);
    if (last < first) return bad("host list", item, "a range runs from the lower number to the higher");
    if (last - first >= kHostsMax - std::min(out.size(), kHostsMax - 1)) {
      return Error(Code::kLimit, "host list has more than " + std::to_string(kHostsMax) + " hosts");
    }
    const std::size_t width = low.size() > 1 && low.front() == '0' ? low.size() : 0;
    for (std::uint64_t n = first; n <= last; ++n) out.push_back(padded(n, width));
    if (comma == std::string_view::npos) return out;
    body.remove_prefix(comma + 1);
  }
}

// One name with any number of brackets; the leftmost turns slowest.
Result<> expand_item(std::string_view item, std::vector<std::string>& hosts) {
  std::vector<std::string> names{""};
  std::string_view rest = item;
  while (!rest.empty()) {
    const std::size_t open = rest.find('[');
    const std::string_view plain = rest.substr(0, open);
    if (!std::all_of(plain.begin(), plain.end(), host_character)) {
      return bad("host list", item,
                 plain.find(']') != std::string_view::npos ? "']' without '['" : "character not allowed in a host name");
    }
    // The last name of a product is never shorter than the others; a number adds at most its digits.
    if (names.back().size() + plain.size() + kNumberDigitsMax > kHostBytesMax) {
      return bad("host list", item, "host name longer than " + std::to_string(kHostBytesMax - kNumberDigitsMax) + " characters");
    }
    for (std::string& name : names) name += plain;
    rest.remove_prefix(plain.size());
    if (!rest.empty()) {
      const std::size_t close = rest.find(']');
      if (close == std::string_view::npos) return bad("host list", item, "'[' without ']'");
      const std::vector<std::string> numbers = BOURSE_TRY(expand_bracket(item, rest.substr(1, close - 1)));
      if (names.size() > kHostsMax / numbers.size()) {
        return Error(Code::kLimit, "host list has more than " + std::to_string(kHostsMax) + " hosts");
      }
      std::vector<std::string> product;
      product.reserve(names.size() * numbers.size());
      for (const std::string& name : names) {
        for (const std::string& n : numbers) product.push_back(name + n);
      }
      names = std::move(product);
      rest.remove_prefix(close + 1);
    }
  }
  if (names.size() > kHostsMax - hosts.size()) {
    return Error(Code::kLimit, "host list has more than " + std::to_string(kHostsMax) + " hosts");
  }
  hosts.insert(hosts.end(), std::make_move_iterator(names.begin()), std::make_move_iterator(names.end()));
  return {};
}

}  // namespace

Result<std::vector<std::string>> expand_hosts(std::string_view list) {
  std::vector<std::string> hosts;
  if (trim(list).empty()) return bad("host list", list, "it is empty");
  std::size_t start = 0;
  bool inside = false;
  for (std::size_t i = 0; i <= list.size(); ++i) {
    const char c = i < list.size() ? list[i] : ',';
    if (i < list.size() && c == '[' && inside) return bad("host list", list.substr(start), "brackets do not nest");
    if (c == '[') inside = true;
    if (c == ']') inside = false;
    if (c != ',' || (inside && i < list.size())) continue;
    const std::string_view item = trim(list.substr(start, i - start));
    if (item.empty()) return bad("host list", list.substr(start == 0 ? 0 : start - 1), "a name is missing beside ','");
    BOURSE_TRY(expand_item(item, hosts));
    start = i + 1;
  }
  return hosts;
}

bool host_before(std::string_view a, std::string_view b) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  std::size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (!digit(a[i]) || !digit(b[j])) {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i, ++j;
      continue;
    }
    std::size_t m = i, n = j;
    while (m < a.size() && a[m] == '0') ++m;
    while (n < b.size() && b[n] == '0') ++n;
    std::size_t p = m, q = n;
    while (p < a.size() && digit(a[p])) ++p;
    while (q < b.size() && digit(b[q])) ++q;
    if (p - m != q - n) return p - m < q - n;
    const int order = a.substr(m, p - m).compare(b.substr(n, q - n));
    if (order != 0) return order < 0;
    i = p, j = q;
  }
  if (a.size() - i != b.size() - j) return a.size() - i < b.size() - j;
  return a < b;  // "h1" and "h01" are two hosts
}

std::string compress_hosts(const std::vector<std::string>& hosts) {
  struct Run {
    std::string first_text;
    std::uint64_t first = 0, last = 0;
  };
  struct Group {
    std::string_view prefix, suffix;
    bool numbered = false;
    std::vector<Run> runs;
  };
  std::vector<Group> groups;  // in the order of first appearance
  std::map<std::tuple<std::string_view, std::string_view, bool>, std::size_t> index;
  std::set<std::string_view> seen;
  for (const std::string& host : hosts) {
    if (!seen.insert(host).second) continue;
    const std::string_view name = host;
    std::size_t end = name.size();
    while (end > 0 && !digit(name[end - 1])) --end;
    std::size_t begin = end;
    while (begin > 0 && digit(name[begin - 1])) --begin;
    const bool numbered = end > begin && end - begin <= kNumberDigitsMax;
    const std::string_view prefix = numbered ? name.substr(0, begin) : name;
    const std::string_view suffix = numbered ? name.substr(end) : std::string_view{};
    const auto [at, added] = index.try_emplace({prefix, suffix, numbered}, groups.size());
    if (added) groups.push_back({prefix, suffix, numbered, {}});
    if (!numbered) continue;
    Group& group = groups[at->second];
    const std::string_view text = name.substr(begin, end - begin);
    const std::uint64_t n = number(text);
    // The range keeps the width of its first number, so 08,09,10 join and 9,010 do not.
    if (!group.runs.empty() && n == group.runs.back().last + 1) {
      const std::string& first = group.runs.back().first_text;
      const std::size_t width = first.size() > 1 && first.front() == '0' ? first.size() : 0;
      if (padded(n, width) == text) {
        group.runs.back().last = n;
        continue;
      }
    }
    group.runs.push_back({std::string(text), n, n});
  }
  std::string out;
  for (const Group& group : groups) {
    if (!out.empty()) out += ',';
    out += group.prefix;
    if (!group.numbered) continue;
    const bool single = group.runs.size() == 1 && group.runs.front().first == group.runs.front().last;
    if (!single) out += '[';
    bool comma = false;
    for (const Run& run : group.runs) {
      if (comma) out += ',';
      comma = true;
      out += run.first_text;
      if (run.last != run.first) out += '-' + padded(run.last, run.first_text.front() == '0' ? run.first_text.size() : 0);
    }
    if (!single) out += ']';
    out += group.suffix;
  }
  return out;
}

// --- index sets ----------------------------------------------------------------------------------------------------

namespace {

std::uint64_t count(const IndexRange& r) { return (r.last - r.first) / r.step + 1; }

// Ranges that touch and count by one become one.
void join_neighbours(std::vector<IndexRange>& ranges) {
  std::vector<IndexRange> out;
  for (const IndexRange& r : ranges) {
    if (!out.empty() && out.back().step == 1 && r.step == 1 && r.first <= out.back().last + 1) {
      out.back().last = std::max(out.back().last, r.last);
    } else {
      out.push_back(r);
    }
  }
  ranges = std::move(out);
}

// Overlapping ranges with steps: listed one by one, then written as the longest steps from the left.
Result<> relist(const std::vector<IndexRange>& cluster, std::vector<IndexRange>& out) {
  std::vector<std::uint64_t> all;
  for (const IndexRange& r : cluster) {
    if (count(r) > kIndexesMax - all.size()) {
      return Error(Code::kLimit,
                   "ranges with steps that overlap cover more than " + std::to_string(kIndexesMax) + " indexes; write them apart");
    }
    for (std::uint64_t i = 0; i < count(r); ++i) all.push_back(r.first + i * r.step);
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  for (std::size_t i = 0; i < all.size();) {
    std::size_t j = i + 1;
    const std::uint64_t step = j < all.size() ? all[j] - all[i] : 1;
    while (j < all.size() && all[j] - all[j - 1] == step) ++j;
    if (step != 1 && j - i < 3) j = i + 1;  // two numbers are shorter as two numbers
    out.push_back({all[i], all[j - 1], j - i > 1 ? step : 1});
    i = j;
  }
  return {};
}

}  // namespace

Result<IndexSet> IndexSet::parse(std::string_view text) {
  std::vector<IndexRange> ranges;
  std::string_view rest = text;
  while (true) {
    const std::size_t comma = rest.find(',');
    std::string_view part = trim(rest.substr(0, comma));
    const std::string_view whole = part;
    IndexRange r;
    std::string_view step;
    const std::size_t colon = part.find(':');
    if (colon != std::string_view::npos) {
      step = part.substr(colon + 1);
      part = part.substr(0, colon);
      if (!all_digits(step) || step.size() > kNumberDigitsMax || number(step) == 0) {
        return bad("index list", whole, "the step after ':' is a number of at least 1");
      }
      if (part.find('-') == std::string_view::npos) return bad("index list", whole, "a step needs a range, as in 4-20:2");
      r.step = number(step);
    }
    const std::size_t dash = part.find('-');
    const std::string_view low = part.substr(0, dash);
    const std::string_view high = dash == std::string_view::npos ? low : part.substr(dash + 1);
    if (!all_digits(low) || !all_digits(high))
      return bad("index list", whole.empty() ? text : whole, "write numbers and ranges, as in 1,4-20:2");
    if (low.size() > kNumberDigitsMax || high.size() > kNumberDigitsMax) return bad("index list", whole, "number too large");
    r.first = number(low);
    r.last = number(high);
    if (r.last < r.first) return bad("index list", whole, "a range runs from the lower number to the higher");
    r.last = r.first + (r.last - r.first) / r.step * r.step;
    if (r.first == r.last) r.step = 1;
    if (ranges.size() == kIndexRangesMax) {
      return Error(Code::kLimit, "index list has more than " + std::to_string(kIndexRangesMax) + " ranges");
    }
    ranges.push_back(r);
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  std::sort(ranges.begin(), ranges.end(), [](const IndexRange& a, const IndexRange& b) {
    return std::tie(a.first, a.last, a.step) < std::tie(b.first, b.last, b.step);
  });

  IndexSet set;
  for (std::size_t i = 0; i < ranges.size();) {
    std::size_t j = i + 1;
    std::uint64_t end = ranges[i].last;
    bool plain = ranges[i].step == 1;
    for (; j < ranges.size() && ranges[j].first <= end; ++j) {
      end = std::max(end, ranges[j].last);
      plain = plain && ranges[j].step == 1;
    }
    const std::vector<IndexRange> cluster(ranges.begin() + static_cast<std::ptrdiff_t>(i),
                                          ranges.begin() + static_cast<std::ptrdiff_t>(j));
    if (plain) {
      set.ranges_.push_back({ranges[i].first, end, 1});
    } else if (cluster.size() == 1) {
      set.ranges_.push_back(cluster.front());
    } else {
      BOURSE_TRY(relist(cluster, set.ranges_));
    }
    i = j;
  }
  join_neighbours(set.ranges_);
  for (const IndexRange& r : set.ranges_) set.size_ += count(r);
  return set;
}

bool IndexSet::contains(std::uint64_t index) const {
  auto after =
      std::upper_bound(ranges_.begin(), ranges_.end(), index, [](std::uint64_t v, const IndexRange& r) { return v < r.first; });
  if (after == ranges_.begin()) return false;
  const IndexRange& r = *--after;
  return index <= r.last && (index - r.first) % r.step == 0;
}

std::uint64_t IndexSet::min() const { return ranges_.empty() ? 0 : ranges_.front().first; }
std::uint64_t IndexSet::max() const { return ranges_.empty() ? 0 : ranges_.back().last; }
std::uint64_t IndexSet::step() const { return ranges_.empty() ? 1 : ranges_.front().step; }

std::uint64_t IndexSet::at(std::uint64_t rank) const {
  BOURSE_ASSERT(rank < size_, std::to_string(rank) + " of " + std::to_string(size_));
  for (const IndexRange& r : ranges_) {
    if (rank < count(r)) return r.first + rank * r.step;
    rank -= count(r);
  }
  return 0;
}

std::string IndexSet::text() const {
  std::string out;
  for (const IndexRange& r : ranges_) {
    if (!out.empty()) out += ',';
    out += std::to_string(r.first);
    if (r.last == r.first) continue;
    out += '-' + std::to_string(r.last);
    if (r.step != 1) out += ':' + std::to_string(r.step);
  }
  return out;
}

}  // namespace bourse
