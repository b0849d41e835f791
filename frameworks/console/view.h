// What the console knows of the cluster: one whole round of answers from the master, with the numbers in them read once.
//
// A value. The poller makes a new one each round; metrics, snapshot and history are functions of it.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/core/messages.h"
#include "common/core/time.h"
#include "common/core/units.h"

namespace bourse::console {

using Row = StatusReply::Row;

struct AgentView {
  Row row;
  std::string state;
  MilliCpus cpus, cpus_free;
  Bytes mem, mem_free;
  std::uint64_t slices = 0, devices = 0, unhealthy = 0;
  std::optional<Duration> clock;                               // ahead of the median of all
  std::vector<std::pair<std::string, std::uint64_t>> figures;  // by name
};
struct FrameworkView {
  Row row;
  std::string role;
  bool connected = false;
  MilliCpus cpus_used;
  Bytes mem_used;
  std::uint64_t slices = 0, offers = 0, unmet = 0;
  std::optional<Duration> clock;  // as an agent's
};
struct RoleView {
  Row row;
  std::uint64_t weight = 0, frameworks = 0, waiting = 0;
  MilliCpus cpus_used;
  Bytes mem_used;
};
// A line of a framework's demand that is not met, and why: the master's explanation, which is asked for in turn, so it may be missing
// at first, and of an earlier round.
struct DemandView {
  std::string framework, role, shape, why;
  std::uint64_t line = 0, unmet = 0, count = 0, together = 0;
};
struct EventView {
  std::uint64_t number = 0;
  Duration wall{0};
  std::string line;
};

// Every state that an agent can have, in the order in which they are shown.
constexpr std::array<std::string_view, 7> kAgentStates = {"up",       "unreachable", "draining", "drained",
                                                          "cordoned", "expected",    "removed"};

// One job, or task of an array, or the rest of an array that waits. Times are wall time, 0 where not yet.
struct JobView {
  std::string id, name, user, state, reason, hosts;
  MilliCpus cpus;
  Duration submitted{0}, started{0}, ended{0}, elapsed{0}, time_limit{0}, estimated_start{0};  // time_limit: kNoLimit for none
  std::int32_t exit_code = 0, exit_signal = 0;
};

// The batch framework's queue, where it could be asked.
struct JobsView {
  bool known = false;
  std::uint64_t pending = 0, held = 0, running = 0, completing = 0;  // held ones are among the pending
  std::uint64_t submitted = 0, started = 0, ended = 0;               // since the framework started
  std::vector<std::pair<std::string, std::uint64_t>> by_reason;      // pending ones
  std::vector<JobView> jobs;                                         // some that run, some that wait, the latest that ended
};

struct Totals {
  std::array<std::uint64_t, kAgentStates.size()> agents{};  // by kAgentStates
  // Of all agents that have registered; what is free only where it can be had, that is on agents that are up.
  MilliCpus cpus, cpus_free, cpus_used;  // used: by slices of frameworks
  Bytes mem, mem_free, mem_used;
  std::uint64_t slices = 0, offers = 0, unmet = 0, devices = 0, unhealthy = 0;
  std::uint64_t frameworks = 0, frameworks_connected = 0;
};

struct View {
  std::uint64_t number = 0;  // of the round, from 1; 0: nothing is known yet
  Time taken;                // when its last answer came
  Duration took{0};
  Epoch epoch;
  std::string cluster;
  Row leader;              // the master's own row: endpoint, pid, counters
  bool truncated = false;  // there are more rows than a table of the console holds
  std::vector<AgentView> agents;
  std::vector<FrameworkView> frameworks;
  std::vector<DemandView> demand;
  std::vector<RoleView> roles;
  std::deque<EventView> events;  // the latest, oldest first
  Totals totals;
};

std::optional<Duration> clock_in(const Row& row);  // "clock_ms"
AgentView agent_view(Row row);
FrameworkView framework_view(Row row);
RoleView role_view(Row row);
DemandView demand_view(const Row& row);
EventView event_view(const Row& row);
Totals totals_of(const View& view);
// "1st of 2 frameworks with unmet demand. 3 agents: 2 mem, 1 cordoned. Nearest: needs 4GiB more memory on h7."
std::string why_text(const ExplainReply& reply);

std::uint64_t count_in(const Row& row, std::string_view name);  // 0 where it is no whole number

// The text with everything that is not UTF-8 replaced by U+FFFD: Prometheus and JSON take nothing else.
std::string clean_utf8(std::string_view text);

}  // namespace bourse::console
