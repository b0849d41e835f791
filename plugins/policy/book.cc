#include "plugins/policy/book.h"

#include <algorithm>

namespace bourse::policy {

namespace {

std::uint32_t length(const Vector& v) { return static_cast<std::uint32_t>(v.size()); }

template <class T>
T& slot(std::vector<T>& all, std::uint32_t handle) {
  if (handle >= all.size()) all.resize(std::size_t{handle} + 1);
  return all[handle];
}

void take(Vector& out, const std::int64_t* values, std::uint32_t count) {
  if (values == nullptr)
    out.clear();
  else
    out.assign(values, values + count);
}

}  // namespace

std::vector<DeviceWish> wishes(const bourse_device_ask* asks, std::uint32_t count) {
  std::vector<DeviceWish> out;
  for (std::uint32_t i = 0; i < count; ++i) {
    const bourse_device_ask& ask = *BOURSE_AT(bourse_device_ask, asks, i);
    DeviceWish& wish = out.emplace_back();
    wish.kind = ask.kind;
    wish.count = ask.count;
    wish.whole = ask.whole != 0;
    take(wish.least, ask.least, ask.counters);
  }
  return out;
}

void Book::kinds(const bourse_kind* kinds, std::uint32_t count) {
  kinds_.clear();
  for (std::uint32_t i = 0; i < count; ++i) {
    const bourse_kind& kind = *BOURSE_AT(bourse_kind, kinds, i);
    Kind& mine = kinds_.emplace_back();
    mine.name = kind.name;
    for (std::uint32_t c = 0; c < kind.counters; ++c) mine.counters.emplace_back(kind.counter_names[c]);
  }
}

void Book::account(const bourse_account& account) {
  Account& a = slot(accounts_, account.handle);
  a.present = true;
  a.parent = account.parent;
  a.weight = account.weight;
  a.name = account.name;
  take(a.used, account.used, account.kinds);
}

void Book::account_used(std::uint32_t handle, const std::int64_t* used, std::uint32_t kinds) {
  take(accounts_[handle].used, used, kinds);
}

void Book::claimant(const bourse_claimant& claimant) {
  Claimant& c = slot(claimants_, claimant.handle);
  c.present = true;
  c.account = claimant.account;
  c.weight = claimant.weight;
  c.gang = claimant.gang;
  c.priority = claimant.priority;
  c.order = claimant.order;
  c.name = claimant.name;
  c.submitted_us = claimant.submitted_us;
  c.limit_us = claimant.limit_us;
  c.units = claimant.units;
  take(c.ask, claimant.ask, claimant.kinds);
  take(c.used, claimant.used, claimant.kinds);
  if (claimant.device_asks == 0)
    c.devices.clear();
  else
    c.devices = wishes(claimant.devices, claimant.device_asks);
}

void Book::claimant_used(std::uint32_t handle, const std::int64_t* used, std::uint32_t kinds) {
  take(claimants_[handle].used, used, kinds);
}

void Book::claimant_removed(std::uint32_t handle) {
  claimants_[handle].present = false;
  claimants_[handle].units = 0;
}

void Book::agent(const bourse_agent& agent) {
  Agent& a = slot(agents_, agent.handle);
  a.present = true;
  if (a.name != agent.name) a.name = agent.name;
  take(a.total, agent.total, agent.kinds);
  take(a.free, agent.free, agent.kinds);
  a.devices.resize(agent.devices);
  for (std::uint32_t i = 0; i < agent.devices; ++i) {
    const bourse_device& told = *BOURSE_AT(bourse_device, agent.device, i);
    Device& device = a.devices[i];
    device.kind = told.kind;
    device.whole = told.whole != 0;
    take(device.total, told.total, told.counters);
    take(device.free, told.free, told.counters);
  }
}

bool Book::means(std::uint32_t asked, std::uint32_t device) const {
  if (asked == device) return true;
  if (asked >= kinds_.size() || device >= kinds_.size()) return false;
  const std::string& prefix = kinds_[asked].name;
  return prefix.ends_with('/') && kinds_[device].name.starts_with(prefix);
}

void Book::tell(const bourse_policy_1& table, bourse_policy* policy) const {
  Told told;
  const auto& table_of_kinds = told.kinds(kinds_);
  table.kinds(policy, table_of_kinds.data(), static_cast<std::uint32_t>(table_of_kinds.size()));
  table.total(policy, total_.data(), length(total_));
  // Parents first: a child's handle may be lower than its parent's.
  std::vector<bool> done(accounts_.size(), false);
  const auto tell_account = [&](auto&& self, std::uint32_t handle) -> void {
    if (done[handle] || !accounts_[handle].present) return;
    done[handle] = true;
    if (has_account(accounts_[handle].parent)) self(self, accounts_[handle].parent);
    const bourse_account account = told.account(handle, accounts_[handle]);
    table.account(policy, &account);
  };
  for (std::uint32_t h = 0; h < accounts_.size(); ++h) tell_account(tell_account, h);
  for (std::uint32_t h = 0; h < agents_.size() && table.agent != nullptr; ++h) {
    if (!agents_[h].present) continue;
    const bourse_agent agent = told.agent(h, agents_[h]);
    table.agent(policy, &agent);
  }
  for (std::uint32_t h = 0; h < claimants_.size(); ++h) {
    if (!claimants_[h].present) continue;
    const bourse_claimant claimant = told.claimant(h, claimants_[h]);
    table.claimant(policy, &claimant);
  }
}

bourse_account Told::account(std::uint32_t handle, const Account& a) {
  return {sizeof(bourse_account), handle, a.parent, a.weight, a.name.c_str(), length(a.used), a.used.data()};
}

const std::vector<bourse_device_ask>& Told::asks(const std::vector<DeviceWish>& wished) {
  asks_.clear();
  for (const DeviceWish& wish : wished)
    asks_.push_back(
        {sizeof(bourse_device_ask), wish.kind, wish.count, wish.whole ? 1U : 0U, length(wish.least), wish.least.data()});
  return asks_;
}

bourse_claimant Told::claimant(std::uint32_t handle, const Claimant& c) {
  // Both vectors have one length in the interface; a kind that came later is in one of them only.
  const auto& told = asks(c.devices);
  const Vector *ask = &c.ask, *used = &c.used;
  if (ask->size() != used->size()) {
    Vector& padded = ask->size() < used->size() ? padded_ = *ask : padded_ = *used;
    padded.resize(std::max(ask->size(), used->size()), 0);
    (ask->size() < used->size() ? ask : used) = &padded;
  }
  return {.size = sizeof(bourse_claimant),
          .handle = handle,
          .account = c.account,
          .weight = c.weight,
          .priority = c.priority,
          .order = c.order,
          .name = c.name.c_str(),
          .submitted_us = c.submitted_us,
          .limit_us = c.limit_us,
          .units = c.units,
          .gang = c.gang,
          .kinds = length(*ask),
          .ask = ask->data(),
          .used = used->data(),
          .device_asks = static_cast<std::uint32_t>(told.size()),
          .devices = told.empty() ? nullptr : told.data()};
}

bourse_agent Told::agent(std::uint32_t handle, const Agent& a) {
  devices_.clear();
  for (const Device& d : a.devices)
    devices_.push_back({sizeof(bourse_device), d.kind, d.whole ? 1U : 0U, length(d.total), d.total.data(), d.free.data()});
  return {.size = sizeof(bourse_agent),
          .handle = handle,
          .name = a.name.c_str(),
          .kinds = length(a.total),
          .total = a.total.data(),
          .free = a.free.data(),
          .devices = static_cast<std::uint32_t>(devices_.size()),
          .device = devices_.empty() ? nullptr : devices_.data()};
}

const std::vector<bourse_kind>& Told::kinds(const std::vector<Kind>& all) {
  kinds_.clear();
  names_.clear();
  for (const Kind& kind : all) {
    std::vector<const char*>& names = names_.emplace_back();
    for (const std::string& counter : kind.counters) names.push_back(counter.c_str());
    kinds_.push_back({sizeof(bourse_kind), kind.name.c_str(), static_cast<std::uint32_t>(names.size()), nullptr});
  }
  for (std::size_t i = 0; i < all.size(); ++i) kinds_[i].counter_names = names_[i].data();
  return kinds_;
}

}  // namespace bourse::policy
