// What one task is kept from, beside its slice's limits: namespaces, privileges, system calls.
//
// The agent decides (its configuration, made stricter by the task's own words) and the launcher carries it out. Everything is
// off by default for process tasks but the loss of privileges: programs of one job talk to each other through /tmp, /dev/shm and
// System V IPC on a host, as MPI libraries do, and each namespace costs a start time.
#pragma once

#include <linux/filter.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/core/result.h"

namespace bourse::launcher {

struct Confine {
  enum class Tmp : std::uint8_t { kShared, kMemory, kDisk };
  Tmp tmp = Tmp::kShared;          // kMemory: a tmpfs, counted as the slice's memory; kDisk: a directory below STATE/scratch
  bool pid = false;                // sees only its own processes; a small init is their parent
  bool ipc = false;                // System V IPC and /dev/shm of its own
  bool net = false;                // nothing but a loopback of its own
  bool new_privileges = false;     // setuid programs and file capabilities work
  bool seccomp = false;            // system calls for the host's administration fail
  bool all_capabilities = false;   // a task of root keeps them; else `capabilities` is the most it can ever have
  std::uint64_t capabilities = 0;  // a bit each
  std::uint64_t image_bytes = 0;   // that unpacking a container's image may write; 0: as much as that program allows by itself
  bool operator==(const Confine&) const = default;
};

// What a task of root keeps unless the configuration says otherwise: what container runtimes give.
[[nodiscard]] std::uint64_t usual_capabilities();
// "CAP_CHOWN" or "chown", as capabilities(7) names them. kInvalid with the word.
Result<std::uint64_t> parse_capabilities(const std::vector<std::string>& names);
std::vector<std::string> capability_names(std::uint64_t set);  // "CAP_CHOWN", ...
// A task's own word: "private-tmp", "private-tmp=memory", "pid", "ipc", "net", "seccomp". It can only add to what is kept from it.
Result<> restrict(Confine& confine, std::string_view word);

// As words of a packet; reads them back.
[[nodiscard]] std::string to_words(const Confine& confine);
Result<> read_word(Confine& confine, std::string_view word);

// The filter, compiled once a process by libseccomp. Calls that no task has a use for and that act on the whole host fail with
// EPERM: loading of modules and kernels, swap, accounting, the clock, mounts by the old and new interface, bpf, and the like.
Result<const std::vector<sock_filter>*> seccomp_filter();
[[nodiscard]] int seccomp_file();  // its instructions in a file in memory; valid after seccomp_filter()
[[nodiscard]] const std::vector<const char*>& seccomp_denied();  // their names, for the container's configuration and the man page

}  // namespace bourse::launcher
