// The configuration of one container, as the OCI runtime specification 1.0 wants it: what crun is told.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "agent/container/unpack.h"
#include "common/core/result.h"

namespace bourse::container {

struct Mount {
  std::string source, target;
  bool read_only = false;
};
// "SOURCE[:TARGET[:ro]]", absolute both. kInvalid says what is meant.
Result<Mount> parse_mount(const std::string& text);

struct Wanted {
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;
  mode_t umask = 022;
  std::uint64_t capabilities = 0;    // of a task of root; others have none
  std::string directory;             // "": the image's
  std::vector<std::string> argv;     // empty: the image's
  std::vector<std::string> env;      // NAME=value
  std::vector<Mount> mounts;         // sources are ours already
  std::vector<std::string> devices;  // nodes of the host
  std::string sys;                   // what is its /sys
  std::string tmp;                   // directory that is its /tmp; "": in memory
  bool ipc = false, net = false;     // of its own
  bool writable = true;              // its root
};

// Fails where a device is not there or nobody says what to run. The root is "rootfs" beside the file that this is written to.
Result<std::string> runtime_config(const Wanted& wanted, const ImageConfig& image);

}  // namespace bourse::container
