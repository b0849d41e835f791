#include "frameworks/cli/simulate_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "common/core/hostlist.h"
#include "common/core/rng.h"
#include "common/sim/csv.h"
#include "frameworks/batch/store_trace.h"
#include "frameworks/cli/live.h"

namespace bourse::cli {
namespace {

bool is_csv_name(const std::string& path) { return path.ends_with(".csv") || path.ends_with(".csv.gz"); }

// A line of names separated by commas, and not of numbers.
Result<bool> looks_like_csv(const std::string& path) {
  if (is_csv_name(path)) return true;
  sim::Lines lines = BOURSE_TRY(sim::Lines::open(path));
  std::string_view line;
  if (!BOURSE_TRY(lines.next(line))) return false;
  const std::size_t start = line.find_first_not_of(" \t");
  return start != std::string_view::npos && line[start] != ';' && (line[start] < '0' || line[start] > '9') &&
         line.find(',') != std::string_view::npos;
}

Result<std::vector<batch::SimulatedNodes>> read_nodes(const std::string& text) {
  if (!is_csv_name(text)) return batch::parse_simulated_nodes(text);
  sim::Lines lines = BOURSE_TRY(sim::Lines::open(text));
  std::vector<batch::SimulatedNodes> out;
  for (const sim::CsvNode& from : BOURSE_TRY(sim::nodes_of_csv(lines))) {
    batch::SimulatedNodes one;
    one.name = from.name, one.gpu_model = from.model, one.cpu_milli = from.cpu_milli, one.mem = from.mem, one.gpus = from.gpus;
    one.cores = static_cast<std::uint32_t>(std::max<std::int64_t>(from.cpu_milli / 1000, 1));
    out.push_back(std::move(one));
    if (out.size() > batch::kSimulatedNodesMax)
      return Error(Code::kLimit, fmt::format("{}: more than {} nodes", text, batch::kSimulatedNodesMax));
  }
  if (out.empty()) return Error(Code::kInvalid, text + ": no node in it");
  return out;
}

Result<sim::Workload> read_trace(const SimulateInput& input, bool memory) {
  sim::ReadOptions how;
  how.jobs_max = input.jobs_max == 0 ? 0 : input.skip + input.jobs_max, how.estimates = input.estimates, how.memory = memory;
  if (batch::is_store(input.trace)) return batch::workload_of_store(input.trace, how);
  const bool csv = BOURSE_TRY(looks_like_csv(input.trace));
  sim::Lines lines = BOURSE_TRY(sim::Lines::open(input.trace));
  return csv ? sim::workload_of_csv(lines, how, input.fill <= 0) : sim::workload_of_swf(lines, how);
}

// "rack2" (a node's name or list of names, or the value of a label) or "rack=r2".
Result<> drain(const std::string& what, std::vector<batch::SimulatedNodes>& nodes) {
  std::vector<batch::SimulatedNodes> each;
  const std::vector<std::string> names = batch::names_of(nodes);
  for (const batch::SimulatedNodes& group : nodes) {
    for (std::uint32_t i = 0; i < group.count; ++i) {
      each.push_back(group);
      each.back().count = 1, each.back().name = names[each.size() - 1];
    }
  }
  std::set<std::string> hosts;
  if (auto list = expand_hosts(what); list) hosts.insert(list->begin(), list->end());
  const std::size_t equals = what.find('=');
  const std::size_t before = each.size();
  std::erase_if(each, [&](const batch::SimulatedNodes& node) {
    if (hosts.contains(node.name)) return true;
    if (equals != std::string::npos) {
      const auto label = node.labels.find(what.substr(0, equals));
      return label != node.labels.end() && label->second == what.substr(equals + 1);
    }
    return std::any_of(node.labels.begin(), node.labels.end(), [&](const auto& label) { return label.second == what; });
  });
  if (each.size() == before) return Error(Code::kInvalid, "drain: no node is called " + what + ", and none has it as a label");
  if (each.empty()) return Error(Code::kInvalid, "drain: nothing is left of the cluster without " + what);
  nodes = std::move(each);
  return {};
}

// Jobs drawn at random until they ask for `load` of all GPUs (of all cores where there are none); they come one after the other and
// stay.
void fill(const SimulateInput& input, const std::vector<batch::SimulatedNodes>& nodes, sim::Workload& work) {
  const bool gpus = work.gpus && batch::gpus_of(nodes) > 0;
  const double capacity =
      gpus ? static_cast<double>(batch::gpus_of(nodes)) * 1000 : static_cast<double>(batch::processors_of(nodes)) * 1000;
  const auto asks = [&](const sim::TraceJob& job) {
    const sim::TraceShape& shape = work.shapes[job.shape];
    const double count = std::max(shape.nodes, 1u);
    if (!gpus) return shape.cpu_milli > 0 ? static_cast<double>(shape.cpu_milli) * count : job.processors * 1000.0;
    return shape.gpus * count * (shape.gpu_milli > 0 ? shape.gpu_milli : 1000.0) + shape.gpus_in_all * 1000.0;
  };
  Rng rng(input.seed);
  std::vector<sim::TraceJob> pool = work.jobs, jobs;
  for (std::size_t i = pool.size(); i > 1; --i) std::swap(pool[i - 1], pool[rng.below(i)]);
  double asked = 0;
  for (std::size_t i = 0; asked < capacity * input.fill && jobs.size() < sim::kSwfJobsMax; ++i) {
    sim::TraceJob job = i < pool.size() ? pool[i] : pool[rng.below(pool.size())];
    if (asked + asks(job) <= 0 && i >= 100 * pool.size()) break;  // nobody asks for any
    asked += asks(job);
    job.submit = seconds(static_cast<std::int64_t>(jobs.size()));
    job.run = job.limit = seconds(sim::kTraceSecondsMax);
    jobs.push_back(job);
  }
  work.jobs = std::move(jobs);
}

}  // namespace

Result<SimulateSetup> prepare(const SimulateInput& input) {
  SimulateSetup out;
  if (input.from_master) {
    auto client = BOURSE_TRY(BatchClient::open(input.dir));
    LiveCluster live = BOURSE_TRY(live_cluster(*client));
    out.nodes = std::move(live.nodes);
    if (input.trace.empty()) out.work = std::move(live.work);
  }
  if (!input.nodes.empty()) out.nodes = BOURSE_TRY(read_nodes(input.nodes));
  if (!input.add_nodes.empty())
    for (batch::SimulatedNodes& group : BOURSE_TRY(batch::parse_simulated_nodes(input.add_nodes, &out.nodes.front()))) {
      const std::size_t count = batch::names_of(out.nodes).size();
      for (std::uint32_t i = 0; i < group.count; ++i) {
        out.nodes.push_back(group);
        out.nodes.back().count = 1, out.nodes.back().name = fmt::format("n{}", count + i + 1);
      }
    }
  if (!input.drain.empty()) BOURSE_TRY(drain(input.drain, out.nodes));
  if (!input.trace.empty()) {
    const bool memory = std::any_of(out.nodes.begin(), out.nodes.end(), [](const batch::SimulatedNodes& n) { return n.mem > 0; });
    out.work = BOURSE_TRY(read_trace(input, memory));
  }
  if (input.skip > 0) {
    out.work.jobs.erase(out.work.jobs.begin(),
                        out.work.jobs.begin() + static_cast<std::ptrdiff_t>(std::min(input.skip, out.work.jobs.size())));
    out.work.rebase();
  }
  if (out.work.jobs.empty())
    return Error(Code::kInvalid, input.trace.empty() ? "no job waits or runs"
                                                     : input.trace + ": no job in it has a submit time, a run time and processors");
  if (input.fill > 0) fill(input, out.nodes, out.work);
  if (input.scale_load != 1)
    for (sim::TraceJob& job : out.work.jobs)
      job.submit = Duration(std::llround(static_cast<double>(job.submit.count()) / input.scale_load));
  return out;
}

}  // namespace bourse::cli
