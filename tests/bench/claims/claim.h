// What the programs of make bench-claims share: claims as lines of a table, means with intervals, logs, and runs of the replay.
//
// Every verdict is computed from what this very run measured. A log that is not there is skipped and said so; BOURSE_TRACES names
// the directory (by itself ../shared/traces). One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/sim/workload.h"
#include "frameworks/batch/policy_order.h"
#include "frameworks/batch/replay.h"

namespace bourse::claims {

struct Mean {
  double mean = 0, half = 0;  // half: of the 95 % interval by Student's t; 0: not known
};
Mean mean_of(const std::vector<double>& values);

struct Claim {
  std::string row;  // of FEATURES.md or of the science note
  std::string claim, workload, baseline, measured, verdict;
};
class Table {
 public:
  void add(Claim claim);
  void note(const std::string& text);          // under the table
  [[nodiscard]] std::string text() const;      // for a terminal
  [[nodiscard]] std::string markdown() const;  // for a page

 private:
  std::vector<Claim> claims_;
  std::vector<std::string> notes_;
};

struct Options {
  bool quick = false;     // seconds, not minutes: fewer logs, fewer seeds, the first jobs of each
  std::string directory;  // where plots go; "": none
};

// A file below the traces, or "" and a note.
std::string trace(const std::string& name, Table& table);

struct Log {
  std::string name;
  sim::Workload work;
  std::uint32_t processors = 1;
  [[nodiscard]] double load() const;  // offered: work over processors and the span of submissions
};
std::optional<Log> read_log(const std::string& file, std::uint32_t processors, std::size_t jobs_max, Table& table);

// One node of all processors, EASY. `learnt`: what a policy that learns begins with, and has at the end.
std::vector<sim::TraceJob> run(const Log& log, std::vector<sim::TraceJob> jobs, const std::string& policy,
                               std::string* learnt = nullptr, std::uint64_t seed = 1);
double completion_s(const sim::TraceJob& job);  // wait and run
double wait_s(const sim::TraceJob& job);
double slowdown(const sim::TraceJob& job);
// Means, and of two runs of the same jobs the ratio of their sums with an interval over 20 batches of neighbours.
using Value = double (*)(const sim::TraceJob&);
double mean(const std::vector<sim::TraceJob>& jobs, Value value);
Mean ratio(const std::vector<sim::TraceJob>& jobs, const std::vector<sim::TraceJob>& base, Value value);

std::string percent(const Mean& ratio);  // "-12.3 % (-15.1 to -9.5)"

// Each adds its lines.
void learners(Table& table, const Options& options);  // A9, science row 4; a plot
void orders(Table& table, const Options& options);    // science row 3
void fairness(Table& table, const Options& options);  // science row 1
void packing(Table& table, const Options& options);   // A5 (GPU), science row 2
void quota(Table& table, const Options& options);     // A6: series of demand
void elastic(Table& table, const Options& options);   // A6: requests one by one

}  // namespace bourse::claims
