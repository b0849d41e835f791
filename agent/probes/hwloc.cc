#include "agent/probes/hwloc.h"

#include <hwloc.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <vector>

#include "common/world/files.h"

namespace bourse {
namespace {

constexpr std::string_view kSynthetic = "synthetic:";
constexpr std::int64_t kMilliPerPu = 1000;
// Values above this are "no limit" in cgroup v1, which writes the largest page-aligned number.
constexpr std::int64_t kNoCgroupLimit = INT64_C(1) << 60;

struct Destroy {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, Destroy>;

bool has_processors(const std::string& root) { return access((root + "/sys/devices/system/cpu").c_str(), F_OK) == 0; }

Result<Topology> load(const std::string& from, const std::string& root) {
  // hwloc's own way to look at another root; read by hwloc_topology_load. The helper has one thread and one probe.
  if (from.empty() && root != "/" && has_processors(root))
    setenv("HWLOC_FSROOT", root.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return errno_error("hwloc_topology_init");
  Topology topology(raw);
  if (from.compare(0, kSynthetic.size(), kSynthetic) == 0) {
    if (hwloc_topology_set_synthetic(raw, from.c_str() + kSynthetic.size()) != 0)
      return Error(Code::kInvalid,
                   "agent.topology: hwloc does not understand the description '" + from.substr(kSynthetic.size()) + "'");
  } else if (!from.empty()) {
    if (hwloc_topology_set_xml(raw, from.c_str()) != 0)
      return Error(Code::kInvalid, "agent.topology: " + from + " cannot be read as an hwloc XML file");
  }
  hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  hwloc_topology_set_icache_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_NONE);
  if (hwloc_topology_load(raw) != 0)
    return from.empty() ? errno_error("hwloc_topology_load")
                        : Error(Code::kInvalid, "agent.topology: " + from + " is not a topology that hwloc can load");
  return topology;
}

const char* type_text(hwloc_obj_type_t type) {
  switch (type) {
    case HWLOC_OBJ_MACHINE:
      return "machine";
    case HWLOC_OBJ_PACKAGE:
      return "package";
    case HWLOC_OBJ_DIE:
      return "die";
    case HWLOC_OBJ_CORE:
      return "core";
    case HWLOC_OBJ_PU:
      return "pu";
    case HWLOC_OBJ_L1CACHE:
      return "l1";
    case HWLOC_OBJ_L2CACHE:
      return "l2";
    case HWLOC_OBJ_L3CACHE:
      return "l3";
    case HWLOC_OBJ_L4CACHE:
      return "l4";
    case HWLOC_OBJ_L5CACHE:
      return "l5";
    case HWLOC_OBJ_NUMANODE:
      return "numa";
    case HWLOC_OBJ_PCI_DEVICE:
      return "pci";
    default:
      return "group";
  }
}

std::uint32_t index_of(hwloc_obj_t obj) { return obj->os_index == HWLOC_UNKNOWN_INDEX ? obj->logical_index : obj->os_index; }

TopologyNode numa_node(hwloc_obj_t obj) {
  TopologyNode node;
  node.type = "numa";
  node.index = index_of(obj);
  node.amount = static_cast<std::int64_t>(obj->attr->numanode.local_memory);
  return node;
}

void numa_nodes(hwloc_obj_t memory, std::vector<TopologyNode>& out) {
  for (; memory != nullptr; memory = memory->next_sibling) {
    if (memory->type == HWLOC_OBJ_NUMANODE) out.push_back(numa_node(memory));
    numa_nodes(memory->memory_first_child, out);  // below a memory-side cache
  }
}

void add_pci(hwloc_obj_t io, std::vector<TopologyNode>& out) {
  for (; io != nullptr; io = io->next_sibling) {
    if (io->type == HWLOC_OBJ_PCI_DEVICE) {
      const auto& pci = io->attr->pcidev;
      char text[32];
      TopologyNode node;
      node.type = "pci";
      std::snprintf(text, sizeof text, "%04x:%02x:%02x.%01x", static_cast<unsigned>(pci.domain), pci.bus, pci.dev, pci.func);
      node.name = text;
      std::snprintf(text, sizeof text, "%04x:%04x", pci.vendor_id, pci.device_id);
      node.attributes["id"] = text;
      std::snprintf(text, sizeof text, "%04x", pci.class_id);
      node.attributes["class"] = text;
      for (hwloc_obj_t os = io->io_first_child; os != nullptr; os = os->next_sibling)
        if (os->type == HWLOC_OBJ_OS_DEVICE && os->name != nullptr)
          node.attributes["os:" + std::string(os->name)] = os->subtype ? os->subtype : "";
      out.push_back(std::move(node));
    }
    add_pci(io->io_first_child, out);  // bridges are not levels of ours
  }
}

// hwloc hangs memory beside the cores it is near; ours is one tree, so the (first) NUMA node of an object holds its cores.
TopologyNode convert(hwloc_obj_t obj, bool has_numa) {
  TopologyNode node;
  node.type = type_text(obj->type);
  node.index = index_of(obj);
  if (obj->type == HWLOC_OBJ_PACKAGE)
    if (const char* model = hwloc_obj_get_info_by_name(obj, "CPUModel"); model != nullptr) node.name = model;
  if (hwloc_obj_type_is_cache(obj->type)) node.amount = static_cast<std::int64_t>(obj->attr->cache.size);
  std::vector<TopologyNode> numa;
  numa_nodes(obj->memory_first_child, numa);
  if (obj->type == HWLOC_OBJ_PU && !has_numa) {
    const int near = obj->nodeset != nullptr ? hwloc_bitmap_first(obj->nodeset) : -1;
    node.attributes["numa"] = std::to_string(std::max(near, 0));
  }
  std::vector<TopologyNode> children;
  for (hwloc_obj_t child = obj->first_child; child != nullptr; child = child->next_sibling)
    children.push_back(convert(child, has_numa || !numa.empty()));
  add_pci(obj->io_first_child, children);
  if (numa.empty()) {
    node.children = std::move(children);
  } else {
    numa.front().children = std::move(children);
    node.children = std::move(numa);
  }
  if (obj->type == HWLOC_OBJ_MACHINE) {
    node.index = 0;
    node.amount = static_cast<std::int64_t>(obj->total_memory);
  }
  return node;
}

// Which PU belongs to which kind of core, slowest first; empty where all are the same.
std::map<unsigned, int> efficiencies(hwloc_topology_t topology) {
  std::map<unsigned, int> out;
  const int kinds = hwloc_cpukinds_get_nr(topology, 0);
  if (kinds < 2) return out;
  hwloc_bitmap_t set = hwloc_bitmap_alloc();
  for (int kind = 0; kind < kinds; ++kind) {
    int efficiency = -1;
    if (hwloc_cpukinds_get_info(topology, static_cast<unsigned>(kind), set, &efficiency, nullptr, nullptr, 0) != 0) continue;
    unsigned pu = 0;
    hwloc_bitmap_foreach_begin(pu, set) out[pu] = efficiency < 0 ? kind : efficiency;
    hwloc_bitmap_foreach_end();
  }
  hwloc_bitmap_free(set);
  return out;
}

void mark_efficiency(TopologyNode& node, const std::map<unsigned, int>& of_pu) {
  for (TopologyNode& child : node.children) {
    mark_efficiency(child, of_pu);
    if (child.type == "pu") {
      if (const auto it = of_pu.find(child.index); it != of_pu.end()) child.attributes["efficiency"] = std::to_string(it->second);
    }
  }
  if (node.type == "core" && !node.children.empty()) {
    const auto it = node.children.front().attributes.find("efficiency");
    if (it != node.children.front().attributes.end()) node.attributes["efficiency"] = it->second;
  }
}

struct Totals {
  std::map<std::uint32_t, NumaAmount> nodes;
  std::vector<TopologyNode*> pus;  // in the order of the tree: threads of a core are neighbours
  std::vector<std::uint32_t> pu_node;
};

void count(TopologyNode& node, std::uint32_t numa, Totals& totals) {
  if (node.type == "numa") {
    numa = node.index;
    totals.nodes[numa].node = numa;
    totals.nodes[numa].mem.value += node.amount;
  }
  if (node.type == "pu") {
    std::uint32_t near = numa;
    if (const auto it = node.attributes.find("numa"); it != node.attributes.end())
      near = static_cast<std::uint32_t>(std::strtoul(it->second.c_str(), nullptr, 10));
    totals.nodes[near].node = near;
    totals.nodes[near].cpus.value += kMilliPerPu;
    totals.pus.push_back(&node);
    totals.pu_node.push_back(near);
  }
  for (TopologyNode& child : node.children) count(child, numa, totals);
}

// Shrinks memory to `limit`, each node in proportion; what integer division leaves goes to the first.
void shrink(Totals& totals, std::int64_t sum, std::int64_t limit) {
  std::int64_t given = 0;
  for (auto& [index, node] : totals.nodes) {
    node.mem.value = static_cast<std::int64_t>(static_cast<__int128_t>(node.mem.value) * limit / sum);
    given += node.mem.value;
  }
  for (auto& [index, node] : totals.nodes) {
    if (node.mem.value == 0) continue;
    node.mem.value += limit - given;
    break;
  }
}

Result<> reserve(Totals& totals, const HwlocOptions& options) {
  if (options.reserve_cpus < 0 || options.reserve_cpus >= static_cast<std::int64_t>(totals.pus.size()))
    return Error(Code::kInvalid, "agent.reserve_cpus = " + std::to_string(options.reserve_cpus) +
                                     " leaves nothing of this host's " + std::to_string(totals.pus.size()) + " cpus");
  for (std::size_t i = 0; i < static_cast<std::size_t>(options.reserve_cpus); ++i) {
    totals.pus[i]->attributes["reserved"] = "1";
    totals.nodes[totals.pu_node[i]].cpus.value -= kMilliPerPu;
  }
  std::int64_t left = options.reserve_mem.value;
  for (auto& [index, node] : totals.nodes) {
    const std::int64_t take = std::min(left, node.mem.value);
    node.mem.value -= take;
    left -= take;
  }
  if (left > 0)
    return Error(Code::kInvalid, "agent.reserve_mem = " + format_size(options.reserve_mem) + " is more than this host has");
  return {};
}

}  // namespace

Result<Bytes> parse_meminfo(const std::string& text) {
  const std::size_t at = text.find("MemTotal:");
  if (at == std::string::npos) return Error(Code::kNotFound, "/proc/meminfo has no MemTotal");
  const std::int64_t kib = std::strtoll(text.c_str() + at + 9, nullptr, 10);
  if (kib <= 0) return Error(Code::kInvalid, "MemTotal in /proc/meminfo is not a number");
  return Bytes{kib * 1024};
}

Result<Bytes> cgroup_memory_limit(const std::string& self, const std::string& mount) {
  std::int64_t least = kNoCgroupLimit;
  auto look = [&](const std::string& root, std::string path, const std::string& file) {
    for (;;) {
      if (auto text = read_file(root + path + "/" + file); text) {
        const std::int64_t limit = std::strtoll(text->c_str(), nullptr, 10);  // "max" reads as 0
        if (limit > 0) least = std::min(least, limit);
      }
      const std::size_t slash = path.rfind('/');
      if (path.empty() || slash == std::string::npos) return;
      path.resize(slash);
    }
  };
  std::size_t begin = 0;
  while (begin < self.size()) {
    const std::size_t end = std::min(self.find('\n', begin), self.size());
    const std::string line = self.substr(begin, end - begin);
    begin = end + 1;
    const std::size_t one = line.find(':');
    const std::size_t two = one == std::string::npos ? one : line.find(':', one + 1);
    if (two == std::string::npos) continue;
    const std::string controllers = "," + line.substr(one + 1, two - one - 1) + ",";
    std::string path = line.substr(two + 1);
    if (path == "/") path.clear();
    if (controllers == ",,") {
      look(mount, path, "memory.max");
      look(mount + "/unified", path, "memory.max");
    } else if (controllers.find(",memory,") != std::string::npos) {
      look(mount + "/memory", path, "memory.limit_in_bytes");
    }
  }
  if (least >= kNoCgroupLimit) return Error(Code::kNotFound, "no memory limit");
  return Bytes{least};
}

Result<Inventory> probe_hwloc(const HwlocOptions& options) {
  const Topology topology = BOURSE_TRY(load(options.topology, options.root));
  Inventory inventory;
  inventory.topology = convert(hwloc_get_root_obj(topology.get()), false);
  if (const auto of_pu = efficiencies(topology.get()); !of_pu.empty()) mark_efficiency(inventory.topology, of_pu);
  Totals totals;
  count(inventory.topology, 0, totals);

  std::int64_t mem = 0;
  for (const auto& [index, node] : totals.nodes) mem += node.mem.value;
  if (options.topology.empty() && (options.root == "/" || !has_processors(options.root))) {
    std::optional<Bytes> kernel = options.meminfo, cgroup = options.cgroup_limit;
    if (!kernel)
      if (auto text = read_file("/proc/meminfo"); text)
        if (auto total = parse_meminfo(*text); total) kernel = *total;
    if (!cgroup)
      if (auto text = read_file("/proc/self/cgroup"); text)
        if (auto limit = cgroup_memory_limit(*text, "/sys/fs/cgroup"); limit) cgroup = *limit;
    std::int64_t least = mem;
    std::string note = "memory: hwloc " + format_size(Bytes{mem});
    if (kernel) note += ", kernel " + format_size(*kernel), least = std::min(least, kernel->value);
    if (cgroup) note += ", our cgroup " + format_size(*cgroup), least = std::min(least, cgroup->value);
    const bool differ = (kernel && kernel->value != mem) || (cgroup && cgroup->value < mem);
    if (mem > 0 && least < mem) shrink(totals, mem, least);
    if (differ) inventory.notes.push_back(note + "; using " + format_size(Bytes{least}));
  }
  BOURSE_TRY(reserve(totals, options));

  for (const auto& [index, node] : totals.nodes) {
    inventory.total.cpus.value += node.cpus.value;
    inventory.total.mem.value += node.mem.value;
    inventory.total.numa.push_back(node);
  }
  struct utsname names;
  if (uname(&names) == 0) {
    inventory.labels["arch"] = names.machine;
    inventory.labels["kernel"] = names.release;
  }
  // A topology of another machine says what that one is.
  if (const char* arch = hwloc_obj_get_info_by_name(hwloc_get_root_obj(topology.get()), "Architecture"); arch != nullptr)
    inventory.labels["arch"] = arch;
  return inventory;
}

Result<ProbeReport> run_hwloc(const ProbeInput& input) {
  HwlocOptions options;
  options.root = input.root;
  options.topology = input.option("topology");
  options.reserve_cpus = std::strtoll(input.option("reserve_cpus").c_str(), nullptr, 10);
  if (const std::string text = input.option("reserve_mem"); !text.empty()) options.reserve_mem = BOURSE_TRY(parse_size(text));
  ProbeReport report;
  report.inventory = BOURSE_TRY(probe_hwloc(options));
  std::string from = options.topology;
  if (from.empty()) from = options.root == "/" || !has_processors(options.root) ? "this host" : options.root;
  report.sources[""] = "libhwloc " + std::to_string(hwloc_get_api_version() >> 16) + "." +
                       std::to_string(hwloc_get_api_version() >> 8 & 0xff) + " on " + from;
  if (options.topology.empty()) report.sources["total/mem"] = "smallest of libhwloc, /proc/meminfo and our own cgroup";
  report.sources["labels/arch"] = report.sources["labels/kernel"] = "uname";
  return report;
}

}  // namespace bourse
