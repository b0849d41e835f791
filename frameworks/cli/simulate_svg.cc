// Pictures of a simulated run: who ran where, how full the cluster was, and how long jobs waited.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "common/world/files.h"
#include "frameworks/cli/plot.h"
#include "frameworks/cli/simulate_run.h"

namespace bourse::cli {
namespace {

constexpr std::size_t kBoxesMax = 8000;  // more make a file that no viewer likes
constexpr std::size_t kColumns = 420, kRowsMax = 120;
constexpr std::size_t kCurvePoints = 600;

double s(Duration d) { return static_cast<double>(d.count()) / 1e6; }

double end_of(const SimulatedRun& run) {
  Duration last{1};
  for (const sim::TraceJob& job : run.jobs) last = std::max(last, job.end);
  return s(last);
}

std::string words(const SimulatedRun& run) {
  return fmt::format("{} jobs on {} nodes, {} cores; mean wait {:.0f} s, utilisation {:.1f} %", run.report.jobs, run.nodes,
                     run.processors, run.report.mean_wait_s, run.report.utilisation * 100);
}

// Each job a box; where those are too many, how busy each node was.
std::string gantt(const SimulatedRun& run, const std::string& trace) {
  const double until = end_of(run), nodes = static_cast<double>(std::max<std::uint64_t>(run.nodes, 1));
  const double height = std::clamp(nodes * 14, 180.0, 620.0);
  Panel panel("nodes over time", {"time since the first submission", 0, until, Axis::Kind::kSeconds},
              {"node", 0, nodes, Axis::Kind::kNumber}, 76, height);
  if (run.nodes == 1) {
    // All of it is on one node: jobs stacked by the cores they hold, lowest free ones first.
    panel = Panel("cores over time", {"time since the first submission", 0, until, Axis::Kind::kSeconds},
                  {"core", 0, static_cast<double>(run.processors), Axis::Kind::kNumber}, 76, 420);
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < run.jobs.size(); ++i)
      if (run.jobs[i].start >= Duration(0)) order.push_back(i);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return run.jobs[a].start < run.jobs[b].start; });
    if (order.size() <= kBoxesMax) {
      std::vector<Duration> free_from(run.processors, Duration(0));
      for (const std::size_t i : order) {
        const sim::TraceJob& job = run.jobs[i];
        std::uint32_t left = job.processors;
        for (std::size_t c = 0; c < free_from.size() && left > 0;) {
          std::size_t to = c;
          for (; to < free_from.size() && left > 0 && free_from[to] <= job.start; ++to, --left) free_from[to] = job.end;
          if (to > c)
            panel.box(s(job.start), static_cast<double>(c), s(job.end), static_cast<double>(to),
                      plot_colour(static_cast<std::size_t>(job.number)), 0.85,
                      fmt::format("job {}: {} cores", job.number, job.processors));
          c = std::max(to, c + 1);
        }
      }
      return plot_page("Who ran where", trace + " - " + run.name + " - " + words(run), {panel}, panel.bottom() + 50);
    }
  }
  if (run.places.size() <= kBoxesMax && run.nodes > 1) {
    for (const SimulatedRun::Place& place : run.places) {
      const sim::TraceJob& job = run.jobs[place.job];
      panel.box(s(job.start), place.first, s(job.end), place.last + 1.0, plot_colour(static_cast<std::size_t>(job.number)), 0.85,
                fmt::format("job {}: {} cores, waited {:.0f} s", job.number, job.processors, s(job.start - job.submit)));
    }
    return plot_page("Who ran where", trace + " - " + run.name + " - " + words(run), {panel}, panel.bottom() + 50);
  }
  const std::size_t rows = std::min<std::size_t>(kRowsMax, std::max<std::uint64_t>(run.nodes, 1));
  std::vector<double> busy(rows * kColumns, 0);
  const double column = until / kColumns, per_row = nodes / static_cast<double>(rows);
  for (const SimulatedRun::Place& place : run.places) {
    const double from = s(run.jobs[place.job].start), to = s(run.jobs[place.job].end);
    for (std::size_t r = static_cast<std::size_t>(place.first / per_row);
         r < rows && static_cast<double>(r) * per_row < place.last + 1.0; ++r) {
      const double share = (std::min((static_cast<double>(r) + 1) * per_row, place.last + 1.0) -
                            std::max(static_cast<double>(r) * per_row, double(place.first))) /
                           per_row;
      for (auto c = static_cast<std::size_t>(from / column); c < kColumns && static_cast<double>(c) * column < to; ++c) {
        const double overlap =
            std::min((static_cast<double>(c) + 1) * column, to) - std::max(static_cast<double>(c) * column, from);
        busy[r * kColumns + c] += std::max(overlap, 0.0) / column * share;
      }
    }
  }
  double most = 1;  // several jobs on a node add up: the fullest cell is dark
  for (const double b : busy) most = std::max(most, b);
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = 0; c < kColumns; ++c)
      if (const double b = busy[r * kColumns + c] / most; b > 0.01)
        panel.box(static_cast<double>(c) * column, static_cast<double>(r) * per_row, (static_cast<double>(c) + 1.02) * column,
                  (static_cast<double>(r) + 1.02) * per_row, plot_colour(0), b);
  return plot_page("How busy each node was", trace + " - " + run.name + " - " + words(run) + "; darker: more of the time", {panel},
                   panel.bottom() + 50);
}

// Amounts over time as a mean per column, exactly: each job's share of each column.
std::vector<double> over_time(const SimulatedRun& run, double until, bool waiting) {
  std::vector<double> ends(kCurvePoints + 1, 0), out(kCurvePoints, 0);
  const double column = until / kCurvePoints;
  std::vector<double> whole(kCurvePoints + 1, 0);  // differences: jobs that fill columns from here on
  for (const sim::TraceJob& job : run.jobs) {
    if (job.start < Duration(0)) continue;
    const double from = s(waiting ? job.submit : job.start), to = s(waiting ? job.start : job.end),
                 amount = waiting ? 1 : job.processors;
    if (to <= from) continue;
    const auto first = std::min(static_cast<std::size_t>(from / column), kCurvePoints - 1),
               last = std::min(static_cast<std::size_t>(to / column), kCurvePoints - 1);
    if (first == last) {
      out[first] += amount * (to - from) / column;
      continue;
    }
    out[first] += amount * ((static_cast<double>(first) + 1) - from / column);
    out[last] += amount * (to / column - static_cast<double>(last));
    whole[first + 1] += amount, whole[last] -= amount;
  }
  double level = 0;
  for (std::size_t i = 0; i < kCurvePoints; ++i) out[i] += (level += whole[i]);
  return out;
}

std::string utilisation(const SimulatedRun& run, const std::string& trace) {
  const double until = end_of(run), column = until / kCurvePoints,
               cores = static_cast<double>(std::max<std::uint64_t>(run.processors, 1));
  const Axis time{"time since the first submission", 0, until, Axis::Kind::kSeconds};
  const auto steps = [&](const std::vector<double>& values, double by) {
    Panel::Points points;
    for (std::size_t i = 0; i < values.size(); ++i) {
      points.emplace_back(static_cast<double>(i) * column, values[i] / by);
      points.emplace_back(static_cast<double>(i + 1) * column, values[i] / by);
    }
    return points;
  };
  Panel busy("cores in use", time, {"of all cores", 0, 1, Axis::Kind::kPercent}, 76, 220);
  busy.area(steps(over_time(run, until, false), cores), plot_colour(0), 0.75);
  busy.level(run.report.utilisation, fmt::format("mean {:.1f} %", run.report.utilisation * 100));
  const std::vector<double> waiting = over_time(run, until, true);
  const double most = std::max(1.0, *std::max_element(waiting.begin(), waiting.end()));
  Panel queue("jobs waiting", time, {"jobs", 0, most * 1.08, Axis::Kind::kNumber}, 380, 160);
  queue.area(steps(waiting, 1), plot_colour(1), 0.75);
  return plot_page("How full the cluster was", trace + " - " + run.name + " - " + words(run), {busy, queue}, queue.bottom() + 50);
}

std::string waits(const std::vector<SimulatedRun>& runs, const std::string& trace) {
  double longest = 10;
  for (const SimulatedRun& run : runs) longest = std::max(longest, run.report.max_wait_s);
  Panel share("share of the jobs that waited at most so long",
              {"wait (logarithmic; up to a second at the left edge)", 1, longest * 1.05, Axis::Kind::kLogSeconds},
              {"of the jobs", 0, 1, Axis::Kind::kPercent}, 76, 300);
  std::vector<std::pair<std::string, std::string>> names;
  // By size of the job: the mean wait in classes of processors, powers of two.
  std::map<std::size_t, std::vector<std::pair<double, std::uint64_t>>> classes;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    std::vector<double> waits;
    for (const sim::TraceJob& job : runs[r].jobs) {
      if (job.start < Duration(0)) continue;
      waits.push_back(s(job.start - job.submit));
      auto& cell = classes[static_cast<std::size_t>(std::ceil(std::log2(job.processors)))];
      cell.resize(runs.size());
      cell[r].first += waits.back(), ++cell[r].second;
    }
    if (waits.empty()) continue;
    std::sort(waits.begin(), waits.end());
    Panel::Points points;
    const std::size_t n = waits.size();
    points.emplace_back(
        1, static_cast<double>(std::upper_bound(waits.begin(), waits.end(), 1.0) - waits.begin()) / static_cast<double>(n));
    for (std::size_t i = 0; i <= kCurvePoints; ++i) {
      const std::size_t at = std::min(n - 1, i * n / kCurvePoints);
      if (waits[at] > 1) points.emplace_back(waits[at], static_cast<double>(at + 1) / static_cast<double>(n));
    }
    points.emplace_back(longest * 1.05, 1);
    share.line(points, plot_colour(r), r == 0 ? "" : r == 1 ? "8,3" : "2,3");
    names.emplace_back(std::string(plot_colour(r)), fmt::format("{} (mean {:.0f} s)", runs[r].name, runs[r].report.mean_wait_s));
  }
  share.level(0.95, "95 %");
  share.legend(names);
  double most = 1;
  for (const auto& [size, cells] : classes)
    for (const auto& [sum, n] : cells) most = std::max(most, n == 0 ? 0 : sum / static_cast<double>(n));
  const double count = static_cast<double>(std::max<std::size_t>(classes.size(), 1));
  Panel sizes("mean wait by the size of the job", {"cores, up to", 0, count, Axis::Kind::kNumber},
              {"mean wait", 0, most * 1.08, Axis::Kind::kSeconds}, 480, 180);
  sizes.names_below();
  double at = 0;
  for (const auto& [size, cells] : classes) {
    const double width = 0.8 / static_cast<double>(runs.size());
    for (std::size_t r = 0; r < cells.size(); ++r)
      if (cells[r].second > 0)
        sizes.box(at + 0.1 + width * static_cast<double>(r), 0, at + 0.1 + width * static_cast<double>(r + 1),
                  cells[r].first / static_cast<double>(cells[r].second), plot_colour(r), 0.85,
                  fmt::format("{} jobs", cells[r].second));
    sizes.name_below(at + 0.5, fmt::format("{}", std::uint64_t{1} << size));
    at += 1;
  }
  return plot_page("How long jobs waited", trace, {share, sizes}, sizes.bottom() + 50);
}

}  // namespace

Result<std::vector<std::string>> write_plots(const std::string& directory, const std::vector<SimulatedRun>& runs,
                                             const std::string& trace) {
  BOURSE_TRY(make_directories(directory));
  std::vector<std::string> out;
  const auto write = [&](const std::string& name, const std::string& text) -> Result<> {
    out.push_back(directory + "/" + name);
    return write_file(out.back(), text, 0644);
  };
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const std::string number = runs.size() == 1 ? "" : "-" + std::to_string(r + 1);
    BOURSE_TRY(write("gantt" + number + ".svg", gantt(runs[r], trace)));
    BOURSE_TRY(write("utilisation" + number + ".svg", utilisation(runs[r], trace)));
  }
  BOURSE_TRY(write("waits.svg", waits(runs, trace)));
  return out;
}

}  // namespace bourse::cli
