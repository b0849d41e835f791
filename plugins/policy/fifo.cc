// fifo: first come, first served.
//
// Order: higher priority; then lower `order` (a job's number); then the name that sorts first; then the lower handle. Frameworks have
// one order, so among them the name decides. No parameters. A walk costs what it gives; a change O(log n).
#include "plugins/policy/builtin.h"
#include "plugins/policy/ordered.h"

namespace bourse::policy {

namespace {

struct Key {
  std::int64_t priority = 0;
  friend bool operator<(const Key& a, const Key& b) { return a.priority > b.priority; }
};

class Fifo final : public Base {
 public:
  using Base::Base;
  void configure(Params&) override {}
  void claimant_changes(std::uint32_t h) override { order_.take(h); }
  void claimant_changed(std::uint32_t h) override {
    if (book.wants(h)) order_.put(h, {book.of(h).priority});
  }
  void rank(std::int64_t, std::uint32_t, std::uint32_t* claimants, std::uint32_t count) override {
    sort_claimants(claimants, count, [this](std::uint32_t a, std::uint32_t b) {
      const std::int64_t x = book.of(a).priority, y = book.of(b).priority;
      return x != y ? x > y : earlier(a, b);
    });
  }
  void begin(std::int64_t, std::uint32_t) override { order_.begin(); }
  int next(std::uint32_t* claimant) override { return order_.next(claimant) ? BOURSE_NEXT : BOURSE_NEXT_END; }

 private:
  Ordered<Key> order_{book};
};

}  // namespace

const bourse_policy_1 kFifo = table_of<Fifo>({.ranks = true, .walks = true});

}  // namespace bourse::policy
