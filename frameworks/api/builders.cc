// Builders of the C API: shapes, demands, accepts, task specifications.
#include <algorithm>

#include "frameworks/api/handle.h"

using namespace bourse;        // NOLINT: this file is the border between the two
using namespace bourse::capi;  // NOLINT

namespace {

constexpr std::size_t kWordsMax = 100'000;  // of argv, env, values: what execve would refuse anyway

template <class T, class F>
int with(T* object, F&& body) {
  if (!object) return BOURSE_E_INVALID;
  return guard(std::forward<F>(body));
}

int set_amount(std::int64_t& field, std::int64_t amount) {
  if (amount < 0) return BOURSE_E_INVALID;
  field = amount;
  return 0;
}

template <class T>
int append_word(std::vector<T>& list, const char* word) {
  if (!word) return BOURSE_E_INVALID;
  if (list.size() >= kWordsMax) return BOURSE_E_LIMIT;
  list.emplace_back(word);
  return 0;
}

template <class F>
int with_line(bourse_demand* d, std::uint64_t number, F&& body) {
  return with(d, [&] {
    // The line is nearly always the one that was added just now.
    const auto found =
        std::find_if(d->value.lines.rbegin(), d->value.lines.rend(), [&](const DemandLine& l) { return l.id == number; });
    if (found == d->value.lines.rend()) return BOURSE_E_NOT_FOUND + 0;
    body(*found);
    return 0;
  });
}

std::string text_or_empty(const char* text) { return text ? text : ""; }

}  // namespace

extern "C" {

// --- shape -----------------------------------------------------------------------------------------------------------

int bourse_shape_new(bourse_shape** shape) { return make(shape); }
void bourse_shape_free(bourse_shape* shape) { delete shape; }
int bourse_shape_cpus(bourse_shape* s, int64_t milli) {
  return with(s, [&] { return set_amount(s->value.cpus.value, milli); });
}
int bourse_shape_memory(bourse_shape* s, int64_t bytes) {
  return with(s, [&] { return set_amount(s->value.mem.value, bytes); });
}
int bourse_shape_disk(bourse_shape* s, int64_t bytes) {
  return with(s, [&] { return set_amount(s->value.disk.value, bytes); });
}
int bourse_shape_ports(bourse_shape* s, uint32_t count) {
  if (!s || count > 65535) return BOURSE_E_INVALID;
  s->value.ports = count;
  return 0;
}
int bourse_shape_amount(bourse_shape* s, const char* kind, int64_t amount) {
  if (!s || !kind || !*kind || amount < 0) return BOURSE_E_INVALID;
  return guard([&] { return s->value.others.set(kind, amount), 0; });
}
int bourse_shape_whole_host(bourse_shape* s, int32_t on) {
  return with(s, [&] { return s->value.whole_host = on != 0, 0; });
}
int bourse_shape_same_numa(bourse_shape* s, int32_t on) {
  return with(s, [&] { return s->value.same_numa = on != 0, 0; });
}
int bourse_shape_revocable(bourse_shape* s, int32_t on) {
  return with(s, [&] { return s->value.revocable = on != 0, 0; });
}
int bourse_shape_device(bourse_shape* s, const bourse_device_ask* ask) {
  if (!s || !ask) return BOURSE_E_INVALID;
  bourse_device_ask in;
  if (int rc = take(ask, in); rc != 0) return rc;
  if (!in.kind || !*in.kind || in.count == 0 || (in.counters_count != 0 && !in.counters)) return BOURSE_E_INVALID;
  return guard([&] {
    DeviceAsk device;
    device.kind = in.kind;
    device.count = in.count;
    device.whole = in.whole != 0;
    device.profile = text_or_empty(in.profile);
    for (std::size_t i = 0; i < in.counters_count; ++i) {
      if (!in.counters[i].name || !*in.counters[i].name || in.counters[i].amount < 0) return BOURSE_E_INVALID + 0;
      device.counters.set(in.counters[i].name, in.counters[i].amount);
    }
    if (in.attributes) {
      auto attributes = parse_constraints(in.attributes);
      if (!attributes) return code_number(attributes.error().code());
      device.attributes = *std::move(attributes);
    }
    s->value.devices.push_back(std::move(device));
    return 0;
  });
}
int bourse_shape_constraint(bourse_shape* s, const char* label, int32_t op, const char* const* values, size_t count) {
  if (!s || !label || !*label || op < BOURSE_IN || op > BOURSE_MATCHES || (count != 0 && !values)) return BOURSE_E_INVALID;
  if ((op == BOURSE_IN || op == BOURSE_NOT_IN || op == BOURSE_MATCHES) == (count == 0)) return BOURSE_E_INVALID;
  if (count > kWordsMax) return BOURSE_E_LIMIT;
  return guard([&] {
    std::vector<std::string> list;
    for (std::size_t i = 0; i < count; ++i) {
      if (!values[i]) return BOURSE_E_INVALID + 0;
      list.emplace_back(values[i]);
    }
    auto constraint = make_constraint(label, static_cast<Constraint::Op>(op), std::move(list));
    if (!constraint) return code_number(constraint.error().code());
    s->value.constraints.push_back(*std::move(constraint));
    return 0;
  });
}
int bourse_shape_constraints(bourse_shape* s, const char* text) {
  if (!s || !text) return BOURSE_E_INVALID;
  return guard([&] {
    auto parsed = parse_constraints(text);
    if (!parsed) return code_number(parsed.error().code());
    for (auto& constraint : *parsed) s->value.constraints.push_back(std::move(constraint));
    return 0;
  });
}

int bourse_constraint_check(const char* text, char* why, size_t size) {
  if (!text || (!why && size != 0)) return BOURSE_E_INVALID;
  return guard([&] {
    const auto parsed = parse_constraints(text);
    const std::string said = parsed ? "" : parsed.error().text();
    if (size != 0) {
      const std::size_t kept = std::min(said.size(), size - 1);
      std::memcpy(why, said.data(), kept);
      why[kept] = '\0';
    }
    return parsed ? 0 : code_number(parsed.error().code());
  });
}

namespace {

int add_rules(bourse_shape* s, std::vector<Placement> rules) {
  std::vector<Placement>& all = s->value.placement;
  if (all.size() + rules.size() > kPlacementsMax) return BOURSE_E_LIMIT;
  all.insert(all.end(), rules.begin(), rules.end());
  return 0;
}

}  // namespace

int bourse_shape_group(bourse_shape* s, const char* group) {
  if (!s || (group && *group && !valid_name(group))) return BOURSE_E_INVALID;
  return guard([&] { return s->value.group = text_or_empty(group), 0; });
}
int bourse_shape_place(bourse_shape* s, const bourse_placement* rule) {
  if (!s || !rule) return BOURSE_E_INVALID;
  bourse_placement in;
  if (int rc = take(rule, in); rc != 0) return rc;
  if (!in.level || in.kind < BOURSE_SPREAD || in.kind > BOURSE_ANTI_AFFINITY || in.reserved != 0) return BOURSE_E_INVALID;
  return guard([&] {
    Placement placement;
    placement.kind = static_cast<Placement::Kind>(in.kind);
    placement.level = in.level;
    placement.max_skew = std::max(1U, in.max_skew);
    placement.required = in.required != 0;
    placement.framework = FrameworkId(text_or_empty(in.framework));
    placement.group = text_or_empty(in.group);
    if (const auto sound = check(placement); !sound) return code_number(sound.error().code());
    return add_rules(s, {placement});
  });
}
int bourse_shape_placement(bourse_shape* s, const char* text) {
  if (!s || !text) return BOURSE_E_INVALID;
  return guard([&] {
    auto parsed = parse_placements(text);
    return parsed ? add_rules(s, *std::move(parsed)) : code_number(parsed.error().code());
  });
}

// --- demand ----------------------------------------------------------------------------------------------------------

int bourse_demand_new(bourse_demand** demand) { return make(demand); }
void bourse_demand_free(bourse_demand* demand) { delete demand; }
int bourse_demand_clear(bourse_demand* d) {
  return with(d, [&] { return d->value.lines.clear(), d->numbers.clear(), d->value.wildcard = false, 0; });
}
int bourse_demand_wildcard(bourse_demand* d, int32_t on) {
  return with(d, [&] { return d->value.wildcard = on != 0, 0; });
}
int bourse_demand_add(bourse_demand* d, uint64_t line, const bourse_shape* shape, uint32_t count, uint32_t gang_min,
                      int32_t priority) {
  if (!d || !shape || line == 0) return BOURSE_E_INVALID;
  return guard([&] {
    if (d->numbers.size() >= kWordsMax) return BOURSE_E_LIMIT + 0;
    if (!d->numbers.insert(line).second) return BOURSE_E_EXISTS + 0;
    d->value.lines.push_back({line, shape->value, count, gang_min, priority});
    return 0;
  });
}
int bourse_demand_lasts(bourse_demand* d, uint64_t line, int64_t lasts) {
  if (!d || lasts < 0) return BOURSE_E_INVALID;
  return with_line(d, line, [&](DemandLine& found) { found.lasts = Duration(lasts); });
}

int bourse_demand_reservation(bourse_demand* d, uint64_t line, const char* name) {
  if (!d || !name) return BOURSE_E_INVALID;
  return with_line(d, line, [&](DemandLine& found) { found.reservation = name; });
}

// --- accept ----------------------------------------------------------------------------------------------------------

int bourse_accept_new(bourse_accept** accept) { return make(accept); }
void bourse_accept_free(bourse_accept* accept) { delete accept; }
int bourse_accept_clear(bourse_accept* a) {
  return with(a, [&] { return a->value = Accept{}, a->trace.clear(), 0; });
}
int bourse_accept_all_or_nothing(bourse_accept* a, int32_t on) {
  return with(a, [&] { return a->value.all_or_nothing = on != 0, 0; });
}
int bourse_accept_gang(bourse_accept* a, uint64_t gang) {
  return with(a, [&] {
    a->value.gang = GangId(gang);
    if (gang != 0) a->value.all_or_nothing = true;
    return 0;
  });
}
int bourse_accept_offer(bourse_accept* a, uint64_t offer, uint64_t generation, int32_t keep_rest) {
  if (!a || offer == 0) return BOURSE_E_INVALID;
  return guard([&] {
    Accept::Item item;
    item.offer = OfferId(offer);
    item.generation = Generation(generation);
    item.keep_rest = keep_rest != 0;
    a->value.items.push_back(std::move(item));
    return 0;
  });
}
int bourse_accept_trace(bourse_accept* a, const char* traceparent) {
  if (!a || !traceparent) return BOURSE_E_INVALID;
  return guard([&] { return a->trace = traceparent, 0; });
}
int bourse_accept_slice(bourse_accept* a, uint64_t slice, const bourse_shape* shape, int64_t expiry, uint64_t line) {
  if (!a || !shape || slice == 0 || expiry < 0 || a->value.items.empty()) return BOURSE_E_INVALID;
  return guard([&] {
    a->value.items.back().slices.push_back({slice, shape->value, Duration(expiry), line});
    return 0;
  });
}

// --- task specification ----------------------------------------------------------------------------------------------

int bourse_task_spec_new(bourse_task_spec** spec) { return make(spec); }
void bourse_task_spec_free(bourse_task_spec* spec) { delete spec; }
int bourse_task_spec_clear(bourse_task_spec* t) {
  return with(t, [&] { return t->value = TaskSpec{}, 0; });
}
int bourse_task_spec_kind(bourse_task_spec* t, int32_t kind) {
  if (!t || kind < BOURSE_PROCESS || kind > BOURSE_KERNEL) return BOURSE_E_INVALID;
  t->value.kind = static_cast<TaskKind>(kind);
  return 0;
}
int bourse_task_spec_user(bourse_task_spec* t, const char* name, uint32_t uid, uint32_t gid) {
  if (!t || !name || !*name) return BOURSE_E_INVALID;
  return guard([&] {
    t->value.user = name;
    t->value.uid = uid;
    t->value.gid = gid;
    return 0;
  });
}
int bourse_task_spec_credential(bourse_task_spec* t, const void* bytes, size_t size) {
  if (!t || (!bytes && size != 0)) return BOURSE_E_INVALID;
  return guard([&] { return t->value.credential.assign(static_cast<const char*>(bytes ? bytes : ""), size), 0; });
}
int bourse_task_spec_arg(bourse_task_spec* t, const char* word) {
  return with(t, [&] { return append_word(t->value.argv, word); });
}
int bourse_task_spec_env(bourse_task_spec* t, const char* assignment) {
  if (!t || !assignment || *assignment == '=' || !std::strchr(assignment, '=')) return BOURSE_E_INVALID;
  return guard([&] { return append_word(t->value.env, assignment); });
}
int bourse_task_spec_directory(bourse_task_spec* t, const char* path) {
  if (!t || !path) return BOURSE_E_INVALID;
  return guard([&] { return t->value.directory = path, 0; });
}
int bourse_task_spec_files(bourse_task_spec* t, const char* input, const char* output, const char* error, int32_t append) {
  return with(t, [&] {
    std::string in = text_or_empty(input), out = text_or_empty(output), err = text_or_empty(error);
    t->value.stdin_path = std::move(in);
    t->value.stdout_path = std::move(out);
    t->value.stderr_path = std::move(err);
    t->value.append_output = append != 0;
    return 0;
  });
}
int bourse_task_spec_umask(bourse_task_spec* t, uint32_t mask) {
  if (!t || mask > 0777) return BOURSE_E_INVALID;
  t->value.umask = mask;
  return 0;
}
int bourse_task_spec_rlimit(bourse_task_spec* t, int32_t resource, uint64_t soft, uint64_t hard) {
  if (!t || resource < 0 || soft > hard) return BOURSE_E_INVALID;
  return guard([&] { return t->value.rlimits.push_back({resource, soft, hard}), 0; });
}
int bourse_task_spec_artifact(bourse_task_spec* t, const char* name, const char* digest, const void* bytes, size_t size,
                              const char* uri) {
  if (!t || !name || !*name || !digest || (!bytes && size != 0)) return BOURSE_E_INVALID;
  return guard([&] {
    for (const Artifact& other : t->value.artifacts)
      if (other.name == name) return BOURSE_E_EXISTS + 0;
    Artifact artifact;
    artifact.name = name;
    artifact.digest = digest;
    if (size != 0) artifact.inline_bytes.assign(static_cast<const char*>(bytes), size);
    artifact.uri = text_or_empty(uri);
    t->value.artifacts.push_back(std::move(artifact));
    return 0;
  });
}
int bourse_task_spec_time_limit(bourse_task_spec* t, int64_t limit) {
  if (!t || limit <= 0) return BOURSE_E_INVALID;
  t->value.time_limit = Duration(limit);
  return 0;
}
int bourse_task_spec_kill_grace(bourse_task_spec* t, int64_t grace) {
  if (!t || grace < 0) return BOURSE_E_INVALID;
  t->value.kill_grace = Duration(grace);
  return 0;
}
int bourse_task_spec_warning(bourse_task_spec* t, int32_t signal, int64_t before, int32_t first_process_only) {
  if (!t || signal < 0 || signal > 64 || before < 0) return BOURSE_E_INVALID;
  t->value.warn_signal = signal;
  t->value.warn_before = Duration(before);
  t->value.warn_shell_only = first_process_only != 0;
  return 0;
}
int bourse_task_spec_fence(bourse_task_spec* t, int32_t on) {
  return with(t, [&] { return t->value.fence_lease = on != 0, 0; });
}
int bourse_task_spec_image(bourse_task_spec* t, const char* image) {
  if (!t || !image) return BOURSE_E_INVALID;
  return guard([&] { return t->value.image = image, 0; });
}
int bourse_task_spec_mount(bourse_task_spec* t, const char* mount) {
  if (!t || !mount || mount[0] != '/') return BOURSE_E_INVALID;
  return guard([&] { return t->value.mounts.emplace_back(mount), 0; });
}
int bourse_task_spec_isolate(bourse_task_spec* t, const char* word) {
  if (!t || !word || !*word) return BOURSE_E_INVALID;
  return guard([&] { return t->value.isolate.emplace_back(word), 0; });
}
int bourse_task_spec_trace(bourse_task_spec* t, const char* traceparent) {
  if (!t || !traceparent) return BOURSE_E_INVALID;
  return guard([&] { return t->value.trace = traceparent, 0; });
}
int bourse_task_spec_priority(bourse_task_spec* t, int32_t priority) {
  return with(t, [&] { return t->value.priority = priority, 0; });
}
int bourse_task_spec_in_turn(bourse_task_spec* t, int32_t on) {
  return with(t, [&] { return t->value.in_turn = on != 0, 0; });
}

}  // extern "C"
