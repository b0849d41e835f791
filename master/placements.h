// Where the slices of every group are, by domain, and what that leaves to the placement rules of a demand line.
//
// Owned by the master. Costs nothing until some demand has a rule; then every slice and every offered unit of a group counts on its
// agent, and for each label that a rule is about also in its domain, as it comes and goes. What is on agents that are unreachable or
// draining does not count: it is what has to be replaced. An agent's labels and state are those of the last pass.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/core/placement.h"
#include "common/core/resources.h"
#include "master/ledger.h"

namespace bourse::house {

struct House;
struct LineRow;
struct FrameworkRow;

struct GroupKey {
  std::string framework, group;
  bool all = false;  // every slice of the framework, whatever its group
  auto operator<=>(const GroupKey&) const = default;
};

using Domains = std::map<std::string, std::uint32_t>;  // value of a label -> how many

// Domains where a line could have a slice if all were empty, by rule; agents in each. Kept beside the line.
struct LineDomains {
  std::uint64_t version = 0;  // of the agents; 0: not counted yet
  std::vector<Domains> by_rule;
};

// What a search found on one agent, before the rules have chosen.
struct Candidate {
  AgentIx agent = 0;
  std::uint32_t units = 0;
  std::uint32_t device = 0;
};

class PlacementTable {
 public:
  static constexpr std::uint32_t kUnitsMax = 1000;  // that one search places; the rest of a line waits for the next pass

  void begin(const House& house, const FrameworkRow& framework, const Shape& shape);  // a demand has this shape, with rules
  [[nodiscard]] bool active() const { return active_; }
  void add(const House& house, AgentIx agent, const FrameworkId& framework, const std::string& group, std::uint64_t units);
  void remove(AgentIx agent, const FrameworkId& framework, const std::string& group, std::uint64_t units);
  void refresh(const House& house);  // agents that changed since the last pass
  // Grows when a line that found no place might find one now though no agent has more free than before.
  [[nodiscard]] std::uint64_t version() const { return version_; }

  // How many more units the required rules let this agent have now.
  [[nodiscard]] std::uint32_t allowed(const House& house, const FrameworkRow& framework, LineRow& line, AgentIx agent);
  // For every agent, in the order of their names, the first required rule that keeps it from having one more; null where none does.
  [[nodiscard]] std::vector<const Placement*> obstacles(const House& house, const FrameworkRow& framework, LineRow& line);
  // Of `candidates`, in their order of preference, those that the rules choose for `enough` units.
  [[nodiscard]] std::vector<Candidate> arrange(const House& house, const FrameworkRow& framework, LineRow& line,
                                               std::uint32_t enough, const std::vector<Candidate>& candidates);
  // The domains of the line's agents by its rules, one text for all: agents of equal text are alike to the rules.
  [[nodiscard]] std::string signature(const House& house, const LineRow& line, AgentIx agent) const;
  // A group that lost some of its units with their agents is harmed until as many are on good agents as were before.
  [[nodiscard]] bool harmed() const { return !harmed_.empty(); }
  struct Harm {
    bool harmed = false;
    std::uint64_t left = 0;     // units on good agents
    std::uint64_t missing = 0;  // units until the emptiest domains have their share again
  };
  [[nodiscard]] Harm harm(const House& house, const FrameworkRow& framework, LineRow& line);
  void forget(const FrameworkId& framework);                                                                   // it is gone
  [[nodiscard]] std::uint64_t count(const GroupKey& key, const std::string& level, const std::string& value);  // for tests

 private:
  struct Group {
    std::map<AgentIx, std::uint64_t> agents;
    std::map<std::string, Domains> tallies;  // by level, made when first asked for
    std::uint64_t counted = 0;               // on agents that count
    std::uint64_t goal = 0;                  // what was counted before some were lost; 0: nothing is missing
    [[nodiscard]] bool harmed() const { return counted < goal; }
  };
  struct Seen {  // of an agent, as the tallies have it
    bool counts = false, open = false;
    MilliCpus cpus;
    Bytes mem;
    std::size_t devices = 0;
    Labels labels;
    bool operator==(const Seen&) const = default;
  };
  struct Level;

  Domains& tally(const GroupKey& key, const std::string& level);
  void recount(Group& group, AgentIx agent, std::uint64_t units, bool more);  // in its total and its tallies
  const LineDomains& domains(const House& house, LineRow& line) const;
  Seen& seen(const House& house, AgentIx agent);
  [[nodiscard]] static GroupKey own(const FrameworkRow& framework, const Shape& shape);
  [[nodiscard]] static GroupKey target(const FrameworkRow& framework, const Shape& shape, const Placement& rule);
  std::vector<Level> levels(const House& house, const FrameworkRow& framework, LineRow& line);

  bool active_ = false;
  std::uint64_t version_ = 1, agents_version_ = 1;
  std::map<GroupKey, Group> groups_;
  std::vector<Seen> seen_;
  std::set<GroupKey> awaited_;  // what affinity rules are about
  std::set<GroupKey> harmed_;   // those whose goal is not 0; looked through once a pass
};

}  // namespace bourse::house
