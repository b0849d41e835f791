// Runs one guest and ends with the exit status that it tells. Its process is the task as the launcher sees it: killed, timed and
// accounted as any other, in its leaf, where the emulator is put too before the guest runs its first instruction. So the guest is
// the slice's whatever dies: killing the leaf ends it, and libvirt is needed only for the start.
//
// What can be left is a guest whose owner died between making it and putting it into the leaf; it is paused, and the next sweep()
// ends it, by the owner's pid and start in its name. One thread; blocking.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "common/core/result.h"
#include "common/core/units.h"

namespace bourse::microvm {

constexpr int kFailed = 125;  // as container runtimes end when they could not run the task
constexpr std::size_t kProgramMax = 64 * 1024 * 1024;
constexpr std::size_t kImageMax = 2UL * 1024 * 1024 * 1024;  // kernel and initramfs, each

struct Arguments {
  std::string scratch;  // a directory of this task, removed with it
  std::string uri = "qemu:///system", arch, kernel, initrd, disk, append, directory;
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;
  std::vector<std::string> argv;
  std::string park, warm;  // see park.h
  Bytes mem;               // of the slices that a parked one is for
  std::uint32_t cpus = 0;
};

// The exit status of the process. Says on standard error what went wrong.
int run(const Arguments& arguments, char** env);
// Ends guests without an owner. How many.
Result<int> sweep(const std::string& uri);

}  // namespace bourse::microvm
