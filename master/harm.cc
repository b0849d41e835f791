#include "master/harm.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

namespace bourse::house {

void sort_candidates(std::vector<Victim>& candidates) {
  std::sort(candidates.begin(), candidates.end(), [](const Victim& a, const Victim& b) {
    return std::tuple(a.priority, -a.since.count(), a.slice) < std::tuple(b.priority, -b.since.count(), b.slice);
  });
}

Harm harm_of(std::span<const Victim> candidates, std::span<const std::size_t> victims) {
  Harm harm;
  std::set<std::pair<std::uint32_t, std::uint64_t>> gangs;
  bool first = true;
  for (const std::size_t i : victims) {
    const Victim& c = candidates[i];
    if (c.gang == 0 || gangs.emplace(c.owner, c.gang).second) harm.slices += c.weight;
    harm.priority = first ? c.priority : std::max(harm.priority, c.priority);
    harm.oldest = first ? c.since : std::min(harm.oldest, c.since);
    first = false;
  }
  return harm;
}

namespace {

struct Search {
  const Shape& shape;
  const Resources& free;
  const Resources& total;
  const Labels& labels;
  std::span<const Victim> candidates;
  const std::function<bool(std::span<const std::size_t>)>& may;
  std::int64_t& looks;
  std::optional<Taking> best;

  bool fits_with(std::span<const std::size_t> victims) {
    if (looks <= 0) return false;
    --looks;
    Resources sum = free;
    for (const std::size_t i : victims)
      if (!sum.add(candidates[i].amount)) return false;
    return fits(shape, sum, total, labels) == Misfit::kNone && may(victims);
  }

  void offer(std::vector<std::size_t> victims) {
    std::sort(victims.begin(), victims.end());
    Harm harm = harm_of(candidates, victims);
    const bool better = !best || harm.less_than(best->harm) || (harm == best->harm && victims < best->victims);
    if (better) best = Taking{std::move(victims), harm};
  }

  // How many are needed at the least, if each had the most of each kind that any has.
  [[nodiscard]] std::size_t least_count() const {
    const auto need = [&](std::int64_t ask, std::int64_t have, auto get) {
      std::vector<std::int64_t> amounts;
      for (const Victim& c : candidates) amounts.push_back(get(c.amount));
      std::sort(amounts.rbegin(), amounts.rend());
      std::size_t n = 0;
      while (have < ask && n < amounts.size()) have += amounts[n++];
      return n;
    };
    const std::size_t cpus = need(shape.cpus.value, free.cpus.value, [](const Resources& r) { return r.cpus.value; });
    const std::size_t mem = need(shape.mem.value, free.mem.value, [](const Resources& r) { return r.mem.value; });
    return std::max({cpus, mem, std::size_t{1}});
  }

  // n over k, or more than `most`.
  static std::uint64_t sets_of(std::uint64_t n, std::uint64_t k, std::uint64_t most) {
    std::uint64_t sets = 1;
    for (std::uint64_t i = 1; i <= std::min(k, n - k); ++i) {
      sets = sets * (n - std::min(k, n - k) + i) / i;
      if (sets > most) return most + 1;
    }
    return sets;
  }

  void all_of_size(std::size_t k) {
    std::vector<std::size_t> set(k);
    std::iota(set.begin(), set.end(), 0);
    const std::size_t n = candidates.size();
    for (;;) {
      const Harm harm = harm_of(candidates, set);
      if ((!best || harm.less_than(best->harm)) && fits_with(set)) offer(set);
      std::size_t i = k;
      while (i > 0 && set[i - 1] == n - k + i - 1) --i;
      if (i == 0) return;
      ++set[i - 1];
      for (std::size_t j = i; j < k; ++j) set[j] = set[j - 1] + 1;
    }
  }

  void greedy(const std::vector<std::size_t>& order) {
    std::vector<std::size_t> taken;
    bool enough = false;
    for (const std::size_t i : order) {
      taken.push_back(i);
      if ((enough = fits_with(taken))) break;
    }
    if (!enough) return;
    std::vector<std::size_t> worst = taken;
    std::sort(worst.rbegin(), worst.rend());
    for (const std::size_t i : worst) {
      std::vector<std::size_t> without;
      for (const std::size_t j : taken)
        if (j != i) without.push_back(j);
      if (!without.empty() && fits_with(without)) taken = std::move(without);
    }
    offer(std::move(taken));
  }
};

}  // namespace

std::optional<Taking> least_harm(const Shape& shape, const Resources& free, const Resources& total, const Labels& labels,
                                 std::span<const Victim> candidates, const std::function<bool(std::span<const std::size_t>)>& may,
                                 std::int64_t& looks) {
  Search search{shape, free, total, labels, candidates, may, looks, {}};
  if (fits(shape, free, total, labels) == Misfit::kNone) return Taking{};
  if (candidates.empty()) return std::nullopt;
  Resources all = free;
  for (const Victim& c : candidates)
    if (!all.add(c.amount)) return std::nullopt;
  if (--looks < 0 || fits(shape, all, total, labels) != Misfit::kNone) return std::nullopt;

  const std::size_t n = candidates.size();
  bool exact = true;
  for (std::size_t k = search.least_count(); k <= n; ++k) {
    if (search.best && search.best->harm.slices < k) break;  // each slice of a larger set is one at least
    exact = Search::sets_of(n, k, kSetsMost) <= kSetsMost;
    if (!exact) break;
    search.all_of_size(k);
  }
  if (exact) return search.best;

  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  search.greedy(order);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const Resources &x = candidates[a].amount, &y = candidates[b].amount;
    return std::tuple(x.devices.size(), x.cpus, x.mem) > std::tuple(y.devices.size(), y.cpus, y.mem);
  });
  search.greedy(order);
  return search.best;
}

}  // namespace bourse::house
