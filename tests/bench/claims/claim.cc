#include "tests/bench/claims/claim.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "common/sim/lines.h"

namespace bourse::claims {
namespace {

constexpr std::size_t kBatches = 20;
// 97.5 % of Student's t by degrees of freedom, from 1.
constexpr std::array kStudent = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
                                 2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093};
constexpr double kBoundS = 10;

double s(Duration d) { return static_cast<double>(d.count()) / 1e6; }

std::vector<std::string> wrapped(const std::string& text, std::size_t width) {
  std::vector<std::string> out(1);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    if (!out.back().empty() && out.back().size() + 1 + word.size() > width) out.emplace_back();
    out.back() += (out.back().empty() ? "" : " ") + word;
    at = end + 1;
  }
  return out;
}

}  // namespace

Mean mean_of(const std::vector<double>& values) {
  Mean out;
  if (values.empty()) return out;
  const auto n = static_cast<double>(values.size());
  for (const double v : values) out.mean += v / n;
  if (values.size() < 2) return out;
  double squares = 0;
  for (const double v : values) squares += (v - out.mean) * (v - out.mean);
  const double t = kStudent[std::min(values.size() - 2, kStudent.size() - 1)];
  out.half = t * std::sqrt(squares / (n - 1) / n);
  return out;
}

void Table::add(Claim claim) {
  fmt::print("{}: {}; {}: {}\n", claim.row, claim.claim, claim.workload, claim.verdict);
  std::fflush(stdout);
  claims_.push_back(std::move(claim));
}
void Table::note(const std::string& text) {
  if (std::find(notes_.begin(), notes_.end(), text) == notes_.end()) notes_.push_back(text);
}

std::string Table::text() const {
  constexpr std::array<std::size_t, 6> kWidth = {5, 24, 24, 20, 30, 22};
  std::string out;
  const auto line = [&](const std::array<std::string, 6>& cells) {
    std::array<std::vector<std::string>, 6> lines;
    std::size_t height = 0;
    for (std::size_t c = 0; c < 6; ++c) lines[c] = wrapped(cells[c], kWidth[c]), height = std::max(height, lines[c].size());
    for (std::size_t h = 0; h < height; ++h) {
      std::string row;
      for (std::size_t c = 0; c < 6; ++c) row += fmt::format("{:<{}}  ", h < lines[c].size() ? lines[c][h] : "", kWidth[c]);
      row.erase(row.find_last_not_of(' ') + 1);
      out += row + "\n";
    }
  };
  line({"ROW", "CLAIM", "WORKLOAD", "BASELINE", "MEASURED (95 %)", "VERDICT"});
  for (const Claim& c : claims_) line({c.row, c.claim, c.workload, c.baseline, c.measured, c.verdict});
  for (const std::string& note : notes_) out += "\n" + note + "\n";
  return out;
}

std::string Table::markdown() const {
  std::string out = "| row | claim | workload | baseline | measured (95 %) | verdict |\n|---|---|---|---|---|---|\n";
  for (const Claim& c : claims_)
    out += fmt::format("| {} | {} | {} | {} | {} | {} |\n", c.row, c.claim, c.workload, c.baseline, c.measured, c.verdict);
  for (const std::string& note : notes_) out += "\n" + note + "\n";
  return out;
}

std::string trace(const std::string& name, Table& table) {
  const char* const set = std::getenv("BOURSE_TRACES");
  const std::string path = std::string(set != nullptr ? set : "../shared/traces") + "/" + name;
  if (access(path.c_str(), R_OK) == 0) return path;
  table.note("skipped: " + name + " is not there (BOURSE_TRACES names the directory of traces)");
  return {};
}

double Log::load() const {
  double done = 0;
  for (const sim::TraceJob& job : work.jobs) done += s(std::min(job.run, job.limit)) * job.processors;
  return work.jobs.empty() ? 0 : done / (std::max(1.0, s(work.jobs.back().submit)) * processors);
}

std::optional<Log> read_log(const std::string& file, std::uint32_t processors, std::size_t jobs_max, Table& table) {
  const std::string path = trace("swf/" + file + ".swf.gz", table);
  if (path.empty()) return std::nullopt;
  auto lines = sim::Lines::open(path);
  if (!lines) return table.note(lines.error().text()), std::nullopt;
  sim::ReadOptions options;
  options.jobs_max = jobs_max;
  auto work = sim::workload_of_swf(*lines, options);
  if (!work) return table.note(work.error().text()), std::nullopt;
  Log log{file.substr(0, file.find("-20") == std::string::npos ? file.size() : file.find("-20")), *std::move(work), processors};
  std::erase_if(log.work.jobs, [&](const sim::TraceJob& job) { return job.processors > processors; });
  return log;
}

std::vector<sim::TraceJob> run(const Log& log, std::vector<sim::TraceJob> jobs, const std::string& policy, std::string* learnt,
                               std::uint64_t seed) {
  batch::ReplayOptions options;
  options.nodes[0].cores = log.processors;
  options.origin = log.work.origin;
  const auto choice = policy::Catalog().find(policy);
  BOURSE_ASSERT(bool(choice), choice ? "" : choice.error().text());
  auto order = batch::policy_order(*choice, seed);
  BOURSE_ASSERT(bool(order), order ? "" : order.error().text());
  if (learnt != nullptr && !learnt->empty()) BOURSE_ASSERT((*order)->load(*learnt), policy);
  options.order = order->get();
  const auto report = batch::replay(jobs, options);
  BOURSE_ASSERT(bool(report), report ? "" : report.error().text());
  if (learnt != nullptr) *learnt = (*order)->save();
  return jobs;
}

double completion_s(const sim::TraceJob& job) { return s(job.end - job.submit); }
double wait_s(const sim::TraceJob& job) { return s(job.start - job.submit); }
double slowdown(const sim::TraceJob& job) {
  return std::max(1.0, s(job.end - job.submit) / std::max(s(job.end - job.start), kBoundS));
}

double mean(const std::vector<sim::TraceJob>& jobs, Value value) {
  double sum = 0, n = 0;
  for (const sim::TraceJob& job : jobs)
    if (job.start >= Duration(0)) sum += value(job), n += 1;
  return n > 0 ? sum / n : 0;
}

// The interval is that of the batches' differences, over the base's mean.
Mean ratio(const std::vector<sim::TraceJob>& jobs, const std::vector<sim::TraceJob>& base, Value value) {
  std::vector<double> differences(kBatches, 0), counts(kBatches, 0);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (jobs[i].start < Duration(0) || base[i].start < Duration(0)) continue;
    const std::size_t b = i * kBatches / jobs.size();
    differences[b] += value(jobs[i]) - value(base[i]), counts[b] += 1;
  }
  for (std::size_t b = 0; b < kBatches; ++b) differences[b] /= std::max(counts[b], 1.0);
  const double of = std::max(mean(base, value), 1e-9);
  const Mean difference = mean_of(differences);
  return {mean(jobs, value) / of, difference.half / of};
}

std::string percent(const Mean& r) {
  const double at = (r.mean - 1) * 100, half = r.half * 100;
  return half > 0 ? fmt::format("{:+.1f} % ({:+.1f} to {:+.1f})", at, at - half, at + half) : fmt::format("{:+.1f} %", at);
}

}  // namespace bourse::claims
