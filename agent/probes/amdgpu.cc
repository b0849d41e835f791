// AMD's compute driver: the topology that KFD publishes. A node with simd_count is a GPU; CPUs are nodes as well.
#include <map>

#include "agent/probes/accelerators.h"

namespace bourse {
namespace {

const std::string kNodes = "/sys/class/kfd/kfd/topology/nodes";
constexpr std::uint64_t kHeapPublic = 1, kHeapPrivate = 2;  // frame buffer, visible to the host or not
constexpr std::uint64_t kLinkXgmi = 11;
constexpr std::int64_t kMiBytes = 1024LL * 1024;

std::map<std::string, std::uint64_t> properties(const Rooted& files, const std::string& path) {
  std::map<std::string, std::uint64_t> out;
  const auto text = files.text(path);
  if (!text) return out;
  const std::vector<std::string> words = words_of(*text);
  for (std::size_t i = 0; i + 1 < words.size(); i += 2) out[words[i]] = std::strtoull(words[i + 1].c_str(), nullptr, 10);
  return out;
}

// 90010 is gfx90a: two decimal digits each for minor and stepping, the stepping written in hexadecimal.
std::string target_name(std::uint64_t version) {
  if (version == 0) return {};
  return "gfx" + std::to_string(version / 10000) + accel::hex(version / 100 % 100, 1) + accel::hex(version % 100, 1);
}

}  // namespace

Result<ProbeReport> run_amdgpu(const ProbeInput& input) {
  const Rooted files = accel::files_of(input);
  ProbeReport report;
  struct Card {
    std::string node;
    Device device;
  };
  std::map<std::uint64_t, Card> cards;  // by KFD's node number, which is also the order that its libraries count in
  for (const std::string& node : files.names(kNodes)) {
    const auto number = whole_number(node);
    if (!number) continue;
    auto p = properties(files, kNodes + "/" + node + "/properties");
    if (p["simd_count"] == 0 || files.number(kNodes + "/" + node + "/gpu_id").value_or(0) == 0) continue;
    Device card;
    card.kind = "gpu/amd";
    card.vendor = "AMD";
    card.model = files.text(kNodes + "/" + node + "/name").value_or("");
    card.pci = accel::hex(p["domain"], 4) + ":" + accel::hex(p["location_id"] >> 8 & 0xff, 2) + ":" +
               accel::hex(p["location_id"] >> 3 & 0x1f, 2) + "." + std::to_string(p["location_id"] & 7);
    card.numa = accel::numa_of(files, card.pci);
    const bool unique = p["unique_id"] != 0;
    card.id = DeviceId(unique ? "GPU-" + accel::hex(p["unique_id"], 16) : card.pci);
    std::uint64_t memory = 0;
    for (const std::string& bank : files.names(kNodes + "/" + node + "/mem_banks")) {
      auto b = properties(files, kNodes + "/" + node + "/mem_banks/" + bank + "/properties");
      if (b["heap_type"] == kHeapPublic || b["heap_type"] == kHeapPrivate) memory += b["size_in_bytes"];
    }
    if (memory > 0) card.counters.set("mem", static_cast<std::int64_t>(memory) / kMiBytes);
    if (const std::string target = target_name(p["gfx_target_version"]); !target.empty()) card.attributes["type"] = target;
    if (p["simd_per_cu"] > 0) card.attributes["compute_units"] = std::to_string(p["simd_count"] / p["simd_per_cu"]);
    card.attributes["env.ROCR_VISIBLE_DEVICES"] = unique ? card.id.str() : std::to_string(cards.size());
    accel::add_nodes(files, card, {"/dev/dri/renderD" + std::to_string(p["drm_render_minor"]), "/dev/kfd"});
    if (!files.exists("/dev/kfd")) accel::unhealthy(card, "/dev/kfd is not there");
    cards[static_cast<std::uint64_t>(*number)] = {node, std::move(card)};
  }
  for (auto& [number, card] : cards) {
    for (const std::string& link : files.names(kNodes + "/" + card.node + "/io_links")) {
      auto l = properties(files, kNodes + "/" + card.node + "/io_links/" + link + "/properties");
      const auto to = cards.find(l["node_to"]);
      if (l["type"] == kLinkXgmi && to != cards.end()) card.device.links.push_back(to->second.device.id);
    }
  }
  for (auto& [number, card] : cards) accel::add(report, std::move(card.device), kNodes + "/" + card.node);
  return report;
}

}  // namespace bourse
