#include "agent/isolators/none.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "agent/isolators/cgroup_files.h"
#include "agent/isolators/cgroup_v1.h"
#include "agent/isolators/cgroup_v2.h"

namespace bourse {

namespace {

struct Process {
  int pid = 0, parent = 0, session = 0;
  bool dead = false;
};

// "pid (command) state ppid pgrp session ...": the command may hold anything, so read from the last ')'.
bool read_process(int pid, Process& out) {
  const auto text = cgroup::read_file("/proc/" + std::to_string(pid) + "/stat");
  if (!text) return false;
  const auto end = text->rfind(')');
  if (end == std::string::npos) return false;
  char state = 0;
  int group = 0;
  out.pid = pid;
  if (std::sscanf(text->c_str() + end + 1, " %c %d %d %d", &state, &out.parent, &group, &out.session) != 4) return false;
  out.dead = state == 'Z' || state == 'X';
  return true;
}

// In the environment it is followed by a NUL, or for a slice's marker by the task's part.
bool carries(int pid, const std::string& marker) {
  const auto env = cgroup::read_file("/proc/" + std::to_string(pid) + "/environ");
  if (!env) return false;
  const std::string text = '\0' + *env;
  return text.find('\0' + marker) != std::string::npos;
}

}  // namespace

NoIsolation::NoIsolation(std::string root, std::vector<std::string> why) : root_(std::move(root)), degraded_(std::move(why)) {
  degraded_.emplace_back("CPU, memory and process counts of tasks are not limited, and tasks are not bound to cores");
  degraded_.emplace_back("peak memory is that of a task's largest process, and running out of memory is not told from SIGKILL");
  degraded_.emplace_back("a task that forks fast and hides its environment may outrun its kill");
}

Result<> NoIsolation::prepare(const std::string& slice, const SliceLimits&) {
  slices_[slice];
  return {};
}
Result<> NoIsolation::limit(const std::string& slice, const SliceLimits& limits) { return prepare(slice, limits); }

Result<Entry> NoIsolation::attach(const std::string& slice, const std::string& task) {
  const auto it = slices_.find(slice);
  if (it == slices_.end()) return Error(Code::kNotFound, "slice " + slice + " is not prepared on this host");
  if (it->second.count(task) == 0) it->second[task].number = ++next_;
  return Entry{};
}

Result<Usage> NoIsolation::usage(const std::string&, const std::string&) { return Usage{}; }

std::string NoIsolation::slice_marker(const std::string& slice) const { return "BOURSE_MARK=" + root_ + ":" + slice + ":"; }
std::string NoIsolation::marker(const std::string& slice, const std::string& task) const {
  return slice_marker(slice) + task + '\0';
}

// All of the session, of its descendants, and of those that carry the marker.
std::vector<int> NoIsolation::processes(const std::string& marker, int session) const {
  std::vector<Process> all;
  for (const auto& name : cgroup::children("/proc")) {
    Process p;
    const int pid = std::atoi(name.c_str());
    if (pid > 1 && pid != getpid() && read_process(pid, p) && !p.dead) all.push_back(p);
  }
  std::set<int> found;
  const int self = getpid(), keeper = getppid();
  for (const auto& p : all) {
    const bool in_session = session > 0 && (p.session == session || p.pid == session);
    // One that has left its session and lost its parent has been given to a subreaper, which we and our keeper are, or to init.
    const bool orphan = p.parent == self || p.parent == keeper || p.parent == 1;
    if (in_session || (orphan && carries(p.pid, marker))) found.insert(p.pid);
  }
  for (bool grew = true; grew;) {
    grew = false;
    for (const auto& p : all) {
      if (found.count(p.parent) != 0) grew = found.insert(p.pid).second || grew;
    }
  }
  return {found.begin(), found.end()};
}

Result<> NoIsolation::kill(const std::string& slice, const std::string& task) {
  const auto it = slices_.find(slice);
  if (it == slices_.end() || it->second.count(task) == 0) return {};
  const auto pids = processes(marker(slice, task), it->second[task].pid);
  // Stopped first, so that none forks while the others are being killed.
  for (const int pid : pids) ::kill(pid, SIGSTOP);
  for (const int pid : pids) ::kill(pid, SIGKILL);
  return pids.empty() ? Result<>() : Error(Code::kBusy, "task " + task + ": its processes are still ending");
}

Result<> NoIsolation::signal(const std::string& slice, const std::string& task, int signal) {
  const auto it = slices_.find(slice);
  if (it == slices_.end() || it->second.count(task) == 0) {
    return Error(Code::kNotFound, "task " + task + " is not in slice " + slice);
  }
  for (const int pid : processes(marker(slice, task), it->second[task].pid)) ::kill(pid, signal);
  return {};
}

Result<> NoIsolation::detach(const std::string& slice, const std::string& task) {
  const auto it = slices_.find(slice);
  if (it == slices_.end() || it->second.count(task) == 0) return {};
  if (!processes(marker(slice, task), it->second[task].pid).empty()) {
    return Error(Code::kBusy, "task " + task + ": processes of it are left");
  }
  it->second.erase(task);
  return {};
}

Result<> NoIsolation::release(const std::string& slice) {
  const auto pids = processes(slice_marker(slice), 0);
  for (const int pid : pids) ::kill(pid, SIGKILL);
  if (!pids.empty()) return Error(Code::kBusy, "slice " + slice + ": processes are still ending");
  slices_.erase(slice);
  return {};
}

std::string NoIsolation::leaf(const std::string& slice, const std::string& task) const {
  const auto it = slices_.find(slice);
  if (it == slices_.end() || it->second.count(task) == 0) return {};
  return "n" + std::to_string(it->second.at(task).number);
}

Result<> NoIsolation::adopt(const std::string& slice, const std::string& task, const std::string& leaf) {
  const auto number = std::strtoull(leaf.c_str() + (leaf.empty() ? 0 : 1), nullptr, 10);
  slices_[slice][task].number = number;
  next_ = std::max<std::uint64_t>(next_, number);
  return {};
}

void NoIsolation::started(const std::string& slice, const std::string& task, int pid) { slices_[slice][task].pid = pid; }

Result<> NoIsolation::recover(const std::vector<std::string>& known) {
  const std::set<std::string> keep(known.begin(), known.end());
  for (const auto& slice : keep) slices_[slice];
  std::vector<std::string> strange;
  for (const auto& [slice, tasks] : slices_) {
    if (keep.count(slice) == 0) strange.push_back(slice);
  }
  Result<> result;
  for (const auto& slice : strange) {
    auto released = release(slice);
    if (!released) result = std::move(released);
  }
  return result;
}

std::unique_ptr<Isolator> make_isolator(const std::string& root, bool want_isolation) {
  if (!want_isolation) return std::make_unique<NoIsolation>(root, std::vector<std::string>{"isolation was turned off"});
  std::vector<std::string> why;
  if (geteuid() != 0) why.emplace_back("the launcher does not run as root");
  const auto mounts = cgroup::find_mounts();
  // A v2 tree with controllers is the best there is; beside v1 it has none, and serves v1 for killing.
  if (mounts.v1.empty() && !mounts.v2.empty()) {
    auto v2 = CgroupV2::make(mounts.v2, root);
    if (v2) return *std::move(v2);
    why.push_back(v2.error().text());
  } else if (!mounts.v1.empty()) {
    auto v1 = CgroupV1::make(mounts, root);
    if (v1) return *std::move(v1);
    why.push_back(v1.error().text());
  } else {
    why.emplace_back("no cgroup file system is mounted");
  }
  return std::make_unique<NoIsolation>(root, std::move(why));
}

}  // namespace bourse
