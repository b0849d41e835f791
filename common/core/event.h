// Everything that can happen to an actor.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "common/core/inventory.h"
#include "common/core/messages.h"
#include "common/core/one_of.h"
#include "common/core/session.h"
#include "common/core/task.h"

namespace bourse {

// A timer's name within its actor. Arming a name that is armed moves it.
struct TimerKey {
  std::uint32_t kind = 0;  // the actor's enum
  std::uint64_t a = 0;     // and what it is about
  std::string name;        // or what it is about, where that is a name
  auto operator<=>(const TimerKey&) const = default;
  bool operator==(const TimerKey&) const = default;
};

using Ticket = std::uint64_t;

// First event of a life: the records that the log holds, in order, after the last snapshot (which is `snapshot`).
struct Started {
  Incarnation incarnation;  // strictly greater than any earlier life's
  std::string snapshot;
  std::vector<std::string> records;
};
struct Received {
  PeerId peer;
  std::string identity;  // who the key says it is: "agent:h1", "framework:batch", "operator:NAME", "reader:NAME"; "" on inproc
  Message message;
  std::string from = {};   // of a hello: where from, "10.0.0.7", "uid 1000, pid 4711"; "" where that is not known
  std::string roles = {};  // of a hello: the roles that the key is for, by commas; "": any
};
struct PeerLost {
  PeerId peer;
  std::string why = {};  // not empty: for good, and at once: its key was revoked, it sent too much
};                       // the connection is gone as far as the driver can tell
struct TimerFired {
  TimerKey key;
};
struct Durable {
  Ticket ticket = 0;
  std::uint64_t index = 0;  // of the step's records in the replicated log; 0: the log does not number
};                          // every record of the step that was given this ticket is safe. See "Two kinds of append"
struct AppendFailed {
  Ticket ticket = 0;
  std::string reason;
};  // e.g. no space: the held sends of that step were dropped
struct Reload {
  std::string config;
};  // a validated configuration, in the actor's own text form

// --- the replicated log of the masters (master/raft.h); a driver without one posts none of these. See "Raft is driver-side" --
struct Committed {  // what another leadership wrote, or this one when nobody waits for the answer any more
  std::uint64_t index = 0;
  std::vector<std::string> records;
};
struct Restored {  // forget every record so far: this is what they came to
  std::string snapshot;
};
struct Leader {};        // elected: may lead from the moment that a record of its own is durable
struct NotLeader {       // what was appended and is not yet Durable fails, or comes back as Committed
  std::string name;      // of the master that leads now; "": none is known
  std::string endpoint;  // where it serves agents, frameworks and tools; may be "" though it has a name
};
struct MasterFacts {
  std::string name;
  std::string endpoint;  // where it serves agents, frameworks and tools; "": not known
  std::string raft;      // where the other masters reach it
  bool voter = false, leads = false, self = false;
  Duration heard{-1};  // time since it last answered; < 0: never
  Duration offset{0};  // its wall clock less ours, the way there and back removed
  Duration round{-1};  // the way there and back; < 0: the offset is not known
};
struct MastersChanged {
  std::vector<MasterFacts> masters;  // by name
};
struct MemberChanged {  // the end of a ChangeMember
  std::uint64_t tag = 0;
  Code code = Code::kOk;
  std::string reason;
};
struct ReloadDone {  // answer to Actions::reload
  std::uint64_t tag = 0;
  Code code = Code::kOk;
  std::string text;  // as in ConfigReloaded
};
struct Watched {  // whether anybody reads Actions::views from now on
  bool on = false;
  std::uint64_t flush = 0;  // not 0: what has changed so far is wanted now; an empty ViewUpdate with this sequence ends it
};

// --- the agent's host ----------------------------------------------------------------------------------------------
struct SliceCarved {
  SliceId slice;
  std::string error;
};  // error empty: cgroup and all isolators are in place
struct SliceErased {
  SliceId slice;
};
struct TaskStarted {
  TaskKey task;
  std::int64_t pid = 0;
};  // executed, not merely forked
struct TaskStartFailed {
  TaskKey task;
  std::string reason;
  bool withdrawn = false;  // a signal reached it while it waited for its turn
};                         // "chdir /x: No such file or directory"
struct TaskEnded {
  TaskKey task;
  bool known = true;             // false: it ended, nobody knows how
  std::int32_t wait_status = 0;  // as wait(2)
  bool out_of_memory = false;
  Duration cpu{0};
  Bytes mem_peak;
  Duration started{0}, ended{0};  // wall time, where the host knows it better than the moment of this event; 0: it does not
  bool fenced = false;            // the host ended it, see HoldLease
};
struct HostTasks {  // the launcher (or its successor) is there: every task it or the exit log knows, running
  std::vector<TaskKey> running;
  bool rebooted = false;  // nothing of before can be running
};
struct LauncherLost {};
struct ProbeDone {
  std::string probe;
  Inventory inventory;
  std::string error;  // not empty: no result. "crashed: SIGSEGV (signal 11)", "gave no answer within 10s"
};
struct HardwareChanged {  // the kernel or an administrator says so: look again
  std::string what;
};
struct PressureSample {  // memory, the line `some`. See "Pressure"
  std::int32_t some_avg10_permille = 0;
  std::string scope = {};  // "host", "slices": the whole host, or the tree of our slices
  bool trigger = false;    // the kernel's trigger has fired: not a routine reading
};
struct UsageSample {  // answers MeasureUsage
  struct Slice {
    SliceId slice;
    Duration cpu{0};        // used since the slice was made
    Bytes mem;              // charged now
    bool critical = false;  // a process in it has a negative oom_score_adj
    bool operator==(const Slice&) const = default;
  };
  std::vector<Slice> slices;
};
struct WarmState {  // what KeepWarm has made of it; again with each change
  struct Instance {
    std::string pool, place;  // place: what StartTask.warm names
    Bytes mem;
    bool operator==(const Instance&) const = default;
  };
  std::vector<Instance> ready;
  std::vector<std::pair<std::string, std::string>> failed;  // pool, why its next instance could not be made
};

// --- a framework's own clients (submit, queue, ...), and its session ------------------------------------------------
struct Request {
  PeerId peer;
  std::int64_t uid = -1, gid = -1;
  std::string identity;
  std::string payload;
};  // uid -1: not known

struct Events {
  using Variant = std::variant<Started, Received, PeerLost, TimerFired, Durable, AppendFailed, Reload, SliceCarved, SliceErased,
                               TaskStarted, TaskStartFailed, TaskEnded, HostTasks, LauncherLost, ProbeDone, HardwareChanged,
                               PressureSample, Request, SessionEvent, Committed, Restored, Leader, NotLeader, MastersChanged,
                               MemberChanged, UsageSample, WarmState, ReloadDone, Watched>;
};
using Event = OneOf<Events>;

}  // namespace bourse
