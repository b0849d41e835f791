// The batch framework's actor: from submitted jobs to demands, launches and records, and from statuses to results.
//
// A step function (common/core/actor.h): no I/O. It hears of the cluster by SessionEvents, of the tools by Requests, of its store by
// Durable and AppendFailed. Promises:
//  - An id is told only after its submit record is safe, and a job starts only after that.
//  - A task id (job, index, attempt) is launched at most once; later attempts are on record before they are launched.
//  - A terminal status is acknowledged to the agent only after its end record is safe.
//  - After a restart nothing that an earlier life may have launched is launched again before every agent has been asked.
// This file only routes; the rules live in the tables: jobs, queue, allocations, planner, arrays, depend, layout, environment.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/core/actor.h"
#include "common/core/span.h"
#include "frameworks/batch/allocations.h"
#include "frameworks/batch/class_order.h"
#include "frameworks/batch/depend.h"
#include "frameworks/batch/environment.h"
#include "frameworks/batch/jobs.h"
#include "frameworks/batch/mail.h"
#include "frameworks/batch/protocol.h"
#include "frameworks/batch/queue.h"
#include "frameworks/batch/records.h"
#include "frameworks/batch/shadow.h"

namespace bourse::batch {

constexpr std::size_t kDemandLinesMax = 64;
constexpr std::uint32_t kDemandCountMax = 100'000;  // slices of one line
constexpr std::size_t kKeysKept = 200'000;          // submission keys remembered
constexpr std::size_t kWhysMax = 1000;              // questions to the master that wait for an answer
constexpr std::size_t kStepsMax = 10'000;
constexpr std::size_t kWatchesTotalMax = 200'000;  // of all clients
constexpr Duration kKeepLearnt = seconds(60);      // least time between two records of what a policy has learnt
constexpr Duration kProbeEvery = seconds(60);      // is a client that waits still there?
constexpr std::size_t kFlushRecordsMax = 5000;     // end records in one step
constexpr std::size_t kAheadMax = 64;              // jobs that follow in one slice
constexpr std::size_t kTroublesMax = 10'000;       // jobs whose last failed start is remembered, for `bourse why`
constexpr std::size_t kPacesMax = 10'000;          // kinds of jobs whose run time is remembered
constexpr std::size_t kTraceTimesMax = 10'000;     // while tracing: offers, and jobs queued again, of which is known when

// What is told of a run when it has started or ended, while tracing. Times are wall time; 0: there was no such moment.
struct RunTrace {
  TraceContext job;   // of the job's, or the array task's, own span
  TraceContext task;  // of this run: what the task itself is told
  Duration queued{0}, decided{0}, offered{0}, ready{0};
  bool told = false;  // how it came to start
};

// One run of a job or array task, from the decision to start it until its end is on record.
struct Run {
  JobId job;
  std::uint64_t rank = 0;
  std::uint32_t attempt = 1, restarts = 0;
  TaskId task;
  std::vector<SliceId> slices;  // the first runs the script
  std::vector<AgentId> agents;
  std::uint32_t layout = 0;
  GangId gang;
  JobState state = JobState::kConfiguring;
  Duration started{0};                                 // wall; 0: not heard yet
  Duration launched_wall{0}, launched_mono{kNoLimit};  // kNoLimit: by an earlier life
  Duration started_mono{0};                            // when this was heard; 0: not yet
  Duration limit{0}, end_at{0};                        // as launched; mono
  bool recovered = false;                              // of an earlier life; its agent has not spoken yet
  bool cancelled = false, requeue_asked = false, node_failed = false;
  std::string cancel_reason;
  std::string recalled;        // why its slice is taken back; empty: it is not
  Duration reserved_until{0};  // wall; when the reservation ends that it names; 0: it names none, or one without an end
  bool outstayed = false;      // it is being ended with it
  std::uint32_t steps = 0, next_step = 1;
  bool follows = false;  // waits in its slice for those before it
  bool in_turn = false;  // was sent to follow; it may have its turn by now
  std::unique_ptr<RunTrace> trace;
};

class Batch final : public Actor {
 public:
  explicit Batch(BatchOptions options);
  ~Batch() override;
  void step(Time now, const Event& event, Actions& out) override;
  // Before Started: tell what becomes of jobs, as spans; of so many permille of those whose submitter does not say whether to.
  void set_tracing(std::uint32_t permille) { trace_ = true, trace_permille_ = permille; }

  // For the outer driver, on its thread: is this job still here (else the history has it)?
  [[nodiscard]] bool knows(const JobSelector& job) const;
  struct Counts {
    std::uint64_t jobs = 0, queued_tasks = 0, runs = 0, slices = 0, idle_slices = 0, submitted = 0, started = 0, ended = 0;
    bool recovering = false;
  };
  [[nodiscard]] Counts counts() const;

  enum Timer : std::uint32_t {
    kFlush = 1,
    kDemand,
    kWakeJobs,
    kIdleSlices,
    kRetryAppend,
    kRecovery,
    kWakeLater,
    kProbePeers,
    kAhead,
    kShadow,
    kReservationEnd,
    kMailTimes
  };

 private:
  struct Asker {
    PeerId peer;
    std::uint64_t tag = 0;
  };
  struct Ended {  // one EndRecord on its way
    JobId job;
    std::uint64_t first = 0, last = 0;
    bool whole = false, ok = false;
    JobInfo info;
  };
  // What a step appended, by its ticket.
  struct Pending {
    std::vector<JobId> submits;
    std::vector<Ended> ends;
    std::vector<std::pair<JobId, std::uint64_t>> attempts;  // job, rank
    std::vector<std::string> records;                       // to be tried again; not submits
    std::vector<std::pair<Asker, ReplyBody>> on_failure;    // instead of the replies that were dropped
    std::vector<std::pair<Asker, ReplyBody>> afterwards;    // answers that wait for the same
    std::vector<AckStatus> acks;
  };
  struct Who {
    std::int64_t uid = -1, gid = -1;
    bool admin = false;
    std::string name;
  };
  struct Watch {
    Asker asker;
    JobSelector asked;
  };
  struct Step {
    Asker asker;
    std::uint64_t run = 0;
    AgentId agent;
    std::size_t node = 0;  // of the run
    MilliCpus cpus;        // that it counts with; 0: none
  };
  struct StepShare {                 // of one run's cores, among steps that count with some
    std::vector<std::int64_t> used;  // by node, 1/1000 of a core
    std::deque<std::pair<Asker, StepRequest>> waiting;
    [[nodiscard]] bool idle() const {
      return waiting.empty() && std::ranges::all_of(used, [](std::int64_t millis) { return millis == 0; });
    }
  };
  struct StreamMark {
    Sequence seen;
    bool dirty = false;
  };

  // batch.cc: events
  void on(const Started& e);
  void on(const Request& e);
  void on(const TimerFired& e);
  void on(const Durable& e);
  void on(const AppendFailed& e);
  void on(const SessionEvent& e);
  void on(const PeerLost& e);
  void on(const Reload& e);
  void session(const SessionUp& e);
  void session(const SessionDown& e);
  void session(const SessionRefused& e);
  void session(const OfferMade& e);
  void session(const OfferEnded& e);
  void session(const AcceptAnswered& e);
  void session(const SliceReady& e);
  void session(const GangReady& e);
  void session(const GangFailed& e);
  void session(const SliceLost& e);
  void session(const SliceRecalled& e);
  void session(const TaskUpdate& e);
  void session(const AgentsChanged& e);
  void session(const Explained& e);
  void flush();
  void flush_soon();
  void flush_later();
  void load(Record record, std::map<std::uint64_t, HintRecord>& hints, std::vector<SharedBlob*>& loaded);

  // batch_recovery.cc
  void ask_agent(const AgentId& agent);
  void agent_answered(const AgentId& agent, std::uint32_t round);
  void check_recovery(bool late);
  void relayout();  // what agents there are has changed

  // batch_submit.cc
  Who who(const Request& request) const;
  void handle(const Asker& asker, const Who& who, SubmitRequest request);
  Result<JobId> admit(const Who& who, const std::string& key, JobSpec spec, bool test_only, std::string& remark);
  void handle(const Asker& asker, const Who& who, const CancelRequest& request);
  void handle(const Asker& asker, const Who& who, const ChangeRequest& request);
  std::uint64_t cancel_waiting(Job& job, std::uint64_t first, std::uint64_t last, Reason reason, const std::string& text,
                               Pending& pending);
  void cancel_run(Run& run, std::int32_t signal, bool shell_only, const std::string& reason);
  Result<std::uint64_t> cancel_one(const Who& who, const JobSelector& selector, const CancelRequest& request, Pending& pending);
  Result<std::uint64_t> change_one(const Who& who, const JobSelector& selector, Change change, Pending& pending);
  [[nodiscard]] std::vector<JobSelector> select(const JobFilter& filter) const;
  [[nodiscard]] bool may_touch(const Who& who, const Job& job) const { return who.admin || who.uid == job.spec->uid; }
  Result<> add_dependencies(Job& job, const Dependencies& dependencies, bool kill_when_never);
  void erase_job(JobId id);

  // batch_run.cc: when jobs start. batch_status.cc: how they go on and end
  void qualify(Job& job);        // into the queue, or out of it, and why
  void settle_depend(Job& job);  // judges what it waits for
  void target_changed(JobId target);
  [[nodiscard]] TargetFacts facts_of(const Dependency& dependency) const;
  [[nodiscard]] std::optional<std::uint64_t> next_rank(Job& job);
  std::uint64_t corresponding(Job& job, std::uint64_t startable);
  const Layout& layout_of(Job& job);
  void schedule();
  void pass_with_head(const Need*& head, Planner::Reservation& reservation);
  void pass_with_promises(const Need*& head, Planner::Reservation& reservation);
  bool try_start(Job& job, Planner::Reservation* reservation, const Need* head);
  bool start_reserved(Job& job);
  [[nodiscard]] std::optional<AgentId> window_in_way(const Job& job) const;
  [[nodiscard]] bool runs_into_window(const Job& job, const Planner::Reservation& reservation) const;
  [[nodiscard]] bool of_reservation(const Offer& offer, const Layout& layout) const;
  void make_room(const Need& head, const Planner::Reservation& reservation);
  void return_offers(const Need* head);
  std::uint64_t start_run(Job& job, std::uint64_t rank, std::vector<SliceId> slices, GangId gang);
  void started(Job& job, Run& run, std::uint64_t number);
  Run& note_run(Job& job, std::uint64_t rank, std::uint32_t attempt, bool recovered);
  void launch(Job& job, Run& run);
  [[nodiscard]] Placement placement_of(const Job& job, const Run& run) const;
  void update(const TaskUpdate& e);
  void finish(Run& run, const TaskStatus& status);
  [[nodiscard]] Duration ran_for(const Run& run, Duration started, Duration ended) const;
  void requeue(Run& run, bool ran, const std::string& why);
  void bump(Job& job, std::uint64_t rank, bool ran);
  void free_slices(Run& run);
  void release(Slice& slice, Duration grace);
  void ended(Ended note);  // its record is safe
  void publish_demand();
  void use_policy(const Result<policy::Choice>& choice);
  void use_shadows(std::string_view specs);  // a line each
  void shadows_soon();
  void compare_shadows();
  void load_learnt();  // what the policy in force had learnt in a former life, or is given to begin with
  void keep_learnt();  // in the store, at times
  void demand_soon(bool force = false);
  void wake_at_wall(JobId job, Duration wall);
  void wake_at(JobId job, Duration mono);
  void wake(JobId job);
  [[nodiscard]] std::uint32_t attempt_of(const Job& job, std::uint64_t rank) const;
  [[nodiscard]] std::uint32_t restarts_of(const Job& job, std::uint64_t rank) const;

  // batch_reserved.cc: jobs that name a reservation
  [[nodiscard]] Result<> check_reservation(const JobSpec& spec, std::string& remark) const;
  Reason reservation_in_way(Job& job);
  [[nodiscard]] std::string reservation_text(const Job& job) const;
  [[nodiscard]] Duration limit_of(const Job& job) const;
  void reservations_changed();
  void bind_to_reservation(Run& run);
  void end_with_reservation();

  // batch_ahead.cc: short jobs follow one another in a slice without waiting for us
  bool start_behind(Job& job, std::uint64_t rank, const SliceKind& kind);
  void start_ahead();
  void let_follow(Slice& slice);  // the next of the slice has its turn
  void take_back(Slice& slice);
  void take_back_late();
  void note_pace(const SliceKind& kind, Duration ran);
  void find_slice(Run& run, std::uint64_t number, Slice slice);

  // batch_mail.cc: what users are told by mail
  [[nodiscard]] bool mails(const Job& job, MailOn on) const;
  void mail(const Job& job, MailOn on, const JobInfo& info, const std::string& reason = {}, std::uint64_t tasks = 0,
            std::uint64_t failed = 0);
  void mail_begin(Job& job, const Run& run);
  void mail_parts(const Job& job, std::uint64_t number, const Run& run);
  void arm_mail();
  void mail_due();
  void mail_end(const Job& job, const Ended& note);

  // batch_trace.cc: spans of what becomes of jobs. Only with trace_
  [[nodiscard]] TraceContext job_trace(const Job& job, std::optional<TraceContext>* submitter = nullptr) const;
  [[nodiscard]] TraceContext rank_trace(const Job& job, std::uint64_t rank, const TraceContext& whole) const;
  [[nodiscard]] std::string accept_trace(const Job& job, std::uint64_t rank) const;
  std::string trace_launch(const Job& job, Run& run);
  void trace_offer(OfferId offer);
  void trace_requeue(const Job& job, Run& run, const std::string& why);
  void trace_submitted(const Job& job);
  void trace_way(Run& run, Duration started, const std::string& failure);
  void trace_over(const Job& job, Run& run, Duration started, Duration ended, const std::string& failure);
  void trace_ended(const Job& job, const Ended& note);

  // batch_tools.cc: what the tools ask
  void handle(const Asker& asker, const Who& who, const QueueRequest& request);
  void handle(const Asker& asker, const Who& who, const JobRequest& request);
  void handle(const Asker& asker, const Who& who, const NodesRequest& request);
  void handle(const Asker& asker, const Who& who, const WhyRequest& request);
  void handle(const Asker& asker, const Who& who, const SummaryRequest& request);
  void handle(const Asker& asker, const Who& who, const HistoryRequest& request);
  void answer(const Asker& asker, ReplyBody body);
  [[nodiscard]] JobInfo base_info(const Job& job, bool full) const;
  [[nodiscard]] JobInfo run_info(const Job& job, const Run& run, bool full) const;
  [[nodiscard]] JobInfo waiting_info(const Job& job, bool full) const;
  void rows_of(const Job& job, const JobFilter& filter, bool full, bool each_task, std::size_t limit,
               std::vector<JobInfo>& rows) const;
  [[nodiscard]] bool passes(const Job& job, const JobFilter& filter) const;
  [[nodiscard]] bool is_first(const Job& job) const;
  [[nodiscard]] std::pair<Reason, std::string> reason_of(const Job& job) const;
  [[nodiscard]] std::string closed_to(const Job& job) const;

  // batch_peers.cc: clients that wait for something, and the reload
  void handle(const Asker& asker, const Who& who, const WatchRequest& request);
  void changed(const JobInfo& info, JobId job, bool job_over);
  void probe_soon();
  void probe_peers();

  // batch_steps.cc: commands inside running jobs
  void handle(const Asker& asker, const Who& who, const StepRequest& request);
  void start_step(const Asker& asker, std::uint64_t number, std::size_t node, const StepRequest& request);
  void start_waiting_steps(std::uint64_t number);
  void refuse_waiting_steps(std::uint64_t number);
  void step_update(const TaskUpdate& e);
  [[nodiscard]] MilliCpus cores_of(const Run& run, std::size_t node);
  [[nodiscard]] static TaskId step_id(Run& run, const std::string& key);

  BatchOptions options_;
  bool trace_ = false;
  std::uint32_t trace_permille_ = 1000;
  Time now_;
  Actions* out_ = nullptr;  // of the step at hand

  Jobs jobs_;
  LayoutPool layouts_;
  Queue queue_;
  Allocations alloc_;
  Shadow shadow_;
  ClassOrder order_;
  JobId head_;  // the first that the last pass could not start; 0: none
  Outcomes outcomes_;
  std::map<std::uint64_t, Run> runs_;  // by own number
  std::map<GangId, std::uint64_t> gangs_;
  std::multimap<JobId, JobId> waiters_;                      // target -> who waits for it
  std::set<std::pair<Duration, JobId>> wakes_, mono_wakes_;  // by wall time and by mono
  std::unordered_map<std::uint64_t, JobId> keys_;
  std::deque<std::uint64_t> key_order_;
  std::map<Ticket, Pending> pending_;
  std::deque<Pending> retry_;
  Pending gathered_;                                          // end and attempt records for the next flush
  std::vector<std::pair<std::uint64_t, std::string>> hints_;  // by the task's own number
  std::map<std::pair<AgentId, StreamId>, StreamMark> streams_;
  std::vector<std::pair<Asker, ReplyBody>> early_;  // only for the mutant
  std::multimap<JobId, Watch> watches_;
  std::map<PeerId, std::uint32_t> watch_counts_;
  std::map<TaskId, Step> steps_;
  std::map<std::uint64_t, StepShare> step_shares_;  // by the run's number
  struct WhyAsked {
    Asker asker;
    WhyReply reply;
  };
  std::map<std::uint64_t, WhyAsked> whys_;
  std::map<AgentId, std::uint32_t> asked_;  // recovery: rounds that the agent has answered; see batch_recovery.cc
  std::map<AgentId, std::vector<TaskId>> recovered_on_;
  Incarnation incarnation_;
  JobId next_id_{1};
  std::uint64_t next_slice_ = 1, next_gang_ = 1, next_why_ = 1, launch_round_ = 0;
  Duration flush_at_{0}, flushed_at_{-kNoLimit};
  bool connected_ = false, recovering_ = false, dirty_ = false, flush_armed_ = false, demand_armed_ = false, demand_forced_ = false;
  bool probe_armed_ = false, idle_armed_ = false, recovery_armed_ = false, full_ = false;
  std::string cluster_, down_reason_ = "not connected yet";
  std::vector<DemandLine> demanded_;
  std::map<JobId, std::string> troubles_;  // why they were queued again the last time
  std::map<SliceKind, Duration> paces_;    // how long such jobs ran lately
  bool ahead_armed_ = false;
  std::map<OfferId, Accept::Item> taking_;  // while a pass decides
  std::string taking_trace_;                // of the first job that takes
  // Wall times, only with trace_: when offers came, and when what has a number was queued again.
  std::map<OfferId, Duration> offer_times_;
  std::map<std::uint64_t, Duration> requeue_times_;
  std::set<OfferId> used_up_;
  bool passed_over_ = false;                           // in this pass: one that would run into maintenance, or a reservation
  std::map<std::string, const Need*> reserved_heads_;  // by reservation: the first in it that this pass could not start
  std::map<std::uint32_t, OfferId> cursor_;            // by layout: offers before this one have nothing for it in this pass
  std::set<std::tuple<Duration, std::uint64_t, MailOn>> mail_times_;  // mono, number of the run
  bool shadow_armed_ = false;
  std::map<std::string, std::string> learnt_;  // by policy: what it had learnt when it was in force last
  std::string learnt_record_;                  // for the next flush
  Duration learnt_at_{0};
  std::uint64_t submitted_ = 0, started_ = 0, ended_ = 0;
};

}  // namespace bourse::batch
