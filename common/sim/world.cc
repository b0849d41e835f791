#include "common/sim/world.h"

#include <cstdio>

namespace bourse::sim {

World::World(WorldOptions options, Planner planner)
    : options_(options), planner_(std::move(planner)), rng_(options.seed), peers_(queue_, rng_.fork("masters")) {
  Network::Hooks hooks;
  hooks.server_up = [this](Network::ServerIx server) { return server < masters_.size() && masters_[server]->alive(); };
  hooks.to_server = [this](Network::ServerIx server, PeerId peer, std::string identity, Message message) {
    masters_[server]->post(Received{peer, std::move(identity), std::move(message)});
  };
  hooks.server_lost_peer = [this](Network::ServerIx server, PeerId peer) {
    if (server < masters_.size()) masters_[server]->post(PeerLost{peer});
  };
  hooks.to_client = [this](Network::ClientIx client, Message message) {
    nodes_[client]->post(Received{kMasterPeer, {}, std::move(message)});
  };
  hooks.client_lost_server = [this](Network::ClientIx client) { nodes_[client]->post(PeerLost{kMasterPeer}); };
  hooks.violation = [this](std::string text) { violation(std::move(text)); };
  network_ = std::make_unique<Network>(queue_, rng_.fork("network"), options.network, std::move(hooks));
}

Node& World::add_master(std::function<std::unique_ptr<Actor>()> make, std::optional<Raft::Options> raft) {
  BOURSE_ASSERT(masters_.empty() || raft, "several masters without raft");
  NodeOptions options;
  options.name = raft ? raft->name : "master";
  options.make = std::move(make);
  options.raft = std::move(raft);
  options.server = static_cast<std::uint32_t>(masters_.size());
  nodes_.push_back(
      std::make_unique<Node>(*this, static_cast<std::uint32_t>(nodes_.size()), Node::Kind::kMaster, std::move(options)));
  masters_.push_back(nodes_.back().get());
  network_->set_servers(static_cast<Network::ServerIx>(masters_.size()));
  return *nodes_.back();
}

Node* World::master() {
  Node* leader = masters_.empty() ? nullptr : masters_.front();
  std::uint64_t term = 0;
  for (Node* node : masters_) {
    if (node->raft() == nullptr || !node->raft()->raft().leads() || node->raft()->raft().term() < term) continue;
    term = node->raft()->raft().term();
    leader = node;
  }
  return leader;
}

Node* World::master_named(const std::string& name) {
  for (Node* node : masters_)
    if (node->name() == name) return node;
  return nullptr;
}

Network::ServerIx World::server_at(const std::string& endpoint) const {
  for (std::size_t i = 0; i < masters_.size(); ++i)
    if (endpoint == "sim://" + masters_[i]->name()) return static_cast<Network::ServerIx>(i);
  return Network::kNext;
}

Node& World::add_agent(const AgentId& id, Inventory inventory,
                       std::function<std::unique_ptr<Actor>(const std::string& boot_id)> make) {
  auto host =
      std::make_unique<Host>(queue_, rng_.fork("host " + id.value), id, std::move(inventory), options_.host, planner_, executions_);
  NodeOptions options;
  options.name = id.value;
  options.identity = "agent:" + id.value;
  options.make = [make = std::move(make), raw = host.get()] { return make(raw->boot_id()); };
  nodes_.push_back(
      std::make_unique<Node>(*this, static_cast<std::uint32_t>(nodes_.size()), Node::Kind::kAgent, std::move(options)));
  nodes_.back()->give_host(std::move(host));
  return *nodes_.back();
}

Node& World::add_framework(ClientOptions client, std::function<std::unique_ptr<Actor>()> make) {
  NodeOptions options;
  options.name = client.framework.value;
  options.identity = "framework:" + client.framework.value;
  options.client = std::move(client);
  options.make = std::move(make);
  nodes_.push_back(
      std::make_unique<Node>(*this, static_cast<std::uint32_t>(nodes_.size()), Node::Kind::kFramework, std::move(options)));
  return *nodes_.back();
}

bool World::run_one() { return violation_.empty() && queue_.run_one() && violation_.empty(); }

void World::run_until(Duration moment) {
  while (queue_.next() <= moment && run_one()) {}
  if (violation_.empty()) queue_.advance(moment);
}

bool World::run_until(const std::function<bool()>& done, Duration at_most) {
  const Duration end = queue_.now() + at_most;
  while (!done()) {
    if (queue_.next() > end || !run_one()) return false;
  }
  return violation_.empty();
}

void World::request(Node& framework, Request request) { framework.post(std::move(request)); }

void World::power_loss(Node& node, bool keep_log) {
  node.kill();
  if (!keep_log) node.disk().power_loss();
  if (node.host() != nullptr) node.host()->reboot();
}

void World::violation(std::string text) {
  if (!violation_.empty()) return;
  violation_ = "at " + format_duration(queue_.now()) + ", event " + std::to_string(events_) + ": " + std::move(text);
}

std::vector<Node*> World::of(Node::Kind kind) {
  std::vector<Node*> out;
  for (const auto& node : nodes_) {
    if (node->kind() == kind) out.push_back(node.get());
  }
  return out;
}

void World::after_step(Node& node, const Event& event) {
  ++events_;
  for (Observer* o : observers_) o->stepped(node, event);
}

void World::log(const Node& node, const std::string& line) const {
  std::fprintf(stderr, "%14.6f %-8s %s\n", static_cast<double>(queue_.now().count()) / 1e6, node.name().c_str(), line.c_str());
}

}  // namespace bourse::sim
