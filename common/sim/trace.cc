#include "common/sim/trace.h"

#include "common/core/fnv.h"

namespace bourse::sim {

namespace {

// What tells one event of a kind from another. Amounts follow from identities: nothing else decides them.
struct Digest {
  Trace& t;

  void operator()(const Started& e) const {
    t.add(e.incarnation.value);
    t.add(e.snapshot);
    for (const std::string& r : e.records) t.add(r);
  }
  void operator()(const Received& e) const {
    t.add(e.peer.value);
    t.add(e.message.epoch.value);
    t.add(e.message.incarnation.value);
    t.add(e.message.body.index());
    std::visit([this](const auto& b) { body(b); }, e.message.body);
  }
  void operator()(const PeerLost& e) const { t.add(e.peer.value); }
  void operator()(const TimerFired& e) const {
    t.add(e.key.kind);
    t.add(e.key.a);
    t.add(e.key.name);
  }
  void operator()(const Durable& e) const { t.add(e.ticket); }
  void operator()(const AppendFailed& e) const { t.add(e.ticket); }
  void operator()(const Reload& e) const { t.add(e.config); }
  void operator()(const ReloadDone& e) const { t.add(e.tag); }
  void operator()(const Watched& e) const { t.add(e.on ? 1 : 0); }
  void operator()(const SliceCarved& e) const { t.add(e.slice.number); }
  void operator()(const SliceErased& e) const { t.add(e.slice.number); }
  void operator()(const TaskStarted& e) const { t.add(e.task.task.value); }
  void operator()(const TaskStartFailed& e) const { t.add(e.task.task.value); }
  void operator()(const TaskEnded& e) const {
    t.add(e.task.task.value);
    t.add(static_cast<std::uint64_t>(e.wait_status));
  }
  void operator()(const HostTasks& e) const {
    for (const TaskKey& key : e.running) t.add(key.task.value);
  }
  void operator()(const LauncherLost&) const {}
  void operator()(const ProbeDone& e) const { t.add(e.probe); }
  void operator()(const HardwareChanged& e) const { t.add(e.what); }
  void operator()(const PressureSample& e) const { t.add(static_cast<std::uint64_t>(e.some_avg10_permille)); }
  void operator()(const UsageSample& e) const {
    for (const UsageSample::Slice& s : e.slices) t.add(static_cast<std::uint64_t>(s.mem.value));
  }
  void operator()(const WarmState& e) const {
    for (const WarmState::Instance& i : e.ready) t.add(i.place);
  }
  void operator()(const Request& e) const {
    t.add(e.peer.value);
    t.add(e.payload);
  }
  void operator()(const SessionEvent& e) const {
    t.add(e.index());
    if (const auto* update = std::get_if<TaskUpdate>(&e)) status(update->status);
  }
  void operator()(const Committed& e) const {
    t.add(e.index);
    for (const std::string& record : e.records) t.add(record);
  }
  void operator()(const Restored& e) const { t.add(e.snapshot); }
  void operator()(const Leader&) const {}
  void operator()(const NotLeader& e) const { t.add(e.name); }
  void operator()(const MastersChanged& e) const {
    for (const MasterFacts& m : e.masters) {
      t.add(m.name);
      t.add((m.voter ? 1U : 0U) + (m.leads ? 2U : 0U));
    }
  }
  void operator()(const MemberChanged& e) const { t.add(e.tag * 31 + static_cast<std::uint64_t>(e.code)); }

  void status(const TaskStatus& s) const {
    t.add(s.task.value);
    t.add(static_cast<std::uint64_t>(s.state));
    t.add(static_cast<std::uint64_t>(s.exit_code));
  }
  void body(const AgentHello& b) const {
    t.add(b.agent.value);
    for (const AgentHello::Slice& s : b.slices) {
      t.add(s.spec.id.number);
      for (const TaskId& id : s.tasks) t.add(id.value);
    }
  }
  void body(const FrameworkHello& b) const {
    t.add(b.framework.value);
    for (const SliceId& s : b.slices) t.add(s.number);
  }
  void body(const Demand& b) const {
    t.add(b.version.value);
    for (const DemandLine& line : b.lines) t.add(line.id * 1'000'003 + line.count);
  }
  void body(const Offers& b) const {
    for (const Offer& o : b.offers) {
      t.add(o.id.value);
      t.add(o.agent.value);
      t.add(static_cast<std::uint64_t>(o.resources.cpus.value));
      t.add(static_cast<std::uint64_t>(o.resources.mem.value));
    }
  }
  void body(const OffersEnded& b) const {
    for (const OffersEnded::Item& i : b.items) t.add(i.offer.value);
  }
  void body(const Accept& b) const {
    t.add(b.sequence.value);
    for (const Accept::Item& i : b.items) {
      t.add(i.offer.value);
      for (const Accept::Slice& s : i.slices) t.add(s.number);
    }
  }
  void body(const AcceptReply& b) const {
    t.add(b.sequence.value);
    for (const AcceptReply::Item& i : b.items) t.add(static_cast<std::uint64_t>(i.code));
  }
  void body(const CarveSlices& b) const {
    for (const SliceSpec& s : b.slices) t.add(s.id.number);
  }
  void body(const CommitGang& b) const { t.add(b.gang.value); }
  void body(const AbortGang& b) const { t.add(b.gang.value); }
  void body(const GangHeld& b) const { t.add(b.gang.value * 31 + static_cast<std::uint64_t>(b.code)); }
  void body(const SliceUp& b) const { t.add(b.spec.id.number); }
  void body(const SliceGone& b) const { t.add(b.slice.number * 31 + static_cast<std::uint64_t>(b.end)); }
  void body(const ReleaseSlices& b) const {
    for (const SliceId& s : b.slices) t.add(s.number);
  }
  void body(const Launch& b) const { t.add(b.task.value); }
  void body(const Kill& b) const { t.add(b.task.value); }
  void body(const LaunchRefused& b) const { t.add(b.task.value); }
  void body(const StatusUpdate& b) const {
    t.add(b.sequence.value);
    status(b.status);
  }
  void body(const StatusAck& b) const { t.add(b.through.value); }
  void body(const Reconcile& b) const {
    for (const TaskId& id : b.tasks) t.add(id.value);
  }
  void body(const Refused& b) const { t.add(static_cast<std::uint64_t>(b.code)); }
  template <class Other>
  void body(const Other&) const {}
};

}  // namespace

void Trace::add(std::string_view text) { add(fnv1a(text, kFnvBasis ^ text.size())); }

void Trace::add(Duration at, std::uint32_t node, const Event& event) {
  add(static_cast<std::uint64_t>(at.count()));
  add((std::uint64_t{node} << 32) + event.index());
  std::visit(Digest{*this}, event);
}

}  // namespace bourse::sim
