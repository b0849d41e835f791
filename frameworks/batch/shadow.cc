#include "frameworks/batch/shadow.h"

#include <algorithm>
#include <tuple>

#include "common/core/hooks.h"
#include "common/core/units.h"
#include "frameworks/batch/policy_order.h"
#include "frameworks/batch/replay.h"

namespace bourse::batch {
namespace {

constexpr double kUsedShare = 0.05;  // of a job that ends, in the mean
constexpr Duration kLeastRun = seconds(1);

double s(Duration d) { return static_cast<double>(d.count()) / 1e6; }

}  // namespace

void Shadow::use(std::vector<policy::Choice> candidates) {
  candidates_ = std::move(candidates);
  findings_.clear();
  for (const policy::Choice& c : candidates_) findings_.emplace_back().policy = c.spec.text();
}

void Shadow::started(std::uint64_t number, const JobOrder::Waiting& job, Duration wall) {
  if (since_ < Duration(0)) since_ = wall;
  Past& past = past_[number];
  past = Past{job.user, job.priority, job.submitted, wall, Duration(-1), job.limit, *job.need};
  if (past_.size() > kShadowJobsMax) forget(wall);
}

void Shadow::ended(std::uint64_t number, Duration wall) {
  const auto it = past_.find(number);
  if (it == past_.end()) return;
  it->second.end = std::max(wall, it->second.start);
  if (it->second.limit <= Duration(0) || it->second.limit == kNoLimit) return;
  const double used = std::clamp(s(it->second.end - it->second.start) / s(it->second.limit), 0.0, 1.0);
  used_ = any_ended_ ? used_ + kUsedShare * (used - used_) : used;
  any_ended_ = true;
}

// Those that ended longest ago go; from the end of the last of them on, all is known.
void Shadow::forget(Duration wall) {
  std::vector<std::pair<Duration, std::uint64_t>> ends;
  for (const auto& [number, past] : past_)
    if (past.end >= Duration(0)) ends.emplace_back(past.end, number);
  std::sort(ends.begin(), ends.end());
  const std::size_t over = past_.size() > kShadowJobsMax ? past_.size() - kShadowJobsMax * 9 / 10 : 0;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (i >= over && ends[i].first + kShadowSpan >= wall) break;
    since_ = std::max(since_, ends[i].first);
    past_.erase(ends[i].second);
  }
  // All of them run: the newest are left out.
  while (past_.size() > kShadowJobsMax) past_.erase(std::prev(past_.end()));
}

bool Shadow::compare(Duration wall, const Settings& settings, const Allocations& cluster,
                     const std::vector<JobOrder::Waiting>& waiting) {
  if (candidates_.empty()) return false;
  forget(wall);
  const Duration from = since_ < Duration(0) ? wall : since_;

  std::vector<PlannedNode> nodes;
  for (const auto& [id, facts] : cluster.agents())
    if (facts.state == AgentFacts::State::kUp) nodes.push_back({Amount(facts.total), Amount(facts.total), facts.labels});
  std::vector<Need> needs;
  std::vector<std::int64_t> priorities;
  std::vector<sim::TraceJob> jobs;
  const auto add = [&](std::uint64_t number, std::int64_t user, std::int64_t priority, Duration submit, Duration limit,
                       Duration run, const Need& need) {
    sim::TraceJob job;
    job.number = static_cast<std::int64_t>(number);
    job.submit = std::max(submit, from) - from;
    job.run = std::max(run, kLeastRun), job.limit = std::max(limit, job.run);
    job.user = static_cast<std::int32_t>(std::clamp<std::int64_t>(user, -1, INT32_MAX));
    job.shape = static_cast<std::uint32_t>(needs.size());
    needs.push_back(need);
    priorities.push_back(priority);
    jobs.push_back(job);
  };
  const auto guess = [&](Duration limit) {
    return limit == kNoLimit ? kShadowSpan : Duration(static_cast<std::int64_t>(static_cast<double>(limit.count()) * used_));
  };
  for (const auto& [number, past] : past_) {
    const Duration run = past.end >= Duration(0) ? past.end - past.start : std::max(guess(past.limit), wall - past.start);
    if (past.start <= from) {  // it ran when this begins: it is there first, with what was left of it
      if (past.start + run <= from) continue;
      add(number, past.user, INT64_MAX, from, past.limit == kNoLimit ? kNoLimit : past.start + past.limit - from,
          past.start + run - from, past.need);
    } else {
      add(number, past.user, past.priority, std::max(past.submitted, from + microseconds(1)), past.limit, run, past.need);
    }
  }
  for (const JobOrder::Waiting& job : waiting)
    add(job.number, job.user, job.priority, std::max(job.submitted, from + microseconds(1)), job.limit, guess(job.limit),
        *job.need);

  std::vector<std::size_t> order(jobs.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::tuple(jobs[a].submit, -priorities[a], jobs[a].number) < std::tuple(jobs[b].submit, -priorities[b], jobs[b].number);
  });
  std::vector<sim::TraceJob> sorted;
  std::vector<std::int64_t> ranks;
  for (const std::size_t i : order) sorted.push_back(jobs[i]), ranks.push_back(priorities[i]);

  const auto play = [&](const policy::Choice& choice, std::vector<sim::TraceJob>& out) -> Result<> {
    policy::HostOptions host;
    host.name = "bourse-batch";
    host.guard = settings.guard, host.budget = settings.budget;
    std::unique_ptr<PolicyQueue> queue = BOURSE_TRY(policy_order(choice, std::move(host)));
    ReplayOptions options;
    options.cluster = &nodes, options.needs = &needs, options.priorities = &ranks;
    options.backfill = settings.backfill, options.depth = settings.depth;
    options.origin = from;
    options.order = queue.get();
    out = sorted;
    BOURSE_TRY(replay(out, options));
    if (const std::string fault = queue->fault(); !fault.empty()) return Error(Code::kInvalid, fault);
    return {};
  };
  std::vector<sim::TraceJob> live, other;
  const Result<> known = play(settings.live, live);
  bool news = false;
  for (std::size_t c = 0; c < candidates_.size(); ++c) {
    ShadowFinding found;
    found.policy = candidates_[c].spec.text();
    found.at = wall, found.since = from;
    if (const Result<> played = known ? play(candidates_[c], other) : known; !played) {
      found.fault = played.error().text();
    } else {
      std::vector<std::size_t> mine, theirs;
      double live_wait = 0, wait = 0;
      for (std::size_t i = 0; i < live.size(); ++i) {
        if (ranks[i] == INT64_MAX || live[i].start < Duration(0) || other[i].start < Duration(0)) continue;
        ++found.jobs;
        live_wait += s(live[i].start - live[i].submit), wait += s(other[i].start - other[i].submit);
        const Duration gap = live[i].start > other[i].start ? live[i].start - other[i].start : other[i].start - live[i].start;
        if (gap > kShadowMoved && !hooks::mutant("batch.shadow_sees_nothing")) ++found.moved;
        mine.push_back(i), theirs.push_back(i);
      }
      if (found.jobs > 0) {
        found.live_wait_s = live_wait / static_cast<double>(found.jobs), found.wait_s = wait / static_cast<double>(found.jobs);
        const auto by = [](const std::vector<sim::TraceJob>& all) {
          return [&all](std::size_t a, std::size_t b) { return std::tuple(all[a].start, a) < std::tuple(all[b].start, b); };
        };
        std::sort(mine.begin(), mine.end(), by(live));
        std::sort(theirs.begin(), theirs.end(), by(other));
        for (std::size_t i = 0; i < mine.size() && found.moved > 0; ++i) {
          if (mine[i] == theirs[i]) continue;
          found.live_job = static_cast<std::uint64_t>(live[mine[i]].number);
          found.job = static_cast<std::uint64_t>(other[theirs[i]].number);
          found.differs_at = from + std::min(live[mine[i]].start, other[theirs[i]].start);
          break;
        }
      }
    }
    const ShadowFinding& before = findings_[c];
    news = news || before.moved != found.moved || before.fault != found.fault || before.live_job != found.live_job ||
           before.job != found.job;
    findings_[c] = std::move(found);
  }
  return news;
}

}  // namespace bourse::batch
