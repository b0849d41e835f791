// A guest as libvirt is told of it, and where the host runs it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/core/result.h"
#include "common/core/units.h"

namespace bourse::microvm {

struct Domain {
  std::string name;  // "bourse-PID-TICKS"
  std::string arch;  // "x86_64"
  bool kvm = false;  // else emulated
  Bytes mem;         // of the guest
  std::uint32_t cpus = 1;
  std::string kernel, initrd, command_line;  // paths, but for the last; empty: none
  // The image, below the layer that takes its writes (see overlay.h); and the task, for a guest that brings its own first process.
  std::string disk, disk_format, disk_layer, task_disk;
};
std::string domain_xml(const Domain& domain);

// The name says whose it is: pid and start of the process that runs it, so that one whose owner is gone is known.
std::string domain_name(pid_t pid);
// Is this name ours, and does its owner live? Nothing: not one of ours.
std::optional<bool> owner_lives(const std::string& name);

// What a slice's memory leaves to the guest: the emulator needs some beside it. kInvalid: too little for any.
constexpr Bytes kGuestLeast{64LL * 1024 * 1024};
Result<Bytes> guest_memory(Bytes slice, bool kvm);

// This process's own limits, by its cgroup and its cores: what the guest gets. 0: none.
struct Limits {
  Bytes mem;
  std::uint32_t cpus = 1;
};
Limits own_limits();
// Puts a process into the groups that this one is in, of every hierarchy.
Result<> join_own_groups(pid_t pid);
// The emulator of a domain, by its command line. 0: there is none.
pid_t find_emulator(const std::string& name);
// Path of the terminal behind the first serial port, of the running domain's description. "" where there is none.
std::string console_path(const std::string& description);

}  // namespace bourse::microvm
