// Warm guests: booted ahead, they wait for a task to run in them. Part of bourse-microvm. See DESIGN §8.
//
//   holder   bourse-microvm --park SOCKET --mem N --cpus N: makes a guest for slices of that size, says "ready PID\n" (of the emulator) on
//            standard output when it waits, and listens at SOCKET. Ends with its guest; and, as long as nobody has claimed it, when its
//            standard input ends: with who keeps the pool.
//   claimer  bourse-microvm --warm SOCKET, the first process of the task: moves the emulator into its own cgroups, tells the guest what to
//            run, and is from there on as one that made its guest itself; libvirt is not asked
// SOCKET carries whole messages. Holder to claimer: where the guest is; claimer: "claim"; holder, which then lets go of the console: "yes".
// The holder stays until either the emulator or the claimer has ended, and ends the former: the guest bears its name, and whoever finds
// one without a living holder ends it. A claimer that finds nobody, or a guest of another size, or whose task is too large to be sent,
// starts cold: nothing has happened yet.
//
// Memory that the guest had before it was claimed stays charged to the group in which it was booted, as the kernel has it.
#pragma once

#include <optional>

#include "agent/microvm/supervisor.h"

namespace bourse::microvm {

int park(const Arguments& arguments);                              // the exit status of the holder
std::optional<int> claim(const Arguments& arguments, char** env);  // that of the task; nothing: start cold

}  // namespace bourse::microvm
