#include "frameworks/batch/session_bridge.h"

#include <bourse/framework.h>
#include <sys/epoll.h>

#include <memory>

#include "common/core/hooks.h"
#include "common/world/log.h"

namespace bourse::batch {
namespace {

template <class T, void (*Free)(T*)>
struct Freer {
  void operator()(T* object) const { Free(object); }
};
using ShapePtr = std::unique_ptr<bourse_shape, Freer<bourse_shape, bourse_shape_free>>;
using DemandPtr = std::unique_ptr<bourse_demand, Freer<bourse_demand, bourse_demand_free>>;
using AcceptPtr = std::unique_ptr<bourse_accept, Freer<bourse_accept, bourse_accept_free>>;
using TaskPtr = std::unique_ptr<bourse_task_spec, Freer<bourse_task_spec, bourse_task_spec_free>>;

Code code_of(std::int32_t number) {
  return number <= 0 && number >= -static_cast<int>(Code::kUnsupported) ? static_cast<Code>(-number) : Code::kInvalid;
}
std::string text(const char* s) { return s == nullptr ? std::string() : std::string(s); }
std::int64_t length(Duration d) { return d == kNoLimit ? BOURSE_NO_LIMIT : d.count(); }

// By the stable text form, which has everything; amounts come with offers and slices, which are rare beside tasks.
Resources resources_of(const bourse_resources* in) {
  const int size = bourse_resources_text(in, nullptr, 0);
  if (size <= 0) return {};
  std::string buffer(static_cast<std::size_t>(size) + 1, '\0');
  bourse_resources_text(in, buffer.data(), buffer.size());
  buffer.pop_back();
  auto out = parse_resources(buffer);
  return out ? *std::move(out) : Resources{};
}

Labels labels_of(const bourse_labels* in) {
  Labels out;
  const char *name = nullptr, *value = nullptr;
  while (bourse_labels_next(in, name, &name, &value) == 1) out.emplace(name, value);
  return out;
}

ShapePtr shape_of(const Shape& in) {
  bourse_shape* raw = nullptr;
  if (bourse_shape_new(&raw) != 0) return nullptr;
  ShapePtr out(raw);
  bourse_shape_cpus(raw, in.cpus.value);
  bourse_shape_memory(raw, in.mem.value);
  bourse_shape_disk(raw, in.disk.value);
  if (in.ports != 0) bourse_shape_ports(raw, in.ports);
  for (const auto& [kind, amount] : in.others.items()) bourse_shape_amount(raw, kind.c_str(), amount);
  if (in.whole_host) bourse_shape_whole_host(raw, 1);
  if (in.same_numa) bourse_shape_same_numa(raw, 1);
  if (in.revocable) bourse_shape_revocable(raw, 1);
  for (const DeviceAsk& ask : in.devices) {
    std::vector<bourse_amount> counters;
    for (const auto& [name, amount] : ask.counters.items()) counters.push_back({name.c_str(), amount});
    const std::string attributes = to_text(ask.attributes);
    bourse_device_ask c{};
    c.size = sizeof c, c.kind = ask.kind.c_str(), c.count = ask.count, c.whole = ask.whole ? 1 : 0, c.profile = ask.profile.c_str();
    c.counters = counters.data(), c.counters_count = counters.size(),
    c.attributes = attributes.empty() ? nullptr : attributes.c_str();
    bourse_shape_device(raw, &c);
  }
  for (const Constraint& constraint : in.constraints) {
    std::vector<const char*> values;  // an expression is one value
    for (const std::string& v : constraint.values) values.push_back(v.c_str());
    bourse_shape_constraint(raw, constraint.label.c_str(), static_cast<std::int32_t>(constraint.op), values.data(), values.size());
  }
  if (!in.group.empty()) bourse_shape_group(raw, in.group.c_str());
  if (!in.placement.empty()) bourse_shape_placement(raw, to_text(in.placement).c_str());
  return out;
}

}  // namespace

struct SessionBridge::Impl {
  std::function<std::string(const TaskSpec&)> prove;
  Reactor* reactor = nullptr;
  bourse_client* client = nullptr;
  std::function<void(SessionEvent)> up;
  std::string framework;
  Reactor::WatchId watch = 0;

  static Impl& of(void* user) { return *static_cast<Impl*>(user); }

  void complain(const char* what, int code) {
    if (code >= 0) return;
    log_event(LogLevel::kWarn, "session_call_failed",
              {{"call", what}, {"reason", bourse_client_error(client)}, {"code", bourse_strerror(code)}});
  }

  bourse_callbacks callbacks() {
    bourse_callbacks c{};
    c.size = sizeof c;
    c.user = this;
    c.up = [](void* u, bourse_client*, const bourse_up_event* e) { of(u).up(SessionUp{Epoch(e->epoch), text(e->cluster)}); };
    c.down = [](void* u, bourse_client*, const bourse_down_event* e) { of(u).up(SessionDown{text(e->reason)}); };
    c.refused = [](void* u, bourse_client*, const bourse_refused_event* e) {
      of(u).up(SessionRefused{code_of(e->code), text(e->reason)});
    };
    c.offer = [](void* u, bourse_client*, const bourse_offer* o) {
      Offer offer;
      offer.id = OfferId(bourse_offer_id(o)), offer.generation = Generation(bourse_offer_generation(o));
      offer.agent = AgentId(text(bourse_offer_agent(o)));
      offer.resources = resources_of(bourse_offer_resources(o)), offer.agent_total = resources_of(bourse_offer_agent_total(o));
      offer.labels = labels_of(bourse_offer_labels(o));
      offer.ttl = Duration(bourse_offer_ttl(o)), offer.line = bourse_offer_line(o),
      offer.reservation = GangId(bourse_offer_reservation(o)), offer.reserved = text(bourse_offer_reserved(o)),
      offer.lasts = Duration(bourse_offer_lasts(o)), offer.revocable = bourse_offer_revocable(o) != 0;
      of(u).up(OfferMade{std::move(offer)});
    };
    c.offer_ended = [](void* u, bourse_client*, const bourse_offer_ended_event* e) {
      of(u).up(OfferEnded{OfferId(e->offer), static_cast<OfferEnd>(e->end)});
    };
    c.accepted = [](void* u, bourse_client*, const bourse_accepted_event* e) {
      of(u).up(AcceptAnswered{Sequence(e->sequence), OfferId(e->offer), code_of(e->code), text(e->reason)});
    };
    c.slice = [](void* u, bourse_client*, const bourse_slice_event* e) {
      SliceReady ready;
      ready.agent = AgentId(text(e->agent));
      ready.spec.id = {FrameworkId(of(u).framework), e->slice};
      ready.spec.resources = resources_of(e->resources);
      ready.spec.gang = GangId(e->gang);
      ready.spec.role = text(e->role);
      ready.unhealthy = text(e->unhealthy);
      ready.spec.revocable = e->revocable != 0;
      for (std::size_t i = 0; i < e->cpus_count; ++i) ready.spec.cpuset.push_back(e->cpus[i]);
      of(u).up(std::move(ready));
    };
    c.slice_lost = [](void* u, bourse_client*, const bourse_slice_lost_event* e) {
      of(u).up(SliceLost{
          AgentId(text(e->agent)), {FrameworkId(of(u).framework), e->slice}, static_cast<SliceEnd>(e->end), text(e->reason)});
    };
    c.recalled = [](void* u, bourse_client*, const bourse_recalled_event* e) {
      of(u).up(SliceRecalled{{FrameworkId(of(u).framework), e->slice}, Duration(e->grace), text(e->reason)});
    };
    c.gang_ready = [](void* u, bourse_client*, const bourse_gang_event* e) { of(u).up(GangReady{GangId(e->gang)}); };
    c.gang_failed = [](void* u, bourse_client*, const bourse_gang_event* e) {
      of(u).up(GangFailed{GangId(e->gang), text(e->reason)});
    };
    c.task = [](void* u, bourse_client*, const bourse_task_event* e) {
      TaskUpdate t;
      t.agent = AgentId(text(e->agent)), t.stream = StreamId(e->stream), t.sequence = Sequence(e->sequence);
      t.slice = {FrameworkId(of(u).framework), e->slice};
      t.status.task = TaskId(text(e->task)), t.status.state = static_cast<TaskState>(e->state);
      t.status.exit_code = e->exit_code, t.status.signal = e->signal, t.status.message = text(e->message);
      t.status.started = Duration(e->started_wall), t.status.ended = Duration(e->ended_wall), t.status.cpu = Duration(e->cpu);
      t.status.mem_peak = Bytes(e->memory_peak);
      of(u).up(std::move(t));
    };
    c.agents = [](void* u, bourse_client*, const bourse_agents_event* e) {
      AgentsChanged changed;
      changed.snapshot = e->snapshot != 0;
      for (std::size_t i = 0; i < bourse_agents_count(e->agents); ++i) {
        const bourse_agent* a = bourse_agents_at(e->agents, i);
        AgentFacts facts;
        facts.agent = AgentId(text(bourse_agent_id(a))), facts.state = static_cast<AgentFacts::State>(bourse_agent_state(a));
        facts.total = resources_of(bourse_agent_total(a)), facts.labels = labels_of(bourse_agent_labels(a));
        facts.incarnation = Incarnation(bourse_agent_incarnation(a)), facts.degraded = bourse_agent_degraded(a) != 0;
        facts.closes = Duration(bourse_agent_closes(a)), facts.reopens = Duration(bourse_agent_reopens(a));
        bourse_reserved part{};
        part.size = sizeof part;
        for (std::size_t n = 0; bourse_agent_reserved(a, n, &part) == 1; ++n)
          facts.reserved.push_back({text(part.name), RoleName(text(part.role)), Duration(part.start), Duration(part.end),
                                    part.named != 0, part.whole != 0});
        changed.agents.push_back(std::move(facts));
      }
      of(u).up(std::move(changed));
    };
    c.explained = [](void* u, bourse_client*, const bourse_explained_event* e) {
      Explained out;
      out.reply.tag = e->tag, out.reply.code = code_of(e->code), out.reply.agents = e->agents;
      for (std::size_t i = 0; i < e->counts_count; ++i)
        out.reply.counts.push_back({text(e->counts[i].reason), e->counts[i].agents});
      out.reply.nearest = text(e->nearest), out.reply.last_offer = text(e->last_offer);
      out.reply.last_decline = text(e->last_decline), out.reply.rank = text(e->rank);
      for (std::size_t i = 0; i < e->failing_count; ++i)
        out.reply.failing.push_back({text(e->failing[i].reason), e->failing[i].agents});
      out.reply.asks = text(e->asks), out.reply.quota = text(e->quota), out.reply.estimate = text(e->estimate);
      out.reply.wanted = e->wanted, out.reply.offered = e->offered, out.reply.unmet = e->unmet;
      of(u).up(std::move(out));
    };
    c.log = [](void*, std::int32_t level, const char* line) {
      constexpr const char* kLevels[] = {"debug", "info", "warn", "error"};
      if (level < BOURSE_LOG_INFO || level > BOURSE_LOG_ERROR) return;
      const std::string said = text(line);
      log_line(said.starts_with("level=") ? said : std::string("level=") + kLevels[level] + " " + said);
    };
    return c;
  }

  void say(const SetDemand& c) {
    bourse_demand* raw = nullptr;
    if (bourse_demand_new(&raw) != 0) return;
    DemandPtr demand(raw);
    if (c.wildcard) bourse_demand_wildcard(raw, 1);
    for (const DemandLine& line : c.lines) {
      const ShapePtr shape = shape_of(line.shape);
      complain("demand_add", bourse_demand_add(raw, line.id, shape.get(), line.count, line.gang_min, line.priority));
      if (line.lasts.count() > 0) complain("demand_lasts", bourse_demand_lasts(raw, line.id, line.lasts.count()));
      if (!line.reservation.empty())
        complain("demand_reservation", bourse_demand_reservation(raw, line.id, line.reservation.c_str()));
    }
    complain("demand", bourse_client_demand(client, raw));
  }
  void say(const AcceptOffers& c) {
    bourse_accept* raw = nullptr;
    if (bourse_accept_new(&raw) != 0) return;
    AcceptPtr accept(raw);
    if (c.accept.gang.value != 0)
      bourse_accept_gang(raw, c.accept.gang.value);
    else if (c.accept.all_or_nothing)
      bourse_accept_all_or_nothing(raw, 1);
    for (const Accept::Item& item : c.accept.items) {
      bourse_accept_offer(raw, item.offer.value, item.generation.value, item.keep_rest ? 1 : 0);
      for (const Accept::Slice& slice : item.slices) {
        const ShapePtr shape = shape_of(slice.shape);
        complain("accept_slice", bourse_accept_slice(raw, slice.number, shape.get(), slice.expiry.count(), slice.line));
      }
    }
    if (!c.trace.empty()) bourse_accept_trace(raw, c.trace.c_str());
    complain("accept", bourse_client_accept(client, raw, nullptr));
  }
  void say(const DeclineOffers& c) {
    for (const Decline::Item& item : c.items)
      bourse_client_decline(client, &item.offer.value, 1, static_cast<std::int32_t>(item.reason), item.text.c_str(),
                            item.hold_off.count());
  }
  void say(const LaunchTask& c) {
    bourse_task_spec* raw = nullptr;
    if (bourse_task_spec_new(&raw) != 0) return;
    TaskPtr task(raw);
    const TaskSpec& s = c.spec;
    complain("kind", bourse_task_spec_kind(raw, static_cast<std::int32_t>(s.kind)));
    if (!s.image.empty()) complain("image", bourse_task_spec_image(raw, s.image.c_str()));
    for (const std::string& mount : s.mounts) complain("mount", bourse_task_spec_mount(raw, mount.c_str()));
    for (const std::string& word : s.isolate) complain("isolation", bourse_task_spec_isolate(raw, word.c_str()));
    bourse_task_spec_user(raw, s.user.c_str(), s.uid, s.gid);
    const std::string credential = s.credential.empty() && prove ? prove(s) : s.credential;
    if (!credential.empty()) bourse_task_spec_credential(raw, credential.data(), credential.size());
    for (const std::string& word : s.argv) bourse_task_spec_arg(raw, word.c_str());
    for (const std::string& word : s.env) bourse_task_spec_env(raw, word.c_str());
    bourse_task_spec_directory(raw, s.directory.c_str());
    bourse_task_spec_files(raw, s.stdin_path.c_str(), s.stdout_path.c_str(), s.stderr_path.c_str(), s.append_output ? 1 : 0);
    bourse_task_spec_umask(raw, s.umask);
    for (const Rlimit& r : s.rlimits) bourse_task_spec_rlimit(raw, r.resource, r.soft, r.hard);
    for (const Artifact& a : s.artifacts)
      complain("artifact", bourse_task_spec_artifact(raw, a.name.c_str(), a.digest.c_str(), a.inline_bytes.data(),
                                                     a.inline_bytes.size(), a.uri.empty() ? nullptr : a.uri.c_str()));
    bourse_task_spec_time_limit(raw, length(s.time_limit));
    bourse_task_spec_kill_grace(raw, s.kill_grace.count());
    if (s.warn_signal != 0) bourse_task_spec_warning(raw, s.warn_signal, s.warn_before.count(), s.warn_shell_only ? 1 : 0);
    if (s.fence_lease) bourse_task_spec_fence(raw, 1);
    if (!s.trace.empty()) bourse_task_spec_trace(raw, s.trace.c_str());
    if (s.in_turn) bourse_task_spec_in_turn(raw, 1);
    if (s.priority != 0) bourse_task_spec_priority(raw, s.priority);
    hooks::crash_point("batch.before_launch");
    const int code = bourse_client_launch(client, c.agent.str().c_str(), c.slice.number, c.task.str().c_str(), raw);
    hooks::crash_point("batch.after_launch");
    complain("launch", code);
    if (code >= 0) return;
    // It never left: as if the agent had said so. Not from inside the actor's step.
    TaskUpdate no;
    no.agent = c.agent, no.slice = c.slice, no.status.task = c.task;
    no.status.state = TaskState::kNeverStarted, no.status.message = bourse_client_error(client);
    reactor->defer([this, no = std::move(no)] { up(no); });
  }
  void say(const KillTask& c) {
    bourse_kill_options o{};
    o.size = sizeof o;
    o.signal = c.kill.signal, o.first_process_only = c.kill.first_process_only ? 1 : 0, o.preempt = c.kill.preempt ? 1 : 0;
    o.unstarted_only = c.kill.unstarted_only ? 1 : 0;
    o.has_grace = c.kill.grace.count() >= 0 ? 1 : 0, o.grace = std::max<std::int64_t>(c.kill.grace.count(), 0);
    complain("kill", bourse_client_kill(client, c.kill.agent.str().c_str(), c.kill.task.str().c_str(), &o));
  }
  void say(const AckStatus& c) {
    complain("ack", bourse_client_ack(client, c.agent.str().c_str(), c.stream.value, c.through.value));
  }
  void say(const ReleaseSlice& c) { complain("release", bourse_client_release(client, c.slice.number, c.grace.count())); }
  static std::vector<const char*> words(const std::vector<TaskId>& tasks) {
    std::vector<const char*> out;
    for (const TaskId& t : tasks) out.push_back(t.str().c_str());
    return out;
  }
  void say(const ReconcileTasks& c) {
    const auto tasks = words(c.tasks);
    complain("reconcile", bourse_client_reconcile(client, c.agent.str().c_str(), tasks.data(), tasks.size()));
  }
  void say(const DeclareTasksLost& c) {
    const auto tasks = words(c.tasks);
    complain("declare_lost", bourse_client_declare_lost(client, c.agent.str().c_str(), tasks.data(), tasks.size()));
  }
  void say(const Explain& c) { complain("explain", bourse_client_explain(client, c.tag, c.line)); }
  void say(const EndSession& c) { complain("goodbye", bourse_client_goodbye(client, c.forever ? 1 : 0)); }
};

SessionBridge::SessionBridge() : impl_(std::make_unique<Impl>()) {}
SessionBridge::~SessionBridge() {
  if (impl_->watch != 0) impl_->reactor->unwatch(impl_->watch);
  bourse_client_free(impl_->client);
}

Result<std::unique_ptr<SessionBridge>> SessionBridge::open(Reactor& reactor, const BridgeOptions& options,
                                                           std::function<void(SessionEvent)> up) {
  std::unique_ptr<SessionBridge> out(new SessionBridge());
  Impl& impl = *out->impl_;
  impl.reactor = &reactor;
  impl.up = std::move(up);
  impl.framework = options.framework;
  impl.prove = options.prove;
  std::vector<const char*> endpoints;
  for (const std::string& e : options.endpoints) endpoints.push_back(e.c_str());
  endpoints.push_back(nullptr);
  char error[512] = "";
  bourse_client_options o{};
  o.size = sizeof o;
  o.error = error, o.error_size = sizeof error;
  o.framework = options.framework.c_str(), o.role = options.role.c_str(), o.config = options.config.c_str();
  o.endpoints = endpoints.data();
  o.incarnation = options.incarnation.value;
  o.failover_timeout = options.failover_timeout.count();
  o.watch_agents = 1;
  const bourse_callbacks callbacks = impl.callbacks();
  if (const int code = bourse_client_open(&o, &callbacks, &impl.client); code != 0)
    return Error(code_of(code), error[0] != '\0' ? error : bourse_strerror(code));
  impl.watch = reactor.watch(bourse_client_fd(impl.client), EPOLLIN, [raw = &impl](std::uint32_t) {
    constexpr int kEventsATurn = 1000;
    raw->complain("dispatch", bourse_client_dispatch(raw->client, kEventsATurn));
  });
  return out;
}

void SessionBridge::command(const SessionCommand& command) {
  std::visit([&](const auto& c) { impl_->say(c); }, command);
}

}  // namespace bourse::batch
