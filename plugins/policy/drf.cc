#include "plugins/policy/drf.h"

#include <iterator>

namespace bourse {

namespace {

__extension__ using Wide = unsigned __int128;

int compare(std::int64_t a_num, std::int64_t a_den, std::int64_t b_num, std::int64_t b_den) {
  const Wide left = static_cast<Wide>(a_num) * static_cast<Wide>(b_den),
             right = static_cast<Wide>(b_num) * static_cast<Wide>(a_den);
  return left < right ? -1 : left > right ? 1 : 0;
}

bool far(std::int64_t reference, std::int64_t truth) {
  const std::int64_t gap = reference > truth ? reference - truth : truth - reference;
  return gap > reference / Drf::kReferenceSlack;
}

constexpr std::int64_t kWeightMax = 1'000'000;

}  // namespace

void Usage::add(const Usage& other) {
  cpus += other.cpus;
  mem += other.mem;
  if (!other.devices.empty()) BOURSE_ASSERT(devices.add(other.devices), "device usage overflows");
}

void Usage::subtract(const Usage& other) {
  BOURSE_ASSERT(cpus >= other.cpus && mem >= other.mem, "usage would fall below zero");
  cpus -= other.cpus;
  mem -= other.mem;
  if (!other.devices.empty()) BOURSE_ASSERT(devices.subtract(other.devices), "device usage would fall below zero");
}

Usage usage_of(const Resources& amount) {
  Usage usage{.cpus = amount.cpus.value, .mem = amount.mem.value, .devices = {}};
  for (const DeviceShare& share : amount.devices) {
    const std::int64_t compute = share.whole ? 0 : share.counters.get("compute");
    usage.devices.set(share.kind, usage.devices.get(share.kind) + (compute > 0 ? compute : 1000));
  }
  return usage;
}

bool Drf::Less::operator()(const Key& a, const Key& b) const {
  const int order = compare(a.share.numerator, a.share.denominator, b.share.numerator, b.share.denominator);
  if (order != 0) return order < 0;
  const int names = a.name->compare(*b.name);
  return names != 0 ? names < 0 : a.handle < b.handle;
}

Drf::Share Drf::share_of(const Claimant& claimant) const {
  Share best;
  const auto consider = [&](std::int64_t used, std::int64_t total) {
    if (total <= 0 || used <= 0) return;
    const std::int64_t weighted = total > INT64_MAX / claimant.weight ? INT64_MAX : total * claimant.weight;
    if (compare(used, weighted, best.numerator, best.denominator) > 0) best = {used, weighted};
  };
  consider(claimant.used.cpus, reference_.cpus);
  consider(claimant.used.mem, reference_.mem);
  for (const auto& [kind, used] : claimant.used.devices.items()) consider(used, reference_.devices.get(kind));
  return best;
}

Drf::Key Drf::key_of(const Entry& entry) const { return {entry.share, &entry.claimant.name, entry.claimant.handle}; }

void Drf::place(Entry& entry) {
  entry.share = share_of(entry.claimant);
  if (entry.claimant.wants) order_.insert(key_of(entry));
}

void Drf::total_changed(const Usage& total) {
  bool moved = far(reference_.cpus, total.cpus) || far(reference_.mem, total.mem);
  for (const auto& [kind, amount] : total.devices.items()) moved = moved || far(reference_.devices.get(kind), amount);
  for (const auto& [kind, amount] : reference_.devices.items()) moved = moved || far(amount, total.devices.get(kind));
  if (!moved) return;
  reference_ = total;
  order_.clear();
  for (const auto& entry : entries_) {
    if (entry && entry->present) place(*entry);
  }
}

void Drf::claimant_changed(const Claimant& claimant) {
  BOURSE_ASSERT(claimant.weight > 0 && claimant.weight <= kWeightMax, claimant.name);
  if (claimant.handle >= entries_.size()) entries_.resize(claimant.handle + 1);
  auto& slot = entries_[claimant.handle];
  if (slot && slot->present && slot->claimant.wants) order_.erase(key_of(*slot));
  if (!slot) slot = std::make_unique<Entry>();
  slot->claimant = claimant;
  slot->present = true;
  place(*slot);
}

void Drf::used_changed(Handle handle, const Usage& used) {
  Entry& entry = *entries_[handle];
  if (!entry.claimant.wants) {
    entry.claimant.used = used;
    entry.share = share_of(entry.claimant);
    return;
  }
  auto node = order_.extract(key_of(entry));
  entry.claimant.used = used;
  entry.share = share_of(entry.claimant);
  node.value() = key_of(entry);
  order_.insert(std::move(node));
}

void Drf::wants_changed(Handle handle, bool wants) {
  Entry& entry = *entries_[handle];
  if (entry.claimant.wants == wants) return;
  if (entry.claimant.wants) order_.erase(key_of(entry));
  entry.claimant.wants = wants;
  if (wants) order_.insert(key_of(entry));
}

void Drf::claimant_removed(Handle handle) {
  Entry& entry = *entries_[handle];
  if (entry.claimant.wants) order_.erase(key_of(entry));
  entry.present = false;
  entry.claimant.wants = false;
}

void Drf::restart() { started_ = false; }

std::optional<Policy::Handle> Drf::next() {
  auto it = started_ ? order_.upper_bound(Key{cursor_share_, &cursor_name_, cursor_handle_}) : order_.begin();
  started_ = true;
  if (it == order_.end()) return std::nullopt;
  cursor_share_ = it->share;
  cursor_name_ = *it->name;
  cursor_handle_ = it->handle;
  return it->handle;
}

bool Drf::before(Handle a, Handle b) const { return Less()(key_of(*entries_[a]), key_of(*entries_[b])); }

std::uint32_t Drf::position(Handle handle) const {
  const Entry& entry = *entries_[handle];
  if (!entry.claimant.wants) return 0;
  return 1 + static_cast<std::uint32_t>(std::distance(order_.begin(), order_.find(key_of(entry))));
}

std::uint32_t Drf::wanting() const { return static_cast<std::uint32_t>(order_.size()); }

}  // namespace bourse
