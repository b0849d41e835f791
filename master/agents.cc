#include "master/agents.h"

#include <utility>

#include "common/core/hooks.h"
#include "master/house.h"

namespace bourse::house {

AgentRow* AgentTable::find(const AgentId& id, AgentIx* ix) {
  const auto found = by_name_.find(id);
  if (found == by_name_.end()) return nullptr;
  if (ix != nullptr) *ix = found->second;
  return &rows_[found->second];
}

// Rows are not used again: numbers of agents are in hold-offs and heaps, and removals are rare.
AgentIx AgentTable::add(const AgentId& id) {
  const auto ix = static_cast<AgentIx>(rows_.size());
  rows_.emplace_back().id = id;
  by_name_.emplace(id, ix);
  return ix;
}

void AgentTable::remove(AgentIx ix) {
  by_name_.erase(rows_[ix].id);
  rows_[ix].removed = true;
}

void expect_agent(House& h, const AgentId& id) {
  const AgentIx ix = h.agents.add(id);
  h.ledger.open_account(ix);
  h.lent.open_account(ix);
  ++h.agents.missing;
  agent_decided(h, ix);
}

void on_agent_hello(House& h, const Received& received) {
  const auto& hello = std::get<AgentHello>(received.message.body);
  const std::string& name = hello.agent.str();
  if (hello.version != kProtocolVersion) {
    return h.refuse(
        received.peer, Code::kVersion,
        "agent " + name + " speaks protocol " + std::to_string(hello.version) + ", this master " + std::to_string(kProtocolVersion),
        "agent_refused");
  }
  if (h.options.trust_identities && !covers(received.identity, "agent", name)) {
    return h.refuse(received.peer, Code::kDenied, "key '" + received.identity + "' may not be agent " + name, "agent_refused");
  }
  AgentRow* row = h.agents.find(hello.agent);
  if (row != nullptr && row->present && hello.incarnation < row->incarnation && !hooks::mutant("master.no_fencing")) {
    return h.refuse(received.peer, Code::kGone, "agent " + name + " has a newer life than this one", "agent_refused");
  }
  if (row == nullptr && h.agents.size() >= AgentTable::kAgentsMax) {
    return h.refuse(received.peer, Code::kLimit, "there are as many agents as this master keeps", "agent_refused");
  }
  if (hello.epoch_seen > h.epoch) {
    h.log(LogLevel::kError, "agent_saw_higher_epoch",
          {{"agent", name},
           {"its_epoch", std::to_string(hello.epoch_seen.value)},
           {"our_epoch", std::to_string(h.epoch.value)},
           {"hint", "this master's registry was lost or is older; the agent ignores it"}});
  }
  if (h.registry.knows_agent(hello.agent)) return admit_agent(h, received, true);
  if (h.pending_size >= House::kPendingMax)
    return h.refuse(received.peer, Code::kBusy, "registry is behind; retrying helps", "agent_refused");
  h.registry.put_agent(hello.agent, *h.out);
  h.pending[h.out->ticket].push_back({received, false});
  ++h.pending_size;
}

namespace {

void set_labels(const House& h, AgentRow& row) {
  row.labels = row.own_labels;
  const auto found = h.registry.labels().find(row.id);
  if (found == h.registry.labels().end()) return;
  for (const auto& [name, value] : found->second) row.labels[name] = value;
}

void set_inventory(House& h, AgentIx ix, const Inventory& inventory) {
  AgentRow& row = h.agents.at(ix);
  row.inventory = inventory.version;
  row.devices = inventory.devices;
  row.own_labels = inventory.labels;
  set_labels(h, row);
  row.notes = inventory.notes;
  h.agents.total.subtract(row.counted);
  row.counted = usage_of(inventory.total);
  h.agents.total.add(row.counted);
  if (!h.ledger.covers(ix, inventory.total) || !h.lent.covers(ix, inventory.revocable))
    end_offers_of_agent(h, ix, OfferEnd::kRescinded);
  h.ledger.settle(ix, inventory.total, row.open());
  h.lent.settle(ix, inventory.revocable, row.open());
  h.allocator.total_changed(h.agents.total);
  if (h.ledger.account(ix).shortfall) {
    h.log(LogLevel::kWarn, "agent_shortfall",
          {{"agent", row.id.str()}, {"has", to_text(inventory.total)}, {"counted", to_text(h.ledger.account(ix).total)}});
  }
  agent_changed(h, ix);
}

// Slices of an agent's hello that the ledger lacks: this master, or this agent's membership, is younger than they are.
std::vector<SliceId> take_in_slices(House& h, AgentIx ix, const AgentHello& hello, bool known_before) {
  std::vector<SliceId> release;
  bool first = true;
  for (const AgentHello::Slice& shown : hello.slices) {
    const SliceId& id = shown.spec.id;
    if (const SliceRow* known = h.slices.find(id); known != nullptr) {
      if (known->agent == ix) continue;
      release.push_back(id);
      h.log(LogLevel::kError, "slice_on_two_agents",
            {{"slice", to_text(id)}, {"agent", hello.agent.str()}, {"other", h.agents.at(known->agent).id.str()}});
      continue;
    }
    if (std::exchange(first, false)) end_offers_of_agent(h, ix, OfferEnd::kRescinded);
    const Pool pool = shown.held ? Pool::kHeld : Pool::kLeased;
    if (auto taken = h.book(shown.spec.revocable).take_in(ix, shown.spec.resources, pool); !taken) {
      release.push_back(id);
      h.log(LogLevel::kError, "slice_refused",
            {{"slice", to_text(id)}, {"agent", hello.agent.str()}, {"reason", taken.error().text()}});
      continue;
    }
    FrameworkIx framework = 0;
    const bool owned =
        known_before && !hooks::mutant("master.takes_in_nothing") && h.frameworks.find(id.framework, &framework) != nullptr;
    if (!owned) framework = h.frameworks.ghost(id.framework);
    SliceRow row{.spec = shown.spec, .agent = ix, .framework = framework, .pool = pool};
    row.state = shown.held ? SliceRow::State::kHeld : SliceRow::State::kUp;
    if (!owned) {
      row.state = SliceRow::State::kReleasing;
      row.told = true;
      release.push_back(id);
    }
    add_slice(h, std::move(row), pool);
  }
  return release;
}

void drop_missing_slices(House& h, AgentIx ix, const AgentHello& hello, PeerId peer, bool rebooted) {
  std::set<SliceId> shown;
  for (const AgentHello::Slice& slice : hello.slices) shown.insert(slice.spec.id);
  const std::set<SliceId> known = h.agents.at(ix).slices;
  for (const SliceId& id : known) {
    if (shown.contains(id)) continue;
    const SliceRow* row = h.slices.find(id);
    if (row == nullptr) continue;  // ended with its gang, just now
    // A hello that crossed the carve on this very connection says nothing about it: the answer is still to come.
    const bool crossing = row->asked == peer && (row->state == SliceRow::State::kCarving || row->state == SliceRow::State::kHeld);
    if (crossing && !rebooted) continue;
    lose_slice(h, id, rebooted ? SliceEnd::kHostReboot : SliceEnd::kUnknown,
               rebooted ? "host rebooted" : "the agent does not have it");
  }
}

void confirm_slices(House& h, AgentIx ix, const AgentHello& hello, bool new_session) {
  for (const AgentHello::Slice& shown : hello.slices) {
    SliceRow* row = h.slices.find(shown.spec.id);
    if (row == nullptr || row->agent != ix) continue;
    if (row->state == SliceRow::State::kReleasing) {
      release_slice(h, *row, row->grace);
      continue;
    }
    if (shown.held) {
      if (row->gang_row != 0 && new_session) gang_member_holds(h, row->gang_row, ix);
      continue;
    }
    row->spec.cpuset = shown.spec.cpuset;
    if (row->pool == Pool::kHeld) {
      h.book(row->spec.revocable).move(ix, row->spec.resources, Pool::kHeld, Pool::kLeased);
      row->pool = Pool::kLeased;
    }
    const bool was_up = row->state == SliceRow::State::kUp;
    row->state = SliceRow::State::kUp;
    h.views.slice(row->spec.id);
    if (!was_up) gang_slice_up(h, *row);
    // Also tells a connected framework that the agent is back, so that it can ask what became of its last words.
    if (new_session || !was_up) h.send(h.frameworks.at(row->framework).peer, SliceUp{hello.agent, row->spec, row->unhealthy});
  }
}

}  // namespace

void admit_agent(House& h, const Received& received, bool known_before) {
  const auto& hello = std::get<AgentHello>(received.message.body);
  AgentIx ix = 0;
  AgentRow* row = h.agents.find(hello.agent, &ix);
  if (row == nullptr) {
    ix = h.agents.add(hello.agent);
    h.ledger.open_account(ix);
    h.lent.open_account(ix);
    agent_decided(h, ix);  // a maintenance window may name it
    row = &h.agents.at(ix);
  } else if (!row->present) {
    --h.agents.missing;
  }
  const bool newer = row->present && hello.incarnation > row->incarnation;
  const bool new_session = !row->connected || row->peer != received.peer;
  const bool rebooted = row->present && !row->boot_id.empty() && hello.boot_id != row->boot_id;
  if (row->peer.value != 0 && row->peer != received.peer) {
    if (newer) h.send(row->peer, Refused{Code::kGone, "a newer life of agent " + hello.agent.str() + " said hello"});
    h.drop_peer(row->peer);
  }
  if (!row->present || newer || !row->reachable) {
    h.log(LogLevel::kInfo, "agent_up",
          {{"agent", hello.agent.str()},
           {"identity", received.identity},
           {"from", received.from},
           {"incarnation", std::to_string(hello.incarnation.value)},
           {"total", to_text(hello.inventory.total)},
           {"slices", std::to_string(hello.slices.size())}});
  }
  row->connected = false;  // nothing is sent to it before its Welcome
  row->present = row->reachable = true;
  row->incarnation = hello.incarnation;
  row->boot_id = hello.boot_id;
  row->degraded = hello.degraded;

  drop_missing_slices(h, ix, hello, received.peer, rebooted);
  std::vector<SliceId> release = take_in_slices(h, ix, hello, known_before);
  set_inventory(h, ix, hello.inventory);

  row = &h.agents.at(ix);
  row->peer = received.peer;
  row->connected = true;
  const Duration timeout = h.options.peer_timeout;
  if (h.sessions.open({received.peer, kAgent, ix, received.identity, h.now.mono, h.now.mono, received.from}, timeout) == nullptr) {
    row->connected = false;
    return h.refuse(received.peer, Code::kLimit, "there are as many connections as this master keeps", "agent_refused");
  }
  h.send(received.peer, welcome(h, std::move(release)));
  confirm_slices(h, ix, hello, new_session);
  adopt_gangs(h, ix);
  settle_claims(h);
  h.roles.agents_settled(h);
}

void on_inventory(House& h, const Session& from, const Message& message) {
  const auto& update = std::get<InventoryUpdate>(message.body);
  AgentRow& row = h.agents.at(from.row);
  Inventory known;
  known.version = row.inventory;
  known.devices = row.devices;
  if (auto applied = apply(update, known); !applied) {
    // Something between was lost: only the whole inventory helps, and a hello brings it.
    return h.refuse(from.peer, Code::kGone, applied.error().text() + "; say hello again", "inventory_gap");
  }
  set_inventory(h, from.row, known);
}

void on_figures(House& h, AgentIx ix, const Counters& figures) {
  if (figures.empty()) return;
  h.agents.at(ix).figures = figures;
  h.ledger.viewed.add(ix);
}

void agent_silent(House& h, AgentIx ix, std::string_view why) {
  AgentRow& row = h.agents.at(ix);
  if (!row.reachable) return;
  h.log(LogLevel::kWarn, "agent_unreachable",
        {{"agent", row.id.str()}, {"reason", std::string(why)}, {"slices", std::to_string(row.slices.size())}});
  row.reachable = row.connected = false;
  row.peer = PeerId();
  h.agents.total.subtract(row.counted);
  row.counted = Usage{};
  h.allocator.total_changed(h.agents.total);
  gang_agent_lost(h, ix, "agent " + row.id.str() + " is unreachable");
  end_offers_of_agent(h, ix, OfferEnd::kAgentLost);
  h.claims.agent_lost(h, ix);
  if (hooks::mutant("master.unreachable_is_terminal")) {
    const std::set<SliceId> slices = row.slices;
    for (const SliceId& id : slices) lose_slice(h, id, SliceEnd::kAgentLost, "its agent is unreachable");
  }
  h.ledger.set_open(ix, false);
  h.lent.set_open(ix, false);
  agent_changed(h, ix);
}

void agent_decided(House& h, AgentIx ix) {
  AgentRow& row = h.agents.at(ix);
  const Labels labels = row.labels;
  const auto cordon = h.registry.cordons().find(row.id);
  const auto drain = h.registry.drains().find(row.id);
  row.cordoned = cordon != h.registry.cordons().end();
  row.cordon_reason = row.cordoned ? cordon->second : "";
  row.draining = drain != h.registry.drains().end();
  row.drain_reason = row.draining ? drain->second.reason : "";
  row.drain_deadline = Duration{0};
  if (row.draining && drain->second.deadline.count() > 0) {
    // Kept as wall time, since it must outlive us; a moment that has passed meanwhile is now.
    row.drain_deadline = h.now.mono + std::max(Duration{1}, drain->second.deadline - h.now.wall);
    h.agents.drains.push(std::max(h.now.mono, row.drain_deadline - h.options.revoke_grace), ix);
  }
  const ReservationTable::Window window = h.reservations.window(h, row.id);
  if (!window.shut) row.shut_since = Duration{0};
  if (window.shut) {
    // As a drain whose deadline is its start. One that is due earlier stays so. A window that was made at short notice, or that a new
    // master finds begun, takes nothing before those that have it were asked and had their time.
    if (row.shut_since.count() == 0) row.shut_since = h.now.mono;
    const Duration asked = hooks::mutant("maintenance.no_grace") ? Duration{0} : row.shut_since + h.options.revoke_grace;
    const Duration closes = std::max(h.now.mono + std::max(Duration{0}, window.closes - h.now.wall), asked);
    const bool sooner = row.draining && row.drain_deadline.count() > 0 && row.drain_deadline <= closes;
    if (!row.draining) row.drain_reason = window.reason;
    if (!sooner) row.drain_deadline = closes;
    row.draining = true;
    h.agents.drains.push(std::max(h.now.mono, row.drain_deadline - h.options.revoke_grace), ix);
  }
  const bool moved = row.closes != window.closes;
  row.closes = window.closes, row.reopens = window.reopens;
  set_labels(h, row);
  // Offers carry labels, and were shaped by constraints on them; and they say how long the agent is open.
  if (!row.open() || row.labels != labels || moved) end_offers_of_agent(h, ix, OfferEnd::kRescinded);
  if (!row.open()) h.claims.agent_lost(h, ix);
  if (moved) h.allocator.agent_dirty(ix);
  h.ledger.set_open(ix, row.open());
  h.lent.set_open(ix, row.open());
  if (row.labels != labels) h.allocator.agent_dirty(ix);
  agent_changed(h, ix);
}

// Frameworks are asked `revoke_grace` ahead of the deadline; what is still there then is taken.
void drains_due(House& h) {
  AgentIx ix = 0;
  while (h.agents.drains.pop_due(h.now.mono, ix)) {
    AgentRow& row = h.agents.at(ix);
    if (row.removed || !row.draining || row.drain_deadline.count() == 0) continue;
    const Duration left = row.drain_deadline - h.now.mono;
    if (left > h.options.revoke_grace || hooks::mutant("master.drain_never_ends")) continue;  // put off since
    const std::string reason = "agent " + row.id.str() + " is drained" + (row.drain_reason.empty() ? "" : ": " + row.drain_reason);
    const std::set<SliceId> slices = row.slices;
    for (const SliceId& id : slices) revoke_slice(h, id, std::max(left, Duration{0}), reason);
    if (left > Duration{0}) h.agents.drains.push(row.drain_deadline, ix);
    if (slices.empty() && left <= Duration{0}) continue;
    h.log(LogLevel::kInfo, left > Duration{0} ? "drain_asks" : "drain_takes",
          {{"agent", row.id.str()}, {"slices", std::to_string(slices.size())}, {"reason", row.drain_reason}});
  }
}

void agent_remove(House& h, AgentIx ix, const std::string& reason) {
  AgentRow& row = h.agents.at(ix);
  if (!row.present) --h.agents.missing;
  if (row.peer.value != 0) {
    h.send(row.way(), Refused{Code::kGone, "removed by an operator: " + reason});
    h.drop_peer(row.peer);
  }
  agent_silent(h, ix, "removed by an operator");
  const std::set<SliceId> slices = row.slices;
  for (const SliceId& id : slices) lose_slice(h, id, SliceEnd::kAgentLost, "agent removed by an operator: " + reason);
  h.allocator.agent_gone(ix);
  h.lending.agent_gone(ix);
  h.agents.remove(ix);
  agent_changed(h, ix);
  settle_claims(h);
  h.roles.agents_settled(h);
}

void agent_changed(House& h, AgentIx ix) {
  h.agents.changed.insert(ix);
  h.ledger.viewed.add(ix);
}

AgentFacts facts_of(const House& h, AgentIx ix) {
  const AgentRow& row = h.agents.at(ix);
  using State = AgentFacts::State;
  const State state = row.removed      ? State::kRemoved
                      : !row.reachable ? State::kUnreachable
                      : row.draining   ? State::kDraining
                      : row.cordoned   ? State::kCordoned
                                       : State::kUp;
  return {row.id,     state,       h.ledger.account(ix).target,     row.labels, row.incarnation, row.degraded,
          row.closes, row.reopens, h.reservations.listed(h, row.id)};
}

void send_facts(House& h) {
  if (h.agents.changed.empty()) return;
  AgentsUpdate update;
  h.agents.facts = h.agents.facts.next();
  if (!h.watchers.empty()) {
    update.version = h.agents.facts;
    for (const AgentIx ix : h.agents.changed) update.agents.push_back(facts_of(h, ix));
    for (const PeerId watcher : h.watchers) h.send(watcher, update);
  }
  h.agents.changed.clear();
}

void send_all_facts(House& h, PeerId watcher) {
  AgentsUpdate chunk{.version = h.agents.facts, .snapshot = true, .more = false, .agents = {}};
  for (const auto& [id, ix] : h.agents.by_name()) {
    if (chunk.agents.size() == AgentTable::kFactsChunk) {
      chunk.more = true;
      h.send(watcher, chunk);
      chunk.more = false;
      chunk.agents.clear();
    }
    chunk.agents.push_back(facts_of(h, ix));
  }
  h.send(watcher, std::move(chunk));
}

}  // namespace bourse::house
