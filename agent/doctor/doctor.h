// bourse doctor: what of this host is set so that Bourse, or what runs under it, would suffer; and what to do about it.
//
// Reads /proc, /sys, /dev, /etc and /run below a root that tests choose, and nothing else but the clock's state and, where it is
// asked for, the speed of the state directory. Changes nothing. Keeps no state; blocking, milliseconds (the disk: up to a second).
// DESIGN §8. What each check means to an operator is in bourse-doctor(8).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/core/units.h"

namespace bourse::doctor {

enum class Level : std::uint8_t {
  kOk,
  kNote,     // works; somebody may want it otherwise
  kWarning,  // something will be slow, unsafe or missing under load
  kError,    // something of Bourse does not work on this host
};
std::string_view level_text(Level level);  // "ok", "note", "warning", "error"

struct Finding {
  std::string check;   // "net.core.somaxconn": unique; a sysctl's own name where it is one
  std::string family;  // "network"
  Level level = Level::kOk;
  std::string found;  // as the kernel says it, so that it can be compared with sysctl(8) and the like
  std::string means;  // one or two sentences; also where all is well
  std::string mend;   // a shell command, or an entry of bourse.conf; empty: nothing to mend
};

struct ClockState {
  bool synchronised = false;
  Duration error_max{0};  // the kernel's bound
};

struct Options {
  std::string root;                  // in front of /proc, /sys, /dev, /etc, /run; empty: this host
  std::string state_dir;             // empty: not looked at
  bool disk = true;                  // measure fdatasync in it
  std::uint32_t max_pids = 32'768;   // agent.max_pids
  Bytes reserve_mem;                 // agent.reserve_mem
  std::vector<std::uint16_t> ports;  // on which masters listen
  // Tests say what the kernel would. Otherwise it is asked (with a root: not known).
  std::optional<ClockState> clock;
};

// By family, then as the families list them; the same order each time.
std::vector<Finding> examine(const Options& options);

// The worst of them; kOk of none.
Level worst(const std::vector<Finding>& findings);

// The sysctls that findings would change, as a file for /etc/sysctl.d.
std::string sysctl_file(const std::vector<Finding>& findings);

}  // namespace bourse::doctor
