// What batch appends, typed and versioned. The store keeps them by job; the simulator keeps them as a log. Either way a life
// starts from such records in order, and replaying one twice changes nothing.
//
// A record is: type (u8), version (u8), fields. A newer version only adds fields at the end; a reader takes what it knows.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "common/core/one_of.h"
#include "common/core/result.h"
#include "common/core/time.h"
#include "frameworks/batch/job.h"

namespace bourse::batch {

// A script or an environment, kept once by digest.
struct BlobRecord {
  std::string digest;  // "sha256:HEX"
  std::string bytes;
  bool operator==(const BlobRecord&) const = default;
};
// A job was accepted. Power: its id is told only after this is safe. Attempt 1 of each of its tasks is implied.
struct SubmitRecord {
  JobId id;
  std::uint64_t ids = 1;  // numbers taken: 1, or an array's tasks + 1
  std::string key;        // user's submission key, "" none
  Duration submitted{0};
  std::string spec;  // encode_spec
  std::string script_digest, env_digest;
  bool operator==(const SubmitRecord&) const = default;
};
// From now on only this attempt counts. Power, and before it is launched.
struct AttemptRecord {
  JobId job;
  std::uint64_t rank = 0;
  std::uint32_t attempt = 0;
  std::uint32_t restarts = 0;
  bool held = false;
  bool operator==(const AttemptRecord&) const = default;
};
// Where an attempt was sent. Only a hint that shortens recovery: it may be missing.
struct HintRecord {
  JobId job;
  std::uint64_t rank = 0;
  std::uint32_t attempt = 0;
  std::string agents;  // host list; the first runs the script
  std::string slices;  // their numbers on those agents, "7,8"
  bool operator==(const HintRecord&) const = default;
};
// Tasks first..last ended the same way (only cancelling unstarted ones ends several at once). Power, before the status is
// acknowledged. `whole`: nothing of the job is left.
struct EndRecord {
  JobId job;
  std::uint64_t first = 0, last = 0;
  JobState state = JobState::kCompleted;
  bool whole = false;
  std::uint64_t number = 0;  // own number of the first: the history's key
  std::string info;          // encode_info
  bool operator==(const EndRecord&) const = default;
};
struct ChangeRecord {
  JobId job;
  bool held = false;
  bool held_by_admin = false;
  bool operator==(const ChangeRecord&) const = default;
};
// Only from the store at start: how jobs of the past ended, for dependencies and submission keys.
struct OutcomeRecord {
  JobId job;
  bool ok = false;
  std::string key;
  std::int64_t uid = -1;
  bool operator==(const OutcomeRecord&) const = default;
};
// Only from the store at start: the next free number.
struct CounterRecord {
  JobId next;
  bool operator==(const CounterRecord&) const = default;
};
// What the policy has learnt, of whatever policy it is; the last one counts. Process: the loss of the newest costs little.
struct LearntRecord {
  std::string policy;  // its name
  std::string state;   // policy::Host::save()
  bool operator==(const LearntRecord&) const = default;
};

struct Records {
  using Variant = std::variant<BlobRecord, SubmitRecord, AttemptRecord, HintRecord, EndRecord, ChangeRecord, OutcomeRecord,
                               CounterRecord, LearntRecord>;
};
using Record = OneOf<Records>;

std::string encode(const Record& record);
Result<Record> decode_record(std::string_view bytes);  // kCorrupt, kVersion

}  // namespace bourse::batch
