// Pages of what is, for readers. Each page is bounded by kStatusPage rows.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/core/event.h"
#include "master/ledger.h"
#include "master/operators.h"

namespace bourse::house {

struct House;
struct OfferRow;
struct Session;

constexpr std::uint32_t kStatusPage = 500, kStatusPageMax = 5'000;

// Rows as StatusReply and ViewUpdate have them, one table each.
constexpr std::array<std::string_view, 8> kViewTables = {"cluster", "agents", "frameworks", "offers",
                                                         "slices",  "demand", "roles",      "events"};
std::vector<StatusReply::Row> cluster_view(const House& house);
StatusReply::Row agent_view(const House& house, AgentIx ix);
StatusReply::Row framework_view(const House& house, FrameworkIx ix);
StatusReply::Row offer_view(const House& house, const OfferRow& offer);  // says when it ends, as wall time, and not in how long
std::optional<StatusReply::Row> slice_view(House& house, const SliceId& id);  // none: it has gone, or its framework has
// The next ones in the order (framework, number); fewer than `limit`: there are no more.
std::vector<SliceId> slices_after(const House& house, const std::string& after, std::size_t limit);
std::vector<StatusReply::Row> demand_view(const House& house, FrameworkIx ix);  // its lines that are not met
std::vector<StatusReply::Row> roles_view(const House& house);
StatusReply::Row event_view(const EventLog::Row& row);

void on_reader_hello(House& house, const Received& received);
void on_status_query(House& house, const Session& from, const Message& message);

}  // namespace bourse::house
