// sjf and its family: orders of waiting jobs by size and waiting time, with a guard against starving.
//
// With r = planned time in seconds (`limit`), p = processors (gang x cpus of a unit), w = seconds waited, s = submit time in seconds:
//   sjf     r                                     shortest first
//   saf     r * p                                 smallest area first
//   f1      log10(r) * p + 870 * log10(s)         Carastan-Santos and de Camargo, SC 2017, table 3; depends on where s = 0 is
//   wfp3    -(w / r)^3 * p                        Tang et al., Cluster 2009
//   unicep  -w / (log2(max(p, 2)) * r)            the same
//   xf      -(w + r) / r                          expansion factor
// lowest first. r and s are 0.1 where they are 0; w is 0 where the clock stepped back.
//
// Order: higher priority; then those that have waited for longer than `guard`, by submission; then the formula; then lower `order`,
// name, handle. A job that has once waited too long stays in front. Its origin for s is the host's (1970 in batch), or `origin` seconds
// later.
//
// Parameters: guard=TIME (20h) or off; f1 only: origin=SECONDS (0).
// sjf, saf, f1: a change costs O(log n), a walk what it gives. wfp3, unicep, xf change with time: a walk costs O(n log n).
#include <algorithm>

#include "plugins/policy/builtin.h"
#include "plugins/policy/formula.h"
#include "plugins/policy/ordered.h"

namespace bourse::policy {

namespace {

using formula::Facts, formula::kLeast;

constexpr double kMicro = 1e6;

struct Key {
  std::int64_t priority = 0;
  bool on_time = true;  // false: waited for longer than the guard
  double value = 0;     // by the formula; of a guarded one, when it was submitted
  friend bool operator<(const Key& a, const Key& b) {
    if (a.priority != b.priority) return a.priority > b.priority;
    if (a.on_time != b.on_time) return !a.on_time;
    return a.value < b.value;
  }
};

template <double (*Formula)(const Facts&), bool kMoves>
class Shortest final : public Base {
 public:
  using Base::Base;

  void configure(Params& params) override {
    guard_ = params.duration("guard", std::chrono::hours(20)).count();
    if (Formula == formula::f1) origin_ = params.integer("origin", 0, 0, INT64_MAX / 4'000'000) * 1'000'000;
  }

  void claimant_changes(std::uint32_t h) override {
    order_.take(h);
    by_age_.take(h);
  }
  void claimant_changed(std::uint32_t h) override {
    if (!book.wants(h)) return;
    if (!kMoves) order_.put(h, key_of(h, now_));
    if (kMoves || guard_ > 0) by_age_.put(h, {book.of(h).submitted_us});
    if (!kMoves || !walking_) return;
    // In the middle of a walk: it is met (again) where it ranks now, if that lies ahead.
    const Keyed entry{key_of(h, now_), h};
    const auto at = std::lower_bound(keyed_.begin() + static_cast<std::ptrdiff_t>(at_), keyed_.end(), entry, less());
    if (at_ > 0 && less()(entry, keyed_[at_ - 1])) return;
    if (at == keyed_.end() || at->second != h) keyed_.insert(at, entry);
  }

  void rank(std::int64_t now, std::uint32_t, std::uint32_t* claimants, std::uint32_t count) override {
    sort(now, claimants, count);
  }

  void begin(std::int64_t now, std::uint32_t) override {
    now_ = std::max(now_, now);
    if (kMoves) {
      keyed_.clear();
      by_age_.begin();
      for (std::uint32_t h = 0; by_age_.next(&h);) keyed_.emplace_back(key_of(h, now_), h);
      if (!std::is_sorted(keyed_.begin(), keyed_.end(), less())) std::sort(keyed_.begin(), keyed_.end(), less());
      at_ = 0;
      walking_ = true;
      return;
    }
    // Those that have become old since the last walk go to the front, once each.
    while (guard_ > 0 && !by_age_.empty() && now_ - book.of(by_age_.first()).submitted_us > guard_) {
      const std::uint32_t h = by_age_.first();
      by_age_.take(h);
      order_.move(h, key_of(h, now_));
    }
    order_.begin();
  }

  int next(std::uint32_t* claimant) override {
    if (!kMoves) return order_.next(claimant) ? BOURSE_NEXT : BOURSE_NEXT_END;
    while (at_ < keyed_.size() && !stands(keyed_[at_])) ++at_;
    walking_ = at_ < keyed_.size();
    if (!walking_) return BOURSE_NEXT_END;
    *claimant = keyed_[at_++].second;
    return BOURSE_NEXT;
  }

 private:
  using Keyed = std::pair<Key, std::uint32_t>;
  struct Age {
    std::int64_t submitted_us = 0;
    friend bool operator<(const Age& a, const Age& b) { return a.submitted_us < b.submitted_us; }
  };

  [[nodiscard]] Key key_of(std::uint32_t h, std::int64_t now) const {
    const Claimant& c = book.of(h);
    const std::int64_t waited = std::max<std::int64_t>(now - c.submitted_us, 0);
    if (guard_ > 0 && waited > guard_) return {c.priority, false, static_cast<double>(c.submitted_us)};
    Facts f;
    f.r = c.limit_us <= 0 ? kLeast : static_cast<double>(c.limit_us) / kMicro;
    f.p = static_cast<double>(c.gang) * static_cast<double>(at(c.ask, BOURSE_KIND_CPUS)) / 1000;
    f.w = static_cast<double>(waited) / kMicro;
    f.s = c.submitted_us <= origin_ ? kLeast : static_cast<double>(c.submitted_us - origin_) / kMicro;
    return {c.priority, true, Formula(f)};
  }

  auto less() const {
    return [this](const Keyed& a, const Keyed& b) {
      if (a.first < b.first) return true;
      return b.first < a.first ? false : earlier(a.second, b.second);
    };
  }
  // Does the walk's entry still say how it is?
  [[nodiscard]] bool stands(const Keyed& entry) const {
    if (!book.wants(entry.second)) return false;
    const Key now = key_of(entry.second, now_);
    return !(now < entry.first) && !(entry.first < now);
  }

  void sort(std::int64_t now, std::uint32_t* claimants, std::uint32_t count) {
    sorted_.clear();
    for (std::uint32_t i = 0; i < count; ++i) sorted_.emplace_back(key_of(claimants[i], now), claimants[i]);
    if (!std::is_sorted(sorted_.begin(), sorted_.end(), less())) std::sort(sorted_.begin(), sorted_.end(), less());
    for (std::uint32_t i = 0; i < count; ++i) claimants[i] = sorted_[i].second;
  }

  std::int64_t guard_ = 0, origin_ = 0, now_ = 0;
  Ordered<Key> order_{book};           // all that want, where the formula stands still
  Ordered<Age> by_age_{book};          // all that want, oldest first; where the formula stands still only those that are on time
  std::vector<Keyed> keyed_, sorted_;  // the walk; and what rank() sorts
  bool walking_ = false;
  std::size_t at_ = 0;
};

constexpr Abilities kRanks{.ranks = true, .walks = true};

}  // namespace

const bourse_policy_1 kSjf = table_of<Shortest<formula::sjf, false>>(kRanks);
const bourse_policy_1 kSaf = table_of<Shortest<formula::saf, false>>(kRanks);
const bourse_policy_1 kF1 = table_of<Shortest<formula::f1, false>>(kRanks);
const bourse_policy_1 kWfp3 = table_of<Shortest<formula::wfp3, true>>(kRanks);
const bourse_policy_1 kUnicep = table_of<Shortest<formula::unicep, true>>(kRanks);
const bourse_policy_1 kXf = table_of<Shortest<formula::xf, true>>(kRanks);

}  // namespace bourse::policy
