#include "agent/isolators/lent_nodes.h"

#include <cstdlib>

#include "agent/isolators/cgroup_files.h"

namespace bourse {
namespace {

// KiB, of lines like "Node 0 MemFree:  123 kB"; -1: it is not there.
std::int64_t node_value(const std::string& text, const std::string& key) {
  const auto at = text.find(" " + key + ":");
  return at == std::string::npos ? -1 : std::atoll(text.c_str() + at + key.size() + 2);
}

}  // namespace

std::vector<std::uint32_t> LentNodes::with_memory() const {
  auto text = cgroup::read_file(directory_ + "/has_memory");  // others have cores only
  if (!text) text = cgroup::read_file(directory_ + "/online");
  return text ? cgroup::parse_list(*text) : std::vector<std::uint32_t>{};
}

std::vector<std::uint32_t> LentNodes::roomy() {
  const auto nodes = with_memory();
  std::vector<std::uint32_t> with_room;
  for (const std::uint32_t node : nodes) {
    const auto text = cgroup::read_file(directory_ + "/node" + std::to_string(node) + "/meminfo");
    if (!text) return {};
    const std::int64_t total = node_value(*text, "MemTotal");
    // What the kernel can give at once: page cache goes first.
    const std::int64_t room =
        node_value(*text, "MemFree") + node_value(*text, "Active(file)") + node_value(*text, "Inactive(file)");
    if (room < total / kShortPart) short_.insert(node);
    if (room > total / kWellPart) short_.erase(node);
    if (short_.count(node) == 0) with_room.push_back(node);
  }
  return with_room.size() == nodes.size() ? std::vector<std::uint32_t>{} : with_room;
}

}  // namespace bourse
