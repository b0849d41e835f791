// Readers: what 50 dashboards that each ask for the full state of 10,000 agents do to the master's own work.
//
// One master's actor under its driver, with 10,000 agents and 10 frameworks that exist as messages; the readers' socket as in
// bourse-master; the pollers in a process of their own, each asking for every page of every table every 5 s, as the console does. Allocation latency is
// the time from the moment at which a decline is due (every 2 ms, whether or not the one before is done) to the offer that follows it.
// Phases without and with pollers alternate. The goal is a change of less than 10 %.
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/wire/wire.h"
#include "common/world/driver.h"
#include "common/world/log.h"
#include "master/master.h"
#include "master/readers.h"

namespace {

using namespace bourse;  // NOLINT: a program, not a header

constexpr int kAgents = 10'000, kFrameworks = 10, kPollers = 50, kRounds = 3;
constexpr Duration kEvery = milliseconds(2), kPhase = seconds(6), kInterval = seconds(5);
const char* const kTables[] = {"cluster", "agents", "frameworks", "offers", "slices", "demand", "roles"};

// --- the pollers' process: a byte on its standard input starts them, another stops them.

struct Poller {
  Connection connection;
  std::size_t table = 0;
  bool welcome = false, asking = false;
  std::uint64_t tag = 0, full = 0, rows = 0, bytes = 0;
  Duration next{0};

  Poller(Context& context, Reactor& reactor, const std::string& endpoint) : connection(context, reactor, {}) {
    connection.on_frame([this](std::string_view text) { take(text); });
    if (!connection.connect(endpoint, nullptr, "")) std::abort();
    say(ReaderHello{kProtocolVersion, "poller"});
  }
  void say(Body body) {
    Message message;
    message.body = std::move(body);
    (void)connection.send(wire::encode(message));
  }
  void ask(const std::string& after) { say(StatusQuery{++tag, kTables[table], after, 0}); }
  void take(std::string_view text) {
    auto message = wire::decode(text);
    if (!message) std::abort();
    bytes += text.size();
    if (std::holds_alternative<Welcome>(message->body)) welcome = true;
    const auto* reply = std::get_if<StatusReply>(&message->body);
    if (reply == nullptr || reply->tag != tag) return;
    rows += reply->rows.size();
    if (reply->more && !reply->rows.empty()) return ask(reply->rows.back().name);
    if (++table < std::size(kTables)) return ask("");
    asking = false;
    ++full;
  }
};

int poll(const std::string& endpoint, int commands, int answers) {
  Context context;
  Reactor reactor;
  std::vector<std::unique_ptr<Poller>> all;
  const Duration begin = real_time().mono;
  for (int i = 0; i < kPollers; ++i) {
    all.push_back(std::make_unique<Poller>(context, reactor, endpoint));
    all.back()->next = begin + kInterval * i / kPollers;  // not all at once
  }
  bool on = false;
  std::uint64_t full = 0, rows = 0;
  reactor.watch(commands, 1 /* EPOLLIN */, [&](std::uint32_t) {
    char byte = 0;
    if (read(commands, &byte, 1) != 1) return reactor.stop();
    on = !on;
    for (auto& p : all) {
      if (on) continue;
      full += std::exchange(p->full, 0), rows += std::exchange(p->rows, 0);
    }
    if (on) return;
    const std::uint64_t sums[2] = {std::exchange(full, 0), std::exchange(rows, 0)};
    if (write(answers, sums, sizeof sums) != sizeof sums) std::abort();
  });
  for (;;) {
    const Duration now = real_time().mono;
    for (std::size_t i = 0; i < all.size(); ++i) {
      Poller& p = *all[i];
      if (!on || !p.welcome || p.asking || now < p.next) continue;
      p.next = std::max(now, p.next) + kInterval;
      p.asking = true;
      p.table = 0;
      p.ask("");
    }
    if (!reactor.turn(milliseconds(20))) return 0;
  }
}

// --- the master

Resources host() {
  Resources r;
  r.cpus = MilliCpus(16'000);
  r.mem = Bytes(64LL << 30);
  r.numa = {{0, MilliCpus(8'000), Bytes(32LL << 30)}, {1, MilliCpus(8'000), Bytes(32LL << 30)}};
  return r;
}

struct House {
  Reactor reactor;
  std::unique_ptr<Master> master;
  std::unique_ptr<Driver> driver;
  std::unique_ptr<Readers> readers;
  std::vector<std::pair<PeerId, OfferId>> offers;
  std::uint64_t made = 0;

  explicit House(const std::string& endpoint) {
    MasterOptions options;
    options.trust_identities = false;
    options.coalesce = Duration(0);
    options.offer_ttl = std::chrono::hours(10);
    options.peer_timeout = std::chrono::hours(10);
    master = std::make_unique<Master>(options);
    Readers::Options r;
    r.endpoint = endpoint;
    auto opened = Readers::open(std::move(r), [this](bool on, std::uint64_t flush) {
      reactor.wake([this, on, flush] { driver->post(Watched{on, flush}); });
    });
    if (!opened) std::abort();
    readers = *std::move(opened);
    Driver::Hooks hooks;
    hooks.send = [this](PeerId to, const Message& message) {
      if (const auto* sent = std::get_if<Offers>(&message.body)) {
        ++made;
        for (const Offer& offer : sent->offers) offers.emplace_back(to, offer.id);
      }
    };
    hooks.publish = [this](std::vector<ViewUpdate> views) { readers->publish(std::move(views), master->epoch(), "bench"); };
    driver = std::make_unique<Driver>(reactor, *master, std::move(hooks));
    driver->post(Started{Incarnation(1), {}, {}});
    while (master->epoch().value == 0) reactor.turn(milliseconds(10));
    for (int i = 0; i < kAgents; ++i) {
      AgentHello hello;
      hello.agent = AgentId("h" + std::to_string(i));
      hello.incarnation = Incarnation(1);
      hello.inventory.total = host();
      hello.inventory.labels = {{"host", hello.agent.str()}, {"rack", "r" + std::to_string(i / 40)}};
      say(1000 + static_cast<std::uint64_t>(i), hello);
    }
    for (int i = 0; i < kFrameworks; ++i) {
      FrameworkHello hello;
      hello.framework = FrameworkId("f" + std::to_string(i));
      hello.role = RoleName("role" + std::to_string(i));
      hello.incarnation = Incarnation(1);
      say(static_cast<std::uint64_t>(100 + i), hello);
      Demand demand;
      demand.version = Version(1);
      DemandLine line;
      line.id = 1;
      line.shape.cpus = MilliCpus(4'000);
      line.shape.mem = Bytes(16LL << 30);
      line.count = 100'000;
      demand.lines.push_back(line);
      say(static_cast<std::uint64_t>(100 + i), demand);
    }
    while (offers.size() < kAgents / 2) reactor.turn(milliseconds(10));
  }
  void say(std::uint64_t peer, Body body) {
    Message message;
    message.epoch = master->epoch();
    message.body = std::move(body);
    driver->post(Received{PeerId(peer), "", std::move(message)});
  }
};

struct Figures {
  double p50 = 0, p99 = 0, mean = 0, cpu = 0;  // microseconds; cpu: of this thread, for each decline
};

double thread_cpu() {
  rusage used{};
  getrusage(RUSAGE_THREAD, &used);
  return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e6 +
         static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

Figures phase(House& house, std::size_t& next) {
  std::vector<double> took;
  const Duration begin = real_time().mono;
  const double cpu = thread_cpu();
  for (Duration due = begin; due < begin + kPhase; due += kEvery) {
    for (Duration now = real_time().mono; now < due; now = real_time().mono) house.reactor.turn(due - now);
    const auto [peer, offer] = house.offers[next++];
    const std::uint64_t before = house.made;
    Decline decline;
    decline.items.push_back({offer, DeclineReason::kTooSmall, "", seconds(1)});
    house.say(peer.value, decline);
    while (house.made == before && real_time().mono < due + seconds(2)) house.reactor.turn(milliseconds(1));
    took.push_back(static_cast<double>((real_time().mono - due).count()));
  }
  Figures f;
  f.cpu = (thread_cpu() - cpu) / static_cast<double>(took.size());
  std::sort(took.begin(), took.end());
  f.p50 = took[took.size() / 2];
  f.p99 = took[took.size() * 99 / 100];
  for (const double t : took) f.mean += t / static_cast<double>(took.size());
  return f;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main() {
  log_init("readers_bench", LogLevel::kError);  // not a line for each agent
  char directory[] = "/tmp/bourse-readers-XXXXXX";
  if (mkdtemp(directory) == nullptr) return 1;
  const std::string endpoint = std::string("ipc://") + directory + "/readers";
  int commands[2], answers[2];
  if (pipe(commands) != 0 || pipe(answers) != 0) return 1;
  const pid_t pollers = fork();  // before there is any thread
  if (pollers == 0) {
    close(commands[1]);
    close(answers[0]);
    std::_Exit(poll(endpoint, commands[0], answers[1]));
  }
  close(commands[0]);
  close(answers[1]);
  int status = 1;
  {
    House house(endpoint);
    std::vector<Figures> without, with;
    std::size_t next = 0;
    std::uint64_t full = 0, rows = 0;
    // Everything is asked for once, so that the copy is there.
    (void)!write(commands[1], "g", 1);
    const Duration warm = real_time().mono + seconds(5);
    while (real_time().mono < warm) house.reactor.turn(milliseconds(10));
    (void)!write(commands[1], "s", 1);
    std::uint64_t sums[2] = {};
    (void)!read(answers[0], sums, sizeof sums);
    for (int round = 0; round < kRounds; ++round) {
      without.push_back(phase(house, next));
      (void)!write(commands[1], "g", 1);
      with.push_back(phase(house, next));
      (void)!write(commands[1], "s", 1);
      (void)!read(answers[0], sums, sizeof sums);
      full += sums[0], rows += sums[1];
    }
    const auto of = [](const std::vector<Figures>& all, double Figures::*what) {
      std::vector<double> values;
      for (const Figures& f : all) values.push_back(f.*what);
      return median(values);
    };
    std::printf("%d agents, %d frameworks, a decline every %lld ms; %d pollers of the full state, every 5 s each\n", kAgents,
                kFrameworks, static_cast<long long>(kEvery.count() / 1000), kPollers);
    std::printf("  full states served a second %8.1f   rows a second %10.0f\n",
                static_cast<double>(full) / (kRounds * static_cast<double>(kPhase.count()) / 1e6),
                static_cast<double>(rows) / (kRounds * static_cast<double>(kPhase.count()) / 1e6));
    std::printf("  %-28s %10s %10s %8s\n", "decline to next offer, us", "alone", "polled", "ratio");
    for (const auto& [name, what] : {std::pair("p50", &Figures::p50), std::pair("mean", &Figures::mean),
                                     std::pair("p99", &Figures::p99), std::pair("CPU of the deciding thread", &Figures::cpu)})
      std::printf("  %-28s %10.1f %10.1f %8.3f\n", name, of(without, what), of(with, what), of(with, what) / of(without, what));
    std::printf("  goal: p50 changes by less than 10 %%: %s\n",
                of(with, &Figures::p50) < 1.1 * of(without, &Figures::p50) ? "met" : "not met");
    status = 0;
  }
  close(commands[1]);
  waitpid(pollers, nullptr, 0);
  std::filesystem::remove_all(directory);
  return status;
}
