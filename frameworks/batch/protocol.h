// What the tools (submit, bourse queue, cancel, ...) and bourse-batch say to each other, as values; batch.fbs as bytes.
//
// The tools use a LocalClient (common/world/local_client.h) to RUN/batch.sock, where the kernel says who asks; a program elsewhere a
// Connection (transport.h) to a tcp endpoint with CURVE, where the key's identity does. Every request carries a tag that its answer
// repeats; requests may be pipelined, answers to different requests may come in any order. A submission key makes Submit repeatable: the same key from the
// same user gives the same id. decode_* verify the whole buffer and every limit before the first field is read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "common/core/one_of.h"
#include "common/core/result.h"
#include "frameworks/batch/job.h"

namespace bourse::batch {

constexpr std::uint32_t kBatchProtocol = 1;
constexpr const char* kBatchSocketName = "batch.sock";  // in Places.run

constexpr std::size_t kScriptBytesMax = 4 * 1024 * 1024;
constexpr std::size_t kRequestBytesMax = 8 * 1024 * 1024;  // the sockets' message limit as well
constexpr std::size_t kReplyBytesMax = 64 * 1024 * 1024;   // a page of 10,000 full rows
constexpr std::size_t kEnvBytesMax = 2 * 1024 * 1024;
constexpr std::size_t kSubmitItemsMax = 1000;  // jobs in one request
constexpr std::size_t kStepKeyBytesMax = 64;
constexpr std::size_t kSelectorsMax = 20'000;  // ids in one request
constexpr std::size_t kFilterListMax = 1000;   // words in one list of a filter
constexpr std::size_t kWatchesMax = 10'000;    // jobs that one client may watch
constexpr std::size_t kPageMax = 10'000;       // rows in one answer
constexpr std::size_t kPageDefault = 1000;
constexpr std::size_t kWordBytesMax = 4096;  // a name, path or other short text
constexpr std::size_t kListMax = 20'000;     // args, environment variables

constexpr std::size_t kCredentialBytesMax = 16 * 1024;
// The reason of a refusal (kDenied) of a submit or step that brings no credential where one is needed: the tool then makes one.
constexpr std::string_view kCredentialNeeded = "this cluster asks for a MUNGE credential of the job's user";

// --- requests ------------------------------------------------------------------------------------------------------

struct SubmitRequest {
  struct Item {
    std::string key;  // made by the client, at most 128 bytes, the same when it tries again; "": not repeatable
    JobSpec spec;
    bool operator==(const Item&) const = default;
  };
  std::vector<Item> items;
  bool test_only = false;  // judge it, keep nothing
  bool operator==(const SubmitRequest&) const = default;
};

enum class Order : std::uint8_t {
  kId,
  kStart,  // running ones, then pending ones in the order in which they are considered
};
struct QueueRequest {  // jobs that are not terminal
  JobFilter filter;
  std::uint64_t after = 0;  // QueueReply.next of the page before
  std::uint32_t limit = 0;  // 0: kPageDefault; at most kPageMax
  Order order = Order::kId;
  bool full = false;
  bool each_task = false;  // an array's unstarted tasks one by one
  bool operator==(const QueueRequest&) const = default;
};
struct JobRequest {  // running, pending or ended: everything that is known
  JobSelector job;
  bool script = false;  // its text, in the first row of the answer
  bool operator==(const JobRequest&) const = default;
};
struct CancelRequest {
  std::vector<JobSelector> jobs;
  JobFilter filter;         // used when `jobs` is empty; an empty filter too is refused
  std::int32_t signal = 0;  // 0: end them; else send this to the running ones
  bool shell_only = false;  // to the first process (scancel -b)
  std::string reason;
  bool operator==(const CancelRequest&) const = default;
};
enum class Change : std::uint8_t { kHold, kRelease, kRequeue };
struct ChangeRequest {
  Change change = Change::kHold;
  std::vector<JobSelector> jobs;
  JobFilter filter;
  bool operator==(const ChangeRequest&) const = default;
};
struct HistoryRequest {  // jobs that ended, newest first
  JobFilter filter;
  std::uint64_t after = 0;  // HistoryReply.next of the page before
  std::uint32_t limit = 0;
  bool full = false;
  bool operator==(const HistoryRequest&) const = default;
};
struct NodesRequest {
  std::string after;  // the last name of the page before
  std::uint32_t limit = 0;
  bool operator==(const NodesRequest&) const = default;
};
struct WhyRequest {
  JobSelector job;
  bool operator==(const WhyRequest&) const = default;
};
// Answered by one JobChanged for each at once, and one at each change of state until the end; of a whole array only at its end.
struct WatchRequest {
  std::vector<JobSelector> jobs;
  bool operator==(const WatchRequest&) const = default;
};
struct SummaryRequest {
  bool operator==(const SummaryRequest&) const = default;
};
// Runs a command as the job's user inside a running job's slice on one of its nodes (`bourse step`, and what mpirun is given
// in place of ssh). Answered by a StepReply when it ended, or at once when it could not start.
struct StepRequest {
  JobSelector job;
  std::string node;  // "": the first
  std::vector<std::string> argv, env;
  std::string directory, stdin_path, stdout_path, stderr_path;
  std::string key;  // sent again with the same key, it is the same step and runs once; "": a new one each time
  MilliCpus cpus;   // waits until so much of its node is free of other steps that say this; with no node named, of any; 0: at once
  std::string credential = {};  // of its user for this step, see proof.h
  bool operator==(const StepRequest&) const = default;
};

struct RequestBodies {
  using Variant = std::variant<SubmitRequest, QueueRequest, JobRequest, CancelRequest, ChangeRequest, HistoryRequest, NodesRequest,
                               WhyRequest, WatchRequest, SummaryRequest, StepRequest>;
};
using RequestBody = OneOf<RequestBodies>;
struct ToolRequest {
  std::uint32_t version = kBatchProtocol;
  std::uint64_t tag = 0;
  RequestBody body;
  bool operator==(const ToolRequest&) const = default;
};

// --- answers -------------------------------------------------------------------------------------------------------

struct SubmitReply {  // in the order of the request's items; ids are durable when this is sent
  struct Item {
    JobId id;
    Code code = Code::kOk;
    std::string reason;          // not kOk: why. kOk: a remark ("no agents yet"), or empty
    Duration start_estimate{0};  // wall time; 0: not known
    bool operator==(const Item&) const = default;
  };
  std::vector<Item> items;
  bool operator==(const SubmitReply&) const = default;
};
struct QueueReply {
  std::vector<JobInfo> rows;
  std::uint64_t next = 0;  // 0: this was the last page
  bool operator==(const QueueReply&) const = default;
};
struct JobReply {
  Code code = Code::kOk;
  std::string reason;
  std::vector<JobInfo> rows;  // an array: its unstarted rest and each task that started
  bool operator==(const JobReply&) const = default;
};
struct ChangeReply {  // to CancelRequest and ChangeRequest
  struct Item {       // one for each selector that failed or was named; none for a filter
    JobSelector job;
    Code code = Code::kOk;  // kNotFound, kGone (ended already), kDenied
    std::string reason;
    bool operator==(const Item&) const = default;
  };
  Code code = Code::kOk;  // of the request itself
  std::string reason;
  std::vector<Item> items;
  std::uint64_t count = 0;  // jobs and array tasks that were changed
  bool operator==(const ChangeReply&) const = default;
};
struct HistoryReply {
  std::vector<JobInfo> rows;
  std::uint64_t next = 0;
  Code code = Code::kOk;
  std::string reason;
  bool operator==(const HistoryReply&) const = default;
};
struct NodesReply {
  std::vector<NodeInfo> nodes;
  bool more = false;
  bool operator==(const NodesReply&) const = default;
};
struct WhyReply {
  Code code = Code::kOk;
  std::string reason;
  JobInfo job;
  std::vector<std::string> lines;                             // for a person, the most important first
  std::vector<std::pair<std::string, std::uint32_t>> counts;  // agents by reason; they add up to `agents`
  std::uint32_t agents = 0;
  std::uint64_t position = 0;  // from 1 in the queue; 0: not waiting
  bool operator==(const WhyReply&) const = default;
};
struct JobChanged {
  JobSelector asked;  // as in the WatchRequest
  JobInfo job;        // a whole array: its worst exit code once all are terminal
  Code code = Code::kOk;
  std::string reason;
  bool last = false;  // nothing more will be said about `asked`
  bool operator==(const JobChanged&) const = default;
};
// What a candidate for the order of the queue would have done: see shadow.h.
struct ShadowFinding {
  std::string policy, fault;  // fault: why there is nothing to say
  Duration at{0}, since{0};   // when it was looked at, and the time that it covers
  std::uint64_t jobs = 0, moved = 0;
  double live_wait_s = 0, wait_s = 0;   // means of those jobs
  std::uint64_t live_job = 0, job = 0;  // where they part: who was started, and who would have been
  Duration differs_at{0};
  bool operator==(const ShadowFinding&) const = default;
};
// "sjf: 14 of 120 jobs would have started at another time ...": a line for people.
std::string text_of(const ShadowFinding& finding);
struct SummaryReply {
  std::string cluster;
  bool connected = false;  // to a master
  std::uint64_t pending = 0, running = 0, completing = 0, held = 0;
  std::uint64_t submitted_total = 0, started_total = 0, ended_total = 0;  // since this start
  std::uint32_t nodes_up = 0, nodes = 0, slices = 0, slices_idle = 0;
  MilliCpus cpus, cpus_used;
  Bytes mem, mem_used;
  std::vector<std::pair<std::string, std::uint64_t>> pending_by_reason, pending_by_user;
  std::vector<ShadowFinding> shadows;
  bool operator==(const SummaryReply&) const = default;
};
struct StepReply {
  Code code = Code::kOk;
  std::string reason;
  std::int32_t exit_code = 0, exit_signal = 0;
  bool operator==(const StepReply&) const = default;
};
struct RequestRefused {  // it could not be read, or is not allowed
  Code code = Code::kInvalid;
  std::string reason;
  bool operator==(const RequestRefused&) const = default;
};

struct ReplyBodies {
  using Variant = std::variant<SubmitReply, QueueReply, JobReply, ChangeReply, HistoryReply, NodesReply, WhyReply, JobChanged,
                               SummaryReply, StepReply, RequestRefused>;
};
using ReplyBody = OneOf<ReplyBodies>;
struct ToolReply {
  std::uint32_t version = kBatchProtocol;
  std::uint64_t tag = 0;
  ReplyBody body;
  bool operator==(const ToolReply&) const = default;
};

std::string encode(const ToolRequest& request);
Result<ToolRequest> decode_request(std::string_view bytes);  // kCorrupt, kLimit, kVersion
std::string encode(const ToolReply& reply);
Result<ToolReply> decode_reply(std::string_view bytes);

// For the store: a JobSpec without script and environment, which are kept by digest.
std::string encode_spec(const JobSpec& spec);
Result<JobSpec> decode_spec(std::string_view bytes);
// A few fields of an encoded specification, without decoding the rest; valid as long as `bytes`. Only for bytes of encode_spec.
struct SpecView {
  std::string_view name, user, partition, account, qos;
  std::int64_t uid = -1;
};
SpecView view_spec(std::string_view bytes);
std::string encode_info(const JobInfo& info);
Result<JobInfo> decode_info(std::string_view bytes);

}  // namespace bourse::batch
