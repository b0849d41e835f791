// Pages of what is, for readers. Each page is bounded by kStatusPage rows.
#pragma once

#include <cstdint>

#include "common/core/event.h"

namespace bourse::house {

struct House;
struct Session;

constexpr std::uint32_t kStatusPage = 500, kStatusPageMax = 5'000;

void on_reader_hello(House& house, const Received& received);
void on_status_query(House& house, const Session& from, const Message& message);

}  // namespace bourse::house
