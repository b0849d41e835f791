// What a policy that learns hears of its doings, and what it has learnt from one leadership to the next. See allocator.h.
#include <utility>

#include "common/core/hooks.h"
#include "common/core/units.h"
#include "master/allocator.h"
#include "master/house.h"

namespace bourse::house {

void Allocator::tell(House& h, std::uint32_t event, FrameworkIx ix, const Resources& amount, std::uint64_t units, Duration wait,
                     Duration run) {
  const auto account = roles_.find(h.frameworks.at(ix).role);
  Shape one;
  one.cpus = amount.cpus, one.mem = amount.mem;
  policy_->feedback({.event = event,
                     .claimant = ix,
                     .account = account == roles_.end() ? policy::kNone : account->second.handle,
                     .now = h.now.mono,
                     .wait = wait,
                     .run = run,
                     .limit = kNoLimit,
                     .units = units,
                     .shape = &one});
}

void Allocator::slice_started(House& h, SliceRow& row) {
  if (!policy_->wants_feedback() || row.framework >= members_.size() || hooks::mutant("allocator.tells_nothing")) return;
  Member& member = members_[row.framework];
  row.since = h.now.mono;
  row.waited = h.now.mono - std::exchange(member.waits_since, h.now.mono);
  tell(h, BOURSE_STARTED, row.framework, row.spec.resources, 1, row.waited, Duration(0));
}

void Allocator::slice_ended(House& h, const SliceRow& row) {
  if (row.since < Duration(0) || !policy_->wants_feedback()) return;
  tell(h, BOURSE_ENDED, row.framework, row.spec.resources, 1, row.waited, h.now.mono - row.since);
}

void Allocator::declined(House& h, const OfferRow& offer) {
  if (policy_->wants_feedback()) tell(h, BOURSE_DECLINED, offer.framework, offer.resources, 1, Duration(0), Duration(0));
}

void Allocator::take_learnt(House& h) {
  if (!policy_->learns()) return;
  if (!std::exchange(learnt_armed_, true)) h.out->arm(TimerKey{kLearntTimer, 0, {}}, kLearntEvery);
  const std::string& learnt = h.registry.learnt();
  if (learnt.empty() || hooks::mutant("allocator.forgets_learnt")) return;
  if (policy_->load(learnt)) {
    h.log(LogLevel::kInfo, "policy_learnt", {{"policy", policy_->in_force()}, {"bytes", std::to_string(learnt.size())}});
  } else {
    h.log(LogLevel::kInfo, "policy_learnt_refused",
          {{"policy", policy_->in_force()},
           {"reason", "what the registry has is of another policy, another version or other arms"},
           {"then", "beginning with nothing"}});
  }
}

void Allocator::keep_learnt(House& h) {
  learnt_armed_ = false;
  if (!policy_->learns()) return;
  learnt_armed_ = true;
  h.out->arm(TimerKey{kLearntTimer, 0, {}}, kLearntEvery);
  const std::string learnt = policy_->save();
  if (learnt.empty() || learnt == h.registry.learnt()) return;
  if (learnt.size() <= kLearntMax) return h.registry.set_learnt(learnt, *h.out);
  if (std::exchange(learnt_too_long_, true)) return;
  h.log(LogLevel::kWarn, "policy_learnt_not_kept",
        {{"policy", policy_->in_force()},
         {"bytes", std::to_string(learnt.size())},
         {"most", std::to_string(kLearntMax)},
         {"then", "it begins with what was kept before, or with nothing, at the next leader"}});
}

}  // namespace bourse::house
