// What agent and launcher say to each other over a SOCK_SEQPACKET socket (STATE/launcher.sock), and the exit log.
//
// The process tree (see "Keeper"):
//   bourse-launcher --keeper   subreaper; waits and appends; starts and restarts its child; a few hundred lines
//     bourse-launcher          forks, places, reaps; subreaper too, so that it reaps on when the keeper is killed
//       task
// The agent starts the keeper detached (own session), and either outlives it. All three append to the exit log, each record
// one write() with O_APPEND:
//   "B boot-id\n"                                          first line of a log
//   "S task-key slice pid start-ticks leaf [lease=grace-ms]\n"  by the child itself, between vfork and exec: no task runs unrecorded
//   "E pid wait-status cpu-us oom mem-peak-bytes\n"         by whoever reaped it: the launcher (with cgroup usage) or the keeper (0 0)
//   "X task-key reason\n"                                   start failed after S: as if it had never been
//   "F task-key\n"                                          agent has a durable terminal status: may be forgotten
//   "U task-key\n", "R task-key cpu-us oom mem-peak\n", "N task-key\n"   see exit_log.h
// A record belongs to the latest S of its pid. Reading the log again gives the state; it is rewritten without forgotten
// tasks when it has grown to twice what is live (launcher only, under flock).
//
// Packets are one text header line and, for Start, a body in the wire encoding of TaskSpec. All idempotent.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "agent/isolators/isolator.h"
#include "agent/launcher/confine.h"
#include "common/core/ids.h"
#include "common/core/result.h"
#include "common/core/task.h"
#include "common/core/time.h"

namespace bourse::launcher {

constexpr std::size_t kPacketBytesMax = 4 * 1024 * 1024;  // larger scripts are artifacts, which the agent stores in files
constexpr std::size_t kSetMax = 65536;                    // PUs or NUMA nodes in one set
constexpr std::size_t kIoLimitsMax = 64;                  // block devices with limits in one slice

// agent -> launcher
struct Hello {                  // first; answered by State
  std::vector<SliceId> slices;  // what the agent knows: others found on the host are killed and removed
};
struct Prepare {
  SliceId slice;
  SliceLimits limits;
};  // -> Prepared
struct Release {
  SliceId slice;
};  // -> Released, after killing what is in it
struct Start {
  TaskKey task;
  SliceId slice;
  TaskSpec spec;
  Confine confine{};
  std::vector<std::string> device_nodes{};  // for a container's /dev
  std::string hypervisor{};                 // of a virtual machine: libvirt's URI
  std::string warm{};                       // where a warm container waits for it
  // spec.env is the user's variables, then so many of them that are not to be, then the agent's own in their place. See "User identity".
  std::uint32_t own_variables = 0, replaced = 0;
};  // -> StartedTask or StartFailed; artifacts already resolved to paths. spec.in_turn: waits, see turns.h
struct Signal {
  TaskKey task;
  int signal = 0;
  bool whole = false;
};  // SIGKILL + whole: until the leaf is empty. 0: nothing but what SIGTERM and SIGKILL do too: dropped if it waits for its turn
struct Forget {
  TaskKey task;
};
struct Measure {};  // -> Measured
struct LimitLent {  // memory of all revocable slices together
  Bytes mem;
};
struct Squeeze {
  SliceId slice;
  Bytes mem_high;  // 0: as it was prepared
};
struct Lease {
  std::int64_t until_ms = 0;  // CLOCK_BOOTTIME; from then on tasks with spec.fence_lease are ended. See lease.h
};

// launcher -> agent
struct State {
  std::string isolation;  // isolator's name
  std::vector<std::string> degraded;
  bool rebooted = false;  // the log was of another boot: everything in it is lost
  struct Task {
    TaskKey task;
    SliceId slice;
    std::int64_t pid = 0;
  };
  std::vector<Task> running;  // Ended follows for each that ended and was not forgotten
};
struct Prepared {
  SliceId slice;
  std::string error;
};
struct Released {
  SliceId slice;
};
struct StartedTask {
  TaskKey task;
  std::int64_t pid = 0;
};
struct StartFailed {
  TaskKey task;
  std::string reason;
  bool withdrawn = false;  // by a Signal, before its turn
};
struct Ended {
  TaskKey task;
  bool known = true;
  int wait_status = 0;
  Duration cpu{0};
  bool out_of_memory = false;
  Bytes mem_peak;
  Duration started{0}, ended{0};  // wall time; 0: by an earlier launcher
  bool fenced = false;            // by the launcher itself, as its lease was over
};

struct Measured {
  struct Slice {
    SliceId slice;
    SliceUse use;
  };
  std::vector<Slice> slices;  // those that can be measured
};

using Packet = std::variant<Hello, Prepare, Release, Start, Signal, Forget, State, Prepared, Released, StartedTask, StartFailed,
                            Ended, Measure, LimitLent, Squeeze, Lease, Measured>;

// One word for a task and for a slice, in packets and in the exit log: "FRAMEWORK|TASK", "FRAMEWORK#NUMBER".
std::string key_word(const TaskKey& key);
std::string slice_word(const SliceId& slice);
std::optional<TaskKey> parse_key_word(std::string_view word);
std::optional<SliceId> parse_slice_word(std::string_view word);

std::string encode(const Packet& packet);
Result<Packet> decode(std::string_view bytes);

}  // namespace bourse::launcher
