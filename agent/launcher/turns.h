// Who is in each slice, and who waits there for its turn (TaskSpec.in_turn): started when nobody given earlier is left in it.
//
// A starter that waits belongs to the agent's connection: it is on no record, and an agent that connects anew asks again for all that it
// has not heard of. Owned by the launcher, one thread.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "agent/launcher/protocol.h"

namespace bourse::launcher {

class Turns {
 public:
  static constexpr std::size_t kWaitingMax = 1'000;  // in one slice

  void enter(const SliceId& slice, const TaskKey& task) { slices_[slice].inside.insert(task); }
  void leave(const SliceId& slice, const TaskKey& task);
  // Takes it if it has to wait, leaves it as it is if it may start now. kLimit: too many wait.
  Result<bool> wait(Start& start);
  [[nodiscard]] bool waits(const SliceId& slice, const TaskKey& task) const;
  [[nodiscard]] std::size_t waiting(const SliceId& slice) const;
  std::optional<Start> next(const SliceId& slice);     // whose turn it is now
  std::optional<Start> withdraw(const TaskKey& task);  // it need not be there
  std::vector<Start> withdraw_all(const SliceId& slice);
  void forget_waiting();

 private:
  struct Slice {
    std::set<TaskKey> inside;
    std::deque<Start> waiting;
  };
  void tidy(std::map<SliceId, Slice>::iterator it);
  std::map<SliceId, Slice> slices_;
};

}  // namespace bourse::launcher
