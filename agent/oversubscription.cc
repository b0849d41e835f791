#include "agent/oversubscription.h"

#include <algorithm>

#include "common/core/hooks.h"
#include "common/world/log.h"

namespace bourse {

bool Oversubscription::configure(const LendSettings& settings) {
  const bool off = settings_.on && !settings.on;
  settings_ = settings;
  meter_.configure(settings.slack);
  rule_.configure(settings.pressure);
  if (!settings.on) {
    meter_.forget();
    lendable_ = Resources{};
  }
  return off;
}

std::vector<SliceId> Oversubscription::lent() const {
  std::vector<SliceId> ids;
  for (const auto& [id, slice] : slices_.all())
    if (slice.spec.revocable) ids.push_back(id);
  return ids;
}

void Oversubscription::begin(Turn& turn) {
  const TimerKey timer = timer_key(AgentTimer::kLend);
  if (!settings_.on) return turn.out.disarm(timer);
  const bool fast = rule_.too_much() || !lent().empty();
  turn.out.arm(timer, fast ? std::min(kFast, settings_.every) : settings_.every);
}

void Oversubscription::due(Turn& turn) {
  if (!settings_.on) return;
  turn.host(MeasureUsage{});
  begin(turn);
}

void Oversubscription::host_is_back(Turn& turn) const {
  if (settings_.on) turn.host(LimitRevocable{lendable_.mem});
}

bool Oversubscription::usage(Turn& turn, const UsageSample& sample) {
  if (!settings_.on) return false;
  std::vector<SlackMeter::Lender> lenders;
  for (const auto& [id, slice] : slices_.all())
    if (!slice.spec.revocable && slice.phase == SliceTable::Phase::kUp)
      lenders.push_back({id, slice.spec.resources.cpus, slice.spec.resources.mem});
  used_.clear();
  for (const UsageSample::Slice& seen : sample.slices) used_[seen.slice] = seen.mem;
  meter_.sample(turn.now.mono, sample, lenders);
  Resources now = meter_.lendable(turn.now.mono);
  // Less is told at once. More only when it is worth a message: by an eighth, or out of nothing.
  const auto grew = [](std::int64_t from, std::int64_t to) { return to > from + from / 8; };
  const bool less = now.cpus < lendable_.cpus || now.mem < lendable_.mem;
  const bool changed = less || grew(lendable_.cpus.value, now.cpus.value) || grew(lendable_.mem.value, now.mem.value);
  if (changed) lendable_ = std::move(now);
  // Again and again while something is lent: what is above a limit that sank is brought below it bit by bit, by what the agent ends.
  if (changed || !lent().empty()) turn.host(LimitRevocable{Bytes(std::max(lendable_.mem.value, SlackMeter::kMemStep))});
  return changed;
}

void Oversubscription::warn(Turn& turn, const PressureSample& sample) {
  turn.out.log(log_text(
      LogLevel::kWarn, "pressure",
      {{"reason", rule_.text(sample)},
       {"lent_slices", std::to_string(lent().size())},
       {"then", "lent slices are slowed down; the lowest priority goes in " + format_duration(settings_.pressure.notice)}}));
  for (const SliceId& id : lent()) {
    const auto used = used_.find(id);
    if (used == used_.end() || used->second.value == 0) continue;
    turn.host(SqueezeSlice{id, Bytes(used->second.value / 1000 * kSqueezePermille)});
    squeezed_.insert(id);
  }
  const auto order = tasks_.lent();
  if (!order.empty() && order.front().warn_signal != 0)
    turn.host(SignalTask{order.front().task, order.front().warn_signal, !order.front().warn_shell_only});
}

void Oversubscription::calm(Turn& turn) {
  turn.out.log(log_text(LogLevel::kInfo, "pressure_over", {{"evicted", std::to_string(evicted_)}}));
  for (const SliceId& id : squeezed_)
    if (slices_.all().count(id) != 0) turn.host(SqueezeSlice{id, Bytes{}});
  squeezed_.clear();
  nobody_told_ = false;
}

std::optional<Oversubscription::Victim> Oversubscription::pressure(Turn& turn, const PressureSample& sample) {
  if (!settings_.on || hooks::mutant("agent.ignores_pressure")) return std::nullopt;
  const bool was = rule_.too_much();
  const PressureRule::Step step = rule_.sample(turn.now.mono, sample);
  if (!was && rule_.too_much()) begin(turn);  // look oftener
  if (step == PressureRule::Step::kWarn) warn(turn, sample);
  if (step == PressureRule::Step::kCalm) calm(turn);
  if (step != PressureRule::Step::kEvict) return std::nullopt;
  const std::vector<TaskTable::Lent> order = tasks_.lent();
  if (order.empty()) {
    rule_.nobody();
    if (!nobody_told_)
      turn.out.log(
          log_text(LogLevel::kWarn, "pressure", {{"reason", rule_.text(sample)}, {"then", "nothing is lent that could go"}}));
    nobody_told_ = true;
    return std::nullopt;
  }
  const TaskTable::Lent& first = hooks::mutant("agent.evicts_highest") ? order.back() : order.front();
  const auto slice = slices_.all().find(first.slice);
  Victim victim{first.slice, first.task, slice != slices_.all().end() && slice->second.active <= 1, rule_.text(sample)};
  victim.why += "; priority " + std::to_string(first.priority) + " is the lowest of " + std::to_string(order.size()) +
                (order.size() == 1 ? " revocable task" : " revocable tasks");
  return victim;
}

void Oversubscription::figures(Counters& out) const {
  if (!settings_.on) return;
  for (const auto& [scope, permille] : rule_.levels()) out.set("pressure." + scope, permille);
  out.set("lend.cpus", lendable_.cpus.value);
  out.set("lend.mem", lendable_.mem.value);
  out.set("lend.critical", static_cast<std::int64_t>(meter_.critical()));
  out.set("lend.evicted", evicted_);
}

}  // namespace bourse
