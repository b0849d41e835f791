#include "frameworks/batch/protocol.h"

#include <batch_generated.h>
#include <fmt/format.h>

#include <utility>

#include "common/core/one_of_members.h"
#include "common/core/units.h"
#include "common/core/vm_image.h"

// Encoding is written with builders field by field; defaults cost nothing on the wire. Decoding reads verified tables and checks
// the limits of protocol.h; the first limit that is broken is remembered in a Reader and turned into one error at the end.

namespace bourse::batch {
namespace fb = bourse::batchfb;
using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;
template <class T>
using Vec = flatbuffers::Vector<T>;
using FbString = flatbuffers::String;

namespace {

// --- to bytes ------------------------------------------------------------------------------------------------------

Offset<FbString> put(FlatBufferBuilder& b, const std::string& s) { return s.empty() ? 0 : b.CreateString(s); }

Offset<Vec<Offset<FbString>>> put(FlatBufferBuilder& b, const std::vector<std::string>& list) {
  return list.empty() ? 0 : b.CreateVectorOfStrings(list);
}

template <class T, class Fn>
auto put_list(FlatBufferBuilder& b, const std::vector<T>& list, Fn one) -> Offset<Vec<decltype(one(list[0]))>> {
  if (list.empty()) return 0;
  std::vector<decltype(one(list[0]))> offsets;
  offsets.reserve(list.size());
  for (const T& item : list) offsets.push_back(one(item));
  return b.CreateVector(offsets);
}

auto put(FlatBufferBuilder& b, const std::vector<Constraint>& list) {
  return put_list(b, list, [&](const Constraint& c) {
    auto label = put(b, c.label);
    auto values = put(b, c.values);
    return fb::CreateConstraint(b, label, static_cast<std::uint8_t>(c.op), values);
  });
}

Offset<fb::DeviceAsk> put(FlatBufferBuilder& b, const DeviceAsk& a) {
  auto kind = put(b, a.kind);
  auto profile = put(b, a.profile);
  auto counters = put_list(b, a.counters.items(), [&](const std::pair<std::string, std::int64_t>& c) {
    auto name = put(b, c.first);
    return fb::CreateCounter(b, name, c.second);
  });
  auto attributes = put(b, a.attributes);
  return fb::CreateDeviceAsk(b, kind, a.count, a.whole, profile, counters, attributes);
}

std::int8_t tri(const std::optional<bool>& v) { return v ? static_cast<std::int8_t>(*v ? 1 : 0) : static_cast<std::int8_t>(-1); }

Offset<fb::Spec> put(FlatBufferBuilder& b, const JobSpec& s, bool with_blobs = true) {
  auto name = put(b, s.name), partition = put(b, s.partition), account = put(b, s.account), qos = put(b, s.qos);
  auto comment = put(b, s.comment), reservation = put(b, s.reservation), licenses = put(b, s.licenses), hint = put(b, s.hint);
  auto mail_type = put(b, s.mail_type), mail_user = put(b, s.mail_user), user = put(b, s.user);
  auto script = with_blobs ? put(b, s.script) : 0, script_path = put(b, s.script_path);
  auto args = put(b, s.args), env = with_blobs ? put(b, s.env) : 0;
  auto directory = put(b, s.directory), submit_dir = put(b, s.submit_dir), submit_host = put(b, s.submit_host);
  auto in = put(b, s.stdin_path), out = put(b, s.stdout_path), err = put(b, s.stderr_path);
  auto rlimits = put_list(b, s.rlimits, [&](const Rlimit& r) { return fb::CreateRlimit(b, r.resource, r.soft, r.hard); });
  auto devices = put_list(b, s.devices_per_node, [&](const DeviceAsk& a) { return put(b, a); });
  auto gpu_kind = put(b, s.gpu_kind), node_list = put(b, s.node_list), exclude = put(b, s.exclude);
  auto constraints = put(b, s.constraints);
  auto array = put(b, s.array), dependency = put(b, s.dependency), vm = put(b, s.vm);
  auto container = put(b, s.container);
  auto container_mounts = put(b, s.container_mounts), isolate = put(b, s.isolate);
  auto placement = put(b, to_text(s.placement)), group = put(b, s.group);
  auto credential = put(b, s.credential);
  fb::SpecBuilder t(b);
  t.add_name(name), t.add_partition(partition), t.add_account(account), t.add_qos(qos), t.add_comment(comment);
  t.add_reservation(reservation), t.add_licenses(licenses), t.add_hint(hint), t.add_mail_type(mail_type),
      t.add_mail_user(mail_user);
  t.add_user(user), t.add_uid(s.uid), t.add_gid(s.gid);
  t.add_script(script), t.add_script_path(script_path), t.add_args(args), t.add_env(env);
  t.add_directory(directory), t.add_submit_dir(submit_dir), t.add_submit_host(submit_host);
  t.add_stdin_path(in), t.add_stdout_path(out), t.add_stderr_path(err), t.add_append_output(s.append_output);
  t.add_umask(s.umask), t.add_rlimits(rlimits);
  t.add_nodes_min(s.nodes_min), t.add_nodes_max(s.nodes_max), t.add_tasks(s.tasks), t.add_tasks_per_node(s.tasks_per_node);
  t.add_cpus_per_task(s.cpus_per_task), t.add_mem_per_node(s.mem_per_node), t.add_mem_per_cpu(s.mem_per_cpu);
  t.add_disk(s.disk.value), t.add_devices_per_node(devices), t.add_gpus(s.gpus), t.add_gpus_per_task(s.gpus_per_task);
  t.add_gpu_kind(gpu_kind), t.add_exclusive(s.exclusive), t.add_revocable(s.revocable), t.add_node_list(node_list),
      t.add_exclude(exclude);
  t.add_constraints(constraints);
  t.add_time_limit(s.time_limit.count()), t.add_begin(s.begin.count()), t.add_deadline(s.deadline.count());
  t.add_array(array), t.add_dependency(dependency), t.add_hold(s.hold), t.add_nice(s.nice);
  t.add_priority(s.priority ? static_cast<std::int64_t>(*s.priority) : -1), t.add_requeue(tri(s.requeue));
  t.add_kill_on_invalid_dependency(tri(s.kill_on_invalid_dependency));
  t.add_warn_signal(s.warn_signal), t.add_warn_before(s.warn_before.count()), t.add_warn_shell_only(s.warn_shell_only);
  t.add_slurm_names(s.slurm_names), t.add_vm(vm);
  t.add_container(container), t.add_container_mounts(container_mounts), t.add_isolate(isolate);
  t.add_placement(placement), t.add_group(group);
  t.add_credential(credential);
  return t.Finish();
}

Offset<fb::Selector> put(FlatBufferBuilder& b, const JobSelector& s) {
  auto indexes = put(b, s.indexes);
  return fb::CreateSelector(b, s.job.value, indexes);
}
auto put(FlatBufferBuilder& b, const std::vector<JobSelector>& list) {
  return put_list(b, list, [&](const JobSelector& s) { return put(b, s); });
}

Offset<fb::Filter> put(FlatBufferBuilder& b, const JobFilter& f) {
  if (f.empty()) return 0;
  auto jobs = put(b, f.jobs);
  auto users = put(b, f.users), names = put(b, f.names), partitions = put(b, f.partitions), accounts = put(b, f.accounts);
  auto hosts = put(b, f.hosts);
  std::vector<std::uint8_t> states;
  for (JobState s : f.states) states.push_back(static_cast<std::uint8_t>(s));
  auto state_list = states.empty() ? Offset<Vec<std::uint8_t>>(0) : b.CreateVector(states);
  return fb::CreateFilter(b, jobs, users, names, partitions, accounts, hosts, state_list, f.from.count(), f.to.count());
}

Offset<fb::Info> put(FlatBufferBuilder& b, const JobInfo& i) {
  auto indexes = put(b, i.indexes), name = put(b, i.name), user = put(b, i.user), account = put(b, i.account);
  auto partition = put(b, i.partition), qos = put(b, i.qos), text = put(b, i.reason_text), node_list = put(b, i.node_list);
  auto directory = put(b, i.directory), script_path = put(b, i.script_path), in = put(b, i.stdin_path), out = put(b, i.stdout_path);
  auto err = put(b, i.stderr_path), comment = put(b, i.comment), dependency = put(b, i.dependency);
  auto constraints = put(b, i.constraints), node_request = put(b, i.node_request), exclude = put(b, i.exclude);
  auto submit_dir = put(b, i.submit_dir), digest = put(b, i.script_digest), devices = put(b, i.devices);
  auto args = put(b, i.args);
  auto script = put(b, i.script), reservation = put(b, i.reservation);
  auto mail_type = put(b, i.mail_type), mail_user = put(b, i.mail_user);
  fb::InfoBuilder t(b);
  t.add_id(i.id.value), t.add_array(i.array.value), t.add_indexes(indexes), t.add_name(name), t.add_user(user);
  t.add_account(account), t.add_partition(partition), t.add_qos(qos), t.add_uid(i.uid);
  t.add_state(static_cast<std::uint8_t>(i.state)), t.add_reason(static_cast<std::uint8_t>(i.reason)), t.add_reason_text(text);
  t.add_priority(i.priority), t.add_nice(i.nice), t.add_nodes(i.nodes), t.add_tasks(i.tasks), t.add_cpus_per_task(i.cpus_per_task);
  t.add_cpus(i.cpus.value), t.add_mem(i.mem.value), t.add_time_limit(i.time_limit.count()), t.add_submitted(i.submitted.count());
  t.add_eligible(i.eligible.count()), t.add_started(i.started.count()), t.add_ended(i.ended.count());
  t.add_estimated_start(i.estimated_start.count()), t.add_elapsed(i.elapsed.count()), t.add_node_list(node_list);
  t.add_exit_code(i.exit_code), t.add_exit_signal(i.exit_signal), t.add_restarts(i.restarts), t.add_mem_peak(i.mem_peak.value);
  t.add_cpu(i.cpu.count()), t.add_full(i.full), t.add_gid(i.gid), t.add_directory(directory), t.add_script_path(script_path);
  t.add_stdin_path(in), t.add_stdout_path(out), t.add_stderr_path(err), t.add_comment(comment), t.add_dependency(dependency);
  t.add_constraints(constraints), t.add_node_request(node_request), t.add_exclude(exclude), t.add_submit_dir(submit_dir);
  t.add_script_digest(digest), t.add_devices(devices), t.add_args(args), t.add_begin(i.begin.count()), t.add_requeue(i.requeue);
  t.add_exclusive(i.exclusive), t.add_script(script), t.add_reservation(reservation), t.add_mail_type(mail_type);
  t.add_mail_user(mail_user);
  return t.Finish();
}
auto put(FlatBufferBuilder& b, const std::vector<JobInfo>& list) {
  return put_list(b, list, [&](const JobInfo& i) { return put(b, i); });
}

Offset<fb::Node> put(FlatBufferBuilder& b, const NodeInfo& n) {
  auto name = put(b, n.name), state = put(b, n.state), labels = put(b, n.labels), devices = put(b, n.devices);
  return fb::CreateNode(b, name, state, n.cpus.value, n.cpus_used.value, n.mem.value, n.mem_used.value, n.jobs, labels, devices,
                        n.degraded);
}

template <class Number>
auto put_counts(FlatBufferBuilder& b, const std::vector<std::pair<std::string, Number>>& list) {
  return put_list(b, list, [&](const std::pair<std::string, Number>& c) {
    auto name = put(b, c.first);
    return fb::CreateCount(b, name, c.second);
  });
}

struct RequestWriter {
  FlatBufferBuilder& b;
  using Out = std::pair<fb::RequestBody, Offset<void>>;
  Out operator()(const SubmitRequest& r) {
    auto items = put_list(b, r.items, [&](const SubmitRequest::Item& i) {
      auto key = put(b, i.key);
      auto spec = put(b, i.spec);
      return fb::CreateSubmitItem(b, key, spec);
    });
    return {fb::RequestBody::Submit, fb::CreateSubmit(b, items, r.test_only).Union()};
  }
  Out operator()(const QueueRequest& r) {
    auto filter = put(b, r.filter);
    return {fb::RequestBody::Queue,
            fb::CreateQueue(b, filter, r.after, r.limit, static_cast<std::uint8_t>(r.order), r.full, r.each_task).Union()};
  }
  Out operator()(const JobRequest& r) {
    auto job = put(b, r.job);
    return {fb::RequestBody::Job, fb::CreateJob(b, job, r.script).Union()};
  }
  Out operator()(const CancelRequest& r) {
    auto jobs = put(b, r.jobs);
    auto filter = put(b, r.filter);
    auto reason = put(b, r.reason);
    return {fb::RequestBody::Cancel, fb::CreateCancel(b, jobs, filter, r.signal, r.shell_only, reason).Union()};
  }
  Out operator()(const ChangeRequest& r) {
    auto jobs = put(b, r.jobs);
    auto filter = put(b, r.filter);
    return {fb::RequestBody::Change, fb::CreateChange(b, static_cast<std::uint8_t>(r.change), jobs, filter).Union()};
  }
  Out operator()(const HistoryRequest& r) {
    auto filter = put(b, r.filter);
    return {fb::RequestBody::History, fb::CreateHistory(b, filter, r.after, r.limit, r.full).Union()};
  }
  Out operator()(const NodesRequest& r) {
    auto after = put(b, r.after);
    return {fb::RequestBody::Nodes, fb::CreateNodes(b, after, r.limit).Union()};
  }
  Out operator()(const WhyRequest& r) {
    auto job = put(b, r.job);
    return {fb::RequestBody::Why, fb::CreateWhy(b, job).Union()};
  }
  Out operator()(const WatchRequest& r) {
    auto jobs = put(b, r.jobs);
    return {fb::RequestBody::Watch, fb::CreateWatch(b, jobs).Union()};
  }
  Out operator()(const SummaryRequest&) { return {fb::RequestBody::Summary, fb::CreateSummary(b).Union()}; }
  Out operator()(const StepRequest& r) {
    auto job = put(b, r.job);
    auto node = put(b, r.node);
    auto argv = put(b, r.argv), env = put(b, r.env);
    auto dir = put(b, r.directory), in = put(b, r.stdin_path), out = put(b, r.stdout_path), err = put(b, r.stderr_path);
    auto key = put(b, r.key), credential = put(b, r.credential);
    return {fb::RequestBody::Step,
            fb::CreateStep(b, job, node, argv, env, dir, in, out, err, key, r.cpus.value, credential).Union()};
  }
};

struct ReplyWriter {
  FlatBufferBuilder& b;
  using Out = std::pair<fb::ReplyBody, Offset<void>>;
  static int code(Code c) { return static_cast<int>(c); }
  Out operator()(const SubmitReply& r) {
    auto items = put_list(b, r.items, [&](const SubmitReply::Item& i) {
      auto reason = put(b, i.reason);
      return fb::CreateSubmitReplyItem(b, i.id.value, code(i.code), reason, i.start_estimate.count());
    });
    return {fb::ReplyBody::SubmitReply, fb::CreateSubmitReply(b, items).Union()};
  }
  Out operator()(const QueueReply& r) {
    auto rows = put(b, r.rows);
    return {fb::ReplyBody::QueueReply, fb::CreateQueueReply(b, rows, r.next).Union()};
  }
  Out operator()(const JobReply& r) {
    auto reason = put(b, r.reason);
    auto rows = put(b, r.rows);
    return {fb::ReplyBody::JobReply, fb::CreateJobReply(b, code(r.code), reason, rows).Union()};
  }
  Out operator()(const ChangeReply& r) {
    auto reason = put(b, r.reason);
    auto items = put_list(b, r.items, [&](const ChangeReply::Item& i) {
      auto job = put(b, i.job);
      auto text = put(b, i.reason);
      return fb::CreateChangeReplyItem(b, job, code(i.code), text);
    });
    return {fb::ReplyBody::ChangeReply, fb::CreateChangeReply(b, code(r.code), reason, items, r.count).Union()};
  }
  Out operator()(const HistoryReply& r) {
    auto rows = put(b, r.rows);
    auto reason = put(b, r.reason);
    return {fb::ReplyBody::HistoryReply, fb::CreateHistoryReply(b, rows, r.next, code(r.code), reason).Union()};
  }
  Out operator()(const NodesReply& r) {
    auto nodes = put_list(b, r.nodes, [&](const NodeInfo& n) { return put(b, n); });
    return {fb::ReplyBody::NodesReply, fb::CreateNodesReply(b, nodes, r.more).Union()};
  }
  Out operator()(const WhyReply& r) {
    auto reason = put(b, r.reason);
    auto job = put(b, r.job);
    auto lines = put(b, r.lines);
    auto counts = put_counts(b, r.counts);
    return {fb::ReplyBody::WhyReply, fb::CreateWhyReply(b, code(r.code), reason, job, lines, counts, r.agents, r.position).Union()};
  }
  Out operator()(const JobChanged& r) {
    auto asked = put(b, r.asked);
    auto job = put(b, r.job);
    auto reason = put(b, r.reason);
    return {fb::ReplyBody::JobChanged, fb::CreateJobChanged(b, asked, job, code(r.code), reason, r.last).Union()};
  }
  Out operator()(const SummaryReply& r) {
    auto cluster = put(b, r.cluster);
    auto reasons = put_counts(b, r.pending_by_reason), users = put_counts(b, r.pending_by_user);
    std::vector<flatbuffers::Offset<fb::ShadowFinding>> found;
    for (const ShadowFinding& f : r.shadows) {
      auto policy = put(b, f.policy);
      auto fault = put(b, f.fault);
      found.push_back(fb::CreateShadowFinding(b, policy, fault, f.at.count(), f.since.count(), f.jobs, f.moved, f.live_wait_s,
                                              f.wait_s, f.live_job, f.job, f.differs_at.count()));
    }
    auto shadows = b.CreateVector(found);
    return {fb::ReplyBody::SummaryReply,
            fb::CreateSummaryReply(b, cluster, r.connected, r.pending, r.running, r.completing, r.held, r.submitted_total,
                                   r.started_total, r.ended_total, r.nodes_up, r.nodes, r.slices, r.slices_idle, r.cpus.value,
                                   r.cpus_used.value, r.mem.value, r.mem_used.value, reasons, users, shadows)
                .Union()};
  }
  Out operator()(const StepReply& r) {
    auto reason = put(b, r.reason);
    return {fb::ReplyBody::StepReply, fb::CreateStepReply(b, code(r.code), reason, r.exit_code, r.exit_signal).Union()};
  }
  Out operator()(const RequestRefused& r) {
    auto reason = put(b, r.reason);
    return {fb::ReplyBody::RequestRefused, fb::CreateRequestRefused(b, code(r.code), reason).Union()};
  }
};

std::string bytes_of(const FlatBufferBuilder& b) {
  return std::string(reinterpret_cast<const char*>(b.GetBufferPointer()), b.GetSize());
}

// --- from bytes ----------------------------------------------------------------------------------------------------

class Reader {
 public:
  std::string text(const FbString* s, const char* what, std::size_t max = kWordBytesMax) {
    if (s == nullptr) return {};
    if (s->size() > max) return fail(Code::kLimit, what, "is too long"), std::string();
    std::string out = s->str();
    if (max != kScriptBytesMax && out.find('\0') != std::string::npos) fail(Code::kInvalid, what, "contains a NUL byte");
    return out;
  }
  std::vector<std::string> texts(const Vec<Offset<FbString>>* v, const char* what, std::size_t max_items = kListMax,
                                 std::size_t max_bytes = kEnvBytesMax) {
    std::vector<std::string> out;
    if (!count(v, what, max_items)) return out;
    std::size_t total = 0;
    for (const FbString* s : *v) {
      total += s->size() + 1;
      if (total > max_bytes) return fail(Code::kLimit, what, "is too large"), out;
      out.push_back(text(s, what, max_bytes));
    }
    return out;
  }
  template <class T>
  bool count(const Vec<T>* v, const char* what, std::size_t max) {
    if (v == nullptr) return false;
    if (v->size() > max) return fail(Code::kLimit, what, "has too many elements"), false;
    return true;
  }
  template <class E>
  E enumeration(std::uint8_t value, E last, const char* what) {
    if (value > static_cast<std::uint8_t>(last)) return fail(Code::kCorrupt, what, "has an unknown value"), E{};
    return static_cast<E>(value);
  }
  Code code(int value) {
    if (value < 0 || value > static_cast<int>(Code::kUnsupported))
      return fail(Code::kCorrupt, "code", "has an unknown value"), Code::kInvalid;
    return static_cast<Code>(value);
  }
  std::int64_t amount(std::int64_t v, const char* what, std::int64_t min = 0) {
    if (v < min) return fail(Code::kInvalid, what, "is negative"), 0;
    return v;
  }
  Duration duration(std::int64_t v, const char* what) { return Duration(amount(v, what)); }
  void fail(Code code, const char* what, const char* why) {
    if (!error_) error_ = Error(code, std::string(what) + " " + why);
  }
  std::optional<Error>& error() { return error_; }

  std::vector<Constraint> constraints(const Vec<Offset<fb::Constraint>>* v, const char* what) {
    std::vector<Constraint> out;
    if (!count(v, what, kFilterListMax)) return out;
    for (const auto* c : *v) {
      auto made =
          make_constraint(text(c->label(), what), enumeration(c->op(), Constraint::Op::kMatches, what), texts(c->values(), what));
      if (!made) return fail(Code::kInvalid, what, made.error().text().c_str()), out;
      out.push_back(*std::move(made));
    }
    return out;
  }
  DeviceAsk device(const fb::DeviceAsk* a) {
    DeviceAsk out;
    out.kind = text(a->kind(), "device kind");
    out.count = a->count();
    out.whole = a->whole();
    out.profile = text(a->profile(), "device profile");
    if (count(a->counters(), "device counters", kFilterListMax))
      for (const auto* c : *a->counters())
        out.counters.set(text(c->name(), "device counter"), amount(c->amount(), "device counter"));
    out.attributes = constraints(a->attributes(), "device attributes");
    return out;
  }
  static std::optional<bool> tri(std::int8_t v) { return v < 0 ? std::nullopt : std::optional<bool>(v != 0); }

  JobSpec spec(const fb::Spec* s) {
    JobSpec o;
    if (s == nullptr) return fail(Code::kCorrupt, "job", "has no specification"), o;
    o.name = text(s->name(), "job name"), o.partition = text(s->partition(), "partition"),
    o.account = text(s->account(), "account");
    o.qos = text(s->qos(), "qos"), o.comment = text(s->comment(), "comment"), o.reservation = text(s->reservation(), "reservation");
    o.licenses = text(s->licenses(), "licenses"), o.hint = text(s->hint(), "hint"), o.mail_type = text(s->mail_type(), "mail-type");
    o.mail_user = text(s->mail_user(), "mail-user"), o.user = text(s->user(), "user"), o.uid = s->uid(), o.gid = s->gid();
    o.script = text(s->script(), "script", kScriptBytesMax), o.script_path = text(s->script_path(), "script path");
    o.args = texts(s->args(), "arguments"), o.env = texts(s->env(), "environment");
    o.directory = text(s->directory(), "directory"), o.submit_dir = text(s->submit_dir(), "submit directory");
    o.submit_host = text(s->submit_host(), "submit host"), o.stdin_path = text(s->stdin_path(), "input path");
    o.stdout_path = text(s->stdout_path(), "output path"), o.stderr_path = text(s->stderr_path(), "error path");
    o.append_output = s->append_output(), o.umask = s->umask() & 07777;
    if (count(s->rlimits(), "rlimits", 64))
      for (const auto* r : *s->rlimits()) o.rlimits.push_back({r->resource(), r->soft(), r->hard()});
    o.nodes_min = s->nodes_min(), o.nodes_max = s->nodes_max(), o.tasks = s->tasks(), o.tasks_per_node = s->tasks_per_node();
    o.cpus_per_task = s->cpus_per_task(), o.mem_per_node = amount(s->mem_per_node(), "mem", -1);
    o.mem_per_cpu = amount(s->mem_per_cpu(), "mem-per-cpu", -1), o.disk = Bytes(amount(s->disk(), "disk"));
    if (count(s->devices_per_node(), "devices", 64))
      for (const auto* a : *s->devices_per_node()) o.devices_per_node.push_back(device(a));
    o.gpus = s->gpus(), o.gpus_per_task = s->gpus_per_task(), o.gpu_kind = text(s->gpu_kind(), "gpu kind");
    o.exclusive = s->exclusive(), o.revocable = s->revocable(), o.node_list = text(s->node_list(), "nodelist", kEnvBytesMax);
    o.exclude = text(s->exclude(), "exclude", kEnvBytesMax), o.constraints = constraints(s->constraints(), "constraint");
    o.time_limit = duration(s->time_limit(), "time"), o.begin = duration(s->begin(), "begin");
    o.deadline = duration(s->deadline(), "deadline"), o.array = text(s->array(), "array", kEnvBytesMax);
    o.dependency = text(s->dependency(), "dependency", kEnvBytesMax), o.hold = s->hold(), o.nice = s->nice();
    if (s->priority() >= 0) o.priority = static_cast<std::uint32_t>(std::min<std::int64_t>(s->priority(), UINT32_MAX));
    o.requeue = tri(s->requeue()), o.kill_on_invalid_dependency = tri(s->kill_on_invalid_dependency());
    o.warn_signal = s->warn_signal(), o.warn_before = duration(s->warn_before(), "signal time");
    o.warn_shell_only = s->warn_shell_only(), o.slurm_names = s->slurm_names();
    o.vm = text(s->vm(), "virtual machine", kVmImageBytesMax);
    o.container = text(s->container(), "container"), o.container_mounts = texts(s->container_mounts(), "container mounts");
    o.isolate = texts(s->isolate(), "isolation");
    if (auto rules = parse_placements(text(s->placement(), "placement")))
      o.placement = *std::move(rules);
    else
      fail(Code::kInvalid, "placement", rules.error().text().c_str());
    o.group = text(s->group(), "group");
    o.credential = text(s->credential(), "credential", kCredentialBytesMax);
    return o;
  }
  JobSelector selector(const fb::Selector* s) {
    if (s == nullptr) return {};
    return {JobId(s->job()), text(s->indexes(), "array indexes", kEnvBytesMax)};
  }
  std::vector<JobSelector> selectors(const Vec<Offset<fb::Selector>>* v, std::size_t max = kSelectorsMax) {
    std::vector<JobSelector> out;
    if (!count(v, "list of jobs", max)) return out;
    out.reserve(v->size());
    for (const auto* s : *v) out.push_back(selector(s));
    return out;
  }
  JobFilter filter(const fb::Filter* f) {
    JobFilter o;
    if (f == nullptr) return o;
    o.jobs = selectors(f->jobs());
    o.users = texts(f->users(), "users", kFilterListMax), o.names = texts(f->names(), "names", kFilterListMax);
    o.partitions = texts(f->partitions(), "partitions", kFilterListMax);
    o.accounts = texts(f->accounts(), "accounts", kFilterListMax), o.hosts = texts(f->hosts(), "hosts", kFilterListMax);
    if (count(f->states(), "states", 64))
      for (std::uint8_t s : *f->states()) o.states.push_back(enumeration(s, JobState::kDeadline, "state"));
    o.from = duration(f->from(), "start of the time range"), o.to = duration(f->to(), "end of the time range");
    return o;
  }
  JobInfo info(const fb::Info* i) {
    JobInfo o;
    if (i == nullptr) return o;
    o.id = JobId(i->id()), o.array = JobId(i->array()), o.indexes = text(i->indexes(), "indexes", kEnvBytesMax);
    o.name = text(i->name(), "name"), o.user = text(i->user(), "user"), o.account = text(i->account(), "account");
    o.partition = text(i->partition(), "partition"), o.qos = text(i->qos(), "qos"), o.uid = i->uid();
    o.state = enumeration(i->state(), JobState::kDeadline, "state"),
    o.reason = enumeration(i->reason(), Reason::kReservationGone, "reason");
    o.reason_text = text(i->reason_text(), "reason", kEnvBytesMax), o.priority = i->priority(), o.nice = i->nice();
    o.nodes = i->nodes(), o.tasks = i->tasks(), o.cpus_per_task = i->cpus_per_task(), o.cpus = MilliCpus(i->cpus());
    o.mem = Bytes(i->mem()), o.time_limit = Duration(i->time_limit()), o.submitted = Duration(i->submitted());
    o.eligible = Duration(i->eligible()), o.started = Duration(i->started()), o.ended = Duration(i->ended());
    o.estimated_start = Duration(i->estimated_start()), o.elapsed = Duration(i->elapsed());
    o.node_list = text(i->node_list(), "node list", kEnvBytesMax), o.exit_code = i->exit_code(), o.exit_signal = i->exit_signal();
    o.restarts = i->restarts(), o.mem_peak = Bytes(i->mem_peak()), o.cpu = Duration(i->cpu()), o.full = i->full(), o.gid = i->gid();
    o.directory = text(i->directory(), "directory"), o.script_path = text(i->script_path(), "script path");
    o.stdin_path = text(i->stdin_path(), "path"), o.stdout_path = text(i->stdout_path(), "path");
    o.stderr_path = text(i->stderr_path(), "path"), o.comment = text(i->comment(), "comment");
    o.dependency = text(i->dependency(), "dependency", kEnvBytesMax),
    o.constraints = text(i->constraints(), "constraints", kEnvBytesMax);
    o.node_request = text(i->node_request(), "nodes", kEnvBytesMax), o.exclude = text(i->exclude(), "exclude", kEnvBytesMax);
    o.submit_dir = text(i->submit_dir(), "directory"), o.script_digest = text(i->script_digest(), "digest");
    o.devices = text(i->devices(), "devices"), o.args = texts(i->args(), "arguments"), o.begin = Duration(i->begin());
    o.requeue = i->requeue(), o.exclusive = i->exclusive(), o.script = text(i->script(), "script", kScriptBytesMax);
    o.reservation = text(i->reservation(), "reservation"), o.mail_type = text(i->mail_type(), "mail-type");
    o.mail_user = text(i->mail_user(), "mail-user");
    return o;
  }
  std::vector<JobInfo> infos(const Vec<Offset<fb::Info>>* v) {
    std::vector<JobInfo> out;
    if (!count(v, "rows", 2 * kPageMax)) return out;
    out.reserve(v->size());
    for (const auto* i : *v) out.push_back(info(i));
    return out;
  }
  NodeInfo node(const fb::Node* n) {
    return {text(n->name(), "node"),
            text(n->state(), "state"),
            MilliCpus(n->cpus()),
            MilliCpus(n->cpus_used()),
            Bytes(n->mem()),
            Bytes(n->mem_used()),
            n->jobs(),
            text(n->labels(), "labels", kEnvBytesMax),
            text(n->devices(), "devices", kEnvBytesMax),
            n->degraded()};
  }
  template <class Number>
  std::vector<std::pair<std::string, Number>> counts(const Vec<Offset<fb::Count>>* v) {
    std::vector<std::pair<std::string, Number>> out;
    if (!count(v, "counts", kPageMax)) return out;
    for (const auto* c : *v) out.emplace_back(text(c->name(), "count", kEnvBytesMax), static_cast<Number>(c->count()));
    return out;
  }

 private:
  std::optional<Error> error_;
};

RequestBody read_body(Reader& r, const fb::Request* q) {
  switch (q->body_type()) {
    case fb::RequestBody::Submit: {
      const auto* m = q->body_as_Submit();
      SubmitRequest o;
      o.test_only = m->test_only();
      if (r.count(m->items(), "jobs", kSubmitItemsMax))
        for (const auto* i : *m->items()) o.items.push_back({r.text(i->key(), "submission key", 128), r.spec(i->spec())});
      return o;
    }
    case fb::RequestBody::Queue: {
      const auto* m = q->body_as_Queue();
      return QueueRequest{
          r.filter(m->filter()), m->after(), m->limit(), r.enumeration(m->order(), Order::kStart, "order"), m->full(),
          m->each_task()};
    }
    case fb::RequestBody::Job: {
      const auto* m = q->body_as_Job();
      return JobRequest{r.selector(m->job()), m->script()};
    }
    case fb::RequestBody::Cancel: {
      const auto* m = q->body_as_Cancel();
      return CancelRequest{r.selectors(m->jobs()), r.filter(m->filter()), m->signal(), m->shell_only(),
                           r.text(m->reason(), "reason")};
    }
    case fb::RequestBody::Change: {
      const auto* m = q->body_as_Change();
      return ChangeRequest{r.enumeration(m->change(), Change::kRequeue, "change"), r.selectors(m->jobs()), r.filter(m->filter())};
    }
    case fb::RequestBody::History: {
      const auto* m = q->body_as_History();
      return HistoryRequest{r.filter(m->filter()), m->after(), m->limit(), m->full()};
    }
    case fb::RequestBody::Nodes: {
      const auto* m = q->body_as_Nodes();
      return NodesRequest{r.text(m->after(), "node"), m->limit()};
    }
    case fb::RequestBody::Why:
      return WhyRequest{r.selector(q->body_as_Why()->job())};
    case fb::RequestBody::Watch:
      return WatchRequest{r.selectors(q->body_as_Watch()->jobs(), kWatchesMax)};
    case fb::RequestBody::Summary:
      return SummaryRequest{};
    case fb::RequestBody::Step: {
      const auto* m = q->body_as_Step();
      return StepRequest{r.selector(m->job()),
                         r.text(m->node(), "node"),
                         r.texts(m->argv(), "arguments"),
                         r.texts(m->env(), "environment"),
                         r.text(m->directory(), "directory"),
                         r.text(m->stdin_path(), "path"),
                         r.text(m->stdout_path(), "path"),
                         r.text(m->stderr_path(), "path"),
                         r.text(m->key(), "key"),
                         MilliCpus(m->cpus()),
                         r.text(m->credential(), "credential", kCredentialBytesMax)};
    }
    case fb::RequestBody::NONE:
      break;
  }
  r.fail(Code::kVersion, "request", "is of a kind that this bourse-batch does not know");
  return SummaryRequest{};
}

ReplyBody read_body(Reader& r, const fb::Reply* q) {
  switch (q->body_type()) {
    case fb::ReplyBody::SubmitReply: {
      SubmitReply o;
      if (const auto* items = q->body_as_SubmitReply()->items(); r.count(items, "items", kSubmitItemsMax))
        for (const auto* i : *items)
          o.items.push_back(
              {JobId(i->id()), r.code(i->code()), r.text(i->reason(), "reason", kEnvBytesMax), Duration(i->start_estimate())});
      return o;
    }
    case fb::ReplyBody::QueueReply:
      return QueueReply{r.infos(q->body_as_QueueReply()->rows()), q->body_as_QueueReply()->next()};
    case fb::ReplyBody::JobReply: {
      const auto* m = q->body_as_JobReply();
      return JobReply{r.code(m->code()), r.text(m->reason(), "reason", kEnvBytesMax), r.infos(m->rows())};
    }
    case fb::ReplyBody::ChangeReply: {
      const auto* m = q->body_as_ChangeReply();
      ChangeReply o{r.code(m->code()), r.text(m->reason(), "reason", kEnvBytesMax), {}, m->count()};
      if (r.count(m->items(), "items", kSelectorsMax))
        for (const auto* i : *m->items())
          o.items.push_back({r.selector(i->job()), r.code(i->code()), r.text(i->reason(), "reason", kEnvBytesMax)});
      return o;
    }
    case fb::ReplyBody::HistoryReply: {
      const auto* m = q->body_as_HistoryReply();
      return HistoryReply{r.infos(m->rows()), m->next(), r.code(m->code()), r.text(m->reason(), "reason", kEnvBytesMax)};
    }
    case fb::ReplyBody::NodesReply: {
      NodesReply o;
      const auto* m = q->body_as_NodesReply();
      if (r.count(m->nodes(), "nodes", kPageMax))
        for (const auto* n : *m->nodes()) o.nodes.push_back(r.node(n));
      o.more = m->more();
      return o;
    }
    case fb::ReplyBody::WhyReply: {
      const auto* m = q->body_as_WhyReply();
      return WhyReply{r.code(m->code()),
                      r.text(m->reason(), "reason", kEnvBytesMax),
                      r.info(m->job()),
                      r.texts(m->lines(), "lines"),
                      r.counts<std::uint32_t>(m->counts()),
                      m->agents(),
                      m->position()};
    }
    case fb::ReplyBody::JobChanged: {
      const auto* m = q->body_as_JobChanged();
      return JobChanged{r.selector(m->asked()), r.info(m->job()), r.code(m->code()), r.text(m->reason(), "reason", kEnvBytesMax),
                        m->last()};
    }
    case fb::ReplyBody::SummaryReply: {
      const auto* m = q->body_as_SummaryReply();
      SummaryReply o;
      o.cluster = r.text(m->cluster(), "cluster"), o.connected = m->connected(), o.pending = m->pending(), o.running = m->running();
      o.completing = m->completing(), o.held = m->held(), o.submitted_total = m->submitted_total();
      o.started_total = m->started_total(), o.ended_total = m->ended_total(), o.nodes_up = m->nodes_up(), o.nodes = m->nodes();
      o.slices = m->slices(), o.slices_idle = m->slices_idle(), o.cpus = MilliCpus(m->cpus()),
      o.cpus_used = MilliCpus(m->cpus_used());
      o.mem = Bytes(m->mem()), o.mem_used = Bytes(m->mem_used());
      o.pending_by_reason = r.counts<std::uint64_t>(m->pending_by_reason());
      o.pending_by_user = r.counts<std::uint64_t>(m->pending_by_user());
      for (std::uint32_t i = 0; m->shadows() != nullptr && i < std::min<std::uint32_t>(m->shadows()->size(), 64); ++i) {
        const auto* f = m->shadows()->Get(i);
        o.shadows.push_back({r.text(f->policy(), "policy", kEnvBytesMax), r.text(f->fault(), "fault", kEnvBytesMax),
                             Duration(f->at()), Duration(f->since()), f->jobs(), f->moved(), f->live_wait_s(), f->wait_s(),
                             f->live_job(), f->job(), Duration(f->differs_at())});
      }
      return o;
    }
    case fb::ReplyBody::StepReply: {
      const auto* m = q->body_as_StepReply();
      return StepReply{r.code(m->code()), r.text(m->reason(), "reason", kEnvBytesMax), m->exit_code(), m->exit_signal()};
    }
    case fb::ReplyBody::RequestRefused: {
      const auto* m = q->body_as_RequestRefused();
      return RequestRefused{r.code(m->code()), r.text(m->reason(), "reason", kEnvBytesMax)};
    }
    case fb::ReplyBody::NONE:
      break;
  }
  r.fail(Code::kVersion, "answer", "is of a kind that this program does not know");
  return RequestRefused{};
}

template <class Root>
Result<const Root*> verified(std::string_view bytes, std::size_t max) {
  if (bytes.size() > max) return Error(Code::kLimit, "message of " + std::to_string(bytes.size()) + " bytes is too large");
  flatbuffers::Verifier verifier(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size(), 32, 4'000'000);
  if (bytes.size() < 8 || !verifier.VerifyBuffer<Root>(nullptr)) return Error(Code::kCorrupt, "message is damaged");
  return flatbuffers::GetRoot<Root>(bytes.data());
}

}  // namespace

std::string encode(const ToolRequest& request) {
  FlatBufferBuilder b(1024);
  auto [type, body] = std::visit(RequestWriter{b}, request.body);
  b.Finish(fb::CreateRequest(b, request.version, request.tag, type, body));
  return bytes_of(b);
}

Result<ToolRequest> decode_request(std::string_view bytes) {
  const fb::Request* q = BOURSE_TRY(verified<fb::Request>(bytes, kRequestBytesMax));
  if (q->version() != kBatchProtocol)
    return Error(Code::kVersion, "request is of protocol version " + std::to_string(q->version()) + ", this bourse-batch speaks " +
                                     std::to_string(kBatchProtocol));
  if (q->body() == nullptr) return Error(Code::kCorrupt, "request is empty");
  Reader r;
  ToolRequest out{q->version(), q->tag(), read_body(r, q)};
  if (r.error()) return std::move(*r.error());
  return out;
}

std::string encode(const ToolReply& reply) {
  FlatBufferBuilder b(1024);
  auto [type, body] = std::visit(ReplyWriter{b}, reply.body);
  b.Finish(fb::CreateReply(b, reply.version, reply.tag, type, body));
  return bytes_of(b);
}

Result<ToolReply> decode_reply(std::string_view bytes) {
  const fb::Reply* q = BOURSE_TRY(verified<fb::Reply>(bytes, 8 * kRequestBytesMax));
  if (q->version() != kBatchProtocol)
    return Error(Code::kVersion, "answer is of protocol version " + std::to_string(q->version()) + ", this program speaks " +
                                     std::to_string(kBatchProtocol));
  if (q->body() == nullptr) return Error(Code::kCorrupt, "answer is empty");
  Reader r;
  ToolReply out{q->version(), q->tag(), read_body(r, q)};
  if (r.error()) return std::move(*r.error());
  return out;
}

std::string encode_spec(const JobSpec& spec) {
  FlatBufferBuilder b(512);
  b.Finish(put(b, spec, false));
  return bytes_of(b);
}

Result<JobSpec> decode_spec(std::string_view bytes) {
  const fb::Spec* s = BOURSE_TRY(verified<fb::Spec>(bytes, kRequestBytesMax));
  Reader r;
  JobSpec out = r.spec(s);
  if (r.error()) return std::move(*r.error());
  return out;
}

SpecView view_spec(std::string_view bytes) {
  const auto* s = flatbuffers::GetRoot<fb::Spec>(bytes.data());
  auto text = [](const FbString* t) { return t == nullptr ? std::string_view() : std::string_view(t->c_str(), t->size()); };
  return {text(s->name()), text(s->user()), text(s->partition()), text(s->account()), text(s->qos()), s->uid()};
}

std::string encode_info(const JobInfo& info) {
  FlatBufferBuilder b(512);
  b.Finish(put(b, info));
  return bytes_of(b);
}

Result<JobInfo> decode_info(std::string_view bytes) {
  const fb::Info* i = BOURSE_TRY(verified<fb::Info>(bytes, kRequestBytesMax));
  Reader r;
  JobInfo out = r.info(i);
  if (r.error()) return std::move(*r.error());
  return out;
}

std::string text_of(const ShadowFinding& f) {
  if (!f.fault.empty()) return fmt::format("{}: {}", f.policy, f.fault);
  if (f.at == Duration(0)) return fmt::format("{}: not looked at yet", f.policy);
  std::string out = fmt::format("{}: {} of {} jobs would have started at another time; mean wait {} instead of {} (estimated)",
                                f.policy, f.moved, f.jobs, format_duration(Duration(static_cast<std::int64_t>(f.wait_s * 1e6))),
                                format_duration(Duration(static_cast<std::int64_t>(f.live_wait_s * 1e6))));
  if (f.job != 0) out += fmt::format("; the first: job {} instead of {}", f.job, f.live_job);
  return out;
}

}  // namespace bourse::batch

namespace bourse {
template struct OneOf<batch::RequestBodies>;
template struct OneOf<batch::ReplyBodies>;
}  // namespace bourse
