// The endpoints of masters that a peer knows, and the one it is at.
//
// Those of its configuration stay as long as it lives: they are what a person can correct. A leader's Welcome adds the masters that
// the cluster has now. At most kMastersMax. See common/core/master_search.h for who decides where to go.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "common/core/messages.h"

namespace bourse {

class MasterList {
 public:
  explicit MasterList(std::vector<std::string> configured = {}) : configured_(std::move(configured)), all_(configured_) {}

  [[nodiscard]] const std::string& here() const { return all_[at_]; }
  [[nodiscard]] const std::vector<std::string>& all() const { return all_; }
  [[nodiscard]] bool empty() const { return all_.empty(); }

  // To the one that is named, else to the next of the list.
  void move(const std::string& leader) {
    if (leader.empty()) {
      at_ = (at_ + 1) % all_.size();
      return;
    }
    at_ = place(leader);
    if (at_ < all_.size()) return;
    if (all_.size() >= kMastersMax) all_.pop_back();
    all_.push_back(leader);
    at_ = all_.size() - 1;
  }

  // All masters of the cluster, as its leader says. Where we are stays in the list too.
  void learn(const std::vector<std::string>& masters) {
    const std::string at = here();
    const std::size_t ours = 1 + configured_.size();
    all_ = masters;
    all_.resize(std::min(all_.size(), ours < kMastersMax ? kMastersMax - ours : 0));
    add(at);
    for (const std::string& endpoint : configured_) add(endpoint);
    at_ = place(at);
  }

 private:
  [[nodiscard]] std::size_t place(const std::string& endpoint) const {
    return static_cast<std::size_t>(std::find(all_.begin(), all_.end(), endpoint) - all_.begin());
  }
  void add(const std::string& endpoint) {
    if (place(endpoint) == all_.size() && all_.size() < kMastersMax) all_.push_back(endpoint);
  }

  std::vector<std::string> configured_, all_;
  std::size_t at_ = 0;
};

}  // namespace bourse
