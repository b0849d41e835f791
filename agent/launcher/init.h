// What launcher, its child and bourse-init agree on about a task in a PID namespace. See init/init_main.cc.
#pragma once

#include <string_view>
#include <vector>

namespace bourse::launcher {

// A signal with this value is for the task's first process. One to the whole task has none: it reaches the task by itself.
constexpr int kPassOn = 0x626f7572;
// Where an init finds the instructions of the filter of system calls.
constexpr int kFilterFile = 3;
// Stands before each of the task's variables in the environment of a program of ours that is still root: LD_PRELOAD and its like,
// which the user may set to anything, must mean nothing to that program's loader and libraries, nor BOURSE_MUTANT to itself.
constexpr std::string_view kVariable = "task:";

// The task's own environment, for what is executed as the user; points into `guarded`, and ends in null.
inline std::vector<char*> task_environment(char** guarded) {
  std::vector<char*> out;
  for (char** each = guarded; *each != nullptr; ++each)
    out.push_back(std::string_view(*each).substr(0, kVariable.size()) == kVariable ? *each + kVariable.size() : *each);
  out.push_back(nullptr);
  return out;
}

}  // namespace bourse::launcher
