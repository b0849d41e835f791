#include "frameworks/cli/leftovers.h"

#include <dirent.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "common/world/files.h"

namespace bourse::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kRounds = 200;  // of kRoundMs: how long what was killed may take to be gone
constexpr int kRoundMs = 20;

std::vector<std::string> command_line(const std::string& pid) {
  const auto text = read_file("/proc/" + pid + "/cmdline", 1024 * 1024);
  std::vector<std::string> words;
  for (std::size_t at = 0; text && at < text->size();) {
    const std::size_t end = std::min(text->find('\0', at), text->size());
    words.push_back(text->substr(at, end - at));
    at = end + 1;
  }
  return words;
}

// The cluster's cgroup directories in every hierarchy that is mounted at the usual places.
std::vector<std::string> cgroups_of(const Cluster& cluster) {
  std::vector<std::string> found;
  std::vector<std::string> roots = {"/sys/fs/cgroup"};
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/sys/fs/cgroup", error))
    if (entry.is_directory(error)) roots.push_back(entry.path());
  for (const std::string& root : roots) {
    for (const std::string& id : cluster.agents) {
      const std::string path = root + "/" + cluster.cgroup_root(id);
      if (fs::exists(path, error)) found.push_back(path);
    }
  }
  return found;
}

// Deepest first, the group itself last.
std::vector<std::string> with_children(const std::string& group) {
  std::vector<std::string> all = {group};
  std::error_code error;
  for (fs::recursive_directory_iterator it(group, error), end; !error && it != end; it.increment(error))
    if (it->is_directory(error) && !it->is_symlink(error)) all.push_back(it->path());
  std::sort(all.begin(), all.end(),
            [](const auto& a, const auto& b) { return a.size() != b.size() ? a.size() > b.size() : a < b; });
  return all;
}

void kill_members(const std::string& group) {
  const auto text = read_file(group + "/cgroup.procs", 16 * 1024 * 1024);
  if (!text) return;
  std::istringstream in(*text);
  for (pid_t pid = 0; in >> pid;)
    if (pid > 1) kill(pid, SIGKILL);
}

bool remove_cgroups(const Cluster& cluster) {
  for (int round = 0; round < kRounds; ++round) {
    const auto groups = cgroups_of(cluster);
    if (groups.empty()) return true;
    for (const std::string& group : groups) {
      for (const std::string& one : with_children(group)) {
        kill_members(one);
        rmdir(one.c_str());
      }
    }
    if (cgroups_of(cluster).empty()) return true;
    poll(nullptr, 0, kRoundMs);
  }
  return false;
}

void remove_sockets(const std::string& directory, int depth) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    if (entry.is_symlink(error)) continue;
    if (entry.is_socket(error)) unlink(entry.path().c_str());
    if (entry.is_directory(error) && depth > 0) remove_sockets(entry.path(), depth - 1);
  }
}

}  // namespace

std::vector<pid_t> launchers_below(const std::string& dir) {
  std::vector<pid_t> keepers, launchers;
  DIR* proc = opendir("/proc");
  if (proc == nullptr) return {};
  while (const dirent* entry = readdir(proc)) {
    const pid_t pid = std::atoi(entry->d_name);
    if (pid <= 0) continue;
    const auto words = command_line(entry->d_name);
    if (words.empty() || !words[0].ends_with("bourse-launcher")) continue;
    const auto state = std::find(words.begin(), words.end(), "--state");
    if (state == words.end() || state + 1 == words.end() || !(state + 1)->starts_with(dir + "/state/")) continue;
    (std::find(words.begin(), words.end(), "--keeper") != words.end() ? keepers : launchers).push_back(pid);
  }
  closedir(proc);
  keepers.insert(keepers.end(), launchers.begin(), launchers.end());
  return keepers;
}

Result<> remove_leftovers(const Cluster& cluster) {
  std::vector<pid_t> left = launchers_below(cluster.dir);
  for (int round = 0; round < kRounds && !left.empty(); ++round) {
    for (const pid_t pid : left)
      if (kill(pid, SIGKILL) != 0 && errno == EPERM) return errno_error("end process " + std::to_string(pid) + " of another user");
    poll(nullptr, 0, kRoundMs);
    left = launchers_below(cluster.dir);
  }
  if (!left.empty()) return Error(Code::kBusy, "process " + std::to_string(left.front()) + " cannot be ended");
  if (!remove_cgroups(cluster)) {
    const auto groups = cgroups_of(cluster);
    return Error(Code::kBusy, "cgroup " + (groups.empty() ? cluster.cgroup_prefix : groups.front()) +
                                  " cannot be removed: something in it does not end");
  }
  remove_sockets(cluster.dir + "/run", 0);
  remove_sockets(cluster.dir + "/state", 1);
  return {};
}

}  // namespace bourse::cli
