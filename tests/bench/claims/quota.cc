// A6: a limit that stretches ahead of a predicted rush, against a fixed one.
//
// Demand is a series of 5-minute steps. A unit of capacity serves 1/40 of the largest demand of the first half, costs 1 a step from the
// moment it is asked for, and serves `kStart` steps later (the price of starting is so paid twice: waited for, and paid for). A step is
// broken when demand exceeds what serves. Rules are chosen on the first half (the cheapest that breaks no more steps there than the
// fixed limit would) and judged on the second.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "common/sim/lines.h"
#include "tests/bench/claims/claim.h"

namespace bourse::claims {
namespace {

constexpr std::size_t kStart = 2;  // steps: ten minutes
constexpr std::size_t kDay = 288;  // steps
constexpr double kGoal = 0.37;     // cheaper than fixed
constexpr double kUnits = 40;

std::vector<double> series(const std::string& path, std::size_t column) {
  std::vector<double> out;
  auto lines = sim::Lines::open(path);
  if (!lines) return out;
  std::string_view line;
  for (bool first = true;; first = false) {
    auto more = lines->next(line);
    if (!more || !*more) return out;
    if (first) continue;
    std::size_t at = 0;
    for (std::size_t c = 0; c < column && at != std::string_view::npos; ++c) at = line.find(',', at) + 1;
    out.push_back(std::strtod(std::string(line.substr(at, 32)).c_str(), nullptr));
  }
}

struct Rule {
  enum class Forecast { kLast, kSmooth, kYesterday, kMax } forecast = Forecast::kLast;
  double margin = 0;     // of the largest demand so far, on top
  std::size_t hold = 0;  // steps of which the highest forecast counts: how slowly it shrinks
};

// What is expected of step `at` + kStart + 1, knowing all up to `at`.
double forecast(const std::vector<double>& d, std::size_t at, Rule::Forecast how) {
  const std::size_t target = at + kStart + 1;
  const double last = d[at], day = target >= kDay ? d[target - kDay] : last;
  double smooth = 0, weight = 0;
  for (std::size_t i = 0; i < 12 && i <= at; ++i) {
    const double w = std::pow(0.7, static_cast<double>(i));
    smooth += w * d[at - i], weight += w;
  }
  smooth /= weight;
  switch (how) {
    case Rule::Forecast::kLast:
      return last;
    case Rule::Forecast::kSmooth:
      return smooth;
    case Rule::Forecast::kYesterday: {
      // Yesterday's rise from now on, put on what is now.
      const double then = at >= kDay ? d[at - kDay] : last;
      return std::max(0.0, last + (day - then));
    }
    case Rule::Forecast::kMax: {
      double most = last;
      for (std::size_t back = kDay; back <= std::min<std::size_t>(at, 3 * kDay); back += kDay)
        for (std::size_t i = 0; i <= kStart + 3; ++i)
          if (target + 1 + i >= back + kStart) most = std::max(most, d[std::min(at, target + i - back)]);
      return most;
    }
  }
  return last;
}

struct Outcome {
  double cost = 0, broken = 0, steps = 0;
  std::vector<double> days;  // cost by day
};

Outcome play(const std::vector<double>& d, std::size_t from, std::size_t to, double unit, const Rule& rule) {
  Outcome out;
  double largest = 0;
  std::vector<double> asked(d.size(), 0);  // units that serve at that step
  std::vector<double> recent;
  for (std::size_t at = 0; at + kStart + 1 < to; ++at) {
    largest = std::max(largest, d[at]);
    recent.push_back(forecast(d, at, rule.forecast) + rule.margin * largest);
    double most = 0;
    for (std::size_t i = 0; i <= rule.hold && i < recent.size(); ++i) most = std::max(most, recent[recent.size() - 1 - i]);
    asked[at + kStart + 1] = std::ceil(most / unit);
  }
  for (std::size_t t = from; t < to; ++t) {
    // Paid from when it is asked for: what is to serve up to kStart steps from now, or serves now.
    double paid = asked[t];
    for (std::size_t i = 1; i <= kStart && t + i < to; ++i) paid = std::max(paid, asked[t + i]);
    out.cost += paid;
    out.broken += d[t] > asked[t] * unit ? 1 : 0;
    out.steps += 1;
    if ((t - from) % kDay == 0) out.days.push_back(0);
    out.days.back() += paid;
  }
  return out;
}

void judge(Table& table, const std::string& name, const std::vector<double>& d) {
  const std::size_t half = d.size() / 2;
  const double unit = *std::max_element(d.begin(), d.begin() + static_cast<std::ptrdiff_t>(half)) / kUnits;
  const auto broken_by = [&](double units, std::size_t from, std::size_t to) {
    double broken = 0;
    for (std::size_t t = from; t < to; ++t) broken += d[t] > units * unit ? 1 : 0;
    return broken;
  };
  const double fixed = kUnits;  // the largest demand of the first half: breaks nothing there
  const double fixed_broken = broken_by(fixed, half, d.size());
  Rule best;
  double least = 1e300;
  const double allowed = broken_by(fixed, kDay, half) + 0.001 * static_cast<double>(half - kDay);
  for (const auto how : {Rule::Forecast::kLast, Rule::Forecast::kSmooth, Rule::Forecast::kYesterday, Rule::Forecast::kMax}) {
    for (double margin = 0; margin <= 1.001; margin += 0.02) {
      for (const std::size_t hold : {0, 3, 12, 36}) {
        const Rule rule{how, margin, hold};
        const Outcome o = play(d, kDay, half, unit, rule);
        if (o.broken <= allowed && o.cost < least) least = o.cost, best = rule;
      }
    }
  }
  if (least > 1e299) return table.note("A6, " + name + ": no rule kept the level on the first half");
  const Outcome o = play(d, half, d.size(), unit, best);
  double clairvoyant = 0;
  for (std::size_t t = half; t < d.size(); ++t) {
    double need = 0;  // with the start paid for, too
    for (std::size_t i = 0; i <= kStart && t + i < d.size(); ++i) need = std::max(need, std::ceil(d[t + i] / unit));
    clairvoyant += need;
  }
  const double steps = static_cast<double>(d.size() - half), all = fixed * steps;
  std::vector<double> days;
  for (const double day : o.days) days.push_back(day / (fixed * static_cast<double>(kDay)));
  days.pop_back();  // it may be cut short
  const Mean m = mean_of(days);
  const bool cheaper = o.cost / all <= 1 - kGoal, kept = o.broken <= fixed_broken + 0.001 * steps;
  const char* const names[] = {"the last step", "a mean that fades", "yesterday's rise", "the highest of three days"};
  table.add({"A6", "a limit by forecast costs 37 % less than a fixed one, and breaks no more",
             fmt::format("{}, {} days judged; a unit costs 1 a step, start 10 min", name, o.days.size()),
             fmt::format("fixed at the largest demand of the first half: breaks {:.0f} of {:.0f} steps", fixed_broken, steps),
             fmt::format("{}; breaks {:.0f}; clairvoyant {:+.1f} %; by {}, {:.0f} % on top, held {} steps",
                         percent({o.cost / all, m.half}), o.broken, (clairvoyant / all - 1) * 100,
                         names[static_cast<int>(best.forecast)], best.margin * 100, best.hold),
             cheaper && kept                 ? "met"
             : cheaper                       ? "cheaper, but breaks more"
             : clairvoyant / all > 1 - kGoal ? "not met: nor could it be, by the clairvoyant bound"
                                             : "not met"});
}

}  // namespace

void quota(Table& table, const Options&) {
  const struct {
    const char* file;
    const char* name;
    std::size_t column;
  } all[] = {{"series/nab_elb_request_count_8c0756.csv.gz", "requests at a load balancer (NAB ELB 8c0756), bursty", 1},
             {"series/nab_ec2_network_in_5abac7.csv.gz", "network input of a host (NAB EC2 5abac7), bursty", 1},
             {"series/azure_vm_cpu_5min_30d.csv.gz", "CPU of all VMs (Azure), smooth", 3}};
  for (const auto& each : all) {
    const std::string path = trace(each.file, table);
    if (path.empty()) continue;
    const std::vector<double> d = series(path, each.column);
    if (d.size() > 6 * kDay) judge(table, each.name, d);
  }
  table.note(
      "A6: the rule lives in the benchmark. The master has fixed limits of roles (bourse-master(8)) that an operator or a program "
      "changes live; it forecasts nothing by itself yet.");
}

}  // namespace bourse::claims
