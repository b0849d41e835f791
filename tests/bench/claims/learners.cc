// A9 and row 4 of the science note: does a policy that learns beat the best one that stands?
//
// Each log is cut in two. A learner learns on the first half, in simulation; then all are judged on the second, which begins with an
// empty machine: every arm by itself, the best of them (which nobody knows beforehand), a random arm a window, first come first served
// with EASY, the learner as it stands after the first half ("frozen"), the learner that goes on learning, and one that begins with
// nothing, which shows what learning costs. All orders have the same guard of 20 hours. One machine of as many processors as the log's.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "common/core/rng.h"
#include "common/world/files.h"
#include "frameworks/cli/plot.h"
#include "tests/bench/claims/claim.h"

namespace bourse::claims {
namespace {

constexpr std::uint32_t kMixProcessors = 128;

double s(Duration d) { return static_cast<double>(d.count()) / 1e6; }

// Two sorts of phases by turns, two days each, so made that no one order is right in both. Each begins with a rush of twelve hours and
// then is calm.
//  A: everybody knows how long his jobs run, and all users are alike. The shortest and smallest first is right; fairness is no better
//     than any order.
//  B: four users send long narrow jobs whose limits are about right; the others try something out with wide jobs of minutes, for which
//     they ask twelve hours each. By limits that is the wrong way round; by what users hold it is right.
struct Phase {
  double load, rush;  // offered on the whole; so many times that in its first quarter
};
constexpr Phase kPhases[2] = {{1.0, 3.0}, {0.65, 3.0}};
constexpr double kHours = 48;
constexpr std::uint64_t kBulkUsers = 4, kUsers = 40;

struct Drawn {
  std::uint32_t processors;
  double run, limit;
  std::uint64_t user;
};
Drawn draw(bool first, Rng& rng) {
  if (first) {
    const double run = 30 * std::pow(2.0, rng.unit() * 10);
    return {1U << rng.below(6), run, run * (1 + 0.3 * rng.unit()), rng.below(kUsers)};
  }
  if (rng.chance(750))
    return {8 * (1 + static_cast<std::uint32_t>(rng.below(4))), 60 * std::pow(4.0, rng.unit()), 43'200,
            2 * kBulkUsers + rng.below(kUsers - 2 * kBulkUsers)};
  const double run = 7'200 * std::pow(2.0, rng.unit());
  return {2U << rng.below(4), run, 2 * run, rng.below(kBulkUsers)};
}
// Processor seconds of a job on the average.
double mean_work(bool first) {
  Rng rng(1);
  double sum = 0;
  constexpr int kDraws = 20'000;
  for (int i = 0; i < kDraws; ++i) {
    const Drawn d = draw(first, rng);
    sum += d.run * d.processors / kDraws;
  }
  return sum;
}

Log phases(std::uint64_t seed, std::size_t count) {
  Log log;
  log.name = fmt::format("phases (drawn, {} of 48 h by turns)", count);
  log.processors = kMixProcessors;
  Rng rng(seed);
  const double work[2] = {mean_work(true), mean_work(false)};
  double t = 0;
  for (std::size_t phase = 0; phase < count; ++phase) {
    const double begin = t, end = t + kHours * 3600;
    const Phase& kind = kPhases[phase % 2];
    while (t < end) {
      const Drawn d = draw(phase % 2 == 0, rng);
      sim::TraceJob job;
      job.processors = d.processors;
      job.number = static_cast<std::int64_t>(log.work.jobs.size()) + 1;
      job.submit = seconds(static_cast<std::int64_t>(t));
      job.run = seconds(static_cast<std::int64_t>(d.run));
      job.limit = std::max<Duration>(seconds(static_cast<std::int64_t>(d.limit)), job.run);
      job.user = static_cast<std::int32_t>(d.user);
      log.work.jobs.push_back(job);
      const double now = kind.load * (t < begin + kHours * 900 ? kind.rush : (4 - kind.rush) / 3);
      t += -std::log(1 - rng.unit()) * work[phase % 2] / (now * kMixProcessors);
    }
    t = std::max(t, end);
  }
  return log;
}

std::vector<sim::TraceJob> half(const Log& log, bool second) {
  const std::size_t at = log.work.jobs.size() / 2;
  const auto& all = log.work.jobs;
  std::vector<sim::TraceJob> out = second ? std::vector<sim::TraceJob>(all.begin() + static_cast<std::ptrdiff_t>(at), all.end())
                                          : std::vector<sim::TraceJob>(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(at));
  const Duration first = out.front().submit;
  for (sim::TraceJob& job : out) job.submit -= first;
  return out;
}

struct Judged {
  std::string log;
  std::vector<std::pair<std::string, double>> bars;  // mean completion over the best arm's
};

using Jobs = std::vector<sim::TraceJob>;
constexpr const char* kArms[] = {"fifo", "sjf", "saf", "wfp3", "unicep", "drf", "hybrid:weight=0.5"};

// All of one log: arms and learners on its second half.
struct Trial {
  std::map<std::string, Jobs> arms, learners;
  std::string best = "fifo", best_wait = "fifo";  // arms, known in hindsight only
  double random = 0, random_wait = 0;
  std::size_t jobs = 0;
  [[nodiscard]] Mean to_best(const std::string& learner, Value value = completion_s) const {
    return ratio(learners.at(learner), arms.at(value == wait_s ? best_wait : best), value);
  }
  [[nodiscard]] double best_s() const { return mean(arms.at(best), completion_s); }
};

Trial trial(const Log& log, const std::string& params) {
  const Jobs learn_from = half(log, false), judged = half(log, true);
  Trial out;
  out.jobs = judged.size();
  for (const char* const arm : kArms) out.arms[arm] = run(log, judged, arm);
  for (const auto& [arm, jobs] : out.arms) {
    if (mean(jobs, completion_s) < out.best_s()) out.best = arm;
    if (mean(jobs, wait_s) < mean(out.arms[out.best_wait], wait_s)) out.best_wait = arm;
  }
  std::string learnt, learnt_bandit, none;
  const std::string with = params.empty() ? "" : ":" + params, and_params = params.empty() ? "" : "," + params;
  run(log, learn_from, "qlearn" + with, &learnt);
  run(log, learn_from, "bandit" + with, &learnt_bandit);
  std::string frozen_state = learnt;
  out.learners["qlearn, frozen"] = run(log, judged, "qlearn:learn=false" + and_params, &frozen_state);
  out.learners["qlearn, going on"] = run(log, judged, "qlearn" + with, &learnt);
  out.learners["qlearn, from nothing"] = run(log, judged, "qlearn" + with, &none);
  out.learners["bandit"] = run(log, judged, "bandit" + with, &learnt_bandit);
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    const Jobs jobs = run(log, judged, "bandit:rule=random" + and_params, nullptr, seed);
    out.random += mean(jobs, completion_s) / 3, out.random_wait += mean(jobs, wait_s) / 3;
  }
  return out;
}

std::string all_of(const Trial& t) {
  return fmt::format("best fixed {} {:.0f} s; fifo+EASY {:.0f}; random {:.0f}", t.best, t.best_s(),
                     mean(t.arms.at("fifo"), completion_s), t.random);
}

Judged bars_of(const std::string& log, const Trial& t) {
  Judged out{log, {}};
  for (const auto& [arm, jobs] : t.arms) out.bars.emplace_back(arm, mean(jobs, completion_s) / t.best_s());
  out.bars.emplace_back("random arm", t.random / t.best_s());
  for (const auto& [name, jobs] : t.learners) out.bars.emplace_back(name, mean(jobs, completion_s) / t.best_s());
  return out;
}

// "never worse than 1.1 times"
void cost_of_learning(Table& table, const std::string& where, const std::string& best, const Mean& cost, const Mean& waits) {
  table.add({"A9", "never worse than 1.1 times the best while learning, exploring included", where,
             fmt::format("{} (known in hindsight only)", best),
             fmt::format("from nothing: completion {}, waits {}", percent(cost), percent(waits)),
             cost.mean <= 1.1 ? "met" : "not met"});
}

Judged steady(const Log& log, Table& table) {
  const Trial t = trial(log, "");
  const std::string where = fmt::format("{}, second half: {} jobs; load {:.2f}", log.name, t.jobs, log.load());
  const Mean to_best = t.to_best("qlearn, going on"), waits = t.to_best("qlearn, going on", wait_s);
  table.add({"A9", "the learner is within 5 % of the best fixed policy on a steady log", where, all_of(t),
             fmt::format("completion {}; frozen {}; waits {} of {}; bandit {}", percent(to_best),
                         percent(t.to_best("qlearn, frozen")), percent(waits), t.best_wait, percent(t.to_best("bandit"))),
             fmt::format("{}{}", to_best.mean <= 1.05 ? "met" : "not met",
                         waits.mean <= 1.05 ? ", by waits too" : fmt::format("; by waits {:+.0f} %", (waits.mean - 1) * 100))});
  const Mean fifo = ratio(t.learners.at("qlearn, going on"), t.arms.at("fifo"), wait_s);
  table.add({"4", "the learner's mean wait is 20 % below FCFS+EASY (17 % below a fixed policy)", where,
             fmt::format("fifo+EASY {:.0f} s; random arm {:.0f}", mean(t.arms.at("fifo"), wait_s), t.random_wait), percent(fifo),
             fifo.mean <= 0.8 ? "met" : "not met"});
  cost_of_learning(table, where, t.best, t.to_best("qlearn, from nothing"), t.to_best("qlearn, from nothing", wait_s));
  return bars_of(log.name, t);
}

// As good as arms that stand could be, had each sort of phase its own: what changing at the right moments can gain.
double clairvoyant_s(const Log& log, const Trial& t) {
  const Duration first = log.work.jobs[log.work.jobs.size() / 2].submit;
  double sum = 0;
  for (const bool second : {false, true}) {
    double least = 1e300;
    for (const auto& [arm, jobs] : t.arms) {
      double of_arm = 0;
      for (const sim::TraceJob& job : jobs) {
        const auto phase = static_cast<std::int64_t>(s(job.submit + first) / (kHours * 3600));
        if ((phase % 2 == 1) == second) of_arm += completion_s(job);
      }
      least = std::min(least, of_arm);
    }
    sum += least;
  }
  return sum / static_cast<double>(t.jobs);
}

Judged changing(Table& table, const Options& options) {
  const std::size_t count = options.quick ? 12 : 40, seeds = options.quick ? 1 : 5;
  std::map<std::string, std::vector<double>> ratios;
  std::vector<double> load;
  std::string best, all;
  Judged bars;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const Log log = phases(seed, count);
    const Trial t = trial(log, "window=1h");
    for (const auto& [name, jobs] : t.learners) ratios[name].push_back(t.to_best(name).mean);
    ratios["waits"].push_back(t.to_best("qlearn, from nothing", wait_s).mean);
    ratios["random"].push_back(t.random / t.best_s());
    ratios["bound"].push_back(clairvoyant_s(log, t) / t.best_s());
    load.push_back(log.load());
    if (seed > 1) continue;
    best = t.best, all = all_of(t);
    bars = bars_of(log.name, t);
  }
  const auto of = [&](const std::string& name) { return mean_of(ratios[name]); };
  const std::string where = fmt::format("phases (drawn, {} of 48 h by turns), second half; load {:.2f}; {}", count,
                                        mean_of(load).mean, seeds == 1 ? "one draw" : fmt::format("{} draws", seeds));
  const Mean gain = of("qlearn, going on");
  table.add({"A9", "the learner's mean completion is 17 % shorter than the best fixed policy's, on a mix that changes", where,
             all + (seeds > 1 ? " (of the first draw)" : ""),
             fmt::format("{}; frozen {}; bandit {}; random arm {}; each sort of phase with its best arm {}", percent(gain),
                         percent(of("qlearn, frozen")), percent(of("bandit")), percent(of("random")), percent(of("bound"))),
             gain.mean > 0.83               ? "not met"
             : gain.mean + gain.half > 0.83 ? "met by the mean, not by all of the interval"
                                            : "met"});
  cost_of_learning(table, where, best, of("qlearn, from nothing"), of("waits"));
  return bars;
}

std::string short_name(const std::string& name) {
  return name == "qlearn, frozen"         ? "q: frozen"
         : name == "qlearn, going on"     ? "q: going on"
         : name == "qlearn, from nothing" ? "q: anew"
                                          : name.substr(0, name.find(':'));
}

// Mean completion over the best fixed arm's, a panel a log.
void plot(const std::vector<Judged>& all, const std::string& directory, Table& table) {
  using namespace cli;
  std::vector<Panel> panels;
  double top = 76;
  for (const Judged& each : all) {
    const double count = static_cast<double>(each.bars.size());
    double most = 1.2;
    for (const auto& [name, value] : each.bars) most = std::max(most, value * 1.05);
    Panel panel(each.log, {"", 0, count, Axis::Kind::kNumber}, {"of the best fixed", 0, most, Axis::Kind::kNumber}, top, 130);
    panel.names_below();
    for (std::size_t i = 0; i < each.bars.size(); ++i) {
      const auto& [name, value] = each.bars[i];
      const bool learner = name.starts_with("qlearn") || name == "bandit";
      panel.box(static_cast<double>(i) + 0.15, 0, static_cast<double>(i) + 0.85, value, plot_colour(learner ? 0 : 1), 0.85,
                fmt::format("{}: {:.3f}", name, value));
      panel.name_below(static_cast<double>(i) + 0.5, short_name(name));
    }
    panel.level(1, "best fixed");
    panels.push_back(std::move(panel));
    top = panels.back().bottom() + 60;
  }
  const std::string page =
      plot_page("Mean completion of jobs, over the best fixed policy's (second halves)", "make bench-claims", panels, top);
  if (auto written = write_file(directory + "/claims.svg", page, 0644); !written) table.note(written.error().text());
}

}  // namespace

void learners(Table& table, const Options& options) {
  std::vector<Judged> all;
  all.push_back(changing(table, options));
  const struct {
    const char* file;
    std::uint32_t processors;
    std::size_t jobs;
  } logs[] = {{"KTH-SP2-1996-2.1-cln", 100, 0},
              {"SDSC-SP2-1998-first5000", 128, 0},
              {"lublin_256_2", 256, 0},
              {"lublin_256_1", 256, 0},
              {"HPC2N-2002-2.1-cln", 240, 60'000},
              {"SDSC-BLUE-2000-4.2-cln", 1152, 60'000},
              {"LLNL-Thunder-2007-1.1-cln", 4008, 60'000}};
  for (const auto& each : logs) {
    if (options.quick && each.processors != 100) continue;
    const auto log = read_log(each.file, each.processors, options.quick ? 4000 : each.jobs, table);
    if (log) all.push_back(steady(*log, table));
  }
  if (!options.directory.empty()) plot(all, options.directory, table);
}

}  // namespace bourse::claims
