#include "agent/slack.h"

#include <algorithm>

#include "common/core/hooks.h"

namespace bourse {
namespace {

constexpr std::int64_t kMilli = 1000, kPermille = 1000;

std::int64_t kept(std::int64_t amount, std::int32_t permille) { return amount / kPermille * permille; }
std::int64_t down(std::int64_t amount, std::int64_t step) { return std::max<std::int64_t>(amount, 0) / step * step; }

}  // namespace

void SlackMeter::sample(Duration now, const UsageSample& usage, const std::vector<Lender>& lenders) {
  std::map<SliceId, Track> still;
  for (const Lender& lender : lenders) {
    const auto known = slices_.find(lender.slice);
    Track track = known == slices_.end() ? Track{} : std::move(known->second);
    if (known == slices_.end()) track.since = now;
    track.lender = lender;
    still.emplace(lender.slice, std::move(track));
  }
  slices_ = std::move(still);
  for (const UsageSample::Slice& seen : usage.slices) {
    const auto found = slices_.find(seen.slice);
    if (found == slices_.end()) continue;
    Track& track = found->second;
    track.critical = track.critical || (seen.critical && !hooks::mutant("agent.critical_lends"));
    if (track.last_at >= Duration(0) && now > track.last_at) {
      // A counter that starts anew (its group was made again) says nothing for one turn.
      const std::int64_t used = std::max<std::int64_t>((seen.cpu - track.last_cpu).count(), 0);
      track.readings.push_back({now, used * kMilli / (now - track.last_at).count(), seen.mem.value});
    }
    track.last_at = now;
    track.last_cpu = seen.cpu;
    while (!track.readings.empty() && track.readings.front().at < now - rule_.window) track.readings.pop_front();
    if (track.readings.size() > kSamplesMax) {
      const Reading oldest = track.readings.front();
      track.readings.pop_front();
      Reading& next = track.readings.front();
      next.cpus = std::max(next.cpus, oldest.cpus), next.mem = std::max(next.mem, oldest.mem);
    }
  }
}

Resources SlackMeter::lendable(Duration now) const {
  Resources sum;
  std::int64_t cpus = 0, mem = 0;
  for (const auto& [id, track] : slices_) {
    if (track.critical || track.readings.empty() || now - track.since < rule_.settle) continue;
    std::int64_t most_cpus = 0, most_mem = 0;
    for (const Reading& reading : track.readings)
      most_cpus = std::max(most_cpus, reading.cpus), most_mem = std::max(most_mem, reading.mem);
    const Lender& l = track.lender;
    cpus += std::max<std::int64_t>(l.cpus.value - most_cpus - kept(l.cpus.value, rule_.keep_permille), 0);
    mem += std::max<std::int64_t>(l.mem.value - most_mem - kept(l.mem.value, rule_.keep_permille), 0);
  }
  sum.cpus = MilliCpus(down(cpus, kCpuStep));
  sum.mem = Bytes(down(mem, kMemStep));
  return sum;
}

std::size_t SlackMeter::critical() const {
  return static_cast<std::size_t>(std::count_if(slices_.begin(), slices_.end(), [](const auto& s) { return s.second.critical; }));
}

}  // namespace bourse
