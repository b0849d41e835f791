// A world of one for the master: feeds it events, keeps its timers and records, and shows what it sent.
//
// Time moves only by run(); appended records are durable at once unless `hold_durable`. After every event the ledger's
// invariant is checked by addition that does not share code with the ledger.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/core/actor.h"
#include "common/core/rng.h"
#include "master/master.h"

namespace bourse::test {

inline Resources amount(std::int64_t cpus, std::int64_t gib) {
  Resources r;
  r.cpus = MilliCpus(cpus * 1000);
  r.mem = Bytes(gib << 30);
  if (cpus > 0 || gib > 0) r.numa = {{0, r.cpus, r.mem}};
  return r;
}
inline Shape shape(std::int64_t cpus, std::int64_t gib) {
  Shape s;
  s.cpus = MilliCpus(cpus * 1000);
  s.mem = Bytes(gib << 30);
  return s;
}
inline DemandLine line(std::uint64_t id, Shape s, std::uint32_t count, std::uint32_t gang_min = 0) {
  DemandLine l;
  l.id = id;
  l.shape = std::move(s);
  l.count = count;
  l.gang_min = gang_min;
  return l;
}

struct Rig {
  MasterOptions options;
  std::unique_ptr<Master> master;
  Duration now = seconds(1000);
  std::map<TimerKey, Duration> timers;
  std::vector<std::string> records;
  std::string snapshot;
  std::vector<std::pair<PeerId, Message>> sent;
  std::vector<PeerId> cut;
  std::vector<std::string> logs;
  Ticket ticket = 0;
  std::uint64_t incarnation = 0;
  std::vector<ViewUpdate> views;
  std::uint64_t reload = 0;  // what the driver was asked last
  bool hold_durable = false, stopped = false;
  std::vector<Ticket> held_tickets;
  std::uint64_t index = 10;  // of a replicated log
  std::vector<ChangeMember> members;
  int hand_overs = 0;

  explicit Rig(MasterOptions o = {}) : options(std::move(o)) {
    options.trust_identities = false;
    start();
  }
  void start() {
    master = std::make_unique<Master>(options);
    timers.clear();
    sent.clear();
    step(Started{Incarnation(++incarnation), snapshot, records});
  }
  void step(const Event& event) {
    Actions out;
    out.ticket = ++ticket;
    const Ticket mine = ticket;
    master->step({now, now + std::chrono::hours(1000)}, event, out);
    for (const Append& append : out.appends) records.push_back(append.record);
    if (!out.compact.empty()) {
      snapshot = out.compact;
      records.clear();
    }
    for (Send& send : out.sends) sent.emplace_back(send.to, std::move(send.message));
    for (const Arm& arm : out.arms) timers[arm.key] = now + arm.after;
    for (const TimerKey& key : out.disarms) timers.erase(key);
    for (const PeerId peer : out.cut) cut.push_back(peer);
    for (std::string& line : out.logs) logs.push_back(std::move(line));
    for (ViewUpdate& view : out.views) views.push_back(std::move(view));
    if (out.reload != 0) reload = out.reload;
    stopped = stopped || out.stop;
    members.insert(members.end(), out.members.begin(), out.members.end());
    if (out.hand_over) ++hand_overs;
    check_ledger();
    if (out.appends.empty()) return;
    if (hold_durable) {
      held_tickets.push_back(mine);
    } else {
      step(Durable{mine, options.replicated ? ++index : 0});
    }
  }
  void run(Duration span) {
    const Duration until = now + span;
    for (;;) {
      auto next = timers.end();
      for (auto it = timers.begin(); it != timers.end(); ++it) {
        if (next == timers.end() || it->second < next->second) next = it;
      }
      if (next == timers.end() || next->second > until) break;
      const TimerKey key = next->first;
      now = std::max(now, next->second);
      timers.erase(next);
      step(TimerFired{key});
    }
    now = until;
  }
  void pass() { run(options.coalesce * 2); }
  void say(std::uint64_t peer, Body body, std::string identity = "") {
    Message message;
    message.epoch = master->epoch();
    message.body = std::move(body);
    step(Received{PeerId(peer), std::move(identity), std::move(message)});
  }

  void say_as(std::uint64_t peer, Body body, std::string identity, std::string from, std::string roles = "") {
    Message message;
    message.epoch = master->epoch();
    message.body = std::move(body);
    step(Received{PeerId(peer), std::move(identity), std::move(message), std::move(from), std::move(roles)});
  }

  // --- peers
  static AgentHello agent_hello(const std::string& name, const Resources& total, std::uint64_t life = 1) {
    AgentHello hello;
    hello.agent = AgentId(name);
    hello.incarnation = Incarnation(life);
    hello.boot_id = "boot-1";
    hello.inventory.total = total;
    hello.inventory.labels = {{"host", name}, {"arch", "x86_64"}};
    return hello;
  }
  void agent(std::uint64_t peer, const std::string& name, const Resources& total, std::uint64_t life = 1) {
    say(peer, agent_hello(name, total, life));
  }
  void framework(std::uint64_t peer, const std::string& name, std::uint64_t life = 1, Duration failover = seconds(3600),
                 std::vector<SliceId> slices = {}, bool watch = false) {
    FrameworkHello hello;
    hello.framework = FrameworkId(name);
    hello.role = RoleName("role-" + name);
    hello.incarnation = Incarnation(life);
    hello.failover_timeout = failover;
    hello.slices = std::move(slices);
    hello.watch_agents = watch;
    say(peer, hello);
  }
  std::uint64_t demand_version = 0;
  void demand(std::uint64_t peer, std::vector<DemandLine> lines, std::uint64_t last_accept = 0, bool wildcard = false) {
    Demand d;
    d.version = Version(++demand_version);
    d.last_accept = Sequence(last_accept);
    d.lines = std::move(lines);
    d.wildcard = wildcard;
    say(peer, d);
  }
  static Accept accept(std::uint64_t sequence, const Offer& offer, std::uint64_t first_number, Shape s, std::uint32_t count = 1,
                       std::uint64_t line = 1) {
    Accept a;
    a.sequence = Sequence(sequence);
    add_item(a, offer, first_number, s, count, line);
    return a;
  }
  static void add_item(Accept& a, const Offer& offer, std::uint64_t first_number, const Shape& s, std::uint32_t count = 1,
                       std::uint64_t line = 1) {
    Accept::Item item;
    item.offer = offer.id;
    item.generation = offer.generation;
    for (std::uint32_t i = 0; i < count; ++i) item.slices.push_back({first_number + i, s, Duration{0}, line});
    a.items.push_back(item);
  }

  // --- what the master sent, taken out
  template <class T>
  std::vector<T> take(std::uint64_t peer) {
    std::vector<T> result;
    std::vector<std::pair<PeerId, Message>> rest;
    for (auto& [to, message] : sent) {
      if (to.value == peer && std::holds_alternative<T>(message.body)) {
        result.push_back(std::get<T>(std::move(message.body)));
      } else {
        rest.emplace_back(to, std::move(message));
      }
    }
    sent = std::move(rest);
    return result;
  }
  std::vector<Offer> offers(std::uint64_t peer) {
    std::vector<Offer> result;
    for (Offers& message : take<Offers>(peer)) {
      for (Offer& offer : message.offers) result.push_back(std::move(offer));
    }
    return result;
  }
  std::vector<OffersEnded::Item> ended(std::uint64_t peer) {
    std::vector<OffersEnded::Item> result;
    for (OffersEnded& message : take<OffersEnded>(peer)) {
      result.insert(result.end(), message.items.begin(), message.items.end());
    }
    return result;
  }
  Master::Account account(const std::string& agent) { return master->accounts().at(AgentId(agent)); }

  void check_ledger() {
    check_accounts(master->accounts());
    check_accounts(master->lent_accounts());
  }
  static void check_accounts(const std::map<AgentId, Master::Account>& accounts) {
    for (const auto& [id, a] : accounts) {
      std::int64_t cpus = 0, mem = 0;
      std::map<std::uint32_t, std::int64_t> node_cpus, total_node_cpus;
      std::map<std::string, int> devices;
      for (const Resources* part : {&a.free, &a.offered, &a.held, &a.leased, &a.reserved, &a.unavailable}) {
        ASSERT_GE(part->cpus.value, 0);
        ASSERT_GE(part->mem.value, 0);
        cpus += part->cpus.value;
        mem += part->mem.value;
        for (const NumaAmount& node : part->numa) node_cpus[node.node] += node.cpus.value;
        for (const DeviceShare& share : part->devices) devices[share.device.str()] += share.whole ? 1 : 0;
      }
      for (const NumaAmount& node : a.total.numa) total_node_cpus[node.node] += node.cpus.value;
      for (auto it = node_cpus.begin(); it != node_cpus.end();) it = it->second == 0 ? node_cpus.erase(it) : std::next(it);
      for (auto it = total_node_cpus.begin(); it != total_node_cpus.end();)
        it = it->second == 0 ? total_node_cpus.erase(it) : std::next(it);
      ASSERT_EQ(cpus, a.total.cpus.value) << id.str();
      ASSERT_EQ(mem, a.total.mem.value) << id.str();
      ASSERT_EQ(node_cpus, total_node_cpus) << id.str();
      for (const DeviceShare& share : a.total.devices) ASSERT_EQ(devices[share.device.str()], 1) << share.device.str();
    }
  }
};

}  // namespace bourse::test
