#include "agent/slices.h"

#include "common/core/hooks.h"
#include "common/world/log.h"

namespace bourse {
namespace {

TimerKey slice_timer(AgentTimer kind, const SliceId& id) { return timer_key(kind, id.number, id.framework.str()); }

}  // namespace

SliceRecord SliceTable::as_record(const Slice& slice) {
  SliceRecord r;
  r.spec = slice.spec;
  r.held = slice.phase == Phase::kHeld;
  r.hold_until = slice.hold_until;
  r.releasing = slice.phase == Phase::kReleasing || slice.phase == Phase::kErasing;
  r.end = slice.end;
  r.reason = slice.reason;
  return r;
}

void SliceTable::record(Turn& turn, const Slice& slice) const { turn.record(as_record(slice)); }

SliceTable::Slice* SliceTable::find(const SliceId& id) {
  const auto it = slices_.find(id);
  return it == slices_.end() ? nullptr : &it->second;
}

void SliceTable::carve(Turn& turn, const CarveSlices& message) {
  if (message.slices.empty()) return;
  std::vector<SliceId> fresh;
  std::string failure;
  bool held = false;
  for (const SliceSpec& asked : message.slices) {
    if (Slice* known = find(asked.id); known != nullptr) {  // asked again: answered again
      if (known->phase == Phase::kUp) turn.say(SliceUp{agent_, known->spec, known->unhealthy});
      held = held || known->phase == Phase::kHeld;
      continue;
    }
    if (const auto it = gone_.find(asked.id); it != gone_.end()) {
      turn.say(it->second);
      failure = "slice " + to_text(asked.id) + " has ended";
      continue;
    }
    auto spec = slices_.size() >= kSlicesMax
                    ? Result<SliceSpec>(Error(Code::kLimit, "this agent has " + std::to_string(kSlicesMax) + " slices, its limit"))
                    : inventory_.carve(asked);
    if (!spec) {
      failure = spec.error().text();
      if (message.hold) break;
      const SliceGone end{agent_, asked.id, SliceEnd::kCarveFailed, failure};
      remember_end(end);
      turn.say(end);
      continue;
    }
    Slice& slice = slices_[asked.id];
    slice.spec = *std::move(spec);
    slice.phase = message.hold ? Phase::kHeld : Phase::kCarving;
    slice.idle_since = turn.now.mono;
    if (message.hold) {
      slice.hold_until = turn.now.mono + message.hold_ttl;
      turn.out.arm(slice_timer(AgentTimer::kHold, asked.id), message.hold_ttl);
      held = true;
    } else {
      turn.host(CarveSlice{slice.spec, inventory_.device_nodes(slice.spec)});
    }
    record(turn, slice);
    fresh.push_back(asked.id);
  }
  if (!message.hold) return;
  const SliceSpec& first = message.slices.front();
  if (!failure.empty()) {
    for (const SliceId& id : fresh) drop_hold(turn, id, failure);
    turn.say(GangHeld{first.id.framework, first.gang, Code::kBusy, failure});
  } else if (held) {
    turn.say(GangHeld{first.id.framework, first.gang, Code::kOk, {}});
  }
}

std::vector<SliceId> SliceTable::of_gang(const FrameworkId& framework, GangId gang) const {
  std::vector<SliceId> ids;
  if (gang == GangId{}) return ids;
  for (auto it = slices_.lower_bound(SliceId{framework, 0}); it != slices_.end() && it->first.framework == framework; ++it)
    if (it->second.spec.gang == gang) ids.push_back(it->first);
  return ids;
}

void SliceTable::commit(Turn& turn, const CommitGang& message) {
  const std::vector<SliceId> ids = of_gang(message.framework, message.gang);
  if (ids.empty()) {
    turn.say(GangHeld{message.framework, message.gang, Code::kGone, "the hold has lapsed"});
    return;
  }
  for (const SliceId& id : ids) {
    Slice& slice = slices_[id];
    if (slice.phase == Phase::kUp) turn.say(SliceUp{agent_, slice.spec, slice.unhealthy});
    if (slice.phase != Phase::kHeld) continue;
    slice.phase = Phase::kCarving;
    turn.out.disarm(slice_timer(AgentTimer::kHold, id));
    record(turn, slice);
    turn.host(CarveSlice{slice.spec, inventory_.device_nodes(slice.spec)});
  }
}

void SliceTable::drop_hold(Turn& turn, const SliceId& id, const std::string& reason) {
  Slice* slice = find(id);
  if (slice == nullptr || slice->phase != Phase::kHeld) return;
  turn.out.disarm(slice_timer(AgentTimer::kHold, id));
  finish(turn, id, SliceEnd::kGangAborted, reason);
}

bool SliceTable::hold_due(Turn& turn, const SliceId& id) {
  const Slice* slice = find(id);
  if (slice == nullptr || slice->phase != Phase::kHeld || hooks::mutant("agent.hold_never_lapses")) return false;
  finish(turn, id, SliceEnd::kGangAborted, "the gang was not committed in time");
  return true;
}

void SliceTable::remember_end(const SliceGone& end) {
  if (!gone_.emplace(end.slice, end).second) return;
  gone_order_.push_back(end.slice);
  if (gone_order_.size() <= kGoneMax) return;
  gone_.erase(gone_order_.front());
  gone_order_.pop_front();
}

void SliceTable::finish(Turn& turn, const SliceId& id, SliceEnd end, const std::string& reason) {
  const auto it = slices_.find(id);
  if (it == slices_.end()) return;
  const SliceGone gone{agent_, id, end, reason};
  if (it->second.idle_timer) turn.out.disarm(slice_timer(AgentTimer::kIdle, id));
  turn.record(SliceGoneRecord{id});
  inventory_.give_back(id);
  if (!turn.session.up() && farewells_.size() < kFarewellsMax) farewells_[id] = Farewell{it->second.spec, gone};
  slices_.erase(it);
  remember_end(gone);
  turn.say(gone);
}

bool SliceTable::begin_release(Turn& turn, const SliceId& id, SliceEnd end, const std::string& reason) {
  Slice* slice = find(id);
  if (slice == nullptr || slice->phase == Phase::kReleasing || slice->phase == Phase::kErasing) return false;
  if (slice->phase == Phase::kHeld) {
    turn.out.disarm(slice_timer(AgentTimer::kHold, id));
    finish(turn, id, end, reason);
    return false;
  }
  slice->phase = Phase::kReleasing;
  slice->end = end;
  slice->reason = reason;
  record(turn, *slice);
  return true;
}

void SliceTable::erase_if_drained(Turn& turn, const SliceId& id) {
  Slice* slice = find(id);
  if (slice == nullptr || slice->phase != Phase::kReleasing || slice->active != 0) return;
  slice->phase = Phase::kErasing;
  turn.host(EraseSlice{id});
}

void SliceTable::unknown(Turn& turn, const SliceId& id) {
  if (find(id) != nullptr) return;  // it is ending; its end will be told
  const auto it = gone_.find(id);
  turn.say(it != gone_.end() ? it->second : SliceGone{agent_, id, SliceEnd::kUnknown, "this agent has no such slice"});
}

bool SliceTable::carved(Turn& turn, const SliceCarved& event, bool& failed) {
  failed = false;
  Slice* slice = find(event.slice);
  if (slice == nullptr) {
    // Carved for a slice that ended meanwhile: take it away again.
    turn.host(EraseSlice{event.slice});
    return false;
  }
  if (!event.error.empty()) {
    turn.out.log(log_text(LogLevel::kError, "carve_failed", {{"slice", to_text(event.slice)}, {"reason", event.error}}));
    // Tasks that run in it since before a restart are worth more than a slice that could not be made again.
    failed = slice->phase == Phase::kCarving && !(slice->restored && slice->active > 0);
    if (slice->phase != Phase::kCarving || failed) return false;
  }
  if (slice->phase != Phase::kCarving) return false;
  slice->phase = Phase::kUp;
  slice->restored = false;
  turn.say(SliceUp{agent_, slice->spec, slice->unhealthy});
  if (slice->active == 0) idle_from(turn, *slice);
  return true;
}

bool SliceTable::erased(Turn& turn, const SliceId& id) {
  const Slice* slice = find(id);
  if (slice == nullptr || slice->phase != Phase::kErasing) return false;
  finish(turn, id, slice->end, std::string(slice->reason));
  return true;
}

void SliceTable::resume_host(Turn& turn) {
  for (auto& [id, slice] : slices_) {
    if (slice.phase == Phase::kCarving || slice.phase == Phase::kUp)
      turn.host(CarveSlice{slice.spec, inventory_.device_nodes(slice.spec)});
    if (slice.phase == Phase::kErasing) turn.host(EraseSlice{id});
  }
}

void SliceTable::reboot(Turn& turn) {
  std::vector<SliceId> ids;
  for (const auto& [id, slice] : slices_)
    if (slice.restored) ids.push_back(id);
  for (const SliceId& id : ids) {
    turn.out.disarm(slice_timer(AgentTimer::kHold, id));
    finish(turn, id, SliceEnd::kHostReboot, "host rebooted");
  }
}

void SliceTable::task_begun(const SliceId& id, const std::string& user) {
  if (Slice* slice = find(id); slice != nullptr) {
    ++slice->active;
    slice->user = user;
  }
}

void SliceTable::task_over(Turn& turn, const SliceId& id) {
  Slice* slice = find(id);
  if (slice == nullptr || slice->active == 0) return;
  if (--slice->active != 0) return;
  if (slice->phase == Phase::kUp) idle_from(turn, *slice);
  erase_if_drained(turn, id);
}

void SliceTable::idle_from(Turn& turn, Slice& slice) {
  slice.idle_since = turn.now.mono;
  if (slice.spec.expiry <= Duration(0) || slice.idle_timer) return;
  slice.idle_timer = true;
  turn.out.arm(slice_timer(AgentTimer::kIdle, slice.spec.id), slice.spec.expiry);
}

// One timer a slice, not one a task: it looks when it fires how long the slice has been idle by then.
bool SliceTable::idle_due(Turn& turn, const SliceId& id) {
  Slice* slice = find(id);
  if (slice == nullptr) return false;
  slice->idle_timer = false;
  if (slice->phase != Phase::kUp || slice->active != 0) return false;
  const Duration left = slice->idle_since + slice->spec.expiry - turn.now.mono;
  if (left > Duration(0)) {
    slice->idle_timer = true;
    turn.out.arm(slice_timer(AgentTimer::kIdle, id), left);
    return false;
  }
  return begin_release(turn, id, SliceEnd::kIdle, "no task for " + format_duration(slice->spec.expiry));
}

void SliceTable::set_health(Turn& turn, const std::map<SliceId, std::string>& unhealthy) {
  for (auto& [id, slice] : slices_) {
    const auto it = unhealthy.find(id);
    const std::string now = it == unhealthy.end() ? std::string() : it->second;
    if (now == slice.unhealthy) continue;
    slice.unhealthy = now;
    if (now.empty()) {
      turn.out.log(log_text(LogLevel::kInfo, "slice_healthy", {{"slice", to_text(id)}}));
    } else {
      turn.out.log(log_text(LogLevel::kWarn, "slice_unhealthy",
                            {{"slice", to_text(id)},
                             {"reason", now},
                             {"tasks", std::to_string(slice.active)},
                             {"then", "its tasks go on; its framework is told"}}));
    }
    if (slice.phase == Phase::kUp) turn.say(SliceUp{agent_, slice.spec, slice.unhealthy});
  }
}

void SliceTable::tell_health(Turn& turn) const {
  for (const auto& [id, slice] : slices_)
    if (!slice.unhealthy.empty() && slice.phase == Phase::kUp) turn.say(SliceUp{agent_, slice.spec, slice.unhealthy});
}

std::vector<AgentHello::Slice> SliceTable::hello() const {
  std::vector<AgentHello::Slice> list;
  for (const auto& [id, slice] : slices_) list.push_back({slice.spec, slice.phase == Phase::kHeld, {}});
  for (const auto& [id, farewell] : farewells_)
    if (slices_.count(id) == 0) list.push_back({farewell.spec, false, {}});
  return list;
}

void SliceTable::farewell(Turn& turn) {
  for (const auto& [id, farewell] : farewells_) turn.say(farewell.gone);
}

void SliceTable::restore(const SliceRecord& record) {
  Slice& slice = slices_[record.spec.id];
  slice.spec = record.spec;
  slice.phase = record.held ? Phase::kHeld : record.releasing ? Phase::kReleasing : Phase::kCarving;
  slice.hold_until = record.hold_until;
  slice.end = record.end;
  slice.reason = record.reason;
  slice.restored = true;
  inventory_.restore(record.spec);
}

void SliceTable::restore(const SliceGoneRecord& record) {
  slices_.erase(record.slice);
  inventory_.give_back(record.slice);
}

void SliceTable::restored(Turn& turn) {
  for (auto& [id, slice] : slices_) {
    slice.idle_since = turn.now.mono;
    if (slice.phase == Phase::kHeld)
      turn.out.arm(slice_timer(AgentTimer::kHold, id), std::max(slice.hold_until - turn.now.mono, Duration(0)));
  }
}

void SliceTable::snapshot(std::vector<CheckpointRecord>& out) const {
  for (const auto& [id, slice] : slices_) out.emplace_back(as_record(slice));
}

}  // namespace bourse
