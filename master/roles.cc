#include "master/roles.h"

#include <algorithm>
#include <utility>

#include "common/core/hooks.h"
#include "common/core/units.h"
#include "master/house.h"

namespace bourse::house {

namespace {

constexpr std::string_view kCpus = "cpus", kMem = "mem";
constexpr std::int64_t kWhole = 1000;  // permille of a device

bool of_kind(std::string_view device, std::string_view kind) {
  const bool under = !kind.empty() && device.size() > kind.size() && device.starts_with(kind) &&
                     (device[kind.size()] == '/' || kind.back() == '/');
  return device == kind || under;
}

}  // namespace

bool is_counter(std::string_view kind) { return kind.find_first_of(".:") != std::string_view::npos; }

// What one unit counts for is known by its shape, but for a whole host or device: those only when they are carved.
std::int64_t amount_of(const Usage& usage, std::string_view kind) {
  if (kind == kCpus) return usage.cpus;
  if (kind == kMem) return usage.mem;
  std::int64_t sum = 0;
  if (is_counter(kind)) {
    const auto colon = kind.find(':');
    const std::string_view device = colon == std::string_view::npos ? std::string_view() : kind.substr(0, colon);
    const std::string_view counter = colon == std::string_view::npos ? kind : kind.substr(colon + 1);
    for (const auto& [key, amount] : usage.counters.items()) {
      const std::string_view of = std::string_view(key).substr(0, key.find(':'));
      const std::string_view name = std::string_view(key).substr(of.size() + 1);
      if (name == counter && (device.empty() || of_kind(of, device))) sum += amount;
    }
    return sum;
  }
  for (const auto& [device, permille] : usage.devices.items())
    if (of_kind(device, kind)) sum += permille;
  return sum + usage.others.get(kind) * kWhole;
}

std::string amount_text(std::string_view kind, std::int64_t amount) {
  if (kind == kMem || kind == "disk") return format_size(Bytes(amount));
  if (is_counter(kind)) return std::to_string(amount);
  return format_cpus(MilliCpus(amount));  // cores and devices: thousandths, both
}

std::vector<RoleName> role_line(const RoleName& role) {
  std::vector<RoleName> line;
  std::string name = role.str();
  for (;;) {
    line.emplace_back(name);
    const auto slash = name.rfind('/');
    if (slash == std::string::npos) return line;
    name.resize(slash);
  }
}

Result<> check_role_name(std::string_view name) {
  constexpr std::string_view kGood = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/";
  const auto bad = [&](const std::string& why) { return Error(Code::kInvalid, "role '" + std::string(name) + "': " + why); };
  if (name.empty()) return bad("a role has a name");
  if (name.size() > RoleTable::kNameMax) return bad("a name has at most " + std::to_string(RoleTable::kNameMax) + " characters");
  if (name.find_first_not_of(kGood) != std::string_view::npos)
    return bad("a name is made of letters, digits, '.', '_', '-', and '/' between the parts of a tree");
  if (name.front() == '/' || name.back() == '/' || name.find("//") != std::string_view::npos) return bad("a part of it is empty");
  if (static_cast<std::size_t>(std::count(name.begin(), name.end(), '/')) >= RoleTable::kDepthMax)
    return bad("a tree has at most " + std::to_string(RoleTable::kDepthMax) + " levels");
  return {};
}

Result<std::pair<std::string, std::int64_t>> parse_limit(std::string_view kind, std::string_view amount) {
  const auto bad = [&](const std::string& why) {
    return Error(Code::kInvalid, "limit " + std::string(kind) + "=" + std::string(amount) + ": " + why);
  };
  if (kind.empty() || kind.size() > RoleTable::kNameMax)
    return bad("a limit names a kind: cpus, mem, gpu, gpu/acme, npu.compute, gpu/acme:mem, ...");
  const std::string name(kind);
  if (amount == "none" || amount == "unlimited") return std::pair(name, std::int64_t{0});
  if (kind == kMem) {
    const auto size = parse_size(amount);
    if (!size || size->value <= 0) return bad("memory is written as 512MiB, 64GiB or 1.5TiB, or none");
    return std::pair(name, size->value);
  }
  if (is_counter(kind)) {
    const auto whole = parse_cpus(amount);
    if (!whole || whole->value <= 0 || whole->value % kWhole != 0)
      return bad("a counter of devices is limited to a whole number above 0, or none");
    return std::pair(name, whole->value / kWhole);
  }
  const auto count = parse_cpus(amount);
  if (!count || count->value <= 0) return bad("an amount is a number above 0, as 8 or 0.5, or none");
  return std::pair(name, count->value);
}

std::string limit_text(const Counters& limit) {
  std::string text;
  for (const auto& [kind, amount] : limit.items()) text += (text.empty() ? "" : ",") + kind + "=" + amount_text(kind, amount);
  return text;
}

std::string use_text(const Usage& used) {
  std::string text = "cpus=" + amount_text(kCpus, used.cpus) + ",mem=" + amount_text(kMem, used.mem);
  for (const auto& [kind, amount] : used.devices.items()) text += "," + kind + "=" + amount_text(kind, amount);
  for (const auto& [kind, amount] : used.others.items()) text += "," + kind + "=" + std::to_string(amount);
  for (const auto& [kind, amount] : used.counters.items()) text += "," + kind + "=" + amount_text(kind, amount);
  return text;
}

std::int64_t RoleTable::weight(const House& h, const RoleName& role) {
  const auto found = h.registry.roles().find(role);
  return found == h.registry.roles().end() ? 1 : found->second.weight;
}

std::int64_t RoleTable::priority(const House& h, const RoleName& role) {
  for (const RoleName& above : role_line(role)) {
    const auto found = h.registry.roles().find(above);
    if (found != h.registry.roles().end() && found->second.priority) return *found->second.priority;
  }
  return 0;
}

RoleName RoleTable::covered(const RoleName& role, const Usage& more) const {
  for (const RoleName& above : role_line(role)) {
    const auto found = limits_.find(above);
    if (found == limits_.end() || found->second.guarantee.empty()) continue;
    const auto& items = found->second.guarantee.items();
    const bool within = std::all_of(items.begin(), items.end(), [&](const auto& item) {
      return amount_of(found->second.used, item.first) + amount_of(more, item.first) <= item.second;
    });
    const bool any = std::any_of(items.begin(), items.end(), [&](const auto& item) { return amount_of(more, item.first) > 0; });
    if (within && any) return above;
  }
  return RoleName();
}

bool RoleTable::may_lose(const RoleName& role, const Usage& less, const std::map<RoleName, Usage>& taken) const {
  for (const RoleName& above : role_line(role)) {
    const auto found = limits_.find(above);
    if (found == limits_.end()) continue;
    const auto before = taken.find(above);
    for (const auto& [kind, amount] : found->second.guarantee.items()) {
      const std::int64_t gone = amount_of(less, kind);
      const std::int64_t had = amount_of(found->second.used, kind) - (before == taken.end() ? 0 : amount_of(before->second, kind));
      if (gone > 0 && had - gone < amount) return false;
    }
  }
  return true;
}

void RoleTable::settings_changed(House& h) {
  limits_.clear();
  charged_.clear();
  preempts_ = false;
  for (const auto& [role, settings] : h.registry.roles()) {
    preempts_ = preempts_ || settings.priority || !settings.guarantee.empty();
    if (!settings.guarantee.empty()) limits_[role].guarantee = settings.guarantee;
    if (!settings.limit.empty() && !hooks::mutant("roles.limit_ignored")) limits_[role].most = settings.limit;
  }
  for (const auto& [id, ix] : h.frameworks.by_name()) {
    h.allocator.framework_changed(h, ix);  // its weight
    charge(h, ix);
  }
  wake(h);
  h.claims.reconsider(h);
}

void RoleTable::book(const Charge& charge, bool add) {
  for (const RoleName& above : role_line(charge.role)) {
    const auto limit = limits_.find(above);
    if (limit == limits_.end()) continue;
    if (add) {
      limit->second.used.add(charge.used);
    } else {
      limit->second.used.subtract(charge.used);
    }
  }
}

void RoleTable::charge(House& h, FrameworkIx ix) {
  if (limits_.empty()) return;
  const FrameworkRow& row = h.frameworks.at(ix);
  Charge& charge = charged_[ix];
  const Charge now{row.role, row.used};
  const bool shrank = charge.role != now.role || now.used.cpus < charge.used.cpus || now.used.mem < charge.used.mem ||
                      !now.used.devices.contains(charge.used.devices);
  if (!charge.role.str().empty()) book(charge, false);
  charge = now;
  book(charge, true);
  if (shrank) wake(h);
}

void RoleTable::discharge(House& h, FrameworkIx ix) {
  waiting_.erase(ix);
  const auto node = charged_.extract(ix);
  if (node.empty()) return;
  book(node.mapped(), false);
  wake(h);
}

bool RoleTable::allows(const RoleName& role, const Usage& more) const {
  for (const RoleName& above : role_line(role)) {
    const auto limit = limits_.find(above);
    if (limit == limits_.end()) continue;
    for (const auto& [kind, most] : limit->second.most.items()) {
      const std::int64_t add = amount_of(more, kind);
      if (add > 0 && amount_of(limit->second.used, kind) > most - add) return false;
    }
  }
  return true;
}

std::uint32_t RoleTable::room(House& h, FrameworkIx ix, const LineRow& line) {
  if (limits_.empty()) return UINT32_MAX;
  const FrameworkRow& row = h.frameworks.at(ix);
  const std::vector<RoleName> roles = role_line(row.role);
  const bool any = std::any_of(roles.begin(), roles.end(), [&](const RoleName& role) {
    const auto limit = limits_.find(role);
    return limit != limits_.end() && !limit->second.most.empty();
  });
  if (!any) return UINT32_MAX;
  if (!settled(h)) {
    grace.push(h.started + h.options.peer_timeout, 0);
    waiting_.insert(ix);
    return 0;
  }
  if (line.wildcard) return 1;
  const Usage one = usage_of(line.want.shape);
  std::int64_t units = line.unmet();
  for (const RoleName& role : roles) {
    const auto limit = limits_.find(role);
    if (limit == limits_.end()) continue;
    for (const auto& [kind, most] : limit->second.most.items()) {
      const std::int64_t each = amount_of(one, kind);
      if (each > 0) units = std::min(units, std::max<std::int64_t>(0, most - amount_of(limit->second.used, kind)) / each);
    }
  }
  if (units < static_cast<std::int64_t>(line.unmet())) waiting_.insert(ix);
  return static_cast<std::uint32_t>(units);
}

Resources RoleTable::trimmed(const RoleName& role, const Resources& amount, const Resources& total, const Labels& labels) const {
  if (allows(role, usage_of(amount))) return amount;
  Shape least;
  least.cpus = amount.cpus;
  least.mem = amount.mem;
  for (const RoleName& above : role_line(role)) {
    const auto limit = limits_.find(above);
    if (limit == limits_.end()) continue;
    for (const auto& [kind, most] : limit->second.most.items()) {
      const std::int64_t left = std::max<std::int64_t>(0, most - amount_of(limit->second.used, kind));
      if (kind == kCpus) least.cpus.value = std::min(least.cpus.value, left);
      if (kind == kMem) least.mem.value = std::min(least.mem.value, left);
    }
  }
  if (least.cpus.value == 0 || least.mem.value == 0) return {};
  auto part = carve(least, amount, total, labels);
  return part && allows(role, usage_of(*part)) ? *std::move(part) : Resources{};
}

std::string RoleTable::obstacle(const House& h, const FrameworkRow& framework, const LineRow& line) const {
  const Usage one = usage_of(line.want.shape);
  for (const RoleName& role : role_line(framework.role)) {
    const auto limit = limits_.find(role);
    if (limit == limits_.end() || limit->second.most.empty()) continue;
    if (!settled(h)) return "role " + role.str() + " has a limit, and not every agent has shown what it spends";
    for (const auto& [kind, most] : limit->second.most.items()) {
      const std::int64_t each = amount_of(one, kind), used = amount_of(limit->second.used, kind);
      if (each > 0 && used > most - each)
        return "role " + role.str() + " has " + amount_text(kind, used) + " of at most " + amount_text(kind, most) + " " + kind;
    }
  }
  return "";
}

std::string RoleTable::standing(const RoleName& role) const {
  std::string out;
  for (const RoleName& above : role_line(role)) {
    const auto limit = limits_.find(above);
    if (limit == limits_.end()) continue;
    out += (out.empty() ? "" : "; ") + above.str();
    std::string kinds;
    for (const auto& [kind, most] : limit->second.most.items())
      kinds += (kinds.empty() ? " " : ", ") + amount_text(kind, amount_of(limit->second.used, kind)) + " of at most " +
               amount_text(kind, most) + " " + kind;
    out += kinds;
  }
  return out;
}

void RoleTable::wake(House& h) {
  if (waiting_.empty()) return;
  for (const FrameworkIx ix : std::exchange(waiting_, {})) {
    for (LineRow& line : h.frameworks.at(ix).lines) line.starved = false;
    h.allocator.framework_dirty(ix);
  }
}

bool RoleTable::settled(const House& h) const { return grace_over_ || h.agents.missing == 0; }

void RoleTable::agents_settled(House& h) {
  if (h.agents.missing > 0 && h.now.mono >= h.started + h.options.peer_timeout) grace_over_ = true;
  if (settled(h)) wake(h);
}

}  // namespace bourse::house
