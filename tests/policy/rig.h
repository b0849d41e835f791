// What the tests of policies share: a host with amounts told in plain numbers.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "plugins/policy/host.h"

namespace bourse::test {

// Two kinds, and "d" for a third one where a test needs three.
inline Usage amounts(std::int64_t cpus, std::int64_t mem, std::int64_t third = 0) {
  Usage usage{.cpus = cpus, .mem = mem, .devices = {}};
  if (third > 0) usage.devices.set("d", third);
  return usage;
}

class PolicyRig {
 public:
  explicit PolicyRig(const std::string& spec, policy::HostOptions options = {}) {
    auto choice = catalog.find(spec);
    EXPECT_TRUE(choice) << (choice ? "" : choice.error().text());
    options.log = [this](std::string line) { log.push_back(std::move(line)); };
    auto made = policy::Host::make(*choice, std::move(options));
    EXPECT_TRUE(made) << (made ? "" : made.error().text());
    host = *std::move(made);
  }

  std::uint32_t account(const std::string& name, std::uint32_t parent = policy::kNone, std::uint32_t weight = 1000) {
    const auto handle = static_cast<std::uint32_t>(accounts_.size());
    accounts_.push_back({name, parent, Usage{}});
    host->account({.handle = handle, .parent = parent, .weight = weight, .name = name});
    return handle;
  }
  // A claimant that wants something, by name.
  std::uint32_t claimant(const std::string& name, const Usage& used = {}, std::uint32_t weight = 1000,
                         std::uint32_t account = policy::kNone, std::int64_t priority = 0) {
    const auto handle = static_cast<std::uint32_t>(used_.size());
    used_.push_back(used);
    names_.push_back(name);
    account_of_.push_back(account);
    handles_[name] = handle;
    host->claimant(
        {.handle = handle, .account = account, .weight = weight, .priority = priority, .units = 1, .name = name, .used = &used});
    charge(account, used);
    return handle;
  }
  std::uint32_t job(std::uint64_t number, Duration submit, Duration limit, std::uint32_t processors, std::int64_t priority = 0,
                    std::uint32_t account = policy::kNone) {
    Shape shape;
    shape.cpus = MilliCpus(1000);
    const auto handle = static_cast<std::uint32_t>(used_.size());
    used_.emplace_back();
    names_.push_back(std::to_string(number));
    account_of_.push_back(account);
    host->claimant({.handle = handle,
                    .account = account,
                    .gang = processors,
                    .priority = priority,
                    .order = number,
                    .units = processors,
                    .submitted = submit,
                    .limit = limit,
                    .shape = &shape});
    return handle;
  }
  void gets(std::uint32_t claimant, const Usage& more) {
    used_[claimant].add(more);
    host->claimant_used(claimant, used_[claimant]);
    charge(account_of_[claimant], more);
  }
  void gives(std::uint32_t claimant, const Usage& less) {
    used_[claimant].subtract(less);
    host->claimant_used(claimant, used_[claimant]);
  }
  std::string order(Duration now = Duration{0}) {
    std::string out;
    host->begin(now);
    while (const auto next = host->next()) out += (out.empty() ? "" : " ") + names_[next->claimant];
    // The other way to ask must say the same.
    std::vector<std::uint32_t> all;
    for (std::uint32_t h = 0; h < names_.size(); ++h)
      if (host->position(now, h) > 0) all.push_back(h);
    host->rank(now, policy::kNone, all);
    std::string ranked;
    for (const std::uint32_t h : all) ranked += (ranked.empty() ? "" : " ") + names_[h];
    EXPECT_EQ(ranked, out) << "rank() and the walk differ";
    return out;
  }
  std::uint32_t operator[](const std::string& name) const { return handles_.at(name); }

  policy::Catalog catalog;
  std::unique_ptr<policy::Host> host;
  std::vector<std::string> log;

 private:
  struct Account {
    std::string name;
    std::uint32_t parent;
    Usage used;
  };
  void charge(std::uint32_t account, const Usage& more) {
    for (; account != policy::kNone; account = accounts_[account].parent) {
      accounts_[account].used.add(more);
      host->account_used(account, accounts_[account].used);
    }
  }
  std::vector<Account> accounts_;
  std::vector<Usage> used_;
  std::vector<std::string> names_;
  std::vector<std::uint32_t> account_of_;
  std::map<std::string, std::uint32_t> handles_;
};

}  // namespace bourse::test
