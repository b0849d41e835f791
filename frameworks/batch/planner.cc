// What is free, what runs, and where something fits. The passes are in planner_easy.cc and planner_conservative.cc.
#include "frameworks/batch/planner.h"

#include <algorithm>
#include <utility>

#include "common/core/hooks.h"

namespace bourse::batch {

namespace {

constexpr std::size_t kRefusedMax = 8;

}  // namespace

Planner::Node Planner::add_node(Resources total, Labels labels, Resources free) {
  nodes_.push_back({{}, Amount(std::move(total)), std::move(labels)});
  open_.resize(nodes_.size());
  fitting_.resize(nodes_.size());
  future_.resize(nodes_.size());
  stamps_.resize(nodes_.size());
  const Node node = static_cast<Node>(nodes_.size() - 1);
  set_free(node, std::move(free));
  return node;
}

void Planner::set_node(Node node, Resources total, Labels labels) {
  nodes_[node].total = Amount(std::move(total));
  nodes_[node].labels = std::move(labels);
  profile_valid_ = false;
}

void Planner::set_free(Node node, Resources free) {
  nodes_[node].free = Amount(std::move(free));
  reopen(node);
  profile_valid_ = false;
}

void Planner::reopen(Node node) {
  if (nodes_[node].free.cpus().value > 0)
    open_.insert(node);
  else
    open_.erase(node);
  if (chooser_ != nullptr) chooser_->changed(node, nodes_[node]);
}

void Planner::choose_by(NodeChooser* chooser) {
  chooser_ = chooser;
  if (chooser_ != nullptr) chooser_->cluster(nodes_);
}

void Planner::begin_run(RunId run, Duration end, std::vector<Holding> holdings) {
  drop_run(run);
  Run& entry = runs_[run];
  entry = Run{end, end, std::move(holdings)};
  ends_.emplace(std::pair{end, run}, &entry);
}

void Planner::drop_run(RunId run) {
  auto it = runs_.find(run);
  if (it == runs_.end()) return;
  ends_.erase({it->second.end, run});
  runs_.erase(it);
}

void Planner::start(RunId run, Duration end, std::vector<Holding> holdings) {
  begin_run(run, end, std::move(holdings));
  promises_.erase(run);
  profile_valid_ = false;
}

const std::vector<Holding>* Planner::start_now(RunId run, const Need& need, Duration end) {
  auto chosen = place(need);
  if (chosen.empty()) return nullptr;
  for (const Holding& holding : chosen) {
    const bool taken = static_cast<bool>(take(holding));
    BOURSE_ASSERT(taken, std::to_string(run));
  }
  start(run, end, std::move(chosen));
  return holdings(run);
}

void Planner::finish(RunId run) {
  drop_run(run);
  profile_valid_ = false;
  freed_ = true;
}

void Planner::end_run(RunId run) {
  auto it = runs_.find(run);
  if (it == runs_.end()) return;
  if (profile_valid_) profile_.give(profile_.now(), it->second.until, it->second.holdings);
  for (const Holding& holding : it->second.holdings) {
    const bool given = static_cast<bool>(nodes_[holding.node].free.add(holding.amount));
    BOURSE_ASSERT(given, std::to_string(run));
    reopen(holding.node);
  }
  drop_run(run);
  freed_ = true;
}

Result<> Planner::take(const Holding& holding) {
  BOURSE_TRY(nodes_[holding.node].free.subtract(holding.amount));
  reopen(holding.node);
  profile_valid_ = false;
  return {};
}

Result<> Planner::give(const Holding& holding) {
  BOURSE_TRY(nodes_[holding.node].free.add(holding.amount));
  reopen(holding.node);
  profile_valid_ = false;
  return {};
}

const std::vector<Holding>* Planner::holdings(RunId run) const {
  auto it = runs_.find(run);
  return it == runs_.end() ? nullptr : &it->second.holdings;
}

// Of the nodes in chosen_ those that the chooser likes best. A device that it names is the only one shown to the carving.
std::vector<Holding> Planner::place_by_score(const Need& need) const {
  std::vector<Holding> out;
  scored_.clear();
  for (const Node node : chosen_) scored_.push_back({node, UINT32_MAX});
  chooser_->choose(need, scored_);
  if (scored_.size() < need.nodes) return out;
  scored_.resize(need.nodes);
  std::sort(scored_.begin(), scored_.end(), [](const auto& a, const auto& b) { return a.node < b.node; });
  for (const NodeChooser::Chosen& chosen : scored_) {
    const PlannedNode& facts = nodes_[chosen.node];
    auto part = Result<Amount>(Error(Code::kBusy, ""));
    if (const Resources* rest = facts.free.rest(); rest != nullptr && facts.total.rest() != nullptr) {
      // Devices of the whole node are counted, free or not.
      const auto& all = facts.total.rest()->devices;
      if (chosen.device < all.size()) {
        Resources only = *rest;
        std::erase_if(only.devices, [&](const DeviceShare& d) { return d.device != all[chosen.device].device; });
        part = carve(need.shape, Amount(std::move(only)), facts.total, facts.labels);
      }
    }
    if (!part) part = carve(need.shape, facts.free, facts.total, facts.labels);
    BOURSE_ASSERT(static_cast<bool>(part), to_text(need.shape));
    out.push_back({chosen.node, *std::move(part)});
  }
  return out;
}

// `beside`: only on nodes whose rest still serves the head of that reservation.
std::vector<Holding> Planner::place(const Need& need, const Reservation* beside, const Need* head) const {
  std::vector<Holding> out;
  if (open_.size() < need.nodes) return out;
  chosen_.clear();
  const bool plain = is_plain(need.shape);
  const bool scoring = chooser_ != nullptr && chooser_->places();
  const bool narrow = beside != nullptr && !beside->counted;
  open_.each([&](Node node) {
    ++operations_;
    const PlannedNode& facts = nodes_[node];
    if (!fits(need.shape, facts.free, facts.total, facts.labels)) return true;
    if (narrow && beside->named.contains(node)) {
      if (plain && facts.free.rest() == nullptr) {
        if (!spares(*beside, *head, {node, Amount(need.shape.cpus, need.shape.mem)}, kNoLimit)) return true;
      } else {
        const auto part = carve(need.shape, facts.free, facts.total, facts.labels);
        if (!part || !spares(*beside, *head, {node, *part}, kNoLimit)) return true;
      }
    }
    chosen_.push_back(node);
    return scoring || chosen_.size() < need.nodes;
  });
  if (chosen_.size() < need.nodes) return out;
  if (scoring) return place_by_score(need);
  out.reserve(need.nodes);
  for (const Node node : chosen_) {
    const PlannedNode& facts = nodes_[node];
    if (plain && facts.free.rest() == nullptr) {
      out.push_back({node, Amount(need.shape.cpus, need.shape.mem)});
      continue;
    }
    auto part = carve(need.shape, facts.free, facts.total, facts.labels);
    BOURSE_ASSERT(static_cast<bool>(part), to_text(need.shape));
    out.push_back({node, *std::move(part)});
  }
  return out;
}

// Within a pass free amounts only shrink: what needs at least what another was refused need not be looked for.
bool Planner::known_refused(const Need& need, bool beside) const {
  if (open_.size() < need.nodes) return true;
  if (!is_plain(need.shape)) return false;
  return std::any_of(refused_.begin(), refused_.end(), [&](const Refused& r) {
    return need.nodes >= r.nodes && need.shape.cpus.value >= r.cpus && need.shape.mem.value >= r.mem && (beside || !r.beside);
  });
}

void Planner::note_refused(const Need& need, bool beside) {
  if (!is_plain(need.shape)) return;
  const Refused note{need.shape.cpus.value, need.shape.mem.value, need.nodes, beside};
  // The new one says more than those that it is contained in.
  std::erase_if(refused_, [&](const Refused& r) {
    return r.nodes >= note.nodes && r.cpus >= note.cpus && r.mem >= note.mem && (r.beside || !note.beside);
  });
  if (refused_.size() < kRefusedMax) refused_.push_back(note);
}

}  // namespace bourse::batch
