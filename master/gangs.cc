#include "master/gangs.h"

#include <utility>

#include "common/core/hooks.h"
#include "master/house.h"

namespace bourse::house {

GangRow* GangTable::find(FrameworkIx framework, GangId gang, std::uint32_t* row) {
  for (auto& [number, candidate] : rows) {
    if (candidate.framework != framework || candidate.gang != gang) continue;
    if (row != nullptr) *row = number;
    return &candidate;
  }
  return nullptr;
}

std::uint32_t start_gang(House& h, GangRow row) {
  row.deadline = h.now.mono + h.options.gang_hold;
  const std::uint32_t number = ++h.gangs.last;
  h.gangs.deadlines.push(row.deadline, number);
  h.gangs.rows.emplace(number, std::move(row));
  return number;
}

void abort_gang(House& h, std::uint32_t number, const std::string& why) {
  const auto found = h.gangs.rows.find(number);
  if (found == h.gangs.rows.end() || hooks::mutant("master.gang_no_abort")) return;
  const GangRow gang = std::move(found->second);
  h.gangs.rows.erase(found);
  const FrameworkId framework = h.frameworks.at(gang.framework).id;
  h.log(LogLevel::kInfo, "gang_aborted",
        {{"framework", framework.str()}, {"gang", std::to_string(gang.gang.value)}, {"reason", why}});
  for (const auto& [agent, held] : gang.held) h.send(h.agents.at(agent).way(), AbortGang{framework, gang.gang});
  for (const SliceId& id : gang.slices) {
    SliceRow* row = h.slices.find(id);
    if (row == nullptr) continue;
    row->gang_row = 0;
    if (!gang.committed) {
      end_slice(h, id, SliceEnd::kGangAborted, why);  // the abort reaches the agent before anything else may use it
    } else {
      tell_gone(h, *row, SliceEnd::kGangAborted, why);
      release_slice(h, *row, Duration{0});  // counts until the agent has erased it
    }
  }
}

void on_gang_held(House& h, const Session& from, const Message& message) {
  const auto& held = std::get<GangHeld>(message.body);
  FrameworkIx framework = 0;
  std::uint32_t number = 0;
  GangRow* gang = h.frameworks.find(held.framework, &framework) != nullptr ? h.gangs.find(framework, held.gang, &number) : nullptr;
  if (gang == nullptr) {  // aborted meanwhile, or of the master before
    if (held.code == Code::kOk) adopt_gangs(h, from.row);
    return;
  }
  const auto member = gang->held.find(from.row);
  if (member == gang->held.end() || gang->committed) return;
  if (held.code != Code::kOk) {
    return abort_gang(h, number, "agent " + h.agents.at(from.row).id.str() + " could not hold: " + held.reason);
  }
  gang_member_holds(h, number, from.row);
}

void gang_member_holds(House& h, std::uint32_t number, AgentIx member) {
  GangRow& gang = h.gangs.rows.at(number);
  const CommitGang commit{h.frameworks.at(gang.framework).id, gang.gang};
  // Already decided: what was said then may have been lost with the member's old connection.
  if (gang.committed) return h.send(h.agents.at(member).way(), commit);
  gang.held[member] = true;
  for (const auto& [agent, holds] : gang.held) {
    if (!holds) return;
  }
  gang.committed = true;
  gang.deadline = h.now.mono + h.options.gang_hold;
  h.gangs.deadlines.push(gang.deadline, number);
  for (const SliceId& id : gang.slices) {
    if (SliceRow* row = h.slices.find(id); row != nullptr) row->state = SliceRow::State::kCommitting, h.views.slice(id);
  }
  for (const auto& [agent, holds] : gang.held) h.send(h.agents.at(agent).way(), commit);
}

void gang_slice_up(House& h, const SliceRow& slice) {
  if (slice.gang_row == 0) return;
  const auto found = h.gangs.rows.find(slice.gang_row);
  if (found == h.gangs.rows.end() || ++found->second.up < found->second.slices.size()) return;
  for (const SliceId& id : found->second.slices) {
    if (SliceRow* row = h.slices.find(id); row != nullptr) row->gang_row = 0;
  }
  h.gangs.rows.erase(found);
}

void gang_agent_lost(House& h, AgentIx agent, const std::string& why) {
  std::vector<std::uint32_t> hit;
  for (const auto& [number, gang] : h.gangs.rows) {
    if (gang.held.contains(agent)) hit.push_back(number);
  }
  for (const std::uint32_t number : hit) abort_gang(h, number, why);
}

void adopt_gangs(House& h, AgentIx agent) {
  // Gangs of which this agent shows a slice, without a row: decided by the master before this one.
  std::set<std::pair<FrameworkIx, GangId>> gangs;
  for (const SliceId& id : h.agents.at(agent).slices) {
    const SliceRow& row = *h.slices.find(id);
    if (row.spec.gang.value != 0 && row.gang_row == 0 && row.state != SliceRow::State::kReleasing)
      gangs.emplace(row.framework, row.spec.gang);
  }
  for (const auto& [framework, gang] : gangs) {
    bool committed = false;
    std::vector<SliceRow*> holding;
    const FrameworkRow& owner = h.frameworks.at(framework);
    for (const std::uint64_t number : owner.slices) {
      SliceRow* row = h.slices.find({owner.id, number});
      if (row == nullptr || row->spec.gang != gang || row->gang_row != 0) continue;
      committed = committed || row->state == SliceRow::State::kUp;
      if (row->state == SliceRow::State::kHeld) holding.push_back(row);
    }
    if (!committed) continue;
    std::set<AgentIx> agents;
    for (SliceRow* row : holding) {
      row->state = SliceRow::State::kCommitting;
      h.views.slice(row->spec.id);
      agents.insert(row->agent);
    }
    for (const AgentIx member : agents) h.send(h.agents.at(member).way(), CommitGang{owner.id, gang});
  }
}

void gangs_due(House& h) {
  std::uint32_t number = 0;
  while (h.gangs.deadlines.pop_due(h.now.mono, number)) {
    const auto found = h.gangs.rows.find(number);
    if (found == h.gangs.rows.end() || found->second.deadline > h.now.mono) continue;
    std::string missing;
    for (const auto& [agent, held] : found->second.held) {
      if (!held && missing.empty()) missing = h.agents.at(agent).id.str();
    }
    abort_gang(h, number,
               missing.empty() ? "not every agent made its slices in time" : "agent " + missing + " did not answer in time");
  }
}

}  // namespace bourse::house
