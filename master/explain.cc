#include "master/explain.h"

#include <ctime>
#include <map>
#include <string>
#include <utility>

#include "master/house.h"

namespace bourse::house {

namespace {

std::string utc(Duration wall) {
  const std::time_t whole = static_cast<std::time_t>(std::chrono::duration_cast<seconds>(wall).count());
  std::tm parts{};
  char text[32];
  gmtime_r(&whole, &parts);
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

std::string ordinal(std::uint32_t n) {
  const std::uint32_t tens = n % 100, ones = n % 10;
  const char* ending = tens >= 11 && tens <= 13 ? "th" : ones == 1 ? "st" : ones == 2 ? "nd" : ones == 3 ? "rd" : "th";
  return std::to_string(n) + ending;
}

// In this order, so that each agent counts once: what the agent is, what it could never give, what is on it now.
std::string class_of(const House& h, const FrameworkRow& framework, FrameworkIx ix, const LineRow& line, AgentIx agent,
                     bool limited) {
  const AgentRow& row = h.agents.at(agent);
  const Shape& shape = line.want.shape;
  const Account& account = (shape.revocable ? h.lent : h.ledger).account(agent);
  if (!row.reachable) return "unreachable";
  if (row.draining) return "draining";
  if (row.cordoned) return "cordoned";
  const Resources& all = account.total;
  const auto fit = [&](const Resources& amount) {
    return line.wildcard ? (amount.empty() ? Misfit::kCpus : Misfit::kNone) : fits(shape, amount, all, row.labels);
  };
  if (const Misfit never = fit(all); never != Misfit::kNone) return std::string(misfit_text(never));
  for (const std::uint64_t id : row.offers) {
    const OfferRow& offer = h.offers.open.at(id);
    if (offer.framework == ix && offer.line == line.want.id) return "offered to you";
  }
  if (fit(account.free) == Misfit::kNone) {
    const auto held_off = framework.hold_off.find({line.want.id, agent});
    const bool declined = held_off != framework.hold_off.end() && held_off->second > h.now.mono;
    return declined ? "declined recently" : limited ? "role limit" : "free";
  }
  Resources sum = account.free;
  for (const std::uint64_t id : row.offers) {  // one by one: the offer that is in the way is named
    const OfferRow& offer = h.offers.open.at(id);
    if (offer.revocable != shape.revocable) continue;
    if (!sum.add(offer.resources)) return "in use";
    if (fit(sum) == Misfit::kNone)
      return offer.framework == ix ? "offered to you" : "offered to " + h.frameworks.at(offer.framework).id.str();
  }
  for (const SliceId& id : row.slices) {
    if (id.framework != framework.id) continue;
    const SliceRow* slice = const_cast<House&>(h).slices.find(id);
    if (slice != nullptr && slice->spec.revocable != shape.revocable) continue;
    if (slice == nullptr || !sum.add(slice->spec.resources)) return "in use";
  }
  return fit(sum) == Misfit::kNone ? "yours already" : "in use";
}

// How far an agent's free amount is from the shape, and in which words.
struct Lack {
  std::uint32_t kinds = 0;
  std::int64_t permille = 0;  // of the ask, the largest
  std::string text;
};

Lack lack_of(const Shape& shape, const AgentRow& agent, const Account& account) {
  Lack lack;
  const auto kind = [&](std::int64_t ask, std::int64_t have, const std::string& text) {
    if (ask <= have) return;
    ++lack.kinds;
    lack.permille = std::max(lack.permille, ask > 0 && have >= 0 ? 1000 - have / (ask / 1000 + 1) : 1000);
    lack.text += (lack.text.empty() ? "" : ", ") + text;
  };
  const Resources& free = account.free;
  if (!satisfies(agent.labels, shape.constraints)) kind(1, 0, "labels " + to_text(shape.constraints));
  kind(shape.cpus.value, free.cpus.value, "cpus=" + format_cpus(MilliCpus(shape.cpus.value - free.cpus.value)));
  kind(shape.mem.value, free.mem.value, "mem=" + format_size(Bytes(shape.mem.value - free.mem.value)));
  kind(shape.disk.value, free.disk.value, "disk=" + format_size(Bytes(shape.disk.value - free.disk.value)));
  kind(shape.ports, free.ports.size(), "ports");
  for (const auto& [name, ask] : shape.others.items())
    kind(ask, free.others.get(name), name + "=" + std::to_string(ask - free.others.get(name)));
  if (lack.kinds == 0) {
    const Misfit misfit = fits(shape, free, account.total, agent.labels);
    if (misfit != Misfit::kNone) kind(1, 0, std::string(misfit_text(misfit)));
  }
  return lack;
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
  std::map<std::string, std::uint32_t> counts;
  Lack nearest;
  for (const auto& [id, agent] : h.agents.by_name()) {
    const std::string reason = class_of(h, *framework, ix, *line, agent, !obstacle.empty());
    ++counts[reason];
    ++reply.agents;
    if (line->wildcard || reason == "unreachable" || reason == "cordoned" || reason == "draining") continue;
    Lack lack = lack_of(line->want.shape, h.agents.at(agent), h.book(line->want.shape.revocable).account(agent));
    if (lack.kinds == 0) continue;
    const bool nearer = nearest.kinds == 0 || std::pair(lack.kinds, lack.permille) < std::pair(nearest.kinds, nearest.permille);
    if (!nearer) continue;
    nearest = std::move(lack);
    reply.nearest = id.str() + " lacks " + nearest.text;
  }
  for (const auto& [reason, count] : counts) reply.counts.push_back({reason, count});
  if (line->last_offer_wall.count() >= 0)
    reply.last_offer = h.agents.at(line->last_offer_agent).id.str() + " at " + utc(line->last_offer_wall);
  reply.last_decline = line->last_decline;
  const std::uint32_t position = h.allocator.policy().position(h.now.mono, ix), of = h.allocator.policy().wanting();
  reply.rank =
      position == 0 ? "no unmet demand" : ordinal(position) + " of " + std::to_string(of) + " frameworks with unmet demand";
  if (line->want.shape.revocable) reply.rank = "waits for what is lent, outside the order of frameworks";
  if (!obstacle.empty()) reply.rank += "; " + obstacle;
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
