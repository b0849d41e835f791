// Groups of users, from the host's user database, remembered for a while: a look-up can cost more than a task.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "common/core/result.h"

namespace bourse::launcher {

constexpr std::int64_t kUserKeptMs = 30'000;
constexpr std::size_t kUsersKeptMax = 1024;

class Users {
 public:
  // Supplementary groups of `name`, whose uid here must be `uid`. An empty name is a uid without an entry: just `gid`.
  Result<std::vector<gid_t>> groups(const std::string& name, uid_t uid, gid_t gid, std::int64_t now_ms);

 private:
  struct Kept {
    std::vector<gid_t> groups;
    std::int64_t until_ms = 0;
  };
  std::map<std::tuple<std::string, uid_t, gid_t>, Kept> kept_;
};

// "4,27,1000", for a program's arguments.
std::string joined(const std::vector<gid_t>& groups);

}  // namespace bourse::launcher
