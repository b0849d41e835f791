// Agents as the master knows them: identity, session, facts. What is where on them is the ledger's.
//
// A row is made by the first hello (or, after a restart, by the registry: `present` is then false until it says hello) and
// lives until an operator removes the agent. Unreachable is a state, not an end: its slices stay.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/core/event.h"
#include "master/deadlines.h"
#include "master/ledger.h"
#include "plugins/policy/usage.h"

namespace bourse::house {

struct House;
struct Session;

struct AgentRow {
  AgentId id;
  Incarnation incarnation;
  PeerId peer;             // of its session; 0: none
  bool connected = false;  // false: its connection is known to be gone, though the timeout has not passed
  bool present = false;    // it has said hello to this master
  bool reachable = false;  // within the timeout
  bool removed = false;
  bool cordoned = false, draining = false;
  bool degraded = false;
  std::string cordon_reason, drain_reason, boot_id;
  Duration drain_deadline{0};      // mono; 0: none
  Duration shut_since{0};          // mono; when frameworks were first asked to go for a maintenance window; 0: it is not shut
  Duration closes{0}, reopens{0};  // wall; the next maintenance window, or the present one; 0: none, or no end
  Labels own_labels, labels;       // as the agent says; with an operator's over them
  std::vector<std::string> notes;
  Version inventory;            // that the agent reported last; increments follow it
  std::vector<Device> devices;  // of that inventory. Its topology is not kept: nobody here reads it
  Usage counted;                // what it adds to the cluster's total at present
  Counters figures;             // what it counted last, for readers
  std::set<SliceId> slices;
  std::set<std::uint64_t> offers;
  [[nodiscard]] bool open() const { return reachable && !cordoned && !draining; }
  [[nodiscard]] PeerId way() const { return connected ? peer : PeerId(); }
};

class AgentTable {
 public:
  static constexpr std::size_t kAgentsMax = 100'000;  // beyond, a hello is refused (kLimit)
  static constexpr std::size_t kFactsChunk = 500;     // agents in one AgentsUpdate

  [[nodiscard]] AgentRow& at(AgentIx ix) { return rows_[ix]; }
  [[nodiscard]] const AgentRow& at(AgentIx ix) const { return rows_[ix]; }
  [[nodiscard]] AgentRow* find(const AgentId& id, AgentIx* ix = nullptr);
  [[nodiscard]] const std::map<AgentId, AgentIx>& by_name() const { return by_name_; }
  [[nodiscard]] std::size_t size() const { return by_name_.size(); }
  [[nodiscard]] std::size_t rows() const { return rows_.size(); }  // removed ones too
  AgentIx add(const AgentId& id);
  void remove(AgentIx ix);

  std::size_t missing = 0;    // known from the registry, and no hello yet
  Usage total;                // of the reachable ones
  Version facts;              // of the stream that watchers read
  std::set<AgentIx> changed;  // since the last AgentsUpdate
  Deadlines<AgentIx> drains;  // when frameworks are asked, and when slices are taken

 private:
  std::vector<AgentRow> rows_;
  std::map<AgentId, AgentIx> by_name_;
};

void expect_agent(House& house, const AgentId& id);  // from the registry
void on_agent_hello(House& house, const Received& received);
void admit_agent(House& house, const Received& received, bool known_before);
void on_inventory(House& house, const Session& from, const Message& message);
void on_figures(House& house, AgentIx ix, const Counters& figures);  // of its heartbeats
void agent_silent(House& house, AgentIx ix, std::string_view why);
void agent_decided(House& house, AgentIx ix);  // cordon, drain and labels, as the registry has them now
void drains_due(House& house);
void agent_remove(House& house, AgentIx ix, const std::string& reason);
void agent_changed(House& house, AgentIx ix);
[[nodiscard]] AgentFacts facts_of(const House& house, AgentIx ix);
void send_facts(House& house);                      // what changed, to every watcher
void send_all_facts(House& house, PeerId watcher);  // the snapshot

}  // namespace bourse::house
