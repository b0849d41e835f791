// What a task is (TaskSpec), how it stands (TaskStatus) and where its slice is (SliceSpec).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/core/ids.h"
#include "common/core/resources.h"
#include "common/core/time.h"

namespace bourse {

using Blob = std::string;  // opaque bytes

enum class TaskKind : std::uint8_t { kProcess, kContainer, kMicroVm, kKernel };

// A named input, found by its digest and kept by the agent, so that a thousand array tasks send their script once.
struct Artifact {
  std::string name;    // "script", "image", "bitstream", ...
  std::string digest;  // "sha256:HEX"
  Blob inline_bytes;   // empty: the agent must already have it, or fetch `uri`
  std::string uri;
  bool operator==(const Artifact&) const = default;
};

struct Rlimit {
  std::int32_t resource = 0;  // RLIMIT_*
  std::uint64_t soft = 0, hard = 0;
  bool operator==(const Rlimit&) const = default;
};

// Travels as the payload of Launch. The master never decodes it. See "Data path".
struct TaskSpec {
  TaskKind kind = TaskKind::kProcess;
  std::string user;                // name; must exist on the host
  std::uint32_t uid = 0, gid = 0;  // as the submitter had them; the agent refuses when `user` has another uid there
  std::string credential;          // proves uid for this specification; empty: peer credentials were checked by the framework
  std::vector<std::string> argv;   // argv[0] may be "{artifact:NAME}" which becomes the artifact's path
  std::vector<std::string> env;    // "NAME=value"; the agent adds BOURSE_* on top
  std::string directory;
  std::string stdin_path, stdout_path, stderr_path;  // empty: /dev/null; stderr empty: with stdout
  bool append_output = false;                        // else truncated at start
  std::uint32_t umask = 0022;
  std::vector<Rlimit> rlimits;
  std::vector<Artifact> artifacts;
  Duration time_limit = kNoLimit;  // counted by the agent from the start; then SIGTERM, grace, SIGKILL
  Duration kill_grace = seconds(30);
  std::int32_t warn_signal = 0;  // sent `warn_before` ahead of the time limit; 0: none
  Duration warn_before{0};
  bool warn_shell_only = false;  // to the first process only (Slurm's B:), else to the whole task
  bool fence_lease = false;      // end it on its host when the leader is not heard for the lease
  std::string trace;             // W3C traceparent
  // Not before the tasks that its slice was given earlier have ended: then at once, without asking anybody. So a framework can keep a
  // slice busy with short tasks. Until then it counts as staging, and Kill.unstarted_only takes it back.
  bool in_turn = false;
  // kContainer: a root directory, or an OCI layout ("DIR" or "DIR:TAG"); kMicroVm: a disk image or a kernel.
  std::string image;
  std::vector<std::string> mounts;   // kContainer: "SOURCE[:TARGET[:ro]]", with the user's rights
  std::vector<std::string> isolate;  // over the agent's defaults: "private-tmp", "pid", "ipc", "net", ...; see bourse.conf(5)
  std::int32_t priority = 0;         // in a revocable slice: the lowest on the host is ended first. See "Pressure"
  bool operator==(const TaskSpec&) const = default;
};

enum class TaskState : std::uint8_t {
  kStaging,  // accepted by the agent, not started yet
  kRunning,
  kExited,       // terminal from here on: own exit, code in `exit_code`
  kSignaled,     // ended by a signal that Bourse did not send
  kFailedStart,  // never ran: `message` says why
  kKilled,       // ended by a kill that was asked for
  kTimeLimit,
  kOutOfMemory,
  kPreempted,
  kLost,          // declared by its framework or an operator, or the host rebooted
  kUnknownExit,   // it ended, and no process that could have known how is left. See "Keeper"
  kNeverStarted,  // answer to Reconcile: this agent does not know it and never will start it
};
[[nodiscard]] constexpr bool is_terminal(TaskState s) { return s >= TaskState::kExited; }
std::string_view task_state_text(TaskState state);

struct TaskStatus {
  TaskId task;
  TaskState state = TaskState::kStaging;
  std::int32_t exit_code = 0;     // kExited
  std::int32_t signal = 0;        // what ended it, where a signal did
  std::string message;            // one sentence for a person; empty where there is nothing to say
  Duration started{0}, ended{0};  // wall time
  Duration cpu{0};                // user + system of all its processes
  Bytes mem_peak;
  bool operator==(const TaskStatus&) const = default;
};

// The concrete slice as the agent carved it.
struct SliceSpec {
  SliceId id;
  Resources resources;
  std::vector<std::uint32_t> cpuset;  // PUs by OS index; empty: shared
  GangId gang;                        // 0: none
  Duration expiry{0};                 // idle time after which the agent releases it by itself; 0: never
  std::string role;
  bool revocable = false;     // lent, not given: taken back under pressure
  std::string reserved = {};  // the operators' reservation that it is part of, by name; empty: of none
  Duration since = {};        // wall time at which the master granted it
  std::string group = {};     // Shape.group of what it was carved for
  bool operator==(const SliceSpec&) const = default;
};

}  // namespace bourse
