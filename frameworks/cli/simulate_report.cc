// Numbers of a simulated run, for people, machines and other simulators.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "frameworks/cli/simulate_run.h"

namespace bourse::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kBatches = 20;
constexpr double kStudent = 2.093;  // 97.5 % of Student's t with 19 degrees of freedom
constexpr std::array kCompared = {"wait_batches_s", "bsld_batches"};

std::string hex(std::uint64_t value) { return fmt::format("{:016x}", value); }
double s(Duration d) { return static_cast<double>(d.count()) / 1e6; }

double slowdown(const sim::TraceJob& job) {
  return std::max(1.0, s(job.end - job.submit) / std::max(s(job.end - job.start), sim::kSlowdownBoundS));
}

struct User {
  std::string name;
  std::uint64_t jobs = 0;
  double core_hours = 0, wait = 0, longest = 0, bsld = 0;
};

std::vector<User> by_user(const SimulatedRun& run, const sim::Workload& work) {
  std::map<std::int32_t, User> users;
  for (const sim::TraceJob& job : run.jobs) {
    if (job.start < Duration(0)) continue;
    User& user = users[job.user];
    ++user.jobs;
    user.core_hours += s(job.end - job.start) * job.processors / 3600;
    user.wait += s(job.start - job.submit);
    user.longest = std::max(user.longest, s(job.start - job.submit));
    user.bsld += slowdown(job);
  }
  std::vector<User> out;
  for (auto& [id, user] : users) {
    const auto name = work.users.find(id);
    user.name = name != work.users.end() ? name->second : id < 0 ? "unknown" : std::to_string(id);
    const auto n = static_cast<double>(user.jobs);
    user.wait /= n, user.bsld /= n;
    out.push_back(std::move(user));
  }
  std::stable_sort(out.begin(), out.end(), [](const User& a, const User& b) { return a.core_hours > b.core_hours; });
  return out;
}

// Jain, Chiu and Hawe 1984: 1 where all are served alike, 1/n where one has it all.
double jain(const std::vector<User>& users) {
  double sum = 0, squares = 0;
  for (const User& user : users) sum += user.bsld, squares += user.bsld * user.bsld;
  return squares > 0 ? sum * sum / (static_cast<double>(users.size()) * squares) : 1;
}

std::map<sim::Wait, std::uint64_t> reasons(const SimulatedRun& run) {
  std::map<sim::Wait, std::uint64_t> out;
  for (const sim::Wait wait : {sim::Wait::kNone, sim::Wait::kRoom, sim::Wait::kReserved, sim::Wait::kOrder}) out[wait] = 0;
  for (const sim::TraceJob& job : run.jobs)
    if (job.start >= Duration(0)) ++out[static_cast<sim::Wait>(job.reason)];
  return out;
}

// Means of so many runs of neighbours in the trace: near ones depend on each other, such batches hardly.
template <class Value>
Json batches(const std::vector<sim::TraceJob>& jobs, const Value& value) {
  std::vector<double> sums(kBatches, 0), counts(kBatches, 0);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (jobs[i].start < Duration(0)) continue;
    const std::size_t b = i * kBatches / jobs.size();
    sums[b] += value(jobs[i]), counts[b] += 1;
  }
  Json out = Json::array();
  for (std::size_t b = 0; b < kBatches; ++b) out.push_back(counts[b] > 0 ? sums[b] / counts[b] : 0);
  return out;
}

std::string value_text(double value) {
  return std::abs(value) >= 100 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
}

}  // namespace

std::string run_json(const SimulatedRun& run, const sim::Workload& work, bool users) {
  const sim::Report& r = run.report;
  Json out;
  out["policy"] = run.name;
  out["jobs"] = r.jobs;
  out["refused"] = r.refused;
  if (r.refused > 0) out["first_refusal"] = r.first_refusal;
  out["left_out"] = work.left_out;
  if (!work.left_out_why.empty()) out["left_out_why"] = work.left_out_why;
  out["mean_wait_s"] = r.mean_wait_s;
  out["p95_wait_s"] = r.p95_wait_s;
  out["max_wait_s"] = r.max_wait_s;
  out["mean_bsld"] = r.mean_bsld;
  out["utilisation"] = r.utilisation;
  if (run.gpus > 0) out["gpu_alloc_percent"] = r.gpu_alloc_percent;
  out["makespan_s"] = r.makespan_s;
  out["schedule_hash"] = hex(r.schedule_hash);
  if (r.trace_hash != 0) out["trace_hash"] = hex(r.trace_hash);
  if (r.trace_hash == 0)  // through the wire nobody is asked
    for (const auto& [wait, count] : reasons(run)) out["waited_for"][std::string(text_of(wait))] = count;
  const std::vector<User> all = by_user(run, work);
  out["users"] = all.size();
  out["jain_bsld"] = jain(all);
  if (users) {
    for (const User& user : all)
      out["by_user"].push_back({{"user", user.name},
                                {"jobs", user.jobs},
                                {"core_hours", user.core_hours},
                                {"mean_wait_s", user.wait},
                                {"max_wait_s", user.longest},
                                {"mean_bsld", user.bsld}});
  }
  out["wait_batches_s"] = batches(run.jobs, [](const sim::TraceJob& job) { return s(job.start - job.submit); });
  out["bsld_batches"] = batches(run.jobs, slowdown);
  out["events"] = r.events;
  out["real_s"] = run.real_s;
  return out.dump();
}

std::string run_text(const SimulatedRun& run, const sim::Workload& work, bool users) {
  const sim::Report& r = run.report;
  std::string out = fmt::format("policy         {}\n", run.name);
  out += fmt::format("jobs           {}\n", r.jobs);
  if (work.left_out > 0) {
    out += fmt::format("left out       {} without submit time, run time or processors{}\n", work.left_out,
                       work.left_out_why.empty() ? "" : " (" + work.left_out_why + ")");
  }
  if (r.refused > 0) out += fmt::format("refused        {} (the first: {})\n", r.refused, r.first_refusal);
  out += fmt::format("wait           mean {:.1f} s, 95 % within {:.1f} s, longest {:.1f} s\n", r.mean_wait_s, r.p95_wait_s,
                     r.max_wait_s);
  out += fmt::format("slowdown       mean {:.2f} (bounded at 10 s)\n", r.mean_bsld);
  out += fmt::format("utilisation    {:.1f} %\n", r.utilisation * 100);
  if (run.gpus > 0) out += fmt::format("GPUs           {:.2f} % allocated\n", r.gpu_alloc_percent);
  out += fmt::format("makespan       {}\n", format_clock(seconds(static_cast<std::int64_t>(r.makespan_s))));
  auto why = reasons(run);
  if (r.trace_hash == 0)
    out += fmt::format("waited for     nothing {}, resources {}, a reservation {}, the order {}\n", why[sim::Wait::kNone],
                       why[sim::Wait::kRoom], why[sim::Wait::kReserved], why[sim::Wait::kOrder]);
  const std::vector<User> all = by_user(run, work);
  out += fmt::format("users          {}, evenness of their slowdowns {:.3f} (Jain; 1 is even)\n", all.size(), jain(all));
  out += fmt::format("schedule hash  {}\n", hex(r.schedule_hash));
  out += fmt::format("simulated      {} events in {:.1f} s, {:.0f} jobs/s, {:.0f} times real time\n", r.events, run.real_s,
                     run.real_s > 0 ? static_cast<double>(r.jobs) / run.real_s : 0.0,
                     run.real_s > 0 ? r.makespan_s / run.real_s : 0.0);
  if (!users) return out;
  out += fmt::format("\n{:<16} {:>8} {:>12} {:>12} {:>12} {:>10}\n", "USER", "JOBS", "CORE-HOURS", "MEAN WAIT/s", "LONGEST/s",
                     "SLOWDOWN");
  for (const User& user : all)
    out += fmt::format("{:<16} {:>8} {:>12.1f} {:>12.0f} {:>12.0f} {:>10.2f}\n", user.name, user.jobs, user.core_hours, user.wait,
                       user.longest, user.bsld);
  return out;
}

std::string run_csv(const SimulatedRun& run, const sim::Workload& work) {
  std::string out = "job,user,submit_s,start_s,end_s,wait_s,run_s,limit_s,processors,bsld,waited_for\n";
  for (const sim::TraceJob& job : run.jobs) {
    const auto name = work.users.find(job.user);
    const std::string user = name != work.users.end() ? name->second : std::to_string(job.user);
    const double base = s(work.origin);
    if (job.start < Duration(0)) {
      out += fmt::format("{},{},{:.6f},,,,{:.6f},{:.6f},{},,refused\n", job.number, user, base + s(job.submit), s(job.run),
                         s(job.limit), job.processors);
      continue;
    }
    out += fmt::format("{},{},{:.6f},{:.6f},{:.6f},{:.6f},{:.6f},{:.6f},{},{:.6f},{}\n", job.number, user, base + s(job.submit),
                       base + s(job.start), base + s(job.end), s(job.start - job.submit), s(job.end - job.start), s(job.limit),
                       job.processors, slowdown(job), text_of(static_cast<sim::Wait>(job.reason)));
  }
  return out;
}

std::string run_swf(const SimulatedRun& run, const sim::Workload& work) {
  std::string out =
      fmt::format("; Version: 2.2\n; Computer: simulated, {} nodes, {} cores\n; Conversion: bourse simulate, {}\n; MaxProcs: {}\n",
                  run.nodes, run.processors, run.name, run.processors);
  for (const auto& [name, value] : work.header)
    if (name == "UnixStartTime" || name == "TimeZone" || name == "TimeZoneString") out += fmt::format("; {}: {}\n", name, value);
  const auto whole = [](Duration d) { return std::chrono::floor<seconds>(d).count(); };
  for (const sim::TraceJob& job : run.jobs) {
    const bool ran = job.start >= Duration(0);
    out += fmt::format("{} {} {} {} {} -1 -1 {} {} -1 {} {} -1 -1 -1 -1 -1 -1\n", job.number, whole(job.submit + work.origin),
                       ran ? whole(job.start - job.submit) : -1, ran ? whole(job.end - job.start) : -1,
                       ran ? std::int64_t{job.processors} : -1, job.processors, whole(job.limit), ran ? 1 : 5, job.user);
  }
  return out;
}

Result<Comparison> compare(const std::string& a, const std::string& b) {
  const Json x = Json::parse(a, nullptr, false), y = Json::parse(b, nullptr, false);
  const auto check = [](const Json& j, const char* which) -> Result<> {
    if (j.is_discarded() || !j.is_object() || !j.contains("wait_batches_s") || !j.contains("jobs"))
      return Error(Code::kInvalid, std::string("the ") + which + " is not what bourse simulate --json prints");
    return {};
  };
  BOURSE_TRY(check(x, "first"));
  BOURSE_TRY(check(y, "second"));
  if (x["jobs"] != y["jobs"])
    return Error(Code::kInvalid, fmt::format("the runs are of different jobs ({} and {}); only runs of one trace can be compared",
                                             x["jobs"].dump(), y["jobs"].dump()));
  Comparison out;
  const auto number = [](const Json& j, const char* name) {
    return j.contains(name) && j[name].is_number() ? j[name].get<double>() : 0.0;
  };
  for (const char* const name : kCompared) {
    const Json &p = x[name], &q = y[name];
    if (!p.is_array() || !q.is_array() || p.size() != kBatches || q.size() != kBatches)
      return Error(Code::kInvalid, fmt::format("{} is missing", name));
    double sum = 0, squares = 0;
    for (std::size_t i = 0; i < kBatches; ++i) {
      if (!p[i].is_number() || !q[i].is_number())
        return Error(Code::kInvalid, fmt::format("{} holds something else than numbers", name));
      const double d = q[i].get<double>() - p[i].get<double>();
      sum += d, squares += d * d;
    }
    const double n = kBatches, mean = sum / n, variance = std::max(0.0, (squares - n * mean * mean) / (n - 1));
    const char* const field = name == kCompared[0] ? "mean_wait_s" : "mean_bsld";
    out.lines.push_back({field, number(x, field), number(y, field), mean, kStudent * std::sqrt(variance / n)});
  }
  for (const char* const name : {"p95_wait_s", "max_wait_s", "utilisation", "makespan_s", "jain_bsld"})
    out.lines.push_back({name, number(x, name), number(y, name), number(y, name) - number(x, name), 0});
  return out;
}

std::string comparison_text(const Comparison& c, const std::string& a, const std::string& b) {
  std::string out = fmt::format("A: {}\nB: {}\n\n{:<14} {:>12} {:>12} {:>24}\n", a, b, "", "A", "B", "B - A (95 %)");
  for (const Comparison::Line& line : c.lines) {
    std::string difference = value_text(line.difference);
    if (line.half > 0) difference += " +- " + value_text(line.half);
    out += fmt::format("{:<14} {:>12} {:>12} {:>24}{}\n", line.name, value_text(line.a), value_text(line.b), difference,
                       line.half <= 0 ? ""
                       : line.clear() ? (line.difference < 0 ? "  B is better" : "  A is better")
                                      : "  no clear difference");
  }
  return out;
}

std::string comparison_json(const Comparison& c) {
  Json out;
  for (const Comparison::Line& line : c.lines) {
    Json one = {{"a", line.a}, {"b", line.b}, {"difference", line.difference}};
    if (line.half > 0) one["half_width_95"] = line.half, one["clear"] = line.clear();
    out[line.name] = one;
  }
  return out.dump();
}

Result<Judged> judge(const std::string& assertion, const std::string& json) {
  const std::size_t at = assertion.find_first_of("<>=!");
  const auto bad = [&](const std::string& why) { return Error(Code::kInvalid, "assertion \"" + assertion + "\": " + why); };
  if (at == std::string::npos || at == 0) return bad("write NAME<NUMBER, as in p95_wait<3600");
  const std::string op = assertion.substr(at, assertion.size() > at + 1 && assertion[at + 1] == '=' ? 2 : 1);
  std::string name = assertion.substr(0, at), limit = assertion.substr(at + op.size());
  name.erase(name.find_last_not_of(' ') + 1), name.erase(0, name.find_first_not_of(' '));
  limit.erase(0, limit.find_first_not_of(' ')), limit.erase(limit.find_last_not_of(' ') + 1);
  if (op != "<" && op != "<=" && op != ">" && op != ">=" && op != "==" && op != "!=")
    return bad("\"" + op + "\" is none of < <= > >= == !=");
  const Json all = Json::parse(json, nullptr, false);
  if (!all.contains(name) && all.contains(name + "_s")) name += "_s";
  if (!all.contains(name) || !all[name].is_number()) {
    std::string known;
    for (const auto& [key, value] : all.items())
      if (value.is_number()) known += (known.empty() ? "" : ", ") + key;
    return bad("there is no number \"" + name + "\"; there are " + known);
  }
  double wanted = 0;
  std::size_t read = 0;
  try {
    wanted = std::stod(limit, &read);
  } catch (const std::exception&) { read = 0; }
  if (read != limit.size() || limit.empty()) {
    auto duration = name.ends_with("_s") ? parse_duration(limit) : Result<Duration>(Error(Code::kInvalid, ""));
    if (!duration) return bad("\"" + limit + "\" is no number" + (name.ends_with("_s") ? " and no duration such as 2h" : ""));
    wanted = s(*duration);
  }
  const double value = all[name].get<double>();
  Judged out;
  out.holds = op == "<"    ? value < wanted
              : op == "<=" ? value <= wanted
              : op == ">"  ? value > wanted
              : op == ">=" ? value >= wanted
              : op == "==" ? value == wanted
                           : value != wanted;
  out.text = fmt::format("{} is {:g}, {} {} {:g}", name, value, out.holds ? "as asked" : "not", op, wanted);
  return out;
}

}  // namespace bourse::cli
