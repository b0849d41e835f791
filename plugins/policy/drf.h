// Weighted dominant-resource fairness in exact integers: the built-in policy.
//
// A claimant's dominant share is the largest, over the kinds it uses, of used / (total x weight); the lowest share is served
// first (Ghodsi et al., NSDI 2011, section 4). Shares are kept as fractions and compared by cross multiplication in 128 bits.
// Ties: the name that sorts first. A kind that the cluster does not have counts as share 0.
//
// Totals move with every agent that comes or goes; re-ranking all claimants each time would make one changed agent cost as
// much as there are claimants. So shares are taken against a reference total, which follows the true one as soon as any kind
// differs from it by more than 1/kReferenceSlack.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "plugins/policy/policy.h"

namespace bourse {

class Drf final : public Policy {
 public:
  static constexpr std::int64_t kReferenceSlack = 32;

  void total_changed(const Usage& total) override;
  void claimant_changed(const Claimant& claimant) override;
  void used_changed(Handle handle, const Usage& used) override;
  void wants_changed(Handle handle, bool wants) override;
  void claimant_removed(Handle handle) override;
  void restart() override;
  std::optional<Handle> next() override;
  [[nodiscard]] bool before(Handle a, Handle b) const override;
  [[nodiscard]] std::uint32_t position(Handle handle) const override;
  [[nodiscard]] std::uint32_t wanting() const override;

 private:
  struct Share {  // numerator / denominator, denominator > 0
    std::int64_t numerator = 0, denominator = 1;
  };
  struct Key {
    Share share;
    const std::string* name = nullptr;  // of the claimant, which outlives its key
    Handle handle = 0;
  };
  struct Less {
    bool operator()(const Key& a, const Key& b) const;
  };
  struct Entry {
    Claimant claimant;
    Share share;
    bool present = false;
  };

  [[nodiscard]] Share share_of(const Claimant& claimant) const;
  [[nodiscard]] Key key_of(const Entry& entry) const;
  void place(Entry& entry);

  Usage reference_;
  std::vector<std::unique_ptr<Entry>> entries_;  // by handle
  std::set<Key, Less> order_;                    // those that want
  Share cursor_share_;                           // where the walk stands: the last key given out
  std::string cursor_name_;
  Handle cursor_handle_ = 0;
  bool started_ = false;
};

}  // namespace bourse
