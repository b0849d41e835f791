#include "master/offers.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/core/hooks.h"
#include "master/house.h"

namespace bourse::house {

namespace {

constexpr unsigned kEpochShift = 40;  // OfferId: epoch in the high 24 bits, counter below

LineRow* line_of(House& h, const OfferRow& offer) { return h.frameworks.at(offer.framework).line(offer.line); }

}  // namespace

void count_use(House& h, FrameworkIx framework, bool revocable, const Resources& amount, int sign) {
  h.views.framework(framework);
  if (revocable) return h.lending.used(framework, sign * amount.cpus.value);
  Usage& used = h.frameworks.at(framework).used;
  sign > 0 ? used.add(usage_of(amount)) : used.subtract(usage_of(amount));
  h.allocator.framework_used(h, framework);
}

std::uint64_t make_offer(House& h, OfferRow offer) {
  const std::uint64_t id = (h.epoch.value << kEpochShift) | ++h.offers.last;
  offer.id = OfferId(id);
  offer.generation = Generation(1);
  offer.made = h.now.wall;
  FrameworkRow& framework = h.frameworks.at(offer.framework);
  if (offer.kept_under != 0) {
    h.ledger.offer_kept(offer.agent, offer.kept_under, offer.resources);
  } else {
    h.book(offer.revocable).move(offer.agent, offer.resources, Pool::kFree, Pool::kOffered);
  }
  count_use(h, offer.framework, offer.revocable, offer.resources, +1);
  framework.offers.insert(framework.offers.end(), id);
  h.agents.at(offer.agent).offers.insert(id);
  LineRow& line = *line_of(h, offer);
  line.offered += offer.units;
  offer.group = line.want.shape.group;
  h.placements.add(h, offer.agent, framework.id, offer.group, offer.units);
  line.last_offer_agent = offer.agent;
  line.last_offer_wall = h.now.wall;
  h.offers.deadlines.push(offer.expires, id);
  h.made[offer.framework].push_back(id);
  h.offers.open.emplace_hint(h.offers.open.end(), id, std::move(offer));
  h.views.offer(id);
  ++h.counters.offers_made;
  return id;
}

void grow_offer(House& h, std::uint64_t id, const Resources& more, std::uint64_t units) {
  OfferRow& offer = h.offers.open.at(id);
  h.views.offer(id);
  h.book(offer.revocable).move(offer.agent, more, Pool::kFree, Pool::kOffered);
  // Not the sum: two parts of one device may count as one.
  const bool devices = !offer.resources.devices.empty();
  if (devices) count_use(h, offer.framework, offer.revocable, offer.resources, -1);
  BOURSE_ASSERT(offer.resources.add(more), "an offer cannot grow by what its agent has free");
  offer.units += units;
  line_of(h, offer)->offered += units;
  h.placements.add(h, offer.agent, h.frameworks.at(offer.framework).id, offer.group, units);
  count_use(h, offer.framework, offer.revocable, devices ? offer.resources : more, +1);
}

void end_offer(House& h, std::uint64_t id, std::optional<OfferEnd> tell) {
  const auto found = h.offers.open.find(id);
  BOURSE_ASSERT(found != h.offers.open.end(), "offer " + std::to_string(id) + " ends twice");
  const OfferRow offer = std::move(found->second);
  h.offers.open.erase(found);
  h.views.offer(id, true);
  FrameworkRow& framework = h.frameworks.at(offer.framework);
  framework.offers.erase(id);
  h.agents.at(offer.agent).offers.erase(id);
  if (!offer.resources.empty() && !hooks::mutant("master.ledger_forgets_rest")) {
    h.book(offer.revocable).move(offer.agent, offer.resources, Pool::kOffered, Pool::kFree);
  }
  h.placements.remove(offer.agent, framework.id, offer.group, offer.units);
  if (LineRow* line = line_of(h, offer); line != nullptr) line->offered -= std::min(line->offered, offer.units);
  if (tell) h.ended[offer.framework].items.push_back({offer.id, *tell});
  count_use(h, offer.framework, offer.revocable, offer.resources, -1);
  framework_refresh(h, offer.framework);
  h.allocator.framework_dirty(offer.framework);
  ++h.counters.offers_ended;
}

void end_offers_of_agent(House& h, AgentIx agent, OfferEnd end) {
  const std::set<std::uint64_t> offers = h.agents.at(agent).offers;
  for (const std::uint64_t id : offers) end_offer(h, id, end);
}

void hold_off(House& h, FrameworkIx framework, std::uint64_t line, AgentIx agent, Duration for_how_long) {
  FrameworkRow& row = h.frameworks.at(framework);
  if (row.line(line) == nullptr || row.hold_off.size() >= FrameworkTable::kHoldOffsMax) return;
  const Duration until = h.now.mono + std::clamp(for_how_long, OfferTable::kHoldOffLeast, OfferTable::kHoldOffMost);
  row.hold_off[{line, agent}] = until;
  h.allocator.hold_offs.push(until, {framework, {line, agent}});
}

// An offer that nobody answered counts as a decline for one more life, so that whoever sits on offers cannot keep others from
// them: ranked first again for using nothing, it would get the same ones back for ever.
void offers_due(House& h) {
  std::uint64_t id = 0;
  while (h.offers.deadlines.pop_due(h.now.mono, id)) {
    const auto found = h.offers.open.find(id);
    if (found == h.offers.open.end() || hooks::mutant("master.offer_never_expires")) continue;
    const OfferRow& offer = found->second;
    if (offer.expires > h.now.mono) continue;  // put off
    const FrameworkIx framework = offer.framework;
    const AgentIx agent = offer.agent;
    const std::uint64_t line = offer.line;
    end_offer(h, id, OfferEnd::kExpired);
    hold_off(h, framework, line, agent, h.options.offer_ttl);
  }
}

namespace {

// What an accept would do with one of its items, decided before anything is done.
struct Plan {
  Code code = Code::kOk;
  std::string reason;
  std::uint64_t offer = 0;  // 0: there is none to use up
  std::vector<SliceSpec> slices;
  Resources rest;
  void fail(Code c, std::string why) {
    code = c;
    reason = std::move(why);
  }
};

struct Judge {
  House& h;
  FrameworkIx framework;
  const Accept& accept;
  std::set<std::uint64_t> offers, numbers;  // named so far in this accept

  Plan judge(const Accept::Item& item) {
    Plan plan;
    const std::string name = "offer " + std::to_string(item.offer.value);
    const auto found = h.offers.open.find(item.offer.value);
    if (found == h.offers.open.end() || found->second.framework != framework || found->second.generation != item.generation) {
      return plan.fail(Code::kGone, name + " has ended, or is not yours"), plan;
    }
    if (!offers.insert(item.offer.value).second) return plan.fail(Code::kInvalid, name + " is named twice"), plan;
    const OfferRow& offer = found->second;
    plan.offer = item.offer.value;
    plan.rest = offer.resources;
    const FrameworkRow& row = h.frameworks.at(framework);
    const AgentRow& agent = h.agents.at(offer.agent);
    for (const Accept::Slice& slice : item.slices) {
      const SliceId id{row.id, slice.number};
      if (slice.number == 0 || !numbers.insert(slice.number).second) {
        return plan.fail(Code::kInvalid, "slice " + to_text(id) + " is 0 or named twice"), plan;
      }
      if (h.slices.find(id) != nullptr) return plan.fail(Code::kExists, "slice " + to_text(id) + " exists"), plan;
      if (row.slices.size() + numbers.size() > FrameworkTable::kSlicesMax) {
        return plan.fail(Code::kLimit, "the framework has as many slices as one may have"), plan;
      }
      auto carved = carve(slice.shape, plan.rest, h.book(offer.revocable).account(offer.agent).total, agent.labels);
      if (!carved) {
        return plan.fail(Code::kInvalid,
                         "slice " + to_text(id) + " does not fit into what is left of " + name + ": " + carved.error().text()),
               plan;
      }
      BOURSE_ASSERT(plan.rest.subtract(*carved), "carved " + to_text(*carved) + " out of " + to_text(plan.rest));
      if (const std::string rounded = rounding_text(slice.shape, *carved); !rounded.empty())
        plan.reason += (plan.reason.empty() ? "" : "; ") + rounded;
      SliceSpec spec{
          .id = id, .resources = *std::move(carved), .cpuset = {}, .gang = accept.gang, .expiry = {}, .role = row.role.str()};
      spec.group = slice.shape.group;
      spec.reserved = offer.reserved;
      spec.since = h.now.wall;
      spec.expiry = std::clamp(slice.expiry, Duration{0}, h.options.slice_expiry_max);
      spec.revocable = offer.revocable;
      plan.slices.push_back(std::move(spec));
    }
    return plan;
  }
};

void answer(House& h, FrameworkIx ix, PeerId peer, AcceptReply reply) {
  FrameworkRow& row = h.frameworks.at(ix);
  row.answers[reply.sequence.value] = reply;
  while (row.answers.size() > FrameworkTable::kAnswersMax) {
    row.answers_dropped = std::max(row.answers_dropped, row.answers.begin()->first);
    row.answers.erase(row.answers.begin());
  }
  h.send(peer, std::move(reply));
}

// The answer is as old as the accept. A framework that did not hear it may not have heard either what has become of the slices since.
void tell_of_slices(House& h, const Session& from, const Accept& accept, const AcceptReply& reply) {
  if (hooks::mutant("master.repeat_tells_no_slices")) return;
  const FrameworkId& framework = h.frameworks.at(from.row).id;
  for (std::size_t i = 0; i < accept.items.size() && i < reply.items.size(); ++i) {
    if (reply.items[i].code != Code::kOk) continue;
    for (const Accept::Slice& slice : accept.items[i].slices) {
      const SliceId id{framework, slice.number};
      const SliceRow* row = h.slices.find(id);
      if (row == nullptr || row->told) {
        h.send(from.peer, SliceGone{AgentId("-"), id, SliceEnd::kUnknown, "it ended before its accept was said again"});
      } else if (row->state == SliceRow::State::kUp) {
        h.send(from.peer, SliceUp{h.agents.at(row->agent).id, row->spec});
      }
    }
  }
}

// True when it is a repeat and has been dealt with.
bool answered_before(House& h, const Session& from, const Accept& accept) {
  const FrameworkRow& row = h.frameworks.at(from.row);
  const auto found = row.answers.find(accept.sequence.value);
  if (hooks::mutant("master.accept_twice")) return false;
  if (found != row.answers.end()) {
    h.send(from.peer, found->second);
    tell_of_slices(h, from, accept, found->second);
    return true;
  }
  if (accept.sequence.value > row.answers_dropped) return false;
  AcceptReply reply{.sequence = accept.sequence, .items = {}};
  for (const Accept::Item& item : accept.items) {
    reply.items.push_back({item.offer, Code::kGone, "this accept was answered long ago; the answer is no longer kept"});
  }
  h.send(from.peer, std::move(reply));
  return true;
}

void account_for(House& h, FrameworkIx ix, const Accept& accept, const Accept::Item& item) {
  FrameworkRow& row = h.frameworks.at(ix);
  for (const Accept::Slice& slice : item.slices) {
    if (slice.line == 0 || accept.sequence <= row.last_accept) continue;
    if (!row.taken.empty() && row.taken.back().sequence == accept.sequence && row.taken.back().line == slice.line) {
      ++row.taken.back().units;
    } else {
      if (row.taken.size() >= FrameworkTable::kTakenMax) row.taken.pop_front();
      row.taken.push_back({accept.sequence, slice.line, 1});
    }
    if (LineRow* line = row.line(slice.line); line != nullptr) ++line->accepted;
  }
}

// The offer's amounts become slices; what is not taken goes back, or stays offered. Asks the agents for nothing yet.
void carry_out(House& h, FrameworkIx ix, const Accept::Item& item, Plan& plan, std::uint32_t gang_row,
               std::map<AgentIx, CarveSlices>& carves) {
  OfferRow& offer = h.offers.open.at(plan.offer);
  const AgentIx agent = offer.agent;
  const std::uint64_t taken = std::min<std::uint64_t>(offer.units, plan.slices.size());
  // A part of a device of which nothing says how large it is counts as the device: so the use of all parts may be more than it was.
  if (!offer.resources.devices.empty() && !offer.revocable) {
    Usage& used = h.frameworks.at(ix).used;
    used.subtract(usage_of(offer.resources));
    used.add(usage_of(plan.rest));
    for (const SliceSpec& spec : plan.slices) used.add(usage_of(spec.resources));
    h.allocator.framework_used(h, ix);
  }
  for (SliceSpec& spec : plan.slices) {
    carves[agent].slices.push_back(spec);
    SliceRow row{.spec = std::move(spec), .agent = agent, .framework = ix, .gang_row = gang_row};
    row.state = gang_row != 0 ? SliceRow::State::kHeld : SliceRow::State::kCarving;
    row.pool = gang_row != 0 ? Pool::kHeld : Pool::kLeased;
    row.asked = h.agents.at(agent).way();
    if (gang_row != 0) h.gangs.rows.at(gang_row).slices.push_back(row.spec.id);
    add_slice(h, std::move(row), Pool::kOffered);
  }
  offer.resources = std::move(plan.rest);
  if (item.keep_rest && !offer.resources.empty()) {
    offer.units -= taken;
    h.views.offer(plan.offer);
    h.placements.remove(agent, h.frameworks.at(ix).id, offer.group, taken);
    if (LineRow* line = line_of(h, offer); line != nullptr) line->offered -= std::min(line->offered, taken);
  } else {
    const std::uint64_t line = offer.line;
    end_offer(h, plan.offer, std::nullopt);
    if (plan.slices.empty()) hold_off(h, ix, line, agent, Duration{0});
  }
}

}  // namespace

void on_accept(House& h, const Session& from, const Message& message) {
  const auto& accept = std::get<Accept>(message.body);
  const FrameworkIx ix = from.row;
  ++h.counters.accepts;
  if (answered_before(h, from, accept)) return;

  std::size_t count = 0;
  for (const Accept::Item& item : accept.items) count += item.slices.size();
  const bool gang = accept.gang.value != 0;
  Judge judge{h, ix, accept, {}, {}};
  std::vector<Plan> plans;
  bool all_good = true;
  for (const Accept::Item& item : accept.items) {
    Plan plan = judge.judge(item);
    if (count > OfferTable::kSlicesPerAccept) {
      plan.fail(Code::kLimit, "an accept has at most " + std::to_string(OfferTable::kSlicesPerAccept) + " slices");
    } else if (gang && plan.code == Code::kOk && h.gangs.find(ix, accept.gang, nullptr) != nullptr) {
      plan.fail(Code::kExists, "gang " + std::to_string(accept.gang.value) + " is under way");
    } else if (gang && plan.code == Code::kOk && h.gangs.rows.size() >= GangTable::kGangsMax) {
      plan.fail(Code::kLimit, "there are as many gangs under way as this master keeps");
    }
    all_good = all_good && plan.code == Code::kOk;
    plans.push_back(std::move(plan));
  }
  if (!all_good && (accept.all_or_nothing || gang)) {
    for (Plan& plan : plans) {
      if (plan.code == Code::kOk) plan.fail(Code::kBusy, "another part of this accept failed");
    }
  }

  const bool start = gang && all_good && count > 0;
  const std::uint32_t gang_row = start ? start_gang(h, GangRow{.framework = ix, .gang = accept.gang}) : 0;
  std::map<AgentIx, CarveSlices> carves;
  AcceptReply reply{.sequence = accept.sequence, .items = {}};
  for (std::size_t i = 0; i < plans.size(); ++i) {
    Plan& plan = plans[i];
    const Accept::Item& item = accept.items[i];
    reply.items.push_back({item.offer, plan.code, plan.reason});
    if (plan.code == Code::kOk) {
      account_for(h, ix, accept, item);
      h.traces.taken(h, message.trace, h.offers.open.at(plan.offer), plan.slices);
      carry_out(h, ix, item, plan, gang_row, carves);
    } else if (plan.offer != 0 && !item.keep_rest) {
      end_offer(h, plan.offer, std::nullopt);
    }
  }
  framework_refresh(h, ix);
  answer(h, ix, from.peer, std::move(reply));
  hooks::crash_point("master.after_accept_reply");

  for (auto& [agent, carve] : carves) {
    if (start) {
      carve.hold = true;
      carve.hold_ttl = h.options.gang_hold * 2;  // the master gives up first
      h.gangs.rows.at(gang_row).held[agent] = false;
    }
    hooks::crash_point("master.before_carve");
    // What the accept is for goes with it: the agent's spans belong there.
    Message ask{h.epoch, h.incarnation, message.trace, std::move(carve)};
    if (const PeerId way = h.agents.at(agent).way(); way.value != 0) h.out->send(way, std::move(ask));
  }
}

void on_decline(House& h, const Session& from, const Message& message) {
  const auto& decline = std::get<Decline>(message.body);
  for (const Decline::Item& item : decline.items) {
    const auto found = h.offers.open.find(item.offer.value);
    if (found == h.offers.open.end() || found->second.framework != from.row) continue;  // ended meanwhile: nothing to give back
    const std::uint64_t line_id = found->second.line;
    const AgentIx agent = found->second.agent;
    h.allocator.declined(h, found->second);
    end_offer(h, item.offer.value, std::nullopt);
    hold_off(h, from.row, line_id, agent, item.hold_off);
    if (LineRow* line = h.frameworks.at(from.row).line(line_id); line != nullptr) {
      line->last_decline = h.agents.at(agent).id.str() + ": " + std::string(decline_text(item.reason)) +
                           (item.text.empty() ? "" : " (" + item.text + ")");
    }
  }
}

}  // namespace bourse::house
