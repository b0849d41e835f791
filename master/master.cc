// Routes: which message goes to which handler, and who may send it. The rules are in the tables' own files.
#include "master/master.h"

#include <array>
#include <string_view>
#include <utility>

#include "common/core/hooks.h"
#include "master/explain.h"
#include "master/house.h"
#include "master/leadership.h"
#include "master/settings.h"
#include "master/status.h"

namespace bourse {

using namespace house;  // NOLINT: this file is the house's front door

// --- what handlers share (house.h) -----------------------------------------------------------------------------------
namespace house {

void House::send(PeerId to, Body body) {
  if (to.value == 0) return;
  Message message;
  message.epoch = epoch;
  message.incarnation = incarnation;
  message.body = std::move(body);
  out->send(to, std::move(message));
}

void House::send_on(PeerId to, const Message& received) {
  if (to.value == 0) return;
  Message message = received;
  message.epoch = epoch;
  message.incarnation = incarnation;
  out->send(to, std::move(message));
}

void House::refuse(PeerId to, Code code, std::string reason, std::string_view event) {
  ++counters.refused;
  if (sessions.may_log(to, now.mono)) {
    const Session* session = sessions.find(to);
    const bool hello = hearing != nullptr && !hearing->from.empty();
    log(LogLevel::kWarn, event,
        {{"peer", std::to_string(to.value)},
         {"identity", hearing != nullptr ? hearing->identity : ""},
         {"from", hello                ? hearing->from
                  : session != nullptr ? session->from
                                       : ""},
         {"code", std::string(code_text(code))},
         {"reason", reason}});
  }
  send(to, Refused{code, std::move(reason)});
}

void House::flush_ended() {
  for (auto& [framework, message] : ended) send(frameworks.at(framework).peer, std::move(message));
  ended.clear();
}

void House::flush_made() {
  for (const auto& [framework, ids] : made) {
    Offers message;
    for (const std::uint64_t id : ids) {
      const auto found = offers.open.find(id);
      if (found == offers.open.end()) continue;
      const OfferRow& row = found->second;
      const AgentRow& agent = agents.at(row.agent);
      message.offers.push_back({row.id, row.generation, agent.id, row.resources, book(row.revocable).account(row.agent).total,
                                agent.labels, row.expires - now.mono, row.line, row.reservation, row.revocable});
      Offer& made_now = message.offers.back();
      made_now.reserved = row.reserved;
      if (agent.closes.count() > 0) made_now.lasts = std::max(agent.closes - now.wall, Duration{1});
      if (message.offers.size() < OfferTable::kOffersPerMessage) continue;
      send(frameworks.at(framework).peer, std::move(message));
      message = Offers{};
    }
    if (!message.offers.empty()) send(frameworks.at(framework).peer, std::move(message));
  }
  made.clear();
}

void House::drop_peer(PeerId peer) {
  sessions.close(peer);
  out->cut.push_back(peer);
}

}  // namespace house

// --- the protocol surface --------------------------------------------------------------------------------------------
namespace {

using Handler = void (*)(House&, const Session&, const Message&);
using HelloHandler = void (*)(House&, const Received&);

struct Route {
  std::uint8_t who = kNobody;
  Handler handle = nullptr;
  HelloHandler hello = nullptr;
};

void on_goodbye(House& h, const Session& from, const Message& message) {
  const bool forever = std::get<Goodbye>(message.body).forever;
  const Session session = from;
  if (session.who == kAgent) agent_silent(h, session.row, "it said goodbye");
  if (session.who == kFramework) {
    if (forever) return framework_remove(h, session.row, "it said goodbye for ever");
    framework_disconnected(h, session.row, "it said goodbye");
  }
  h.sessions.close(session.peer);
}

template <class T, std::size_t I = 0>
constexpr std::size_t index_of() {
  if constexpr (std::is_same_v<Body::Member<I>, T>) {
    return I;
  } else {
    return index_of<T, I + 1>();
  }
}

constexpr std::uint8_t kAny = kAgent | kFramework | kReader | kOperator;

constexpr auto routes() {
  std::array<Route, Body::kCount> table{};
  const auto route = [&](std::size_t kind, std::uint8_t who, Handler handler) { table[kind] = {who, handler, nullptr}; };
  const auto hello = [&](std::size_t kind, HelloHandler handler) { table[kind] = {kStranger, nullptr, handler}; };
  // message kind, who may send it, handler
  hello(index_of<AgentHello>(), on_agent_hello);
  hello(index_of<FrameworkHello>(), on_framework_hello);
  hello(index_of<ReaderHello>(), on_reader_hello);
  route(index_of<Heartbeat>(), kAny, on_heartbeat);
  route(index_of<Goodbye>(), kAny, on_goodbye);
  route(index_of<InventoryUpdate>(), kAgent, on_inventory);
  route(index_of<GangHeld>(), kAgent, on_gang_held);
  route(index_of<SliceUp>(), kAgent, on_slice_up);
  route(index_of<SliceGone>(), kAgent, on_slice_gone);
  route(index_of<StatusUpdate>(), kAgent, on_status);
  route(index_of<Demand>(), kFramework, on_demand);
  route(index_of<Accept>(), kFramework, on_accept);
  route(index_of<Decline>(), kFramework, on_decline);
  route(index_of<ReleaseSlices>(), kFramework, on_release);
  route(index_of<Launch>(), kFramework, on_launch);
  route(index_of<Kill>(), kFramework, on_kill);
  route(index_of<StatusAck>(), kFramework, on_status_ack);
  route(index_of<Reconcile>(), kFramework, on_reconcile);
  route(index_of<DeclareLost>(), kFramework, on_declare_lost);
  route(index_of<ExplainQuery>(), kFramework | kReader | kOperator, on_explain);
  route(index_of<StatusQuery>(), kFramework | kReader | kOperator, on_status_query);
  route(index_of<OperatorAction>(), kOperator, on_operator);
  route(index_of<ConfigReloaded>(), kAgent, on_config_reloaded);
  return table;
}
constexpr auto kRoutes = routes();

// The connection no longer is what it was: a peer that says another hello, was silent, or was lost.
void session_ended(House& h, PeerId peer, std::string_view why) {
  const Session* found = h.sessions.find(peer);
  if (found == nullptr) return;
  const Session session = *found;
  h.sessions.close(peer);
  if (session.who == kAgent && h.agents.at(session.row).peer == peer) agent_silent(h, session.row, why);
  if (session.who == kFramework && h.frameworks.at(session.row).peer == peer) framework_disconnected(h, session.row, why);
}

void received(House& h, const Received& event) {
  if (!h.leading) return on_not_leading(h, event);
  const Message& message = event.message;
  const Route& route = kRoutes[message.body.index()];
  Session* session = h.sessions.find(event.peer);
  if (route.hello != nullptr) {
    if (session != nullptr) {
      const bool agent = std::holds_alternative<AgentHello>(message.body) && session->who == kAgent &&
                         h.agents.at(session->row).id == std::get<AgentHello>(message.body).agent;
      const bool framework = std::holds_alternative<FrameworkHello>(message.body) && session->who == kFramework &&
                             h.frameworks.at(session->row).id == std::get<FrameworkHello>(message.body).framework;
      if (!agent && !framework) session_ended(h, event.peer, "its connection said another hello");
      session = nullptr;
    }
    return route.hello(h, event);
  }
  if (session == nullptr) {
    if (!h.sessions.may_answer(event.peer, h.now.mono)) return;
    // A peer that was sent elsewhere asks whether this master leads by now: cheaper than a hello, and nothing to log.
    if (std::holds_alternative<Heartbeat>(message.body)) return h.send(event.peer, Refused{Code::kGone, "say hello first"});
    return h.refuse(event.peer, Code::kGone, "say hello first", "stranger_refused");
  }
  if (session->who == kAgent && !h.agents.at(session->row).connected) {
    // Its queue was full, so it missed something: only a new hello puts both sides in step again.
    return h.refuse(event.peer, Code::kGone, "say hello first", "stranger_refused");
  }
  session->heard = h.now.mono;
  if (h.now.mono - session->beaten >= pulse(h) / 2) {
    session->beaten = h.now.mono;
    h.send(event.peer, Heartbeat{h.now.wall});
  }
  const bool same_key = !h.options.trust_identities || session->identity == event.identity;
  if (!same_key || (route.who & session->who) == 0) {
    return h.refuse(event.peer, Code::kDenied, std::string(body_name(message.body)) + " is not for you to send", "message_refused");
  }
  route.handle(h, *session, message);
}

void started(House& h, const Started& event) {
  h.incarnation = event.incarnation;
  h.started = h.now.mono;
  if (auto replayed = h.registry.replay(event.snapshot, event.records); !replayed) {
    h.log(LogLevel::kError, "registry_unreadable",
          {{"reason", replayed.error().text()}, {"hint", "nothing was changed; restore the registry's file from a copy"}});
    h.out->stop = true;
    return;
  }
  if (h.registry.unknown_records() > 0) {
    h.log(LogLevel::kWarn, "registry_unknown_records",
          {{"records", std::to_string(h.registry.unknown_records())}, {"hint", "written by a newer master; kept and ignored"}});
  }
  if (!h.options.replicated) take_the_lead(h);
}

// Of the replicated log, while this master does not lead.
void replicated(House& h, const Result<>& done) {
  if (done) return;
  h.log(LogLevel::kError, "registry_unreadable",
        {{"reason", done.error().text()}, {"hint", "take this master out, empty its state directory, and add it again"}});
  h.out->stop = true;
}

void durable(House& h, const Durable& event) {
  const Ticket ticket = event.ticket;
  h.registry.durable(ticket, event.index);
  if (!h.leading && ticket == h.lead_ticket) lead_durable(h);
  operations_durable(h, ticket);
  auto node = h.pending.extract(ticket);
  if (node.empty()) return;
  h.pending_size -= node.mapped().size();
  for (const House::Pending& pending : node.mapped()) {
    if (std::holds_alternative<AgentHello>(pending.received.message.body)) {
      admit_agent(h, pending.received, pending.known_before);
    } else {
      admit_framework(h, pending.received);
    }
  }
}

void append_failed(House& h, const AppendFailed& event) {
  h.registry.failed(event.ticket);
  if (h.options.replicated && !h.masters.elected) return;  // of a leadership that is over
  h.log(LogLevel::kError, "registry_append_failed",
        {{"reason", event.reason}, {"hint", "free space on the registry's file system; retrying"}});
  operations_failed(h, event.ticket, event.reason);
  auto node = h.pending.extract(event.ticket);
  if (!node.empty()) h.pending_size -= node.mapped().size();  // they say hello again by themselves
  if (!h.leading && event.ticket == h.lead_ticket && (!h.options.replicated || h.masters.elected))
    h.out->arm(TimerKey{kLeadTimer, 0, {}}, seconds(1));
}

void timer_fired(House& h, const TimerKey& key) {
  switch (key.kind) {
    case kPassTimer:
      h.allocator.pass(h);
      break;
    case kPeerTimer: {
      h.sessions.deadlines.fired();
      for (PeerId peer; (peer = h.sessions.next_silent(h.now.mono, h.options.peer_timeout)).value != 0;) {
        session_ended(h, peer, "not heard for " + format_duration(h.options.peer_timeout));
      }
      break;
    }
    case kOfferTimer:
      h.offers.deadlines.fired(), offers_due(h);
      break;
    case kGangTimer:
      h.gangs.deadlines.fired(), gangs_due(h);
      break;
    case kHoldOffTimer:
      h.allocator.hold_offs.fired(), h.allocator.hold_offs_due(h);
      break;
    case kFrameworkTimer:
      h.frameworks.failovers.fired(), framework_failovers(h);
      break;
    case kGatheringTimer:
      h.allocator.gathering.fired(), h.allocator.accumulations_due(h);
      break;
    case kReservedTimer:
      h.allocator.unreserve.fired(), h.allocator.reservations_due(h);
      break;
    case kDrainTimer:
      h.agents.drains.fired(), drains_due(h);
      break;
    case kRoleTimer: {
      h.roles.grace.fired();
      for (int due = 0; h.roles.grace.pop_due(h.now.mono, due);) continue;
      h.roles.agents_settled(h);
      break;
    }
    case kViewTimer:
      h.views.due(h);
      break;
    case kReservationTimer:
      h.reservations.looks.fired(), h.reservations.due(h);
      break;
    case kClaimTimer:
      h.claims.timers.fired(), h.claims.due(h);
      break;
    case kLearntTimer:
      h.allocator.keep_learnt(h);
      break;
    case kLeadTimer:
      if (!h.leading && (!h.options.replicated || h.masters.elected)) take_the_lead(h);
      break;
    default:
      break;
  }
}

// Losing a framework's connection ends its session; an agent's is given until its timeout, since its slices live on anyway.
void peer_lost(House& h, PeerId peer, const std::string& why) {
  const Session* session = h.sessions.find(peer);
  if (session == nullptr) return;
  if (!why.empty()) {
    h.log(LogLevel::kWarn, "peer_cut",
          {{"peer", std::to_string(peer.value)}, {"identity", session->identity}, {"from", session->from}, {"reason", why}});
    return session_ended(h, peer, why);
  }
  if (session->who == kAgent && h.agents.at(session->row).peer == peer) {
    h.agents.at(session->row).connected = false;
    return;
  }
  session_ended(h, peer, "its connection was lost");
}

// "policy=SPEC", checked by main. Nothing on offer ends: the next pass asks the new one.
void reload(House& h, const Reload& event) {
  if (is_live_text(event.config)) {
    if (auto taken = take_live(event.config, h.options); !taken)
      h.log(LogLevel::kError, "reload_refused", {{"reason", taken.error().text()}, {"then", "going on as before"}});
    return;
  }
  const auto choice = policy::reloaded(event.config, h.options.policies);
  if (!choice) return;
  const Result<> taken = *choice ? h.allocator.use_policy(h, **choice) : Result<>(choice->error());
  if (taken) h.options.policy = **choice;  // for the next leadership
  if (!taken) {
    return h.log(LogLevel::kError, "policy_refused",
                 {{"change", event.config}, {"reason", taken.error().text()}, {"then", "going on with the former one"}});
  }
  h.log(LogLevel::kInfo, "policy_changed", {{"policy", h.allocator.policy().in_force()}});
}

}  // namespace

struct Master::Impl : House {
  using House::House;

  // What is left of a master that no longer leads: the registry as it was committed, what it knows of the others, its history.
  std::unique_ptr<Impl> deposed(const NotLeader& event) {
    auto next = std::make_unique<Impl>(options);
    leadership_lost(*this);
    registry.deposed();
    next->registry = std::move(registry);
    next->masters.rows = std::move(masters.rows);
    next->masters.leader = event.name;
    next->masters.endpoint = event.endpoint;
    next->masters.tags = masters.tags;
    next->masters.warned = masters.warned;
    next->masters.readers = masters.readers;
    next->events = std::move(events);
    next->counters = counters;
    next->incarnation = incarnation;
    next->started = started;
    next->now = now;
    next->out = out;
    return next;
  }
};

Master::Master(MasterOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Master::~Master() = default;

void Master::step(Time now, const Event& event, Actions& out) {
  impl_->now = now;
  impl_->out = &out;
  if (const auto* over = std::get_if<NotLeader>(&event); over != nullptr && (impl_->leading || impl_->masters.elected)) {
    impl_->log(LogLevel::kWarn, "deposed",
               {{"epoch", std::to_string(impl_->epoch.value)}, {"leader", over->name.empty() ? "unknown" : over->name}});
    if (!hooks::mutant("master.keeps_leading")) impl_ = impl_->deposed(*over);
  }
  House& h = *impl_;
  if (const auto* message = std::get_if<Received>(&event)) {
    h.hearing = message;
    received(h, *message);
    h.hearing = nullptr;
  } else if (const auto* timer = std::get_if<TimerFired>(&event)) {
    if (h.leading || timer->key.kind == kLeadTimer) timer_fired(h, timer->key);
  } else if (const auto* lost = std::get_if<PeerLost>(&event)) {
    peer_lost(h, lost->peer, lost->why);
  } else if (const auto* done = std::get_if<Durable>(&event)) {
    durable(h, *done);
  } else if (const auto* failed = std::get_if<AppendFailed>(&event)) {
    append_failed(h, *failed);
  } else if (const auto* changed = std::get_if<Reload>(&event)) {
    reload(h, *changed);
  } else if (const auto* watched = std::get_if<Watched>(&event)) {
    h.masters.readers = watched->on;
    if (h.leading) h.views.watched(h, *watched);
  } else if (const auto* reloaded = std::get_if<ReloadDone>(&event)) {
    reload_done(h, *reloaded);
  } else if (const auto* start = std::get_if<Started>(&event)) {
    started(h, *start);
  } else if (std::holds_alternative<Leader>(event)) {
    on_leader(h);
  } else if (const auto* other = std::get_if<NotLeader>(&event)) {
    h.masters.leader = other->name;
    h.masters.endpoint = other->endpoint;
  } else if (const auto* committed = std::get_if<Committed>(&event)) {
    replicated(h, h.registry.committed(committed->index, committed->records));
  } else if (const auto* restored = std::get_if<Restored>(&event)) {
    replicated(h, h.registry.replay(restored->snapshot, {}));
  } else if (const auto* masters = std::get_if<MastersChanged>(&event)) {
    on_masters(h, *masters);
  } else if (const auto* member = std::get_if<MemberChanged>(&event)) {
    on_member_changed(h, *member);
  }
  h.flush_ended();
  if (h.leading) {
    h.allocator.settle(h);
    h.sessions.deadlines.settle(out, now.mono, kPeerTimer);
    h.offers.deadlines.settle(out, now.mono, kOfferTimer);
    h.gangs.deadlines.settle(out, now.mono, kGangTimer);
    h.allocator.hold_offs.settle(out, now.mono, kHoldOffTimer);
    h.frameworks.failovers.settle(out, now.mono, kFrameworkTimer);
    h.allocator.gathering.settle(out, now.mono, kGatheringTimer);
    h.allocator.unreserve.settle(out, now.mono, kReservedTimer);
    h.agents.drains.settle(out, now.mono, kDrainTimer);
    h.roles.grace.settle(out, now.mono, kRoleTimer);
    h.reservations.looks.settle(out, now.mono, kReservationTimer);
    h.claims.timers.settle(out, now.mono, kClaimTimer);
    if (!h.options.replicated) h.registry.compact_if_worth(out);
    h.views.settled(h);
  }
  h.out = nullptr;
}

namespace {
std::map<AgentId, Master::Account> accounts_of(const house::House& h, const house::Ledger& book) {
  std::map<AgentId, Master::Account> result;
  for (const auto& [id, ix] : h.agents.by_name()) {
    const house::Account& a = book.account(ix);
    result[id] = {a.total, a.free, a.offered, a.held, a.leased, a.reserved, a.unavailable, h.agents.at(ix).reachable};
  }
  return result;
}
}  // namespace

std::map<AgentId, Master::Account> Master::accounts() const { return accounts_of(*impl_, impl_->ledger); }
std::map<AgentId, Master::Account> Master::lent_accounts() const { return accounts_of(*impl_, impl_->lent); }
std::size_t Master::open_offers() const { return impl_->offers.open.size(); }
Epoch Master::epoch() const { return impl_->epoch; }
const std::string& Master::cluster() const { return impl_->registry.cluster(); }
std::string Master::registry() const { return impl_->registry.snapshot(); }
const Master::Counters& Master::counters() const { return impl_->counters; }

}  // namespace bourse
