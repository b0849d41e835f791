// herd COUNT [RACKS]: that many agents in one process, at the cluster of BOURSE_DIR: the real agent actor and real sockets, made-up
// hosts and the mock executor, so that one machine shows what a large cluster looks like. They all use the key agent:*.
//
// Names are n0001 and on, by rack; every fourth host has GPUs beside its NUMA nodes, one in 97 a device that is ill. Prints "ready" when
// the master has welcomed all, and ends with SIGTERM, as hosts do that are switched off.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "agent/agent.h"
#include "agent/mock_host.h"
#include "common/world/config.h"
#include "common/world/driver.h"
#include "common/world/program.h"

namespace {

using namespace bourse;  // NOLINT: a program, not a header

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

Inventory inventory_of(int number, int racks) {
  Inventory inv;
  inv.version = Version(1);
  const std::uint32_t cores = number % 3 == 0 ? 64 : 32;
  inv.topology.type = "machine";
  for (std::uint32_t numa = 0; numa < 2; ++numa) {
    TopologyNode node{"numa", numa, "", 64 * kGiB, {}, {}};
    for (std::uint32_t core = 0; core < cores / 2; ++core) {
      TopologyNode c{"core", numa * cores / 2 + core, "", 0, {}, {}};
      c.children.push_back({"pu", numa * cores / 2 + core, "", 0, {}, {}});
      node.children.push_back(std::move(c));
    }
    inv.topology.children.push_back(std::move(node));
    inv.total.numa.push_back({numa, MilliCpus(cores / 2 * 1000), Bytes(64 * kGiB)});
  }
  inv.total.cpus = MilliCpus(cores * 1000);
  inv.total.mem = Bytes(128 * kGiB);
  const auto device = [&](const std::string& id, const std::string& kind, std::int32_t numa, bool healthy) {
    Device d;
    d.id = DeviceId(id), d.kind = kind, d.numa = numa, d.generation = Generation(1), d.healthy = healthy;
    inv.devices.push_back(d);
    if (!healthy) return;
    DeviceShare share;
    share.device = d.id, share.kind = kind, share.generation = d.generation, share.whole = true;
    inv.total.devices.push_back(std::move(share));
  };
  if (number % 4 == 0)
    for (int gpu = 0; gpu < 4; ++gpu)
      device(fmt::format("GPU-{:04}-{}", number, gpu), "gpu/nvidia", gpu / 2, number % 97 != 1 || gpu != 2);
  device(fmt::format("mlx5-{:04}", number), "nic/rdma", 0, number % 97 != 0);
  inv.labels = {{"rack", fmt::format("r{}", number % racks + 1)}, {"zone", number % racks % 2 == 0 ? "east" : "west"}};
  return inv;
}

struct Member {
  std::unique_ptr<MasterLink> link;
  std::unique_ptr<Agent> agent;
  std::unique_ptr<MockHost> host;
  std::unique_ptr<Driver> driver;
  bool welcome = false;
};

Result<> run(int count, int racks) {
  const Places places = Places::find();
  const Config config = BOURSE_TRY(Config::read(places.config, {}));
  const KeyPair keys = BOURSE_TRY(read_key_file(places.keys + "/" + key_file_name("agent:*")));
  const std::string server = BOURSE_TRY(read_public_key(places.keys + "/master.pub"));
  Reactor reactor;
  Context context;
  std::vector<std::unique_ptr<Member>> members;
  int welcomed = 0;
  for (int number = 1; number <= count; ++number) {
    members.push_back(std::make_unique<Member>());
    Member& m = *members.back();
    AgentOptions options;
    options.id = AgentId(fmt::format("n{:04}", number));
    options.boot_id = "herd";
    options.settings.probes = {"hwloc"};
    m.agent = std::make_unique<Agent>(std::move(options));
    auto prober = std::make_unique<Prober>(reactor, "/nonexistent", ProbeInputs{});
    prober->prime("hwloc", inventory_of(number, racks));
    m.host = std::make_unique<MockHost>(reactor, std::move(prober), [&m](Event event) { m.driver->post(std::move(event)); });
    m.link = std::make_unique<MasterLink>(context, reactor, config.list("cluster", "masters"), &keys, server);
    m.link->on_lost([&m] { m.driver->post(PeerLost{kMasterPeer}); });
    m.link->on_message([&m, &welcomed, count](Message message) {
      const bool welcome = std::holds_alternative<Welcome>(message.body);
      m.driver->post(Received{kMasterPeer, {}, std::move(message)});
      if (!welcome || m.welcome) return;
      m.welcome = true;
      if (++welcomed == count) {
        fmt::print("ready\n");
        std::fflush(stdout);
      }
    });
    Driver::Hooks hooks;
    hooks.send = [&m](PeerId, const Message& message) { m.link->send(message); };
    hooks.reconnect = [&m](const std::string& leader) { m.link->next(leader); };
    hooks.host = [&m](const HostAction& action) { m.host->execute(action); };
    m.driver = std::make_unique<Driver>(reactor, *m.agent, std::move(hooks));
    BOURSE_TRY(m.link->connect());
    m.driver->post(Started{Incarnation(static_cast<std::uint64_t>(real_time().wall / seconds(1))), {}, {}});
    m.host->start();
  }
  Program::end_on_signals(reactor);
  reactor.run();
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 0, racks = argc > 2 ? std::atoi(argv[2]) : 10;
  if (count < 1 || racks < 1) {
    fmt::print(stderr, "usage: herd COUNT [RACKS]\n");
    return 2;
  }
  if (auto done = run(count, racks); !done) {
    fmt::print(stderr, "herd: {}\n", done.error().text());
    return 1;
  }
  return 0;
}
