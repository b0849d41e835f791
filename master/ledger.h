// Where every part of every agent is: free, offered, held, leased, reserved or unavailable. See "Ledger".
//
// Owned by the master, one account an agent, used from its step. Invariant, after every call: free + offered + held + leased
// + reserved + unavailable = total, for every kind, NUMA node and device.
//
// Reserved is what is idle and kept for somebody, under a key: an operators' reservation or a claim (keeps.h). What is kept comes from
// what is free and goes back there; when the account closes, or the agent says that it has something else, all of it does, and whoever
// keeps it takes it again.
//
// An agent may say that it has less than is leased of it (memory taken away, a device gone). Nothing goes below zero: the
// account's total is then the larger of what the agent says and what is in use, component by component, nothing is free, and
// as slices end the total sinks until it is the agent's own figure again. An agent with such a shortfall gets no new offers. A device
// that is gone or has become another is no shortfall: it stays in the total as long as somebody has it and is then forgotten, and
// nobody else is kept from what is there.
#pragma once

#include <cstdint>
#include <vector>

#include "common/core/resources.h"
#include "master/dirty.h"

namespace bourse::house {

using AgentIx = std::uint32_t;
using FrameworkIx = std::uint32_t;

enum class Pool : std::uint8_t { kFree, kOffered, kHeld, kLeased };

struct Account {
  Resources target;  // what the agent says it has
  Resources total, free, offered, held, leased, reserved, unavailable;
  struct Kept {
    std::uint64_t key = 0;
    Resources amount;
  };
  std::vector<Kept> kept;  // by key; adds up to `reserved`
  bool open = false;       // reachable and not cordoned: what is not in use is free, else unavailable
  bool shortfall = false;  // more is in use than the agent has
  bool strays = false;     // a device is in use that the agent has not, or not so
};

class Ledger {
 public:
  void open_account(AgentIx agent);
  // kFree as `to` means back to the house: free, or unavailable while the account is closed or short. A move that the
  // account does not hold is a bug.
  void move(AgentIx agent, const Resources& amount, Pool from, Pool to);
  // Out of what is free, to what is kept under `key`. Only what is free can be kept: a bug else.
  void keep(AgentIx agent, std::uint64_t key, const Resources& amount);
  void let_go(AgentIx agent, std::uint64_t key);                                // all of it, back to what is free
  void offer_kept(AgentIx agent, std::uint64_t key, const Resources& amount);   // a part of it, to what is offered
  [[nodiscard]] const Resources& kept(AgentIx agent, std::uint64_t key) const;  // empty where nothing is
  // In use by an agent's own word (hello after a restart of the master): counted on top. Refused where it cannot be added,
  // e.g. a device that another slice has whole. settle() must follow.
  Result<> take_in(AgentIx agent, const Resources& amount, Pool to);
  void settle(AgentIx agent, const Resources& target, bool open);
  void set_open(AgentIx agent, bool open);
  // Would everything in use still fit if the agent had `target`?
  [[nodiscard]] bool covers(AgentIx agent, const Resources& target) const;

  [[nodiscard]] const Account& account(AgentIx agent) const { return accounts_[agent]; }
  // Agents whose free amount changed since the last call; true where it may have grown. Each once.
  struct Touched {
    AgentIx agent = 0;
    bool grew = false;
  };
  std::vector<Touched> take_touched();
  [[nodiscard]] bool touched() const { return !touched_.empty(); }
  Dirty viewed;  // accounts that changed in any way, for readers

 private:
  void touch(AgentIx agent, bool grew);
  void check(AgentIx agent) const;
  void balance(Account& account);
  static Resources& pool(Account& account, Pool which);

  std::vector<Account> accounts_;
  std::vector<std::uint8_t> marks_;  // 1: in touched_, 2: and grew
  std::vector<AgentIx> touched_;
};

// The exact sum over all pools; for checkers. Error names the first that cannot be added or differs.
Result<> balanced(const Resources& total, const Resources& free, const Resources& offered, const Resources& held,
                  const Resources& leased, const Resources& reserved, const Resources& unavailable);

// What of `have` is left beside `used`, never below zero: the larger of 0 and the difference, component by component.
[[nodiscard]] Resources left_over(const Resources& have, const Resources& used);
// What both have, component by component.
[[nodiscard]] Resources common_part(const Resources& a, const Resources& b);

}  // namespace bourse::house
