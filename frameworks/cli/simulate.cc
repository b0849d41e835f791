// `bourse simulate`: what would this cluster have done with that workload.
#include "frameworks/cli/simulate.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "common/core/units.h"
#include "common/world/command_line.h"
#include "common/world/files.h"
#include "frameworks/batch/class_order.h"
#include "frameworks/batch/picked_replay.h"
#include "frameworks/batch/policy_order.h"
#include "frameworks/batch/replay.h"
#include "frameworks/batch/wire_replay.h"
#include "frameworks/cli/complain.h"
#include "frameworks/cli/scratch.h"
#include "frameworks/cli/simulate_input.h"
#include "frameworks/cli/simulate_run.h"
#include "plugins/policy/loader.h"

namespace bourse::cli {

namespace {

constexpr int kExitUsage = 2, kExitAssertion = 4;
constexpr std::size_t kPoliciesMax = 7;  // as many as a plot tells apart
constexpr const char* kName = "bourse simulate";

struct Options {
  SimulateInput input;
  std::vector<std::string> policies, assertions, set, compare;
  std::string backfill = "easy", backfill_order, rules = "batch", estimates = "user", csv, swf, svg, learnt;
  std::size_t depth = 0;
  bool json = false, verbose = false, wire = false, users = false;
};

void add_options(CommandLine& line, Options& o) {
  const char* const policy = "NAME[:KEY=VALUE,...]";
  line.option("--trace", o.input.trace, "the workload: SWF or CSV, plain or .gz, or batch's own queue.db").shown_as("FILE");
  line.option("--nodes", o.input.nodes, "the cluster: COUNTxCORES[:mem=SIZE][:gpu=N][:LABEL=VALUE],... or a CSV list")
      .shown_as("NODES");
  line.flag("--from-master", o.input.from_master, "the cluster as it is now, and, without --trace, its jobs");
  line.option("--add-nodes", o.input.add_nodes, "more nodes, as in 4:gpu=8: otherwise like the first ones").shown_as("NODES");
  line.option("--drain", o.input.drain, "without these nodes: a host list, or the value of a label").shown_as("NODES");
  line.option("--scale-load", o.input.scale_load, "jobs come so many times as fast").between(0.001, 1000.0).shown_as("FACTOR");
  line.option("--fill", o.input.fill, "no times: jobs drawn at random until they ask for FACTOR of all GPUs, each placed once")
      .between(0.01, 100.0)
      .shown_as("FACTOR");
  line.option("--skip", o.input.skip, "leaves the first N jobs out").between(0.0, 1e9).shown_as("N");
  line.option("--jobs", o.input.jobs_max, "only the first N jobs (after those left out)").between(0.0, 1e9).shown_as("N");
  line.option("--seed", o.input.seed, "of all that is random").between(0.0, 1e19).shown_as("N");
  line.option("--policy", o.policies, "order of the queue; given twice, the runs are compared").one_each().shown_as(policy);
  line.option("--backfill", o.backfill, "who may pass the first job that waits; see bourse.conf(5)")
      .one_of({"none", "easy", "easy-count", "conservative"})
      .shown_as("none|easy|easy-count|conservative");
  line.option("--backfill-order", o.backfill_order, "another policy for the order in which jobs may pass").shown_as(policy);
  line.option("--rules", o.rules, "of batch, or those of RLScheduler's environment")
      .one_of({"batch", "rlscheduler"})
      .shown_as("batch|rlscheduler");
  line.option("--depth", o.depth, "most jobs looked at behind the first; 0: all").between(0.0, 1e9).shown_as("N");
  line.option("--estimates", o.estimates, "planned run times: exact, what users asked for, or the mean of the user's last two")
      .one_of({"exact", "user", "last2"})
      .shown_as("exact|user|last2");
  line.option("--set", o.set, "policy, backfill, depth or estimates, as KEY=VALUE").one_each().shown_as("KEY=VALUE");
  line.flag("--wire", o.wire, "through master, agents and messages instead of the planner alone");
  line.flag("--json", o.json, "one JSON object");
  line.flag("--users", o.users, "what each user got");
  line.option("--csv", o.csv, "writes the jobs, one a line").shown_as("FILE");
  line.option("--swf", o.swf, "writes the trace with the waits of the simulation").shown_as("FILE");
  line.option("--svg", o.svg, "writes plots: gantt.svg, utilisation.svg, waits.svg").shown_as("DIR");
  line.option("--assert", o.assertions, "exit status 4 unless it holds: 'p95_wait<3600'").one_each().shown_as("EXPRESSION");
  line.option("--compare", o.compare, "two outputs of --json: prints the differences").words(2).shown_as("A.json B.json");
  line.option("--learnt", o.learnt,
              "a policy that learns begins with what is in FILE, if there is one, and leaves there what it knows")
      .shown_as("FILE");
  line.flag("--verbose", o.verbose,
            "what the policy says; with --wire what master, agents and batch log; to stderr, with virtual time");
  line.directory();
}

Result<> take_settings(Options& o) {
  for (const std::string& text : o.set) {
    const std::size_t equals = text.find('=');
    const std::string key = text.substr(0, equals), value = equals == std::string::npos ? "" : text.substr(equals + 1);
    const auto bad = [&](const std::string& why) { return Error(Code::kInvalid, "--set " + text + ": " + why); };
    if (key == "policy") {
      o.policies = {value};
    } else if (key == "backfill") {
      if (!batch::backfill_of(value)) return bad("none, easy, easy-count or conservative");
      o.backfill = value;
    } else if (key == "estimates") {
      if (value != "exact" && value != "user" && value != "last2") return bad("exact, user or last2");
      o.estimates = value;
    } else if (key == "depth" || key == "backfill_depth") {
      if (value.empty() || value.find_first_not_of("0123456789") != std::string::npos || value.size() > 9)
        return bad("a number is wanted");
      o.depth = std::stoul(value);
    } else {
      return bad("policy, backfill, depth or estimates can be set");
    }
  }
  return {};
}

// A line that draws itself anew on a terminal; nothing elsewhere.
class Progress {
 public:
  Progress(std::uint64_t jobs, std::string name) : jobs_(jobs), name_(std::move(name)), on_(isatty(STDERR_FILENO) == 1) {}
  ~Progress() {
    if (shown_) fmt::print(stderr, "\r\033[K");
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void show(std::uint64_t done) {
    const auto now = std::chrono::steady_clock::now();
    if (!on_ || jobs_ == 0 || now - last_ < std::chrono::milliseconds(100)) return;
    last_ = now;
    shown_ = true;
    const double spent = std::chrono::duration<double>(now - began_).count(),
                 share = static_cast<double>(done) / static_cast<double>(jobs_);
    const auto filled = static_cast<std::size_t>(share * 30);
    fmt::print(stderr, "\r\033[K{}  [{}{}] {:3.0f} %  {} of {} jobs, {:.0f}/s, {} left", name_, std::string(filled, '#'),
               std::string(30 - std::min<std::size_t>(filled, 30), ' '), share * 100, done, jobs_,
               static_cast<double>(done) / std::max(spent, 1e-3),
               format_clock(seconds(static_cast<std::int64_t>(share > 0 ? spent / share - spent : 0))));
    std::fflush(stderr);
  }

 private:
  std::uint64_t jobs_;
  std::string name_;
  bool on_, shown_ = false;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now(), last_{};
};

Result<SimulatedRun> run(const Options& o, const SimulateSetup& setup, const std::string& policy, policy::Loader& loader) {
  SimulatedRun out;
  out.name = policy + " " + o.backfill;
  out.jobs = setup.work.jobs;
  out.processors = batch::processors_of(setup.nodes), out.gpus = setup.work.gpus ? batch::gpus_of(setup.nodes) : 0;
  for (const batch::SimulatedNodes& group : setup.nodes) out.nodes += group.count;
  const policy::Choice choice = BOURSE_TRY(loader.take(policy));
  Progress progress(out.jobs.size(), out.name);
  const auto began = std::chrono::steady_clock::now();
  if (o.wire) {
    batch::SimulateOptions options;
    options.nodes = setup.nodes;
    options.seed = o.input.seed;
    options.backfill = *batch::backfill_of(o.backfill);
    options.log_to_stderr = o.verbose;
    options.shapes = &setup.work.shapes;
    BOURSE_TRY(batch::ClassOrder::usable(choice));
    options.policy = choice;
    out.report = BOURSE_TRY(batch::simulate(out.jobs, options));
  } else {
    batch::ReplayOptions options;
    options.nodes = setup.nodes;
    options.backfill = *batch::backfill_of(o.backfill);
    options.depth = o.depth == 0 ? SIZE_MAX : o.depth;
    options.last2 = o.estimates == "last2";
    options.shapes = &setup.work.shapes;
    options.origin = setup.work.origin;
    options.once = o.input.fill > 0;
    std::function<void(std::string)> log;
    if (o.verbose) log = [](const std::string& text) { fmt::print(stderr, "{}\n", text); };
    auto order = BOURSE_TRY(batch::policy_order(choice, o.input.seed, std::move(log)));
    if (!o.learnt.empty() && access(o.learnt.c_str(), F_OK) == 0 && !order->load(BOURSE_TRY(read_file(o.learnt))))
      return Error(Code::kInvalid, o.learnt + ": not what " + policy + " has learnt (another policy, other arms, another version)");
    std::unique_ptr<batch::QueueOrder> other;
    if (!o.backfill_order.empty()) {
      const policy::Choice behind = BOURSE_TRY(loader.take(o.backfill_order));
      other = BOURSE_TRY(batch::policy_order(behind, o.input.seed));
    }
    options.order = order.get(), options.backfill_order = other.get();
    options.progress = [&](std::uint64_t done) { progress.show(done); };
    if (!o.svg.empty()) {
      options.on_start = [&](std::size_t job, const std::vector<batch::Holding>& holdings) {
        for (const batch::Holding& h : holdings) {
          if (!out.places.empty() && out.places.back().job == job && out.places.back().last + 1 == h.node)
            out.places.back().last = h.node;
          else if (out.places.size() < kPlacesMax)
            out.places.push_back({static_cast<std::uint32_t>(job), h.node, h.node});
        }
      };
    }
    out.report = BOURSE_TRY(o.rules == "batch" ? batch::replay(out.jobs, options) : batch::picked_replay(out.jobs, options));
    if (!o.learnt.empty())
      if (const std::string learnt = order->save(); !learnt.empty()) BOURSE_TRY(write_file(o.learnt, learnt, 0644));
  }
  out.real_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return out;
}

int compare_files(const Options& o) {
  const auto a = read_file(o.compare[0]), b = read_file(o.compare[1]);
  if (!a) return complain(kName, a.error());
  if (!b) return complain(kName, b.error());
  const auto compared = compare(*a, *b);
  if (!compared) return complain(kName, compared.error());
  fmt::print("{}{}", o.json ? comparison_json(*compared) : comparison_text(*compared, o.compare[0], o.compare[1]),
             o.json ? "\n" : "");
  return 0;
}

}  // namespace

int simulate_main(int argc, char** argv) {
  CommandLine line("Replays a workload trace over a described cluster, in virtual time.", kName);
  Options o;
  add_options(line, o);
  if (const int status = line.parse(argc, argv); status >= 0) return status;
  if (auto taken = take_settings(o); !taken) return complain(kName, taken.error(), kExitUsage);
  if (!o.compare.empty()) return compare_files(o);
  if (o.input.trace.empty() && !o.input.from_master)
    return complain(kName, Error(Code::kInvalid, "--trace FILE is needed (or --from-master); see bourse-simulate(1)"), kExitUsage);
  if (o.input.nodes.empty() && !o.input.from_master)
    return complain(kName, Error(Code::kInvalid, "--nodes is needed, as in --nodes 240x1 (or --from-master)"), kExitUsage);
  if (o.policies.empty()) o.policies = {"fifo"};
  if (o.policies.size() > kPoliciesMax)
    return complain(kName, Error(Code::kInvalid, fmt::format("at most {} policies in one comparison", kPoliciesMax)), kExitUsage);
  if (o.wire && (!o.backfill_order.empty() || o.estimates == "last2" || o.input.fill > 0))
    return complain(kName, Error(Code::kInvalid, "--wire is for one order, exact or user estimates, and times as they are"),
                    kExitUsage);
  if (o.rules != "batch" && (o.wire || !o.backfill_order.empty() || o.estimates == "last2" || o.input.fill > 0 || !o.svg.empty()))
    return complain(kName, Error(Code::kInvalid, "--rules rlscheduler is for one order, times as they are, and no plots"),
                    kExitUsage);
  if (!o.learnt.empty() && (o.wire || o.policies.size() > 1))
    return complain(kName, Error(Code::kInvalid, "--learnt is for one policy, and not for --wire"), kExitUsage);
  o.input.estimates = o.estimates == "exact" ? sim::Estimates::kExact : sim::Estimates::kUser;

  auto setup = prepare(o.input);
  if (!setup) return complain(kName, setup.error());
  const Scratch scratch;
  policy::Loader loader("bourse", scratch.path);
  std::vector<SimulatedRun> runs;
  std::vector<std::string> json;
  for (const std::string& policy : o.policies) {
    auto one = run(o, *setup, policy, loader);
    if (!one)
      return complain(kName, one.error(),
                      one.error().code() == Code::kInvalid || one.error().code() == Code::kNotFound ? kExitUsage : 1);
    json.push_back(run_json(*one, setup->work, o.users));
    runs.push_back(*std::move(one));
  }
  // Files: of the first run, unless they show all.
  const auto write = [](const std::string& path, const std::string& text) {
    return path.empty() ? Result<>() : write_file(path, text);
  };
  if (auto done = write(o.csv, o.csv.empty() ? "" : run_csv(runs.front(), setup->work)); !done)
    return complain(kName, done.error());
  if (auto done = write(o.swf, o.swf.empty() ? "" : run_swf(runs.front(), setup->work)); !done)
    return complain(kName, done.error());
  if (!o.svg.empty()) {
    auto written = write_plots(o.svg, runs,
                               o.input.trace.empty() ? "the cluster as it is" : o.input.trace.substr(o.input.trace.rfind('/') + 1));
    if (!written) return complain(kName, written.error());
    if (!o.json)
      for (const std::string& path : *written) fmt::print(stderr, "{}: wrote {}\n", kName, path);
  }
  std::vector<Comparison> comparisons;
  for (std::size_t i = 1; i < runs.size(); ++i) {
    auto compared = compare(json[0], json[i]);
    if (!compared) return complain(kName, compared.error());
    comparisons.push_back(*std::move(compared));
  }
  if (o.json && runs.size() == 1) {
    fmt::print("{}\n", json[0]);
  } else if (o.json) {
    std::string list, differences;
    for (const std::string& one : json) list += (list.empty() ? "" : ",") + one;
    for (const Comparison& one : comparisons) differences += (differences.empty() ? "" : ",") + comparison_json(one);
    fmt::print("{{\"runs\":[{}],\"comparisons\":[{}]}}\n", list, differences);
  } else {
    for (std::size_t i = 0; i < runs.size(); ++i) fmt::print("{}{}", i == 0 ? "" : "\n", run_text(runs[i], setup->work, o.users));
    for (std::size_t i = 0; i < comparisons.size(); ++i)
      fmt::print("\n{}", comparison_text(comparisons[i], runs[0].name, runs[i + 1].name));
  }
  bool holds = true;
  for (const std::string& assertion : o.assertions) {
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const auto judged = judge(assertion, json[i]);
      if (!judged) return complain(kName, judged.error(), kExitUsage);
      if (!judged->holds) fmt::print(stderr, "{}: {}: {}\n", kName, runs[i].name, judged->text);
      holds = holds && judged->holds;
    }
  }
  return holds ? 0 : kExitAssertion;
}

}  // namespace bourse::cli
