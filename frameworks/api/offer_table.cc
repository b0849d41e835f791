#include "frameworks/api/offer_table.h"

namespace bourse::api {

bool OfferTable::made(const Offer& offer, Duration now) {
  auto [it, fresh] = open_.try_emplace(offer.id);
  if (!fresh && it->second.generation >= offer.generation) return false;
  if (!fresh) deadlines_.erase({it->second.deadline, offer.id});
  it->second = {offer.generation, now + offer.ttl};
  deadlines_.emplace(it->second.deadline, offer.id);
  return true;
}

bool OfferTable::ended(OfferId id) {
  auto it = open_.find(id);
  if (it == open_.end()) return false;
  deadlines_.erase({it->second.deadline, id});
  open_.erase(it);
  return true;
}

std::vector<OfferId> OfferTable::expired(Duration now) {
  std::vector<OfferId> gone;
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    gone.push_back(deadlines_.begin()->second);
    open_.erase(gone.back());
    deadlines_.erase(deadlines_.begin());
  }
  return gone;
}

std::optional<Duration> OfferTable::next_expiry() const {
  if (deadlines_.empty()) return std::nullopt;
  return deadlines_.begin()->first;
}

std::vector<OfferId> OfferTable::take_all() {
  std::vector<OfferId> all;
  all.reserve(open_.size());
  for (const auto& [id, offer] : open_) all.push_back(id);
  open_.clear();
  deadlines_.clear();
  return all;
}

const Accept& OfferTable::accept(Accept accept) {
  last_ = last_.next();
  accept.sequence = last_;
  for (const auto& item : accept.items)
    if (!item.keep_rest) ended(item.offer);
  return unanswered_.emplace(last_, std::move(accept)).first->second;
}

std::optional<Accept> OfferTable::answered(Sequence sequence) {
  auto node = unanswered_.extract(sequence);
  if (node.empty()) return std::nullopt;
  return std::move(node.mapped());
}

}  // namespace bourse::api
