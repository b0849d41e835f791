// Constraints, counters, amounts and shapes.
#include "common/wire/codec.h"

namespace bourse::wire {

using Op = Constraint::Op;
static_assert(same(fb::ConstraintOp::In, Op::kIn) && same(fb::ConstraintOp::NotIn, Op::kNotIn) &&
              same(fb::ConstraintOp::Present, Op::kPresent) && same(fb::ConstraintOp::Absent, Op::kAbsent) &&
              same(fb::ConstraintOp::Matches, Op::kMatches) && same(fb::ConstraintOp::MAX, Op::kMatches));

Offset<fb::Constraint> write(Builder& b, const Constraint& constraint) {
  const auto label = put(b, constraint.label);
  const auto values = put_texts(b, constraint.values);
  return fb::CreateConstraint(b, label, static_cast<fb::ConstraintOp>(constraint.op), values);
}

// The text of an expression is the sender's: it must be one, and in normal form, so that what is kept is what was sent.
static bool read_expression(In& in, Constraint& constraint) {
  if (constraint.op != Op::kMatches) return true;
  auto made = make_constraint(constraint.label, constraint.op, constraint.values);
  if (!made) return in.fail(Code::kCorrupt, "values", made.error().text());
  if (made->label != constraint.label || made->values != constraint.values)
    return in.fail(Code::kCorrupt, "values", "an expression is not in normal form");
  constraint = *std::move(made);
  return true;
}

bool read(In& in, const fb::Constraint& table, Constraint& constraint) {
  if (!in.text(table.label(), constraint.label, "label")) return false;
  if (constraint.label.empty()) return in.fail(Code::kCorrupt, "label", "is missing");
  if (!in.enumerator(table.op(), constraint.op, "op")) return false;
  return in.each(table.values(), "values", [&](std::size_t, std::string_view text) {
    if (!constraint.values.empty() && constraint.values.back() > text)
      return in.fail(Code::kCorrupt, {}, "values are not in order");
    constraint.values.emplace_back(text);
    return true;
  }) && read_expression(in, constraint);
}

static_assert(same(fb::PlacementKind::Spread, Placement::Kind::kSpread) && same(fb::PlacementKind::Pack, Placement::Kind::kPack) &&
              same(fb::PlacementKind::Affinity, Placement::Kind::kAffinity) &&
              same(fb::PlacementKind::AntiAffinity, Placement::Kind::kAntiAffinity) &&
              same(fb::PlacementKind::MAX, Placement::Kind::kAntiAffinity));

static Offset<fb::Placement> write(Builder& b, const Placement& placement) {
  const auto level = put(b, placement.level);
  const auto framework = put(b, placement.framework);
  const auto group = put(b, placement.group);
  return fb::CreatePlacement(b, static_cast<fb::PlacementKind>(placement.kind), level, placement.max_skew, placement.required,
                             framework, group);
}

static bool read(In& in, const fb::Placement& table, Placement& placement) {
  placement.max_skew = table.max_skew();
  placement.required = table.required();
  if (!in.enumerator(table.kind(), placement.kind, "kind") || !in.name(table.level(), placement.level, "level") ||
      !in.optional_name(table.framework(), placement.framework, "framework") ||
      !in.optional_name(table.group(), placement.group, "group"))
    return false;
  const Result<> sound = check(placement);
  return sound || in.fail(Code::kCorrupt, {}, sound.error().text());
}

Offset<fb::Counters> put_counters(Builder& b, const Counters& counters) {
  if (counters.empty()) return {};
  std::vector<std::string_view> names;
  std::vector<std::int64_t> amounts;
  for (const auto& [name, amount] : counters.items()) {
    names.emplace_back(name);
    amounts.push_back(amount);
  }
  const auto packed = put_texts(b, names);
  return fb::CreateCounters(b, packed, b.CreateVector(amounts));
}

bool read_counters(In& in, const fb::Counters* table, Counters& counters, std::string_view field) {
  if (table == nullptr) return true;
  const std::size_t n = table->amounts() == nullptr ? 0 : table->amounts()->size();
  if (!in.table() || !in.count(n, sizeof(std::int64_t), "amounts")) return in.at(field);
  if (n > 0 && !in_place(*table->amounts(), sizeof(std::int64_t)))
    return in.fail(Code::kCorrupt, field, "amounts are out of place");
  std::string last;
  std::size_t seen = 0;
  const bool ok = in.each(table->names(), "names", [&](std::size_t i, std::string_view text) {
    std::string name(text);
    if (i >= n) return in.fail(Code::kCorrupt, {}, "has no amount");
    if (!valid_name(name)) return in.fail(Code::kCorrupt, {}, "is not a name");
    if (name <= last) return in.fail(Code::kCorrupt, {}, "names are not in order");
    const std::int64_t amount = table->amounts()->Get(static_cast<flatbuffers::uoffset_t>(i));
    if (amount <= 0) return in.fail(Code::kCorrupt, {}, std::to_string(amount) + " is not above zero");
    counters.set(name, amount);
    last = std::move(name);
    ++seen;
    return true;
  });
  if (!ok) return in.at(field);
  return seen == n || in.fail(Code::kCorrupt, field, "has amounts without names");
}

static Offset<Vector<const fb::PortRange*>> put_ports(Builder& b, const Ports& ports) {
  if (ports.empty()) return {};
  std::vector<fb::PortRange> ranges;
  for (const auto& [first, last] : ports.ranges()) ranges.emplace_back(first, last);
  return b.CreateVectorOfStructs(ranges);
}

static bool read_ports(In& in, const Vector<const fb::PortRange*>* ranges, Ports& ports, std::string_view field) {
  if (ranges == nullptr || ranges->size() == 0) return true;
  if (!in.count(ranges->size(), sizeof(fb::PortRange), field)) return false;
  std::string text;
  std::uint32_t next = 0;  // the least first port that the next range may have
  for (const fb::PortRange* range : *ranges) {
    if (range->first() < next || range->first() > range->last()) return in.fail(Code::kCorrupt, field, "ranges are not in order");
    next = range->last() + 2U;
    if (!text.empty()) text += ',';
    text += std::to_string(range->first());
    if (range->first() != range->last()) text += '-' + std::to_string(range->last());
  }
  auto parsed = Ports::parse(text);
  if (!parsed) return in.fail(Code::kCorrupt, field, parsed.error().text());
  ports = *std::move(parsed);
  return true;
}

static_assert(same(fb::DeviceMode::Exclusive, DeviceMode::kExclusive) && same(fb::DeviceMode::Counters, DeviceMode::kCounters) &&
              same(fb::DeviceMode::Template, DeviceMode::kTemplate) && same(fb::DeviceMode::TimeSliced, DeviceMode::kTimeSliced) &&
              same(fb::DeviceMode::MAX, DeviceMode::kTimeSliced));

Offset<Vector<Offset<fb::DeviceProfile>>> put_profiles(Builder& b, const std::map<std::string, Counters>& profiles) {
  std::vector<Offset<fb::DeviceProfile>> list;
  for (const auto& [name, consumes] : profiles) {
    const auto text = put(b, name);
    list.push_back(fb::CreateDeviceProfile(b, text, put_counters(b, consumes)));
  }
  return list.empty() ? Offset<Vector<Offset<fb::DeviceProfile>>>() : b.CreateVector(list);
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

bool read_profiles(In& in, const Vector<Offset<fb::DeviceProfile>>* list, std::map<std::string, Counters>& profiles) {
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

static Offset<fb::DeviceShare> write(Builder& b, const DeviceShare& share) {
  const auto device = put(b, share.device);
  const auto kind = put(b, share.kind);
  const auto profile = put(b, share.profile);
  const auto counters = put_counters(b, share.counters);
  const auto profiles = put_profiles(b, share.traits.profiles);
  const auto attributes = put_map(b, share.traits.attributes);
  return fb::CreateDeviceShare(b, device, kind, share.generation.value, share.whole, profile, counters,
                               static_cast<fb::DeviceMode>(share.traits.sharing), profiles, attributes);
}

static bool read(In& in, const fb::DeviceShare& table, DeviceShare& share) {
  share.generation = Generation(table.generation());
  share.whole = table.whole();
  return in.name(table.device(), share.device, "device") && in.name(table.kind(), share.kind, "kind") &&
         in.text(table.profile(), share.profile, "profile") && read_counters(in, table.counters(), share.counters, "counters") &&
         in.enumerator(table.sharing(), share.traits.sharing, "sharing") &&
         read_profiles(in, table.profiles(), share.traits.profiles) &&
         in.map(table.attributes(), share.traits.attributes, "attributes");
}

static Offset<fb::NumaAmount> write(Builder& b, const NumaAmount& amount) {
  return fb::CreateNumaAmount(b, amount.node, amount.cpus.value, amount.mem.value);
}

static bool read(In& in, const fb::NumaAmount& table, NumaAmount& amount) {
  amount.node = table.node();
  return in.amount(table.cpus(), amount.cpus, "cpus") && in.amount(table.mem(), amount.mem, "mem");
}

// What the algebra relies on: nodes ascending and adding up to the totals.
static bool check_numa(In& in, const Resources& resources) {
  if (resources.numa.empty()) return true;
  std::int64_t cpus = 0, mem = 0;
  for (std::size_t i = 0; i < resources.numa.size(); ++i) {
    const NumaAmount& node = resources.numa[i];
    if (i > 0 && resources.numa[i - 1].node >= node.node) return in.fail(Code::kCorrupt, "numa", "nodes are not in order");
    if (__builtin_add_overflow(cpus, node.cpus.value, &cpus) || __builtin_add_overflow(mem, node.mem.value, &mem)) {
      return in.fail(Code::kCorrupt, "numa", "amounts overflow");
    }
  }
  if (cpus != resources.cpus.value) return in.fail(Code::kCorrupt, "numa", "cpus of the nodes do not add up to the total");
  return mem == resources.mem.value || in.fail(Code::kCorrupt, "numa", "mem of the nodes does not add up to the total");
}

static bool check_devices(In& in, const std::vector<DeviceShare>& devices) {
  for (std::size_t i = 1; i < devices.size(); ++i) {
    if (devices[i - 1].device >= devices[i].device) return in.fail(Code::kCorrupt, "devices", "are not in order");
  }
  return true;
}

Offset<fb::Resources> put_resources(Builder& b, const Resources& resources) {
  if (resources == Resources{}) return {};
  const auto ports = put_ports(b, resources.ports);
  const auto others = put_counters(b, resources.others);
  const auto numa = put_list(b, resources.numa);
  const auto devices = put_list(b, resources.devices);
  return fb::CreateResources(b, resources.cpus.value, resources.mem.value, resources.disk.value, ports, others, numa, devices);
}

bool read(In& in, const fb::Resources& table, Resources& resources) {
  return in.amount(table.cpus(), resources.cpus, "cpus") && in.amount(table.mem(), resources.mem, "mem") &&
         in.amount(table.disk(), resources.disk, "disk") && read_ports(in, table.ports(), resources.ports, "ports") &&
         read_counters(in, table.others(), resources.others, "others") && read_list(in, table.numa(), resources.numa, "numa") &&
         check_numa(in, resources) && read_list(in, table.devices(), resources.devices, "devices") &&
         check_devices(in, resources.devices);
}

static Offset<fb::DeviceAsk> write(Builder& b, const DeviceAsk& ask) {
  const auto kind = put(b, ask.kind);
  const auto profile = put(b, ask.profile);
  const auto counters = put_counters(b, ask.counters);
  const auto attributes = put_list(b, ask.attributes);
  return fb::CreateDeviceAsk(b, kind, ask.count, ask.whole, profile, counters, attributes);
}

static bool read(In& in, const fb::DeviceAsk& table, DeviceAsk& ask) {
  ask.count = table.count();
  ask.whole = table.whole();
  return in.name(table.kind(), ask.kind, "kind") && in.text(table.profile(), ask.profile, "profile") &&
         read_counters(in, table.counters(), ask.counters, "counters") &&
         read_list(in, table.attributes(), ask.attributes, "attributes");
}

Offset<fb::Shape> write(Builder& b, const Shape& shape) {
  const auto others = put_counters(b, shape.others);
  const auto devices = put_list(b, shape.devices);
  const auto constraints = put_list(b, shape.constraints);
  const auto group = put(b, shape.group);
  const auto placement = put_list(b, shape.placement);
  return fb::CreateShape(b, shape.cpus.value, shape.mem.value, shape.disk.value, shape.ports, shape.whole_host, shape.same_numa,
                         others, devices, constraints, shape.revocable, group, placement);
}

bool read(In& in, const fb::Shape& table, Shape& shape) {
  shape.ports = table.ports();
  shape.revocable = table.revocable();
  shape.whole_host = table.whole_host();
  shape.same_numa = table.same_numa();
  return in.amount(table.cpus(), shape.cpus, "cpus") && in.amount(table.mem(), shape.mem, "mem") &&
         in.amount(table.disk(), shape.disk, "disk") && read_counters(in, table.others(), shape.others, "others") &&
         read_list(in, table.devices(), shape.devices, "devices") &&
         read_list(in, table.constraints(), shape.constraints, "constraints") &&
         in.optional_name(table.group(), shape.group, "group") && read_list(in, table.placement(), shape.placement, "placement") &&
         (shape.placement.size() <= kPlacementsMax ||
          in.fail(Code::kLimit, "placement", "has more than " + std::to_string(kPlacementsMax) + " rules"));
}

}  // namespace bourse::wire
