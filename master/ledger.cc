#include "master/ledger.h"

#include <algorithm>
#include <utility>

namespace bourse::house {

namespace {

void must(const Result<>& result, const Account& a) {
  BOURSE_ASSERT(result, result.error().text() + "; total " + to_text(a.total) + " free " + to_text(a.free) + " offered " +
                            to_text(a.offered) + " held " + to_text(a.held) + " leased " + to_text(a.leased) + " reserved " +
                            to_text(a.reserved));
}

void put_back(Account& a) {  // what is kept, to what is free
  if (a.kept.empty()) return;
  must(a.free.add(a.reserved), a);
  a.reserved = Resources{};
  a.kept.clear();
}

}  // namespace

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

Resources common_part(const Resources& a, const Resources& b) {
  Resources both = without_traits(a);
  if (a.numa.empty() != b.numa.empty()) {  // nothing can be said of what is split by node on one side only
    both.cpus = MilliCpus(0);
    both.mem = Bytes(0);
    both.numa.clear();
  }
  // Ports and shares of a device come whole or not at all.
  if (!b.ports.contains(both.ports)) both.ports = Ports();
  std::erase_if(both.devices, [&](const DeviceShare& share) {
    Resources one;
    one.devices = {share};
    return !b.contains(one);
  });
  Resources rest = left_over(both, b);
  rest.ports = Ports();
  rest.devices.clear();
  return both.subtract(rest) && b.contains(both) ? both : Resources{};
}

namespace {

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

void Ledger::keep(AgentIx agent, std::uint64_t key, const Resources& amount) {
  if (amount.empty()) return;
  Account& a = accounts_[agent];
  BOURSE_ASSERT(a.open && !a.shortfall, "what is kept comes from what is free");
  must(a.free.subtract(amount), a);
  must(a.reserved.add(amount), a);
  auto at = std::lower_bound(a.kept.begin(), a.kept.end(), key, [](const Account::Kept& k, std::uint64_t v) { return k.key < v; });
  if (at == a.kept.end() || at->key != key) at = a.kept.insert(at, {key, {}});
  must(at->amount.add(amount), a);
  touch(agent, false);
  check(agent);
}

void Ledger::let_go(AgentIx agent, std::uint64_t key) {
  Account& a = accounts_[agent];
  const auto at = std::find_if(a.kept.begin(), a.kept.end(), [&](const Account::Kept& k) { return k.key == key; });
  if (at == a.kept.end()) return;
  must(a.reserved.subtract(at->amount), a);
  must(a.free.add(at->amount), a);
  a.kept.erase(at);
  touch(agent, true);
  check(agent);
}

void Ledger::offer_kept(AgentIx agent, std::uint64_t key, const Resources& amount) {
  Account& a = accounts_[agent];
  const auto at = std::find_if(a.kept.begin(), a.kept.end(), [&](const Account::Kept& k) { return k.key == key; });
  BOURSE_ASSERT(at != a.kept.end(), "nothing is kept under that key");
  must(at->amount.subtract(amount), a);
  must(a.reserved.subtract(amount), a);
  must(a.offered.add(amount), a);
  if (at->amount.empty()) a.kept.erase(at);
  touch(agent, false);
  check(agent);
}

const Resources& Ledger::kept(AgentIx agent, std::uint64_t key) const {
  static const Resources kNothing;
  for (const Account::Kept& kept : accounts_[agent].kept)
    if (kept.key == key) return kept.amount;
  return kNothing;
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
  if (!open) put_back(a);
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
  a.reserved = Resources{};
  a.kept.clear();
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
    return get(a.free) + get(a.offered) + get(a.held) + get(a.leased) + get(a.reserved) + get(a.unavailable) == get(a.total);
  };
  const bool ok = sum([](const Resources& r) { return r.cpus.value; }) && sum([](const Resources& r) { return r.mem.value; }) &&
                  sum([](const Resources& r) { return r.disk.value; });
  BOURSE_ASSERT(ok, "ledger of agent " + std::to_string(agent) + ": total " + to_text(a.total) + " free " + to_text(a.free) +
                        " offered " + to_text(a.offered) + " held " + to_text(a.held) + " leased " + to_text(a.leased) +
                        " reserved " + to_text(a.reserved) + " unavailable " + to_text(a.unavailable));
}

Result<> balanced(const Resources& total, const Resources& free, const Resources& offered, const Resources& held,
                  const Resources& leased, const Resources& reserved, const Resources& unavailable) {
  Resources sum = free;
  for (const Resources* part : {&offered, &held, &leased, &reserved, &unavailable}) BOURSE_TRY(sum.add(*part));
  // As text: an account keeps a node at zero where a sum may leave it out, and that is no difference.
  if (!sum.contains(total) || !total.contains(sum)) {
    return Error(Code::kCorrupt, "the parts make " + to_text(sum) + ", the total is " + to_text(total));
  }
  return {};
}

}  // namespace bourse::house
