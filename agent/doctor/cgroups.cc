// Cgroups: which hierarchy, which controllers, whether we may use them.
#include <unistd.h>

#include <map>

#include <algorithm>

#include "agent/doctor/check.h"

namespace bourse::doctor {
namespace {

struct Mount {
  std::string at;
  bool writable = true;
};
struct Mounts {
  std::map<std::string, Mount> v1;  // by controller
  std::optional<Mount> v2;
};

bool has_option(std::string_view options, std::string_view option) {
  for (std::size_t at = 0; at < options.size();) {
    const auto end = std::min(options.find(',', at), options.size());
    if (options.substr(at, end - at) == option) return true;
    at = end + 1;
  }
  return false;
}

Mounts find(const Host& host) {
  static constexpr const char* kControllers[] = {"cpu", "cpuset", "cpuacct", "memory", "pids", "blkio", "devices", "freezer"};
  Mounts mounts;
  const std::string text = host.files.text("/proc/self/mounts").value_or("");
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    const auto words = words_of(std::string_view(text).substr(at, end - at));
    at = end + 1;
    if (words.size() < 4) continue;
    const Mount mount{words[1], has_option(words[3], "rw")};
    if (words[2] == "cgroup2" && !mounts.v2) mounts.v2 = mount;
    if (words[2] != "cgroup") continue;
    for (const char* controller : kControllers)
      if (has_option(words[3], controller)) mounts.v1.emplace(controller, mount);
  }
  return mounts;
}

struct Need {
  const char* controller;
  Level level;
  const char* lost;
};
constexpr Need kNeeds[] = {
    {"cpu", Level::kError, "CPU time of slices is not limited"},
    {"cpuset", Level::kError, "slices are not bound to cores and memory nodes"},
    {"memory", Level::kError, "memory of slices is not limited, and peaks are not known"},
    {"pids", Level::kWarning, "a fork bomb in a task takes the host's process numbers"},
    {"io", Level::kNote, "bandwidth to disks cannot be shared out"},
};

// The kernel can have a controller and be told at boot not to use it: Debian and Raspberry Pi do so with memory on Arm.
bool disabled_at_boot(const Host& host, std::string_view controller) {
  const auto words = words_of(host.files.text("/proc/cgroups").value_or(""));
  for (std::size_t i = 4; i + 3 < words.size(); i += 4)
    if (words[i] == controller) return words[i + 3] == "0";
  return false;
}

std::string mend_controller(const Host& host, std::string_view controller, std::string otherwise) {
  if (!disabled_at_boot(host, controller)) return otherwise;
  return "add cgroup_enable=" + std::string(controller) +
         " to the kernel's command line, take cgroup_disable=" + std::string(controller) + " out of it, and reboot";
}

void version_1(const Host& host, Report& report, const Mounts& mounts) {
  for (const Need& need : kNeeds) {
    const std::string controller = std::string_view(need.controller) == "io" ? "blkio" : need.controller;
    const auto it = mounts.v1.find(controller);
    const std::string check = "cgroup." + controller;
    if (it == mounts.v1.end())
      report.add(check, need.level, "not mounted", "The controller is not mounted: " + std::string(need.lost) + ".",
                 mend_controller(host, controller,
                                 "mkdir -p /sys/fs/cgroup/" + controller + " && mount -t cgroup -o " + controller +
                                     " cgroup /sys/fs/cgroup/" + controller));
    else if (!it->second.writable || access(host.files.path(it->second.at).c_str(), W_OK) != 0)
      report.add(check, need.level, it->second.at + ", not writable",
                 "We may not make groups there, as in most containers and for anybody but root: " + std::string(need.lost) + ".",
                 it->second.writable ? "run the agent as root" : "mount -o remount,rw " + it->second.at);
    else
      report.add(check, Level::kOk, it->second.at, "Mounted and writable.");
  }
}

void version_2(const Host& host, Report& report, const Mount& mount) {
  const auto offered = words_of(host.files.text(mount.at + "/cgroup.controllers").value_or(""));
  const auto given = words_of(host.files.text(mount.at + "/cgroup.subtree_control").value_or(""));
  const std::string control = mount.at + "/cgroup.subtree_control";
  const bool writable = mount.writable && access(host.files.path(control).c_str(), W_OK) == 0;
  const auto has = [](const std::vector<std::string>& list, std::string_view word) {
    for (const std::string& item : list)
      if (item == word) return true;
    return false;
  };
  for (const Need& need : kNeeds) {
    const std::string controller = need.controller;
    const std::string check = "cgroup." + controller;
    if (!has(offered, controller))
      report.add(
          check, need.level, "not offered", mount.at + " does not offer the controller: " + need.lost + ".",
          mend_controller(host, controller,
                          "in a container or under systemd: have the group delegated, as with Delegate=yes in the agent's unit"));
    else if (has(given, controller))
      report.add(
          check, writable ? Level::kOk : need.level, writable ? "delegated" : "delegated, not writable",
          writable ? "Offered and passed on to groups below." : "We may not make groups below " + mount.at + ": " + need.lost + ".",
          writable         ? ""
          : mount.writable ? "run the agent as root"
                           : "mount -o remount,rw " + mount.at);
    else if (writable)
      report.add(check, Level::kOk, "offered", "Offered; the agent passes it on to its slices itself.");
    else
      report.add(check, need.level, "not delegated",
                 control + " does not pass the controller on and we may not change it: " + need.lost + ".",
                 mount.writable ? "echo +" + controller + " >" + control : "mount -o remount,rw " + mount.at);
  }
}

}  // namespace

void cgroups(const Host& host, Report report) {
  const Mounts mounts = find(host);
  constexpr const char* kMode = "cgroup.mode";
  if (mounts.v1.empty() && !mounts.v2) {
    report.add(kMode, Level::kError, "none",
               "No cgroups are mounted: slices are not isolated at all, and ends of tasks leave processes behind.",
               "mount -t cgroup2 cgroup2 /sys/fs/cgroup");
  } else if (mounts.v1.empty()) {
    report.add(kMode, Level::kOk, "v2", "One hierarchy with all controllers: the best there is.");
    version_2(host, report, *mounts.v2);
  } else if (mounts.v2) {
    report.add(kMode, Level::kNote, "hybrid",
               "Limits are those of cgroup v1; pressure and kill come from the v2 tree beside it. memory.high and io limits by v2 "
               "are not to be "
               "had.",
               "boot with systemd.unified_cgroup_hierarchy=1 once nothing on this host needs v1");
    version_1(host, report, mounts);
  } else {
    report.add(kMode, Level::kNote, "v1",
               "Pressure is known of the whole host only, not of slices, so eviction cannot tell who presses; and groups are "
               "emptied by freezing "
               "and killing in rounds.",
               "mkdir -p /sys/fs/cgroup/unified && mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified");
    version_1(host, report, mounts);
  }
}

}  // namespace bourse::doctor
