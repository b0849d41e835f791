// Which device nodes the processes of a cgroup may open.
//
// Cgroup v2 has no files for that: a small eBPF program, attached to the group, is asked at each open and mknod. It works on the
// v2 tree of a hybrid host as well, where it costs a start nothing, so the v1 `devices` controller is only for hosts without one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/core/result.h"

namespace bourse {

struct DeviceRule {
  char type = 'c';          // 'c' or 'b'
  std::int64_t major = -1;  // -1: any
  std::int64_t minor = -1;
  auto operator<=>(const DeviceRule&) const = default;
};

constexpr std::size_t kDeviceRulesMax = 1024;  // of one slice; the program must stay below what the kernel takes

namespace devices {

// What every task may open: null, zero, full, random, urandom, tty, ptmx and pseudo-terminals.
[[nodiscard]] std::vector<DeviceRule> usual();
// Of a node in /dev: kNotFound where it is not there, kInvalid where it is no device. A pattern ("/dev/infiniband/*", one '*' in
// the last part) gives those that there are, perhaps none.
Result<std::vector<DeviceRule>> of_path(const std::string& path);
[[nodiscard]] std::string text(const DeviceRule& rule);  // "c 195:0", "c 136:*"
Result<DeviceRule> parse(std::string_view text);         // reads it back

// Can this kernel be asked? Loads a program that allows all, once a process.
[[nodiscard]] bool bpf_works();
// From now on processes in the v2 group at `path` and below open only these. Replaces what was attached there before.
Result<> bpf_limit(const std::string& path, const std::vector<DeviceRule>& rules);

}  // namespace devices
}  // namespace bourse
