// Small things one does with a cgroup file system: make, remove, read, write, list, kill. No state.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/core/result.h"

namespace bourse::cgroup {

// Mount points. `v1` by controller name; `v2` empty where there is none; `hybrid`: there is a v2 tree beside v1 controllers.
struct Mounts {
  std::map<std::string, std::string> v1;
  std::string v2;
};
Mounts find_mounts(const std::string& mounts_file = "/proc/self/mounts");

Result<> make_dir(const std::string& path);    // one that is there is fine
Result<> remove_dir(const std::string& path);  // one that is gone is fine; kBusy: processes or sub-groups are in it
Result<> write_file(const std::string& path, std::string_view text);
Result<std::string> read_file(const std::string& path);
// A short file (up to 4 KiB) through a descriptor that is opened when it is -1 and kept: half the price of read_file.
Result<std::string> read_kept(int& fd, const std::string& path, bool writable = false);
[[nodiscard]] std::int64_t to_number(std::string_view text);                       // -1: it is none
[[nodiscard]] std::int64_t read_number(const std::string& path);                   // -1: cannot
[[nodiscard]] std::int64_t value_of(std::string_view text, std::string_view key);  // of "key value\n" lines; -1: absent
[[nodiscard]] std::vector<std::string> children(const std::string& path);          // names of sub-groups, sorted
[[nodiscard]] std::vector<pid_t> members(const std::string& path);                 // processes, not of sub-groups
[[nodiscard]] bool exists(const std::string& path);
[[nodiscard]] std::string list_text(const std::vector<std::uint32_t>& set);  // "0,1,5"
[[nodiscard]] std::vector<std::uint32_t> parse_list(std::string_view text);  // "0-2,5": sorted; what is no number is left out

// SIGKILL to all in the group and below, one round: cgroup.kill where there is one (v2), else freezer (v1), else one by one.
void kill_round(const std::string& path);
// No process in it or below.
[[nodiscard]] bool is_empty(const std::string& path);

}  // namespace bourse::cgroup
