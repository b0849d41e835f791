// What the built-in policies have in common: a Book of what they were told, and the C interface around a class.
//
// A built-in policy is a class derived from Base; table_of<P>() makes its bourse_policy_1. So production, simulation and tests
// call built-in policies and plugins in one and the same way. Owned by whoever created it, used on one thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "bourse/plugin.h"
#include "common/core/result.h"
#include "plugins/policy/book.h"
#include "plugins/policy/params.h"

namespace bourse::policy {

class Base {
 public:
  explicit Base(const bourse_host* host) : host_(host) {}
  virtual ~Base() = default;
  Base(const Base&) = delete;
  Base& operator=(const Base&) = delete;

  virtual void configure(Params& params) = 0;  // complaints are the Params' own

  // --- deltas; the book has taken them unless said otherwise
  virtual void total_changed() {}
  virtual void account_changed(std::uint32_t) {}  // or its use
  virtual void account_removed(std::uint32_t) {}
  virtual void claimant_changes(std::uint32_t) {}  // before the book takes it; not for a new one
  virtual void claimant_changed(std::uint32_t) {}  // new, or any part of it
  virtual void claimant_told(std::uint32_t) {}     // after claimant_changed(): all of it was told, not only use or units
  virtual void claimant_removed(std::uint32_t) {}  // claimant_changes() was called before
  virtual void agent_changed(std::uint32_t) {}
  virtual void agent_removed(std::uint32_t) {}

  // --- questions
  virtual void rank(std::int64_t, std::uint32_t, std::uint32_t*, std::uint32_t) {}
  virtual void begin(std::int64_t, std::uint32_t) {}
  virtual int next(std::uint32_t*) { return BOURSE_NEXT_END; }
  virtual void score(const Placement&, const std::uint32_t*, std::uint32_t, bourse_score*) {}
  virtual void feedback(const bourse_feedback&) {}
  [[nodiscard]] virtual std::string save() const { return {}; }
  virtual bool load(std::string_view) { return true; }

  Book book;

 protected:
  [[nodiscard]] const bourse_host* host() const { return host_; }
  // The rule that ends every other: lower order, then the name that sorts first, then the lower handle.
  [[nodiscard]] bool earlier(std::uint32_t a, std::uint32_t b) const {
    const Claimant &x = book.of(a), &y = book.of(b);
    if (x.order != y.order) return x.order < y.order;
    const int names = x.name.compare(y.name);
    return names != 0 ? names < 0 : a < b;
  }

 private:
  const bourse_host* host_;
};

// What a policy class does: it ranks, it walks by itself, it scores, it learns from feedback (and has a state to save).
struct Abilities {
  bool ranks = false, walks = false, scores = false, learns = false;
  std::uint32_t wants = 0;  // BOURSE_WANTS_...
};

namespace detail {

inline Base& base(bourse_policy* p) { return *reinterpret_cast<Base*>(p); }

template <class P>
int create(const bourse_host* host, const bourse_param* params, std::uint32_t count, bourse_policy** policy, char* error,
           std::uint32_t capacity) {
  auto made = std::make_unique<P>(host);
  Params reader(params, count);
  made->configure(reader);
  if (const std::string complaint = reader.complaint(); !complaint.empty()) {
    const std::size_t n = std::min<std::size_t>(complaint.size(), capacity - 1);
    std::memcpy(error, complaint.data(), n);
    error[n] = 0;
    return BOURSE_FAILED;
  }
  *policy = reinterpret_cast<bourse_policy*>(static_cast<Base*>(made.release()));
  return 0;
}

inline void claimant(bourse_policy* p, const bourse_claimant* c) {
  Base& b = base(p);
  if (b.book.has_claimant(c->handle)) b.claimant_changes(c->handle);
  b.book.claimant(*c);
  b.claimant_changed(c->handle);
  b.claimant_told(c->handle);
}
inline void claimant_used(bourse_policy* p, std::uint32_t h, const std::int64_t* used, std::uint32_t kinds) {
  Base& b = base(p);
  b.claimant_changes(h);
  b.book.claimant_used(h, used, kinds);
  b.claimant_changed(h);
}
inline void claimant_units(bourse_policy* p, std::uint32_t h, std::uint64_t units) {
  Base& b = base(p);
  if ((b.book.of(h).units > 0) == (units > 0)) return b.book.claimant_units(h, units);
  b.claimant_changes(h);
  b.book.claimant_units(h, units);
  b.claimant_changed(h);
}
inline void claimant_removed(bourse_policy* p, std::uint32_t h) {
  Base& b = base(p);
  b.claimant_changes(h);
  b.book.claimant_removed(h);
  b.claimant_removed(h);
}
inline void score(bourse_policy* p, const bourse_placement* what, const std::uint32_t* agents, std::uint32_t count,
                  bourse_score* scores) {
  Placement placement;
  placement.claimant = what->claimant;
  placement.ask.assign(what->ask, what->ask + what->kinds);
  placement.devices = wishes(what->devices, what->device_asks);
  base(p).score(placement, agents, count, scores);
}
inline std::int64_t save(bourse_policy* p, void* buffer, std::uint64_t capacity) {
  const std::string state = base(p).save();
  if (state.size() <= capacity && !state.empty()) std::memcpy(buffer, state.data(), state.size());
  return static_cast<std::int64_t>(state.size());
}

}  // namespace detail

template <class P>
constexpr bourse_policy_1 table_of(const Abilities& can) {
  using namespace detail;  // NOLINT: its functions are what this table is made of
  bourse_policy_1 t{};
  t.size = sizeof t;
  t.wants = can.wants;
  t.create = &detail::create<P>;
  t.destroy = [](bourse_policy* p) { delete &base(p); };
  t.kinds = [](bourse_policy* p, const bourse_kind* kinds, std::uint32_t count) { base(p).book.kinds(kinds, count); };
  t.total = [](bourse_policy* p, const std::int64_t* total, std::uint32_t kinds) {
    base(p).book.total(total, kinds);
    base(p).total_changed();
  };
  t.account = [](bourse_policy* p, const bourse_account* a) {
    base(p).book.account(*a);
    base(p).account_changed(a->handle);
  };
  t.account_used = [](bourse_policy* p, std::uint32_t h, const std::int64_t* used, std::uint32_t kinds) {
    base(p).book.account_used(h, used, kinds);
    base(p).account_changed(h);
  };
  t.account_removed = [](bourse_policy* p, std::uint32_t h) {
    base(p).book.account_removed(h);
    base(p).account_removed(h);
  };
  t.claimant = &detail::claimant;
  t.claimant_used = &detail::claimant_used;
  t.claimant_units = &detail::claimant_units;
  t.claimant_removed = &detail::claimant_removed;
  if (can.scores) {
    t.agent = [](bourse_policy* p, const bourse_agent* a) {
      base(p).book.agent(*a);
      base(p).agent_changed(a->handle);
    };
    t.agent_removed = [](bourse_policy* p, std::uint32_t h) {
      base(p).book.agent_removed(h);
      base(p).agent_removed(h);
    };
    t.score = &detail::score;
  }
  if (can.ranks) {
    t.rank = [](bourse_policy* p, std::int64_t now, std::uint32_t agent, std::uint32_t* claimants, std::uint32_t count) {
      base(p).rank(now, agent, claimants, count);
    };
  }
  if (can.walks) {
    t.begin = [](bourse_policy* p, std::int64_t now, std::uint32_t agent) { base(p).begin(now, agent); };
    t.next = [](bourse_policy* p, std::uint32_t* claimant) { return base(p).next(claimant); };
  }
  if (can.learns) {
    t.feedback = [](bourse_policy* p, const bourse_feedback* f) { base(p).feedback(*f); };
    t.save = &detail::save;
    t.load = [](bourse_policy* p, const void* state, std::uint64_t bytes) {
      return base(p).load({static_cast<const char*>(state), static_cast<std::size_t>(bytes)}) ? 0 : BOURSE_FAILED;
    };
  }
  return t;
}

}  // namespace bourse::policy
