// The exit log (format: protocol.h): which tasks were started on this host, and how they ended.
//
// Written by launcher, keeper and by each task's own process before its exec; read by the launcher only. Beyond the records of
// protocol.h: "S" ends in the name of the task's leaf; "U task-key\n": it ended, nobody knows how; "R task-key cpu-us oom
// mem-peak-bytes\n": what the launcher found out later about a task whose end the keeper recorded.
//
// "lease=MS" after the leaf: a task with fence = lease, and its grace. "N task-key\n": the launcher began to end it for that.
//
// start-ticks is the time (CLOCK_BOOTTIME, in clock ticks) at which the child wrote its record. A process with that pid that
// started later than that is another one.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "agent/launcher/protocol.h"

namespace bourse::launcher {

constexpr std::size_t kLogBytesLeast = 64 * 1024;  // a log smaller than this is not rewritten

// Appends one end of a process to the log at `path`. For the keeper: allocates nothing, remembers nothing, follows a rewrite
// by the launcher. False: it could not be written (disk full); the process should stay a zombie until it can be.
class EndWriter {
 public:
  explicit EndWriter(const char* path) : path_(path) {}
  ~EndWriter();
  EndWriter(const EndWriter&) = delete;
  EndWriter& operator=(const EndWriter&) = delete;
  bool append(pid_t pid, int wait_status, std::int64_t cpu_us);

 private:
  const char* path_;
  int fd_ = -1;
};

class ExitLog {
 public:
  enum class How : std::uint8_t { kRunning, kEnded, kUnknown };
  struct Task {
    SliceId slice;
    pid_t pid = 0;
    std::int64_t ticks = 0;
    std::string leaf;
    std::int64_t lease_grace_ms = -1;  // of a task with fence = lease; < 0: of one without
    bool fenced = false;               // its lease was over, and the launcher began to end it
    std::uint64_t order = 0;           // of starts, in this log: the later of two tasks with one leaf has it
    How how = How::kRunning;
    int wait_status = 0;
    Duration cpu{0};
    bool out_of_memory = false;
    Bytes mem_peak;
    Duration started_wall{0}, ended_wall{0};  // of this life of the launcher only; 0: of an earlier one
  };

  // Creates the log, or reads it. One of another boot is put aside (NAME.old) and a new one begun.
  static Result<std::unique_ptr<ExitLog>> open(const std::string& path, const std::string& boot_id);
  ~ExitLog();
  ExitLog(const ExitLog&) = delete;
  ExitLog& operator=(const ExitLog&) = delete;

  [[nodiscard]] bool rebooted() const { return rebooted_; }
  [[nodiscard]] int fd() const { return fd_; }  // for the child's own record
  [[nodiscard]] const std::map<TaskKey, Task>& tasks() const { return tasks_; }
  // Those that may have something in their leaf, or had it last: by leaf, the latest.
  [[nodiscard]] std::vector<TaskKey> last_in_leaf() const;
  [[nodiscard]] Task* find(const TaskKey& key);
  [[nodiscard]] const TaskKey* running(pid_t pid) const;  // whose first process it is; null: nobody's
  [[nodiscard]] std::int64_t bytes() const;

  void started(const TaskKey& key, Task task);  // the child has written the record
  Result<> ended(const TaskKey& key, int wait_status, Duration cpu, bool out_of_memory, Bytes mem_peak);
  Result<> resources(const TaskKey& key, Duration cpu, bool out_of_memory, Bytes mem_peak);
  Result<> unknown(const TaskKey& key);
  Result<> fenced(const TaskKey& key);
  Result<> failed(const TaskKey& key, pid_t pid, std::string_view reason);
  Result<> forget(const std::vector<TaskKey>& keys);

  // What others appended since; the tasks that ended by it.
  std::vector<TaskKey> read_new();
  // Rewrites the log without forgotten tasks when it is twice as large as what is live.
  Result<> tidy();

 private:
  ExitLog(std::string path, std::string boot_id) : path_(std::move(path)), boot_id_(std::move(boot_id)) {}
  Result<> append(std::string_view line);
  void apply(std::string_view line, std::vector<TaskKey>& ended);
  Result<> begin();
  Result<> rewrite();

  std::string path_, boot_id_;
  int fd_ = -1;
  bool rebooted_ = false;
  bool glued_ = false;  // the last append was cut short: a line end has to come before the next
  std::int64_t read_to_ = 0;
  std::int64_t last_size_ = 0;  // after the last rewrite
  std::vector<TaskKey> late_;   // ended, seen while rewriting; for the next read_new
  std::uint64_t starts_ = 0;
  std::map<TaskKey, Task> tasks_;
  std::map<pid_t, TaskKey> by_pid_;
};

// "S KEY SLICE " and " LEAF\n", with the lease: what the child puts its pid and ticks between.
std::string start_prefix(const TaskKey& key, const SliceId& slice);
std::string start_suffix(const std::string& leaf, std::int64_t lease_grace_ms);

}  // namespace bourse::launcher
