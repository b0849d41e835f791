// `bourse simulate`: what would this cluster have done with that workload.
#include "frameworks/cli/simulate.h"

#include <chrono>
#include <nlohmann/json.hpp>

#include "frameworks/batch/simulate.h"
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
  out["trace_hash"] = hex(r.trace_hash);
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
  CLI::App app("Replays a workload trace through master, agents and batch in virtual time.", "bourse simulate");
  std::string trace, nodes = "1x1", policy = "fifo", backfill = "easy", estimates = "user";
  std::size_t jobs_max = 0;
  std::uint64_t seed = 1;
  bool json = false, verbose = false;
  app.add_option("--trace", trace, "Standard Workload Format file, plain or .gz")->required()->option_text("FILE");
  app.add_option("--nodes", nodes, "the cluster, as COUNTxCORES: 240x1 or 20x80,48x12")->required()->option_text("NODES");
  app.add_option("--jobs", jobs_max, "only the first N jobs")->option_text("N");
  app.add_option("--seed", seed, "of everything random: delays in network and disks")->option_text("N");
  app.add_option("--policy", policy, "order of the queue")->check(CLI::IsMember({"fifo"}))->option_text("fifo");
  app.add_option("--backfill", backfill, "none, or easy: past the first job that waits")
      ->check(CLI::IsMember({"none", "easy"}))
      ->option_text("none|easy");
  app.add_option("--estimates", estimates, "time limits: exact run times, or what users asked for")
      ->check(CLI::IsMember({"exact", "user"}))
      ->option_text("exact|user");
  app.add_flag("--json", json, "one JSON object");
  app.add_flag("--verbose", verbose, "what master, agents and batch log, to stderr, with virtual time");
  if (const int status = parse(app, argc, argv); status >= 0) return status;

  batch::SimulateOptions options;
  auto groups = batch::parse_simulated_nodes(nodes);
  if (!groups) return complain("bourse simulate", groups.error(), 2);
  options.nodes = *std::move(groups);
  options.seed = seed;
  options.backfill = backfill == "easy";
  options.log_to_stderr = verbose;
  auto read = sim::read_swf(trace, jobs_max);
  if (!read) return complain("bourse simulate", read.error());
  std::vector<sim::TraceJob> jobs = sim::jobs_of(*read, estimates == "user" ? sim::Estimates::kUser : sim::Estimates::kExact);
  if (jobs.empty())
    return complain("bourse simulate", Error(Code::kInvalid, trace + ": no job in it has a run time and processors"));

  const auto began = std::chrono::steady_clock::now();
  auto report = batch::simulate(jobs, options);
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
