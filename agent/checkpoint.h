// The agent's durable memory: what each record of its checkpoint means, and how records become bytes.
//
// Records are appended with Safety::kProcess: they survive kill -9 of the agent, and a power loss ends the tasks anyway. A
// snapshot is a list of the same records, so restoring has one path. Every record carries its type and version; one that this
// program does not know makes it refuse to start, because going on without it could run a task twice.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/core/action.h"
#include "common/core/ids.h"
#include "common/core/one_of.h"
#include "common/core/result.h"
#include "common/core/task.h"
#include "common/core/time.h"

namespace bourse {

// What of a TaskSpec matters after the task has been started.
struct TaskLimits {
  std::string user;
  Duration time_limit = kNoLimit, kill_grace{0}, warn_before{0};
  std::int32_t warn_signal = 0;
  bool warn_shell_only = false, fence_lease = false;
  std::int32_t priority = 0;
  bool operator==(const TaskLimits&) const = default;
};

struct IdentityRecord {  // first of every checkpoint, and again when the host has been booted anew or the cluster is known
  std::string boot_id;
  StreamId stream;
  std::string cluster;
  bool operator==(const IdentityRecord&) const = default;
};
struct EpochRecord {
  Epoch epoch;
  bool operator==(const EpochRecord&) const = default;
};
struct SliceRecord {  // again with each change of state
  SliceSpec spec;
  bool held = false;
  Duration hold_until{0};  // Time.mono
  bool releasing = false;
  SliceEnd end = SliceEnd::kReleased;
  std::string reason;
  bool operator==(const SliceRecord&) const = default;
};
struct SliceGoneRecord {
  SliceId slice;
  bool operator==(const SliceGoneRecord&) const = default;
};
struct TaskRecord {  // accepted. `payload` is what Launch carried; empty in a snapshot once the task has been started
  TaskKey task;
  SliceId slice;
  TaskLimits limits;
  std::string payload;
  bool operator==(const TaskRecord&) const = default;
};
struct StartedRecord {
  TaskKey task;
  Duration mono{0}, wall{0};
  bool operator==(const StartedRecord&) const = default;
};
struct EndingRecord {  // it was asked to end, for this cause; SIGKILL is due at `kill_at` (Time.mono)
  TaskKey task;
  TaskState cause = TaskState::kKilled;
  Duration kill_at{0};
  std::string why;
  bool operator==(const EndingRecord&) const = default;
};
struct StatusRecord {  // an entry of a status stream; a terminal one ends the task. A sequence that is there is replaced
  FrameworkId framework;
  Sequence sequence;
  SliceId slice;
  TaskStatus status;
  bool operator==(const StatusRecord&) const = default;
};
struct AckedRecord {  // in a snapshot it also starts the stream: the next status has through + 1
  FrameworkId framework;
  Sequence through;
  bool operator==(const AckedRecord&) const = default;
};
struct TombstoneRecord {  // snapshots: a task that ended and whose end is acknowledged
  FrameworkId framework;
  SliceId slice;
  TaskStatus status;
  bool operator==(const TombstoneRecord&) const = default;
};

struct DevicesRecord {  // all devices that were ever seen, with the generation of each; replaces the one before
  struct Entry {
    Generation generation;
    std::uint64_t nature = 0;  // a hash; see DeviceGenerations
    bool operator==(const Entry&) const = default;
  };
  std::map<DeviceId, Entry> devices;
  bool operator==(const DevicesRecord&) const = default;
};

struct CheckpointRecords {
  using Variant = std::variant<IdentityRecord, EpochRecord, SliceRecord, SliceGoneRecord, TaskRecord, StartedRecord, EndingRecord,
                               StatusRecord, AckedRecord, TombstoneRecord, DevicesRecord>;
};
using CheckpointRecord = OneOf<CheckpointRecords>;

std::string encode_record(const CheckpointRecord& record);
Result<CheckpointRecord> decode_record(std::string_view bytes);  // kVersion: a newer program's; kCorrupt
std::string encode_snapshot(const std::vector<CheckpointRecord>& records);
// Everything that a life begins with, in order.
Result<std::vector<CheckpointRecord>> decode_checkpoint(std::string_view snapshot, const std::vector<std::string>& records);

// Appends records of one step, and knows when the log has grown enough to be replaced by a snapshot.
//
// After a failed append the log lacks a record, and what follows a gap means nothing: nothing is appended until a snapshot of
// everything is safe. See Agent::Impl on AppendFailed.
class Checkpoint {
 public:
  void add(Actions& out, const CheckpointRecord& record);
  [[nodiscard]] bool wants_snapshot() const {
    return !suspended_ && since_ > kRecordsMin && bytes_ > 2 * snapshot_bytes_ + kBytesMin;
  }
  void snapshot(Actions& out, const std::vector<CheckpointRecord>& records);
  void suspend() { suspended_ = true; }
  void resume() { suspended_ = false; }
  [[nodiscard]] bool suspended() const { return suspended_; }
  [[nodiscard]] bool missed() const { return missed_; }  // records that came since the last snapshot(), while suspended
  void restored(std::size_t snapshot_bytes, std::size_t records, std::size_t bytes);

 private:
  static constexpr std::size_t kRecordsMin = 2'000, kBytesMin = 1024 * 1024;
  std::size_t since_ = 0, bytes_ = 0, snapshot_bytes_ = 0;
  bool suspended_ = false, missed_ = false;
};

}  // namespace bourse
