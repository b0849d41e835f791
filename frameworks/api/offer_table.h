// Offers that are open here, and accepts that the master has not answered. Owned by the client actor.
//
// An offer ends once towards the framework: used up by an accept or decline (no event), ended by the master, or expired by its
// TTL as counted here, whichever is first. An accept is repeated until it is answered.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "common/core/session.h"
#include "common/core/time.h"

namespace bourse::api {

class OfferTable {
 public:
  // True when it is news: a new offer, or a newer generation of one.
  bool made(const Offer& offer, Duration now);
  bool ended(OfferId id);  // true when it was open
  [[nodiscard]] bool open(OfferId id) const { return open_.contains(id); }
  [[nodiscard]] std::vector<OfferId> expired(Duration now);  // and takes them off
  [[nodiscard]] std::optional<Duration> next_expiry() const;
  [[nodiscard]] std::vector<OfferId> take_all();

  // Numbers the accept, remembers it until answered, and takes its offers off, but for those that keep their rest.
  const Accept& accept(Accept accept);
  std::optional<Accept> answered(Sequence sequence);  // the accept, the first time
  [[nodiscard]] const std::map<Sequence, Accept>& unanswered() const { return unanswered_; }
  [[nodiscard]] Sequence last_accept() const { return last_; }

 private:
  struct Open {
    Generation generation;
    Duration deadline{0};
  };
  std::map<OfferId, Open> open_;
  std::set<std::pair<Duration, OfferId>> deadlines_;
  std::map<Sequence, Accept> unanswered_;
  Sequence last_;
};

}  // namespace bourse::api
