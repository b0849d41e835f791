#include "master/status.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "common/core/hostlist.h"
#include "master/house.h"

namespace bourse::house {

namespace {

using Row = StatusReply::Row;

constexpr std::size_t kDevicesShown = 64;  // of one agent

std::string labels_text(const Labels& labels) {
  std::string text;
  for (const auto& [key, value] : labels) text += (text.empty() ? "" : ",") + key + (value.empty() ? "" : "=" + value);
  return text;
}

std::string_view state_text(AgentFacts::State state) {
  switch (state) {
    case AgentFacts::State::kUp:
      return "up";
    case AgentFacts::State::kUnreachable:
      return "unreachable";
    case AgentFacts::State::kDraining:
      return "draining";
    case AgentFacts::State::kCordoned:
      return "cordoned";
    case AgentFacts::State::kRemoved:
      break;
  }
  return "removed";
}

void cluster_row(const House& h, StatusReply& reply) {
  const Master::Counters& c = h.counters;
  reply.rows.push_back({"leader",
                        {{"cluster", h.registry.cluster()},
                         {"pid", std::to_string(h.options.pid)},
                         {"endpoint", h.options.endpoint},
                         {"epoch", std::to_string(h.epoch.value)},
                         {"agents", std::to_string(h.agents.size())},
                         {"agents_missing", std::to_string(h.agents.missing)},
                         {"frameworks", std::to_string(h.frameworks.by_name().size())},
                         {"offers", std::to_string(h.offers.open.size())},
                         {"slices", std::to_string(h.slices.size())},
                         {"gangs", std::to_string(h.gangs.rows.size())},
                         {"connections", std::to_string(h.sessions.size())},
                         {"passes", std::to_string(c.passes)},
                         {"offers_made", std::to_string(c.offers_made)},
                         {"accepts", std::to_string(c.accepts)},
                         {"launches", std::to_string(c.launches)},
                         {"statuses", std::to_string(c.statuses)},
                         {"refused", std::to_string(c.refused)},
                         {"unknown_records", std::to_string(h.registry.unknown_records())},
                         {"masters", std::to_string(std::max<std::size_t>(h.masters.rows.size(), 1))},
                         {"clocks", std::to_string(h.masters.clocks)},
                         {"clock_ms", std::to_string(-h.masters.offset.count() / 1000)},
                         {"clock_off", h.masters.barred ? "yes" : "no"}}});
}

std::string agent_state(const House& h, AgentIx ix) {
  const AgentRow& row = h.agents.at(ix);
  if (!row.present) return "expected";
  const AgentFacts::State state = facts_of(h, ix).state;
  return state == AgentFacts::State::kDraining && row.slices.empty() ? "drained" : std::string(state_text(state));
}

// What is free of what each NUMA node has: "0 3.5/8 12GiB/32GiB;1 8/8 32GiB/32GiB".
std::string nodes_text(const Account& a) {
  std::string text;
  for (const NumaAmount& all : a.total.numa) {
    const auto free = std::find_if(a.free.numa.begin(), a.free.numa.end(), [&](const NumaAmount& n) { return n.node == all.node; });
    const NumaAmount left = free == a.free.numa.end() ? NumaAmount{} : *free;
    text += (text.empty() ? "" : ";") + std::to_string(all.node) + " " + format_cpus(left.cpus) + "/" + format_cpus(all.cpus) +
            " " + format_size(left.mem) + "/" + format_size(all.mem);
  }
  return text;
}

// Kind, id, NUMA node, health and use of each device, the first kDevicesShown: "KIND ID NODE good part;...".
std::string devices_text(const AgentRow& row, const Account& a) {
  std::string text;
  std::size_t shown = 0;
  for (const Device& device : row.devices) {
    if (shown++ == kDevicesShown) break;
    const auto of = [&](const Resources& amount) {
      const auto share =
          std::find_if(amount.devices.begin(), amount.devices.end(), [&](const DeviceShare& s) { return s.device == device.id; });
      return share == amount.devices.end() ? nullptr : &*share;
    };
    const DeviceShare *all = of(a.total), *free = of(a.free);
    const bool whole = all != nullptr && free != nullptr && free->whole == all->whole && free->counters == all->counters;
    text += (text.empty() ? "" : ";") + device.kind + " " + device.id.str() + " " +
            (device.numa < 0 ? "-" : std::to_string(device.numa)) + (device.healthy ? " good " : " ill ") +
            (all == nullptr    ? "unavailable"
             : whole           ? "free"
             : free == nullptr ? "taken"
                               : "part");
  }
  return text;
}

Row agent_row(const House& h, AgentIx ix) {
  const AgentRow& row = h.agents.at(ix);
  const Account &a = h.ledger.account(ix), &lent = h.lent.account(ix);
  std::string notes;
  for (const std::string& note : row.notes) notes += (notes.empty() ? "" : "; ") + note;
  std::string unhealthy, figures;
  for (const auto& [name, amount] : row.figures.items())
    figures += (figures.empty() ? "" : ",") + name + "=" + std::to_string(amount);
  std::size_t healthy = 0;
  for (const Device& device : row.devices)
    if (!device.healthy)
      unhealthy += (unhealthy.empty() ? "" : ",") + device.id.str();
    else
      ++healthy;
  return {row.id.str(),
          {{"state", agent_state(h, ix)},
           {"clock_ms", h.masters.clock_text(h.masters.agents, ix)},
           {"cpus_total", format_cpus(a.total.cpus)},
           {"cpus_free", format_cpus(a.free.cpus)},
           {"mem_total", format_size(a.total.mem)},
           {"mem_free", format_size(a.free.mem)},
           {"offered", to_text(a.offered)},
           {"held", to_text(a.held)},
           {"leased", to_text(a.leased)},
           {"reserved", to_text(a.reserved)},
           {"unavailable", to_text(a.unavailable)},
           {"devices", std::to_string(healthy)},
           {"unhealthy", unhealthy},
           {"slices", std::to_string(row.slices.size())},
           {"labels", labels_text(row.labels)},
           {"isolation", row.degraded ? "degraded" : "full"},
           {"cordon", row.draining ? row.drain_reason : row.cordon_reason},
           {"drain_in", row.draining && row.drain_deadline.count() > 0
                            ? format_duration(std::chrono::ceil<seconds>(std::max(Duration{0}, row.drain_deadline - h.now.mono)))
                            : ""},
           {"closes", row.closes.count() > 0 ? std::to_string(row.closes.count()) : ""},
           {"shortfall", a.shortfall ? "yes" : "no"},
           {"notes", notes},
           {"lends", lent.total.empty() ? "" : to_text(without_traits(lent.total))},
           {"lent", lent.leased.empty() ? "" : to_text(lent.leased)},
           {"figures", figures},
           {"nodes", nodes_text(a)},
           {"device_list", devices_text(row, a)}}};
}

Row framework_row(const House& h, FrameworkIx ix) {
  const FrameworkRow& row = h.frameworks.at(ix);
  std::uint64_t unmet = 0;
  std::string lines;
  for (const LineRow& line : row.lines) {
    unmet += line.wildcard ? 0 : line.missing();
    if (lines.size() > 2000) continue;  // a person reads this
    lines += (lines.empty() ? "" : "; ") +
             (line.wildcard ? std::string("everything") : std::to_string(line.want.count) + "x " + to_text(line.want.shape));
  }
  const auto gathering = h.allocator.accumulations().find(row.role);
  const bool gathers = gathering != h.allocator.accumulations().end() && gathering->second.framework == ix;
  return {row.id.str(),
          {{"role", row.role.str()},
           {"state", row.peer.value != 0 ? "connected" : "disconnected"},
           {"incarnation", std::to_string(row.incarnation.value)},
           {"slices", std::to_string(row.slices.size())},
           {"offers", std::to_string(row.offers.size())},
           {"unmet", std::to_string(unmet)},
           {"clock_ms", h.masters.clock_text(h.masters.frameworks, ix)},
           {"cpus_used", format_cpus(MilliCpus(row.used.cpus))},
           {"mem_used", format_size(Bytes(row.used.mem))},
           {"accumulating", gathers ? "line " + std::to_string(gathering->second.line) : ""},
           {"demand", lines}}};
}

Row offer_row(const House& h, const OfferRow& offer, bool view = false) {
  const Duration left = std::max(Duration{0}, offer.expires - h.now.mono);
  return {
      std::to_string(offer.id.value),
      {{"framework", h.frameworks.at(offer.framework).id.str()},
       {"agent", h.agents.at(offer.agent).id.str()},
       {"line", std::to_string(offer.line)},
       {"units", std::to_string(offer.units)},
       view ? std::pair{"expires_us", std::to_string((h.now.wall + left).count())} : std::pair{"expires_in", format_duration(left)},
       {"reservation", offer.reservation.value != 0 ? std::to_string(offer.reservation.value) : offer.reserved},
       {"resources", to_text(offer.resources)}}};
}

Row slice_row(House& h, const SliceId& id) {
  const SliceRow& row = *h.slices.find(id);
  return {to_text(id),
          {{"framework", id.framework.str()},
           {"agent", h.agents.at(row.agent).id.str()},
           {"state", std::string(slice_state_text(row.state))},
           {"gang", row.spec.gang.value != 0 ? std::to_string(row.spec.gang.value) : ""},
           {"role", row.spec.role},
           {"reservation", row.spec.reserved},
           {"resources", to_text(row.spec.resources)},
           {"revocable", row.spec.revocable ? "yes" : ""}}};
}

void slices_page(House& h, const std::string& after, std::uint32_t limit, StatusReply& reply) {
  std::vector<SliceId> some = slices_after(h, after, std::size_t{limit} + 1);
  reply.more = some.size() > limit;
  if (reply.more) some.pop_back();
  for (const SliceId& id : some) reply.rows.push_back(slice_row(h, id));
}

Row line_row(const FrameworkRow& row, const LineRow& line) {
  return {row.id.str() + "#" + std::to_string(line.want.id),
          {{"framework", row.id.str()},
           {"line", std::to_string(line.want.id)},
           {"role", row.role.str()},
           {"unmet", std::to_string(line.missing())},
           {"count", std::to_string(line.want.count)},
           {"together", std::to_string(line.want.gang_min)},
           {"shape", to_text(line.want.shape)}}};
}

// Lines of demands that are not met, in the order (framework, the framework's own order). A page goes on behind its last line; where
// that one is gone meanwhile, with the next framework.
void demand_page(const House& h, const std::string& after, std::uint32_t limit, StatusReply& reply) {
  const auto hash = after.rfind('#');
  const FrameworkId from(hash == std::string::npos ? after : after.substr(0, hash));
  std::uint64_t last = 0;
  if (hash != std::string::npos) last = std::strtoull(after.c_str() + hash + 1, nullptr, 10);
  for (auto it = h.frameworks.by_name().lower_bound(from); it != h.frameworks.by_name().end(); ++it) {
    const FrameworkRow& row = h.frameworks.at(it->second);
    auto line = row.lines.begin();
    if (it->first == from && hash != std::string::npos) {
      line = std::find_if(line, row.lines.end(), [&](const LineRow& l) { return l.want.id == last; });
      if (line != row.lines.end()) ++line;
    }
    for (; line != row.lines.end(); ++line) {
      if (line->wildcard || line->missing() == 0) continue;
      if (reply.rows.size() == limit) {
        reply.more = true;
        return;
      }
      reply.rows.push_back(line_row(row, *line));
    }
  }
}

// Roles that have settings, or a framework, or either below them.
Row role_row(const House& h, const RoleName& role, std::uint32_t frameworks, std::uint32_t waiting, const Usage& used) {
  const auto found = h.registry.roles().find(role);
  const RoleSettings settings = found == h.registry.roles().end() ? RoleSettings{} : found->second;
  return {role.str(),
          {{"weight", std::to_string(settings.weight)},
           {"priority", std::to_string(h.roles.priority(h, role))},
           {"limit", limit_text(settings.limit)},
           {"guarantee", limit_text(settings.guarantee)},
           {"used", use_text(used)},
           {"cpus_used", format_cpus(MilliCpus(used.cpus))},
           {"mem_used", format_size(Bytes(used.mem))},
           {"frameworks", std::to_string(frameworks)},
           {"waiting", std::to_string(waiting)}}};
}

void roles_page(const House& h, const std::string& after, std::uint32_t limit, StatusReply& reply) {
  struct Sum {
    std::uint32_t frameworks = 0, waiting = 0;
    Usage used;
  };
  std::map<RoleName, Sum> sums;
  for (const auto& [role, settings] : h.registry.roles())
    for (const RoleName& name : role_line(role)) sums[name];
  for (const auto& [id, ix] : h.frameworks.by_name()) {
    const FrameworkRow& row = h.frameworks.at(ix);
    for (const RoleName& name : role_line(row.role)) {
      Sum& sum = sums[name];
      ++sum.frameworks;
      sum.waiting += h.roles.waits(ix) ? 1 : 0;
      sum.used.add(row.used);
    }
  }
  for (auto it = sums.upper_bound(RoleName(after)); it != sums.end(); ++it) {
    if (reply.rows.size() == limit) {
      reply.more = true;
      return;
    }
    reply.rows.push_back(role_row(h, it->first, it->second.frameworks, it->second.waiting, it->second.used));
  }
}

// Times are microseconds since 1970, as those of events.
Row reservation_row(const House& h, const std::string& name, const Reservation& r) {
  std::vector<std::string> hosts;
  Usage kept;
  std::size_t up = 0;
  for (const AgentId& agent : r.agents) {
    hosts.push_back(agent.str());
    const auto found = h.agents.by_name().find(agent);
    if (found == h.agents.by_name().end()) continue;
    ++up;
    kept.add(usage_of(h.reservations.kept_of(h, name, found->second)));
  }
  const bool over = r.end.count() != 0 && r.end <= h.now.wall;
  const std::string state = over ? "over" : r.start > h.now.wall ? "planned" : "active";
  return {name,
          {{"state", state},
           {"kind", r.maintenance ? "maintenance" : "role"},
           {"role", r.role.str()},
           {"named", r.named ? "yes" : ""},
           {"agents", compress_hosts(hosts)},
           {"known", std::to_string(up)},
           {"amount", r.maintenance      ? ""
                      : r.amount.empty() ? "all"
                                         : limit_text(r.amount)},
           {"idle", r.maintenance ? "" : use_text(kept)},
           {"start_us", std::to_string(r.start.count())},
           {"end_us", std::to_string(r.end.count())},
           {"owner", r.owner},
           {"reason", r.reason}}};
}

void reservations_page(const House& h, const std::string& after, std::uint32_t limit, StatusReply& reply) {
  const auto& all = h.registry.reservations();
  for (auto it = all.upper_bound(after); it != all.end(); ++it) {
    if (reply.rows.size() == limit) {
      reply.more = true;
      return;
    }
    reply.rows.push_back(reservation_row(h, it->first, it->second));
  }
}

void events_page(const House& h, const std::string& after, std::uint32_t limit, StatusReply& reply) {
  const std::uint64_t from = std::strtoull(after.c_str(), nullptr, 10);
  const auto& rows = h.events.rows();
  if (rows.empty()) return;
  std::size_t at = from < rows.front().number ? 0 : static_cast<std::size_t>(from + 1 - rows.front().number);
  for (; at < rows.size(); ++at) {
    if (reply.rows.size() == limit) {
      reply.more = true;
      return;
    }
    const EventLog::Row& row = rows[at];
    reply.rows.push_back(event_view(row));
  }
}

template <class Map, class MakeRow>
void page(const Map& map, typename Map::const_iterator from, std::uint32_t limit, StatusReply& reply, MakeRow make) {
  for (auto it = from; it != map.end(); ++it) {
    if (reply.rows.size() == limit) {
      reply.more = true;
      return;
    }
    reply.rows.push_back(make(it->second));
  }
}

}  // namespace

// By the owners' own sets; ghosts' are not shown.
std::vector<SliceId> slices_after(const House& h, const std::string& after, std::size_t limit) {
  std::vector<SliceId> out;
  const auto hash = after.rfind('#');
  const FrameworkId from(hash == std::string::npos ? after : after.substr(0, hash));
  std::uint64_t number = 0;
  if (hash != std::string::npos) number = std::strtoull(after.c_str() + hash + 1, nullptr, 10);
  for (auto it = h.frameworks.by_name().lower_bound(from); it != h.frameworks.by_name().end(); ++it) {
    const FrameworkRow& row = h.frameworks.at(it->second);
    auto slice = it->first == from && hash != std::string::npos ? row.slices.upper_bound(number) : row.slices.begin();
    for (; slice != row.slices.end(); ++slice) {
      if (out.size() == limit) return out;
      out.push_back({row.id, *slice});
    }
  }
  return out;
}

std::vector<Row> cluster_view(const House& h) {
  StatusReply reply;
  cluster_row(h, reply);
  return std::move(reply.rows);
}
Row agent_view(const House& h, AgentIx ix) { return agent_row(h, ix); }
Row framework_view(const House& h, FrameworkIx ix) { return framework_row(h, ix); }
Row offer_view(const House& h, const OfferRow& offer) { return offer_row(h, offer, true); }
std::optional<Row> slice_view(House& h, const SliceId& id) {
  const SliceRow* row = h.slices.find(id);
  if (row == nullptr || h.frameworks.at(row->framework).removed) return std::nullopt;
  return slice_row(h, id);
}
std::vector<Row> demand_view(const House& h, FrameworkIx ix) {
  std::vector<Row> rows;
  const FrameworkRow& row = h.frameworks.at(ix);
  for (const LineRow& line : row.lines)
    if (!line.wildcard && line.missing() > 0) rows.push_back(line_row(row, line));
  return rows;
}
std::vector<Row> roles_view(const House& h) {
  StatusReply reply;
  roles_page(h, "", UINT32_MAX, reply);
  return std::move(reply.rows);
}
Row event_view(const EventLog::Row& row) {
  return {std::to_string(row.number), {{"time_us", std::to_string(row.wall.count())}, {"event", row.line}}};
}

void on_reader_hello(House& h, const Received& received) {
  const auto& hello = std::get<ReaderHello>(received.message.body);
  if (hello.version != kProtocolVersion) {
    return h.refuse(received.peer, Code::kVersion,
                    "reader " + hello.name + " speaks protocol " + std::to_string(hello.version) + ", this master " +
                        std::to_string(kProtocolVersion),
                    "reader_refused");
  }
  const bool open_house = !h.options.trust_identities && received.identity.empty();
  const bool may_operate = open_house || received.identity.starts_with("operator:");
  if (!may_operate && !received.identity.starts_with("reader:") && !received.identity.starts_with("framework:")) {
    return h.refuse(received.peer, Code::kDenied, "key '" + received.identity + "' may not read", "reader_refused");
  }
  const Who who = may_operate ? kOperator : kReader;
  if (h.sessions.open({received.peer, who, 0, received.identity, h.now.mono, h.now.mono, received.from}, h.options.peer_timeout) ==
      nullptr) {
    return h.refuse(received.peer, Code::kLimit, "there are as many connections as this master keeps", "reader_refused");
  }
  Welcome answer = welcome(h);
  answer.readers = h.options.readers;
  h.send(received.peer, std::move(answer));
}

void on_status_query(House& h, const Session& from, const Message& message) {
  const auto& query = std::get<StatusQuery>(message.body);
  StatusReply reply;
  reply.tag = query.tag;
  const std::uint32_t limit = std::min(query.limit == 0 ? kStatusPage : query.limit, kStatusPageMax);
  if (query.what == "cluster") {
    cluster_row(h, reply);
  } else if (query.what == "agents") {
    const auto& map = h.agents.by_name();
    page(map, map.upper_bound(AgentId(query.after)), limit, reply, [&](AgentIx ix) { return agent_row(h, ix); });
  } else if (query.what == "frameworks") {
    const auto& map = h.frameworks.by_name();
    page(map, map.upper_bound(FrameworkId(query.after)), limit, reply, [&](FrameworkIx ix) { return framework_row(h, ix); });
  } else if (query.what == "offers") {
    const auto& map = h.offers.open;
    const std::uint64_t after = std::strtoull(query.after.c_str(), nullptr, 10);
    page(map, map.upper_bound(after), limit, reply, [&](const OfferRow& offer) { return offer_row(h, offer); });
  } else if (query.what == "slices") {
    slices_page(h, query.after, limit, reply);
  } else if (query.what == "demand") {
    demand_page(h, query.after, limit, reply);
  } else if (query.what == "roles") {
    roles_page(h, query.after, limit, reply);
  } else if (query.what == "reservations") {
    reservations_page(h, query.after, limit, reply);
  } else if (query.what == "masters") {
    masters_rows(h, reply);
  } else if (query.what == "events") {
    events_page(h, query.after, limit, reply);
  } else {
    reply.code = Code::kInvalid;
    reply.reason =
        "'" + query.what + "' is none of cluster, agents, frameworks, offers, slices, demand, roles, reservations, masters, events";
  }
  h.send(from.peer, std::move(reply));
}

}  // namespace bourse::house
