// `bourse simulate`: what would this cluster have done with that workload.
#include "frameworks/cli/simulate.h"

#include <chrono>
#include <nlohmann/json.hpp>

#include "frameworks/batch/replay.h"
#include "frameworks/batch/wire_replay.h"
#include "frameworks/cli/command_line.h"

namespace bourse::cli {

namespace {

std::string hex(std::uint64_t value) { return fmt::format("{:016x}", value); }

void print_json(const sim::Report& r, double real_s) {
  nlohmann::ordered_json out;
  out["jobs"] = r.jobs;
  out["refused"] = r.refused;
  if (r.refused > 0) out["first_refusal"] = r.first_refusal;
  out["mean_wait_s"] = r.mean_wait_s;
  out["p95_wait_s"] = r.p95_wait_s;
  out["max_wait_s"] = r.max_wait_s;
  out["mean_bsld"] = r.mean_bsld;
  out["utilisation"] = r.utilisation;
  out["makespan_s"] = r.makespan_s;
  out["schedule_hash"] = hex(r.schedule_hash);
  if (r.trace_hash != 0) out["trace_hash"] = hex(r.trace_hash);
  out["events"] = r.events;
  out["real_s"] = real_s;
  fmt::print("{}\n", out.dump());
}

void print_text(const sim::Report& r, double real_s) {
  fmt::print("jobs           {}\n", r.jobs);
  if (r.refused > 0) fmt::print("refused        {} (the first: {})\n", r.refused, r.first_refusal);
  fmt::print("wait           mean {:.1f} s, 95 % within {:.1f} s, longest {:.1f} s\n", r.mean_wait_s, r.p95_wait_s, r.max_wait_s);
  fmt::print("slowdown       mean {:.2f} (bounded at 10 s)\n", r.mean_bsld);
  fmt::print("utilisation    {:.1f} %\n", r.utilisation * 100);
  fmt::print("makespan       {}\n", format_clock(seconds(static_cast<std::int64_t>(r.makespan_s))));
  fmt::print("schedule hash  {}\n", hex(r.schedule_hash));
  fmt::print("simulated      {} events in {:.1f} s, {:.0f} times real time\n", r.events, real_s,
             real_s > 0 ? r.makespan_s / real_s : 0.0);
}

}  // namespace

int simulate_main(int argc, char** argv) {
  CLI::App app("Replays a workload trace over a described cluster, in virtual time.", "bourse simulate");
  std::string trace, nodes, policy = "fifo", backfill = "easy", estimates = "user";
  std::uint64_t seed = 1;
  std::size_t jobs_max = 0;
  bool json = false, verbose = false, wire = false;
  app.add_option("--trace", trace, "workload in the Standard Workload Format, plain or .gz")->required()->option_text("FILE");
  app.add_option("--nodes", nodes, "the cluster: COUNTxCORES, as in 240x1 or 20x80,48x12")->required()->option_text("NODES");
  app.add_option("--jobs", jobs_max, "only the first N jobs")->option_text("N");
  app.add_option("--seed", seed, "of all that is random: delays in network and disks")->option_text("N");
  app.add_option("--policy", policy, "order of the queue")->check(CLI::IsMember({"fifo"}))->option_text("fifo");
  app.add_option("--backfill", backfill, "who may pass the first job that waits; see bourse.conf(5)")
      ->check(CLI::IsMember({"none", "easy", "easy-count", "conservative"}))
      ->option_text("none|easy|easy-count|conservative");
  app.add_option("--estimates", estimates, "planned run times: exact, what users asked for, or the mean of the user's last two")
      ->check(CLI::IsMember({"exact", "user", "last2"}))
      ->option_text("exact|user|last2");
  app.add_flag("--wire", wire, "through master, agents and messages instead of the planner alone");
  app.add_flag("--json", json, "one JSON object");
  app.add_flag("--verbose", verbose, "with --wire: what master, agents and batch log, to stderr, with virtual time");
  if (const int status = parse(app, argc, argv); status >= 0) return status;
  if (wire && estimates == "last2")
    return complain("bourse simulate", Error(Code::kInvalid, "--wire is for exact or user estimates"), 2);

  auto groups = batch::parse_simulated_nodes(nodes);
  if (!groups) return complain("bourse simulate", groups.error(), 2);
  sim::ReadOptions how;
  how.jobs_max = jobs_max;
  how.estimates = estimates == "exact" ? sim::Estimates::kExact : sim::Estimates::kUser;
  auto lines = sim::Lines::open(trace);
  if (!lines) return complain("bourse simulate", lines.error());
  auto read = sim::workload_of_swf(*lines, how);
  if (!read) return complain("bourse simulate", read.error());
  sim::Workload& work = *read;
  if (work.jobs.empty())
    return complain("bourse simulate", Error(Code::kInvalid, trace + ": no job in it has a run time and processors"));

  const auto began = std::chrono::steady_clock::now();
  Result<sim::Report> report = Error(Code::kInvalid, "");
  if (wire) {
    batch::SimulateOptions options;
    options.nodes = *std::move(groups);
    options.seed = seed;
    options.backfill = *batch::backfill_of(backfill);
    options.log_to_stderr = verbose;
    options.shapes = &work.shapes;
    report = batch::simulate(work.jobs, options);
  } else {
    batch::ReplayOptions options;
    options.nodes = *std::move(groups);
    options.backfill = *batch::backfill_of(backfill);
    options.last2 = estimates == "last2";
    options.shapes = &work.shapes;
    report = batch::replay(work.jobs, options);
  }
  if (!report) return complain("bourse simulate", report.error());
  const double real_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  if (json) {
    print_json(*report, real_s);
  } else {
    print_text(*report, real_s);
  }
  return 0;
}

}  // namespace bourse::cli
