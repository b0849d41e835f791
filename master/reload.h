// `bourse reload`: a process of the cluster reads its configuration again, and whoever asked hears what changed or why nothing did.
//
// The master's own is read by its driver (Actions::reload, ReloadDone), an agent's by the agent. Owned by the master.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>

#include "common/core/event.h"
#include "master/ledger.h"
#include "master/operators.h"

namespace bourse::house {

constexpr std::string_view kReloadAction = "reload";

class ReloadTable {
 public:
  static constexpr std::size_t kReloadsMax = 10'000;  // under way; beyond, kBusy
  static constexpr Duration kGiveUp = seconds(60);    // an agent that has not answered by then never will
  struct Row {
    Operation operation;
    AgentIx agent = 0;
    bool own = false;  // the master's
    Duration asked{0};
  };
  std::map<std::uint64_t, Row> rows;  // by tag, which is also their order in time
  std::uint64_t last = 0;
};

void begin_reload(House& house, Operation operation);
void reload_done(House& house, const ReloadDone& done);
void on_config_reloaded(House& house, const Session& from, const Message& message);

}  // namespace bourse::house
