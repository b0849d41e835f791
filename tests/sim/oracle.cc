#include "tests/sim/oracle.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

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

void ByKey::rank(Duration now, std::vector<batch::Planner::Candidate>& queue) {
  std::map<std::uint64_t, double> keys;
  for (const auto& c : queue) keys[c.job] = key_(jobs_.at(c.job), now);
  std::sort(queue.begin(), queue.end(), [&](const auto& a, const auto& b) {
    return std::tuple(keys[a.job], jobs_.at(a.job).submit, a.job) < std::tuple(keys[b.job], jobs_.at(b.job).submit, b.job);
  });
}

double shortest_first(const batch::QueueOrder::Job& job, Duration) { return static_cast<double>(job.estimate.count()); }

}  // namespace bourse::sim
