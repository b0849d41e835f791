// Open offers, and how each ends: exactly once, by accept, decline, expiry or rescinding.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "common/core/messages.h"
#include "master/deadlines.h"
#include "master/ledger.h"

namespace bourse::house {

struct House;
struct Session;

struct OfferRow {
  OfferId id{};
  Generation generation{};
  AgentIx agent = 0;
  FrameworkIx framework = 0;
  std::uint64_t line = 0;
  std::uint64_t units = 0;
  Resources resources{};
  Duration expires{0};  // mono
  GangId reservation{};
  bool revocable = false;        // out of House::lent
  std::string group{};           // of the line's shape
  std::string reserved{};        // the operators' reservation that it is part of
  Duration made{0};              // wall
  std::uint64_t kept_under = 0;  // where it comes from when it is made: what the ledger keeps under this; 0: what is free
};

class OfferTable {
 public:
  static constexpr std::size_t kOffersPerMessage = 200;
  static constexpr std::size_t kSlicesPerAccept = 10'000;  // beyond, every item is answered kLimit
  static constexpr Duration kHoldOffLeast = seconds(1);    // after a decline that names none: no offer loop at full speed
  static constexpr Duration kHoldOffMost = std::chrono::hours(1);

  std::map<std::uint64_t, OfferRow> open;  // ids grow, so the newest is the last
  Deadlines<std::uint64_t> deadlines;
  std::uint64_t last = 0;  // counter of this epoch
};

// What a framework has (offered, held and leased) counts in its share and its role's; what is lent to it counts with Lending alone.
void count_use(House& house, FrameworkIx framework, bool revocable, const Resources& amount, int sign);
// `offer.resources` move from free to offered and the framework will hear of it at the end of this pass. Its id.
std::uint64_t make_offer(House& house, OfferRow offer);
void grow_offer(House& house, std::uint64_t id, const Resources& more, std::uint64_t units);  // before it was announced
// What is left of it goes back. `tell`: the framework hears of it. Not for accept.
void end_offer(House& house, std::uint64_t id, std::optional<OfferEnd> tell);
void end_offers_of_agent(House& house, AgentIx agent, OfferEnd end);
void hold_off(House& house, FrameworkIx framework, std::uint64_t line, AgentIx agent, Duration for_how_long);
void offers_due(House& house);
void on_accept(House& house, const Session& from, const Message& message);
void on_decline(House& house, const Session& from, const Message& message);

}  // namespace bourse::house
