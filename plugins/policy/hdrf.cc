// hdrf: hierarchical dominant-resource fairness (Bhattacharya et al., ACM SoCC 2013), over the tree of accounts.
//
// An account's children are its sub-accounts and its claimants. From the leaves up: of the children that are not blocked and have a share,
// f is the least share; each child's use is scaled by f / its share, and the account's use is the sum; its share is that sum's
// dominant one over its weight. Without children that use anything it is what is held in its name (batch: what runs of a user's jobs).
// From the root down: the child with the least share, until a claimant. Blocked is who wants nothing, or was given in this walk
// and took nothing, or asks for a kind of which the cluster has less left than one unit: it cannot go on, so it must not hold back, nor
// speak for, its account.
// tree=naive leaves out scaling and blocking, as Mesos's sorter does: an account is as rich as all that its children hold, and so a
// child that holds much of what its siblings never use starves them.
//
// Order among children: least share; then the name that sorts first; then accounts before claimants; then the lower handle. Among claimants
// of one account: higher priority first, then that. Shares are integers of 10^-12, rounded down.
//
// Parameters: tree=scaled|naive. A walk costs O(claimants + accounts), each step O(children along the path).
#include <algorithm>

#include "plugins/policy/builtin.h"
#include "plugins/policy/share.h"

namespace bourse::policy {

namespace {

constexpr std::int64_t kOne = 1'000'000'000'000;  // a share of 1
__extension__ using Wide = __int128;

class Hdrf final : public Base {
 public:
  using Base::Base;
  void configure(Params& params) override { naive_ = params.choice("tree", "scaled", {"scaled", "naive"}) == "naive"; }

  void total_changed() override { reference_.follow(book.all()); }

  void claimant_changed(std::uint32_t h) override {
    if (h >= held_.size()) held_.resize(std::size_t{h} + 1);
    const Vector& used = book.of(h).used;
    bool grew = false;
    for (std::size_t k = 0; k < used.size(); ++k) grew = grew || used[k] > at(held_[h], k);
    held_[h] = used;
    touch(h, grew);
  }
  void claimant_removed(std::uint32_t h) override { touch(h, false); }
  void account_changed(std::uint32_t account) override {
    if (walking_ && account + 1 < nodes_.size() && nodes_[account + 1].in) refresh_up(account + 1);
  }

  void rank(std::int64_t now, std::uint32_t agent, std::uint32_t* claimants, std::uint32_t count) override {
    begin(now, agent);
    std::vector<std::uint32_t> place(book.claimants().size(), UINT32_MAX);
    std::uint32_t h = 0, n = 0;
    while (next(&h) != BOURSE_NEXT_END) place[h] = n++;
    walking_ = false;
    sort_claimants(claimants, count,
                   [&](std::uint32_t a, std::uint32_t b) { return place[a] != place[b] ? place[a] < place[b] : earlier(a, b); });
  }

  // Node 0 is the root, node 1 + a is account a, then the claimants.
  void begin(std::int64_t, std::uint32_t) override {
    const std::size_t accounts = book.accounts().size(), claimants = book.claimants().size();
    first_claimant_ = accounts + 1;
    nodes_.assign(1 + accounts + claimants, Node{});
    nodes_[0].in = true;
    for (std::uint32_t a = 0; a < accounts; ++a) {
      if (!book.has_account(a)) continue;
      const std::uint32_t parent = book.accounts()[a].parent;
      add(1 + a, book.has_account(parent) ? 1 + parent : 0);
    }
    for (std::uint32_t h = 0; h < claimants; ++h)
      if (book.has_claimant(h)) add(first_claimant_ + h, parent_of(h));
    left_ = book.all();
    const auto held = [&](const Vector& used) {
      for (std::size_t k = 0; k < left_.size() && k < used.size(); ++k) left_[k] -= used[k];
    };
    for (std::uint32_t a = 0; a < accounts; ++a)
      if (book.has_account(a) && nodes_[1 + a].parent == 0) held(book.accounts()[a].used);
    for (std::uint32_t h = 0; h < claimants; ++h)
      if (book.has_claimant(h) && parent_of(h) == 0) held(book.of(h).used);
    refresh_down(0);
    walking_ = true;
    last_ = SIZE_MAX;
  }

  int next(std::uint32_t* claimant) override {
    // Given, and it took nothing: blocked for the rest of the walk.
    if (last_ != SIZE_MAX && nodes_[last_].in) {
      nodes_[last_].blocked = true;
      refresh_up(last_);
    }
    std::size_t at = 0;
    if (nodes_[0].blocked) return BOURSE_NEXT_END;
    while (at < first_claimant_) {
      std::size_t best = SIZE_MAX;
      for (const std::size_t child : nodes_[at].children)
        if (!nodes_[child].blocked && (best == SIZE_MAX || before(child, best))) best = child;
      if (best == SIZE_MAX) return BOURSE_NEXT_END;
      at = best;
    }
    last_ = at;
    *claimant = static_cast<std::uint32_t>(at - first_claimant_);
    return BOURSE_NEXT;
  }

 private:
  struct Node {
    bool in = false, blocked = false;
    std::size_t parent = 0;
    std::vector<std::size_t> children;
    std::vector<std::int64_t> parts;  // by kind, in kOne of the cluster
    std::int64_t share = 0;
  };

  void add(std::size_t node, std::size_t parent) {
    nodes_[node].in = true;
    nodes_[node].parent = parent;
    nodes_[parent].children.push_back(node);
  }
  [[nodiscard]] std::size_t parent_of(std::uint32_t h) const {
    const std::uint32_t account = book.of(h).account;
    return account != kNone && book.has_account(account) ? 1 + account : 0;
  }
  [[nodiscard]] bool is_claimant(std::size_t node) const { return node >= first_claimant_; }
  [[nodiscard]] std::uint32_t handle(std::size_t node) const {
    return static_cast<std::uint32_t>(is_claimant(node) ? node - first_claimant_ : node - 1);
  }
  [[nodiscard]] const std::string& name(std::size_t node) const {
    return is_claimant(node) ? book.of(handle(node)).name : book.accounts()[handle(node)].name;
  }
  [[nodiscard]] bool before(std::size_t a, std::size_t b) const {
    const bool both = is_claimant(a) && is_claimant(b);
    if (both && book.of(handle(a)).priority != book.of(handle(b)).priority)
      return book.of(handle(a)).priority > book.of(handle(b)).priority;
    if (nodes_[a].share != nodes_[b].share) return nodes_[a].share < nodes_[b].share;
    if (both) return earlier(handle(a), handle(b));
    const int names = name(a).compare(name(b));
    return names != 0 ? names < 0 : a < b;
  }

  // Its use changed, or what it wants, in the middle of a walk.
  void touch(std::uint32_t h, bool grew) {
    if (!walking_) return;
    const std::size_t node = first_claimant_ + h;
    if (node >= nodes_.size() || !nodes_[node].in || nodes_[node].parent != parent_of(h)) {
      walking_ = false;  // a new one, or it moved: the walk goes on without what it knew
      std::vector<bool> blocked(nodes_.size() > first_claimant_ ? nodes_.size() - first_claimant_ : 0);
      for (std::size_t i = 0; i < blocked.size(); ++i) blocked[i] = nodes_[first_claimant_ + i].blocked;
      const std::size_t last = last_ == SIZE_MAX ? SIZE_MAX : last_ - first_claimant_;
      begin(0, kNone);
      for (std::size_t i = 0; i < blocked.size(); ++i)
        if (blocked[i]) nodes_[first_claimant_ + i].blocked = true;
      last_ = last == SIZE_MAX ? SIZE_MAX : first_claimant_ + last;
      refresh_down(0);
      return;
    }
    if (grew && last_ == node) last_ = SIZE_MAX;
    refresh_up(node);
  }

  [[nodiscard]] bool saturated(const Vector& ask) const {
    for (std::size_t k = 0; k < ask.size() && k < left_.size(); ++k)
      if (ask[k] > 0 && left_[k] < ask[k] && book.all()[k] >= ask[k]) return true;
    return false;
  }

  void refresh(std::size_t n) {
    Node& node = nodes_[n];
    const Vector& total = reference_.get();
    node.parts.assign(total.size(), 0);
    const Vector* own = nullptr;
    std::uint32_t weight = kUsualWeight;
    if (is_claimant(n)) {
      own = &book.of(handle(n)).used;
      weight = book.of(handle(n)).weight;
      node.blocked = node.blocked || !book.wants(handle(n)) || (!naive_ && saturated(book.of(handle(n)).ask));
    } else {
      if (n > 0) weight = book.accounts()[handle(n)].weight;
      node.blocked = std::all_of(node.children.begin(), node.children.end(), [&](std::size_t c) { return nodes_[c].blocked; });
      std::int64_t least = 0;
      for (const std::size_t c : node.children)
        if ((!nodes_[c].blocked || naive_) && nodes_[c].share > 0 && (least == 0 || nodes_[c].share < least))
          least = nodes_[c].share;
      const bool holds =
          std::any_of(node.children.begin(), node.children.end(), [&](std::size_t c) { return nodes_[c].share > 0; });
      if (!holds && n > 0) own = &book.accounts()[handle(n)].used;
      for (const std::size_t c : node.children) {
        const Node& child = nodes_[c];
        if (least == 0 || child.share <= 0 || (child.blocked && !naive_)) continue;
        for (std::size_t k = 0; k < node.parts.size(); ++k)
          node.parts[k] +=
              naive_ ? child.parts[k] : static_cast<std::int64_t>(static_cast<Wide>(child.parts[k]) * least / child.share);
      }
    }
    if (own != nullptr) {
      for (std::size_t k = 0; k < node.parts.size(); ++k)
        node.parts[k] = total[k] <= 0 ? 0 : static_cast<std::int64_t>(static_cast<Wide>(at(*own, k)) * kOne / total[k]);
    }
    std::int64_t most = 0;
    for (const std::int64_t part : node.parts) most = std::max(most, part);
    node.share = static_cast<std::int64_t>(static_cast<Wide>(most) * kUsualWeight / weight);
  }
  void refresh_up(std::size_t n) {
    refresh(n);
    while (n != 0) refresh(n = nodes_[n].parent);
  }
  void refresh_down(std::size_t n) {
    for (const std::size_t c : nodes_[n].children) refresh_down(c);
    refresh(n);
  }

  bool naive_ = false, walking_ = false;
  ReferenceTotal reference_;
  std::vector<Vector> held_;  // by claimant: what it held when it was last told
  std::vector<Node> nodes_;
  Vector left_;  // of all there is, when the walk began
  std::size_t first_claimant_ = 1, last_ = SIZE_MAX;
};

}  // namespace

const bourse_policy_1 kHdrf = table_of<Hdrf>({.ranks = true, .walks = true, .wants = BOURSE_WANTS_USED});

}  // namespace bourse::policy
