// What a batch job is (JobSpec), how it stands (JobState, Reason) and how it is named (JobSelector).
//
// Plain values, used by the actor, its store and the tools alike. State names and codes are Slurm's, because scripts compare them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/core/hostlist.h"
#include "common/core/ids.h"
#include "common/core/labels.h"
#include "common/core/resources.h"
#include "common/core/result.h"
#include "common/core/task.h"
#include "common/core/time.h"

namespace bourse::batch {

// Never reused. An array of n tasks takes n + 1 numbers: its own, and job + 1 + rank for each task, so that every task has a
// number of its own (%j, SUBMIT_JOB_ID) without a record of its own before it starts.
using JobId = Number<struct JobTag>;

enum class JobState : std::uint8_t {
  kPending,
  kConfiguring,  // its slices are being made
  kRunning,
  kCompleting,  // ended or being ended; not all of it is gone or on disk
  kCompleted,   // terminal from here on
  kFailed,
  kCancelled,
  kTimeout,
  kOutOfMemory,
  kNodeFail,
  kPreempted,
  kDeadline,
};
constexpr std::size_t kJobStates = 12;
[[nodiscard]] constexpr bool is_terminal(JobState s) { return s >= JobState::kCompleted; }
std::string_view state_name(JobState state);                  // "PENDING"
std::string_view state_code(JobState state);                  // "PD"
Result<JobState> parse_state(std::string_view name_or_code);  // any case; "CANCELED" too

enum class Reason : std::uint8_t {
  kNone,
  // Pending.
  kPriority,    // others are ahead of it
  kResources,   // next, and waiting for enough to be free
  kDependency,  // a job that it depends on has not ended
  kDependencyNeverSatisfied,
  kHeldUser,
  kHeldAdmin,
  kBeginTime,
  kArrayTaskLimit,  // as many of its array run as it allows
  kNoAgents,        // none has registered yet
  kNodeNotAvailable,
  kLaunchHeld,  // held after too many attempts
  // Ended.
  kNonZeroExit,
  kRaisedSignal,
  kTimeLimit,
  kOutOfMemory,
  kNodeFail,
  kLaunchFailed,
  kCancelled,
  kUnknownExit,
  // Pending; the numbers of reasons stay.
  kReservation,      // it names one that has not begun, or has too little time left
  kReservationGone,  // ... that is no more
};
constexpr std::size_t kReasons = 22;
std::string_view reason_name(Reason reason);  // Slurm's word where there is one: "Resources", "JobHeldUser"

enum class DependencyType : std::uint8_t { kAfter, kAfterOk, kAfterNotOk, kAfterAny, kAfterCorr, kSingleton };
struct Dependency {
  DependencyType type = DependencyType::kAfterAny;
  JobId job;                           // kSingleton: 0
  std::optional<std::uint64_t> index;  // one task of an array; none: the whole job
  Duration delay{0};                   // kAfter: that long after its start
  bool operator==(const Dependency&) const = default;
};
struct Dependencies {
  std::vector<Dependency> items;
  bool any = false;  // one of them is enough ("?" between them), else all ("," between them)
  bool operator==(const Dependencies&) const = default;
};
constexpr std::size_t kDependenciesMax = 1000;
// "afterok:12:13_4,after:14+5,singleton", "afterok:1?afterany:2"; "" is none.
Result<Dependencies> parse_dependencies(std::string_view text);
std::string to_text(const Dependencies& dependencies);

// Array of tasks: "1-1000:2%50".
struct ArraySpec {
  IndexSet indexes;               // empty: not an array
  std::uint32_t max_running = 0;  // 0: no limit
};
Result<ArraySpec> parse_array(std::string_view text);
std::string to_text(const ArraySpec& array);

// What `submit` asks for. Zero or empty means "not said" unless a comment says otherwise.
struct JobSpec {
  std::string name, partition, account, qos, comment, reservation, licenses, hint;
  std::string mail_type, mail_user;

  // Whose. From peer credentials on the local socket; what is said here counts only from root or an operator.
  std::string user;
  std::int64_t uid = -1, gid = -1;

  // What runs: the script with `args`, or, where the script is empty, the program args[0] with the rest, and no shell (--exec).
  // The script's bytes travel once and are kept by digest.
  std::string script;             // with its "#!" line
  std::string script_path;        // as the user named it; "" with --wrap and --exec
  std::vector<std::string> args;  // after the script's name; without a script: the program, looked for in the job's PATH, first
  std::vector<std::string> env;   // "NAME=value", after --export was applied
  std::string directory;          // where it runs
  std::string submit_dir, submit_host;
  std::string stdin_path;
  std::string stdout_path;  // with patterns; "": job-%j.out, arrays job-%A_%a.out
  std::string stderr_path;  // "": with stdout
  bool append_output = false;
  std::uint32_t umask = 0022;
  std::vector<Rlimit> rlimits;
  std::string vm;                             // what the virtual machine boots that it runs in, see vm_image.h; "": it runs in none
  std::string container;                      // image; "": none
  std::vector<std::string> container_mounts;  // "SOURCE[:TARGET[:ro]]"
  std::vector<std::string> isolate;           // words of TaskSpec::isolate
  std::string credential;                     // of its user for this job, see proof.h; "": none

  // How much.
  std::uint32_t nodes_min = 0, nodes_max = 0;
  std::uint32_t tasks = 0, tasks_per_node = 0, cpus_per_task = 0;
  std::int64_t mem_per_node = -1, mem_per_cpu = -1;  // bytes; -1: not said, 0: all of the node
  Bytes disk;
  std::vector<DeviceAsk> devices_per_node;    // --gres, --gpus-per-node
  std::uint32_t gpus = 0, gpus_per_task = 0;  // of kind gpu_kind, "gpu/" or "gpu/:TYPE"; over the whole job, and a task
  std::string gpu_kind;                       // "gpu/": any
  bool exclusive = false;
  bool revocable = false;               // out of what others lend: it may be ended, and starts again, at any moment
  std::string node_list, exclude;       // host lists
  std::vector<Constraint> constraints;  // bourse-constraint(7): -C
  std::vector<bourse::Placement> placement;
  std::string group;  // of its slices, for the placement rules; given at submit, "" without rules

  // When.
  Duration time_limit{0};  // 0: the site's default; kNoLimit: none
  Duration begin{0};       // wall time
  Duration deadline{0};    // wall time; 0: none
  std::string array;       // parse_array()'s language
  std::string dependency;  // parse_dependencies()'s language
  bool hold = false;
  std::int32_t nice = 0;
  std::optional<std::uint32_t> priority;           // root and operators; replaces the computed one
  std::optional<bool> requeue;                     // none: the site's default
  std::optional<bool> kill_on_invalid_dependency;  // none: yes
  std::int32_t warn_signal = 0;                    // --signal
  Duration warn_before{0};
  bool warn_shell_only = false;
  bool slurm_names = false;  // submitted through a Slurm front: SLURM_* is set in any case, this is for messages

  bool operator==(const JobSpec&) const = default;
};

// What a job or its tools are called in texts: "123", "123_4", "123_[1-3,7]".
struct JobSelector {
  JobId job;            // an array's own number, a plain job's, or one array task's own number
  std::string indexes;  // IndexSet text; "": all of it
  bool operator==(const JobSelector&) const = default;
};
Result<JobSelector> parse_selector(std::string_view text);
std::string to_text(const JobSelector& selector);

// Which jobs. Lists are "any of"; an empty list says nothing. All that is said must hold.
struct JobFilter {
  std::vector<JobSelector> jobs;
  std::vector<std::string> users, names, partitions, accounts, hosts;
  std::vector<JobState> states;
  Duration from{0}, to{0};  // history, wall time: was in the system between; 0: open
  bool operator==(const JobFilter&) const = default;
  [[nodiscard]] bool empty() const { return *this == JobFilter{}; }
};

// A job, or an array's task, or an array's unstarted rest, as tools show it. Times are wall time, 0 where not yet.
struct JobInfo {
  JobId id;             // own number; for an unstarted rest the array's
  JobId array;          // 0: not of an array
  std::string indexes;  // a task: its index; an unstarted rest: "5-9%2"
  std::string name, user, account, partition, qos;
  std::int64_t uid = -1;
  JobState state = JobState::kPending;
  Reason reason = Reason::kNone;
  std::string reason_text;  // a sentence, where there is more to say than `reason`
  std::int64_t priority = 0;
  std::int32_t nice = 0;
  std::uint32_t nodes = 1, tasks = 1, cpus_per_task = 1;
  MilliCpus cpus;  // of the whole job
  Bytes mem;       // per node
  Duration time_limit{0};
  Duration submitted{0}, eligible{0}, started{0}, ended{0}, estimated_start{0};
  Duration elapsed{0};
  std::string node_list;  // compressed
  std::int32_t exit_code = 0, exit_signal = 0;
  std::uint32_t restarts = 0;
  Bytes mem_peak;
  Duration cpu{0};

  // Only with `full`.
  bool full = false;
  std::int64_t gid = -1;
  std::string directory, script_path, stdin_path, stdout_path, stderr_path, comment, dependency, constraints, node_request, exclude,
      submit_dir, script_digest, devices, reservation, mail_type, mail_user;
  std::vector<std::string> args;
  Duration begin{0};
  bool requeue = false, exclusive = false;
  std::string script;  // only when it was asked for
  bool operator==(const JobInfo&) const = default;
};
std::string display_id(const JobInfo& info);  // "123", "123_4", "123_[5-9%2]"

struct NodeInfo {
  std::string name, state;  // "idle", "mixed", "allocated", "down", "draining", "cordoned"
  MilliCpus cpus, cpus_used;
  Bytes mem, mem_used;
  std::uint32_t jobs = 0;  // of this framework, running there
  std::string labels;      // "zone=a,arch=x86_64"
  std::string devices;     // "gpu/nvidia:4"
  bool degraded = false;
  bool operator==(const NodeInfo&) const = default;
};

}  // namespace bourse::batch
