// Everything an actor can ask for. The driver clears and reuses one Actions, so steps allocate little.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/core/event.h"
#include "common/core/one_of.h"
#include "common/core/span.h"

namespace bourse {

struct Send {
  PeerId to;
  Message message;
};
struct Arm {
  TimerKey key;
  Duration after{0};
};
// See "Two kinds of append".
enum class Safety : std::uint8_t {
  kProcess,  // survives kill -9 of this process: written, not flushed
  kPower,    // survives power loss: flushed before dependent sends leave
};
struct Append {
  Safety safety = Safety::kPower;
  std::string record;
};

// The agent's host.
struct CarveSlice {
  SliceSpec spec;
  std::vector<std::string> device_nodes{};  // /dev paths of the slice's devices: what its tasks may open beside the usual ones
};
struct EraseSlice {
  SliceId slice;
};  // kills what is left in it, then removes it
struct StartTask {
  TaskKey task;
  SliceId slice;
  TaskSpec spec;
  std::vector<std::string> device_nodes{};  // as in CarveSlice
  std::string hypervisor{};                 // kMicroVm: libvirt's URI of that of its slice
  std::string warm{};                       // a warm instance to run it in (WarmState); gone or unfit: started cold
  // The last so many words of spec.env are the agent's own, in place of these of the user's. See "User identity".
  std::uint32_t own_variables = 0;
  std::vector<std::string> replaced{};
};
struct SignalTask {
  TaskKey task;
  std::int32_t signal = 0;
  bool whole = false;
};  // whole: every process of the task's cgroup. A task that waits for its turn is dropped by SIGTERM, SIGKILL and 0; 0 does no more
struct ForgetTask {
  TaskKey task;
};                 // its terminal status is acknowledged: drop exit records
struct RunProbe {  // answered by ProbeDone, once, within `limit` and a moment
  std::string probe;
  Duration limit = seconds(10);
};
struct MeasureUsage {};  // answered by UsageSample, and by a PressureSample of each scope
struct LimitRevocable {
  Bytes mem;
};  // all revocable slices together may have this much memory
struct SqueezeSlice {
  SliceId slice;
  Bytes mem_high;
};                  // from here on it is slowed down and reclaimed from; 0: as its configuration says
struct HoldLease {  // tasks with fence = lease are ended by the host itself when this moment has passed and no later one was named,
  Duration until{0};  // whatever has become of the agent by then; Time.mono. See "Unreachable is not terminal"
};
struct KeepWarm {  // so many instances of each pool are to be ready; what is not named goes
  struct Pool {
    std::string name;  // the agent's own; equal names: equal instances
    TaskSpec spec;     // whose image, user, isolation and mounts they have
    std::uint32_t count = 0;
    // kMicroVm: which hypervisor's guests, and what the slices have that they are for.
    std::string hypervisor{};
    Bytes mem{};
    std::uint32_t cpus = 0;
    bool operator==(const Pool&) const = default;
  };
  std::vector<Pool> pools;
};
struct HostActions {
  using Variant = std::variant<CarveSlice, EraseSlice, StartTask, SignalTask, ForgetTask, RunProbe, MeasureUsage, LimitRevocable,
                               SqueezeSlice, HoldLease, KeepWarm>;
};
using HostAction = OneOf<HostActions>;

struct Reply {
  PeerId to;
  std::string payload;
};  // to a framework's own client

// To a person outside the cluster, by a program of the site's. At most once, and never waited for.
struct Mail {
  std::string to, subject, body;
  std::vector<std::string> env;  // for that program
  bool operator==(const Mail&) const = default;
};

// One master more, or one less, in the group that replicates the registry; answered by MemberChanged.
struct ChangeMember {
  std::uint64_t tag = 0;
  bool add = false;
  std::string name;
  std::string raft;  // add: where the other masters reach it
};

struct Actions {
  std::vector<Send> sends;
  std::vector<Arm> arms;
  std::vector<TimerKey> disarms;
  std::vector<Append> appends;
  Ticket ticket = 0;        // set by the driver before each step: the name of this step's appends in Durable
  std::string compact;      // not empty: a snapshot that replaces all records appended up to and including this step
  std::vector<PeerId> cut;  // forget these peers. See "Cutting a ZeroMQ peer"
  bool reconnect = false;   // agent and client: leave this master, try the next one
  std::string leader;       // with reconnect: try this endpoint, which was named as that of the leader, rather than the next one
  std::vector<std::string> masters;  // not empty: the endpoints of all masters, as the leader says, for the driver to remember
  std::vector<HostAction> host;
  std::vector<SessionCommand> session;
  std::vector<Reply> replies;
  std::vector<Mail> mails;
  std::vector<ChangeMember> members;
  bool hand_over = false;         // lead no more, where another master can
  std::vector<std::string> logs;  // one line each, "level=warn event=... key=value"
  std::vector<Span> spans;        // ended; of actors that are told to trace
  bool stop = false;              // end this process in good order
  std::uint64_t reload = 0;       // not 0: read the configuration again, and answer ReloadDone with this tag
  std::vector<ViewUpdate> views;  // master: what changed, for readers; tag and sequence are the publisher's

  void send(PeerId to, Message message) { sends.push_back({to, std::move(message)}); }
  void arm(TimerKey key, Duration after) { arms.push_back({std::move(key), after}); }
  void disarm(TimerKey key) { disarms.push_back(std::move(key)); }
  void append(Safety safety, std::string record) { appends.push_back({safety, std::move(record)}); }
  void span(Span one) { spans.push_back(std::move(one)); }
  void log(std::string line) { logs.push_back(std::move(line)); }
  void clear();
};

}  // namespace bourse
