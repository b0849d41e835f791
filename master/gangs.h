// Gangs under way: hold on every agent, then commit on every agent, or abort on all. See "Gang".
//
// A row lives from the accept until every slice is up or the gang is aborted. After a restart of the master there is no row;
// what the agents report decides: a committed slice means that every hold had succeeded, so remaining holds are committed
// when they show; holds without one lapse by themselves on their agents.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/core/messages.h"
#include "master/deadlines.h"
#include "master/ledger.h"

namespace bourse::house {

struct House;
struct Session;
struct SliceRow;

struct GangRow {
  FrameworkIx framework = 0;
  GangId gang{};
  bool committed = false;
  std::map<AgentIx, bool> held{};  // member -> it holds
  std::vector<SliceId> slices{};
  std::uint32_t up = 0;
  Duration deadline{0};
};

class GangTable {
 public:
  static constexpr std::size_t kGangsMax = 10'000;  // under way at once; beyond, an accept item is refused (kLimit)
  std::map<std::uint32_t, GangRow> rows;
  std::uint32_t last = 0;
  Deadlines<std::uint32_t> deadlines;
  [[nodiscard]] GangRow* find(FrameworkIx framework, GangId gang, std::uint32_t* row);
};

std::uint32_t start_gang(House& house, GangRow row);
void abort_gang(House& house, std::uint32_t row, const std::string& why);
void gang_slice_up(House& house, const SliceRow& slice);
void gang_agent_lost(House& house, AgentIx agent, const std::string& why);
void adopt_gangs(House& house, AgentIx agent);  // after a hello: holds whose gang was committed elsewhere
void gangs_due(House& house);
void gang_member_holds(House& house, std::uint32_t row, AgentIx member);  // it said so, or its hello shows it
void on_gang_held(House& house, const Session& from, const Message& message);

}  // namespace bourse::house
