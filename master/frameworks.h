// Frameworks as the master knows them: identity, session, demand, and what became of it.
//
// A row lives from its first hello until it says Goodbye{forever}, its failover timeout passes, or an operator removes it; its
// slices then end one by one on their agents, under a `removed` row that no name leads to. See "Demand accounting".
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/core/event.h"
#include "master/deadlines.h"
#include "master/ledger.h"
#include "master/placements.h"
#include "plugins/policy/usage.h"

namespace bourse::house {

struct House;
struct Session;

struct LineRow {
  DemandLine want{};
  bool wildcard = false;         // the pseudo line 0: everything there is
  std::uint64_t offered = 0;     // units in open offers
  std::uint64_t accepted = 0;    // units accepted after Demand.last_accept
  bool starved = false;          // the index was searched to its end; only a changed agent can help
  bool at_back = false;          // its accumulation lapsed: served once after everybody else
  AgentIx last_offer_agent = 0;  // for Explain
  Duration last_offer_wall{-1};
  std::string last_decline{};
  LineDomains domains{};       // placement: see there
  std::uint64_t searched = 0;  // the pass in which an agent that grew last had the line searched for
  [[nodiscard]] bool placed() const { return !want.shape.placement.empty(); }
  // What is still wanted; unmet() of it out of the agents' own amounts: what is to be lent is Lending's.
  [[nodiscard]] std::uint32_t missing() const {
    if (wildcard) return UINT32_MAX;
    const std::uint64_t gone = offered + accepted;
    return gone >= want.count ? 0 : static_cast<std::uint32_t>(want.count - gone);
  }
  [[nodiscard]] std::uint32_t unmet() const { return want.shape.revocable ? 0 : missing(); }
};

struct FrameworkRow {
  FrameworkId id;
  RoleName role;
  Incarnation incarnation;
  Duration failover{0};
  PeerId peer;            // 0: disconnected
  Duration forget_at{0};  // while disconnected
  bool removed = false, watch = false;

  Version demand;
  Sequence last_accept;
  std::vector<LineRow> lines;  // by priority, highest first, then id
  struct Taken {
    Sequence sequence;
    std::uint64_t line = 0;
    std::uint64_t units = 0;
  };
  std::deque<Taken> taken;                                         // accepts that the demand may not account for yet
  std::map<std::pair<std::uint64_t, AgentIx>, Duration> hold_off;  // (line, agent) -> not before

  std::map<std::uint64_t, AcceptReply> answers;  // by sequence
  std::uint64_t answers_dropped = 0;             // highest sequence whose answer is no longer kept

  std::set<std::uint64_t> offers;
  std::set<std::uint64_t> slices;  // numbers
  std::set<std::uint64_t> claims;  // slices it says it has and no agent has shown yet
  Usage used;                      // offered, held and leased

  // Kept by refresh(): the least that any unmet line asks for. Lets a walk pass by in two comparisons.
  bool wants = false;
  std::int64_t least_cpus = 0, least_mem = 0;

  [[nodiscard]] LineRow* line(std::uint64_t number);
};

class FrameworkTable {
 public:
  static constexpr std::size_t kFrameworksMax = 10'000;  // beyond, a hello is refused (kLimit)
  static constexpr std::size_t kDemandLinesMax = 1'000;  // beyond, the whole demand is refused (kLimit); the old one stays
  static constexpr std::size_t kAnswersMax = 256;        // remembered accepts; beyond, the oldest is forgotten (a repeat: kGone)
  static constexpr std::size_t kHoldOffsMax = 100'000;   // a framework's; beyond, a decline holds nothing off
  static constexpr std::size_t kTakenMax = 100'000;      // accepts a demand lags behind; beyond, the oldest counts as accounted for
  static constexpr std::size_t kSlicesMax = 1'000'000;   // a framework's; beyond, an accept item is refused (kLimit)

  static constexpr Duration kFailoverMost = std::chrono::hours(24 * 3650);

  [[nodiscard]] FrameworkRow& at(FrameworkIx ix) { return rows_[ix]; }
  [[nodiscard]] const FrameworkRow& at(FrameworkIx ix) const { return rows_[ix]; }
  [[nodiscard]] FrameworkRow* find(const FrameworkId& id, FrameworkIx* ix = nullptr);
  [[nodiscard]] const std::map<FrameworkId, FrameworkIx>& by_name() const { return by_name_; }
  [[nodiscard]] std::size_t rows() const { return rows_.size(); }  // vacant and removed ones too
  FrameworkIx add(const FrameworkId& id);
  FrameworkIx ghost(const FrameworkId& id);  // owner of slices whose framework nobody knows any more
  void detach(FrameworkIx ix);               // no name leads to it from now on
  void vacate(FrameworkIx ix);               // a removed one without slices
  Deadlines<FrameworkIx> failovers;

 private:
  std::deque<FrameworkRow> rows_;
  std::vector<FrameworkIx> vacant_;
  std::map<FrameworkId, FrameworkIx> by_name_;
  std::unordered_map<FrameworkId, FrameworkIx> lookup_;
  std::map<FrameworkId, FrameworkIx> ghosts_;
};

void expect_framework(House& house, const FrameworkId& id);  // from the registry
void on_framework_hello(House& house, const Received& received);
void admit_framework(House& house, const Received& received);
void on_demand(House& house, const Session& from, const Message& message);
void framework_disconnected(House& house, FrameworkIx ix, std::string_view why);
void framework_remove(House& house, FrameworkIx ix, std::string_view why);
void framework_failovers(House& house);
void framework_refresh(House& house, FrameworkIx ix);  // after any change of its lines' figures
void settle_claims(House& house);                      // once every known agent has said hello

}  // namespace bourse::house
