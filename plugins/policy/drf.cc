// drf: weighted dominant-resource fairness (Ghodsi et al., NSDI 2011), over accounts and then over the claimants of an account.
//
// Order: higher priority first within an account. Accounts by the dominant share of what is held in their name, lowest first; a
// claimant without an account is one by itself. Within an account: higher priority; then the claimant's own dominant share,
// lowest first; then lower `order`, the name, the handle. Equal shares of accounts: the name that sorts first, then the lower
// handle. With ties=grants, whoever got fewer grants goes before that, as in Mesos's sorter; a grant is a growth of what it holds.
// With ties=job, equal shares of accounts do not go by account: their claimants go by the rules within one, so that of users who hold
// nothing the job that came first is first; and from the first that is passed by, a walk goes on as the order stood then. That is the
// rule for jobs, ties=name the one for frameworks.
// Shares are exact (share.h), against a total that may lag behind the true one by 1/32.
//
// This is the "skip" variant: who does not fit is passed by. So that large asks do not starve, who is first and was passed by for
// `reserve` is answered with BOURSE_NEXT_RESERVE: reserve=60s is the default, off never does it, always is the stop rule of the
// paper's pseudo-code.
//
// Parameters: reserve=off|always|TIME, ties=name|grants|job. A change costs O(log n), a walk what it gives; with ties=job, one that
// passes somebody by O(n log n).
#include <algorithm>
#include <set>

#include "common/core/hooks.h"
#include "plugins/policy/builtin.h"
#include "plugins/policy/ordered.h"
#include "plugins/policy/share.h"

namespace bourse::policy {

namespace {

struct Key {
  std::int64_t priority = 0;
  Share share;
  std::uint64_t grants = 0;
  friend bool operator<(const Key& a, const Key& b) {
    if (a.priority != b.priority) return a.priority > b.priority;
    if (const int order = compare(a.share, b.share); order != 0) return order < 0;
    return a.grants < b.grants;
  }
};

class Drf final : public Base {
 public:
  using Base::Base;

  void configure(Params& params) override {
    const bool frameworks = host()->name != nullptr && host()->name == std::string_view("bourse-master");
    const std::string ties = params.choice("ties", frameworks ? "name" : "job", {"name", "grants", "job"});
    by_grants_ = ties == "grants", by_job_ = ties == "job";
    reserve_ = reserve_of(params);
  }

  void total_changed() override {
    if (!reference_.follow(book.all())) return;
    for (std::uint32_t h = 0; h < book.claimants().size(); ++h) {
      if (!book.wants(h)) continue;
      claimant_changes(h);
      put(h);
    }
    for (std::uint32_t a = 0; a < book.accounts().size(); ++a)
      if (book.has_account(a)) account_changed(a);
  }

  void account_changed(std::uint32_t account) override {
    const std::size_t g = std::size_t{account} * 2;
    if (g < groups_.size() && groups_[g]) settle(g);
  }

  void claimant_changes(std::uint32_t h) override {
    if (h < home_.size() && home_[h] != SIZE_MAX) {
      groups_[home_[h]]->members.take(h);
      settle(std::exchange(home_[h], SIZE_MAX));
    }
  }
  void claimant_changed(std::uint32_t h) override {
    if (h >= facts_.size()) facts_.resize(std::size_t{h} + 1), home_.resize(std::size_t{h} + 1, SIZE_MAX);
    Facts& facts = facts_[h];
    const Share share = dominant(book.of(h).used, reference_.get(), book.of(h).weight);
    const bool grew = grows(facts.used, book.of(h).used);
    if (grew) ++facts.grants, facts.waits_since = -1;
    if (!book.wants(h)) facts.waits_since = -1;
    facts.used = book.of(h).used;
    facts.share = share;
    if (book.wants(h)) put(h);
  }
  void claimant_removed(std::uint32_t h) override { facts_[h] = Facts{}; }

  // What changes most: moved where it stands, without taking it out.
  void used(std::uint32_t h, const std::int64_t* used, std::uint32_t kinds) {
    Facts& facts = facts_[h];
    book.claimant_used(h, used, kinds);
    const Claimant& c = book.of(h);
    if (grows(facts.used, c.used)) ++facts.grants, facts.waits_since = -1;
    facts.used = c.used;
    facts.share = dominant(c.used, reference_.get(), c.weight);
    if (home_[h] == SIZE_MAX) return;
    Group& group = *groups_[home_[h]];
    const Key key = key_of(h), old = group.members.key(h);
    if (key < old || old < key) group.members.move(h, key);
    if (home_[h] % 2 == 1 || by_job_) settle(home_[h]);  // without an account it is its own
  }

  void rank(std::int64_t, std::uint32_t, std::uint32_t* claimants, std::uint32_t count) override {
    sort_claimants(claimants, count, [this](std::uint32_t a, std::uint32_t b) { return goes_first(a, b); });
  }

  void begin(std::int64_t now, std::uint32_t) override {
    now_ = now;
    walking_ = first_ = stands_ = false;
    given_ = kNone;
  }

  int next(std::uint32_t* claimant) override {
    if (by_job_) return next_by_job(claimant);
    auto at = order_.begin();
    if (walking_) {
      at = order_.lower_bound(cursor_);
      if (at != order_.end() && at->group == cursor_.group && compare(at->share, cursor_.share) == 0 &&
          at->grants == cursor_.grants) {
        if (groups_[at->group]->members.next(claimant)) return answer(*claimant);
        ++at;
      }
    }
    for (; at != order_.end(); ++at) {
      Members& members = groups_[at->group]->members;
      members.begin();
      if (!members.next(claimant)) continue;
      walking_ = true;
      cursor_ = *at;
      return answer(*claimant);
    }
    return BOURSE_NEXT_END;
  }

 private:
  using Members = Ordered<Key>;
  struct Place {
    Share share;
    std::uint64_t grants = 0;
    std::size_t group = 0;
    // With ties=job, its first member as it was then.
    Key key{};
    std::uint64_t number = 0;
    std::string name{};
    std::uint32_t first = kNone;
  };
  struct Group {
    explicit Group(const Book& book) : members(book) {}
    Members members;  // that want something
    Place at;
    bool in = false;  // order_
  };
  struct GroupLess {
    const Drf* drf;
    bool operator()(const Place& a, const Place& b) const {
      if (const int order = compare(a.share, b.share); order != 0) return order < 0;
      if (a.grants != b.grants) return a.grants < b.grants;
      if (a.group == b.group) return false;
      if (drf->by_job_) {
        if (a.key < b.key) return true;
        if (b.key < a.key) return false;
        if (a.number != b.number) return a.number < b.number;
        const int names = a.name.compare(b.name);
        return names != 0 ? names < 0 : a.first < b.first;
      }
      const int names = drf->name_of(a.group).compare(drf->name_of(b.group));
      return names != 0 ? names < 0 : a.group < b.group;
    }
  };
  struct Facts {
    Vector used;
    Share share;
    std::uint64_t grants = 0;
    std::int64_t waits_since = -1;  // of when it was first given and not served
  };

  static bool grows(const Vector& before, const Vector& after) {
    for (std::size_t k = 0; k < after.size(); ++k)
      if (after[k] > at(before, k)) return true;
    return false;
  }

  // Groups: 2 x account, or 2 x claimant + 1 for one without an account.
  [[nodiscard]] std::size_t group_of(std::uint32_t h) const {
    const std::uint32_t account = book.of(h).account;
    return account != kNone && book.has_account(account) ? std::size_t{account} * 2 : std::size_t{h} * 2 + 1;
  }
  [[nodiscard]] const std::string& name_of(std::size_t group) const {
    return group % 2 == 0 ? book.accounts()[group / 2].name : book.of(static_cast<std::uint32_t>(group / 2)).name;
  }
  [[nodiscard]] Key key_of(std::uint32_t h) const {
    return {book.of(h).priority, facts_[h].share, by_grants_ ? facts_[h].grants : 0};
  }

  // Of one account, or of accounts with equal shares and ties=job.
  [[nodiscard]] bool member_first(std::uint32_t a, std::uint32_t b) const {
    const Key k = key_of(a), l = key_of(b);
    if (k < l) return true;
    return l < k ? false : earlier(a, b);
  }
  [[nodiscard]] bool goes_first(std::uint32_t a, std::uint32_t b) const {
    const Group &x = *groups_[home_[a]], &y = *groups_[home_[b]];
    if (home_[a] == home_[b] || (by_job_ && compare(x.at.share, y.at.share) == 0)) return member_first(a, b);
    return GroupLess{this}(x.at, y.at);
  }

  // The head of the order as long as each that is given is served; then what was behind it at that moment.
  int next_by_job(std::uint32_t* claimant) {
    if (!stands_ && given_ != kNone && given_number_ == changes_ && !hooks::mutant("policy.drf_never_settles")) {
      stands_ = true;
      standing_.clear();
      for (const Place& place : order_) {
        Members& members = groups_[place.group]->members;
        members.begin();
        for (std::uint32_t h = 0; members.next(&h);)
          if (h != given_) standing_.push_back(h);
      }
      std::sort(standing_.begin(), standing_.end(), [this](std::uint32_t a, std::uint32_t b) { return goes_first(a, b); });
      standing_at_ = 0;
    }
    if (stands_) {
      while (standing_at_ < standing_.size() && !book.wants(standing_[standing_at_])) ++standing_at_;
      if (standing_at_ == standing_.size()) return BOURSE_NEXT_END;
      *claimant = standing_[standing_at_++];
      return answer(*claimant);
    }
    if (order_.empty()) return BOURSE_NEXT_END;
    *claimant = given_ = groups_[order_.begin()->group]->members.first();
    given_number_ = changes_;
    return answer(given_);
  }

  void put(std::uint32_t h) {
    facts_[h].share = dominant(book.of(h).used, reference_.get(), book.of(h).weight);
    const std::size_t g = group_of(h);
    if (g >= groups_.size()) groups_.resize(g + 1);
    if (!groups_[g]) groups_[g] = std::make_unique<Group>(book);
    groups_[g]->members.put(h, key_of(h));
    home_[h] = g;
    ++changes_;
    settle(g);
  }

  // Puts a group where its share says.
  void settle(std::size_t g) {
    Group& group = *groups_[g];
    ++changes_;
    Place now;
    now.group = g;
    const auto handle = static_cast<std::uint32_t>(g / 2);
    if (!group.members.empty()) {
      if (g % 2 == 1) {
        now.share = facts_[handle].share;
        now.grants = by_grants_ ? facts_[handle].grants : 0;
      } else {
        const Account& account = book.accounts()[handle];
        now.share = dominant(account.used, reference_.get(), account.weight);
      }
      if (by_job_) {
        now.first = group.members.first();
        now.key = key_of(now.first), now.number = book.of(now.first).order, now.name = book.of(now.first).name;
      }
    }
    const auto differs = [this](const Place& a, const Place& b) {
      if (compare(a.share, b.share) != 0 || a.grants != b.grants) return true;
      return by_job_ && (a.first != b.first || a.number != b.number || a.key < b.key || b.key < a.key || a.name != b.name);
    };
    if (group.in && (group.members.empty() || differs(now, group.at))) {
      auto node = order_.extract(group.at);
      group.in = false;
      if (!group.members.empty()) {
        node.value() = now;
        order_.insert(std::move(node));
        group.in = true;
      }
    } else if (!group.in && !group.members.empty()) {
      order_.insert(now);
      group.in = true;
    }
    group.at = std::move(now);
  }

  int answer(std::uint32_t h) {
    Facts& facts = facts_[h];
    if (facts.waits_since < 0 || facts.waits_since > now_) facts.waits_since = now_;
    const bool first = !std::exchange(first_, true);
    return first && reserve_ >= 0 && now_ - facts.waits_since >= reserve_ ? BOURSE_NEXT_RESERVE : BOURSE_NEXT;
  }

  bool by_grants_ = false, by_job_ = false, walking_ = false, first_ = false;
  bool stands_ = false;  // with ties=job: somebody was passed by
  std::uint32_t given_ = kNone;
  std::uint64_t changes_ = 0, given_number_ = 0;
  std::vector<std::uint32_t> standing_;
  std::size_t standing_at_ = 0;
  std::int64_t reserve_ = -1, now_ = 0;
  ReferenceTotal reference_;
  std::vector<Facts> facts_;       // by claimant
  std::vector<std::size_t> home_;  // by claimant: the group it is in; SIZE_MAX none
  std::vector<std::unique_ptr<Group>> groups_;
  std::set<Place, GroupLess> order_{GroupLess{this}};  // groups with members
  Place cursor_;
};

}  // namespace

const bourse_policy_1 kDrf = [] {
  bourse_policy_1 table = table_of<Drf>({.ranks = true, .walks = true, .wants = BOURSE_WANTS_USED});
  table.claimant_used = [](bourse_policy* p, std::uint32_t h, const std::int64_t* used, std::uint32_t kinds) {
    static_cast<Drf&>(detail::base(p)).used(h, used, kinds);
  };
  return table;
}();

}  // namespace bourse::policy
