#include "master/ledger.h"

#include <algorithm>
#include <utility>

namespace bourse::house {

namespace {

void must(const Result<>& result, const Account& a) {
  BOURSE_ASSERT(result, result.error().text() + "; total " + to_text(a.total) + " free " + to_text(a.free) + " offered " +
                            to_text(a.offered) + " held " + to_text(a.held) + " leased " + to_text(a.leased));
}

// What of `have` is left beside `used`, never below zero: the larger of 0 and the difference, component by component.
Resources left_over(const Resources& have, const Resources& used) {
  Resources rest = have;
  if (rest.subtract(used)) return rest;
  rest = Resources{};
  const auto above = [](std::int64_t a, std::int64_t b) { return a > b ? a - b : 0; };
  rest.disk = Bytes(above(have.disk.value, used.disk.value));
  for (const auto& [kind, amount] : have.others.items()) rest.others.set(kind, above(amount, used.others.get(kind)));
  rest.ports = have.ports;
  if (!rest.ports.subtract(used.ports)) rest.ports = Ports();
  if (have.numa.empty() || used.numa.empty()) {
    // One side does not say where its part is, so nothing can be said of single nodes.
    rest.cpus = MilliCpus(have.numa.empty() ? above(have.cpus.value, used.cpus.value) : 0);
    rest.mem = Bytes(have.numa.empty() ? above(have.mem.value, used.mem.value) : 0);
  } else {
    for (const NumaAmount& node : have.numa) {
      NumaAmount part = node;
      for (const NumaAmount& other : used.numa) {
        if (other.node != node.node) continue;
        part.cpus = MilliCpus(above(node.cpus.value, other.cpus.value));
        part.mem = Bytes(above(node.mem.value, other.mem.value));
      }
      if (part.cpus.value == 0 && part.mem.value == 0) continue;
      rest.cpus = MilliCpus(rest.cpus.value + part.cpus.value);
      rest.mem = Bytes(rest.mem.value + part.mem.value);
      rest.numa.push_back(part);
    }
  }
  for (const DeviceShare& device : have.devices) {
    Resources one, gone;
    one.devices = {device};
    for (const DeviceShare& other : used.devices) {
      if (other.device == device.device) gone.devices = {other};
    }
    if (gone.devices.empty() || one.subtract(gone)) rest.devices.insert(rest.devices.end(), one.devices.begin(), one.devices.end());
  }
  return rest;
}

// Takes out of `used` the devices that `target` lacks or has otherwise, and out of `target` what it has under their names: nothing
// of such a device is to be had.
std::vector<DeviceShare> take_strays(Resources& used, Resources& target) {
  std::vector<DeviceShare> strays;
  std::erase_if(used.devices, [&](const DeviceShare& share) {
    Resources one;
    one.devices = {share};
    if (target.contains(one)) return false;
    std::erase_if(target.devices, [&](const DeviceShare& other) { return other.device == share.device; });
    strays.push_back(share);
    return true;
  });
  return strays;
}

Resources in_use(const Account& a) {
  Resources sum = a.offered;
  must(sum.add(a.held), a);
  must(sum.add(a.leased), a);
  return sum;
}

}  // namespace

Resources& Ledger::pool(Account& a, Pool which) {
  switch (which) {
    case Pool::kFree:
      return a.open && !a.shortfall ? a.free : a.unavailable;
    case Pool::kOffered:
      return a.offered;
    case Pool::kHeld:
      return a.held;
    case Pool::kLeased:
      break;
  }
  return a.leased;
}

void Ledger::open_account(AgentIx agent) {
  if (agent >= accounts_.size()) {
    accounts_.resize(agent + 1);
    marks_.resize(agent + 1, 0);
  }
  accounts_[agent] = Account{};
}

void Ledger::move(AgentIx agent, const Resources& amount, Pool from, Pool to) {
  Account& a = accounts_[agent];
  viewed.add(agent);
  must(pool(a, from).subtract(amount), a);
  must(pool(a, to).add(amount), a);
  if (to == Pool::kFree && (a.shortfall || a.strays)) balance(a);
  if (from == Pool::kFree || to == Pool::kFree) touch(agent, to == Pool::kFree);
  check(agent);
}

Result<> Ledger::take_in(AgentIx agent, const Resources& amount, Pool to) {
  Account& a = accounts_[agent];
  Resources all = in_use(a);
  BOURSE_TRY(all.add(amount));
  viewed.add(agent);
  return pool(a, to).add(amount);
}

void Ledger::settle(AgentIx agent, const Resources& target, bool open) {
  Account& a = accounts_[agent];
  viewed.add(agent);
  a.target = target;
  a.open = open;
  balance(a);
  touch(agent, true);
  check(agent);
}

void Ledger::set_open(AgentIx agent, bool open) {
  Account& a = accounts_[agent];
  if (a.open == open) return;
  viewed.add(agent);
  a.open = open;
  if (!a.shortfall) std::swap(a.free, a.unavailable);
  touch(agent, open);
  check(agent);
}

bool Ledger::covers(AgentIx agent, const Resources& target) const { return target.contains(in_use(accounts_[agent])); }

void Ledger::balance(Account& a) {
  Resources target = a.target, used = in_use(a);
  const std::vector<DeviceShare> strays = take_strays(used, target);
  a.strays = !strays.empty();
  a.shortfall = !target.contains(used);
  Resources rest = without_traits(target);
  if (a.shortfall) {
    rest = left_over(rest, used);
    a.total = rest;
    if (!a.total.add(used)) {  // one is split by node and the other is not: count only what is in use until that is over
      rest = Resources{};
      a.total = used;
    }
  } else {
    must(rest.subtract(used), a);
    a.total = std::move(target);
  }
  Resources lost;
  lost.devices = strays;
  must(a.total.add(lost), a);
  a.free = Resources{};
  a.unavailable = Resources{};
  pool(a, Pool::kFree) = std::move(rest);
}

std::vector<Ledger::Touched> Ledger::take_touched() {
  std::vector<Touched> result;
  result.reserve(touched_.size());
  std::sort(touched_.begin(), touched_.end());
  for (const AgentIx agent : touched_) {
    result.push_back({agent, marks_[agent] == 2});
    marks_[agent] = 0;
  }
  touched_.clear();
  return result;
}

void Ledger::touch(AgentIx agent, bool grew) {
  if (marks_[agent] == 0) touched_.push_back(agent);
  marks_[agent] = std::max<std::uint8_t>(marks_[agent], grew ? 2 : 1);
}

// The scalar sums only: no allocation, so it can stay on. balanced() is the whole of it.
void Ledger::check(AgentIx agent) const {
  const Account& a = accounts_[agent];
  const auto sum = [&](auto get) {
    return get(a.free) + get(a.offered) + get(a.held) + get(a.leased) + get(a.unavailable) == get(a.total);
  };
  const bool ok = sum([](const Resources& r) { return r.cpus.value; }) && sum([](const Resources& r) { return r.mem.value; }) &&
                  sum([](const Resources& r) { return r.disk.value; });
  BOURSE_ASSERT(ok, "ledger of agent " + std::to_string(agent) + ": total " + to_text(a.total) + " free " + to_text(a.free) +
                        " offered " + to_text(a.offered) + " held " + to_text(a.held) + " leased " + to_text(a.leased) +
                        " unavailable " + to_text(a.unavailable));
}

Result<> balanced(const Resources& total, const Resources& free, const Resources& offered, const Resources& held,
                  const Resources& leased, const Resources& unavailable) {
  Resources sum = free;
  for (const Resources* part : {&offered, &held, &leased, &unavailable}) BOURSE_TRY(sum.add(*part));
  // As text: an account keeps a node at zero where a sum may leave it out, and that is no difference.
  if (!sum.contains(total) || !total.contains(sum)) {
    return Error(Code::kCorrupt, "the parts make " + to_text(sum) + ", the total is " + to_text(total));
  }
  return {};
}

}  // namespace bourse::house
