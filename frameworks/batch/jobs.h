// The table of jobs that have not ended, kept small: what a hundred thousand pending jobs have in common is kept once.
//
// Owned by Batch. A job's specification stays encoded (encode_spec, without script and environment) and is shared by equal ones; so
// are scripts and environments, by digest. What scheduling looks at is decoded once into SpecEntry and Layout.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "frameworks/batch/arrays.h"
#include "frameworks/batch/job.h"
#include "frameworks/batch/layout.h"
#include "frameworks/batch/mail.h"
#include "frameworks/batch/protocol.h"

namespace bourse::batch {

struct SpecEntry {
  std::string bytes;
  std::uint32_t refs = 0;
  std::uint32_t uid = 0;
  std::uint32_t layout = 0;  // index of LayoutPool
  std::uint32_t layout_epoch = 0;
  std::int32_t nice = 0;
  bool requeue = true;
  MailSet mail = 0;
  Duration limit{0}, begin{0};
  std::unique_ptr<const std::string> reservation;  // that it names; null: none
};

struct SharedBlob {
  std::string digest, bytes;
  std::uint32_t refs = 0;
  bool stored = false;  // its record is durable or on its way
};

struct DependState {
  Dependencies items;        // those not met yet (all of them where `any`)
  std::vector<JobId> waits;  // registered under these
  JobId corr;                // aftercorr: compared task by task; 0 none
  bool kill_when_never = true;
};

struct ArrayRetry {
  std::uint32_t attempt = 1, restarts = 0;
};

struct Job {
  JobId id;
  SpecEntry* spec = nullptr;
  SharedBlob* script = nullptr;
  SharedBlob* env = nullptr;
  Duration submitted{0}, eligible{0};  // wall time
  Duration not_before{0};              // mono: after several attempts that failed
  std::uint64_t key_hash = 0;
  std::uint64_t queued = 0;  // tasks of it that the queue counts; 0: not in the queue
  std::int64_t rank_priority = 0;
  std::uint32_t attempt = 1, restarts = 0;  // of a plain job
  std::uint32_t layout = 0;                 // while it is in the queue or runs; spec->layout may have changed
  JobState state = JobState::kPending;      // of a plain job; an array is kPending while a task waits
  Reason reason = Reason::kNone;
  bool held = false, held_admin = false;
  bool durable = false;     // its submit record is
  bool suspect = false;     // may have been launched by an earlier life: waits for every agent's word
  bool doubt = false;       // no longer suspect, but some agent has not spoken: start it as a new attempt
  bool ending = false;      // its last record is on its way to the disk
  bool mail_begun = false;  // an array's user has been told that it began
  std::unique_ptr<ArrayState> array;
  std::unique_ptr<std::map<std::uint64_t, ArrayRetry>> retries;  // array ranks beyond attempt 1
  std::unique_ptr<DependState> depend;

  [[nodiscard]] std::uint64_t ids() const { return array ? array->size() + 1 : 1; }
  [[nodiscard]] std::uint64_t number(std::uint64_t rank) const { return array ? id.value + 1 + rank : id.value; }
  [[nodiscard]] bool waiting() const { return array ? array->waiting() > 0 : state == JobState::kPending; }
};

class Jobs {
 public:
  Job& add(JobId id, std::string spec_bytes, const JobSpec& spec, const BatchOptions& options);
  void erase(JobId id);
  void reconsider(const BatchOptions& options);  // the site's limits and defaults have changed
  [[nodiscard]] Job* find(JobId id);
  // The job to which this number belongs: its own, or that of an array's task (then `rank` is set).
  [[nodiscard]] Job* find_number(std::uint64_t number, std::optional<std::uint64_t>& rank);
  [[nodiscard]] std::map<JobId, Job>& all() { return jobs_; }
  [[nodiscard]] const std::map<JobId, Job>& all() const { return jobs_; }

  // A reference to the blob, new or known.
  SharedBlob* share(const std::string& digest, std::string_view bytes);
  SharedBlob* share_known(const std::string& digest);  // null: not known
  void unshare(SharedBlob* blob);

  // The specification with script and environment. Valid until the next call, or a change of a job: the tasks of an array, and jobs
  // that differ in nothing, share one decoded.
  [[nodiscard]] const JobSpec& full_spec(const Job& job) const;
  [[nodiscard]] static SpecView view(const Job& job) { return view_spec(job.spec->bytes); }

 private:
  struct Decoded {
    const SpecEntry* entry = nullptr;
    const SharedBlob *script = nullptr, *env = nullptr;
    JobSpec spec;
  };
  mutable Decoded decoded_;
  std::map<JobId, Job> jobs_;
  std::unordered_map<std::string_view, std::unique_ptr<SpecEntry>> specs_;
  std::unordered_map<std::string_view, std::unique_ptr<SharedBlob>> blobs_;
};

// Layouts by number; equal ones once.
class LayoutPool {
 public:
  std::uint32_t intern(Layout layout);
  [[nodiscard]] const Layout& at(std::uint32_t number) const { return *layouts_[number]; }
  [[nodiscard]] std::size_t size() const { return layouts_.size(); }

 private:
  std::vector<std::unique_ptr<Layout>> layouts_;
  std::map<std::string, std::uint32_t> by_key_;
};

}  // namespace bourse::batch
