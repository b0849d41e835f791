// Pages of what is, for readers. Each page is bounded by kStatusPage rows.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "common/core/event.h"
#include "master/ledger.h"
#include "master/operators.h"

namespace bourse::house {

struct House;
struct Session;

constexpr std::uint32_t kStatusPage = 500, kStatusPageMax = 5'000;

// Rows as StatusReply and ViewUpdate have them, one table each. "slices" and "offers" come by pages only.
constexpr std::array<std::string_view, 6> kViewTables = {"cluster", "agents", "frameworks", "demand", "roles", "events"};
std::vector<StatusReply::Row> cluster_view(const House& house);
StatusReply::Row agent_view(const House& house, AgentIx ix);
StatusReply::Row framework_view(const House& house, FrameworkIx ix);
std::vector<StatusReply::Row> demand_view(const House& house, FrameworkIx ix);  // its lines that are not met
std::vector<StatusReply::Row> roles_view(const House& house);
StatusReply::Row event_view(const EventLog::Row& row);

void on_reader_hello(House& house, const Received& received);
void on_status_query(House& house, const Session& from, const Message& message);

}  // namespace bourse::house
