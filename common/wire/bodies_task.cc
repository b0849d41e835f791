// What is routed by (agent, framework): launches, kills, statuses. The launch's payload passes as bytes. See "Data path".
#include "common/wire/bodies.h"

namespace bourse::wire {

Offset<fb::Launch> write(Builder& b, const Launch& body) {
  const auto payload = put_bytes(b, body.payload);
  const auto agent = put(b, body.agent);
  const auto slice = write(b, body.slice);
  const auto task = put(b, body.task);
  return fb::CreateLaunch(b, agent, slice, task, payload);
}

bool read(In& in, const fb::Launch& table, Launch& body) {
  return in.name(table.agent(), body.agent, "agent") && read_must(in, table.slice(), body.slice, "slice") &&
         in.name(table.task(), body.task, "task") && in.bytes(table.payload(), body.payload, kMessageBytesMax, "payload");
}

Offset<fb::Kill> write(Builder& b, const Kill& body) {
  const auto agent = put(b, body.agent);
  const auto framework = put(b, body.framework);
  const auto task = put(b, body.task);
  return fb::CreateKill(b, agent, framework, task, body.signal, body.first_process_only, body.grace.count(), body.preempt,
                        body.unstarted_only);
}

bool read(In& in, const fb::Kill& table, Kill& body) {
  body.first_process_only = table.first_process_only();
  body.grace = Duration(table.grace_us());  // below zero has a meaning here
  body.preempt = table.preempt();
  body.unstarted_only = table.unstarted_only();
  return in.name(table.agent(), body.agent, "agent") && in.name(table.framework(), body.framework, "framework") &&
         in.name(table.task(), body.task, "task") && in.signal(table.signal(), body.signal, "signal");
}

// An agent that is asked about a task it never had answers with kNeverStarted and no slice to name.
Offset<fb::StatusUpdate> write(Builder& b, const StatusUpdate& body) {
  const auto agent = put(b, body.agent);
  const auto framework = put(b, body.framework);
  const auto slice = body.slice == SliceId{} ? Offset<fb::SliceId>() : write(b, body.slice);
  const auto status = write(b, body.status);
  return fb::CreateStatusUpdate(b, agent, framework, body.stream.value, body.sequence.value, slice, status, body.first.value);
}

bool read(In& in, const fb::StatusUpdate& table, StatusUpdate& body) {
  body.stream = StreamId(table.stream());
  body.sequence = Sequence(table.sequence());
  body.first = Sequence(table.first());
  return in.name(table.agent(), body.agent, "agent") && in.name(table.framework(), body.framework, "framework") &&
         read_part(in, table.slice(), body.slice, "slice") && read_must(in, table.status(), body.status, "status");
}

Offset<fb::StatusAck> write(Builder& b, const StatusAck& body) {
  const auto agent = put(b, body.agent);
  const auto framework = put(b, body.framework);
  return fb::CreateStatusAck(b, agent, framework, body.stream.value, body.through.value);
}

bool read(In& in, const fb::StatusAck& table, StatusAck& body) {
  body.stream = StreamId(table.stream());
  body.through = Sequence(table.through());
  return in.name(table.agent(), body.agent, "agent") && in.name(table.framework(), body.framework, "framework");
}

Offset<fb::Reconcile> write(Builder& b, const Reconcile& body) {
  const auto agent = put(b, body.agent);
  const auto framework = put(b, body.framework);
  const auto tasks = put_names(b, body.tasks);
  return fb::CreateReconcile(b, agent, framework, tasks);
}

bool read(In& in, const fb::Reconcile& table, Reconcile& body) {
  return in.name(table.agent(), body.agent, "agent") && in.name(table.framework(), body.framework, "framework") &&
         in.names(table.tasks(), body.tasks, "tasks");
}

Offset<fb::DeclareLost> write(Builder& b, const DeclareLost& body) {
  const auto agent = put(b, body.agent);
  const auto framework = put(b, body.framework);
  const auto tasks = put_names(b, body.tasks);
  return fb::CreateDeclareLost(b, agent, framework, tasks);
}

bool read(In& in, const fb::DeclareLost& table, DeclareLost& body) {
  return in.name(table.agent(), body.agent, "agent") && in.name(table.framework(), body.framework, "framework") &&
         in.names(table.tasks(), body.tasks, "tasks");
}

Offset<fb::LaunchRefused> write(Builder& b, const LaunchRefused& body) {
  const auto agent = put(b, body.agent);
  const auto slice = write(b, body.slice);
  const auto task = put(b, body.task);
  const auto reason = put(b, body.reason);
  return fb::CreateLaunchRefused(b, agent, slice, task, static_cast<fb::Code>(body.code), reason);
}

bool read(In& in, const fb::LaunchRefused& table, LaunchRefused& body) {
  return in.name(table.agent(), body.agent, "agent") && read_must(in, table.slice(), body.slice, "slice") &&
         in.name(table.task(), body.task, "task") && in.enumerator(table.code(), body.code, "code") &&
         in.text(table.reason(), body.reason, "reason");
}

}  // namespace bourse::wire
