// What a host has: topology, devices, inventory.
#include "common/wire/codec.h"

namespace bourse::wire {

using Mode = Device::Mode;
static_assert(same(fb::DeviceMode::Exclusive, Mode::kExclusive) && same(fb::DeviceMode::Counters, Mode::kCounters) &&
              same(fb::DeviceMode::Template, Mode::kTemplate) && same(fb::DeviceMode::TimeSliced, Mode::kTimeSliced) &&
              same(fb::DeviceMode::MAX, Mode::kTimeSliced));

static Offset<fb::TopologyNode> write(Builder& b, const TopologyNode& node) {
  const auto children = put_list(b, node.children);
  const auto type = put(b, node.type);
  const auto name = put(b, node.name);
  const auto attributes = put_map(b, node.attributes);
  return fb::CreateTopologyNode(b, type, node.index, name, node.amount, attributes, children);
}

static bool read_node(In& in, const fb::TopologyNode& table, TopologyNode& node, std::size_t depth) {
  if (depth > kTopologyDepthMax) {
    return in.fail(Code::kLimit, "children", "a topology may be " + std::to_string(kTopologyDepthMax) + " levels deep");
  }
  node.index = table.index();
  if (!in.table() || !in.text(table.type(), node.type, "type") || !in.text(table.name(), node.name, "name") ||
      !in.amount(table.amount(), node.amount, "amount") || !in.map(table.attributes(), node.attributes, "attributes")) {
    return false;
  }
  if (table.children() == nullptr) return true;
  if (!in.count(table.children()->size(), sizeof(flatbuffers::uoffset_t), "children")) return false;
  for (flatbuffers::uoffset_t i = 0; i < table.children()->size(); ++i) {
    if (!read_node(in, *table.children()->Get(i), node.children.emplace_back(), depth + 1)) return in.at("children", i);
  }
  return true;
}

struct Profile {
  std::string name;
  Counters consumes;
};

static bool read(In& in, const fb::DeviceProfile& table, Profile& profile) {
  if (!in.text(table.name(), profile.name, "name")) return false;
  if (profile.name.empty()) return in.fail(Code::kCorrupt, "name", "is missing");
  return read_counters(in, table.consumes(), profile.consumes, "consumes");
}

static bool read_profiles(In& in, const Vector<Offset<fb::DeviceProfile>>* list, std::map<std::string, Counters>& profiles) {
  std::vector<Profile> read;
  if (!read_list(in, list, read, "profiles")) return false;
  for (Profile& profile : read) {
    if (!profiles.empty() && profiles.rbegin()->first >= profile.name) {
      return in.fail(Code::kCorrupt, "profiles", "are not in order");
    }
    profiles.emplace_hint(profiles.end(), std::move(profile.name), std::move(profile.consumes));
  }
  return true;
}

static Offset<fb::Device> write(Builder& b, const Device& device) {
  std::vector<Offset<fb::DeviceProfile>> profiles;
  for (const auto& [name, consumes] : device.profiles) {
    const auto text = put(b, name);
    profiles.push_back(fb::CreateDeviceProfile(b, text, put_counters(b, consumes)));
  }
  const auto profile_list = profiles.empty() ? Offset<Vector<Offset<fb::DeviceProfile>>>() : b.CreateVector(profiles);
  const auto id = put(b, device.id);
  const auto kind = put(b, device.kind);
  const auto vendor = put(b, device.vendor);
  const auto model = put(b, device.model);
  const auto pci = put(b, device.pci);
  const auto counters = put_counters(b, device.counters);
  const auto attributes = put_map(b, device.attributes);
  const auto nodes = put_texts(b, device.nodes);
  const auto links = put_names(b, device.links);
  return fb::CreateDevice(b, id, kind, vendor, model, pci, device.numa, device.generation.value,
                          static_cast<fb::DeviceMode>(device.mode), device.healthy, counters, profile_list, attributes, nodes,
                          links);
}

static bool read(In& in, const fb::Device& table, Device& device) {
  device.numa = table.numa();
  device.generation = Generation(table.generation());
  device.healthy = table.healthy();
  if (device.numa < -1) return in.fail(Code::kCorrupt, "numa", std::to_string(device.numa) + " is not a node");
  return in.name(table.id(), device.id, "id") && in.name(table.kind(), device.kind, "kind") &&
         in.text(table.vendor(), device.vendor, "vendor") && in.text(table.model(), device.model, "model") &&
         in.text(table.pci(), device.pci, "pci") && in.enumerator(table.mode(), device.mode, "mode") &&
         read_counters(in, table.counters(), device.counters, "counters") && read_profiles(in, table.profiles(), device.profiles) &&
         in.map(table.attributes(), device.attributes, "attributes") && in.texts(table.nodes(), device.nodes, "nodes") &&
         in.names(table.links(), device.links, "links");
}

Offset<fb::Inventory> write(Builder& b, const Inventory& inventory) {
  const auto topology = write(b, inventory.topology);
  const auto devices = put_list(b, inventory.devices);
  const auto total = put_resources(b, inventory.total);
  const auto labels = put_map(b, inventory.labels);
  const auto notes = put_texts(b, inventory.notes);
  return fb::CreateInventory(b, inventory.version.value, topology, devices, total, labels, notes);
}

bool read(In& in, const fb::Inventory& table, Inventory& inventory) {
  inventory.version = Version(table.version());
  if (table.topology() != nullptr && !read_node(in, *table.topology(), inventory.topology, 1)) return in.at("topology");
  if (!read_list(in, table.devices(), inventory.devices, "devices")) return false;
  for (std::size_t i = 1; i < inventory.devices.size(); ++i) {
    if (inventory.devices[i - 1].id >= inventory.devices[i].id) return in.fail(Code::kCorrupt, "devices", "are not in order");
  }
  return read_part(in, table.total(), inventory.total, "total") && in.map(table.labels(), inventory.labels, "labels") &&
         in.texts(table.notes(), inventory.notes, "notes");
}

}  // namespace bourse::wire
