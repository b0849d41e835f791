// What one simulated run leaves behind, for reports, files and plots. See simulate.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/sim/whatif.h"
#include "frameworks/batch/simulated_nodes.h"

namespace bourse::cli {

constexpr std::size_t kPlacesMax = 2'000'000;  // node ranges kept for a plot

struct SimulatedRun {
  std::string name;  // of the policy and the way of backfilling
  sim::Report report;
  std::vector<sim::TraceJob> jobs;  // with their starts
  double real_s = 0;
  std::uint64_t processors = 0, gpus = 0, nodes = 0;
  struct Place {  // a job on neighbouring nodes
    std::uint32_t job = 0, first = 0, last = 0;
  };
  std::vector<Place> places;  // only where a plot was asked for
};

// --- numbers: simulate_report.cc
std::string run_json(const SimulatedRun& run, const sim::Workload& work, bool users);
std::string run_text(const SimulatedRun& run, const sim::Workload& work, bool users);
std::string run_csv(const SimulatedRun& run, const sim::Workload& work);
// The trace with what was simulated in the column of the wait, run times as they were cut.
std::string run_swf(const SimulatedRun& run, const sim::Workload& work);

// Two runs of one trace: per batch of jobs the mean difference, and from those an interval (Student's t, 95 %). `a` and `b` are what
// run_json() gives.
struct Comparison {
  struct Line {
    std::string name;
    double a = 0, b = 0, difference = 0, half = 0;  // b - a, give or take `half`; 0: not known
    [[nodiscard]] bool clear() const { return half > 0 && (difference > half || difference < -half); }
  };
  std::vector<Line> lines;
};
Result<Comparison> compare(const std::string& a, const std::string& b);
std::string comparison_text(const Comparison& c, const std::string& a, const std::string& b);
std::string comparison_json(const Comparison& c);

// "p95_wait<3600", "utilisation>=0.8", "max_wait<=2d". Names as in the JSON; "_s" may be left out. True: it holds.
struct Judged {
  bool holds = false;
  std::string text;  // "p95_wait_s is 4211, not < 3600"
};
Result<Judged> judge(const std::string& assertion, const std::string& json);

// --- plots: simulate_svg.cc. Files of `directory`, which is made.
Result<std::vector<std::string>> write_plots(const std::string& directory, const std::vector<SimulatedRun>& runs,
                                             const std::string& trace);

}  // namespace bourse::cli
