#include "agent/warm_pools.h"

#include <algorithm>

#include "common/core/hooks.h"
#include "common/core/vm_image.h"

namespace bourse {
namespace {

constexpr std::int64_t kMilli = 1000;
constexpr std::int64_t kScatterTicks = 12, kScatterMost = 4000;
constexpr std::int64_t kMakingWeight = 8;

void word(std::string& out, const std::string& text) { out += std::to_string(text.size()) + ":" + text; }

}  // namespace

std::string pool_name(const TaskSpec& spec, const WarmGuest& guest) {
  if (spec.kind == TaskKind::kMicroVm) {
    const auto image = parse_vm_image(spec.image);
    // One with a first process of its own knows nothing of this.
    if (!image || image->kernel.empty() || image->initrd.empty() || image->append.find("rdinit=") != std::string::npos) return {};
    if (guest.hypervisor.empty() || guest.mem.value <= 0 || guest.cpus == 0) return {};
    std::string out;
    word(out, spec.image);
    word(out, spec.user);
    word(out, guest.hypervisor);
    return out + std::to_string(guest.mem.value) + "," + std::to_string(guest.cpus);
  }
  if (spec.kind != TaskKind::kContainer || spec.image.empty()) return {};
  std::string out;
  word(out, spec.image);
  word(out, spec.user);
  word(out, spec.directory);
  for (const std::string& mount : spec.mounts) word(out, "m" + mount);
  for (const std::string& isolated : spec.isolate) word(out, "i" + isolated);
  for (const Artifact& artifact : spec.artifacts) word(out, "a" + artifact.digest);
  return out;
}

std::uint32_t WarmPools::size(const Pool& pool) const {
  if (pool.slow < kKeptAt) return 0;
  // Claims while kReplacements instances are made one after another, in thousandths.
  const std::int64_t window = pool.making.count() * kReplacements;
  const std::int64_t forecast = pool.fast * window / (kFastTicks * kTick.count());
  const std::int64_t tuned = kFactor + kTune * (pool.scatter - kMilli) / kMilli;
  const std::int64_t factor =
      hooks::mutant("agent.warm_factor_fixed") ? kFactorLeast : std::clamp(tuned, kFactorLeast, kFactorMost);
  std::int64_t wanted = (forecast * factor + kMilli * kMilli - 1) / (kMilli * kMilli);
  if (pool.most >= kBurstKept && !hooks::mutant("agent.warm_no_bursts"))
    wanted = std::max(wanted, (pool.most + kMilli - 1) / kMilli);
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(wanted, 1, kInstancesMax));
}

std::uint32_t WarmPools::size_of(const std::string& pool) const {
  const auto found = pools_.find(pool);
  return found == pools_.end() ? 0 : size(found->second);
}

std::string WarmPools::claim(Duration now, const std::string& name, const TaskSpec& spec, const WarmGuest& guest) {
  if (!settings_.on || name.empty()) return {};
  if (pools_.count(name) == 0 && pools_.size() >= kPoolsMax) {
    const auto oldest =
        std::min_element(pools_.begin(), pools_.end(), [](const auto& a, const auto& b) { return a.second.last < b.second.last; });
    pools_.erase(oldest);
  }
  const auto [found, anew] = pools_.try_emplace(name);
  Pool& pool = found->second;
  if (anew && spec.kind == TaskKind::kMicroVm) pool.mem = std::min(guest.mem, kGuestGuess);
  pool.spec = spec;
  pool.guest = guest;
  pool.slow += kMilli;
  pool.fast += kMilli;
  ++pool.in_tick;
  pool.last = now;
  while (!pool.burst.empty() && (pool.burst.front() <= now - pool.making || pool.burst.size() >= kInstancesMax))
    pool.burst.pop_front();
  pool.burst.push_back(now);
  pool.most = std::max(pool.most, static_cast<std::int64_t>(pool.burst.size()) * kMilli);
  if (pool.ready.empty()) {
    ++figures_.misses;
    return {};
  }
  ++figures_.hits;
  std::string place = std::move(pool.ready.front().place);  // the oldest
  pool.ready.erase(pool.ready.begin());
  return place;
}

void WarmPools::tick(Duration) {
  for (auto it = pools_.begin(); it != pools_.end();) {
    Pool& pool = it->second;
    const std::int64_t mean = pool.fast / kFastTicks;  // claims a tick
    if (mean > 0) {
      const std::int64_t off = std::min(std::abs(pool.in_tick * kMilli - mean) * kMilli / mean, kScatterMost);
      pool.scatter += (off - pool.scatter) / kScatterTicks;
    }
    pool.in_tick = 0;
    pool.slow -= (pool.slow + kSlowTicks - 1) / kSlowTicks;
    pool.fast -= (pool.fast + kFastTicks - 1) / kFastTicks;
    pool.most -= (pool.most + kSlowTicks - 1) / kSlowTicks;
    it = pool.slow <= 0 && pool.ready.empty() ? pools_.erase(it) : std::next(it);
  }
}

void WarmPools::took(const std::string& name, Duration making) {
  const auto found = pools_.find(name);
  if (found == pools_.end() || making <= Duration(0)) return;
  Duration& known = found->second.making;
  known = known == kMakingGuess ? making : known + (making - known) / kMakingWeight;
}

void WarmPools::asked(Duration now) {
  for (auto& [name, pool] : pools_)
    if (pool.asked < Duration(0) && size(pool) > pool.ready.size()) pool.asked = now;
}

void WarmPools::state(Duration now, const WarmState& state) {
  std::map<std::string, std::vector<Instance>> there;
  for (const WarmState::Instance& one : state.ready) there[one.pool].push_back({one.place, one.mem, now});
  figures_.ready = static_cast<std::int64_t>(state.ready.size());
  figures_.mem = Bytes{};
  for (auto& [name, pool] : pools_) {
    std::vector<Instance> now_ready;
    auto found = there.find(name);
    for (Instance& old : pool.ready) {
      const bool still = found != there.end() && std::any_of(found->second.begin(), found->second.end(),
                                                             [&](const Instance& i) { return i.place == old.place; });
      if (still) {
        now_ready.push_back(std::move(old));
      } else {  // claimed ones have been taken out before
        figures_.waste_mib_seconds += old.mem.value / kMiB.value * std::chrono::duration_cast<seconds>(now - old.since).count();
      }
    }
    if (found != there.end()) {
      for (Instance& one : found->second) {
        figures_.mem = Bytes(figures_.mem.value + one.mem.value);
        pool.mem = std::max(one.mem, Bytes{1});
        const bool known = std::any_of(now_ready.begin(), now_ready.end(), [&](const Instance& i) { return i.place == one.place; });
        if (known) continue;
        now_ready.push_back(std::move(one));
        if (pool.asked >= Duration(0)) took(name, now - pool.asked);
        pool.asked = Duration(-1);
      }
    }
    pool.ready = std::move(now_ready);
  }
}

std::vector<KeepWarm::Pool> WarmPools::wanted() const {
  std::vector<std::pair<Duration, const std::pair<const std::string, Pool>*>> order;
  for (const auto& entry : pools_) order.emplace_back(entry.second.last, &entry);
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::map<std::string, KeepWarm::Pool> chosen;  // by name: an order that does not change with every claim
  std::int64_t left = settings_.on ? settings_.budget.value : 0;
  for (const auto& [last, entry] : order) {
    const auto& [name, pool] = *entry;
    const auto fit =
        static_cast<std::uint32_t>(std::min<std::int64_t>(size(pool), left / std::max<std::int64_t>(pool.mem.value, 1)));
    if (fit == 0) continue;
    left -= pool.mem.value * fit;
    chosen[name] = {name, pool.spec, fit, pool.guest.hypervisor, pool.guest.mem, pool.guest.cpus};
  }
  std::vector<KeepWarm::Pool> out;
  for (auto& [name, pool] : chosen) out.push_back(std::move(pool));
  return out;
}

void WarmPools::figures(Counters& out) const {
  if (!settings_.on) return;
  out.set("warm.hits", figures_.hits);
  out.set("warm.misses", figures_.misses);
  out.set("warm.ready", figures_.ready);
  out.set("warm.mem", figures_.mem.value);
  out.set("warm.pools", static_cast<std::int64_t>(pools_.size()));
  out.set("warm.waste", figures_.waste_mib_seconds);
}

}  // namespace bourse
