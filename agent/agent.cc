#include "agent/agent.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include "agent/checkpoint.h"
#include "agent/generations.h"
#include "agent/inventory.h"
#include "agent/oversubscription.h"
#include "agent/probing.h"
#include "agent/session.h"
#include "agent/slices.h"
#include "agent/status_stream.h"
#include "agent/tasks.h"
#include "agent/tracer.h"
#include "agent/turn.h"
#include "common/core/hooks.h"
#include "common/world/log.h"

namespace bourse {
namespace {

constexpr Duration kRepairAfter = seconds(5);

template <class... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <class... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

}  // namespace

struct Agent::Impl {
  explicit Impl(AgentOptions o)
      : options(std::move(o)),
        session(options.id, options.masters),
        slices(options.id, inventory),
        streams(options.id),
        tasks(options.id, options.settings.default_grace, slices, streams),
        lending(slices, tasks) {
    session.on_hello([this] { return hello(); });
    session.on_figures([this] { return figures(); });
    if (options.trace) tracer.emplace(options.id);
    tasks.set_collector(options.tasks_collector);
    probes.configure(options.settings);
    lending.configure(options.settings.lend);
    warm.configure(options.settings.warm);
    tasks.use_warm(&warm);
  }

  AgentOptions options;
  Checkpoint book;
  AgentInventory inventory;
  AgentSession session;
  SliceTable slices;
  StatusStreams streams;
  TaskTable tasks;
  Oversubscription lending;
  WarmPools warm;
  std::optional<AgentTracer> tracer;
  bool dead = false;      // refused to start
  bool restored = false;  // there was an earlier life
  ProbeTable probes;
  DeviceGenerations generations;
  std::set<FrameworkId> removed;  // Welcome said so: their streams go with their last slice

  // What waits for a record: a slice that is carved, or a task that is started, without a record of it would be unknown to the next
  // life, which would give the same resources away again. See "Two kinds of append".
  struct Waiting {
    Ticket ticket = 0;
    std::vector<HostAction> host;
    std::vector<Send> sends;  // of later steps without records: they may tell what this record says
  };
  std::deque<Waiting> waiting;  // one for each step whose records are not known to be safe
  Ticket repair = 0;            // the step whose snapshot, when safe, makes the checkpoint whole again
  Duration muted{0};            // since when
  Duration lease_told{0};       // to the host, of this life of its launcher; 0: nothing

  AgentHello hello() const {
    AgentHello h;
    h.agent = options.id;
    h.incarnation = session.incarnation();
    h.epoch_seen = session.epoch();
    h.boot_id = options.boot_id;
    h.inventory = inventory.inventory();
    h.slices = slices.hello();
    for (AgentHello::Slice& slice : h.slices) slice.tasks = tasks.for_hello(slice.spec.id);
    h.degraded = h.inventory.labels.count("degraded") != 0;
    return h;
  }

  Counters figures() const {
    Counters out;
    lending.figures(out);
    warm.figures(out);
    return out;
  }

  void say_hello(Turn& t) {
    session.begin(t.now, t.out);
    slices.farewell(t);
  }

  void renew_stream(Turn& t, StreamId stream) {
    if (stream != streams.stream()) tasks.renumber(streams.renew(stream));
    identity(t);
  }

  void identity(Turn& t) { t.record(IdentityRecord{options.boot_id, streams.stream(), session.cluster()}); }

  std::vector<CheckpointRecord> everything() const {
    std::vector<CheckpointRecord> all;
    all.emplace_back(IdentityRecord{options.boot_id, streams.stream(), session.cluster()});
    all.emplace_back(EpochRecord{session.epoch()});
    generations.snapshot(all);
    slices.snapshot(all);
    tasks.snapshot_tasks(all);
    tasks.snapshot_tombstones(all);
    streams.snapshot(all);
    return all;
  }

  // --- a life begins -------------------------------------------------------------------------------------------------

  void on(Turn& t, const Started& event) {
    session.start(event.incarnation);
    auto records = decode_checkpoint(event.snapshot, event.records);
    if (!records) {
      t.out.log(log_text(LogLevel::kError, "checkpoint_unreadable", {{"reason", records.error().text()}}));
      t.out.stop = dead = true;
      return;
    }
    std::size_t bytes = 0;
    for (const std::string& record : event.records) bytes += record.size();
    book.restored(event.snapshot.size(), event.records.size(), bytes);
    std::string boot_id;
    for (const CheckpointRecord& record : *records) {
      std::visit(Overloaded{
                     [&](const IdentityRecord& r) {
                       boot_id = r.boot_id;
                       if (r.stream != streams.stream()) tasks.renumber(streams.renew(r.stream));
                       session.restore_cluster(r.cluster);
                       restored = true;
                     },
                     [&](const EpochRecord& r) { session.restore_epoch(r.epoch); },
                     [&](const DevicesRecord& r) { generations.restore(r); },
                     [&](const SliceRecord& r) { slices.restore(r); },
                     [&](const SliceGoneRecord& r) { slices.restore(r); },
                     [&](const AckedRecord& r) { tasks.restore_acked(r.framework, streams.restore(r)); },
                     [&](const StatusRecord& r) {
                       streams.restore(r);
                       tasks.restore(r);
                     },
                     [&](const auto& r) { tasks.restore(r); },
                 },
                 record);
    }
    if (!restored) {
      renew_stream(t, StreamId(event.incarnation.value));  // never used before: incarnations only grow
    }
    slices.restored(t);
    tasks.restored(t);
    if (restored && boot_id != options.boot_id && !hooks::mutant("agent.reboot_unnoticed")) {
      t.out.log(log_text(LogLevel::kWarn, "host_rebooted", {{"tasks", std::to_string(tasks.active().size())}}));
      reboot(t);
    }
    probes.begin(t);
    lending.begin(t);
    if (warm.on()) t.out.arm(timer_key(AgentTimer::kWarm), WarmPools::kTick);
  }

  void reboot(Turn& t) {
    if (!hooks::mutant("agent.stream_outlives_reboot")) renew_stream(t, StreamId(session.incarnation().value));
    tasks.reboot(t);
    std::vector<SliceId> before;
    for (const auto& [id, slice] : slices.all()) before.push_back(id);
    slices.reboot(t);
    for (const SliceId& id : before)
      if (slices.find(id) == nullptr) tasks.slice_gone(id);
  }

  // --- what the host has -----------------------------------------------------------------------------------------------

  void on(Turn& t, const ProbeDone& event) {
    if (probes.done(t, event)) publish(t);
  }
  void on(Turn& t, const HardwareChanged& event) { probes.look(t, event.what); }

  // What the probes found has changed: the master and the slices are told. Before the first hello only when enough is known.
  void publish(Turn& t) {
    if (!probes.enough()) return;
    Inventory all = probes.inventory();
    all.labels["host"] = options.id.str();
    all.revocable = lending.lendable();
    generations.stamp(t, all);
    const Inventory before = inventory.inventory();
    all.version = before.version;
    if (!inventory.known() || all != before) {
      all.version = before.version.next();
      const bool listed = inventory.known() && all.revocable == before.revocable;  // what is lent changes all the time
      inventory.set(std::move(all));
      if (session.begun()) t.say(difference(before, inventory.inventory()));
      if (listed)
        t.out.log(log_text(
            LogLevel::kInfo, "inventory_changed",
            {{"version", std::to_string(inventory.inventory().version.value)}, {"total", to_text(inventory.inventory().total)}}));
    }
    slices.set_health(t, inventory.misfits(probes.settled()));
    if (!session.begun() && !book.suspended()) say_hello(t);
  }

  // --- the host ------------------------------------------------------------------------------------------------------

  void on(Turn& t, const HostTasks& event) {
    // Our own boot id decides where we have one: a launcher says `rebooted` as long as it lives, to every agent.
    if (event.rebooted && restored && options.boot_id.empty()) reboot(t);
    slices.resume_host(t);
    lease_told = Duration(0);
    lending.host_is_back(t);
    tasks.host_tasks(t, event);
    std::vector<SliceId> ids;
    for (const auto& [id, slice] : slices.all()) ids.push_back(id);
    for (const SliceId& id : ids) slices.erase_if_drained(t, id);
  }
  void on(Turn& t, const SliceCarved& event) {
    bool failed = false;
    const bool ready = slices.carved(t, event, failed);
    if (failed) {
      tasks.fail_waiting(t, event.slice, "its slice could not be made: " + event.error);
      slices.finish(t, event.slice, SliceEnd::kCarveFailed, event.error);
      t.host(EraseSlice{event.slice});  // whatever was made of it
      tasks.slice_gone(event.slice);
    }
    if (ready) tasks.start_waiting(t, event.slice);
  }
  void on(Turn& t, const SliceErased& event) {
    if (slices.erased(t, event.slice)) after_slice(t, event.slice);
  }
  void on(Turn& t, const UsageSample& event) {
    if (lending.usage(t, event)) publish(t);
  }
  // The framework hears of it by the end of the task or slice, with the figures.
  void on(Turn& t, const PressureSample& event) {
    const auto victim = lending.pressure(t, event);
    if (!victim) return;
    lending.evicted();
    t.out.log(log_text(LogLevel::kWarn, "evicted",
                       {{"task", to_text(victim->task)}, {"slice", to_text(victim->slice)}, {"reason", victim->why}}));
    if (victim->last) {
      release(t, victim->slice, SliceEnd::kRevoked, Duration(0), victim->why);
    } else {
      tasks.preempt(t, victim->task, victim->why);
    }
  }
  void keep_warm(Turn& t) {
    t.host(KeepWarm{warm.wanted()});
    warm.asked(t.now.mono);
  }
  void on(Turn& t, const WarmState& event) { warm.state(t.now.mono, event); }
  void on(Turn& t, const TaskStarted& event) { tasks.started(t, event); }
  void on(Turn& t, const TaskStartFailed& event) { tasks.start_failed(t, event); }
  void on(Turn& t, const TaskEnded& event) { tasks.ended(t, event); }
  void on(Turn& t, const LauncherLost&) {
    t.out.log(log_text(LogLevel::kWarn, "launcher_lost", {{"then", "tasks go on; waiting for its successor"}}));
  }

  void after_slice(Turn& t, const SliceId& id) {
    tasks.slice_gone(id);
    if (removed.count(id.framework) == 0) return;
    for (const auto& [other, slice] : slices.all())
      if (other.framework == id.framework) return;
    streams.drop(t, id.framework);
    removed.erase(id.framework);
  }

  void release(Turn& t, const SliceId& id, SliceEnd end, Duration grace, const std::string& reason) {
    if (slices.find(id) == nullptr) return slices.unknown(t, id);
    const TaskState state = end == SliceEnd::kRevoked ? TaskState::kPreempted : TaskState::kKilled;
    if (!slices.begin_release(t, id, end, reason)) {
      if (slices.find(id) == nullptr) {
        tasks.fail_waiting(t, id, reason);
        after_slice(t, id);
      } else {
        tasks.end_all(t, id, state, grace, reason);  // being released: perhaps sooner now
      }
      return;
    }
    tasks.end_all(t, id, state, grace, reason);
    slices.erase_if_drained(t, id);
  }

  // --- the master ----------------------------------------------------------------------------------------------------

  void on(Turn& t, const Received& event) {
    bool newer = false;
    const Message& m = event.message;
    if (!session.admit(t.now, t.out, m, newer)) {
      if (newer) t.record(EpochRecord{session.epoch()});
      return;
    }
    if (newer) t.record(EpochRecord{session.epoch()});
    std::visit([&](const auto& body) { message(t, body); }, m.body);
  }

  void message(Turn& t, const Welcome& m) {
    const std::string cluster = session.cluster();
    const bool fresh = session.welcome(t.now, t.out, m);
    if (!session.up()) return;
    if (session.cluster() != cluster) identity(t);
    slices.session_up();
    for (const SliceId& id : m.release) {
      removed.insert(id.framework);
      release(t, id, SliceEnd::kReleased, options.settings.default_grace, "its framework has been removed");
    }
    if (fresh) {
      slices.tell_health(t);
      streams.session_up(t);
    }
  }
  void message(Turn& t, const Refused& m) { session.refused(t.now, t.out, m); }
  void message(Turn& t, const Heartbeat& m) {
    if (m.reprobe) probes.look(t, "an operator asked");
  }
  void message(Turn& t, const ReloadConfig& m) { t.out.reload = m.tag; }
  void message(Turn& t, const CarveSlices& m) {
    slices.carve(t, m);
    if (std::any_of(m.slices.begin(), m.slices.end(), [](const SliceSpec& s) { return s.revocable; })) lending.begin(t);
  }
  void message(Turn& t, const CommitGang& m) { slices.commit(t, m); }
  void message(Turn& t, const AbortGang& m) {
    for (const SliceId& id : slices.of_gang(m.framework, m.gang))
      release(t, id, SliceEnd::kGangAborted, Duration(0), "the gang was aborted");
  }
  void message(Turn& t, const ReleaseSlices& m) {
    for (const SliceId& id : m.slices) {
      if (m.revoke) {
        release(t, id, SliceEnd::kRevoked, m.grace, m.reason);
      } else {
        release(t, id, SliceEnd::kReleased, m.grace, "its slice was released");
      }
    }
  }
  void message(Turn& t, const Launch& m) { tasks.launch(t, m); }
  void message(Turn& t, const Kill& m) { tasks.kill(t, m); }
  void message(Turn& t, const StatusAck& m) { tasks.ack(t, m); }
  void message(Turn& t, const Reconcile& m) { tasks.reconcile(t, m); }
  void message(Turn& t, const DeclareLost& m) { tasks.declare_lost(t, m); }
  template <class Other>
  void message(Turn& t, const Other& m) {
    t.out.log(log_text(LogLevel::kDebug, "message_ignored", {{"kind", std::string(body_name(Body(m)))}}));
  }

  void on(Turn& t, const PeerLost& event) {
    if (event.peer == kMasterPeer) session.lost(t.now, t.out, "connection lost");
  }

  // --- time, disk ----------------------------------------------------------------------------------------------------

  void on(Turn& t, const TimerFired& event) {
    const TimerKey& key = event.key;
    const SliceId slice{FrameworkId(key.name), key.a};
    switch (static_cast<AgentTimer>(key.kind)) {
      case AgentTimer::kHello:
        if (book.suspended()) break;
        session.hello_due(t.now, t.out);
        slices.farewell(t);
        break;
      case AgentTimer::kHeartbeat:
        session.heartbeat_due(t.now, t.out);
        break;
      case AgentTimer::kFence:
        if (options.fence_without_leader && !session.up()) tasks.fence(t);
        break;
      case AgentTimer::kHold:
        if (slices.hold_due(t, slice)) {
          tasks.fail_waiting(t, slice, "the gang was not committed in time");
          after_slice(t, slice);
        }
        break;
      case AgentTimer::kIdle:
        if (slices.idle_due(t, slice)) slices.erase_if_drained(t, slice);
        break;
      case AgentTimer::kTask:
        tasks.task_due(t, key.a);
        break;
      case AgentTimer::kSettle:
        tasks.settle_due(t);
        break;
      case AgentTimer::kFlush:
        streams.flush_due(t);
        break;
      case AgentTimer::kResend: {
        const FrameworkId framework(key.name);
        if (streams.abandoned(t.now, framework)) streams.drop(t, framework);
        streams.resend_due(t, framework);
        break;
      }
      case AgentTimer::kRepair:
        repair_due(t);
        break;
      case AgentTimer::kLend:
        lending.due(t);
        break;
      case AgentTimer::kWarm:
        if (!warm.on()) break;
        warm.tick(t.now.mono);
        keep_warm(t);
        t.out.arm(timer_key(AgentTimer::kWarm), WarmPools::kTick);
        break;
      case AgentTimer::kProbe:
        probes.due(t, key);
        if (!inventory.known()) publish(t);
        break;
    }
  }

  void on(Turn& t, const Durable& event) {
    while (!waiting.empty() && waiting.front().ticket <= event.ticket) {
      Waiting& done = waiting.front();
      if (!book.suspended()) {
        std::move(done.host.begin(), done.host.end(), std::back_inserter(t.out.host));
        std::move(done.sends.begin(), done.sends.end(), std::back_inserter(t.out.sends));
      }
      waiting.pop_front();
    }
    if (repair == 0 || event.ticket != repair) return;
    repair = 0;
    if (book.missed()) return write_all(t);  // more has happened meanwhile
    book.resume();
    t.out.disarm(timer_key(AgentTimer::kRepair));
    t.out.log(log_text(LogLevel::kInfo, "checkpoint_whole", {{"then", "saying hello again"}}));
    tasks.host_retry(t);
    slices.resume_host(t);
    if (inventory.known()) say_hello(t);
  }
  // What those records said is true in memory, and nothing that depended on them has left. Nothing else may leave either, nor be
  // appended behind the gap, before a snapshot of everything is safe; then a hello tells all of it. Tasks go on meanwhile.
  void on(Turn& t, const AppendFailed& event) {
    while (!waiting.empty() && waiting.front().ticket <= event.ticket) waiting.pop_front();
    for (Waiting& later : waiting) later.sends.clear(), later.host.clear();
    if (event.ticket == repair) repair = 0;
    if (!book.suspended()) {
      book.suspend();
      session.mute(t.out);
      muted = t.now.mono;
      t.out.log(log_text(LogLevel::kError, "checkpoint_failed",
                         {{"reason", event.reason}, {"then", "silent until it can be written; trying every 5s"}}));
    }
    t.out.arm(timer_key(AgentTimer::kRepair), kRepairAfter);
  }
  void write_all(Turn& t) {
    book.snapshot(t.out, everything());
    repair = t.out.ticket;
  }
  void repair_due(Turn& t) {
    // The leader has not heard us for its whole patience: our tasks with a lease may be given away.
    if (options.fence_without_leader && session.fence() > Duration(0) && t.now.mono - muted >= session.fence()) tasks.fence(t);
    if (repair == 0) write_all(t);
    t.out.arm(timer_key(AgentTimer::kRepair), kRepairAfter);
  }

  static bool needs_record(const HostAction& action) {
    return std::holds_alternative<CarveSlice>(action) || std::holds_alternative<StartTask>(action);
  }
  // What has a lease is ended by the host itself, should we be stopped or killed. Told ahead of any start, and again when much of it has
  // gone by. While nothing can be written the master does not hear us: what it says then does not count.
  void hold_lease(Turn& t) {
    const Duration until = session.lease_until();
    if (!tasks.leased() || hooks::mutant("agent.no_lease_told") || !options.fence_without_leader || until == Duration(0) ||
        book.suspended())
      return;
    if (lease_told != Duration(0) && until >= lease_told && until - lease_told < session.fence() / 8) return;
    lease_told = until;
    t.out.host.insert(t.out.host.begin(), HoldLease{until});
  }
  // At the end of a step: keeps back what must not happen yet.
  void hold_back(Actions& out) {
    if (hooks::mutant("agent.acts_before_record")) return;
    const bool records = !out.appends.empty() || !out.compact.empty();
    if (records) waiting.push_back({out.ticket, {}, {}});
    if (waiting.empty() && !book.suspended()) return;
    std::vector<HostAction> now, later;
    for (HostAction& action : out.host) (needs_record(action) ? later : now).push_back(std::move(action));
    out.host = std::move(now);
    if (book.suspended()) return;  // asked for again when the checkpoint is whole
    Waiting& last = waiting.back();
    std::move(later.begin(), later.end(), std::back_inserter(last.host));
    if (records) return;  // the driver holds this step's sends
    std::move(out.sends.begin(), out.sends.end(), std::back_inserter(last.sends));
    out.sends.clear();
  }

  void on(Turn& t, const Reload& event) {
    auto settings = parse_settings(event.config);
    if (!settings) return t.out.log(log_text(LogLevel::kError, "reload_refused", {{"reason", settings.error().text()}}));
    options.settings = *std::move(settings);
    tasks.set_default_grace(options.settings.default_grace);
    probes.configure(options.settings);
    if (lending.configure(options.settings.lend))
      for (const SliceId& id : lending.lent())
        release(t, id, SliceEnd::kRevoked, options.settings.default_grace,
                "this agent lends nothing any more: its configuration has changed");
    lending.begin(t);
    const bool was_warm = warm.on();
    warm.configure(options.settings.warm);
    if (was_warm || warm.on()) keep_warm(t);
    if (warm.on()) t.out.arm(timer_key(AgentTimer::kWarm), WarmPools::kTick);
    t.out.log(log_text(LogLevel::kInfo, "reloaded", {{"then", "probing; slices and tasks stay"}}));
    probes.look(t, {});
    publish(t);
  }
  void on(Turn& t, const ReloadDone& event) { session.say(t.now, t.out, ConfigReloaded{event.tag, event.code, event.text}); }
  template <class Other>
  void on(Turn&, const Other&) {}  // not an agent's event
};

Agent::Agent(AgentOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Agent::~Agent() = default;

void Agent::step(Time now, const Event& event, Actions& out) {
  Impl& a = *impl_;
  if (a.dead) return;
  Turn turn{now, out, a.book, a.session};
  std::visit([&](const auto& e) { a.on(turn, e); }, event);
  if (a.dead) return;
  if (a.book.wants_snapshot()) a.book.snapshot(out, a.everything());
  a.hold_lease(turn);
  a.hold_back(out);
  if (a.tracer) a.tracer->saw(now, event, out);
}

Agent::View Agent::view() const {
  View v;
  for (const auto& [id, slice] : impl_->slices.all())
    (slice.phase == SliceTable::Phase::kHeld ? v.held : v.slices).push_back(slice.spec);
  v.active = impl_->tasks.active();
  v.unacknowledged = impl_->streams.unacknowledged();
  v.total = impl_->inventory.inventory().total;
  v.free = impl_->inventory.free();
  v.epoch_seen = impl_->session.epoch();
  return v;
}

const Inventory& Agent::inventory() const { return impl_->inventory.inventory(); }

}  // namespace bourse
