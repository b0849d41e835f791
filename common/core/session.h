// What a framework sees and says: the client library's upper side, as values.
//
// The client actor (frameworks/api/client.h) turns Received messages into SessionEvents and SessionCommands into messages.
// The C API is its outer driver; in the simulator the same client runs under the simulated driver. See "One client".
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "common/core/messages.h"
#include "common/core/one_of.h"

namespace bourse {

// --- up ------------------------------------------------------------------------------------------------------------
struct SessionUp {  // registered with a (new) leader; state below is about to be reported again by the library
  Epoch epoch;
  std::string cluster;
};
struct SessionDown {  // not connected; the library keeps trying. Slices and tasks live on
  std::string reason;
};
struct SessionRefused {  // final: fenced, wrong key, wrong version
  Code code = Code::kDenied;
  std::string reason;
};
struct OfferMade {
  Offer offer;
};
struct OfferEnded {
  OfferId offer;
  OfferEnd end = OfferEnd::kExpired;
};
struct AcceptAnswered {
  Sequence sequence;
  OfferId offer;
  Code code = Code::kOk;
  std::string reason;
};
struct SliceReady {
  AgentId agent;
  SliceSpec spec;
  std::string unhealthy = {};  // empty: all is well; else why no task should be started in it any more
};                             // again after a reconnect, and when `unhealthy` changes: idempotent
struct GangReady {
  GangId gang;
};  // every slice of the gang is ready: launch now
struct GangFailed {
  GangId gang;
  std::string reason;
};
struct SliceLost {
  AgentId agent;
  SliceId slice;
  SliceEnd end = SliceEnd::kReleased;
  std::string reason;
};
struct SliceRecalled {
  SliceId slice;
  Duration grace{0};
  std::string reason;
};
// Each exactly once per (agent, stream, sequence). Until AckStatus, it comes again after a restart of the framework.
struct TaskUpdate {
  AgentId agent;
  StreamId stream;
  Sequence sequence;
  SliceId slice;
  TaskStatus status;
};
struct AgentsChanged {
  bool snapshot = false;
  std::vector<AgentFacts> agents;
};
struct Explained {
  ExplainReply reply;
};

struct SessionEvents {
  using Variant = std::variant<SessionUp, SessionDown, SessionRefused, OfferMade, OfferEnded, AcceptAnswered, SliceReady, GangReady,
                               GangFailed, SliceLost, SliceRecalled, TaskUpdate, AgentsChanged, Explained>;
};
using SessionEvent = OneOf<SessionEvents>;

// --- down ----------------------------------------------------------------------------------------------------------
struct SetDemand {
  bool wildcard = false;
  std::vector<DemandLine> lines;
};  // the library adds version and last_accept
struct AcceptOffers {
  Accept accept;
  std::string trace = {};  // W3C traceparent of what it is for; may be empty
};                         // the library fills `sequence` in
struct DeclineOffers {
  std::vector<Decline::Item> items;
};
struct LaunchTask {
  AgentId agent;
  SliceId slice;
  TaskId task;
  TaskSpec spec;
};
struct KillTask {
  Kill kill;
};  // the library fills `framework` in
struct AckStatus {
  AgentId agent;
  StreamId stream;
  Sequence through;
};
struct ReleaseSlice {
  SliceId slice;
  Duration grace{0};
};
struct ReconcileTasks {
  AgentId agent;
  std::vector<TaskId> tasks;
};  // after SessionUp: what the framework believes is there
struct DeclareTasksLost {
  AgentId agent;
  std::vector<TaskId> tasks;
};
struct Explain {
  std::uint64_t tag = 0;
  std::uint64_t line = 0;
};
struct EndSession {
  bool forever = false;
};

struct SessionCommands {
  using Variant = std::variant<SetDemand, AcceptOffers, DeclineOffers, LaunchTask, KillTask, AckStatus, ReleaseSlice,
                               ReconcileTasks, DeclareTasksLost, Explain, EndSession>;
};
using SessionCommand = OneOf<SessionCommands>;

}  // namespace bourse
