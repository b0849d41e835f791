// What launcher, its child and bourse-init agree on about a task in a PID namespace. See init/init_main.cc.
#pragma once

namespace bourse::launcher {

// A signal with this value is for the task's first process. One to the whole task has none: it reaches the task by itself.
constexpr int kPassOn = 0x626f7572;
// Where an init finds the instructions of the filter of system calls.
constexpr int kFilterFile = 3;

}  // namespace bourse::launcher
