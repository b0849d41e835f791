#include "agent/launcher/users.h"

#include <grp.h>
#include <pwd.h>

#include <cerrno>

namespace bourse::launcher {

Result<std::vector<gid_t>> Users::groups(const std::string& name, uid_t uid, gid_t gid, std::int64_t now_ms) {
  if (name.empty()) return std::vector<gid_t>{gid};
  const auto key = std::tuple(name, uid, gid);
  const auto it = kept_.find(key);
  if (it != kept_.end() && it->second.until_ms > now_ms) return it->second.groups;
  struct passwd entry {};
  struct passwd* found = nullptr;
  std::vector<char> buffer(16 * 1024);
  const int error = getpwnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found);
  if (error != 0) {
    errno = error;
    return errno_error("look up user " + name);
  }
  if (!found) return Error(Code::kNotFound, "user " + name + " does not exist on this host");
  if (entry.pw_uid != uid) {
    return Error(Code::kDenied,
                 "user " + name + " has uid " + std::to_string(entry.pw_uid) + " on this host, not " + std::to_string(uid));
  }
  int count = 64;
  std::vector<gid_t> groups(static_cast<std::size_t>(count));
  while (getgrouplist(name.c_str(), gid, groups.data(), &count) < 0 && count <= 65536)
    groups.resize(static_cast<std::size_t>(count));
  groups.resize(static_cast<std::size_t>(count));
  if (kept_.size() >= kUsersKeptMax) kept_.clear();
  kept_[key] = {groups, now_ms + kUserKeptMs};
  return groups;
}

std::string joined(const std::vector<gid_t>& groups) {
  std::string out;
  for (const gid_t group : groups) out += (out.empty() ? "" : ",") + std::to_string(group);
  return out;
}

}  // namespace bourse::launcher
