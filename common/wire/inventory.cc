// What a host has: topology, devices, inventory.
#include "common/wire/codec.h"

namespace bourse::wire {

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

static Offset<fb::Device> write(Builder& b, const Device& device) {
  const auto profile_list = put_profiles(b, device.profiles);
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
  const auto revocable = put_resources(b, inventory.revocable);
  return fb::CreateInventory(b, inventory.version.value, topology, devices, total, labels, notes, revocable);
}

bool read(In& in, const fb::Inventory& table, Inventory& inventory) {
  inventory.version = Version(table.version());
  if (table.topology() != nullptr && !read_node(in, *table.topology(), inventory.topology, 1)) return in.at("topology");
  if (!read_list(in, table.devices(), inventory.devices, "devices")) return false;
  for (std::size_t i = 1; i < inventory.devices.size(); ++i) {
    if (inventory.devices[i - 1].id >= inventory.devices[i].id) return in.fail(Code::kCorrupt, "devices", "are not in order");
  }
  return read_part(in, table.total(), inventory.total, "total") && in.map(table.labels(), inventory.labels, "labels") &&
         in.texts(table.notes(), inventory.notes, "notes") && read_part(in, table.revocable(), inventory.revocable, "revocable");
}

}  // namespace bourse::wire
