// Raft of one simulated master: virtual time, the node's disk, and a network among masters. See "Raft is driver-side".
//
// The same Raft as in real masters (master/raft.h), on other Ports. Owned by its Node, one for each life.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "common/core/rng.h"
#include "common/sim/queue.h"
#include "master/raft.h"
#include "master/registry_machine.h"

namespace bourse::sim {

class Node;
class World;

struct PeerNetOptions {
  Duration delay_min = microseconds(50), delay_max = milliseconds(2);
  std::uint32_t slow_permille = 5, lost_permille = 0, duplicate_permille = 0;
  Duration delay_slow = milliseconds(300);
};

// What masters send to each other. Per pair and direction first in, first out, but for what is lost. While a direction is blocked its
// messages wait, as in a socket's queue, and some of them arrive when it is not any more.
class PeerNet {
 public:
  using Ix = std::uint32_t;
  PeerNet(EventQueue& queue, Rng rng) : queue_(queue), rng_(rng) {}
  void set_options(const PeerNetOptions& options) { options_ = options; }
  [[nodiscard]] const PeerNetOptions& options() const { return options_; }
  void send(Ix from, Ix to, std::string bytes, const std::function<void(const std::string&)>& deliver);
  void block(Ix from, Ix to, bool blocked);

 private:
  struct Pair {
    bool blocked = false;
    Duration last{0};
    std::deque<std::pair<std::string, std::function<void(const std::string&)>>> waiting;
  };
  static constexpr std::size_t kWaitingMax = 50;
  EventQueue& queue_;
  Rng rng_;
  PeerNetOptions options_;
  std::map<std::pair<Ix, Ix>, Pair> pairs_;
};

class RaftNode final : public Raft::Ports {
 public:
  RaftNode(World& world, Node& node, const Raft::Options& options, Rng rng);
  ~RaftNode() override = default;

  void begin();
  void abandon();
  void stall(bool stalled);  // as SIGSTOP: nothing happens in it until it goes on
  [[nodiscard]] Raft& raft() { return *raft_; }
  void deliver(const std::string& bytes);

  Time now() override;
  std::uint64_t random() override { return rng_.next(); }
  Result<> write(const std::vector<std::string>& records) override;
  void flush(std::function<void()> done) override;
  Result<> write_through(const std::string& record) override;
  Result<> compact(const std::string& snapshot) override;
  Result<> sync() override;
  void fatal(const std::string& why) override;
  void send(const RaftServer& to, std::string bytes) override;
  void after(Duration delay, std::function<void()> call) override;
  void post(Event event) override;
  void log(LogLevel level, std::string_view event, LogFields fields) override;

 private:
  // Tells the world's observers of every entry.
  class Machine final : public RegistryMachine {
   public:
    explicit Machine(RaftNode& node) : node_(node) {}
    void apply(std::uint64_t index, const std::vector<std::string>& records) override;

   private:
    RaftNode& node_;
  };
  void when_awake(std::function<void()> call);
  void die();

  World& world_;
  Node& node_;
  Rng rng_;
  bool stalled_ = false, dead_ = false;
  std::deque<std::function<void()>> asleep_;
  Machine machine_;
  std::unique_ptr<Raft> raft_;
};

}  // namespace bourse::sim
