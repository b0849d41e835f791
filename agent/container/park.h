// Warm containers: made ahead, they wait for a task to run in them. Part of bourse-container. See DESIGN §8.
//
//   holder     bourse-container --park SOCKET: makes root, mounts and configuration as for a task, starts the runtime with bourse-wait
//              as the program, says "ready PID\n" on standard output when that waits, and listens at SOCKET. Ends with its container; and,
//              as long as nobody has claimed it, when its standard input ends: with who keeps the pool.
//   bourse-wait  in the container, process 1: becomes the task's program
//   claimer    bourse-container --warm SOCKET, the first process of the task: moves the container's process into its own cgroups, gives it
//              its own limits, sends argv, environment, umask and its descriptors 0 to 2, passes on signals, ends as the container does
// SOCKET carries whole messages. Holder to claimer: the pid; claimer to holder: the claim, with the descriptors; holder to claimer: the exit
// code. A claimer that finds nobody there, or whose claim is too large for one message, starts cold: nothing has happened yet.
#pragma once

#include <string>
#include <vector>

#include "agent/container/config.h"

namespace bourse::container {

constexpr const char* kWaitInside = "/.bourse-wait";
constexpr int kWaitChannel = 3;

// Runs `runtime` (its argv) with the channel as descriptor 3, as the holder of `socket`. Never returns.
[[noreturn]] void hold(const std::string& socket, const std::vector<std::string>& runtime, const std::string& scratch);

// Never returns once the container has been claimed. A sentence why not, before that.
std::string claim(const std::string& socket, const Wanted& wanted);

}  // namespace bourse::container
