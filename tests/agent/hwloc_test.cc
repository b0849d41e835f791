// Inventories from libhwloc. Expected numbers come from the descriptions themselves and from hwloc-calc on the same input.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "agent/inventory.h"
#include "agent/probes/hwloc.h"
#include "common/wire/wire.h"

namespace bourse {
namespace {

constexpr std::int64_t kGi = 1LL << 30;

Inventory probe(const std::string& topology, std::int64_t reserve_cpus = 0, Bytes reserve_mem = {}) {
  HwlocOptions options;
  options.topology = topology;
  options.host = "h1";
  options.reserve_cpus = reserve_cpus;
  options.reserve_mem = reserve_mem;
  auto inventory = probe_hwloc(options);
  EXPECT_TRUE(inventory) << inventory.error().text();
  return inventory ? *inventory : Inventory{};
}

int count(const TopologyNode& node, const std::string& type) {
  int n = node.type == type ? 1 : 0;
  for (const TopologyNode& child : node.children) n += count(child, type);
  return n;
}

struct Expected {
  const char* description;
  int packages, nodes, cores, pus;
  std::int64_t mem_a_node;
};

class Synthetic : public ::testing::TestWithParam<Expected> {};

TEST_P(Synthetic, HasWhatItsDescriptionSays) {
  const Expected& e = GetParam();
  const Inventory inventory = probe(std::string("synthetic:") + e.description);
  EXPECT_EQ(count(inventory.topology, "package"), e.packages);
  EXPECT_EQ(count(inventory.topology, "numa"), e.nodes);
  EXPECT_EQ(count(inventory.topology, "core"), e.cores);
  EXPECT_EQ(count(inventory.topology, "pu"), e.pus);
  EXPECT_EQ(inventory.total.cpus, MilliCpus{1000LL * e.pus});
  EXPECT_EQ(inventory.total.mem, Bytes{e.mem_a_node * e.nodes});
  ASSERT_EQ(static_cast<int>(inventory.total.numa.size()), e.nodes);
  for (const NumaAmount& node : inventory.total.numa) {
    EXPECT_EQ(node.cpus, MilliCpus{1000LL * e.pus / e.nodes});
    EXPECT_EQ(node.mem, Bytes{e.mem_a_node});
  }
  // It fits through the wire as it is.
  const auto back = wire::decode_inventory(wire::encode_inventory(inventory));
  ASSERT_TRUE(back) << back.error().text();
  EXPECT_EQ(*back, inventory);
}

INSTANTIATE_TEST_SUITE_P(
    Topologies, Synthetic,
    ::testing::Values(Expected{"package:2 [numa(memory=17179869184)] core:8 pu:1", 2, 2, 16, 16, 16 * kGi},
                      Expected{"package:2 [numa(memory=17179869184)] core:8 pu:2", 2, 2, 16, 32, 16 * kGi},
                      Expected{"package:2 group:4 [numa(memory=4294967296)] l3:1 core:4 pu:2", 2, 8, 32, 64, 4 * kGi},
                      Expected{"package:1 [numa(memory=1073741824)] core:1 pu:1", 1, 1, 1, 1, kGi},
                      Expected{"[numa(memory=8589934592)] package:4 l3:2 l2:2 core:1 pu:4", 4, 1, 16, 64, 8 * kGi}));

TEST(HwlocTest, AMemorylessNodeHasCoresOnly) {
  const Inventory inventory = probe("synthetic:package:2 [numa(memory=0)] core:2 pu:1");
  ASSERT_EQ(inventory.total.numa.size(), 2u);
  EXPECT_EQ(inventory.total.numa[1].cpus, MilliCpus{2000});
  EXPECT_EQ(inventory.total.numa[1].mem, Bytes{0});
  EXPECT_EQ(inventory.total.mem, Bytes{0});
}

TEST(HwlocTest, ReservesTheFirstThreadsAndTheLowestNodesMemory) {
  const Inventory inventory = probe("synthetic:package:2 [numa(memory=4294967296)] core:2 pu:2", 3, Bytes{5 * kGi});
  EXPECT_EQ(inventory.total.cpus, MilliCpus{5000});
  ASSERT_EQ(inventory.total.numa.size(), 2u);
  EXPECT_EQ(inventory.total.numa[0].cpus, MilliCpus{1000});
  EXPECT_EQ(inventory.total.numa[0].mem, Bytes{0});
  EXPECT_EQ(inventory.total.numa[1].mem, Bytes{3 * kGi});
  AgentInventory agent;
  agent.set(inventory);
  SliceSpec spec;
  spec.id = {FrameworkId("f"), 1};
  spec.resources.cpus = MilliCpus{5000};
  spec.resources.numa = {{0, MilliCpus{1000}, {}}, {1, MilliCpus{4000}, {}}};
  const auto carved = agent.carve(spec);
  ASSERT_TRUE(carved) << carved.error().text();
  EXPECT_EQ(carved->cpuset, (std::vector<std::uint32_t>{3, 4, 5, 6, 7}));  // 0-2 are the system's
}

TEST(HwlocTest, RefusesReservationsThatLeaveNothing) {
  HwlocOptions options;
  options.topology = "synthetic:core:2 pu:1";
  options.reserve_cpus = 2;
  EXPECT_EQ(probe_hwloc(options).error().code(), Code::kInvalid);
  options.reserve_cpus = 0;
  options.reserve_mem = Bytes{1LL << 50};
  EXPECT_EQ(probe_hwloc(options).error().code(), Code::kInvalid);
}

TEST(HwlocTest, SaysWhatIsWrongWithATopology) {
  HwlocOptions options;
  options.topology = "synthetic:core:nonsense";
  EXPECT_NE(probe_hwloc(options).error().text().find("agent.topology"), std::string::npos);
  options.topology = "/nonexistent.xml";
  EXPECT_NE(probe_hwloc(options).error().text().find("/nonexistent.xml"), std::string::npos);
}

// `hwloc-calc -i tests/data/topology/two_packages.xml machine:0 -N TYPE` says: package 2, numanode 2, L3 4, core 16, pu 32.
TEST(HwlocTest, ReadsAnXmlFile) {
  const Inventory inventory = probe("tests/data/topology/two_packages.xml");
  EXPECT_EQ(count(inventory.topology, "package"), 2);
  EXPECT_EQ(count(inventory.topology, "numa"), 2);
  EXPECT_EQ(count(inventory.topology, "l3"), 4);
  EXPECT_EQ(count(inventory.topology, "core"), 16);
  EXPECT_EQ(count(inventory.topology, "pu"), 32);
  EXPECT_EQ(inventory.total.mem, Bytes{32 * kGi});
}

std::string output_of(const std::string& command) {
  std::string text;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return text;
  std::array<char, 256> buffer;
  while (std::fgets(buffer.data(), buffer.size(), pipe) != nullptr) text += buffer.data();
  return pclose(pipe) == 0 ? text : std::string();
}

TEST(HwlocTest, ThisHostHasTheProcessorsThatTheSystemSays) {
  const Inventory inventory = probe("");
  EXPECT_EQ(inventory.total.cpus, MilliCpus{1000LL * std::strtol(output_of("nproc").c_str(), nullptr, 10)});
  EXPECT_EQ(inventory.labels.at("arch") + "\n", output_of("uname -m"));
  EXPECT_EQ(inventory.labels.at("kernel") + "\n", output_of("uname -r"));
  std::ifstream file("/proc/meminfo");
  std::stringstream text;
  text << file.rdbuf();
  const auto meminfo = parse_meminfo(text.str());
  ASSERT_TRUE(meminfo);
  EXPECT_LE(inventory.total.mem, *meminfo);
  EXPECT_GT(inventory.total.mem, Bytes{0});
}

TEST(HwlocTest, TakesTheSmallestMemoryAndSaysSo) {
  HwlocOptions options;
  options.meminfo = Bytes{1LL << 60};
  options.cgroup_limit = Bytes{64LL << 20};
  const auto small = probe_hwloc(options);
  ASSERT_TRUE(small);
  EXPECT_EQ(small->total.mem, Bytes{64LL << 20});
  std::int64_t sum = 0;
  for (const NumaAmount& node : small->total.numa) sum += node.mem.value;
  EXPECT_EQ(sum, 64LL << 20);
  ASSERT_EQ(small->notes.size(), 1u);
  EXPECT_NE(small->notes[0].find("our cgroup 64MiB; using 64MiB"), std::string::npos) << small->notes[0];
}

TEST(HwlocTest, FindsTheSmallestLimitOnTheWayUp) {
  char pattern[] = "/tmp/bourse-cgroup-XXXXXX";
  ASSERT_NE(mkdtemp(pattern), nullptr);
  const std::string mount = pattern;
  auto put = [&](const std::string& dir, const std::string& file, const std::string& text) {
    std::string path = mount;
    std::stringstream parts(dir);
    for (std::string part; std::getline(parts, part, '/');) mkdir((path += "/" + part).c_str(), 0700);
    std::ofstream(path + "/" + file) << text;
  };
  put("memory/a/b", "memory.limit_in_bytes", "9223372036854771712\n");
  put("memory/a", "memory.limit_in_bytes", "5000000\n");
  put("a", "memory.max", "max\n");
  const auto v1 = cgroup_memory_limit("9:cpu:/\n4:memory:/a/b\n0::/\n", mount);
  EXPECT_TRUE(v1);
  EXPECT_EQ(v1 ? *v1 : Bytes{}, Bytes{5000000});
  EXPECT_EQ(cgroup_memory_limit("0::/a\n", mount).error().code(), Code::kNotFound);
  put("a", "memory.max", "70000\n");
  const auto v2 = cgroup_memory_limit("0::/a\n", mount);
  EXPECT_TRUE(v2);
  EXPECT_EQ(v2 ? *v2 : Bytes{}, Bytes{70000});
  EXPECT_EQ(std::system(("rm -rf " + mount).c_str()), 0);
}

}  // namespace
}  // namespace bourse
