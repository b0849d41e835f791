// A6 on a trace of requests: how many workers may run, by forecast, against a number that stands still.
//
// Requests for images at a service of generated pictures (Alibaba GenAI, 2026), each with the time that it took. A worker serves one at
// a time, in order of arrival; one that is asked for costs from then on and serves after kStart seconds, the 99 % value of how long
// loading a base model took in the same cluster. A request is broken that waits over a minute. Every minute a rule says how many workers
// may run; who is taken back ends what it does first. Rules are chosen on the first half of the days (the cheapest that breaks at most one in a
// thousand there) and judged on the second; the fixed number is the least that does so on the first half.
// The clairvoyant knows every request: a worker stands ready at each arrival, and between two requests it is kept where that is
// cheaper than starting it again. Nobody who serves all at once can cost less.
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <queue>

#include "common/sim/lines.h"
#include "tests/bench/claims/claim.h"

namespace bourse::claims {
namespace {

constexpr double kStep = 60, kBroken = 60, kLevel = 0.001, kGoal = 0.37, kDay = 86'400, kHour = 3'600;

struct Request {
  double at = 0, takes = 0;  // seconds
};

// A field of a line without quotes; "" where there is none.
std::string field(std::string_view line, std::size_t column) {
  for (; column > 0; --column) {
    const std::size_t comma = line.find(',');
    if (comma == std::string_view::npos) return {};
    line.remove_prefix(comma + 1);
  }
  return std::string(line.substr(0, line.find(',')));
}

std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> out;
  auto lines = sim::Lines::open(path);
  std::string_view line;
  while (lines) {
    auto more = lines->next(line);
    if (!more || !*more) break;
    out.emplace_back(line);
  }
  if (!out.empty()) out.erase(out.begin());  // names of columns
  return out;
}

std::vector<Request> requests(const std::string& path) {
  std::vector<Request> out;
  for (const std::string& line : lines_of(path)) {
    struct tm when {};
    if (strptime(field(line, 0).c_str(), "%Y-%m-%d %H:%M:%S", &when) == nullptr) continue;
    const double takes = std::strtod(field(line, 3).c_str(), nullptr);
    if (takes > 0) out.push_back({static_cast<double>(timegm(&when)), takes});
  }
  std::stable_sort(out.begin(), out.end(), [](const Request& a, const Request& b) { return a.at < b.at; });
  if (out.empty()) return out;
  const double first = out.front().at;
  for (Request& r : out) r.at -= first;
  return out;
}

struct Rule {
  enum class Forecast { kNow, kMinutes, kAnHour, kYesterday } forecast = Forecast::kNow;
  double times = 1, more = 1, hold = 0;  // so many times what is forecast and so many more; what was asked for counts for so long
  double fixed = 0;                      // not a rule, but this many
};

struct Outcome {
  double cost = 0;  // worker seconds
  std::uint64_t broken = 0, requests = 0;
  std::vector<double> days;
};

class Service {
 public:
  Service(const std::vector<Request>& all, double from, double to, const Rule& rule, double start)
      : all_(all), from_(from), to_(to), start_(start), rule_(rule), serving_(static_cast<std::int64_t>(rule.fixed)) {
    if (rule.fixed == 0) serving_ = 1;
    while (next_ < all.size() && all[next_].at < from) ++next_;
    paid_until_ = from;
    out_.days.assign(static_cast<std::size_t>(std::ceil((to - from) / kDay)), 0);
  }
  Outcome run() {
    double control = rule_.fixed > 0 ? to_ : from_;
    while (true) {
      const double arrival = next_ < all_.size() && all_[next_].at < to_ ? all_[next_].at : 1e18,
                   end = ends_.empty() ? 1e18 : ends_.top(), ready = starting_.empty() ? 1e18 : starting_.front(),
                   look = control < to_ ? control : 1e18, now = std::min({arrival, end, ready, look});
      if (now >= 1e18) break;
      pay(now);
      if (now == end) {
        ends_.pop();
      } else if (now == ready) {
        starting_.pop_front(), ++serving_;
      } else if (now == arrival) {
        waiting_.push_back(all_[next_++]);
        recent_.push_back(waiting_.back());
        ++out_.requests;
      } else {
        control += kStep;
        ask(now);
      }
      serve(now);
    }
    pay(to_);
    return out_;
  }

 private:
  [[nodiscard]] double busy() const { return static_cast<double>(ends_.size()); }
  void pay(double now) {
    const double to = std::min(now, to_),
                 workers = std::max(static_cast<double>(serving_), busy()) + static_cast<double>(starting_.size());
    while (paid_until_ < to) {
      const auto day = static_cast<std::size_t>((paid_until_ - from_) / kDay);
      const double until = std::min(to, from_ + kDay * static_cast<double>(day + 1));
      out_.cost += workers * (until - paid_until_), out_.days[day] += workers * (until - paid_until_);
      paid_until_ = until;
    }
  }
  void serve(double now) {
    while (!waiting_.empty() && ends_.size() < static_cast<std::size_t>(std::max<std::int64_t>(serving_, 0))) {
      if (now - waiting_.front().at > kBroken) ++out_.broken;
      ends_.push(now + waiting_.front().takes);
      waiting_.pop_front();
    }
  }
  // Requests of the last `span` seconds as workers that they keep busy: by Little's law, arrivals a second times how long each takes.
  [[nodiscard]] double of_last(double now, double span) const {
    double work = 0;
    for (auto r = recent_.rbegin(); r != recent_.rend() && r->at >= now - span; ++r) work += r->takes;
    return work / span;
  }
  void ask(double now) {
    while (!recent_.empty() && recent_.front().at < now - kDay - kHour) recent_.pop_front();
    const double load = busy() + static_cast<double>(waiting_.size());
    double expected = load;
    if (rule_.forecast == Rule::Forecast::kMinutes) expected = std::max(load, of_last(now, 300));
    if (rule_.forecast == Rule::Forecast::kAnHour) expected = std::max(load, of_last(now, kHour));
    if (rule_.forecast == Rule::Forecast::kYesterday) {
      double work = 0;  // of the hour around this time yesterday
      for (const Request& r : recent_) {
        if (r.at > now - kDay + kHour / 2) break;
        if (r.at >= now - kDay - kHour / 2) work += r.takes;
      }
      expected = std::max(load, work / kHour);
    }
    asked_.emplace_back(now, std::max(1.0, std::ceil(rule_.times * expected + rule_.more)));
    while (asked_.front().first < now - rule_.hold) asked_.pop_front();
    double most = 1;
    for (const auto& [when, workers] : asked_) most = std::max(most, workers);
    auto change = static_cast<std::int64_t>(most) - serving_ - static_cast<std::int64_t>(starting_.size());
    for (; change > 0; --change) starting_.push_back(now + start_);
    for (; change < 0 && !starting_.empty(); ++change) starting_.pop_back();
    serving_ += change;  // those that are busy end what they do, and are paid for
  }

  const std::vector<Request>& all_;
  double from_, to_, start_, paid_until_ = 0;
  Rule rule_;
  std::int64_t serving_ = 1;
  std::size_t next_ = 0;
  std::deque<Request> waiting_, recent_;
  std::priority_queue<double, std::vector<double>, std::greater<>> ends_;
  std::deque<double> starting_;
  std::deque<std::pair<double, double>> asked_;
  Outcome out_;
};

// Levels of what is busy at once: the k-th worker is busy while at least k requests are; between, it is kept or started again.
double clairvoyant(const std::vector<Request>& all, double from, double to, double start) {
  std::vector<std::pair<double, int>> changes;
  for (const Request& r : all)
    if (r.at >= from && r.at < to) changes.emplace_back(r.at, 1), changes.emplace_back(r.at + r.takes, -1);
  std::sort(changes.begin(), changes.end());
  double cost = 0, last = from;
  std::size_t busy = 0;
  std::vector<double> idle_since;
  for (const auto& [at, change] : changes) {
    cost += static_cast<double>(busy) * (std::min(at, to) - std::min(last, to));
    last = at;
    if (change > 0) {
      if (busy == idle_since.size()) idle_since.push_back(-1e18);
      cost += std::min(start, at - idle_since[busy]);
      ++busy;
    } else {
      idle_since[--busy] = at;
    }
  }
  return cost;
}

// Workers that are busy, on the average.
double busy_workers(const std::vector<Request>& all, double from, double to) {
  double work = 0;
  for (const Request& r : all)
    if (r.at >= from && r.at < to) work += r.takes;
  return work / (to - from);
}

}  // namespace

void elastic(Table& table, const Options& options) {
  const std::string path = trace("cloud/alibaba_genai_requests_2026.csv.gz", table),
                    starts = trace("cloud/alibaba_genai_basemodel_update_latency.csv.gz", table);
  if (path.empty() || starts.empty()) return;
  const std::vector<Request> all = requests(path);
  std::vector<double> took;
  for (const std::string& line : lines_of(starts)) took.push_back(std::strtod(field(line, 1).c_str(), nullptr) / 1000);
  if (all.size() < 1000 || took.size() < 100) return table.note("A6: too few requests in " + path);
  std::sort(took.begin(), took.end());
  const double start = took[took.size() * 99 / 100], end = all.back().at, half = std::floor(end / 2 / kDay) * kDay;
  const auto play = [&](const Rule& rule, bool second) {
    return Service(all, second ? half : 0, second ? end : half, rule, start).run();
  };
  const auto kept = [](const Outcome& o) { return static_cast<double>(o.broken) <= kLevel * static_cast<double>(o.requests); };
  Rule fixed;
  for (fixed.fixed = 1; fixed.fixed < 100 && !kept(play(fixed, false)); ++fixed.fixed) continue;
  Rule best;
  double least = 1e300;
  for (const auto forecast :
       {Rule::Forecast::kNow, Rule::Forecast::kMinutes, Rule::Forecast::kAnHour, Rule::Forecast::kYesterday}) {
    for (const double times : {1.0, 1.5, 2.0}) {
      for (const double more : {1.0, 2.0, 3.0}) {
        for (const double hold : {300.0, 1'800.0}) {
          if (options.quick && (hold < 1'000 || more > 2 || times > 1.6)) continue;
          const Rule rule{forecast, times, more, hold, 0};
          const Outcome o = play(rule, false);
          if (kept(o) && o.cost < least) least = o.cost, best = rule;
        }
      }
    }
  }
  if (least > 1e299) return table.note("A6, requests: no rule kept the level on the first half");
  const Outcome base = play(fixed, true), o = play(best, true);
  std::vector<double> days;
  for (std::size_t d = 0; d + 1 < o.days.size(); ++d) days.push_back(o.days[d] / (fixed.fixed * kDay));
  const double ratio = o.cost / base.cost, bound = clairvoyant(all, half, end, start) / base.cost;
  const char* const names[] = {"what is busy and waits", "that or the last 5 min", "that or the last hour",
                               "that or this hour of yesterday"};
  table.add(
      {"A6", "a limit by forecast costs 37 % less than a fixed one, and breaks no more",
       fmt::format(
           "requests for pictures (Alibaba GenAI 2026), bursty: {} in {:.1f} days judged, load {:.2f} of the fixed number; a "
           "worker costs 1 a second from when it is asked for, starts in {:.0f} s (99 % of base models), a wait over {:.0f} s is "
           "broken, 1 in 1000 may be",
           o.requests, (end - half) / kDay, busy_workers(all, half, end) / fixed.fixed, start, kBroken),
       fmt::format("fixed at {:.0f} workers, the least that keeps the level in the first half: breaks {}", fixed.fixed,
                   base.broken),
       fmt::format("{}; breaks {}; clairvoyant {:+.1f} %; {:.1f} x {} + {:.0f}, held {:.0f} min",
                   percent({ratio, mean_of(days).half}), o.broken, (bound - 1) * 100, best.times,
                   names[static_cast<int>(best.forecast)], best.more, best.hold / 60),
       ratio > 1 - kGoal        ? "not met"
       : o.broken > base.broken ? "cheaper, but breaks more"
                                : "met"});
}

}  // namespace bourse::claims
