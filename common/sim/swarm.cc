#include "common/sim/swarm.h"

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
    case Fault::kCount:
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
}

Swarm::Swarm(World& world, std::uint64_t seed, std::vector<Fault> only)
    : world_(world), rng_(Rng(seed).fork("swarm")), repeats_(Rng(seed).fork("repeats")), healthy_(world.network().options()) {
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
  const auto any = [&]() -> Node& { return rng_.chance(300) ? *world_.master() : any_client(); };
  switch (fault) {
    case Fault::kKillAgent:
      kill(pick(Node::Kind::kAgent), span);
      break;
    case Fault::kKillMaster:
      kill(*world_.master(), span);
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
      Node& node = fault == Fault::kMasterPower ? *world_.master() : pick(Node::Kind::kFramework);
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
      Node& node = fault == Fault::kMasterDiskFull ? *world_.master() : pick(Node::Kind::kAgent);
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
    case Fault::kCount:
      break;
  }
}

void Swarm::heal() {
  healed_ = true;
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
}

}  // namespace bourse::sim
