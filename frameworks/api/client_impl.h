// Inside of the client actor. client.cc has the session, client_receive.cc what the master says, client_command.cc what the
// framework says. The tables own the rules.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/core/master_search.h"
#include "frameworks/api/client.h"
#include "frameworks/api/offer_table.h"
#include "frameworks/api/slice_table.h"
#include "frameworks/api/status_streams.h"
#include "frameworks/api/task_table.h"

namespace bourse {

constexpr Duration kHelloEvery = seconds(1);
constexpr std::uint32_t kHellosPerMaster = 3;      // unanswered, then the next master is tried
constexpr std::uint32_t kGoodbyesMax = 3;          // said, a kHelloEvery apart, until the master knows us no more
constexpr Duration kRepeatEvery = seconds(10);     // unanswered accepts, and rounds of reconciliation
constexpr Duration kReportWait = seconds(10);      // after a Welcome, for slices to be reported; then the master judges launches
constexpr Duration kAckGather = milliseconds(10);  // between two acknowledgements: what comes meanwhile shares one,
constexpr std::size_t kAckStatusesMax = 64;        // up to so many
constexpr Duration kReturnGather =
    milliseconds(20);  // from the first slice that an agent reports again to our repeating what it missed
constexpr std::size_t kExplainsMax = 10'000;
constexpr std::size_t kAcceptsMax = 100'000;  // unanswered
constexpr std::size_t kAgentsMax = 1'000'000;

struct Client::Impl {
  explicit Impl(ClientOptions o) : options(std::move(o)), search("framework " + options.framework.value, options.masters) {}

  using OfferTable = api::OfferTable;
  using SliceTable = api::SliceTable;
  using StatusStreams = api::StatusStreams;
  using TaskTable = api::TaskTable;
  enum class Phase : std::uint8_t {
    kNew,
    kHello,    // hello sent, not answered
    kKnock,    // a master that did not lead was asked whether it does now
    kUp,       // welcomed
    kWait,     // backing off before the next hello, or knock
    kLeaving,  // goodbye said, not known to have arrived
    kRefused,  // final
    kEnded,    // final: goodbye
  };
  enum Timer : std::uint32_t {
    kHelloTimer = kClientTimers,
    kHeartbeatTimer,
    kSilenceTimer,
    kOfferTimer,
    kFlushTimer,
    kRepeatTimer,
    kAckTimer,
    kReturnTimer,
  };
  using Up = std::vector<SessionEvent>;

  ClientOptions options;
  Incarnation incarnation;
  Phase phase = Phase::kNew;
  Epoch epoch_seen, session_epoch;
  bool announced = false;  // SessionUp was told, and no SessionDown since
  std::uint32_t hellos = 0;
  MasterSearch search;
  bool knock_next = false;  // after the back-off
  Duration heartbeat = seconds(5), peer_timeout = seconds(30);
  Duration last_heard{0}, welcomed{0};
  bool sent_since_tick = false;
  static constexpr std::uint32_t kWallEvery = 12;  // ticks
  std::uint32_t ticks_without_wall = 0;
  bool flush_armed = false, acks_armed = false;
  std::size_t unsaid_acks = 0;    // statuses that the next acknowledgement covers
  Duration acks_said{-kNoLimit};  // when the last acknowledgements left
  std::optional<Duration> offers_armed;

  OfferTable offers;
  SliceTable slices;
  StatusStreams streams;
  TaskTable tasks;
  std::uint64_t numbers = 0;  // slices and gangs made in this life
  std::uint64_t gangs = 0;

  std::optional<Demand> demand;  // the last one set, as sent
  bool demand_dirty = false;
  std::uint64_t demand_version = 0;
  std::map<std::uint64_t, std::uint64_t> explains;  // tag -> line, not answered
  std::optional<bool> goodbye;                      // to be said, or said; true: for ever

  // Agents whose slices were reported in this session, hence whose tasks were asked about.
  std::set<AgentId> reported;
  // Agents that have come back in this session: what was said to them meanwhile had nowhere to go. All their slices are reported
  // first, hence the short wait.
  std::set<AgentId> returned;
  struct Patience {  // between questions to an agent that does not answer
    std::uint64_t next_round = 0, step = 1;
  };
  std::map<AgentId, Patience> patience;
  std::uint64_t round = 1;

  std::optional<Version> agents_version;
  std::optional<std::vector<AgentFacts>> agents_snapshot;  // while chunks of it come

  // session: client.cc
  Message make(Body body, std::string trace = {}) const;
  void send(Actions& out, Body body, std::string trace = {});
  void say_hello(Actions& out);
  void knock(Time now, Actions& out);
  void leave(Actions& out, Up& up, const std::string& reason, const MasterSearch::Next& next);
  void silent(Actions& out, Up& up, const std::string& reason) { leave(out, up, reason, search.silent()); }
  void finish(Phase final_phase, Actions& out);
  void say_goodbye(Actions& out);
  void timer(Time now, const TimerKey& key, Actions& out, Up& up);
  void welcome(Time now, const Message& message, const Welcome& body, Actions& out, Up& up);
  void resync(Time now, Actions& out);
  void flush(Time now, Actions& out);      // demand and acknowledgements
  void want_flush(Actions& out);           // at the end of this turn
  void want_acks(Time now, Actions& out);  // kAckGather after the last ones: they are cumulative, and nothing waits for them
  void arm_offers(Time now, Actions& out);
  void repeat_orders(Actions& out, const std::set<AgentId>* only);  // kills and declared losses whose tasks have not ended
  void reconcile(const AgentId& agent, Actions& out);
  void reconcile_round(Actions& out);

  // messages: client_receive.cc
  void receive(Time now, const Message& message, Actions& out, Up& up);
  void refused(const Refused& body, Actions& out, Up& up);
  void on(Time now, const Offers& body, Actions& out, Up& up);
  void on(Time now, const OffersEnded& body, Actions& out, Up& up);
  void on(Time now, const AcceptReply& body, Actions& out, Up& up);
  void on(Time now, const SliceUp& body, Actions& out, Up& up);
  void on(Time now, const SliceGone& body, Actions& out, Up& up);
  void on(Time now, const SliceRevoking& body, Actions& out, Up& up);
  void on(Time now, const StatusUpdate& body, Actions& out, Up& up);
  void on(Time now, const LaunchRefused& body, Actions& out, Up& up);
  void on(Time now, const AgentsUpdate& body, Actions& out, Up& up);
  void on(Time now, const ExplainReply& body, Actions& out, Up& up);
  template <class Other>
  void on(Time, const Other&, Actions&, Up&) {}  // not for frameworks
  void fail_gang(GangId gang, const std::string& reason, Actions& out, Up& up);
  void refuse_waiting(const SliceId& slice, const std::string& reason, Up& up);
  void send_waiting(const SliceId& slice, Actions& out);
  void never_started(const AgentId& agent, const SliceId& slice, const TaskId& task, std::string reason, Up& up);

  // commands: client_command.cc
  void command(Time now, const SetDemand& body, Actions& out, Up& up);
  void command(Time now, const AcceptOffers& body, Actions& out, Up& up);
  void command(Time now, const DeclineOffers& body, Actions& out, Up& up);
  void command(Time now, const LaunchTask& body, Actions& out, Up& up);
  void command(Time now, const KillTask& body, Actions& out, Up& up);
  void command(Time now, const AckStatus& body, Actions& out, Up& up);
  void command(Time now, const ReleaseSlice& body, Actions& out, Up& up);
  void command(Time now, const ReconcileTasks& body, Actions& out, Up& up);
  void command(Time now, const DeclareTasksLost& body, Actions& out, Up& up);
  void command(Time now, const Explain& body, Actions& out, Up& up);
  void command(Time now, const EndSession& body, Actions& out, Up& up);
  Result<> launch(const AgentId& agent, const SliceId& slice, const TaskId& task, const TaskSpec& spec, Actions& out, Up& up);
  bool launch_must_wait(const SliceId& slice) const;
};

}  // namespace bourse
