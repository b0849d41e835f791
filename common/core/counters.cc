#include <algorithm>

#include "common/core/resources.h"

namespace bourse {

namespace {
template <class Items>
auto find(Items& items, std::string_view name) {
  return std::lower_bound(items.begin(), items.end(), name, [](const auto& item, std::string_view n) { return item.first < n; });
}
}  // namespace

std::int64_t Counters::get(std::string_view name) const {
  const auto at = find(items_, name);
  return at != items_.end() && at->first == name ? at->second : 0;
}

void Counters::set(std::string_view name, std::int64_t amount) {
  BOURSE_ASSERT(amount >= 0, std::string(name) + "=" + std::to_string(amount));
  const auto at = find(items_, name);
  const bool present = at != items_.end() && at->first == name;
  if (amount == 0) {
    if (present) items_.erase(at);
  } else if (present) {
    at->second = amount;
  } else {
    items_.emplace(at, std::string(name), amount);
  }
}

Result<> Counters::add(const Counters& other) {
  if (other.items_.empty()) return {};
  for (const auto& [name, amount] : other.items_) {
    if (auto sum = checked_add(get(name), amount); !sum) return std::move(sum.error()).add(name);
  }
  for (const auto& [name, amount] : other.items_) set(name, get(name) + amount);
  return {};
}

Result<> Counters::subtract(const Counters& other) {
  if (other.items_.empty()) return {};
  for (const auto& [name, amount] : other.items_) {
    if (auto rest = checked_subtract(get(name), amount); !rest) return std::move(rest.error()).add(name);
  }
  if (&other == this) {
    items_.clear();
    return {};
  }
  for (const auto& [name, amount] : other.items_) set(name, get(name) - amount);
  return {};
}

bool Counters::contains(const Counters& other) const {
  return std::all_of(other.items_.begin(), other.items_.end(), [&](const auto& item) { return get(item.first) >= item.second; });
}

}  // namespace bourse
