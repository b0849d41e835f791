#include "tests/sim/oracle.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <tuple>

#include "common/sim/lines.h"

namespace bourse::sim {

std::vector<Row> read_table(const std::string& path) {
  std::vector<Row> out;
  auto lines = Lines::open(path);
  if (!lines) return ADD_FAILURE() << lines.error().text(), out;
  std::string_view line;
  std::vector<std::string> names;
  while (true) {
    auto more = lines->next(line);
    if (!more) return ADD_FAILURE() << more.error().text(), out;
    if (!*more) return out;
    std::vector<std::string> words;
    for (std::size_t at = 0; at <= line.size();) {
      const std::size_t end = std::min(line.find(',', at), line.size());
      words.emplace_back(line.substr(at, end - at));
      at = end + 1;
    }
    if (names.empty()) {
      names = words;
      continue;
    }
    Row row;
    for (std::size_t i = 0; i < std::min(names.size(), words.size()); ++i) row[names[i]] = words[i];
    out.push_back(std::move(row));
  }
}

std::string oracle(const std::string& name) { return "tests/data/oracle/" + name; }

std::string trace(const std::string& name) {
  const char* const set = std::getenv("BOURSE_TRACES");
  for (const std::string& root : {std::string(set != nullptr ? set : ""), std::string("../shared/traces")}) {
    if (root.empty()) continue;
    if (const std::string path = root + "/" + name; access(path.c_str(), R_OK) == 0) return path;
  }
  return {};
}

Duration micros(const std::string& text) {
  const std::size_t dot = text.find('.');
  std::string digits = text.substr(0, dot) + (dot == std::string::npos ? "" : text.substr(dot + 1));
  const std::size_t decimals = dot == std::string::npos ? 0 : text.size() - dot - 1;
  EXPECT_LE(decimals, 6u) << text;
  digits.append(6 - decimals, '0');
  return Duration(std::stoll(digits));
}

std::vector<std::uint32_t> indexes(const std::string& text) {
  std::vector<std::uint32_t> out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(';', at), text.size());
    const std::string part = text.substr(at, end - at);
    const std::size_t dash = part.find('-');
    const auto first = static_cast<std::uint32_t>(std::stoul(part.substr(0, dash)));
    const auto last = dash == std::string::npos ? first : static_cast<std::uint32_t>(std::stoul(part.substr(dash + 1)));
    for (std::uint32_t i = first; i <= last; ++i) out.push_back(i);
    at = end + 1;
  }
  return out;
}

void ByKey::begin(Duration now) {
  std::vector<std::tuple<double, Duration, std::uint64_t>> keyed;
  for (const auto& [id, job] : jobs_) keyed.emplace_back(key_(job, now), job.submit, id);
  std::sort(keyed.begin(), keyed.end());
  walk_.clear(), at_ = 0;
  for (const auto& [key, submit, id] : keyed) walk_.push_back(id);
}
std::optional<std::uint64_t> ByKey::next() {
  while (at_ < walk_.size() && !jobs_.contains(walk_[at_])) ++at_;
  return at_ < walk_.size() ? std::optional(walk_[at_++]) : std::nullopt;
}

double shortest_first(const batch::QueueOrder::Job& job, Duration) { return static_cast<double>(job.estimate.count()); }

}  // namespace bourse::sim
