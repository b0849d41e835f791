// An isolator enforces one kind of limit on a slice. One interface for cgroup v1, v2, and whatever comes.
//
// Every call is idempotent: doing it again, or after a crash half-way, leaves the same state. Used by the launcher (a small
// root program), hence no logging, no threads, no ZeroMQ here.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "agent/isolators/devices.h"
#include "common/core/ids.h"
#include "common/core/result.h"
#include "common/core/time.h"
#include "common/core/units.h"

namespace bourse {

// Most bytes and operations per second on one block device; 0: no limit.
struct IoLimit {
  std::uint32_t major = 0, minor = 0;
  std::uint64_t read_bytes = 0, write_bytes = 0, reads = 0, writes = 0;
  bool operator==(const IoLimit&) const = default;
};

struct SliceLimits {
  MilliCpus cpus;                     // quota and weight; 0: no limit
  Bytes mem;                          // hard limit; 0: none
  std::vector<std::uint32_t> cpuset;  // PUs of its own; empty: shares those that no slice has for its own
  std::vector<std::uint32_t> mems;    // NUMA nodes; empty: all
  std::uint32_t pids = 0;             // 0: no limit
  Bytes mem_high{};                   // from here on it is slowed down and reclaimed from, before the hard limit; 0: none
  bool devices_limited = false;       // only `devices` may be opened
  std::vector<DeviceRule> devices{};
  std::vector<IoLimit> io{};
  bool revocable = false;  // lent: in the sub-tree of those, which stands behind all others. See "Pressure"
  bool operator==(const SliceLimits&) const = default;
};

struct Usage {
  Duration cpu{0};
  Bytes mem_peak;
  bool out_of_memory = false;  // an OOM kill happened in it since it was prepared
};

// What a whole slice uses, tasks that have ended included.
struct SliceUse {
  Duration cpu{0};
  Bytes mem;              // without page cache that nobody has used of late
  bool critical = false;  // a process in it has a negative oom_score_adj
};

// Descriptors a child uses between vfork and exec to enter a leaf: clone3's CLONE_INTO_CGROUP target, and `tasks` files
// to which it writes "0". Owned by the isolator, close-on-exec.
struct Entry {
  int clone_into = -1;
  std::vector<int> write_zero;
};

class Isolator {
 public:
  virtual ~Isolator() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;  // "cgroup-v2", "cgroup-v1", "none"
  // What is missing, one sentence each; empty: fully isolated.
  [[nodiscard]] virtual std::vector<std::string> degraded() const = 0;
  virtual Result<> prepare(const std::string& slice, const SliceLimits& limits) = 0;
  virtual Result<> limit(const std::string& slice, const SliceLimits& limits) = 0;
  // A leaf for one task, made ahead or taken from the slice's pool of empty ones.
  virtual Result<Entry> attach(const std::string& slice, const std::string& task) = 0;
  virtual Result<Usage> usage(const std::string& slice, const std::string& task) = 0;
  // SIGKILL to every process in the task's leaf, again until it is empty. kBusy: not empty yet.
  virtual Result<> kill(const std::string& slice, const std::string& task) = 0;
  virtual Result<> signal(const std::string& slice, const std::string& task, int signal) = 0;
  // Somebody else removed groups of it: makes the slice and an empty pool again, with the limits it had. Tasks that run keep theirs.
  virtual Result<> renew(const std::string& slice) = 0;
  virtual Result<> detach(const std::string& slice, const std::string& task) = 0;  // leaf back to the pool or removed
  virtual Result<> release(const std::string& slice) = 0;                          // everything of the slice; kBusy while not empty
  // Where the task sits in its slice, and after a restart of the launcher the way back: kNotFound when it is there no more.
  [[nodiscard]] virtual std::string leaf(const std::string& slice, const std::string& task) const = 0;
  virtual Result<> adopt(const std::string& slice, const std::string& task, const std::string& leaf) = 0;
  // For isolators that have no group to look into: the task's first process, and what to add to its environment ("" : nothing).
  virtual void started(const std::string& slice, const std::string& task, int pid) = 0;
  [[nodiscard]] virtual std::string marker(const std::string& slice, const std::string& task) const = 0;
  // After a restart: slices found on the host that are not in `known` are killed and removed.
  virtual Result<> recover(const std::vector<std::string>& known) = 0;
  // For lending (see "Pressure"); what an isolator cannot measure is kUnsupported, what it cannot limit stays as it is.
  virtual Result<SliceUse> measure(const std::string& slice) {
    return Error(Code::kUnsupported, "what slice " + slice + " uses is not known without cgroups");
  }
  virtual Result<> limit_lent(Bytes) { return {}; }                   // all revocable slices together
  virtual Result<> squeeze(const std::string&, Bytes) { return {}; }  // one slice's memory.high; 0: as it was prepared
  // The end: the sub-tree itself, once no slice is left. Nothing else may be called after it.
  virtual Result<> remove_root() = 0;
};

// What this host can do, best first. `root` is the sub-tree of our own ("bourse" by default); never touches another group.
std::unique_ptr<Isolator> make_isolator(const std::string& root, bool want_isolation);

}  // namespace bourse
