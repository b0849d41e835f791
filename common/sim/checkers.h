// What must hold after every event, whatever the faults, and what must hold when all is quiet.
//
// Checkers only look: at what actors say of themselves (Master::accounts), at what travels, and at what really happened on
// the hosts (Executions). Each is a World observer; a breach is World::violation.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "common/sim/world.h"

namespace bourse::sim {

// For every agent: free + offered + held + leased + reserved + unavailable = total, and no part above it. See "Ledger".
class LedgerChecker final : public Observer {
 public:
  explicit LedgerChecker(World& world) : world_(world) { world.observe(*this); }
  void stepped(Node& node, const Event& event) override;

 private:
  World& world_;
};

// An offer is made once and ends once; what has ended is not granted.
class OfferChecker final : public Observer {
 public:
  explicit OfferChecker(World& world) : world_(world) { world.observe(*this); }
  void stepped(Node& node, const Event& event) override;
  void sent(Node& from, const Send& send) override;

 private:
  struct State {
    bool ended = false, granted = false, keeps_rest = false;
  };
  World& world_;
  std::map<OfferId, State> offers_;
  std::map<PeerId, FrameworkId> peers_;
  // What a leader has answered it remembers as long as it leads.
  std::map<std::tuple<Epoch, FrameworkId, Incarnation, Sequence>, std::vector<AcceptReply::Item>> answered_;
  std::map<PeerId, Incarnation> lives_;
};

// A task runs at most once, anywhere. A framework hears one end of it, which is what happened.
class TaskChecker final : public Observer {
 public:
  explicit TaskChecker(World& world) : world_(world) { world.observe(*this); }
  void started(const TaskKey& task, const Execution& execution) override;
  void session(Node& framework, const SessionEvent& event) override;
  [[nodiscard]] std::size_t ends() const { return ends_.size(); }

 private:
  void end(const TaskKey& key, const TaskUpdate& update, Incarnation life);
  World& world_;
  struct End {
    TaskStatus status;
    Incarnation life;
    StreamId stream;
  };
  std::map<TaskKey, End> ends_;
  std::set<std::tuple<Incarnation, FrameworkId, AgentId, StreamId, Sequence>> seen_;
};

// Gang slices come together: a gang is ready when all its slices are, and not before.
class GangChecker final : public Observer {
 public:
  explicit GangChecker(World& world) : world_(world) { world.observe(*this); }
  void sent(Node& from, const Send& send) override;
  void session(Node& framework, const SessionEvent& event) override;

 private:
  World& world_;
  std::map<std::pair<FrameworkId, GangId>, std::set<std::uint64_t>> members_, ready_;
};

// Of several masters: one leader per term and per lease, epochs that only grow, and one registry at every index of the log.
class MasterChecker final : public Observer {
 public:
  explicit MasterChecker(World& world) : world_(world) { world.observe(*this); }
  void applied(Node& master, std::uint64_t index, const RegistryMachine& registry) override;
  void stepped(Node& node, const Event& event) override;
  [[nodiscard]] std::size_t leaderships() const { return epochs_.size(); }

 private:
  World& world_;
  std::map<std::uint64_t, std::uint32_t> leaders_;   // by term
  std::map<std::uint64_t, std::string> registries_;  // by index
  std::map<std::uint64_t, std::pair<std::uint32_t, Incarnation>> epochs_;
};

// Empty when every master has the same registry, all of it applied; else who differs.
std::string registries_differ(World& world);

// Empty, or what leaked: open offers, slices, processes, statuses, amounts that are not free. For when nothing is wanted.
std::string leaks(World& world);

// All of the above, in one.
struct Checkers {
  explicit Checkers(World& world) : ledger(world), offers(world), tasks(world), gangs(world), masters(world) {}
  LedgerChecker ledger;
  OfferChecker offers;
  TaskChecker tasks;
  GangChecker gangs;
  MasterChecker masters;
};

}  // namespace bourse::sim
