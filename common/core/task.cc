#include "common/core/task.h"

namespace bourse {

std::string_view task_state_text(TaskState state) {
  switch (state) {
    case TaskState::kStaging:
      return "staging";
    case TaskState::kRunning:
      return "running";
    case TaskState::kExited:
      return "exited";
    case TaskState::kSignaled:
      return "signaled";
    case TaskState::kFailedStart:
      return "failed_start";
    case TaskState::kKilled:
      return "killed";
    case TaskState::kTimeLimit:
      return "time_limit";
    case TaskState::kOutOfMemory:
      return "out_of_memory";
    case TaskState::kPreempted:
      return "preempted";
    case TaskState::kLost:
      return "lost";
    case TaskState::kUnknownExit:
      return "unknown_exit";
    case TaskState::kNeverStarted:
      return "never_started";
  }
  return "unknown";
}

}  // namespace bourse
