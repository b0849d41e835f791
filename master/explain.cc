#include "master/explain.h"

#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/core/units.h"
#include "master/house.h"

namespace bourse::house {

namespace {

std::string ordinal(std::uint32_t n) {
  const std::uint32_t tens = n % 100, ones = n % 10;
  const char* ending = tens >= 11 && tens <= 13 ? "th" : ones == 1 ? "st" : ones == 2 ? "nd" : ones == 3 ? "rd" : "th";
  return std::to_string(n) + ending;
}

struct Asked {  // what is explained, and what is the same for every agent
  const House& h;
  const FrameworkRow& framework;
  FrameworkIx ix = 0;
  const LineRow& line;
  bool limited = false;

  [[nodiscard]] const Account& account(AgentIx agent) const {
    return (line.want.shape.revocable ? h.lent : h.ledger).account(agent);
  }
  [[nodiscard]] Misfit fit(const Resources& amount, const Resources& total, const Labels& labels) const {
    if (line.wildcard) return amount.empty() ? Misfit::kCpus : Misfit::kNone;
    return fits(line.want.shape, amount, total, labels);
  }
};

// In this order, so that each agent counts once: what the agent is, what it could never give, what is on it now, and of those with
// room what keeps it from being offered. `rule`: the placement rule that does not let it have one more.
std::string class_of(const Asked& a, AgentIx agent, const Placement* rule) {
  const AgentRow& row = a.h.agents.at(agent);
  const Account& account = a.account(agent);
  if (!row.reachable) return "unreachable";
  if (row.draining) return "draining";
  if (row.cordoned) return "cordoned";
  const auto fit = [&](const Resources& amount) { return a.fit(amount, account.total, row.labels); };
  if (const Misfit never = fit(account.total); never != Misfit::kNone) return std::string(misfit_text(never));
  if (closes_before(a.h, a.line, agent)) return "closes before it would end";
  if (taken_before(a.h, a.framework, a.line, agent)) return "reserved before it would end";
  for (const std::uint64_t id : row.offers) {
    const OfferRow& offer = a.h.offers.open.at(id);
    if (offer.framework == a.ix && offer.line == a.line.want.id) return "offered to you";
  }
  if (const std::string& name = a.line.want.reservation; !name.empty()) {
    const auto found = a.h.registry.reservations().find(name);
    if (found == a.h.registry.reservations().end() || !found->second.agents.contains(row.id)) return "not of its reservation";
    if (!a.h.reservations.active(a.h, name)) return "its reservation has not begun";
    Resources kept = a.h.reservations.kept_of(a.h, name, agent);
    const bool fits_there = kept.add(account.free) && fit(kept) == Misfit::kNone;
    return !fits_there ? "in use" : a.limited ? "role limit" : "free";
  }
  if (fit(account.free) == Misfit::kNone) {
    const auto held_off = a.framework.hold_off.find({a.line.want.id, agent});
    if (held_off != a.framework.hold_off.end() && held_off->second > a.h.now.mono) return "declined recently";
    if (a.limited) return "role limit";
    if (const auto owner = a.h.allocator.reserved_for(agent); owner && *owner != a.ix)
      return "kept for " + a.h.frameworks.at(*owner).id.str();
    return rule != nullptr ? "placement" : "free";
  }
  Resources sum = account.free;
  for (const auto& [role, key] : a.h.reservations.kept_on(a.h, agent)) {
    if (!a.line.want.shape.revocable && sum.add(a.h.ledger.kept(agent, key)) && fit(sum) == Misfit::kNone)
      return "reserved for " + role.str();
  }
  for (const std::uint64_t id : row.offers) {  // one by one: the offer that is in the way is named
    const OfferRow& offer = a.h.offers.open.at(id);
    if (offer.revocable != a.line.want.shape.revocable) continue;
    if (!sum.add(offer.resources)) return "in use";
    if (fit(sum) == Misfit::kNone)
      return offer.framework == a.ix ? "offered to you" : "offered to " + a.h.frameworks.at(offer.framework).id.str();
  }
  for (const SliceId& id : row.slices) {
    if (id.framework != a.framework.id) continue;
    const SliceRow* slice = const_cast<House&>(a.h).slices.find(id);
    if (slice != nullptr && slice->spec.revocable != a.line.want.shape.revocable) continue;
    if (slice == nullptr || !sum.add(slice->spec.resources)) return "in use";
  }
  return fit(sum) == Misfit::kNone ? "yours already" : "in use";
}

const Constraint* first_failing(const Shape& shape, const Account& account, const AgentRow& row) {
  for (const Constraint& constraint : shape.constraints)
    if (!satisfies(account.total, row.labels, constraint)) return &constraint;
  return nullptr;
}

// How far an agent's free amount is from the shape, and in which words.
struct Lack {
  bool never = false;  // not even if the agent were empty
  std::uint32_t kinds = 0;
  std::int64_t permille = 0;  // of the ask, the largest
  std::vector<std::string> words = {};
  [[nodiscard]] auto order() const { return std::tuple(never, kinds, permille); }
};

std::string devices_text(const Shape& shape) {
  std::string out;
  for (const DeviceAsk& ask : shape.devices)
    out += (out.empty() ? "" : ", ") + std::to_string(ask.count) + " x " + ask.kind +
           (ask.profile.empty() ? "" : " with profile " + ask.profile) +
           (ask.attributes.empty() ? "" : " where " + to_text(ask.attributes));
  return out;
}

Lack lack_of(const Asked& a, const AgentRow& row, const Account& account, const Placement* rule) {
  const Shape& shape = a.line.want.shape;
  const Resources& free = account.free;
  Lack lack;
  lack.never = fits(shape, account.total, account.total, row.labels) != Misfit::kNone;
  const auto more = [&](std::int64_t ask, std::int64_t have, const std::string& amount, const std::string& what) {
    if (ask <= have) return;
    ++lack.kinds;
    lack.permille = std::max(lack.permille, ask > 0 && have >= 0 ? 1000 - have / (ask / 1000 + 1) : 1000);
    lack.words.push_back(amount + " more " + what);
  };
  const auto also = [&](std::string what) {
    ++lack.kinds;
    lack.permille = 1000;
    lack.words.push_back(std::move(what));
  };
  for (const Constraint& constraint : shape.constraints)
    if (!satisfies(account.total, row.labels, constraint)) also(to_text(constraint));
  const MilliCpus cpus(shape.cpus.value - free.cpus.value);
  more(shape.cpus.value, free.cpus.value, format_cpus(cpus), cpus.value == 1000 ? "core" : "cores");
  more(shape.mem.value, free.mem.value, format_size(Bytes(shape.mem.value - free.mem.value)), "memory");
  more(shape.disk.value, free.disk.value, format_size(Bytes(shape.disk.value - free.disk.value)), "disk");
  more(shape.ports, free.ports.size(), std::to_string(shape.ports - std::min(shape.ports, free.ports.size())), "ports");
  for (const auto& [name, ask] : shape.others.items())
    more(ask, free.others.get(name), std::to_string(ask - free.others.get(name)), name);
  if (lack.kinds > 0) return lack;
  switch (fits(shape, free, account.total, row.labels)) {
    case Misfit::kNone:
      break;
    case Misfit::kDevices:
      also((lack.never ? "" : "free ") + devices_text(shape));
      break;
    case Misfit::kNuma:
      also("all of it on one NUMA node");
      break;
    case Misfit::kBusyHost:
      also("the whole host idle");
      break;
    default:
      also(std::string(misfit_text(fits(shape, free, account.total, row.labels))));
  }
  if (lack.kinds == 0 && rule != nullptr) also("room by the rule \"" + to_text(*rule) + "\"");
  return lack;
}

// "needs 2 more cores and 4GiB more memory on h7"
std::string nearest_text(const Lack& lack, const AgentId& agent) {
  std::string out = "needs ";
  for (std::size_t i = 0; i < lack.words.size(); ++i)
    out += (i == 0 ? "" : i + 1 == lack.words.size() ? " and " : ", ") + lack.words[i];
  return out + " on " + agent.str() + (lack.never ? ", which it never has" : "");
}

std::string wall_text(const House& h, Duration mono) { return format_utc(h.now.wall + (mono - h.now.mono)); }

// What is known of when: never more than the master knows, which is nothing of how long what runs will run.
std::string estimate_of(const Asked& a) {
  if (a.line.missing() == 0) return "";
  const auto gathering = a.h.allocator.accumulations().find(a.framework.role);
  if (gathering != a.h.allocator.accumulations().end() && gathering->second.framework == a.ix &&
      gathering->second.line == a.line.want.id)
    return "when enough is free together; what is gathered goes back at " + wall_text(a.h, gathering->second.deadline);
  if (const auto agent = a.h.allocator.reserved(a.ix))
    return "when enough ends on " + a.h.agents.at(*agent).id.str() + ", which is kept for it until " +
           wall_text(a.h, a.h.allocator.reserved_until(*agent));
  Duration soonest = Duration::max();
  const auto from = a.framework.hold_off.lower_bound({a.line.want.id, 0});
  for (auto it = from; it != a.framework.hold_off.end() && it->first.first == a.line.want.id; ++it)
    if (it->second > a.h.now.mono) soonest = std::min(soonest, it->second);
  if (soonest != Duration::max()) return "agents that it declined are offered again from " + wall_text(a.h, soonest) + " on";
  return "";
}

}  // namespace

ExplainReply explain(House& h, const ExplainQuery& query) {
  ExplainReply reply;
  reply.tag = query.tag;
  FrameworkIx ix = 0;
  FrameworkRow* framework = h.frameworks.find(query.framework, &ix);
  LineRow* line = framework != nullptr ? framework->line(query.line) : nullptr;
  if (line == nullptr) {
    reply.code = Code::kNotFound;
    return reply;
  }
  const std::string obstacle = h.roles.obstacle(h, *framework, *line);
  const Asked asked{h, *framework, ix, *line, !obstacle.empty()};
  const Shape& shape = line->want.shape;
  h.placements.refresh(h);
  const std::vector<const Placement*> rules = line->placed() && !shape.revocable
                                                  ? h.placements.obstacles(h, *framework, *line)
                                                  : std::vector<const Placement*>(h.agents.size(), nullptr);
  std::map<std::string, std::uint32_t> counts, failing;
  Lack nearest;
  std::size_t at = 0;
  for (const auto& [id, agent] : h.agents.by_name()) {
    const Placement* rule = rules[at++];
    const AgentRow& row = h.agents.at(agent);
    const Account& account = asked.account(agent);
    const std::string reason = class_of(asked, agent, rule);
    ++counts[reason];
    ++reply.agents;
    if (reason == misfit_text(Misfit::kLabels)) {
      ++failing[to_text(*first_failing(shape, account, row))];
    } else if (reason == "placement") {
      ++failing[to_text(*rule)];
    }
    if (line->wildcard || reason == "unreachable" || reason == "cordoned" || reason == "draining") continue;
    Lack lack = lack_of(asked, row, account, rule);
    if (lack.kinds == 0 || (nearest.kinds > 0 && lack.order() >= nearest.order())) continue;
    nearest = std::move(lack);
    reply.nearest = nearest_text(nearest, id);
  }
  for (const auto& [reason, count] : counts) reply.counts.push_back({reason, count});
  for (const auto& [part, count] : failing) reply.failing.push_back({part, count});
  reply.asks = line->wildcard ? "everything" : to_text(shape);
  reply.quota = h.roles.standing(framework->role);
  reply.estimate = estimate_of(asked);
  reply.wanted = line->wildcard ? 0 : line->want.count;
  reply.offered = static_cast<std::uint32_t>(line->offered);
  reply.unmet = line->wildcard ? 0 : line->missing();
  if (line->last_offer_wall.count() >= 0)
    reply.last_offer = h.agents.at(line->last_offer_agent).id.str() + " at " + format_utc(line->last_offer_wall);
  reply.last_decline = line->last_decline;
  const std::uint32_t position = h.allocator.policy().position(h.now.mono, ix), of = h.allocator.policy().wanting();
  reply.rank =
      position == 0 ? "no unmet demand" : ordinal(position) + " of " + std::to_string(of) + " frameworks with unmet demand";
  if (line->want.shape.revocable) reply.rank = "waits for what is lent, outside the order of frameworks";
  if (!obstacle.empty()) reply.rank += "; " + obstacle;
  if (const std::string making = h.claims.progress(h, ix, query.line); !making.empty()) reply.rank += "; " + making;
  const auto gathering = h.allocator.accumulations().find(framework->role);
  if (gathering != h.allocator.accumulations().end()) {
    const Accumulation& a = gathering->second;
    reply.rank += a.framework == ix && a.line == query.line ? "; accumulating, " + std::to_string(line->offered) + " of " +
                                                                  std::to_string(line->want.gang_min) + " gathered"
                  : line->want.gang_min > 1 ? "; behind the accumulation of " + h.frameworks.at(a.framework).id.str()
                                            : "";
  }
  return reply;
}

void on_explain(House& h, const Session& from, const Message& message) {
  h.send(from.peer, explain(h, std::get<ExplainQuery>(message.body)));
}

}  // namespace bourse::house
