// Slices, and what runs in them.
#include "common/wire/codec.h"

namespace bourse::wire {

static_assert(same(fb::TaskKind::Process, TaskKind::kProcess) && same(fb::TaskKind::Container, TaskKind::kContainer) &&
              same(fb::TaskKind::MicroVm, TaskKind::kMicroVm) && same(fb::TaskKind::Kernel, TaskKind::kKernel) &&
              same(fb::TaskKind::MAX, TaskKind::kKernel));
static_assert(same(fb::TaskState::Staging, TaskState::kStaging) && same(fb::TaskState::Running, TaskState::kRunning) &&
              same(fb::TaskState::Exited, TaskState::kExited) && same(fb::TaskState::Signaled, TaskState::kSignaled) &&
              same(fb::TaskState::FailedStart, TaskState::kFailedStart) && same(fb::TaskState::Killed, TaskState::kKilled) &&
              same(fb::TaskState::TimeLimit, TaskState::kTimeLimit) && same(fb::TaskState::OutOfMemory, TaskState::kOutOfMemory) &&
              same(fb::TaskState::Preempted, TaskState::kPreempted) && same(fb::TaskState::Lost, TaskState::kLost) &&
              same(fb::TaskState::UnknownExit, TaskState::kUnknownExit) &&
              same(fb::TaskState::NeverStarted, TaskState::kNeverStarted) && same(fb::TaskState::MAX, TaskState::kNeverStarted));

Offset<fb::SliceId> write(Builder& b, const SliceId& id) {
  const auto framework = put(b, id.framework);
  return fb::CreateSliceId(b, framework, id.number);
}

bool read(In& in, const fb::SliceId& table, SliceId& id) {
  id.number = table.number();
  return in.name(table.framework(), id.framework, "framework");
}

Offset<fb::SliceSpec> write(Builder& b, const SliceSpec& spec) {
  const auto id = write(b, spec.id);
  const auto resources = put_resources(b, spec.resources);
  const auto cpuset = spec.cpuset.empty() ? Offset<Vector<std::uint32_t>>() : b.CreateVector(spec.cpuset);
  const auto role = put(b, spec.role);
  const auto reserved = put(b, spec.reserved);
  const auto group = put(b, spec.group);
  return fb::CreateSliceSpec(b, id, resources, cpuset, spec.gang.value, spec.expiry.count(), role, spec.revocable, reserved,
                             spec.since.count(), group);
}

bool read(In& in, const fb::SliceSpec& table, SliceSpec& spec) {
  spec.gang = GangId(table.gang());
  spec.revocable = table.revocable();
  return read_must(in, table.id(), spec.id, "id") && read_part(in, table.resources(), spec.resources, "resources") &&
         in.numbers(table.cpuset(), spec.cpuset, "cpuset") && in.duration(table.expiry_us(), spec.expiry, "expiry") &&
         in.optional_name(table.role(), spec.role, "role") && in.optional_name(table.reserved(), spec.reserved, "reserved") &&
         in.duration(table.since_us(), spec.since, "since") && in.optional_name(table.group(), spec.group, "group");
}

static Offset<fb::Artifact> write(Builder& b, const Artifact& artifact) {
  const auto bytes = put_bytes(b, artifact.inline_bytes);
  const auto name = put(b, artifact.name);
  const auto digest = put(b, artifact.digest);
  const auto uri = put(b, artifact.uri);
  return fb::CreateArtifact(b, name, digest, bytes, uri);
}

static bool read(In& in, const fb::Artifact& table, Artifact& artifact) {
  return in.name(table.name(), artifact.name, "name") && in.text(table.digest(), artifact.digest, "digest") &&
         in.bytes(table.inline_bytes(), artifact.inline_bytes, kMessageBytesMax, "inline_bytes") &&
         in.text(table.uri(), artifact.uri, "uri");
}

static Offset<Vector<const fb::Rlimit*>> put_rlimits(Builder& b, const std::vector<Rlimit>& rlimits) {
  if (rlimits.empty()) return {};
  std::vector<fb::Rlimit> structs;
  for (const Rlimit& rlimit : rlimits) structs.emplace_back(rlimit.resource, rlimit.soft, rlimit.hard);
  return b.CreateVectorOfStructs(structs);
}

static bool read_rlimits(In& in, const Vector<const fb::Rlimit*>* structs, std::vector<Rlimit>& rlimits) {
  if (structs == nullptr) return true;
  if (!in.count(structs->size(), sizeof(fb::Rlimit), "rlimits")) return false;
  if (!in_place(*structs, alignof(fb::Rlimit))) return in.fail(Code::kCorrupt, "rlimits", "are out of place");
  for (const fb::Rlimit* rlimit : *structs) {
    if (rlimit->resource() < 0) return in.fail(Code::kCorrupt, "rlimits", "resource is below zero");
    rlimits.push_back({rlimit->resource(), rlimit->soft(), rlimit->hard()});
  }
  return true;
}

Offset<fb::TaskSpec> write(Builder& b, const TaskSpec& spec) {
  const auto artifacts = put_list(b, spec.artifacts);
  const auto user = put(b, spec.user);
  const auto credential = put_bytes(b, spec.credential);
  const auto argv = put_texts(b, spec.argv);
  const auto env = put_texts(b, spec.env);
  const auto directory = put(b, spec.directory);
  const auto in_path = put(b, spec.stdin_path);
  const auto out_path = put(b, spec.stdout_path);
  const auto err_path = put(b, spec.stderr_path);
  const auto rlimits = put_rlimits(b, spec.rlimits);
  const auto trace = put(b, spec.trace);
  const auto image = put(b, spec.image);
  const auto mounts = put_texts(b, spec.mounts);
  const auto isolate = put_texts(b, spec.isolate);
  fb::TaskSpecBuilder t(b);
  t.add_time_limit_us(spec.time_limit.count());
  t.add_kill_grace_us(spec.kill_grace.count());
  t.add_warn_before_us(spec.warn_before.count());
  t.add_user(user);
  t.add_uid(spec.uid);
  t.add_gid(spec.gid);
  t.add_credential(credential);
  t.add_argv(argv);
  t.add_env(env);
  t.add_directory(directory);
  t.add_stdin_path(in_path);
  t.add_stdout_path(out_path);
  t.add_stderr_path(err_path);
  t.add_umask(spec.umask);
  t.add_rlimits(rlimits);
  t.add_artifacts(artifacts);
  t.add_warn_signal(spec.warn_signal);
  t.add_priority(spec.priority);
  t.add_trace(trace);
  t.add_image(image);
  t.add_mounts(mounts);
  t.add_isolate(isolate);
  t.add_kind(static_cast<fb::TaskKind>(spec.kind));
  t.add_append_output(spec.append_output);
  t.add_warn_shell_only(spec.warn_shell_only);
  t.add_fence_lease(spec.fence_lease);
  t.add_in_turn(spec.in_turn);
  return t.Finish();
}

bool read(In& in, const fb::TaskSpec& table, TaskSpec& spec) {
  spec.uid = table.uid();
  spec.gid = table.gid();
  spec.append_output = table.append_output();
  spec.umask = table.umask();
  spec.warn_shell_only = table.warn_shell_only();
  spec.fence_lease = table.fence_lease();
  spec.in_turn = table.in_turn();
  spec.priority = table.priority();
  if (spec.umask > 0777) return in.fail(Code::kCorrupt, "umask", "has more than permission bits");
  return in.enumerator(table.kind(), spec.kind, "kind") && in.text(table.user(), spec.user, "user") &&
         in.bytes(table.credential(), spec.credential, kTextBytesMax, "credential") && in.texts(table.argv(), spec.argv, "argv") &&
         in.texts(table.env(), spec.env, "env") && in.text(table.directory(), spec.directory, "directory") &&
         in.text(table.stdin_path(), spec.stdin_path, "stdin_path") &&
         in.text(table.stdout_path(), spec.stdout_path, "stdout_path") &&
         in.text(table.stderr_path(), spec.stderr_path, "stderr_path") && read_rlimits(in, table.rlimits(), spec.rlimits) &&
         read_list(in, table.artifacts(), spec.artifacts, "artifacts") &&
         in.duration(table.time_limit_us(), spec.time_limit, "time_limit") &&
         in.duration(table.kill_grace_us(), spec.kill_grace, "kill_grace") &&
         in.signal(table.warn_signal(), spec.warn_signal, "warn_signal") &&
         in.duration(table.warn_before_us(), spec.warn_before, "warn_before") && in.text(table.trace(), spec.trace, "trace") &&
         in.text(table.image(), spec.image, "image") && in.texts(table.mounts(), spec.mounts, "mounts") &&
         in.texts(table.isolate(), spec.isolate, "isolate");
}

Offset<fb::TaskStatus> write(Builder& b, const TaskStatus& status) {
  const auto task = put(b, status.task);
  const auto message = put(b, status.message);
  return fb::CreateTaskStatus(b, task, static_cast<fb::TaskState>(status.state), status.exit_code, status.signal, message,
                              status.started.count(), status.ended.count(), status.cpu.count(), status.mem_peak.value);
}

bool read(In& in, const fb::TaskStatus& table, TaskStatus& status) {
  status.exit_code = table.exit_code();
  return in.name(table.task(), status.task, "task") && in.enumerator(table.state(), status.state, "state") &&
         in.signal(table.signal(), status.signal, "signal") && in.text(table.message(), status.message, "message") &&
         in.duration(table.started_us(), status.started, "started") && in.duration(table.ended_us(), status.ended, "ended") &&
         in.duration(table.cpu_us(), status.cpu, "cpu") && in.amount(table.mem_peak(), status.mem_peak, "mem_peak");
}

}  // namespace bourse::wire
