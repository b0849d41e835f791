// Does a shape fit, how often, and which concrete part does it take. The allocator asks this for every agent it looks at, so
// the common shape (cpus and mem, no constraints, no devices) costs a few comparisons and no allocation.
#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

#include "common/core/hooks.h"
#include "common/core/resources.h"

namespace bourse {

std::string_view misfit_text(Misfit misfit) {
  switch (misfit) {
    case Misfit::kNone:
      return "fits";
    case Misfit::kLabels:
      return "labels";
    case Misfit::kCpus:
      return "cpus";
    case Misfit::kMem:
      return "mem";
    case Misfit::kDisk:
      return "disk";
    case Misfit::kPorts:
      return "ports";
    case Misfit::kOther:
      return "other kinds";
    case Misfit::kDevices:
      return "devices";
    case Misfit::kNuma:
      return "one NUMA node";
    case Misfit::kBusyHost:
      return "busy host";
  }
  return "unknown";
}

namespace {

constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

bool kind_matches(std::string_view asked, std::string_view kind) {
  return asked == kind || (!asked.empty() && asked.back() == '/' && kind.substr(0, asked.size()) == asked);
}

const DeviceShare* find_share(const std::vector<DeviceShare>& devices, const DeviceId& id) {
  const auto at =
      std::lower_bound(devices.begin(), devices.end(), id, [](const DeviceShare& d, const DeviceId& i) { return d.device < i; });
  return at != devices.end() && at->device == id ? &*at : nullptr;
}

// Of two profiles that both have what is asked, is `a` the smaller one? By the largest part of the device that each takes, then by the
// sum of the parts.
bool smaller_profile(const Counters& a, const Counters& b, const Counters& all) {
  constexpr std::int64_t kParts = 1000;
  const auto weigh = [&](const Counters& counters) {
    std::int64_t largest = 0, sum = 0;
    for (const auto& [name, amount] : counters.items()) {
      const std::int64_t whole = all.get(name);
      const auto part = whole <= 0 ? kParts : static_cast<std::int64_t>(static_cast<__int128_t>(amount) * kParts / whole);
      largest = std::max(largest, part);
      sum += part;
    }
    return std::pair(largest, sum);
  };
  return weigh(a) < weigh(b);
}

// The profile by which a device in mode template serves the ask: the one that is named, or the smallest that has enough and is free.
const std::pair<const std::string, Counters>* serving_profile(const DeviceAsk& ask, const DeviceShare& free,
                                                              const DeviceShare& all) {
  const std::pair<const std::string, Counters>* best = nullptr;
  for (const auto& profile : all.traits.profiles) {
    if (!ask.profile.empty() && profile.first != ask.profile) continue;
    if (!profile.second.contains(ask.counters) || !free.counters.contains(profile.second)) continue;
    if (best == nullptr || smaller_profile(profile.second, best->second, all.counters)) best = &profile;
  }
  return best;
}

// What a constraint asks of an agent.
class AgentSubject : public Subject {
 public:
  AgentSubject(const Resources& total, const Labels& labels) : total_(total), labels_(labels) {}
  [[nodiscard]] const std::string* text(const std::string& name) const override {
    const auto at = labels_.find(name);
    return at == labels_.end() ? nullptr : &at->second;
  }
  [[nodiscard]] std::int64_t number(Term::Of of, const std::string& name) const override {
    switch (of) {
      case Term::Of::kCpus:
        return total_.cpus.value;
      case Term::Of::kMem:
        return total_.mem.value;
      case Term::Of::kDisk:
        return total_.disk.value;
      case Term::Of::kPorts:
        return total_.ports.size();
      case Term::Of::kNuma:
        return static_cast<std::int64_t>(std::max<std::size_t>(total_.numa.size(), 1));
      case Term::Of::kCount:
        return total_.others.get(name) + std::count_if(total_.devices.begin(), total_.devices.end(),
                                                       [&](const DeviceShare& d) { return kind_matches(name, d.kind); });
      case Term::Of::kCounter:
      case Term::Of::kText:
        break;
    }
    return 0;
  }

 private:
  const Resources& total_;
  const Labels& labels_;
};

// And of one of its devices: what it is, and all of its counters, free or not.
class DeviceSubject : public AgentSubject {
 public:
  DeviceSubject(const DeviceShare& free, const DeviceShare* all, const Resources& total)
      : AgentSubject(total, all == nullptr ? free.traits.attributes : all->traits.attributes), free_(free), all_(all) {}
  [[nodiscard]] const std::string* text(const std::string& name) const override {
    if (name == "kind") return &free_.kind;
    return name == "uuid" ? &free_.device.value : AgentSubject::text(name);
  }
  [[nodiscard]] std::int64_t number(Term::Of of, const std::string& name) const override {
    if (of == Term::Of::kCounter) return (all_ == nullptr ? free_ : *all_).counters.get(name);
    return AgentSubject::number(of, name);
  }

 private:
  const DeviceShare& free_;
  const DeviceShare* all_;
};

bool has_attributes(const DeviceAsk& ask, const DeviceShare& free, const DeviceShare* all, const Resources& total) {
  return ask.attributes.empty() || satisfies(DeviceSubject(free, all, total), ask.attributes);
}

bool device_fits(const DeviceAsk& ask, const DeviceShare& free, const Resources& total) {
  if (!kind_matches(ask.kind, free.kind)) return false;
  const DeviceShare* all = find_share(total.devices, free.device);
  if (!has_attributes(ask, free, all, total)) return false;
  if (!ask.whole) {
    const DeviceMode sharing = all == nullptr ? DeviceMode::kCounters : all->traits.sharing;
    if (sharing == DeviceMode::kExclusive || (ask.counters.empty() && ask.profile.empty())) return false;
    if (sharing == DeviceMode::kTemplate && !hooks::mutant("core.template_as_amounts"))
      return serving_profile(ask, free, *all) != nullptr;
    return !ask.counters.empty() && free.counters.contains(ask.counters);
  }
  return free.whole && all != nullptr && all->generation == free.generation && all->counters == free.counters &&
         free.counters.contains(ask.counters);
}

// Which free device serves each asked one: a matching, so that "any gpu" does not take the only one that "this kind of gpu"
// could have had. Devices in the order of their ids; empty where there is none.
std::vector<std::size_t> match_devices(const Shape& shape, const Resources& free, const Resources& total) {
  std::vector<const DeviceAsk*> units;
  for (const DeviceAsk& ask : shape.devices) {
    if (ask.count > free.devices.size() - std::min(free.devices.size(), units.size())) return {};
    units.insert(units.end(), ask.count, &ask);
  }
  std::vector<std::size_t> owner(free.devices.size(), kNone);  // unit that has the device
  std::vector<bool> tried;
  const std::function<bool(std::size_t)> place = [&](std::size_t unit) {
    for (std::size_t d = 0; d < owner.size(); ++d) {
      if (tried[d] || !device_fits(*units[unit], free.devices[d], total)) continue;
      tried[d] = true;
      if (owner[d] == kNone || place(owner[d])) {
        owner[d] = unit;
        return true;
      }
    }
    return false;
  };
  for (std::size_t unit = 0; unit < units.size(); ++unit) {
    tried.assign(owner.size(), false);
    if (!place(unit)) return {};
  }
  std::vector<std::size_t> chosen(units.size(), kNone);
  for (std::size_t d = 0; d < owner.size(); ++d) {
    if (owner[d] != kNone) chosen[owner[d]] = d;
  }
  return chosen;
}

std::uint64_t devices_asked(const Shape& shape) {
  std::uint64_t n = 0;
  for (const DeviceAsk& ask : shape.devices) n += ask.count;
  return n;
}

bool node_fits(const Shape& shape, const NumaAmount& node) { return shape.cpus <= node.cpus && shape.mem <= node.mem; }

// The node with the least free that fits; lowest number among equals.
const NumaAmount* best_node(const Shape& shape, const Resources& free) {
  const NumaAmount* best = nullptr;
  for (const NumaAmount& node : free.numa) {
    if (!node_fits(shape, node)) continue;
    if (best == nullptr || node.cpus < best->cpus || (node.cpus == best->cpus && node.mem < best->mem)) best = &node;
  }
  return best;
}

// No single node fits: the fewest nodes for the cpus (those with most free first), memory beside them before memory elsewhere.
std::vector<NumaAmount> spread(const Shape& shape, const Resources& free) {
  std::vector<std::size_t> order(free.numa.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const NumaAmount &x = free.numa[a], &y = free.numa[b];
    return x.cpus != y.cpus ? x.cpus > y.cpus : x.mem > y.mem;
  });
  std::vector<NumaAmount> taken(free.numa.size());
  std::int64_t cpus = shape.cpus.value, mem = shape.mem.value;
  for (const std::size_t i : order) {
    const NumaAmount& node = free.numa[i];
    taken[i].node = node.node;
    if (cpus == 0 && shape.cpus.value != 0) continue;
    taken[i].cpus.value = std::min(cpus, node.cpus.value);
    taken[i].mem.value = std::min(mem, node.mem.value);
    cpus -= taken[i].cpus.value;
    mem -= taken[i].mem.value;
  }
  for (const std::size_t i : order) {
    const std::int64_t more = std::min(mem, free.numa[i].mem.value - taken[i].mem.value);
    taken[i].mem.value += more;
    mem -= more;
  }
  std::erase_if(taken, [](const NumaAmount& n) { return n.cpus.value == 0 && n.mem.value == 0; });
  return taken;
}

// How often `part` goes into `whole`; no limit where nothing is asked.
std::uint64_t times(std::int64_t whole, std::int64_t part) {
  if (part <= 0) return std::numeric_limits<std::uint64_t>::max();
  return whole <= 0 ? 0 : static_cast<std::uint64_t>(whole / part);
}

}  // namespace

bool satisfies(const Resources& total, const Labels& labels, const Constraint& constraint) {
  return satisfies(AgentSubject(total, labels), constraint);
}

Misfit fits(const Shape& shape, const Resources& free, const Resources& total, const Labels& labels) {
  if (!shape.constraints.empty() && !satisfies(AgentSubject(total, labels), shape.constraints)) return Misfit::kLabels;
  if (shape.cpus > free.cpus) return Misfit::kCpus;
  if (shape.mem > free.mem) return Misfit::kMem;
  if (shape.disk > free.disk) return Misfit::kDisk;
  if (shape.ports > 0 && shape.ports > free.ports.size()) return Misfit::kPorts;
  if (!shape.others.empty() && !free.others.contains(shape.others)) return Misfit::kOther;
  if (!shape.devices.empty() && devices_asked(shape) > 0 && match_devices(shape, free, total).empty()) return Misfit::kDevices;
  if (shape.same_numa && !free.numa.empty() && best_node(shape, free) == nullptr) return Misfit::kNuma;
  if (shape.whole_host && !free.contains(total)) return Misfit::kBusyHost;
  return Misfit::kNone;
}

std::uint32_t count_fits(const Shape& shape, const Resources& free, const Resources& total, const Labels& labels,
                         std::uint32_t limit) {
  if (limit == 0 || fits(shape, free, total, labels) != Misfit::kNone) return 0;
  if (shape.whole_host && !free.empty()) return 1;
  if (devices_asked(shape) > 0) {  // a device serves once or, by counters, several times: carve and see
    Resources left = free;
    for (std::uint32_t n = 0; n < limit; ++n) {
      auto part = carve(shape, left, total, labels);
      if (!part || !left.subtract(*part)) return n;
    }
    return limit;
  }
  std::uint64_t n = std::min<std::uint64_t>(limit, times(free.disk.value, shape.disk.value));
  if (shape.same_numa && !free.numa.empty()) {
    std::uint64_t sum = 0;
    for (const NumaAmount& node : free.numa) {
      const std::uint64_t here = std::min(times(node.cpus.value, shape.cpus.value), times(node.mem.value, shape.mem.value));
      sum += std::min<std::uint64_t>(here, limit);
    }
    n = std::min(n, sum);
  } else {
    n = std::min({n, times(free.cpus.value, shape.cpus.value), times(free.mem.value, shape.mem.value)});
  }
  if (shape.ports > 0) n = std::min<std::uint64_t>(n, free.ports.size() / shape.ports);
  for (const auto& [name, amount] : shape.others.items()) n = std::min(n, times(free.others.get(name), amount));
  return static_cast<std::uint32_t>(n);
}

Result<Resources> carve(const Shape& shape, const Resources& free, const Resources& total, const Labels& labels) {
  if (shape.cpus.value < 0 || shape.mem.value < 0 || shape.disk.value < 0) return Error(Code::kInvalid, "a shape is below zero");
  const Misfit misfit = fits(shape, free, total, labels);
  if (misfit != Misfit::kNone) return Error(Code::kBusy, "it does not fit: " + std::string(misfit_text(misfit)));
  if (shape.whole_host) return without_traits(free);
  Resources out;
  out.cpus = shape.cpus;
  out.mem = shape.mem;
  out.disk = shape.disk;
  if (shape.ports > 0) out.ports = free.ports.take(shape.ports);
  if (!shape.others.empty()) out.others = shape.others;
  if (!free.numa.empty() && (shape.cpus.value > 0 || shape.mem.value > 0)) {
    if (const NumaAmount* node = best_node(shape, free)) {
      out.numa.push_back({node->node, shape.cpus, shape.mem});
    } else {
      out.numa = spread(shape, free);
    }
  }
  if (devices_asked(shape) > 0) {
    const std::vector<std::size_t> chosen = match_devices(shape, free, total);
    std::size_t unit = 0;
    for (const DeviceAsk& ask : shape.devices) {
      for (std::uint32_t i = 0; i < ask.count; ++i, ++unit) {
        const DeviceShare& from = free.devices[chosen[unit]];
        DeviceShare share = from;
        share.traits = {};
        share.profile = ask.profile;
        if (!ask.whole) {
          const DeviceShare* all = find_share(total.devices, from.device);
          share.whole = false;
          share.counters = ask.counters;
          if (all != nullptr && all->traits.sharing == DeviceMode::kTemplate)
            if (const auto* profile = serving_profile(ask, from, *all))
              share.profile = profile->first, share.counters = profile->second;
        }
        out.devices.push_back(std::move(share));
      }
    }
    std::sort(out.devices.begin(), out.devices.end(),
              [](const DeviceShare& a, const DeviceShare& b) { return a.device < b.device; });
  }
  return out;
}

std::string rounding_text(const Shape& shape, const Resources& granted) {
  std::string out;
  std::vector<DeviceAsk> asks;
  for (const DeviceAsk& ask : shape.devices)
    if (!ask.whole) asks.insert(asks.end(), ask.count, ask);
  for (const DeviceShare& share : granted.devices) {
    if (share.whole) continue;
    const auto ask = std::find_if(asks.begin(), asks.end(), [&](const DeviceAsk& a) {
      return kind_matches(a.kind, share.kind) && share.counters.contains(a.counters) &&
             (a.profile.empty() || a.profile == share.profile);
    });
    if (ask == asks.end()) continue;
    std::string more;
    for (const auto& [name, amount] : share.counters.items())
      if (const std::int64_t asked = ask->counters.get(name); asked < amount && !ask->counters.empty())
        more += (more.empty() ? "" : ", ") + name + " " + std::to_string(amount) + " for " + std::to_string(asked);
    if (!more.empty()) out += (out.empty() ? "" : "; ") + ("device " + share.device.value + ": " + share.profile + " has " + more);
    asks.erase(ask);
  }
  return out;
}

}  // namespace bourse
