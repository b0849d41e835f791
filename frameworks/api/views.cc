// Getters of the C API: amounts, labels, offers, agents. Cheap: a look through a pointer.
#include <algorithm>

#include "frameworks/api/handle.h"

using namespace bourse;        // NOLINT: this file is the border between the two
using namespace bourse::capi;  // NOLINT

namespace {
int copy_amount(const std::vector<std::pair<std::string, std::int64_t>>& items, std::size_t index, bourse_amount* out) {
  if (index >= items.size()) return BOURSE_E_NOT_FOUND;
  *out = {items[index].first.c_str(), items[index].second};
  return 0;
}
}  // namespace

extern "C" {

int32_t bourse_version(void) { return BOURSE_VERSION_MAJOR * 1'000'000 + BOURSE_VERSION_MINOR * 1'000 + BOURSE_VERSION_PATCH; }

const char* bourse_strerror(int code) {
  switch (code) {
#define BOURSE_CODE_CASE_(name, number, text) \
  case number:                                \
    return text;
    BOURSE_CODES(BOURSE_CODE_CASE_)
#undef BOURSE_CODE_CASE_
    default:
      return "unknown error";
  }
}

int64_t bourse_resources_cpus(const bourse_resources* r) { return r ? real(r)->cpus.value : 0; }
int64_t bourse_resources_memory(const bourse_resources* r) { return r ? real(r)->mem.value : 0; }
int64_t bourse_resources_disk(const bourse_resources* r) { return r ? real(r)->disk.value : 0; }

size_t bourse_resources_port_ranges(const bourse_resources* r) { return r ? real(r)->ports.ranges().size() : 0; }
int bourse_resources_port_range(const bourse_resources* r, size_t index, uint16_t* first, uint16_t* last) {
  if (!r || !first || !last) return BOURSE_E_INVALID;
  const auto& ranges = real(r)->ports.ranges();
  if (index >= ranges.size()) return BOURSE_E_NOT_FOUND;
  *first = ranges[index].first;
  *last = ranges[index].second;
  return 0;
}

size_t bourse_resources_kinds(const bourse_resources* r) { return r ? real(r)->others.items().size() : 0; }
int bourse_resources_kind(const bourse_resources* r, size_t index, bourse_amount* kind) {
  if (!r || !kind) return BOURSE_E_INVALID;
  return copy_amount(real(r)->others.items(), index, kind);
}
int64_t bourse_resources_amount(const bourse_resources* r, const char* kind) { return r && kind ? real(r)->others.get(kind) : 0; }

size_t bourse_resources_numa_nodes(const bourse_resources* r) { return r ? real(r)->numa.size() : 0; }
int bourse_resources_numa_node(const bourse_resources* r, size_t index, bourse_numa_node* node) {
  if (!r || !node) return BOURSE_E_INVALID;
  const auto& numa = real(r)->numa;
  if (index >= numa.size()) return BOURSE_E_NOT_FOUND;
  *node = {numa[index].node, 0, numa[index].cpus.value, numa[index].mem.value};
  return 0;
}

size_t bourse_resources_devices(const bourse_resources* r) { return r ? real(r)->devices.size() : 0; }
const bourse_device* bourse_resources_device(const bourse_resources* r, size_t index) {
  return r && index < real(r)->devices.size() ? view(real(r)->devices[index]) : nullptr;
}
const char* bourse_device_id(const bourse_device* d) { return d ? real(d)->device.value.c_str() : ""; }
const char* bourse_device_kind(const bourse_device* d) { return d ? real(d)->kind.c_str() : ""; }
uint64_t bourse_device_generation(const bourse_device* d) { return d ? real(d)->generation.value : 0; }
int32_t bourse_device_whole(const bourse_device* d) { return d && real(d)->whole ? 1 : 0; }
const char* bourse_device_profile(const bourse_device* d) { return d ? real(d)->profile.c_str() : ""; }
size_t bourse_device_counters(const bourse_device* d) { return d ? real(d)->counters.items().size() : 0; }
int bourse_device_counter(const bourse_device* d, size_t index, bourse_amount* counter) {
  if (!d || !counter) return BOURSE_E_INVALID;
  return copy_amount(real(d)->counters.items(), index, counter);
}

int bourse_resources_text(const bourse_resources* r, char* buffer, size_t size) {
  if (!r || (!buffer && size != 0)) return BOURSE_E_INVALID;
  return guard([&] {
    const std::string text = to_text(*real(r));
    if (size != 0) {
      const std::size_t n = std::min(size - 1, text.size());
      std::memcpy(buffer, text.data(), n);
      buffer[n] = '\0';
    }
    return static_cast<int>(text.size());
  });
}

const char* bourse_labels_get(const bourse_labels* labels, const char* name) {
  if (!labels || !name) return nullptr;
  const char* found = nullptr;
  (void)guard([&] {
    auto it = real(labels)->find(name);
    if (it != real(labels)->end()) found = it->second.c_str();
    return 0;
  });
  return found;
}
size_t bourse_labels_count(const bourse_labels* labels) { return labels ? real(labels)->size() : 0; }
int bourse_labels_next(const bourse_labels* labels, const char* after, const char** name, const char** value) {
  if (!labels || !name || !value) return BOURSE_E_INVALID;
  return guard([&] {
    auto it = after ? real(labels)->upper_bound(after) : real(labels)->begin();
    if (it == real(labels)->end()) return 0;
    *name = it->first.c_str();
    *value = it->second.c_str();
    return 1;
  });
}

uint64_t bourse_offer_id(const bourse_offer* o) { return o ? real(o)->id.value : 0; }
uint64_t bourse_offer_generation(const bourse_offer* o) { return o ? real(o)->generation.value : 0; }
const char* bourse_offer_agent(const bourse_offer* o) { return o ? real(o)->agent.value.c_str() : ""; }
const bourse_resources* bourse_offer_resources(const bourse_offer* o) { return o ? view(real(o)->resources) : nullptr; }
const bourse_resources* bourse_offer_agent_total(const bourse_offer* o) { return o ? view(real(o)->agent_total) : nullptr; }
const bourse_labels* bourse_offer_labels(const bourse_offer* o) { return o ? view(real(o)->labels) : nullptr; }
int64_t bourse_offer_ttl(const bourse_offer* o) { return o ? real(o)->ttl.count() : 0; }
uint64_t bourse_offer_line(const bourse_offer* o) { return o ? real(o)->line : 0; }
uint64_t bourse_offer_reservation(const bourse_offer* o) { return o ? real(o)->reservation.value : 0; }
const char* bourse_offer_reserved(const bourse_offer* o) { return o ? real(o)->reserved.c_str() : ""; }
int64_t bourse_offer_lasts(const bourse_offer* o) { return o ? real(o)->lasts.count() : 0; }
int32_t bourse_offer_revocable(const bourse_offer* o) { return o && real(o)->revocable ? 1 : 0; }

size_t bourse_agents_count(const bourse_agents* a) { return a ? real(a)->size() : 0; }
const bourse_agent* bourse_agents_at(const bourse_agents* a, size_t index) {
  return a && index < real(a)->size() ? view((*real(a))[index]) : nullptr;
}
const char* bourse_agent_id(const bourse_agent* a) { return a ? real(a)->agent.value.c_str() : ""; }
int32_t bourse_agent_state(const bourse_agent* a) { return a ? static_cast<int32_t>(real(a)->state) : 0; }
const bourse_resources* bourse_agent_total(const bourse_agent* a) { return a ? view(real(a)->total) : nullptr; }
const bourse_labels* bourse_agent_labels(const bourse_agent* a) { return a ? view(real(a)->labels) : nullptr; }
uint64_t bourse_agent_incarnation(const bourse_agent* a) { return a ? real(a)->incarnation.value : 0; }
int32_t bourse_agent_degraded(const bourse_agent* a) { return a && real(a)->degraded ? 1 : 0; }
int64_t bourse_agent_closes(const bourse_agent* a) { return a ? real(a)->closes.count() : 0; }
int64_t bourse_agent_reopens(const bourse_agent* a) { return a ? real(a)->reopens.count() : 0; }
int bourse_agent_reserved(const bourse_agent* a, size_t index, bourse_reserved* out) {
  if (!a || !out || out->size < sizeof *out) return BOURSE_E_INVALID;
  if (index >= real(a)->reserved.size()) return 0;
  const AgentFacts::Reserved& r = real(a)->reserved[index];
  out->name = r.name.c_str(), out->role = r.role.str().c_str();
  out->start = r.start.count(), out->end = r.end.count();
  out->named = r.named ? 1 : 0, out->whole = r.whole ? 1 : 0;
  return 1;
}

}  // extern "C"
