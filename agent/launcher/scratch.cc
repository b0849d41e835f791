#include "agent/launcher/scratch.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>

#include "agent/launcher/spawn_aside.h"
#include "common/core/hooks.h"

namespace bourse::launcher {

namespace {

constexpr const char* kTrash = ".removed-";
constexpr const char* kMark = ".mark";

}  // namespace

// Task names may hold '/'; a leading '.' is ours.
std::string Scratch::file_name(const std::string& task) {
  std::string out = "t" + task;
  std::replace(out.begin(), out.end(), '/', ',');
  return out;
}

Result<std::string> Scratch::make(const std::string& task, uid_t uid, gid_t gid) {
  if (mkdir(directory_.c_str(), 0711) != 0 && errno != EEXIST) return errno_error("mkdir " + directory_);
  const std::string path = directory_ + "/" + file_name(task);
  if (made_.count(file_name(task)) != 0 || access(path.c_str(), F_OK) == 0) remove(path);
  if (mkdir(path.c_str(), 0700) != 0) return errno_error("mkdir " + path);
  made_.insert(file_name(task));
  hooks::crash_point("launcher.scratch_made");
  if (chown(path.c_str(), uid, gid) != 0 && geteuid() == 0) return errno_error("chown " + path);
  return path;
}

// As a symbolic link that leads nowhere: it is there whole or not at all.
Result<> Scratch::mark(const std::string& task, const std::string& word) {
  const std::string path = directory_ + "/" + file_name(task) + "/" + kMark;
  if (symlink(word.c_str(), path.c_str()) != 0) return errno_error("make " + path);
  return {};
}

std::string Scratch::mark_of(const std::string& task) const {
  if (made_.count(file_name(task)) == 0) return {};
  std::array<char, PATH_MAX> word{};
  const ssize_t n = readlink((directory_ + "/" + file_name(task) + "/" + kMark).c_str(), word.data(), word.size());
  return n > 0 ? std::string(word.data(), static_cast<std::size_t>(n)) : std::string();
}

void Scratch::drop(const std::string& task) {
  if (!made_.empty() && made_.erase(file_name(task)) != 0) remove(directory_ + "/" + file_name(task));
}

void Scratch::remove(const std::string& path) {
  if (hooks::mutant("launcher.scratch_stays")) return;
  std::string trash;
  do {
    trash = directory_ + "/" + kTrash + std::to_string(getpid()) + "-" + std::to_string(++removed_);
  } while (access(trash.c_str(), F_OK) == 0);
  if (rename(path.c_str(), trash.c_str()) != 0) {
    if (errno == ENOENT) return;
    trash = path;
  }
  hooks::crash_point("launcher.scratch_renamed");
  spawn_aside({"rm", "-rf", "--", trash});
}

void Scratch::recover(const std::set<std::string>& tasks) {
  DIR* dir = opendir(directory_.c_str());
  if (dir == nullptr) return;
  std::set<std::string> keep;
  for (const auto& task : tasks) keep.insert(file_name(task));
  std::vector<std::string> strange;
  while (const dirent* entry = readdir(dir)) {
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (keep.count(name) != 0) {
      made_.insert(name);
    } else {
      strange.push_back(name);
    }
  }
  closedir(dir);
  for (const auto& name : strange) remove(directory_ + "/" + name);
}

}  // namespace bourse::launcher
