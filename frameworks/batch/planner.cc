#include "frameworks/batch/planner.h"

#include <algorithm>
#include <utility>

#include "common/core/hooks.h"

namespace bourse::batch {
namespace {

// now + limit, without running over the end of time.
Duration end_of(Duration now, Duration limit) { return limit > kNoLimit - now ? kNoLimit : now + limit; }

}  // namespace

Planner::Node Planner::add_node(Resources total, Labels labels, Resources free) {
  nodes_.push_back({std::move(total), {}, std::move(labels)});
  const Node node = static_cast<Node>(nodes_.size() - 1);
  set_free(node, std::move(free));
  return node;
}

void Planner::set_node(Node node, Resources total, Labels labels) {
  nodes_[node].total = std::move(total);
  nodes_[node].labels = std::move(labels);
}

void Planner::set_free(Node node, Resources free) {
  nodes_[node].free = std::move(free);
  reopen(node);
}

void Planner::reopen(Node node) {
  if (nodes_[node].free.cpus.value > 0)
    open_.insert(node);
  else
    open_.erase(node);
}

void Planner::start(RunId run, Duration end, std::vector<Holding> holdings) {
  finish(run);
  ends_.emplace(end, run);
  runs_[run] = Run{end, std::move(holdings)};
}

void Planner::finish(RunId run) {
  auto it = runs_.find(run);
  if (it == runs_.end()) return;
  ends_.erase({it->second.end, run});
  runs_.erase(it);
}

Result<> Planner::take(const Holding& holding) {
  BOURSE_TRY(nodes_[holding.node].free.subtract(holding.amount));
  reopen(holding.node);
  return {};
}

Result<> Planner::give(const Holding& holding) {
  BOURSE_TRY(nodes_[holding.node].free.add(holding.amount));
  reopen(holding.node);
  return {};
}

const std::vector<Planner::Holding>* Planner::holdings(RunId run) const {
  auto it = runs_.find(run);
  return it == runs_.end() ? nullptr : &it->second.holdings;
}

bool Planner::fits_on(const Shape& shape, Node node, const Resources& free) const {
  return fits(shape, free, nodes_[node].total, nodes_[node].labels) == Misfit::kNone;
}

std::vector<Planner::Holding> Planner::place(const Need& need) const {
  std::vector<Holding> out;
  for (Node node : open_) {
    auto carved = carve(need.shape, nodes_[node].free, nodes_[node].total, nodes_[node].labels);
    if (!carved) continue;
    out.push_back({node, *std::move(carved)});
    if (out.size() == need.nodes) return out;
  }
  return {};
}

Planner::Reservation Planner::reserve(const Need& head, Duration now) const {
  Reservation out{kNoLimit, {}, {}};
  std::set<Node> fitting;
  std::vector<Node> by_time;  // the same, in the order in which they become free enough
  std::map<Node, Resources> future;
  const auto fits_from_here = [&](Node node) {
    if (fitting.insert(node).second) by_time.push_back(node);
  };
  for (auto it = open_.begin(); it != open_.end() && fitting.size() < head.nodes; ++it)
    if (fits_on(head.shape, *it, nodes_[*it].free)) fits_from_here(*it);
  // Where there are more than the head needs, it waits for those that come last: what is free before is for others to use, as when
  // processors are only counted.
  auto reserved = [&](Duration at) {
    out.at = at;
    for (auto node = by_time.rbegin(); node != by_time.rend() && out.nodes.size() < head.nodes; ++node) {
      out.nodes.push_back(*node);
      auto known = future.find(*node);
      out.future.emplace(*node, known == future.end() ? nodes_[*node].free : known->second);
    }
    std::sort(out.nodes.begin(), out.nodes.end());
  };
  if (fitting.size() >= head.nodes) return reserved(now), out;
  const Duration just_after = now + microseconds(1);
  for (auto it = ends_.begin(); it != ends_.end();) {
    const Duration at = std::max(it->first, just_after);
    if (at == kNoLimit) break;
    std::set<Node> touched;
    for (; it != ends_.end() && std::max(it->first, just_after) == at; ++it) {
      for (const Holding& holding : runs_.at(it->second).holdings) {
        auto [slot, fresh] = future.try_emplace(holding.node);
        if (fresh) slot->second = nodes_[holding.node].free;
        if (slot->second.add(holding.amount)) touched.insert(holding.node);
      }
    }
    for (Node node : touched)
      if (fits_on(head.shape, node, future.at(node))) fits_from_here(node);
    if (fitting.size() >= head.nodes) return reserved(at), out;
  }
  return out;
}

bool Planner::allow(Reservation& reservation, const Need& head, const std::vector<Holding>& holdings, Duration end) const {
  if (end <= reservation.at || hooks::mutant("batch.backfill_ignores_reservation")) return true;
  std::vector<std::pair<Node, Resources>> left;
  for (const Holding& holding : holdings) {
    auto it = reservation.future.find(holding.node);
    if (it == reservation.future.end()) continue;
    Resources rest = it->second;
    if (!rest.subtract(holding.amount) || !fits_on(head.shape, holding.node, rest)) return false;
    left.emplace_back(holding.node, std::move(rest));
  }
  for (auto& [node, rest] : left) reservation.future[node] = std::move(rest);
  return true;
}

bool Planner::spares(const Reservation& reservation, const Need& head, const Holding& holding, Duration end) const {
  const auto reserved = reservation.future.find(holding.node);
  if (end <= reservation.at || reserved == reservation.future.end()) return true;
  Resources rest = reserved->second;
  return rest.subtract(holding.amount) && fits_on(head.shape, holding.node, rest);
}

std::vector<Planner::Start> Planner::pass(Duration now, const std::vector<Candidate>& queue, std::size_t depth) {
  std::vector<Start> out;
  const Candidate* head = nullptr;
  Reservation reservation;
  std::size_t looked = 0;
  for (const Candidate& job : queue) {
    if (open_.empty() || (head != nullptr && looked++ >= depth)) break;
    auto holdings = place(*job.need);
    if (holdings.empty()) {
      if (head == nullptr) {
        head = &job;
        reservation = reserve(*job.need, now);
      }
      continue;
    }
    if (head != nullptr && !allow(reservation, *head->need, holdings, end_of(now, job.limit))) continue;
    bool taken = true;
    for (const Holding& holding : holdings) taken = static_cast<bool>(take(holding)) && taken;
    BOURSE_ASSERT(taken, std::to_string(job.job));
    start(job.job, end_of(now, job.limit), holdings);
    out.push_back({job.job, std::move(holdings), head != nullptr});
  }
  return out;
}

}  // namespace bourse::batch
