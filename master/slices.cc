#include "master/slices.h"

#include <utility>

#include "common/core/hooks.h"
#include "master/house.h"

namespace bourse::house {

SliceRow* SliceTable::find(const SliceId& id) {
  const auto found = rows_.find(id);
  return found == rows_.end() ? nullptr : &found->second;
}

SliceRow& SliceTable::add(SliceRow row) {
  const SliceId id = row.spec.id;
  return rows_.insert_or_assign(id, std::move(row)).first->second;
}

std::string_view slice_state_text(SliceRow::State state) {
  switch (state) {
    case SliceRow::State::kCarving:
      return "carving";
    case SliceRow::State::kUp:
      return "up";
    case SliceRow::State::kHeld:
      return "held";
    case SliceRow::State::kCommitting:
      return "committing";
    case SliceRow::State::kReleasing:
      break;
  }
  return "releasing";
}

SliceRow& add_slice(House& h, SliceRow row, Pool from) {
  FrameworkRow& framework = h.frameworks.at(row.framework);
  if (from == Pool::kOffered) {
    h.allocator.slice_started(h, row);
    h.book(row.spec.revocable).move(row.agent, row.spec.resources, from, row.pool);  // its use is the same as when it was offered
  } else {
    count_use(h, row.framework, row.spec.revocable, row.spec.resources, +1);
  }
  framework.slices.insert(row.spec.id.number);
  framework.claims.erase(row.spec.id.number);
  h.agents.at(row.agent).slices.insert(row.spec.id);
  h.placements.add(h, row.agent, row.spec.id.framework, row.spec.group, 1);
  h.views.slice(row.spec.id);
  return h.slices.add(std::move(row));
}

void tell_gone(House& h, SliceRow& row, SliceEnd end, const std::string& reason) {
  if (std::exchange(row.told, true)) return;
  h.send(h.frameworks.at(row.framework).peer, SliceGone{h.agents.at(row.agent).id, row.spec.id, end, reason});
}

void end_slice(House& h, const SliceId& id, SliceEnd end, const std::string& reason) {
  SliceRow* found = h.slices.find(id);
  if (found == nullptr) return;
  tell_gone(h, *found, end, reason);
  const SliceRow row = std::move(*found);
  h.slices.erase(id);
  h.views.slice(row.spec.id, true);
  h.traces.slice_ended(h, row.spec.id, reason);
  h.allocator.slice_ended(h, row);
  FrameworkRow& framework = h.frameworks.at(row.framework);
  framework.slices.erase(row.spec.id.number);
  h.agents.at(row.agent).slices.erase(row.spec.id);
  h.placements.remove(row.agent, row.spec.id.framework, row.spec.group, 1);
  h.claims.slice_ended(row.spec.id);
  h.book(row.spec.revocable).move(row.agent, row.spec.resources, row.pool, Pool::kFree);
  count_use(h, row.framework, row.spec.revocable, row.spec.resources, -1);
  if (framework.removed && framework.slices.empty()) h.frameworks.vacate(row.framework);
}

void lose_slice(House& h, const SliceId& id, SliceEnd end, const std::string& reason) {
  const SliceId slice = id;  // the caller's may be inside the row
  if (const SliceRow* row = h.slices.find(slice); row != nullptr && row->gang_row != 0) {
    abort_gang(h, row->gang_row, to_text(slice) + " was lost: " + reason);
  }
  end_slice(h, slice, end, reason);
}

void release_slice(House& h, SliceRow& row, Duration grace) {
  row.state = SliceRow::State::kReleasing;
  row.grace = grace;
  h.views.slice(row.spec.id);
  h.send(h.agents.at(row.agent).way(), ReleaseSlices{{row.spec.id}, grace, !row.revoked.empty(), row.revoked});
}

void revoke_slice(House& h, const SliceId& id, Duration grace, const std::string& reason) {
  SliceRow* row = h.slices.find(id);
  if (row == nullptr || row->state == SliceRow::State::kReleasing) return;
  if (row->gang_row != 0) return abort_gang(h, row->gang_row, reason);
  if (grace > Duration{0}) return h.send(h.frameworks.at(row->framework).peer, SliceRevoking{id, grace, reason});
  row->revoked = reason;
  release_slice(h, *row, Duration{0});
}

void on_slice_up(House& h, const Session& from, const Message& message) {
  const auto& up = std::get<SliceUp>(message.body);
  SliceRow* row = h.slices.find(up.spec.id);
  if (row == nullptr || row->agent != from.row) {
    // Given up while the agent carved it: its framework has been told that it is gone.
    h.send(from.peer, ReleaseSlices{{up.spec.id}, Duration{0}});
    return;
  }
  h.views.slice(up.spec.id);
  row->spec.cpuset = up.spec.cpuset;
  row->unhealthy = up.unhealthy;
  if (row->state == SliceRow::State::kReleasing) return;
  if (row->pool == Pool::kHeld) {
    h.book(row->spec.revocable).move(row->agent, row->spec.resources, Pool::kHeld, Pool::kLeased);
    row->pool = Pool::kLeased;
  }
  const bool was_up = std::exchange(row->state, SliceRow::State::kUp) == SliceRow::State::kUp;
  h.send(h.frameworks.at(row->framework).peer, SliceUp{h.agents.at(row->agent).id, row->spec, row->unhealthy});
  if (!was_up) h.traces.slice_up(h, up.spec.id), gang_slice_up(h, *row);
}

void on_slice_gone(House& h, const Session& from, const Message& message) {
  const auto& gone = std::get<SliceGone>(message.body);
  const SliceRow* row = h.slices.find(gone.slice);
  if (row == nullptr || row->agent != from.row) return;  // said twice
  lose_slice(h, gone.slice, gone.end, gone.reason);
}

void on_release(House& h, const Session& from, const Message& message) {
  const auto& release = std::get<ReleaseSlices>(message.body);
  std::map<AgentIx, ReleaseSlices> by_agent;
  for (const SliceId& id : release.slices) {
    SliceRow* row = h.slices.find(id);
    if (row == nullptr || row->framework != from.row) {
      if (id.framework == h.frameworks.at(from.row).id)
        h.send(from.peer, SliceGone{AgentId("-"), id, SliceEnd::kUnknown, "no agent has it"});
      continue;
    }
    if (row->gang_row != 0) {
      abort_gang(h, row->gang_row, to_text(id) + " was released");
      continue;
    }
    row->state = SliceRow::State::kReleasing;
    h.views.slice(id);
    row->grace = release.grace;
    ReleaseSlices& part = by_agent[row->agent];
    part.grace = release.grace;
    part.slices.push_back(id);
  }
  for (auto& [agent, part] : by_agent) h.send(h.agents.at(agent).way(), std::move(part));
}

void on_launch(House& h, const Session& from, const Message& message) {
  const auto& launch = std::get<Launch>(message.body);
  ++h.counters.launches;
  const SliceRow* row = h.slices.find(launch.slice);
  const auto refuse = [&](Code code, std::string reason) {
    ++h.counters.refused;
    h.send(from.peer, LaunchRefused{launch.agent, launch.slice, launch.task, code, std::move(reason)});
  };
  if (row == nullptr || row->told) return refuse(Code::kGone, "there is no slice " + to_text(launch.slice));
  if (row->framework != from.row) return refuse(Code::kDenied, "slice " + to_text(launch.slice) + " is not yours");
  const AgentRow& agent = h.agents.at(row->agent);
  if (agent.id != launch.agent) return refuse(Code::kInvalid, "slice " + to_text(launch.slice) + " is on agent " + agent.id.str());
  if (row->state == SliceRow::State::kReleasing)
    return refuse(Code::kGone, "slice " + to_text(launch.slice) + " is being released");
  if (!agent.connected) return refuse(Code::kBusy, "agent " + agent.id.str() + " is not connected");
  h.send_on(agent.peer, message);
}

namespace {

// Words of a framework about its own tasks go to the agent as they are. To one that is not there they are lost: the client
// says them again when it reconciles.
void to_agent(House& h, const Session& from, const Message& message, const AgentId& agent, const FrameworkId& framework) {
  if (framework != h.frameworks.at(from.row).id) {
    return h.refuse(from.peer, Code::kDenied, "you are not framework " + framework.str(), "message_refused");
  }
  const AgentRow* row = h.agents.find(agent);
  if (row == nullptr || !row->connected) {
    ++h.counters.refused;
    return;
  }
  h.send_on(row->peer, message);
}

}  // namespace

void on_kill(House& h, const Session& from, const Message& message) {
  const auto& kill = std::get<Kill>(message.body);
  to_agent(h, from, message, kill.agent, kill.framework);
}
void on_status_ack(House& h, const Session& from, const Message& message) {
  if (hooks::mutant("master.status_not_forwarded_ack")) return;
  const auto& ack = std::get<StatusAck>(message.body);
  to_agent(h, from, message, ack.agent, ack.framework);
}
void on_reconcile(House& h, const Session& from, const Message& message) {
  const auto& reconcile = std::get<Reconcile>(message.body);
  to_agent(h, from, message, reconcile.agent, reconcile.framework);
}
void on_declare_lost(House& h, const Session& from, const Message& message) {
  const auto& lost = std::get<DeclareLost>(message.body);
  to_agent(h, from, message, lost.agent, lost.framework);
}

void on_status(House& h, const Session& from, const Message& message) {
  const auto& update = std::get<StatusUpdate>(message.body);
  if (update.agent != h.agents.at(from.row).id) {
    return h.refuse(from.peer, Code::kDenied, "you are not agent " + update.agent.str(), "message_refused");
  }
  ++h.counters.statuses;
  // A framework that is away gets it later: the agent sends it again until it is acknowledged.
  if (const FrameworkRow* framework = h.frameworks.find(update.framework); framework != nullptr)
    h.send_on(framework->peer, message);
}

}  // namespace bourse::house
