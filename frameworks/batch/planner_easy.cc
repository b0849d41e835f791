// One reservation, for the first that waits: none, easy and easy-count.
#include <algorithm>
#include <utility>

#include "common/core/hooks.h"
#include "frameworks/batch/planner.h"

namespace bourse::batch {
namespace {

std::string_view family(std::string_view kind) { return kind.substr(0, kind.find('/')); }

void add_devices(Counters& to, std::string_view kind, std::int64_t permille) {
  to.set(family(kind), to.get(family(kind)) + permille);
}

std::int64_t permille_of(bool whole, const Counters& counters) {
  const std::int64_t compute = counters.get("compute");
  return whole || compute == 0 ? 1000 : compute;
}

void count(Planner::Totals& to, const Amount& amount) {
  to.cpus += amount.cpus().value, to.mem += amount.mem().value;
  if (amount.rest() == nullptr) return;
  for (const DeviceShare& share : amount.rest()->devices)
    add_devices(to.devices, share.kind, permille_of(share.whole, share.counters));
}

Planner::Totals asked(const Need& need) {
  Planner::Totals out{need.shape.cpus.value * need.nodes, need.shape.mem.value * need.nodes, {}};
  for (const DeviceAsk& ask : need.shape.devices)
    add_devices(out.devices, ask.kind, permille_of(ask.whole, ask.counters) * ask.count * need.nodes);
  return out;
}

bool contains(const Planner::Totals& all, const Planner::Totals& part) {
  return part.cpus <= all.cpus && part.mem <= all.mem && all.devices.contains(part.devices);
}

void subtract(Planner::Totals& from, const Planner::Totals& part) {
  from.cpus -= part.cpus, from.mem -= part.mem;
  const bool done = static_cast<bool>(from.devices.subtract(part.devices));
  BOURSE_ASSERT(done, "devices");
}

}  // namespace

Planner::Reservation Planner::reserve(const Need& head, Duration now, Backfill backfill, Named named) const {
  if (backfill == Backfill::kEasyCount) return reserve_count(head, now);
  Reservation out;
  out.at = kNoLimit;
  out.named.resize(nodes_.size());
  fitting_.clear();
  by_time_.clear();
  ++stamp_;
  const auto room = [&](Node node, const Amount& free) {
    ++operations_;
    return fits(head.shape, free, nodes_[node].total, nodes_[node].labels);
  };
  const auto reserved = [&](Duration at) {
    out.at = at;
    if (named == Named::kLatest) {
      fitting_.clear();
      for (auto node = by_time_.rbegin(); node != by_time_.rend() && fitting_.size() < head.nodes; ++node) fitting_.insert(*node);
    }
    out.nodes.reserve(head.nodes);
    out.future.reserve(head.nodes);
    fitting_.each([&](Node node) {
      if (out.nodes.size() == head.nodes) return false;
      out.nodes.push_back(node);
      out.named.insert(node);
      out.future.push_back(stamps_[node] == stamp_ ? future_[node] : nodes_[node].free);
      return true;
    });
  };
  open_.each([&](Node node) {
    if (room(node, nodes_[node].free) && fitting_.insert(node)) by_time_.push_back(node);
    return true;
  });
  if (fitting_.size() >= head.nodes) return reserved(now), out;
  const Duration just_after = now + microseconds(1);
  for (auto it = ends_.begin(); it != ends_.end();) {
    const Duration at = std::max(it->first.first, just_after);
    if (at == kNoLimit) break;
    for (; it != ends_.end() && std::max(it->first.first, just_after) == at; ++it) {
      for (const Holding& holding : it->second->holdings) {
        ++operations_;
        Amount& future = future_[holding.node];
        if (stamps_[holding.node] != stamp_) {
          stamps_[holding.node] = stamp_;
          future = nodes_[holding.node].free;
        }
        if (future.add(holding.amount) && room(holding.node, future) && fitting_.insert(holding.node))
          by_time_.push_back(holding.node);
      }
    }
    if (fitting_.size() >= head.nodes) return reserved(at), out;
  }
  return out;
}

Planner::Reservation Planner::reserve_count(const Need& head, Duration now) const {
  Reservation out;
  out.at = kNoLimit;
  out.counted = true;
  const Totals wanted = asked(head);
  open_.each([&](Node node) {
    ++operations_;
    count(out.spare, nodes_[node].free);
    return true;
  });
  Duration at = now;
  for (auto it = ends_.begin();;) {
    if (contains(out.spare, wanted)) {
      out.at = at;
      subtract(out.spare, wanted);
      return out;
    }
    if (it == ends_.end()) return out;
    at = std::max(it->first.first, now + microseconds(1));
    if (at == kNoLimit) return out;
    for (; it != ends_.end() && std::max(it->first.first, now + microseconds(1)) == at; ++it) {
      for (const Holding& holding : it->second->holdings) {
        ++operations_;
        count(out.spare, holding.amount);
      }
    }
  }
}

bool Planner::allow(Reservation& reservation, const Need& head, const std::vector<Holding>& holdings, Duration end) const {
  if (end <= reservation.at || hooks::mutant("batch.backfill_ignores_reservation")) return true;
  if (reservation.counted) {
    Totals part;
    for (const Holding& holding : holdings) count(part, holding.amount);
    if (!contains(reservation.spare, part)) return false;
    subtract(reservation.spare, part);
    return true;
  }
  std::vector<std::pair<std::size_t, Amount>> left;
  for (const Holding& holding : holdings) {
    if (!reservation.named.contains(holding.node)) continue;
    const auto at = std::lower_bound(reservation.nodes.begin(), reservation.nodes.end(), holding.node);
    const auto index = static_cast<std::size_t>(at - reservation.nodes.begin());
    Amount rest = reservation.future[index];
    const PlannedNode& facts = nodes_[holding.node];
    if (!rest.subtract(holding.amount) || !fits(head.shape, rest, facts.total, facts.labels)) return false;
    left.emplace_back(index, std::move(rest));
  }
  for (auto& [index, rest] : left) reservation.future[index] = std::move(rest);
  return true;
}

bool Planner::spares(const Reservation& reservation, const Need& head, const Holding& holding, Duration end) const {
  if (end <= reservation.at || reservation.counted || !reservation.named.contains(holding.node)) return true;
  const auto at = std::lower_bound(reservation.nodes.begin(), reservation.nodes.end(), holding.node);
  const Amount& future = reservation.future[static_cast<std::size_t>(at - reservation.nodes.begin())];
  const Amount& part = holding.amount;
  if (future.rest() == nullptr && part.rest() == nullptr && is_plain(head.shape))
    return future.cpus().value - part.cpus().value >= head.shape.cpus.value &&
           future.mem().value - part.mem().value >= head.shape.mem.value;
  Amount rest = future;
  const PlannedNode& facts = nodes_[holding.node];
  return rest.subtract(holding.amount) && fits(head.shape, rest, facts.total, facts.labels);
}

template <class Queue>
void Planner::pass_easy(Duration now, Queue& queue, const PassOptions& options) {
  const auto begin = [&](Candidate& job, std::vector<Holding> holdings, bool backfilled) {
    for (const Holding& holding : holdings) {
      const bool taken = static_cast<bool>(nodes_[holding.node].free.subtract(holding.amount));
      BOURSE_ASSERT(taken, std::to_string(job.job));
      reopen(holding.node);
    }
    profile_valid_ = false;
    job.started = true;
    begin_run(job.job, end_of(now, job.limit), holdings);
    queue.started(Start{job.job, std::move(holdings), backfilled});
  };
  Candidate* first = nullptr;
  while ((first = queue.next()) != nullptr) {
    auto holdings = place(*first->need);
    if (holdings.empty()) break;
    begin(*first, std::move(holdings), false);
  }
  if (first == nullptr) return;
  const Need& head = *first->need;
  first->verdict = Verdict::kNoRoom;
  if (options.backfill == Backfill::kNone || open_.empty() || options.depth == 0) return;
  const auto next = [&]() -> Candidate* {
    Candidate* job = options.behind != nullptr ? options.behind->next() : queue.next();
    return job == first ? options.behind->next() : job;
  };
  Candidate* job = next();
  if (job == nullptr) return;
  Reservation reservation = reserve(head, now, options.backfill);
  note_refused(head, false);
  const auto consider = [&] {
    ++operations_;
    const Duration end = end_of(now, job->limit);
    const bool beside = end > reservation.at && !reservation.counted && !hooks::mutant("batch.backfill_ignores_reservation");
    if (known_refused(*job->need, beside)) {
      if (!beside || known_refused(*job->need, false)) job->verdict = Verdict::kNoRoom;
      return;
    }
    auto holdings = place(*job->need, beside ? &reservation : nullptr, &head);
    if (holdings.empty()) {
      note_refused(*job->need, beside);
      job->verdict = beside ? Verdict::kReserved : Verdict::kNoRoom;
    } else if (!allow(reservation, head, holdings, end)) {
      job->verdict = Verdict::kReserved;
    } else {
      begin(*job, std::move(holdings), true);
    }
  };
  for (std::size_t looked = 0; job != nullptr; job = next()) {
    consider();
    if (open_.empty() || ++looked == options.depth) return;
  }
}

namespace {

class Span final : public Planner::Source {
 public:
  Span(std::span<Planner::Candidate> jobs, std::vector<Planner::Start>& out) : jobs_(jobs), out_(out) {}
  Planner::Candidate* next() override { return at_ < jobs_.size() ? &jobs_[at_++] : nullptr; }
  void started(Planner::Start start) override { out_.push_back(std::move(start)); }

 private:
  std::span<Planner::Candidate> jobs_;
  std::vector<Planner::Start>& out_;
  std::size_t at_ = 0;
};

}  // namespace

std::vector<Planner::Start> Planner::pass(Duration now, std::span<Candidate> queue, const PassOptions& options) {
  std::vector<Start> out;
  Span span(queue, out);
  refused_.clear();
  if (options.backfill == Backfill::kConservative)
    pass_conservative(now, span, options);
  else
    pass_easy(now, span, options);
  return out;
}

void Planner::pass(Duration now, Source& queue, const PassOptions& options) {
  refused_.clear();
  if (options.backfill == Backfill::kConservative)
    pass_conservative(now, queue, options);
  else
    pass_easy(now, queue, options);
}

}  // namespace bourse::batch
