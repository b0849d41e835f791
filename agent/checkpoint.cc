#include "agent/checkpoint.h"

#include <limits>

#include "common/core/hooks.h"
#include "common/core/one_of_members.h"
#include "common/wire/wire.h"

namespace bourse {
namespace {

constexpr std::uint8_t kRecordVersion = 2;  // 2: a task's priority; a record without one is written as of version 1
constexpr char kSnapshotMark = 'S';

enum class Type : std::uint8_t {
  kIdentity = 1,
  kEpoch,
  kSlice,
  kSliceGone,
  kTask,
  kStarted,
  kEnding,
  kStatus,
  kAcked,
  kTombstone,
  kDevices,
};

class Writer {
 public:
  explicit Writer(Type type, std::uint8_t version = 1) {
    bytes_.push_back(static_cast<char>(type));
    bytes_.push_back(static_cast<char>(version));
  }
  Writer& number(std::uint64_t n) {
    for (; n >= 0x80; n >>= 7) bytes_.push_back(static_cast<char>(n | 0x80));
    bytes_.push_back(static_cast<char>(n));
    return *this;
  }
  Writer& time(Duration d) { return number(static_cast<std::uint64_t>(d.count())); }
  Writer& flag(bool b) { return number(b ? 1 : 0); }
  Writer& text(std::string_view s) {
    number(s.size());
    bytes_.append(s);
    return *this;
  }
  Writer& slice(const SliceId& id) { return text(id.framework.str()).number(id.number); }
  Writer& task(const TaskKey& key) { return text(key.framework.str()).text(key.task.str()); }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Reads what Writer wrote; the first thing that does not fit makes everything after it empty and ok() false.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : left_(bytes) {}
  std::uint64_t number() {
    std::uint64_t n = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (left_.empty()) break;
      const auto byte = static_cast<std::uint8_t>(left_.front());
      left_.remove_prefix(1);
      n |= std::uint64_t{byte & 0x7fU} << shift;
      if ((byte & 0x80U) == 0) return n;
    }
    ok_ = false;
    left_ = {};
    return 0;
  }
  Duration time() { return Duration(static_cast<std::int64_t>(number())); }
  bool flag() { return number() != 0; }
  std::string text() {
    const std::uint64_t size = number();
    if (size > left_.size()) {
      ok_ = false;
      left_ = {};
      return {};
    }
    std::string s(left_.substr(0, size));
    left_.remove_prefix(size);
    return s;
  }
  SliceId slice() {
    SliceId id;
    id.framework = FrameworkId(text());
    id.number = number();
    return id;
  }
  TaskKey task() {
    TaskKey key;
    key.framework = FrameworkId(text());
    key.task = TaskId(text());
    return key;
  }
  [[nodiscard]] bool ok() const { return ok_; }
  [[nodiscard]] bool done() const { return left_.empty(); }

 private:
  std::string_view left_;
  bool ok_ = true;
};

struct Encoder {
  std::string operator()(const IdentityRecord& r) const {
    return Writer(Type::kIdentity).text(r.boot_id).number(r.stream.value).text(r.cluster).take();
  }
  std::string operator()(const EpochRecord& r) const { return Writer(Type::kEpoch).number(r.epoch.value).take(); }
  std::string operator()(const SliceRecord& r) const {
    return Writer(Type::kSlice)
        .text(wire::encode_slice(r.spec))
        .flag(r.held)
        .time(r.hold_until)
        .flag(r.releasing)
        .number(static_cast<std::uint64_t>(r.end))
        .text(r.reason)
        .take();
  }
  std::string operator()(const SliceGoneRecord& r) const { return Writer(Type::kSliceGone).slice(r.slice).take(); }
  std::string operator()(const TaskRecord& r) const {
    const TaskLimits& l = r.limits;
    Writer out(Type::kTask, l.priority == 0 ? 1 : 2);
    out.task(r.task)
        .slice(r.slice)
        .text(l.user)
        .time(l.time_limit)
        .time(l.kill_grace)
        .time(l.warn_before)
        .number(static_cast<std::uint32_t>(l.warn_signal))
        .flag(l.warn_shell_only)
        .flag(l.fence_lease)
        .text(r.payload);
    if (l.priority != 0) out.number(static_cast<std::uint32_t>(l.priority));
    return out.take();
  }
  std::string operator()(const StartedRecord& r) const {
    return Writer(Type::kStarted).task(r.task).time(r.mono).time(r.wall).take();
  }
  std::string operator()(const EndingRecord& r) const {
    return Writer(Type::kEnding).task(r.task).number(static_cast<std::uint64_t>(r.cause)).time(r.kill_at).text(r.why).take();
  }
  std::string operator()(const StatusRecord& r) const {
    return Writer(Type::kStatus)
        .text(r.framework.str())
        .number(r.sequence.value)
        .slice(r.slice)
        .text(wire::encode_status(r.status))
        .take();
  }
  std::string operator()(const AckedRecord& r) const {
    return Writer(Type::kAcked).text(r.framework.str()).number(r.through.value).take();
  }
  std::string operator()(const TombstoneRecord& r) const {
    return Writer(Type::kTombstone).text(r.framework.str()).slice(r.slice).text(wire::encode_status(r.status)).take();
  }
  std::string operator()(const DevicesRecord& r) const {
    Writer out(Type::kDevices);
    out.number(r.devices.size());
    for (const auto& [id, entry] : r.devices) out.text(id.str()).number(entry.generation.value).number(entry.nature);
    return out.take();
  }
};

Result<CheckpointRecord> decode_body(Type type, std::uint8_t version, Reader& in) {
  switch (type) {
    case Type::kIdentity: {
      IdentityRecord r;
      r.boot_id = in.text();
      r.stream = StreamId(in.number());
      r.cluster = in.text();
      return CheckpointRecord(std::move(r));
    }
    case Type::kEpoch:
      return CheckpointRecord(EpochRecord{Epoch(in.number())});
    case Type::kSlice: {
      SliceRecord r;
      const std::string spec = in.text();
      r.held = in.flag();
      r.hold_until = in.time();
      r.releasing = in.flag();
      const std::uint64_t end = in.number();
      r.reason = in.text();
      if (!in.ok() || end > static_cast<std::uint64_t>(SliceEnd::kGangAborted))
        return Error(Code::kCorrupt, "slice record is malformed");
      r.end = static_cast<SliceEnd>(end);
      r.spec = BOURSE_TRY(wire::decode_slice(spec));
      return CheckpointRecord(std::move(r));
    }
    case Type::kSliceGone:
      return CheckpointRecord(SliceGoneRecord{in.slice()});
    case Type::kTask: {
      TaskRecord r;
      r.task = in.task();
      r.slice = in.slice();
      r.limits.user = in.text();
      r.limits.time_limit = in.time();
      r.limits.kill_grace = in.time();
      r.limits.warn_before = in.time();
      r.limits.warn_signal = static_cast<std::int32_t>(in.number());
      r.limits.warn_shell_only = in.flag();
      r.limits.fence_lease = in.flag();
      r.payload = in.text();
      if (version >= 2) r.limits.priority = static_cast<std::int32_t>(static_cast<std::uint32_t>(in.number()));
      return CheckpointRecord(std::move(r));
    }
    case Type::kStarted: {
      StartedRecord r;
      r.task = in.task();
      r.mono = in.time();
      r.wall = in.time();
      return CheckpointRecord(std::move(r));
    }
    case Type::kEnding: {
      EndingRecord r;
      r.task = in.task();
      const std::uint64_t cause = in.number();
      if (cause > static_cast<std::uint64_t>(TaskState::kNeverStarted)) return Error(Code::kCorrupt, "ending record is malformed");
      r.cause = static_cast<TaskState>(cause);
      r.kill_at = in.time();
      r.why = in.text();
      return CheckpointRecord(std::move(r));
    }
    case Type::kStatus: {
      StatusRecord r;
      r.framework = FrameworkId(in.text());
      r.sequence = Sequence(in.number());
      r.slice = in.slice();
      r.status = BOURSE_TRY(wire::decode_status(in.text()));
      return CheckpointRecord(std::move(r));
    }
    case Type::kAcked: {
      AckedRecord r;
      r.framework = FrameworkId(in.text());
      r.through = Sequence(in.number());
      return CheckpointRecord(std::move(r));
    }
    case Type::kTombstone: {
      TombstoneRecord r;
      r.framework = FrameworkId(in.text());
      r.slice = in.slice();
      r.status = BOURSE_TRY(wire::decode_status(in.text()));
      return CheckpointRecord(std::move(r));
    }
    case Type::kDevices: {
      DevicesRecord r;
      for (std::uint64_t left = in.number(); left > 0 && in.ok(); --left) {
        const DeviceId id(in.text());
        DevicesRecord::Entry& entry = r.devices[id];
        entry.generation = Generation(in.number());
        entry.nature = in.number();
      }
      return CheckpointRecord(std::move(r));
    }
  }
  return Error(Code::kVersion, "record type " + std::to_string(static_cast<unsigned>(type)) +
                                   " is not known to this version of bourse-agent: a newer one wrote it; install that one again");
}

}  // namespace

std::string encode_record(const CheckpointRecord& record) { return std::visit(Encoder{}, record); }

Result<CheckpointRecord> decode_record(std::string_view bytes) {
  if (bytes.size() < 2) return Error(Code::kCorrupt, "record is empty");
  const auto version = static_cast<std::uint8_t>(bytes[1]);
  if (version == 0 || version > kRecordVersion)
    return Error(Code::kVersion, "record has version " + std::to_string(version) + ", this bourse-agent knows up to " +
                                     std::to_string(kRecordVersion) + ": a newer one wrote it; install that one again");
  Reader in(bytes.substr(2));
  auto record = decode_body(static_cast<Type>(static_cast<std::uint8_t>(bytes[0])), version, in);
  if (record && (!in.ok() || !in.done())) return Error(Code::kCorrupt, "record is malformed");
  return record;
}

std::string encode_snapshot(const std::vector<CheckpointRecord>& records) {
  std::string bytes(1, kSnapshotMark);
  for (const CheckpointRecord& record : records) {
    const std::string one = encode_record(record);
    std::uint64_t n = one.size();
    for (; n >= 0x80; n >>= 7) bytes.push_back(static_cast<char>(n | 0x80));
    bytes.push_back(static_cast<char>(n));
    bytes += one;
  }
  return bytes;
}

Result<std::vector<CheckpointRecord>> decode_checkpoint(std::string_view snapshot, const std::vector<std::string>& records) {
  std::vector<CheckpointRecord> all;
  if (!snapshot.empty()) {
    if (snapshot.front() != kSnapshotMark)
      return Error(Code::kVersion, "the snapshot has a format that this bourse-agent does not know");
    Reader in(snapshot.substr(1));
    while (!in.done()) {
      const std::string one = in.text();
      if (!in.ok()) return Error(Code::kCorrupt, "the snapshot is malformed");
      auto record = decode_record(one);
      if (!record) return std::move(record).error().add("snapshot");
      all.push_back(*std::move(record));
    }
  }
  for (std::size_t i = 0; i < records.size(); ++i) {
    auto record = decode_record(records[i]);
    if (!record) return std::move(record).error().add("record " + std::to_string(i + 1));
    all.push_back(*std::move(record));
  }
  return all;
}

void Checkpoint::add(Actions& out, const CheckpointRecord& record) {
  if (hooks::mutant("agent.no_checkpoint")) return;
  if (suspended_) {
    missed_ = true;
    return;
  }
  std::string bytes = encode_record(record);
  ++since_;
  bytes_ += bytes.size();
  out.append(Safety::kProcess, std::move(bytes));
}

void Checkpoint::snapshot(Actions& out, const std::vector<CheckpointRecord>& records) {
  if (hooks::mutant("agent.no_checkpoint")) return;
  out.compact = encode_snapshot(records);
  snapshot_bytes_ = out.compact.size();
  since_ = bytes_ = 0;
  missed_ = false;
}

void Checkpoint::restored(std::size_t snapshot_bytes, std::size_t records, std::size_t bytes) {
  snapshot_bytes_ = snapshot_bytes;
  since_ = records;
  bytes_ = bytes;
}

template struct OneOf<CheckpointRecords>;

}  // namespace bourse
