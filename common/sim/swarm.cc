#include "common/sim/swarm.h"

#include <algorithm>
#include <set>

namespace bourse::sim {

std::string_view fault_text(Fault fault) {
  switch (fault) {
    case Fault::kKillAgent:
      return "kill_agent";
    case Fault::kKillMaster:
      return "kill_master";
    case Fault::kKillFramework:
      return "kill_framework";
    case Fault::kCrashAfterAppend:
      return "crash_after_append";
    case Fault::kPartition:
      return "partition";
    case Fault::kReset:
      return "reset";
    case Fault::kHostReboot:
      return "host_reboot";
    case Fault::kHostPower:
      return "host_power";
    case Fault::kMasterPower:
      return "master_power";
    case Fault::kFrameworkPower:
      return "framework_power";
    case Fault::kLauncher:
      return "launcher";
    case Fault::kMasterDiskFull:
      return "master_disk_full";
    case Fault::kAgentDiskFull:
      return "agent_disk_full";
    case Fault::kDiskSlow:
      return "disk_slow";
    case Fault::kClock:
      return "clock";
    case Fault::kMasterPartition:
      return "master_partition";
    case Fault::kMasterStall:
      return "master_stall";
    case Fault::kMasterChange:
      return "master_change";
    case Fault::kMasterNetwork:
      return "master_network";
    case Fault::kMasterFlush:
      return "master_flush";
    case Fault::kMasterLease:
      return "master_lease";
    case Fault::kCount:
    case Fault::kAll:
      break;
  }
  return "unknown";
}

namespace {
std::vector<Fault> drawn(Rng& rng) {
  std::vector<Fault> some;
  for (int i = 0; i < static_cast<int>(Fault::kCount); ++i) {
    if (rng.chance(400)) some.push_back(static_cast<Fault>(i));
  }
  return some;
}
}  // namespace

Swarm::Swarm(World& world, std::uint64_t seed) : Swarm(world, seed, {}) {
  for (const Fault fault : drawn(rng_)) kinds_.push_back({fault, Duration(rng_.between(2'000'000, 30'000'000))});
  if (world.of(Node::Kind::kMaster).size() < 2) return;
  for (int i = static_cast<int>(Fault::kCount) + 1; i < static_cast<int>(Fault::kAll); ++i) {
    if (masters_.chance(600)) kinds_.push_back({static_cast<Fault>(i), Duration(masters_.between(3'000'000, 30'000'000))});
  }
}

Swarm::Swarm(World& world, std::uint64_t seed, std::vector<Fault> only)
    : world_(world),
      rng_(Rng(seed).fork("swarm")),
      repeats_(Rng(seed).fork("repeats")),
      masters_(Rng(seed).fork("masters")),
      healthy_(world.network().options()) {
  for (const Fault fault : only) kinds_.push_back({fault, Duration(rng_.between(1'000'000, 10'000'000))});
}

void Swarm::knobs() {
  NetworkOptions network = healthy_;
  if (rng_.chance(200)) {
    network.high_water_mark = static_cast<std::size_t>(rng_.between(2, 20));
    knobs_ += " small_queues";
  }
  if (rng_.chance(200)) {
    network.slow_permille = 200;
    network.delay_slow = seconds(3);
    knobs_ += " slow_network";
  }
  if (rng_.chance(200)) {
    network.peer_lost_permille = rng_.chance(500) ? 0 : 1000;
    knobs_ += network.peer_lost_permille == 0 ? " never_told" : " always_told";
  }
  // Of their own numbers: a seed that found something stays what it was.
  if (repeats_.chance(200)) {
    network.duplicate_permille = 100;
    knobs_ += " duplicates";
  }
  if (repeats_.chance(200)) {
    network.ghost_permille = 100;
    knobs_ += " ghosts";
  }
  world_.network().set_options(network);
  if (rng_.chance(200)) {
    for (std::size_t i = 0; i < world_.nodes(); ++i) {
      world_.node(static_cast<std::uint32_t>(i))
          .set_clock(Duration(rng_.between(-3'600'000'000, 3'600'000'000)), static_cast<std::int32_t>(rng_.between(-200, 200)));
    }
    knobs_ += " skewed_clocks";
  }
}

void Swarm::begin() {
  knobs();
  for (const Kind& kind : kinds_) schedule(kind);
}

std::string Swarm::text() const {
  std::string out;
  for (const Kind& kind : kinds_) {
    if (!out.empty()) out += ", ";
    out += std::string(fault_text(kind.fault)) + " every " + format_duration(std::chrono::duration_cast<seconds>(kind.every));
  }
  return out + (knobs_.empty() ? "" : ";" + knobs_);
}

void Swarm::schedule(const Kind& kind) {
  const Duration wait(rng_.between(kind.every.count() / 4, kind.every.count() * 2));
  world_.queue().after(wait, [this, kind] {
    if (healed_) return;
    ++faults_;
    happen(kind.fault);
    schedule(kind);
  });
}

Node& Swarm::pick(Node::Kind kind) {
  const std::vector<Node*> nodes = world_.of(kind);
  return *nodes[rng_.below(nodes.size())];
}

void Swarm::restart_later(Node& node, Duration at_most) {
  world_.queue().after(Duration(rng_.between(1000, at_most.count())), [this, &node] {
    if (!healed_) node.start();
  });
}

void Swarm::kill(Node& node, Duration for_at_most) {
  node.kill();
  restart_later(node, for_at_most);
}

void Swarm::happen(Fault fault) {
  // Mostly short, now and then longer than every timeout.
  const Duration span = rng_.chance(800) ? seconds(3) : seconds(60);
  const Duration lasting(rng_.between(10'000, span.count()));
  const auto any_client = [this]() -> Node& { return rng_.chance(300) ? pick(Node::Kind::kFramework) : pick(Node::Kind::kAgent); };
  const auto any = [&]() -> Node& { return rng_.chance(300) ? pick_master() : any_client(); };
  switch (fault) {
    case Fault::kKillAgent:
      kill(pick(Node::Kind::kAgent), span);
      break;
    case Fault::kKillMaster:
      kill(pick_master(), span);
      break;
    case Fault::kKillFramework:
      kill(pick(Node::Kind::kFramework), span);
      break;
    case Fault::kCrashAfterAppend: {
      Node& node = any();
      node.kill_after_append(rng_.chance(500));
      world_.queue().after(Duration(rng_.between(1'000'000, 2'000'000)), [this, &node] {
        if (!healed_) node.start();
      });
      break;
    }
    case Fault::kPartition: {
      const std::uint32_t client = any_client().ix();
      const bool up = rng_.chance(700), down = !up || rng_.chance(700), survives = rng_.chance(500);
      world_.network().block(client, up, down);
      world_.queue().after(lasting, [this, client, survives] {
        if (!survives) world_.network().reset(client);
        world_.network().block(client, false, false);
      });
      break;
    }
    case Fault::kReset:
      world_.network().reset(any_client().ix());
      break;
    case Fault::kHostReboot:
    case Fault::kHostPower: {
      Node& node = pick(Node::Kind::kAgent);
      world_.power_loss(node, fault == Fault::kHostReboot);
      restart_later(node, span);
      break;
    }
    case Fault::kMasterPower:
    case Fault::kFrameworkPower: {
      Node& node = fault == Fault::kMasterPower ? pick_master() : pick(Node::Kind::kFramework);
      world_.power_loss(node);
      restart_later(node, span);
      break;
    }
    case Fault::kLauncher: {
      Host& host = *pick(Node::Kind::kAgent).host();
      host.launcher_lost();
      world_.queue().after(Duration(rng_.between(1000, 2'000'000)), [&host] { host.launcher_returns(); });
      break;
    }
    case Fault::kMasterDiskFull:
    case Fault::kAgentDiskFull: {
      Node& node = fault == Fault::kMasterDiskFull ? pick_master() : pick(Node::Kind::kAgent);
      node.disk().set_full(true);
      world_.queue().after(lasting, [&node] { node.disk().set_full(false); });
      break;
    }
    case Fault::kDiskSlow: {
      Node& node = any();
      node.disk().set_slow(Duration(rng_.between(10'000, 2'000'000)));
      world_.queue().after(lasting, [&node] { node.disk().set_slow(Duration(0)); });
      break;
    }
    case Fault::kClock:
      any().set_clock(Duration(rng_.between(-3'600'000'000, 3'600'000'000)), 0);
      break;
    case Fault::kMasterPartition:
      cut_masters(lasting);
      break;
    case Fault::kMasterStall: {
      Node& node = pick_master();
      node.stall(true);
      world_.queue().after(lasting, [&node] { node.stall(false); });
      break;
    }
    case Fault::kMasterChange:
      change_masters();
      break;
    case Fault::kMasterNetwork: {
      PeerNetOptions options;
      options.lost_permille = static_cast<std::uint32_t>(masters_.below(300));
      options.duplicate_permille = static_cast<std::uint32_t>(masters_.below(300));
      options.slow_permille = static_cast<std::uint32_t>(masters_.below(500));
      world_.peers().set_options(options);
      world_.queue().after(lasting, [this] { world_.peers().set_options({}); });
      break;
    }
    case Fault::kMasterFlush:
      pick_master().disk().fail_next_flush();
      break;
    case Fault::kMasterLease: {  // reloaded in one of them; back to what it was with its next life
      Node& node = pick_master();
      const Duration lease(masters_.between(1'000'000, std::max<std::int64_t>(node.lease().count(), 1'000'000)));
      if (node.raft() != nullptr && !node.stalled()) node.raft()->raft().set_lease(lease);
      break;
    }
    case Fault::kCount:
    case Fault::kAll:
      break;
  }
}

Node& Swarm::pick_master() {
  const std::vector<Node*> nodes = world_.of(Node::Kind::kMaster);
  return nodes.size() == 1 ? *nodes.front() : *nodes[masters_.below(nodes.size())];
}

// One master from the others, or from one of them; both ways, or one way.
void Swarm::cut_masters(Duration lasting) {
  Node& one = pick_master();
  const bool out = masters_.chance(700), in = !out || masters_.chance(700), whole = masters_.chance(600);
  for (Node* other : world_.of(Node::Kind::kMaster)) {
    if (other == &one || (!whole && masters_.chance(500))) continue;
    if (out) world_.peers().block(one.ix(), other->ix(), true);
    if (in) world_.peers().block(other->ix(), one.ix(), true);
    world_.queue().after(lasting, [this, from = one.ix(), to = other->ix()] {
      world_.peers().block(from, to, false);
      world_.peers().block(to, from, false);
    });
  }
}

// Whoever leads, or thinks so, is asked to take one out; the next time, to take it in again.
void Swarm::change_masters() {
  Node& one = pick_master();
  for (Node* leader : world_.of(Node::Kind::kMaster)) {
    if (leader->raft() == nullptr || leader->stalled() || !leader->raft()->raft().leads()) continue;
    const std::vector<RaftServer> servers = leader->raft()->raft().servers();
    bool member = false;
    for (const RaftServer& s : servers) member = member || (s.name == one.name() && s.role == 1);
    leader->raft()->raft().change({0, !member, one.name(), member ? "" : "tcp://" + one.name()});
  }
}

// Until all are members again.
void Swarm::restore_masters() {
  const std::vector<Node*> nodes = world_.of(Node::Kind::kMaster);
  if (nodes.size() < 2) return;
  Node* leader = world_.master();
  if (leader->raft() != nullptr && leader->raft()->raft().leads()) {
    std::set<std::string> voters;
    for (const RaftServer& s : leader->raft()->raft().servers())
      if (s.role == 1) voters.insert(s.name);
    bool whole = true;
    for (Node* node : nodes) {
      if (voters.contains(node->name())) continue;
      whole = false;
      leader->raft()->raft().change({0, true, node->name(), "tcp://" + node->name()});
      break;
    }
    if (whole) return;
  }
  world_.queue().after(seconds(2), [this] { restore_masters(); });
}

void Swarm::heal() {
  healed_ = true;
  world_.peers().set_options({});
  for (Node* one : world_.of(Node::Kind::kMaster)) {
    for (Node* other : world_.of(Node::Kind::kMaster))
      if (one != other) world_.peers().block(one->ix(), other->ix(), false);
    one->stall(false);
  }
  world_.network().set_options(healthy_);
  for (std::size_t i = 0; i < world_.nodes(); ++i) {
    Node& node = world_.node(static_cast<std::uint32_t>(i));
    node.disk().set_full(false);
    node.disk().set_slow(Duration(0));
    if (node.host() != nullptr) node.host()->launcher_returns();
    if (node.kind() != Node::Kind::kMaster) world_.network().block(node.ix(), false, false);
    node.cancel_crash();
    node.start();
  }
  restore_masters();
}

}  // namespace bourse::sim
