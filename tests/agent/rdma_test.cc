// The RDMA probe on hosts that are not here. A real soft-RoCE device is in tests/vm.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "agent/probes/rdma.h"
#include "rig.h"
#include "tests/support/tree.h"

namespace bourse {
namespace {

ProbeReport probed(const tests::Tree& tree) {
  ProbeInput input;
  input.root = tree.path();
  auto report = run_rdma(input);
  EXPECT_TRUE(report) << report.error().text();
  return report ? *report : ProbeReport{};
}
const Device* find(const ProbeReport& report, const std::string& id) {
  for (const Device& device : report.inventory.devices)
    if (device.id.str() == id) return &device;
  return nullptr;
}

TEST(RdmaProbe, ReadsAdaptersWithTheirPortsAndFiles) {
  const tests::Tree tree("rdma/mlx5.tree");
  const ProbeReport report = probed(tree);
  ASSERT_EQ(report.inventory.devices.size(), 3U);
  const Device* ib = find(report, "rdma:b859:9f03:00d4:1c2a");
  ASSERT_NE(ib, nullptr);
  EXPECT_EQ(ib->kind, "nic/rdma");
  EXPECT_EQ(ib->model, "MT4119");
  EXPECT_EQ(ib->vendor, "0x15b3");
  EXPECT_EQ(ib->pci, "0000:af:00.0");
  EXPECT_EQ(ib->numa, 1);
  EXPECT_TRUE(ib->healthy);
  EXPECT_EQ(ib->mode, Device::Mode::kCounters);
  EXPECT_EQ(ib->counters.get("bandwidth"), 100'000);
  EXPECT_EQ(ib->nodes, (std::vector<std::string>{"/dev/infiniband/uverbs0", "/dev/infiniband/rdma_cm"}));
  EXPECT_EQ(ib->attributes.at("port1.state"), "ACTIVE");
  EXPECT_EQ(ib->attributes.at("port1.rate"), "100 Gb/sec (4X EDR)");
  EXPECT_EQ(ib->attributes.at("port1.link"), "InfiniBand");
  EXPECT_EQ(ib->attributes.at("port1.lid"), "0x2b");
  EXPECT_EQ(ib->attributes.at("port1.gid0"), "fe80:0000:0000:0000:b859:9f03:00d4:1c2a");
  EXPECT_EQ(ib->attributes.count("port1.gid1"), 0U) << "an empty entry of the table is no GID";
  EXPECT_EQ(ib->attributes.at("rdma.netdev"), "ib0");
  EXPECT_EQ(ib->attributes.at("rdma.firmware"), "16.35.3006");
  EXPECT_EQ(ib->attributes.at("rdma.node_type"), "CA");
  EXPECT_EQ(ib->attributes.at("memlock"), "unlimited") << "memory that the adapter reaches is pinned";
  EXPECT_EQ(report.sources.at("devices/rdma:b859:9f03:00d4:1c2a"), "/sys/class/infiniband/mlx5_0");

  const Device* roce = find(report, "rdma:0c42:a103:0076:9d19");
  ASSERT_NE(roce, nullptr);
  EXPECT_EQ(roce->counters.get("bandwidth"), 25'000);
  EXPECT_EQ(roce->attributes.at("port1.link"), "Ethernet");
  EXPECT_EQ(roce->attributes.at("port1.gid2.type"), "RoCE v2");
  EXPECT_EQ(roce->attributes.at("port1.gid2.netdev"), "ens1f1");
  EXPECT_EQ(roce->attributes.at("port1.gid10"), "0000:0000:0000:0000:0000:ffff:c0a8:0a0c");

  const Device* down = find(report, "rdma:0000:18:00.2");
  ASSERT_NE(down, nullptr) << "a function without a GUID has its address for a name";
  EXPECT_FALSE(down->healthy) << "no port is active";
  EXPECT_EQ(down->counters.get("bandwidth"), 0);
  EXPECT_EQ(down->numa, -1);
  EXPECT_TRUE(report.inventory.notes.empty()) << report.inventory.notes.front();
}

TEST(RdmaProbe, TellsOfADeviceThatTasksCannotOpen) {
  tests::Tree tree("rdma/mlx5.tree");
  tree.remove("/dev/infiniband/uverbs0");
  tree.remove("/sys/class/infiniband_verbs/uverbs1");
  const ProbeReport report = probed(tree);
  EXPECT_FALSE(find(report, "rdma:b859:9f03:00d4:1c2a")->healthy);
  EXPECT_FALSE(find(report, "rdma:0c42:a103:0076:9d19")->healthy);
  ASSERT_EQ(report.inventory.notes.size(), 2U);
  EXPECT_NE(report.inventory.notes[0].find("/dev/infiniband/uverbs0 does not exist"), std::string::npos)
      << report.inventory.notes[0];
  EXPECT_NE(report.inventory.notes[1].find("modprobe ib_uverbs"), std::string::npos) << report.inventory.notes[1];
}

TEST(RdmaProbe, OfAHostWithoutAdaptersIsNothing) {
  const tests::Tree tree;
  EXPECT_EQ(probed(tree), ProbeReport{});
}

TEST(RdmaProbe, ReadsRatesAsTheKernelWritesThem) {
  // ib_port_rate_to... of drivers/infiniband/core/sysfs.c: tenths only where they are not zero.
  EXPECT_EQ(rdma_rate_mbit("2.5 Gb/sec (1X SDR)"), 2500);
  EXPECT_EQ(rdma_rate_mbit("40 Gb/sec (4X QDR)"), 40'000);
  EXPECT_EQ(rdma_rate_mbit("400 Gb/sec (4X NDR)"), 400'000);
  EXPECT_EQ(rdma_rate_mbit("10 Gb/sec (4X SDR)"), 10'000);
  for (const char* bad : {"", "100", "fast Gb/sec", "-1 Gb/sec", "1.55 Gb/sec", "99999999999999999999 Gb/sec", "100 Mb/sec"})
    EXPECT_EQ(rdma_rate_mbit(bad), std::nullopt) << bad;
}

// What the adapter reads and writes by itself is locked memory: the limit that came with the job is raised, and only for who has one.
TEST(RdmaTask, MayLockTheMemoryThatItsAdapterReaches) {
  testing::Rig rig;
  Device adapter;
  adapter.id = DeviceId("rdma:1");
  adapter.kind = kRdmaKind;
  adapter.mode = Device::Mode::kCounters;
  adapter.counters.set("bandwidth", 1000);
  adapter.nodes = {"/dev/infiniband/uverbs0", "/dev/infiniband/rdma_cm"};
  adapter.attributes = {{"memlock", "unlimited"}};
  rig.hardware.devices = {adapter};
  rig.hardware.total.devices = {{adapter.id, adapter.kind, {}, true, "", adapter.counters, {}}};
  rig.start();
  const Inventory& known = rig.agent->inventory();
  SliceSpec with = testing::slice_spec(1);
  DeviceShare share;
  share.device = adapter.id, share.kind = adapter.kind, share.generation = known.devices.at(0).generation;
  share.counters.set("bandwidth", 100);
  with.resources.devices = {share};
  rig.say(testing::carve({with, testing::slice_spec(2)}));
  TaskSpec spec = testing::task_spec();
  spec.rlimits = {{RLIMIT_MEMLOCK, 65536, 65536}, {RLIMIT_CORE, 0, 0}};
  rig.say(testing::launch("with", 1, spec));
  rig.say(testing::launch("without", 2, spec));
  const auto limit = [&](const char* task) {
    std::uint64_t found = 0;
    for (const Rlimit& one : rig.host.specs.at(testing::task_key(task)).rlimits)
      if (one.resource == RLIMIT_MEMLOCK) found = one.hard;
    return found;
  };
  EXPECT_EQ(limit("with"), RLIM_INFINITY);
  EXPECT_EQ(limit("without"), 65536U);
  EXPECT_EQ(rig.host.specs.at(testing::task_key("with")).rlimits.size(), 2U) << "one limit of each kind";
  for (const HostAction& action : rig.host_actions)
    if (const auto* carved = std::get_if<CarveSlice>(&action); carved != nullptr && carved->spec.id == testing::slice_id(1)) {
      EXPECT_EQ(carved->device_nodes, (std::vector<std::string>{"/dev/infiniband/rdma_cm", "/dev/infiniband/uverbs0"}));
    }
}

}  // namespace
}  // namespace bourse
