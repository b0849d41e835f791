#include "common/sim/node.h"

#include <algorithm>
#include <cstdlib>

#include "common/core/hooks.h"
#include "common/sim/world.h"

namespace bourse::sim {

namespace {
constexpr Duration kYear2026 = std::chrono::hours(24 * 365 * 56 + 24 * 14);  // where wall clocks begin
constexpr Duration kUptime = std::chrono::hours(3);                          // no node's clock begins at zero
}  // namespace

Node::Node(World& world, std::uint32_t ix, Kind kind, NodeOptions options)
    : world_(world),
      ix_(ix),
      kind_(kind),
      options_(std::move(options)),
      disk_(std::make_unique<Disk>(world.queue_, world.rng("disk " + options_.name), world.options_.disk)) {}

void Node::give_host(std::unique_ptr<Host> host) {
  host_ = std::move(host);
  host_->on_started = [this](const TaskKey& key, const Execution& execution) {
    for (Observer* o : world_.observers_) o->started(key, execution);
  };
  host_->on_ended = [this](const TaskKey& key, const Execution& execution) {
    for (Observer* o : world_.observers_) o->ended(key, execution);
  };
  host_->on_violation = [this](const SliceId& slice, const std::string& what) {
    world_.violation(what + " (" + to_text(slice) + ")");
  };
}

Time Node::time() const {
  const Duration booted = host_ ? host_->boot_time() : Duration(0);
  const Duration real = world_.queue_.now() - booted;
  return {kUptime + real + Duration(real.count() / 1000 * drift_ppm_ / 1000), kYear2026 + world_.queue_.now() + wall_skew_};
}

void Node::set_clock(Duration wall_skew, std::int32_t drift_ppm) {
  wall_skew_ = wall_skew;
  drift_ppm_ = drift_ppm;
}

void Node::kill_after_append(bool before_host_actions) { crash_ = before_host_actions ? Crash::kBeforeHost : Crash::kBeforeSends; }

void Node::start() {
  if (alive()) return;
  ++life_;
  incarnation_ = Incarnation(incarnation_.value + 1);
  crash_ = Crash::kNone;
  actor_ = options_.make();
  if (options_.client) client_ = std::make_unique<Client>(*options_.client);
  stalled_ = false;
  if (options_.raft)
    raft_ = std::make_unique<RaftNode>(world_, *this, *options_.raft, world_.rng("raft " + name() + std::to_string(life_)));
  if (kind_ == Kind::kMaster) {
    world_.network_->server_up(options_.server);
  } else {
    world_.network_->client_up(ix_, options_.identity);
  }
  if (host_) {
    host_->attach([this, life = life_](Event event) {
      if (life == life_) post(std::move(event));
    });
  }
  if (raft_) {
    enqueue({false, Started{incarnation_, {}, {}}});
    if (alive()) raft_->begin();
    return;
  }
  stepping_ = true;  // both, before either runs
  enqueue({false, disk_->load(incarnation_)});
  if (client_) {
    Started fresh;
    fresh.incarnation = incarnation_;
    enqueue({true, std::move(fresh)});
  }
  stepping_ = false;
  const Queued first = std::move(events_.front());
  events_.pop_front();
  enqueue(first);
  if (host_ && alive()) host_->agent_started();
}

void Node::kill() {
  if (!alive()) return;
  ++life_;
  for (auto& [key, handle] : timers_) world_.queue_.cancel(handle);
  timers_.clear();
  events_.clear();
  actor_.reset();
  client_.reset();
  if (raft_) {  // this may be a call from within it
    raft_->abandon();
    world_.queue_.after(Duration(0), [gone = std::shared_ptr<RaftNode>(std::move(raft_))] {});
  }
  if (host_) host_->agent_died();
  if (kind_ == Kind::kMaster) {
    world_.network_->server_down(options_.server);
  } else {
    world_.network_->client_down(ix_);
  }
}

void Node::stall(bool stalled) {
  if (!alive() || !raft_) return;
  stalled_ = stalled;
  if (stalled) return raft_->stall(true);
  // The loop that wakes up finds everything at once; what was sent to it before what is due.
  if (!stepping_ && !events_.empty()) {
    const Queued first = std::move(events_.front());
    events_.pop_front();
    enqueue_front(first);
  }
  if (raft_) raft_->stall(false);
}

std::function<void()> Node::while_alive(std::function<void()> call) {
  return [this, life = life_, call = std::move(call)] {
    if (life == life_) call();
  };
}

Duration Node::honest(Duration after) const {
  after = std::max(after, Duration(0));
  if (drift_ppm_ != 0) after += Duration(after.count() / 1000 * std::abs(drift_ppm_) / 1000 + 2);
  return after;
}

// --- events --------------------------------------------------------------------------------------------------------------

void Node::post(Event event) {
  bool to_client = false;
  if (client_) {
    if (const auto* timer = std::get_if<TimerFired>(&event)) {
      to_client = timer->key.kind >= Client::kClientTimers;
    } else if (const auto* lost = std::get_if<PeerLost>(&event)) {
      to_client = lost->peer == kMasterPeer;
    } else {
      to_client = std::holds_alternative<Received>(event);
    }
  }
  enqueue({to_client, std::move(event)});
}

void Node::enqueue_front(Queued queued) {
  events_.push_front(std::move(queued));
  run_events();
}

void Node::enqueue(Queued queued) {
  if (!alive()) return;
  events_.push_back(std::move(queued));
  if (!stepping_ && !stalled_) run_events();
}

void Node::run_events() {
  stepping_ = true;
  while (!events_.empty()) {
    const Queued next = std::move(events_.front());
    events_.pop_front();
    // Disarmed while it waited behind an event of the same moment: it must not fire.
    if (const auto* fired = std::get_if<TimerFired>(&next.event); fired != nullptr && timers_.erase(fired->key) == 0) continue;
    step(next);
  }
  stepping_ = false;
}

void Node::step(const Queued& queued) {
  ++steps_;
  world_.trace_.add(world_.now(), ix_ * 2 + (queued.to_client ? 1 : 0), queued.event);
  Actions actions;
  actions.ticket = ++tickets_;
  if (queued.to_client) {
    std::vector<SessionEvent> up;
    client_->step(time(), queued.event, actions, up);
    tell(up);
  } else {
    actor_->step(time(), queued.event, actions);
  }
  execute(actions);
  world_.after_step(*this, queued.event);
}

void Node::tell(std::vector<SessionEvent>& up) {
  for (SessionEvent& event : up) {
    for (Observer* o : world_.observers_) o->session(*this, event);
    events_.push_back({false, std::move(event)});
  }
}

// --- actions: in the order of the real driver ------------------------------------------------------------------------------

void Node::execute(Actions& actions) {
  const std::uint64_t life = life_;
  Held rest{std::move(actions.session), std::move(actions.sends),  std::move(actions.replies), std::move(actions.cut),
            std::move(actions.members), std::move(actions.leader), actions.reconnect,          actions.stop,
            actions.hand_over};
  std::vector<HostAction> host = std::move(actions.host);
  const bool appends = !actions.appends.empty() || !actions.compact.empty();
  if (appends && !append(actions, rest, host)) return;
  if (host_) {
    for (const HostAction& action : host) host_->act(action);
  }
  if (!appends) release(rest);
  if (life != life_) return;
  for (const Arm& item : actions.arms) arm(item);
  for (const TimerKey& key : actions.disarms) {
    const auto at = timers_.find(key);
    if (at == timers_.end()) continue;
    world_.queue_.cancel(at->second);
    timers_.erase(at);
  }
  if (world_.options_.log_to_stderr) {
    for (const std::string& line : actions.logs) world_.log(*this, line);
  }
}

bool Node::append(Actions& actions, Held& rest, std::vector<HostAction>& host) {
  if (hooks::mutant("driver.hold_sends")) {
    release(rest);
    rest = {};
  }
  if (crash_ != Crash::kNone) {
    const Crash how = crash_;
    if (raft_) {
      std::vector<std::string> records;
      for (Append& item : actions.appends) records.push_back(std::move(item.record));
      raft_->raft().propose(records, [](const Result<std::uint64_t>&) {});
    } else {
      disk_->append(std::move(actions.appends), std::move(actions.compact), [](const Result<>&) {});
    }
    if (how == Crash::kBeforeSends && host_) {
      for (const HostAction& action : host) host_->act(action);
    }
    kill();
    return false;
  }
  const auto held = std::make_shared<Held>(std::move(rest));
  if (raft_) {
    std::vector<std::string> records;
    for (Append& item : actions.appends) records.push_back(std::move(item.record));
    raft_->raft().propose(records, [this, life = life_, ticket = actions.ticket, held](const Result<std::uint64_t>& index) {
      if (life == life_) safe(ticket, *held, index ? Result<>() : Result<>(index.error()), index ? *index : 0);
    });
  } else {
    disk_->append(std::move(actions.appends), std::move(actions.compact),
                  [this, life = life_, ticket = actions.ticket, held](const Result<>& result) {
                    if (life == life_) safe(ticket, *held, result, 0);
                  });
  }
  return life_ != 0 && alive();
}

void Node::safe(Ticket ticket, Held& held, const Result<>& result, std::uint64_t index) {
  if (!result) {
    enqueue({false, AppendFailed{ticket, result.error().text()}});
    return;
  }
  const std::uint64_t life = life_;
  release(held);
  if (life == life_) enqueue({false, Durable{ticket, index}});
}

void Node::release(Held& held) {
  const std::uint64_t life = life_;
  for (const SessionCommand& command : held.session) {
    if (life != life_ || !client_) return;
    Actions actions;
    actions.ticket = ++tickets_;
    std::vector<SessionEvent> up;
    client_->command(time(), command, actions, up);
    const bool idle = !stepping_;
    stepping_ = true;
    tell(up);
    execute(actions);
    if (idle) stepping_ = false;
  }
  for (const Send& send : held.sends) {
    if (raft_ && send.message.epoch.value != 0 && !raft_->raft().may_lead()) continue;  // as in master/main.cc
    if (life != life_) return;
    for (Observer* o : world_.observers_) o->sent(*this, send);
    if (kind_ == Kind::kMaster) {
      world_.network_->send_down(send.to, send.message, options_.server);
    } else {
      world_.network_->send_up(ix_, send.message);
    }
  }
  for (const Reply& reply : held.replies) {
    if (world_.on_reply) world_.on_reply(*this, reply);
  }
  if (kind_ == Kind::kMaster) {
    for (const PeerId peer : held.cut) world_.network_->cut(peer);
  }
  if (held.reconnect) world_.network_->reconnect(ix_, world_.server_at(held.leader));
  for (const ChangeMember& member : held.members)
    if (raft_) raft_->raft().change(member);
  if (held.hand_over && raft_) raft_->raft().hand_over();
  if (held.stop) {
    world_.queue_.after(Duration(0), [this, life] {
      if (life == life_) kill();
    });
  }
}

void Node::arm(const Arm& item) {
  auto [at, fresh] = timers_.try_emplace(item.key);
  if (!fresh) world_.queue_.cancel(at->second);
  at->second = world_.queue_.after(honest(item.after), [this, life = life_, key = item.key] {
    if (life == life_) post(TimerFired{key});
  });
}

}  // namespace bourse::sim
