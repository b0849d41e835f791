#include "frameworks/api/slice_table.h"

#include "common/core/hooks.h"

namespace bourse::api {

void SliceTable::asked(std::uint64_t number, GangId gang) {
  Entry& entry = slices_[number];
  entry.gang = gang;
  if (gang.value == 0) return;
  gangs_[gang].insert(number);
  members_[gang].push_back(number);
}

void SliceTable::promised(std::uint64_t number) {
  if (Entry* entry = find(number); entry && entry->stage == Stage::kAsked) entry->stage = Stage::kPromised;
}

SliceTable::GangNews SliceTable::up(const AgentId& agent, const SliceSpec& spec) {
  auto [it, fresh] = slices_.try_emplace(spec.id.number);
  Entry& entry = it->second;
  entry.stage = Stage::kUp;
  entry.agent = agent;
  entry.confirmed = true;
  gone_.erase(spec.id.number);  // an accept's repeated answer may have said so, and been wrong
  if (fresh) entry.gang = spec.gang;
  auto gang = gangs_.find(entry.gang);
  if (entry.gang.value == 0 || gang == gangs_.end()) return GangNews::kNone;
  gang->second.erase(spec.id.number);
  if (!gang->second.empty() && !hooks::mutant("client.gang_starts_early")) return GangNews::kNone;
  return GangNews::kReady;
}

SliceTable::GangNews SliceTable::gone(std::uint64_t number, bool& known) {
  auto it = slices_.find(number);
  known = it != slices_.end();
  if (!known) return GangNews::kNone;
  const GangId gang = it->second.gang;
  slices_.erase(it);
  gone_.insert(number);
  if (gone_.size() > kGoneMax) gone_.erase(gone_.begin());
  return gang.value != 0 && gangs_.contains(gang) ? GangNews::kFailed : GangNews::kNone;
}

SliceTable::Entry* SliceTable::find(std::uint64_t number) {
  auto it = slices_.find(number);
  return it == slices_.end() ? nullptr : &it->second;
}

std::vector<std::uint64_t> SliceTable::drop_gang(GangId gang) {
  std::vector<std::uint64_t> left;
  if (auto it = members_.find(gang); it != members_.end())
    for (std::uint64_t number : it->second)
      if (slices_.contains(number)) left.push_back(number);
  gangs_.erase(gang);
  members_.erase(gang);
  return left;
}

void SliceTable::session_lost() {
  for (auto& [number, entry] : slices_) entry.confirmed = false;
}

}  // namespace bourse::api
