#include "agent/launcher/turns.h"

#include <algorithm>
#include <iterator>

#include "common/core/hooks.h"

namespace bourse::launcher {

void Turns::tidy(std::map<SliceId, Slice>::iterator it) {
  if (it->second.inside.empty() && it->second.waiting.empty()) slices_.erase(it);
}

void Turns::leave(const SliceId& slice, const TaskKey& task) {
  const auto it = slices_.find(slice);
  if (it == slices_.end()) return;
  it->second.inside.erase(task);
  tidy(it);
}

Result<bool> Turns::wait(Start& start) {
  if (!start.spec.in_turn || hooks::mutant("launcher.out_of_turn")) return false;
  const auto it = slices_.find(start.slice);
  if (it == slices_.end()) return false;  // nobody is in it
  if (it->second.waiting.size() >= kWaitingMax)
    return Error(Code::kLimit, std::to_string(kWaitingMax) + " tasks wait for their turn in its slice, which is the limit");
  it->second.waiting.push_back(std::move(start));
  return true;
}

bool Turns::waits(const SliceId& slice, const TaskKey& task) const {
  const auto it = slices_.find(slice);
  return it != slices_.end() &&
         std::any_of(it->second.waiting.begin(), it->second.waiting.end(), [&](const Start& one) { return one.task == task; });
}

std::size_t Turns::waiting(const SliceId& slice) const {
  const auto it = slices_.find(slice);
  return it == slices_.end() ? 0 : it->second.waiting.size();
}

std::optional<Start> Turns::next(const SliceId& slice) {
  const auto it = slices_.find(slice);
  if (it == slices_.end() || !it->second.inside.empty() || it->second.waiting.empty()) return std::nullopt;
  Start start = std::move(it->second.waiting.front());
  it->second.waiting.pop_front();
  tidy(it);
  return start;
}

std::optional<Start> Turns::withdraw(const TaskKey& task) {
  for (auto it = slices_.begin(); it != slices_.end(); ++it) {
    auto& waiting = it->second.waiting;
    const auto found = std::find_if(waiting.begin(), waiting.end(), [&](const Start& one) { return one.task == task; });
    if (found == waiting.end()) continue;
    Start start = std::move(*found);
    waiting.erase(found);
    tidy(it);
    return start;
  }
  return std::nullopt;
}

std::vector<Start> Turns::withdraw_all(const SliceId& slice) {
  const auto it = slices_.find(slice);
  if (it == slices_.end()) return {};
  std::vector<Start> all(std::make_move_iterator(it->second.waiting.begin()), std::make_move_iterator(it->second.waiting.end()));
  it->second.waiting.clear();
  tidy(it);
  return all;
}

void Turns::forget_waiting() {
  for (auto it = slices_.begin(); it != slices_.end();) {
    const auto here = it++;
    here->second.waiting.clear();
    tidy(here);
  }
}

}  // namespace bourse::launcher
