// Inventories from libhwloc. Expected numbers come from the descriptions themselves and from hwloc-calc on the same input.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <set>
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

std::string output_of(const std::string& command) {
  std::string text;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return text;
  std::array<char, 256> buffer;
  while (std::fgets(buffer.data(), buffer.size(), pipe) != nullptr) text += buffer.data();
  return pclose(pipe) == 0 ? text : std::string();
}

long number_from(const std::string& command) {
  const std::string text = output_of(command);
  return text.empty() ? -1 : std::strtol(text.c_str(), nullptr, 10);
}

bool have_hwloc_tools() { return !output_of("command -v hwloc-calc && command -v lstopo-no-graphics").empty(); }

void cpus_of(const TopologyNode& node, std::int64_t numa, std::map<std::int64_t, std::set<std::uint32_t>>& out) {
  if (node.type == "numa") numa = node.index;
  if (node.type == "pu") out[numa].insert(node.index);
  for (const TopologyNode& child : node.children) cpus_of(child, numa, out);
}

void pci_of(const TopologyNode& node, std::int64_t numa, std::map<std::string, std::int64_t>& out) {
  if (node.type == "numa") numa = node.index;
  if (node.type == "pci") out[node.name] = numa;
  for (const TopologyNode& child : node.children) pci_of(child, numa, out);
}

// What hwloc's own programs say of the same machine is what we must say.
class AgainstHwlocsTools : public ::testing::TestWithParam<const char*> {};

TEST_P(AgainstHwlocsTools, TheSameObjectsMemoryAndLocality) {
  if (!have_hwloc_tools()) GTEST_SKIP() << "hwloc-calc and lstopo-no-graphics are not installed";
  const std::string from = GetParam();
  const bool file = from.find(".xml") != std::string::npos;
  const Inventory inventory = probe(file ? from : "synthetic:" + from);
  const std::string input = " -i '" + from + "' ";
  for (const auto& [ours, theirs] :
       {std::pair("package", "package"), {"numa", "numanode"}, {"core", "core"}, {"pu", "pu"}, {"l3", "l3"}}) {
    const long expected = number_from("hwloc-calc" + input + "root -N " + theirs + " 2>/dev/null");
    EXPECT_EQ(count(inventory.topology, ours), std::max(expected, 0L)) << theirs;  // below 0: it knows no such level
  }
  EXPECT_EQ(inventory.total.cpus, MilliCpus{1000 * number_from("hwloc-calc" + input + "root -N pu")});
  const long long memory = std::strtoll(
      output_of("lstopo-no-graphics" + input +
                "--of xml | grep -o 'local_memory=\"[0-9]*\"' | tr -dc '0-9\\n' | awk '{s+=$1} END {printf \"%.0f\", s}'")
          .c_str(),
      nullptr, 10);
  EXPECT_EQ(inventory.total.mem, Bytes{memory});
  // The processors of each node.
  std::map<std::int64_t, std::set<std::uint32_t>> cpus;
  cpus_of(inventory.topology, 0, cpus);
  std::stringstream nodes(output_of("hwloc-calc" + input + "root -I numanode --po --sep ' '"));
  for (std::int64_t node = 0; nodes >> node;) {
    std::set<std::uint32_t> expected;
    std::stringstream list(output_of("hwloc-calc" + input + "--pi --po numanode:" + std::to_string(node) + " -I pu --sep ' '"));
    for (std::uint32_t pu = 0; list >> pu;) expected.insert(pu);
    EXPECT_EQ(cpus[node], expected) << "node " << node;
  }
  // And the node of each PCI device.
  std::map<std::string, std::int64_t> pci;
  pci_of(inventory.topology, -1, pci);
  EXPECT_EQ(static_cast<long>(pci.size()), std::max(number_from("hwloc-calc" + input + "root -N pci 2>/dev/null"), 0L));
  for (const auto& [address, node] : pci)
    EXPECT_EQ(node, number_from("hwloc-calc" + input + "pci=" + address + " -I numanode --po")) << address;
  const auto back = wire::decode_inventory(wire::encode_inventory(inventory));
  ASSERT_TRUE(back) << back.error().text();
  EXPECT_EQ(*back, inventory);
}

INSTANTIATE_TEST_SUITE_P(
    Machines, AgainstHwlocsTools,
    ::testing::Values("package:2 [numa(memory=17179869184)] core:8 pu:1",              // two sockets, SMT off
                      "package:2 [numa(memory=17179869184)] core:8 pu:2",              // SMT on
                      "package:2 group:4 [numa(memory=4294967296)] l3:1 core:4 pu:2",  // eight NUMA nodes
                      "[numa(memory=8589934592)] package:4 l3:2 l2:2 core:1 pu:4",     // memory on the machine, 4 threads
                      "package:1 [numa(memory=1073741824)] core:1 pu:1",               // the smallest
                      "package:2 [numa(memory=0)] core:2 pu:1",                        // no memory
                      "tests/data/topology/two_packages.xml", "tests/data/topology/big_little.xml",  //
                      "tests/data/topology/arm_server.xml", "tests/data/topology/gpus_and_nics.xml"),
    [](const auto& each) { return "M" + std::to_string(each.index); });

TEST(HwlocTest, CoresOfDifferentKindsAreTold) {
  const Inventory inventory = probe("tests/data/topology/big_little.xml");
  std::map<std::string, int> cores;
  const std::function<void(const TopologyNode&)> walk = [&](const TopologyNode& node) {
    if (node.type == "core") ++cores[node.attributes.count("efficiency") != 0 ? node.attributes.at("efficiency") : "none"];
    for (const TopologyNode& child : node.children) walk(child);
  };
  walk(inventory.topology);
  // lstopo-no-graphics -i big_little.xml --cpukinds: 0 has cpuset 0xff00 (eight cores), 1 has 0xff (four with two threads).
  EXPECT_EQ(cores, (std::map<std::string, int>{{"0", 8}, {"1", 4}}));
}

TEST(HwlocTest, AMachineFromAFileHasItsOwnArchitecture) {
  EXPECT_EQ(probe("tests/data/topology/arm_server.xml").labels.at("arch"), "aarch64");
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
