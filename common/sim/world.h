// The simulated cluster: one thread, virtual time, one seed. The very actors of production in a modelled world.
//
// Same seed, same trace hash, on any machine. Owns everything; observers (checkers) are told of every event and never change
// anything. A violation is remembered with its moment and stops the run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/core/rng.h"
#include "common/sim/network.h"
#include "common/sim/node.h"
#include "common/sim/queue.h"
#include "common/sim/trace.h"

namespace bourse::sim {

// Told after the fact, in the order in which things happen.
struct Observer {
  virtual ~Observer() = default;
  virtual void sent(Node& from, const Send& send) { (void)from, (void)send; }
  virtual void session(Node& framework, const SessionEvent& event) { (void)framework, (void)event; }
  virtual void started(const TaskKey& task, const Execution& execution) { (void)task, (void)execution; }
  virtual void ended(const TaskKey& task, const Execution& execution) { (void)task, (void)execution; }
  virtual void stepped(Node& node, const Event& event) { (void)node, (void)event; }
  // A replicated registry has come to its entry `index`.
  virtual void applied(Node& master, std::uint64_t index, const RegistryMachine& registry) {
    (void)master, (void)index, (void)registry;
  }
};

struct WorldOptions {
  std::uint64_t seed = 1;
  NetworkOptions network;
  DiskOptions disk;
  HostOptions host;
  bool log_to_stderr = false;  // actors' log lines with node and moment
};

class World {
 public:
  explicit World(WorldOptions options, Planner planner);
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // Nodes are made dead; start() begins their first life.
  // One, or several with raft: named m1, m2, ... and found at sim://m1, ...
  Node& add_master(std::function<std::unique_ptr<Actor>()> make, std::optional<Raft::Options> raft = {});
  // `make` gets the boot id of its host.
  Node& add_agent(const AgentId& id, Inventory inventory, std::function<std::unique_ptr<Actor>(const std::string& boot_id)> make);
  Node& add_framework(ClientOptions client, std::function<std::unique_ptr<Actor>()> make);

  bool run_one();  // false: nothing left, or a violation
  void run_until(Duration moment);
  bool run_until(const std::function<bool()>& done, Duration at_most);  // checked after every event; true: done

  // A framework's own clients: submit, queue, ...
  void request(Node& framework, Request request);
  std::function<void(Node& framework, const Reply& reply)> on_reply;

  // A host loses power: its agent, and all it ran, is gone. start() brings it back. `keep_log`: an orderly reboot, where
  // everything written had reached the disk.
  void power_loss(Node& node, bool keep_log = false);

  void observe(Observer& observer) { observers_.push_back(&observer); }
  void violation(std::string text);
  [[nodiscard]] const std::string& violated() const { return violation_; }  // empty: none

  EventQueue& queue() { return queue_; }
  Network& network() { return *network_; }
  Trace& trace() { return trace_; }
  [[nodiscard]] Rng rng(std::string_view name) const { return rng_.fork(name); }
  [[nodiscard]] Duration now() const { return queue_.now(); }
  [[nodiscard]] std::uint64_t events() const { return events_; }
  [[nodiscard]] const Executions& executions() const { return executions_; }
  [[nodiscard]] Node& node(std::uint32_t ix) { return *nodes_[ix]; }
  [[nodiscard]] std::size_t nodes() const { return nodes_.size(); }
  [[nodiscard]] Node* master();  // of several: the one that leads, else the first
  [[nodiscard]] Node* master_named(const std::string& name);
  [[nodiscard]] Network::ServerIx server_at(const std::string& endpoint) const;
  PeerNet& peers() { return peers_; }
  [[nodiscard]] const std::vector<Observer*>& observers() const { return observers_; }
  void log(const Node& node, const std::string& line) const;
  [[nodiscard]] const WorldOptions& options() const { return options_; }
  std::vector<Node*> of(Node::Kind kind);

 private:
  friend class Node;
  void after_step(Node& node, const Event& event);

  WorldOptions options_;
  Planner planner_;
  EventQueue queue_;
  Rng rng_;
  Trace trace_;
  std::unique_ptr<Network> network_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<Node*> masters_;
  PeerNet peers_;
  std::vector<Observer*> observers_;
  Executions executions_;
  std::string violation_;
  std::uint64_t events_ = 0;
};

}  // namespace bourse::sim
