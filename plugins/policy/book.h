// What a policy has been told, kept: accounts, claimants and agents by handle, amounts by kind.
//
// Used twice: by the built-in policies, each of its own, and by PolicyHost, which tells a policy that comes later (after a reload,
// or as the fall-back) everything again. Values only; one owner, one thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bourse/plugin.h"

namespace bourse::policy {

constexpr std::uint32_t kNone = BOURSE_NONE;
constexpr std::uint32_t kUsualWeight = 1000;
using Vector = std::vector<std::int64_t>;  // by kind, or by counter; what is beyond its end is 0

inline std::int64_t at(const Vector& v, std::size_t i) { return i < v.size() ? v[i] : 0; }

struct Kind {
  std::string name;
  std::vector<std::string> counters;
};
struct Account {
  bool present = false;
  std::uint32_t parent = kNone, weight = kUsualWeight;
  std::string name;
  Vector used;
};
struct DeviceWish {
  std::uint32_t kind = 0, count = 1;
  bool whole = true;
  Vector least;
};
struct Claimant {
  bool present = false;
  std::uint32_t account = kNone, weight = kUsualWeight, gang = 1;
  std::int64_t priority = 0, submitted_us = 0, limit_us = BOURSE_UNLIMITED;
  std::uint64_t order = 0, units = 0;
  std::string name;
  Vector ask, used;
  std::vector<DeviceWish> devices;
};
struct Device {
  std::uint32_t kind = 0;
  bool whole = true;  // nobody has a part of it
  Vector total, free;
};
struct Agent {
  bool present = false;
  std::string name;
  Vector total, free;
  std::vector<Device> devices;
};
struct Placement {  // what is to be placed
  std::uint32_t claimant = kNone;
  Vector ask;
  std::vector<DeviceWish> devices;
};

class Book {
 public:
  // --- as the interface has them
  void kinds(const bourse_kind* kinds, std::uint32_t count);
  void total(const std::int64_t* total, std::uint32_t kinds) { total_.assign(total, total + kinds); }
  void account(const bourse_account& account);
  void account_used(std::uint32_t handle, const std::int64_t* used, std::uint32_t kinds);
  void account_removed(std::uint32_t handle) { accounts_[handle].present = false; }
  void claimant(const bourse_claimant& claimant);
  void claimant_used(std::uint32_t handle, const std::int64_t* used, std::uint32_t kinds);
  void claimant_units(std::uint32_t handle, std::uint64_t units) { claimants_[handle].units = units; }
  void claimant_removed(std::uint32_t handle);
  void agent(const bourse_agent& agent);
  void agent_removed(std::uint32_t handle) { agents_[handle].present = false; }

  // Tells `policy` all of it, in the interface's order of calls.
  void tell(const bourse_policy_1& table, bourse_policy* policy) const;

  [[nodiscard]] const std::vector<Kind>& all_kinds() const { return kinds_; }
  [[nodiscard]] const Vector& all() const { return total_; }
  [[nodiscard]] const std::vector<Account>& accounts() const { return accounts_; }
  [[nodiscard]] const std::vector<Claimant>& claimants() const { return claimants_; }
  [[nodiscard]] const std::vector<Agent>& agents() const { return agents_; }
  [[nodiscard]] const Claimant& of(std::uint32_t claimant) const { return claimants_[claimant]; }
  [[nodiscard]] bool has_claimant(std::uint32_t h) const { return h < claimants_.size() && claimants_[h].present; }
  [[nodiscard]] bool has_account(std::uint32_t h) const { return h < accounts_.size() && accounts_[h].present; }
  [[nodiscard]] bool has_agent(std::uint32_t h) const { return h < agents_.size() && agents_[h].present; }
  [[nodiscard]] bool wants(std::uint32_t h) const { return has_claimant(h) && claimants_[h].units > 0; }

  // Is a device of kind `device` one that an ask of kind `asked` means? "gpu/" means every "gpu/...".
  [[nodiscard]] bool means(std::uint32_t asked, std::uint32_t device) const;

 private:
  std::vector<Kind> kinds_;
  Vector total_;
  std::vector<Account> accounts_;
  std::vector<Claimant> claimants_;
  std::vector<Agent> agents_;
};

std::vector<DeviceWish> wishes(const bourse_device_ask* asks, std::uint32_t count);

// C structs over the book's values, valid as long as these are and while this exists.
class Told {
 public:
  bourse_account account(std::uint32_t handle, const Account& a);
  bourse_claimant claimant(std::uint32_t handle, const Claimant& c);
  bourse_agent agent(std::uint32_t handle, const Agent& a);
  const std::vector<bourse_kind>& kinds(const std::vector<Kind>& kinds);
  const std::vector<bourse_device_ask>& asks(const std::vector<DeviceWish>& wishes);

 private:
  std::vector<bourse_device_ask> asks_;
  std::vector<bourse_device> devices_;
  std::vector<bourse_kind> kinds_;
  std::vector<std::vector<const char*>> names_;
  Vector padded_;
};

}  // namespace bourse::policy
