// Hellos and what keeps a session.
#include "common/wire/bodies.h"

namespace bourse::wire {

static Offset<fb::HelloSlice> write(Builder& b, const AgentHello::Slice& slice) {
  const auto spec = write(b, slice.spec);
  const auto tasks = put_names(b, slice.tasks);
  return fb::CreateHelloSlice(b, spec, slice.held, tasks);
}

static bool read(In& in, const fb::HelloSlice& table, AgentHello::Slice& slice) {
  slice.held = table.held();
  return read_must(in, table.spec(), slice.spec, "spec") && in.names(table.tasks(), slice.tasks, "tasks");
}

Offset<fb::AgentHello> write(Builder& b, const AgentHello& body) {
  const auto agent = put(b, body.agent);
  const auto boot_id = put(b, body.boot_id);
  const auto inventory = write(b, body.inventory);
  const auto slices = put_list(b, body.slices);
  return fb::CreateAgentHello(b, body.version, agent, body.incarnation.value, body.epoch_seen.value, boot_id, inventory, slices,
                              body.degraded);
}

bool read(In& in, const fb::AgentHello& table, AgentHello& body) {
  body.version = table.version();
  body.incarnation = Incarnation(table.incarnation());
  body.epoch_seen = Epoch(table.epoch_seen());
  body.degraded = table.degraded();
  return in.name(table.agent(), body.agent, "agent") && in.text(table.boot_id(), body.boot_id, "boot_id") &&
         read_part(in, table.inventory(), body.inventory, "inventory") && read_list(in, table.slices(), body.slices, "slices");
}

Offset<fb::FrameworkHello> write(Builder& b, const FrameworkHello& body) {
  const auto framework = put(b, body.framework);
  const auto role = put(b, body.role);
  const auto slices = put_list(b, body.slices);
  return fb::CreateFrameworkHello(b, body.version, framework, role, body.incarnation.value, body.failover_timeout.count(), slices,
                                  body.watch_agents);
}

bool read(In& in, const fb::FrameworkHello& table, FrameworkHello& body) {
  body.version = table.version();
  body.incarnation = Incarnation(table.incarnation());
  body.watch_agents = table.watch_agents();
  return in.name(table.framework(), body.framework, "framework") && in.optional_name(table.role(), body.role, "role") &&
         in.duration(table.failover_timeout_us(), body.failover_timeout, "failover_timeout") &&
         read_list(in, table.slices(), body.slices, "slices");
}

Offset<fb::ReaderHello> write(Builder& b, const ReaderHello& body) {
  const auto name = put(b, body.name);
  return fb::CreateReaderHello(b, body.version, name);
}

bool read(In& in, const fb::ReaderHello& table, ReaderHello& body) {
  body.version = table.version();
  return in.optional_name(table.name(), body.name, "name");
}

Offset<fb::Welcome> write(Builder& b, const Welcome& body) {
  const auto cluster = put(b, body.cluster);
  const auto release = put_list(b, body.release);
  const auto masters = put_texts(b, body.masters);
  const auto readers = put(b, body.readers);
  return fb::CreateWelcome(b, body.version, cluster, body.heartbeat.count(), body.peer_timeout.count(), release, masters,
                           body.fence.count(), readers);
}

bool read(In& in, const fb::Welcome& table, Welcome& body) {
  body.version = table.version();
  return in.text(table.cluster(), body.cluster, "cluster") && in.duration(table.heartbeat_us(), body.heartbeat, "heartbeat") &&
         in.duration(table.peer_timeout_us(), body.peer_timeout, "peer_timeout") &&
         in.duration(table.fence_us(), body.fence, "fence") && read_list(in, table.release(), body.release, "release") &&
         in.texts(table.masters(), body.masters, "masters") && in.text(table.readers(), body.readers, "readers") &&
         (body.masters.size() <= kMastersMax ||
          in.fail(Code::kLimit, "masters",
                  std::to_string(body.masters.size()) + " elements; it may have " + std::to_string(kMastersMax)));
}

Offset<fb::Refused> write(Builder& b, const Refused& body) {
  const auto reason = put(b, body.reason);
  const auto leader = put(b, body.leader);
  return fb::CreateRefused(b, static_cast<fb::Code>(body.code), reason, body.not_leading, leader);
}

bool read(In& in, const fb::Refused& table, Refused& body) {
  body.not_leading = table.not_leading();
  return in.enumerator(table.code(), body.code, "code") && in.text(table.reason(), body.reason, "reason") &&
         in.text(table.leader(), body.leader, "leader");
}

Offset<fb::Heartbeat> write(Builder& b, const Heartbeat& body) {
  const auto figures = put_counters(b, body.figures);
  return fb::CreateHeartbeat(b, body.wall.count(), body.reprobe, figures);
}

bool read(In& in, const fb::Heartbeat& table, Heartbeat& body) {
  body.reprobe = table.reprobe();
  return in.duration(table.wall_us(), body.wall, "wall") && read_counters(in, table.figures(), body.figures, "figures");
}

Offset<fb::InventoryUpdate> write(Builder& b, const InventoryUpdate& body) {
  const auto inventory = write(b, body.inventory);
  const auto removed = put_names(b, body.removed);
  return fb::CreateInventoryUpdate(b, inventory, body.base.value, removed);
}

bool read(In& in, const fb::InventoryUpdate& table, InventoryUpdate& body) {
  body.base = Version(table.base());
  return read_must(in, table.inventory(), body.inventory, "inventory") && in.names(table.removed(), body.removed, "removed");
}

Offset<fb::Goodbye> write(Builder& b, const Goodbye& body) { return fb::CreateGoodbye(b, body.forever); }

bool read(In& /*in*/, const fb::Goodbye& table, Goodbye& body) {
  body.forever = table.forever();
  return true;
}

}  // namespace bourse::wire
