// Reads what other programs found, for tests: small tables in tests/data/oracle, and whole logs where a directory of traces is found.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/core/time.h"
#include "frameworks/batch/replay.h"

namespace bourse::sim {

// Rows by the names of the header line; every value is text.
using Row = std::map<std::string, std::string>;
std::vector<Row> read_table(const std::string& path);  // plain or .gz; fails the test when it cannot be read
std::string oracle(const std::string& name);           // path of a table
std::string trace(const std::string& name);            // path of a log, "" where there is none: skip

Duration micros(const std::string& seconds_with_decimals);    // exactly
std::vector<std::uint32_t> indexes(const std::string& text);  // "0-4;14"

// Smallest key first, then submission, then place in the trace.
class ByKey final : public batch::QueueOrder {
 public:
  using Key = double (*)(const Job& job, Duration now);
  explicit ByKey(Key key) : key_(key) {}
  void arrived(const Job& job) override { jobs_[job.job] = job; }
  void started(std::uint64_t job, Duration) override { jobs_.erase(job); }
  void ended(std::uint64_t, Duration) override {}
  void begin(Duration now) override;
  std::optional<std::uint64_t> next() override;

 private:
  Key key_;
  std::vector<std::uint64_t> walk_;
  std::size_t at_ = 0;
  std::map<std::uint64_t, Job> jobs_;
};
double shortest_first(const batch::QueueOrder::Job& job, Duration now);

}  // namespace bourse::sim
