#include "common/core/master_search.h"

#include <algorithm>

namespace bourse {

Duration MasterSearch::spread(Duration least, Duration most) const {
  std::uint64_t hash = 0xcbf2'9ce4'8422'2325;  // FNV-1a
  const auto mix = [&hash](std::uint64_t byte) { hash = (hash ^ (byte & 0xff)) * 0x100'0000'01b3; };
  for (const char c : who_) mix(static_cast<unsigned char>(c));
  for (unsigned i = 0; i < 8; ++i) mix(incarnation_.value >> (8 * i));
  for (unsigned i = 0; i < 4; ++i) mix(attempt_ >> (8 * i));
  hash ^= hash >> 29;  // its low bits alone are poor
  return least + Duration(static_cast<Duration::rep>(hash % static_cast<std::uint64_t>((most - least).count() + 1)));
}

Duration MasterSearch::back_off(std::uint32_t round) const {
  constexpr std::uint32_t kDoublingsMax = 10;
  const Duration base(kBackOffMin.count() << std::min(round - 1, kDoublingsMax));
  const Duration wait = std::min<Duration>(base, kBackOffMax);
  return spread(wait / 2, wait);
}

MasterSearch::Next MasterSearch::silent() {
  ++attempt_;
  ++silent_;
  knocks_ = 0;
  const std::uint32_t round = silent_ / masters_;
  return {round == 0 ? spread(Duration(0), kSpread) : back_off(round), true, {}, false};
}

MasterSearch::Next MasterSearch::elsewhere(const Refused& no) {
  ++attempt_;
  silent_ = 0;
  if (no.leader.empty()) {
    const bool next = ++knocks_ >= kKnocks && masters_ > 1;
    if (knocks_ >= kKnocks) knocks_ = 0;
    return {spread(kKnockEvery * 3 / 4, kKnockEvery), next, {}, true};
  }
  knocks_ = 0;
  // One that is named again was not found where it is said to be: it may have died, or be out of our reach only.
  named_often_ = no.leader == named_ ? named_often_ + 1 : 0;
  named_ = no.leader;
  return {named_often_ == 0 ? spread(Duration(0), kSpread) : back_off(named_often_), true, no.leader, false};
}

Duration MasterSearch::busy() {
  ++attempt_;
  return back_off(attempt_);
}

void MasterSearch::found() {
  attempt_ = silent_ = knocks_ = named_often_ = 0;
  named_.clear();
}

}  // namespace bourse
