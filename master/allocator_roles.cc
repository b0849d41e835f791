// What the members of each role use, and of the roles above it: what the rank is about.
#include <utility>

#include "common/core/hooks.h"
#include "master/allocator.h"
#include "master/house.h"

namespace bourse::house {

Allocator::RoleAccount& Allocator::account_of(House& h, const RoleName& role) {
  const auto [at, fresh] = roles_.try_emplace(role);
  RoleAccount& account = at->second;
  if (fresh) {
    account.handle = free_accounts_.empty() ? static_cast<std::uint32_t>(roles_.size() - 1) : free_accounts_.back();
    if (!free_accounts_.empty()) free_accounts_.pop_back();
  }
  std::uint32_t parent = policy::kNone;
  if (const auto slash = role.str().rfind('/'); slash != std::string::npos && !hooks::mutant("allocator.flat_roles")) {
    RoleAccount& above = account_of(h, RoleName(role.str().substr(0, slash)));
    if (fresh) ++above.children;
    parent = above.handle;
  }
  if (const std::int64_t weight = h.roles.weight(h, role); account.weight != weight) {
    account.weight = weight;
    policy_->account({.handle = account.handle,
                      .parent = parent,
                      .weight = static_cast<std::uint32_t>(weight * 1000),
                      .name = role.str(),
                      .used = &account.told()});
  }
  return account;
}

void Allocator::account_used(const RoleName& role, const Usage* more, const Usage* less) {
  const auto book = [&](RoleAccount& account, Usage& used) {
    if (less != nullptr) used.subtract(*less);
    if (more != nullptr) used.add(*more);
    policy_->account_used(account.handle, account.told());
  };
  RoleAccount& own = roles_.find(role)->second;
  book(own, own.used);
  std::string name = role.str();
  for (auto slash = name.rfind('/'); slash != std::string::npos; slash = name.rfind('/')) {
    name.resize(slash);
    const auto above = roles_.find(RoleName(name));
    if (above == roles_.end()) return;  // a tree that the policy is not told of
    book(above->second, above->second.below);
  }
}

void Allocator::drop_account(const RoleName& role) {
  const auto found = roles_.find(role);
  if (found == roles_.end() || found->second.members > 0 || found->second.children > 0) return;
  policy_->account_removed(found->second.handle);
  free_accounts_.push_back(found->second.handle);
  roles_.erase(found);
  const auto slash = role.str().rfind('/');
  if (slash == std::string::npos || hooks::mutant("allocator.flat_roles")) return;
  const RoleName above(role.str().substr(0, slash));
  --roles_.at(above).children;
  drop_account(above);
}

void Allocator::leave_role(Member& member) {
  --roles_.at(member.role).members;
  account_used(member.role, nullptr, &member.counted);
  drop_account(member.role);
}

}  // namespace bourse::house
