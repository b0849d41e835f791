// One process of the simulated cluster: the driver of one actor, as common/world/driver.h is in the real world.
//
// Its disk, host and clock outlive it; kill() ends it as kill -9 does, start() begins the next life with a higher incarnation
// and what the disk has. A framework is two actors in one process, the client and the framework's own. See "One client".
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "common/core/actor.h"
#include "common/sim/disk.h"
#include "common/sim/host.h"
#include "common/sim/raft_node.h"
#include "frameworks/api/client.h"

namespace bourse::sim {

class World;

struct NodeOptions {
  std::string name;      // "master", "h1", "batch"
  std::string identity;  // what its key says; empty: no keys
  std::function<std::unique_ptr<Actor>()> make;
  std::optional<ClientOptions> client;  // a framework
  std::optional<Raft::Options> raft;    // a master whose registry is replicated
  std::uint32_t server = 0;             // a master: which
};

class Node {
 public:
  enum class Kind : std::uint8_t { kMaster, kAgent, kFramework };

  Node(World& world, std::uint32_t ix, Kind kind, NodeOptions options);

  void start();
  void kill();
  void post(Event event);  // one at a time; an event posted during a step waits its turn
  [[nodiscard]] bool alive() const { return actor_ != nullptr; }

  // The clock of its host.
  [[nodiscard]] Time time() const;
  void set_clock(Duration wall_skew, std::int32_t drift_ppm);

  // Kill it at the next step that appends: after the record is written, before anything that depends on it is done.
  void kill_after_append(bool before_host_actions);
  void cancel_crash() { crash_ = Crash::kNone; }

  [[nodiscard]] Kind kind() const { return kind_; }
  [[nodiscard]] std::uint32_t ix() const { return ix_; }
  [[nodiscard]] const std::string& name() const { return options_.name; }
  [[nodiscard]] const std::string& identity() const { return options_.identity; }
  [[nodiscard]] Incarnation incarnation() const { return incarnation_; }
  [[nodiscard]] Actor* actor() { return actor_.get(); }
  [[nodiscard]] Disk& disk() { return *disk_; }
  [[nodiscard]] Host* host() { return host_.get(); }
  [[nodiscard]] RaftNode* raft() { return raft_.get(); }  // null: none, or dead
  void stall(bool stalled);                               // as SIGSTOP and SIGCONT: of masters with raft
  [[nodiscard]] bool stalled() const { return stalled_; }
  [[nodiscard]] Duration lease() const { return options_.raft ? options_.raft->lease : Duration(0); }  // that it starts with
  // A call that does nothing when this life of the node is over.
  [[nodiscard]] std::function<void()> while_alive(std::function<void()> call);
  [[nodiscard]] Duration honest(Duration after) const;  // no earlier by the node's own clock, which may drift
  void give_host(std::unique_ptr<Host> host);
  [[nodiscard]] std::uint64_t steps() const { return steps_; }

 private:
  struct Held {
    std::vector<SessionCommand> session;
    std::vector<Send> sends;
    std::vector<Reply> replies;
    std::vector<PeerId> cut;
    std::vector<ChangeMember> members;
    std::string leader;
    bool reconnect = false, stop = false, hand_over = false;
  };
  enum class Crash : std::uint8_t { kNone, kBeforeHost, kBeforeSends };

  struct Queued {
    bool to_client = false;
    Event event;
  };

  void enqueue(Queued queued);
  void enqueue_front(Queued queued);
  void run_events();
  void step(const Queued& queued);
  void tell(std::vector<SessionEvent>& up);
  void execute(Actions& actions);
  bool append(Actions& actions, Held& rest, std::vector<HostAction>& host);  // false: it died of it
  void safe(Ticket ticket, Held& held, const Result<>& result, std::uint64_t index);
  void release(Held& held);
  void arm(const Arm& item);

  World& world_;
  std::uint32_t ix_;
  Kind kind_;
  NodeOptions options_;
  std::unique_ptr<Disk> disk_;
  std::unique_ptr<Host> host_;
  Duration wall_skew_{0};
  std::int32_t drift_ppm_ = 0;

  std::unique_ptr<Actor> actor_;
  std::unique_ptr<Client> client_;
  std::unique_ptr<RaftNode> raft_;
  bool stalled_ = false;
  Incarnation incarnation_;
  std::uint64_t life_ = 0;
  std::deque<Queued> events_;
  bool stepping_ = false;
  Crash crash_ = Crash::kNone;
  Ticket tickets_ = 0;
  std::map<TimerKey, EventQueue::Handle> timers_;
  std::uint64_t steps_ = 0;
};

}  // namespace bourse::sim
