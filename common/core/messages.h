// Every message of the cluster protocol, as domain values. common/wire turns them into bytes and back; nothing else does.
//
// Directions: A agent, F framework, M master, R reader or operator. The protocol evolves by adding fields only.
// Streams follow one pattern: hello, full snapshot, then deltas by (incarnation, sequence); a new hello after any gap.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "common/core/ids.h"
#include "common/core/inventory.h"
#include "common/core/one_of.h"
#include "common/core/result.h"
#include "common/core/task.h"

namespace bourse {

constexpr std::uint32_t kProtocolVersion = 1;
constexpr std::size_t kMastersMax = 64;  // endpoints of masters that a Welcome names, and that a peer remembers

// --- sessions ------------------------------------------------------------------------------------------------------

// A->M. First message of a session, and again after a Welcome with another epoch or a gap. The full snapshot.
struct AgentHello {
  std::uint32_t version = kProtocolVersion;
  AgentId agent;
  Incarnation incarnation;
  Epoch epoch_seen;  // highest the agent ever saw
  std::string boot_id;
  Inventory inventory;
  struct Slice {
    SliceSpec spec;
    bool held = false;          // a gang's hold, not committed
    std::vector<TaskId> tasks;  // not terminal, or terminal and unacknowledged
    bool operator==(const Slice&) const = default;
  };
  std::vector<Slice> slices;
  bool degraded = false;  // isolation is missing or partial; notes in the inventory say what
  bool operator==(const AgentHello&) const = default;
};

// F->M. `slices` are those the framework believes it has, so that orphans on either side show.
struct FrameworkHello {
  std::uint32_t version = kProtocolVersion;
  FrameworkId framework;
  RoleName role;
  Incarnation incarnation;       // a higher one fences the lower. See "Standbys"
  Duration failover_timeout{0};  // 0: the cluster's default (one week)
  std::vector<SliceId> slices;
  bool watch_agents = false;  // wants AgentsUpdate
  bool operator==(const FrameworkHello&) const = default;
};

// R->M. Operators and readers have no state in the master beyond the connection.
struct ReaderHello {
  std::uint32_t version = kProtocolVersion;
  std::string name;
  bool operator==(const ReaderHello&) const = default;
};

// M->A, F, R.
struct Welcome {
  std::uint32_t version = kProtocolVersion;
  std::string cluster;           // made once, kept in the registry
  Duration heartbeat{0};         // send at least one message in this time
  Duration peer_timeout{0};      // silence after which the other side is lost
  std::vector<SliceId> release;  // slices that must go: their framework has been removed
  // Endpoints of all masters of the cluster, this one too: where to look when it falls silent. Empty: it says nothing of others.
  std::vector<std::string> masters = {};
  Duration fence{0};         // M->A: no leader heard for so long, tasks with fence = lease are ended on their host; 0: peer_timeout
  std::string readers = {};  // where Watch and StatusQuery are served without disturbing anybody; "": here
  bool operator==(const Welcome&) const = default;
};

// M->any: the hello (or a later message) was refused. kVersion, kDenied (key), kGone (fenced by a higher incarnation).
// With `not_leading`: kBusy, and whatever was sent must go to the master that leads. Such an answer counts whatever its epoch, since a
// master that does not lead may have seen fewer leaderships than its peer; and it changes nothing but whom the peer asks next.
struct Refused {
  Code code = Code::kInvalid;
  std::string reason;
  bool not_leading = false;
  std::string leader = {};  // endpoint of the master that leads; empty: not known (an election is under way, or there is no quorum)
  bool operator==(const Refused&) const = default;
};

// any->M and M->any, when nothing else was sent for Welcome.heartbeat.
struct Heartbeat {
  Duration wall{0};       // the sender's clock, for drift
  bool reprobe = false;   // M->A: an operator asks the agent to look at its hardware again
  Counters figures = {};  // A->M: what the agent counts, for readers: "pressure.host", "warm.hits", ...; see bourse-agent(8)
  bool operator==(const Heartbeat&) const = default;
};

// A->M. The inventory has changed. `base` 0: `inventory` is all of it. Else it is an increment to the version `base`, as
// difference() makes it (inventory.h): amounts, labels and notes whole; of the topology and the devices only what changed. A master
// that has another version than `base` answers Refused{kGone}, and the agent says hello with everything.
struct InventoryUpdate {
  Inventory inventory;
  Version base = {};
  std::vector<DeviceId> removed = {};  // sorted
  bool operator==(const InventoryUpdate&) const = default;
};

// F->M: no more; clean up now. With `forever` its slices are released, tasks killed and its identity forgotten.
struct Goodbye {
  bool forever = false;
  bool operator==(const Goodbye&) const = default;
};

// --- demand and offers ---------------------------------------------------------------------------------------------

// One line of a demand. `count` slices of `shape` are wanted beyond what is offered or accepted. See "Demand accounting".
struct DemandLine {
  std::uint64_t id = 0;  // the framework's own; Explain names it
  Shape shape;
  std::uint32_t count = 0;
  std::uint32_t gang_min = 0;  // > 1: nothing less than this many together is of use
  std::int32_t priority = 0;   // within the framework
  // How long what runs in a slice of it may take, the shortest of its kind; 0: not said. An agent that closes sooner (maintenance) is
  // not offered for it.
  Duration lasts = {};
  // The operators' reservation that it is to come out of, and out of nothing else; "": of what is free, and of what is reserved for its
  // role and not only for lines that name it.
  std::string reservation = {};
  bool operator==(const DemandLine&) const = default;
};

// F->M. The whole demand; replaces the one before. Zero lines hold zero offers.
struct Demand {
  Version version;
  Sequence last_accept;   // accepts up to this one are already taken off `count`
  bool wildcard = false;  // show me everything, whatever the lines say
  std::vector<DemandLine> lines;
  bool operator==(const Demand&) const = default;
};

struct Offer {
  OfferId id;
  Generation generation;
  AgentId agent;
  Resources resources;  // free amounts, per NUMA node, with the devices near them
  Resources agent_total;
  Labels labels;
  Duration ttl{0};            // from receipt
  std::uint64_t line = 0;     // the DemandLine it was shaped to; 0: wildcard
  GangId reservation;         // accumulation it belongs to; 0: none
  bool revocable = false;     // lent: the slice may be taken back at any moment
  std::string reserved = {};  // the operators' reservation that it is part of, by name; empty: of none
  Duration lasts = {};        // until the agent closes for maintenance; 0: it is not known to
  bool operator==(const Offer&) const = default;
};

struct Offers {  // M->F
  std::vector<Offer> offers;
  bool operator==(const Offers&) const = default;
};

enum class OfferEnd : std::uint8_t { kExpired, kRescinded, kAgentLost, kDemandGone };
struct OffersEnded {  // M->F
  struct Item {
    OfferId offer;
    OfferEnd end = OfferEnd::kExpired;
    bool operator==(const Item&) const = default;
  };
  std::vector<Item> items;
  bool operator==(const OffersEnded&) const = default;
};

// F->M. Carves slices out of offers. Each offer is judged by itself unless `all_or_nothing`. An offer that is named is
// used up: what is not taken goes back at once, or stays offered until its TTL if `keep_rest`.
struct Accept {
  Sequence sequence;  // per framework incarnation, from 1; repeated after a reconnect until answered
  bool all_or_nothing = false;
  GangId gang;  // not 0: hold, commit, start. See "Gang"
  struct Slice {
    std::uint64_t number = 0;  // SliceId.number
    Shape shape;
    Duration expiry{0};      // see SliceSpec
    std::uint64_t line = 0;  // the DemandLine this serves; 0: none
    bool operator==(const Slice&) const = default;
  };
  struct Item {
    OfferId offer;
    Generation generation;
    std::vector<Slice> slices;
    bool keep_rest = false;
    bool operator==(const Item&) const = default;
  };
  std::vector<Item> items;
  bool operator==(const Accept&) const = default;
};

// M->F. One typed answer per offer. kOk: its slices are being carved (SliceUp follows for each).
struct AcceptReply {
  Sequence sequence;
  struct Item {
    OfferId offer;
    Code code = Code::kOk;  // kGone: ended before; kLimit; kInvalid: does not fit; kBusy: another of all_or_nothing failed
    std::string reason;
    bool operator==(const Item&) const = default;
  };
  std::vector<Item> items;
  bool operator==(const AcceptReply&) const = default;
};

enum class DeclineReason : std::uint8_t { kNoWork, kTooSmall, kLabels, kLocality, kReserved, kFull, kOther };
std::string_view decline_text(DeclineReason reason);
struct Decline {  // F->M
  struct Item {
    OfferId offer;
    DeclineReason reason = DeclineReason::kOther;
    std::string text;
    Duration hold_off{0};  // do not offer this agent for this line again before
    bool operator==(const Item&) const = default;
  };
  std::vector<Item> items;
  bool operator==(const Decline&) const = default;
};

// --- slices --------------------------------------------------------------------------------------------------------

// M->A. Make these slices. With a gang: `hold` only sets the resources aside until CommitGang or AbortGang or `hold_ttl`.
struct CarveSlices {
  std::vector<SliceSpec> slices;
  bool hold = false;
  Duration hold_ttl{0};
  bool operator==(const CarveSlices&) const = default;
};
struct CommitGang {  // M->A
  FrameworkId framework;
  GangId gang;
  bool operator==(const CommitGang&) const = default;
};
struct AbortGang {  // M->A
  FrameworkId framework;
  GangId gang;
  bool operator==(const AbortGang&) const = default;
};
struct GangHeld {  // A->M
  FrameworkId framework;
  GangId gang;
  Code code = Code::kOk;
  std::string reason;
  bool operator==(const GangHeld&) const = default;
};

struct SliceUp {  // A->M->F: it exists, with these concrete resources. Again when `unhealthy` changes
  AgentId agent;
  SliceSpec spec;
  std::string unhealthy = {};  // empty: all is well; else what is wrong: "device GPU-1 has gone". Tasks in it go on
  bool operator==(const SliceUp&) const = default;
};

enum class SliceEnd : std::uint8_t { kReleased, kIdle, kRevoked, kCarveFailed, kAgentLost, kHostReboot, kUnknown, kGangAborted };
struct SliceGone {  // A->M->F: terminal, its resources are free
  AgentId agent;
  SliceId slice;
  SliceEnd end = SliceEnd::kReleased;
  std::string reason;
  bool operator==(const SliceGone&) const = default;
};

struct ReleaseSlices {  // F->M->A. Running tasks in it are killed (grace first).
  std::vector<SliceId> slices;
  Duration grace{0};
  bool revoke = false;  // M->A: taken back, not given: the slice ends as kRevoked, its tasks as kPreempted
  std::string reason = {};
  bool operator==(const ReleaseSlices&) const = default;
};

struct SliceRevoking {  // M->F: hand it back within `grace`, else the agent takes it
  SliceId slice;
  Duration grace{0};
  std::string reason;
  bool operator==(const SliceRevoking&) const = default;
};

// --- tasks: routed by (agent, framework), payload never decoded by the master ---------------------------------------

struct Launch {  // F->M->A. Allowed from the moment its slice was asked for; the agent waits for the carve.
  AgentId agent;
  SliceId slice;
  TaskId task;
  Blob payload;  // wire::encode(TaskSpec)
  bool operator==(const Launch&) const = default;
};
struct Kill {  // F->M->A. Idempotent. An unknown task is answered with kNeverStarted and never starts afterwards.
  AgentId agent;
  FrameworkId framework;
  TaskId task;
  std::int32_t signal = 0;  // 0: end it: SIGTERM, grace, SIGKILL of the whole cgroup. Else just this signal
  bool first_process_only = false;
  Duration grace{-1};    // < 0: the task's own
  bool preempt = false;  // reported as kPreempted
  // Takes it back if it has not been started (see TaskSpec.in_turn): kNeverStarted follows. One that has been started goes on untouched.
  bool unstarted_only = false;
  bool operator==(const Kill&) const = default;
};
struct StatusUpdate {  // A->M->F. Resent by the agent until acknowledged; in order within (agent, stream, framework).
  AgentId agent;
  FrameworkId framework;
  StreamId stream;
  Sequence sequence;  // from 1
  SliceId slice;
  TaskStatus status;
  Sequence first = {};  // the first unacknowledged one of the stream: where a new life of the framework begins
  bool operator==(const StatusUpdate&) const = default;
};
struct StatusAck {  // F->M->A: all up to `through`
  AgentId agent;
  FrameworkId framework;
  StreamId stream;
  Sequence through;
  bool operator==(const StatusAck&) const = default;
};
// F->M->A: tell me of these (every answer is a StatusUpdate in the stream). Tasks of this framework that the agent has
// and the list lacks are reported too.
struct Reconcile {
  AgentId agent;
  FrameworkId framework;
  std::vector<TaskId> tasks;
  bool operator==(const Reconcile&) const = default;
};
// F->M->A: the framework declares these lost: a durable tombstone; killed should they still run.
struct DeclareLost {
  AgentId agent;
  FrameworkId framework;
  std::vector<TaskId> tasks;
  bool operator==(const DeclareLost&) const = default;
};
struct LaunchRefused {  // M->F: it never reached an agent (no such slice, not yours, agent gone)
  AgentId agent;
  SliceId slice;
  TaskId task;
  Code code = Code::kInvalid;
  std::string reason;
  bool operator==(const LaunchRefused&) const = default;
};

// --- views ---------------------------------------------------------------------------------------------------------

// What frameworks see of agents they have no offer of. Static facts only, not free amounts.
struct AgentFacts {
  AgentId agent;
  enum class State : std::uint8_t { kUp, kUnreachable, kDraining, kCordoned, kRemoved };
  State state = State::kUp;
  Resources total;
  Labels labels;
  Incarnation incarnation;
  bool degraded = false;
  Duration closes = {}, reopens = {};  // wall time: the next (or present) maintenance window; 0: none is known, or it has no end
  struct Reserved {                    // by operators, for a role
    std::string name;
    RoleName role;
    Duration start{0}, end{0};  // wall time; end 0: until it is released
    bool named = false;         // only for demand that names it
    bool whole = false;         // all of the agent, not a part
    bool operator==(const Reserved&) const = default;
  };
  std::vector<Reserved> reserved = {};  // that have not ended, by start, then name
  bool operator==(const AgentFacts&) const = default;
};
// M->F with watch_agents. Version v+1 follows v; the first of a session has `snapshot` set on every chunk but the last of
// which `more` is set too.
struct AgentsUpdate {
  Version version;
  bool snapshot = false;
  bool more = false;
  std::vector<AgentFacts> agents;
  bool operator==(const AgentsUpdate&) const = default;
};

// F or R->M.
struct ExplainQuery {
  std::uint64_t tag = 0;
  FrameworkId framework;
  std::uint64_t line = 0;
  bool operator==(const ExplainQuery&) const = default;
};
// Agents by reason; the counts add up to `agents`. Reason texts: misfit_text(), "offered to you", "offered to NAME",
// "yours already", "in use", "unreachable", "cordoned", "draining", "declined recently", "role limit",
// "closes before it would end", "reserved before it would end", "not of its reservation", "its reservation has not begun",
// "reserved for ROLE", "kept for FRAMEWORK", "placement", "free". See "Explain".
struct ExplainReply {
  std::uint64_t tag = 0;
  Code code = Code::kOk;
  std::uint32_t agents = 0;
  struct Count {
    std::string reason;
    std::uint32_t agents = 0;
    bool operator==(const Count&) const = default;
  };
  std::vector<Count> counts;  // sorted by reason
  std::string nearest;        // "h7 lacks mem=4GiB"
  std::string last_offer, last_decline;
  std::string rank;  // "2nd of 5 frameworks with unmet demand"
  // Each constraint and placement rule on which an agent of "labels" or "placement" fails first, as it is written, and on how many.
  std::vector<Count> failing = {};
  std::string asks = {};   // the line's shape: "cpus=2;mem=4GiB;if=zone=eu-1"
  std::string quota = {};  // how the role stands to its limits; "" where it has none
  std::string estimate =
      {};  // when it may start, as far as the master knows: "when host h7, reserved for it, is free; at latest ..."
  std::uint32_t wanted = 0, offered = 0, unmet = 0;  // units of the line
  bool operator==(const ExplainReply&) const = default;
};

// R->M. Pages of what is; `after` is the last name of the page before.
struct StatusQuery {
  std::uint64_t tag = 0;
  std::string what;  // "cluster", "agents", "frameworks", "offers", "slices", "roles", "reservations", "events"
  std::string after;
  std::uint32_t limit = 0;  // 0: the master's own (kStatusPage)
  bool operator==(const StatusQuery&) const = default;
};
struct StatusReply {
  std::uint64_t tag = 0;
  Code code = Code::kOk;
  std::string reason;
  struct Row {
    std::string name;
    std::vector<std::pair<std::string, std::string>> fields;  // in a fixed order per `what`; see bourse(1)
    bool operator==(const Row&) const = default;
  };
  std::vector<Row> rows;
  bool more = false;
  bool operator==(const StatusReply&) const = default;
};
// R->M, operators only; recorded in the registry, and answered when that is durable. The actions, what each is about and its
// parameters are in master/operators.h.
struct OperatorAction {
  std::uint64_t tag = 0;
  std::string action, target, reason;
  std::vector<std::pair<std::string, std::string>> parameters = {};
  bool operator==(const OperatorAction&) const = default;
};
struct OperatorReply {
  std::uint64_t tag = 0;
  Code code = Code::kOk;
  std::string reason;
  bool operator==(const OperatorReply&) const = default;
};

// A stream of what is: the whole of it, then what changes. See "Streams between processes" in the design: snapshot, deltas, credit of
// the receiver, and from the start again after any gap.
//
// R->M. `credit`: that many ViewUpdates may be under way unacknowledged; a reader that acknowledges none of them for long is cut.
// Another Watch replaces the one before.
struct Watch {
  std::uint64_t tag = 0;
  std::vector<std::string> what;  // as in StatusQuery
  std::uint32_t credit = 0;       // 0: the master's own
  std::string after;              // of "events": those after this one; "": all that are kept
  bool operator==(const Watch&) const = default;
};
struct WatchAck {  // R->M: all up to `through` were read
  std::uint64_t tag = 0;
  Sequence through;
  bool operator==(const WatchAck&) const = default;
};
// M->R. Of one table each. The first of a table has `snapshot`, and `more` is set on all parts of a snapshot but the last; rows then
// replace those of the same name.
struct ViewUpdate {
  std::uint64_t tag = 0;
  Sequence sequence;  // from 1, without gaps in the session
  std::string what;
  bool snapshot = false, more = false;
  std::vector<StatusReply::Row> rows;
  std::vector<std::string> removed;  // names
  Code code = Code::kOk;             // else the watch is refused or over: `reason` says why, and nothing follows
  std::string reason;
  bool operator==(const ViewUpdate&) const = default;
};

// M->A. Read the configuration again; answered by ConfigReloaded.
struct ReloadConfig {
  std::uint64_t tag = 0;
  bool operator==(const ReloadConfig&) const = default;
};
struct ConfigReloaded {  // A->M
  std::uint64_t tag = 0;
  Code code = Code::kOk;
  std::string text;  // what changed, a line each; or why nothing did: "/etc/bourse/bourse.conf:12: ..."
  bool operator==(const ConfigReloaded&) const = default;
};

// --- envelope ------------------------------------------------------------------------------------------------------

struct Bodies {
  using Variant =
      std::variant<AgentHello, FrameworkHello, ReaderHello, Welcome, Refused, Heartbeat, InventoryUpdate, Goodbye, Demand, Offers,
                   OffersEnded, Accept, AcceptReply, Decline, CarveSlices, CommitGang, AbortGang, GangHeld, SliceUp, SliceGone,
                   ReleaseSlices, SliceRevoking, Launch, Kill, StatusUpdate, StatusAck, Reconcile, DeclareLost, LaunchRefused,
                   AgentsUpdate, ExplainQuery, ExplainReply, StatusQuery, StatusReply, OperatorAction, OperatorReply, Watch,
                   WatchAck, ViewUpdate, ReloadConfig, ConfigReloaded>;
};
using Body = OneOf<Bodies>;

struct Message {
  Epoch epoch;              // from a master: its leadership; older ones are ignored. To a master: the highest seen
  Incarnation incarnation;  // of the sender
  std::string trace;        // W3C traceparent; may be empty
  Body body;
  bool operator==(const Message&) const = default;
};

std::string_view body_name(const Body& body);  // "AgentHello", ...

}  // namespace bourse
