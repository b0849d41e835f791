// The house: every table of the master, and what they share during one step. master.cc routes events to the tables' handlers;
// each handler gets the house, because a rule about offers also moves the ledger and wakes the allocator.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/core/actor.h"
#include "common/world/log.h"
#include "master/agents.h"
#include "master/allocator.h"
#include "master/claims.h"
#include "master/frameworks.h"
#include "master/gangs.h"
#include "master/leadership.h"
#include "master/ledger.h"
#include "master/lending.h"
#include "master/master.h"
#include "master/offers.h"
#include "master/operators.h"
#include "master/placements.h"
#include "master/registry.h"
#include "master/reload.h"
#include "master/reservations.h"
#include "master/roles.h"
#include "master/sessions.h"
#include "master/slices.h"
#include "master/tracer.h"
#include "master/view.h"

namespace bourse::house {

struct House {
  static constexpr std::size_t kPendingMax = 50'000;  // hellos and actions that wait for the registry; beyond, kBusy

  explicit House(MasterOptions o) : options(std::move(o)), allocator(*this) {}

  MasterOptions options;
  Time now;
  Actions* out = nullptr;             // of the step that is running
  const Received* hearing = nullptr;  // what it answers, where that is a message
  bool leading = false;
  Duration started{0};
  Epoch epoch;
  Incarnation incarnation;
  Master::Counters counters;

  LogRegistry registry;
  SessionTable sessions;
  AgentTable agents;
  FrameworkTable frameworks;
  Ledger ledger;
  Ledger lent;  // of what agents lend: an account of its own for each, with its own sum
  OfferTable offers;
  SliceTable slices;
  GangTable gangs;
  PlacementTable placements;
  Allocator allocator;
  Lending lending;
  RoleTable roles;
  ReservationTable reservations;
  ClaimTable claims;

  // Hellos whose identity is being recorded, by the ticket of the append: carried on when it is durable.
  struct Pending {
    Received received;
    bool known_before = false;
  };
  std::map<Ticket, std::vector<Pending>> pending;
  std::size_t pending_size = 0;
  Ticket lead_ticket = 0;
  Leadership masters;
  std::map<Ticket, std::vector<Operation>> operations;  // carried out when their records are durable
  ReloadTable reloads;
  ViewTable views;
  MasterTracer traces;
  EventLog events;
  std::string acting;  // identity of the operator whose action is being checked and recorded

  // Batched until the end of the step (ended) or of the pass (made), in order of framework.
  std::map<FrameworkIx, OffersEnded> ended;
  std::map<FrameworkIx, std::vector<std::uint64_t>> made;
  std::set<PeerId> watchers;

  [[nodiscard]] Ledger& book(bool revocable) { return revocable ? lent : ledger; }
  void send(PeerId to, Body body);                   // 0: nobody, dropped
  void send_on(PeerId to, const Message& received);  // forwards as it is, under this master's epoch
  void refuse(PeerId to, Code code, std::string reason, std::string_view event);
  void log(LogLevel level, std::string_view event, LogFields fields) {
    std::string line = log_text(level, event, fields);
    events.add(now.wall, line);
    out->log(std::move(line));
  }
  void flush_ended();
  void flush_made();
  void drop_peer(PeerId peer);  // forget the connection: its frames are strangers' from now on
};

}  // namespace bourse::house
