#include "master/leadership.h"

#include <algorithm>
#include <utility>

#include "common/core/hooks.h"
#include "common/core/units.h"
#include "master/clocks.h"
#include "master/house.h"

namespace bourse::house {

Duration Leadership::Clock::best() const {
  return *std::max_element(offsets.begin(), offsets.begin() + static_cast<std::ptrdiff_t>(std::min(n, offsets.size())));
}

std::string Leadership::clock_text(const std::map<std::uint32_t, Clock>& of, std::uint32_t row) const {
  const auto found = of.find(row);
  if (found == of.end()) return {};
  return std::to_string(std::chrono::duration_cast<milliseconds>(found->second.best() - offset).count());
}

// --- leading ---------------------------------------------------------------------------------------------------------

void take_the_lead(House& h) {
  h.registry.lead(h.options.cluster_name, *h.out);
  h.lead_ticket = h.out->ticket;
}

void on_leader(House& h) {
  h.masters.elected = true;
  h.masters.leader.clear();
  h.masters.endpoint.clear();
  take_the_lead(h);
}

void lead_durable(House& h) {
  h.started = h.now.mono;
  for (const AgentId& agent : h.registry.agents()) expect_agent(h, agent);
  for (const auto& [id, identity] : h.registry.frameworks()) expect_framework(h, id);
  h.roles.settings_changed(h);
  h.leading = true;
  h.epoch = h.registry.epoch();
  h.reservations.settings_changed(h);
  h.allocator.take_learnt(h);
  if (h.masters.readers) h.views.watched(h, Watched{true, 0});
  h.log(LogLevel::kInfo, "leading",
        {{"cluster", h.registry.cluster()},
         {"epoch", std::to_string(h.epoch.value)},
         {"agents", std::to_string(h.agents.size())},
         {"frameworks", std::to_string(h.frameworks.by_name().size())}});
}

void on_not_leading(House& h, const Received& received) {
  Leadership& m = h.masters;
  if (!h.options.replicated || m.elected) return;  // silent until the lead record is durable
  if (std::holds_alternative<Goodbye>(received.message.body)) return;
  if (m.refused.size() >= Leadership::kRefusedMax) m.refused.clear();
  const auto [at, first] = m.refused.emplace(received.peer.value, h.now.mono);
  if (!first && h.now.mono - at->second < Leadership::kRefuseEvery) return;
  at->second = h.now.mono;
  ++h.counters.refused;
  std::string reason = "this master does not lead";
  if (m.leader.empty()) {
    reason += ", and it knows of none that does";
  } else {
    reason += "; " + m.leader + " does" + (m.endpoint.empty() ? "" : ", at " + m.endpoint);
  }
  h.send(received.peer, Refused{Code::kBusy, std::move(reason), true, m.endpoint});
}

Duration pulse(const House& h) {
  if (h.masters.rows.size() < 2 || hooks::mutant("master.missed_late")) return h.options.heartbeat;
  return std::min(h.options.heartbeat, h.options.leader_lease / 4);
}

Welcome welcome(const House& h, std::vector<SliceId> release) {
  Welcome w;
  w.cluster = h.registry.cluster();
  w.heartbeat = pulse(h);
  w.peer_timeout = h.options.peer_timeout;
  w.release = std::move(release);
  if (h.masters.rows.size() < 2) return w;
  if (!hooks::mutant("master.missed_late")) w.peer_timeout = std::min(w.peer_timeout, h.options.leader_lease * 3 / 4);
  w.fence = h.options.leader_lease;
  for (const MasterFacts& m : h.masters.rows)
    if (!m.endpoint.empty() && w.masters.size() < kMastersMax) w.masters.push_back(m.endpoint);
  return w;
}

// --- clocks ----------------------------------------------------------------------------------------------------------

namespace {

bool clock_known(const MasterFacts& m) {
  return !m.self && m.round >= Duration(0) && m.heard >= Duration(0) && m.heard <= Leadership::kHeardWithin;
}

// Never so that nobody can: only where another one that votes, answers, and agrees with the median is there to take over.
bool somebody_can(const Leadership& m) {
  return std::any_of(m.rows.begin(), m.rows.end(), [&](const MasterFacts& other) {
    return clock_known(other) && other.voter && std::chrono::abs(other.offset - m.offset) <= Leadership::kDriftMost;
  });
}

void look_at_clocks(House& h) {
  Leadership& m = h.masters;
  m.looked = h.now.mono;
  std::vector<Duration> offsets{Duration(0)};
  for (const MasterFacts& other : m.rows)
    if (clock_known(other)) offsets.push_back(other.offset);
  for (const auto& [row, clock] : m.agents) offsets.push_back(clock.best());
  m.clocks = offsets.size();
  m.offset = median(std::move(offsets));
  const bool off = std::chrono::abs(m.offset) > Leadership::kDriftMost && !hooks::mutant("master.any_clock");
  m.barred = off && m.clocks >= Leadership::kClocksLeast;
  if (!off) return;
  const bool can = m.barred && h.leading && h.options.replicated && somebody_can(m);
  if (m.warned < Duration(0) || h.now.mono - m.warned >= Leadership::kWarnEvery) {
    m.warned = h.now.mono;
    h.log(LogLevel::kWarn, "clock_off",
          {{"behind_median", format_duration(std::chrono::abs(m.offset)).insert(0, m.offset < Duration(0) ? "-" : "")},
           {"clocks", std::to_string(m.clocks)},
           {"hint", "see that this host's clock is set by NTP"},
           {"then", can         ? "handing leadership over"
                    : h.leading ? "leading on, for no other master can"
                                : "ignoring"}});
  }
  if (!can || (m.handed_over >= Duration(0) && h.now.mono - m.handed_over < Leadership::kHandOverEvery)) return;
  m.handed_over = h.now.mono;
  h.out->hand_over = true;
}

constexpr Duration kClockShown = milliseconds(20);  // a difference that is worth telling readers

// Readers see what it says now, where that differs; and whoever looks after it is told once in a while when it is far off.
void peer_clock(House& h, const Session& from, Leadership::Clock& clock, const std::string& who) {
  Leadership& m = h.masters;
  const Duration off = clock.best() - m.offset;
  if (std::chrono::abs(off - clock.shown) >= kClockShown) {
    clock.shown = off;
    if (from.who == kAgent)
      h.ledger.viewed.add(from.row);
    else
      h.views.framework(from.row);
  }
  const bool rare = clock.warned >= Duration(0) && h.now.mono - clock.warned < Leadership::kWarnEvery;
  if (std::chrono::abs(off) <= Leadership::kDriftMost || clock.n < clock.offsets.size() || rare ||
      hooks::mutant("master.no_clock_warning"))
    return;
  clock.warned = h.now.mono;
  h.log(LogLevel::kWarn, "peer_clock_off",
        {{"who", who},
         {"ahead", (off < Duration(0) ? "-" : "") + format_duration(std::chrono::abs(off))},
         {"clocks", std::to_string(m.clocks)},
         {"hint", "see that its host's clock is set by NTP"},
         {"then", "ignoring"}});
}

}  // namespace

void on_heartbeat(House& h, const Session& from, const Message& message) {
  const auto& beat = std::get<Heartbeat>(message.body);
  if (from.who == kAgent) on_figures(h, from.row, beat.figures);
  const Duration wall = beat.wall;
  if (wall <= Duration(0)) return;  // it does not say
  Leadership& m = h.masters;
  if (from.who == kAgent) m.agents[from.row].add(wall - h.now.wall);
  if (from.who == kFramework) m.frameworks[from.row].add(wall - h.now.wall);
  if (h.now.mono - m.looked >= Leadership::kDriftEvery) look_at_clocks(h);
  if (from.who == kAgent) peer_clock(h, from, m.agents[from.row], "agent " + h.agents.at(from.row).id.str());
  if (from.who == kFramework) peer_clock(h, from, m.frameworks[from.row], "framework " + h.frameworks.at(from.row).id.str());
}

void on_masters(House& h, const MastersChanged& event) {
  h.masters.rows = event.masters;
  look_at_clocks(h);
}

// --- members ---------------------------------------------------------------------------------------------------------

Result<> check_add_master(House& h, const OperatorAction& action) {
  if (!h.options.replicated) return Error(Code::kUnsupported, "this master's registry is not replicated");
  if (!valid_name(action.target)) return Error(Code::kInvalid, "'" + action.target + "' is no name for a master");
  if (action.parameters.size() != 1 || action.parameters.front().first != "raft" ||
      !action.parameters.front().second.starts_with("tcp://"))
    return Error(Code::kInvalid, "expected raft=tcp://HOST:PORT, where the other masters reach it");
  return {};
}

Result<> check_remove_master(House& h, const OperatorAction& action) {
  if (!h.options.replicated) return Error(Code::kUnsupported, "this master's registry is not replicated");
  if (!action.parameters.empty()) return Error(Code::kInvalid, "remove-master takes no '" + action.parameters.front().first + "'");
  return {};
}

void change_master(House& h, Operation op) {
  ChangeMember member;
  member.tag = ++h.masters.tags;
  member.add = op.action.action == "add-master";
  member.name = op.action.target;
  if (member.add) member.raft = op.action.parameters.front().second;
  h.out->members.push_back(std::move(member));
  h.masters.changes.emplace(h.masters.tags, std::move(op));
}

void on_member_changed(House& h, const MemberChanged& event) {
  const auto node = h.masters.changes.extract(event.tag);
  if (!node.empty()) conclude(h, node.mapped(), event.code, event.reason);
}

void leadership_lost(House& h) {
  const std::string reason = "this master lost its leadership meanwhile; it may or may not have come to pass";
  for (const auto& [tag, op] : h.masters.changes) conclude(h, op, Code::kGone, reason);
  for (const auto& [ticket, ops] : h.operations)
    for (const Operation& op : ops) conclude(h, op, Code::kGone, reason);
}

void masters_rows(const House& h, StatusReply& reply) {
  const auto ms = [](Duration d) { return std::to_string(d.count() / 1000); };
  std::vector<MasterFacts> rows = h.masters.rows;
  if (rows.empty()) {  // alone, and never told otherwise
    MasterFacts self;
    self.name = h.options.name;
    self.endpoint = h.options.endpoint;
    self.voter = self.leads = self.self = true;
    self.heard = self.round = Duration(0);
    rows.push_back(std::move(self));
  }
  for (const MasterFacts& m : rows) {
    const bool silent = m.heard < Duration(0) || m.heard > Leadership::kHeardWithin;
    reply.rows.push_back({m.name,
                          {{"state", m.leads   ? "leads"
                                     : silent  ? "silent"
                                     : m.voter ? "follows"
                                               : "joins"},
                           {"votes", m.voter ? "yes" : "no"},
                           {"endpoint", m.endpoint},
                           {"raft", m.raft},
                           {"clock_ms", m.round < Duration(0) ? "" : ms(m.offset)},
                           {"round_ms", m.round < Duration(0) ? "" : ms(m.round)}}});
  }
}

}  // namespace bourse::house
