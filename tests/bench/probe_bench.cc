// What each probe costs: time from asking to its report, and processor time, beside starting a program that does nothing in the same way.
//
// From them follows what looking every agent.reprobe (5 minutes) costs an agent that has nothing else to do.
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "agent/helper/runner.h"

namespace {

using namespace bourse;

constexpr int kRuns = 15;
constexpr double kReprobeSeconds = 300;

double child_seconds() {
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  const auto seconds_of = [](const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6; };
  return seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
}

struct Cost {
  double median_ms = 0, worst_ms = 0, cpu_ms = 0;
  std::string error;
};

Cost measure(const std::string& helper, const std::string& probe, const ProbeInput& input) {
  std::vector<double> times;
  Cost cost;
  const double before = child_seconds();
  for (int i = 0; i < kRuns; ++i) {
    const HelperResult result = run_helper(helper, probe, input, seconds(60));
    if (!result.report) cost.error = result.report.error().text();
    times.push_back(static_cast<double>(result.took.count()) / 1000);
  }
  cost.cpu_ms = (child_seconds() - before) * 1000 / kRuns;
  std::sort(times.begin(), times.end());
  cost.median_ms = times[times.size() / 2];
  cost.worst_ms = times.back();
  return cost;
}

}  // namespace

int main() {
  const char* bin = std::getenv("BOURSE_BIN");
  const std::string helper = std::string(bin == nullptr ? "build/release/bin" : bin) + "/bourse-helper";
  const Cost nothing = measure("/bin/true", "", {});
  std::printf("probe %-10s median_ms %7.2f  worst_ms %7.2f  cpu_ms %6.2f\n", "(true)", nothing.median_ms, nothing.worst_ms,
              nothing.cpu_ms);
  double all = 0;
  for (const ProbeInfo& info : probe_catalog()) {
    ProbeInput input;
    std::string where = "this host";
    for (const auto& [name, tree] : {std::pair("nvidia", "nvidia"), {"amdgpu", "amd"}, {"ascend", "ascend"}, {"fpga", "dfl"}})
      if (info.name == name) where = std::string("tests/data/sysfs/") + tree;
    if (where != "this host") input.root = std::filesystem::absolute(where).string();
    if (!info.automatic) continue;
    if (info.name == kProbeDeclared) continue;
    if (!worth_running(info, input)) {
      std::printf("probe %-10s not on this host: no process is started\n", std::string(info.name).c_str());
      continue;
    }
    const Cost cost = measure(helper, std::string(info.name), input);
    all += cost.cpu_ms;
    std::printf("probe %-10s median_ms %7.2f  worst_ms %7.2f  cpu_ms %6.2f  x true %5.1f  (%s)%s%s\n",
                std::string(info.name).c_str(), cost.median_ms, cost.worst_ms, cost.cpu_ms,
                cost.median_ms / std::max(nothing.median_ms, 0.01), where.c_str(),
                cost.error.empty() ? "" : " FAILED: ", cost.error.c_str());
  }
  std::printf("probe all of the above every %.0f s: %.4f %% of a core (goal: under 0.1 %%)\n", kReprobeSeconds,
              all / 1000 / kReprobeSeconds * 100);
  return 0;
}
