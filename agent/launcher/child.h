// Starts one process in a leaf, as a user, with files, limits and directory: everything between clone and exec.
//
// The parent prepares all there is to prepare (Launch), then clones with CLONE_VM | CLONE_VFORK and waits until the child has
// executed or given up; errors come back in memory. The child makes system calls only, and none through a libc function
// that would touch the parent's other threads or its heap. Files are opened and the directory is entered with the user's
// rights (fsuid); the user's uid comes last, directly before exec, because from then on the user may stop the child, and with
// it the launcher that waits for it.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "agent/isolators/isolator.h"
#include "agent/launcher/confine.h"
#include "agent/launcher/protocol.h"
#include "common/core/result.h"

namespace bourse::launcher {

struct Launch {
  const TaskSpec* spec = nullptr;
  Entry entry;
  std::vector<gid_t> groups;
  std::string marker;                        // one more environment variable; "" is none
  std::string record_prefix, record_suffix;  // of the S record: see exit_log.h
  int log_fd = -1, null_fd = -1;
  bool privileged = false;  // may change user and groups
  Confine confine;
  std::string tmp_dir;           // what /tmp is for it, where confine.tmp is kDisk
  std::string init;              // path of bourse-init, where confine.pid
  std::string oom_score_adj;     // what it gets; "": the launcher's own
  bool stays_root = false;       // the program becomes the user by itself, and needs its rights until then
  struct rlimit descriptors {};  // RLIMIT_NOFILE of tasks that do not ask for another
};

struct Launched {
  pid_t pid = 0;
  std::int64_t ticks = 0;
};

struct LaunchFailed {
  std::string reason;      // "chdir /x: No such file or directory"
  bool leaf_gone = false;  // its cgroup was removed meanwhile
  pid_t recorded = 0;      // pid of an S record that has been written and needs its X; 0: none
};

// Either `failed.reason` is empty, or nothing runs and nothing is left to reap.
Launched launch(const Launch& plan, LaunchFailed& failed);

}  // namespace bourse::launcher
