// Warm containers: made ahead, they wait for a task to run in them. Part of bourse-container. See DESIGN §8.
//
//   holder     bourse-container --park SOCKET: makes root, mounts and configuration as for a task, starts the runtime with bourse-wait
//              as the program, says "ready PID\n" on standard output when that waits, and listens at SOCKET. Ends with its container; and,
//              as long as nobody has claimed it, when its standard input ends: with who keeps the pool.
//   bourse-wait  in the container, process 1 and its only one: takes in orphans, and ends when its holder does
//   claimer    bourse-wait OPTIONS --warm SOCKET, the first process of the task: joins the namespaces of the container, forks the task's
//              program there, passes on signals, ends as that does. So the program has the task's own cgroups, limits and files from its
//              birth; a process that is moved into them has to wait for the kernel, tens of milliseconds on a busy host. See wait.c
// The claimer waits for nobody: the container is its own once it has removed SOCKET.free, in which the holder wrote who waits and what the
// filter of system calls is; then it says "C" at SOCKET, and the holder ends the container when that connection ends. Where there is
// nothing to remove the task starts cold: nothing has happened yet.
#pragma once

#include <string>
#include <vector>

#include "agent/container/config.h"

namespace bourse::container {

constexpr const char* kWaitInside = "/.bourse-wait";
constexpr int kWaitChannel = 3;

// Runs `runtime` (its argv) with the channel as descriptor 3, as the holder of `socket`. Never returns.
[[noreturn]] void hold(const std::string& socket, const std::vector<std::string>& runtime, const std::string& scratch);

}  // namespace bourse::container
