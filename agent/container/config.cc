#include "agent/container/config.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <set>

#include "agent/launcher/confine.h"
#include "common/core/hooks.h"

namespace bourse::container {

using nlohmann::json;

namespace {

json mount_entry(const std::string& target, const std::string& type, const std::string& source, std::vector<std::string> options) {
  return {{"destination", target}, {"type", type}, {"source", source}, {"options", std::move(options)}};
}

// Ours are the task's already.
json limits_now() {
  const std::pair<const char*, int> all[] = {
      {"RLIMIT_AS", RLIMIT_AS},       {"RLIMIT_CORE", RLIMIT_CORE},       {"RLIMIT_CPU", RLIMIT_CPU},
      {"RLIMIT_DATA", RLIMIT_DATA},   {"RLIMIT_FSIZE", RLIMIT_FSIZE},     {"RLIMIT_NOFILE", RLIMIT_NOFILE},
      {"RLIMIT_STACK", RLIMIT_STACK}, {"RLIMIT_MEMLOCK", RLIMIT_MEMLOCK}, {"RLIMIT_NPROC", RLIMIT_NPROC}};
  json out = json::array();
  for (const auto& [name, resource] : all) {
    struct rlimit limit {};
    if (getrlimit(static_cast<__rlimit_resource>(resource), &limit) == 0)
      out.push_back({{"type", name}, {"soft", limit.rlim_cur}, {"hard", limit.rlim_max}});
  }
  return out;
}

std::string name_of(const std::string& variable) { return variable.substr(0, variable.find('=')); }

// What the task says comes first; but where the programs of the image are, the image knows better.
std::vector<std::string> environment(const std::vector<std::string>& task, const std::vector<std::string>& image) {
  std::vector<std::string> out = task;
  std::set<std::string> named;
  for (const std::string& each : task) named.insert(name_of(each));
  for (const std::string& each : image) {
    const std::string name = name_of(each);
    if (name == "PATH") std::erase_if(out, [](const std::string& v) { return name_of(v) == "PATH"; });
    if (name == "PATH" || named.count(name) == 0) out.push_back(each);
  }
  return out;
}

// Directories that mounts go to, and the image lacks, are made by the runtime; in a read-only root they cannot be.
json mounts_of(const Wanted& wanted) {
  json list = json::array();
  list.push_back(mount_entry("/proc", "proc", "proc", {"nosuid", "noexec", "nodev"}));
  list.push_back(mount_entry("/dev", "tmpfs", "tmpfs", {"nosuid", "strictatime", "mode=755", "size=65536k"}));
  list.push_back(mount_entry("/dev/pts", "devpts", "devpts", {"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"}));
  if (wanted.ipc) {
    list.push_back(mount_entry("/dev/shm", "tmpfs", "shm", {"nosuid", "noexec", "nodev", "mode=1777"}));
    list.push_back(mount_entry("/dev/mqueue", "mqueue", "mqueue", {"nosuid", "noexec", "nodev"}));
  } else {
    list.push_back(mount_entry("/dev/shm", "bind", "/dev/shm", {"rbind", "nosuid", "nodev"}));
  }
  list.push_back(mount_entry("/sys", "bind", wanted.sys, {"rbind", "nosuid", "noexec", "nodev", "ro"}));
  if (wanted.tmp.empty()) {
    list.push_back(mount_entry("/tmp", "tmpfs", "tmpfs", {"nosuid", "nodev", "mode=1777"}));
  } else {
    list.push_back(mount_entry("/tmp", "bind", wanted.tmp, {"bind", "nosuid", "nodev"}));
  }
  for (const char* file : {"/etc/resolv.conf", "/etc/hosts"})
    if (access(file, R_OK) == 0) list.push_back(mount_entry(file, "bind", file, {"bind", "nosuid", "nodev", "ro"}));
  for (const Mount& each : wanted.mounts)
    list.push_back(mount_entry(each.target, "bind", each.source, {"rbind", "nosuid", "nodev", each.read_only ? "ro" : "rw"}));
  return list;
}

Result<json> devices_of(const Wanted& wanted) {
  json out = json::array();
  for (const std::string& path : wanted.devices) {
    struct stat st {};
    if (stat(path.c_str(), &st) != 0) return errno_error("device " + path);
    if (!S_ISBLK(st.st_mode) && !S_ISCHR(st.st_mode)) return Error(Code::kInvalid, "device " + path + " is not a device");
    out.push_back({{"path", path},
                   {"type", S_ISBLK(st.st_mode) ? "b" : "c"},
                   {"major", major(st.st_rdev)},
                   {"minor", minor(st.st_rdev)},
                   {"fileMode", st.st_mode & 0777U},
                   {"uid", st.st_uid},
                   {"gid", st.st_gid}});
  }
  return out;
}

}  // namespace

Result<Mount> parse_mount(const std::string& text) {
  const auto bad = [&](const char* why) { return Error(Code::kInvalid, "mount `" + text + "': " + why); };
  Mount out;
  const auto first = text.find(':'), second = first == std::string::npos ? first : text.find(':', first + 1);
  out.source = text.substr(0, first);
  out.target =
      first == std::string::npos ? out.source : text.substr(first + 1, second == std::string::npos ? second : second - first - 1);
  const std::string how = second == std::string::npos ? "rw" : text.substr(second + 1);
  if (out.source.empty() || out.source[0] != '/' || out.target.empty() || out.target[0] != '/' || (how != "ro" && how != "rw"))
    return bad("SOURCE[:TARGET[:ro]] with absolute paths is meant");
  if (out.target.find_first_not_of("/.") == std::string::npos) return bad("its target is the whole container");
  for (std::size_t at = 0; at < out.target.size();) {
    const std::size_t end = std::min(out.target.find('/', at), out.target.size());
    if (out.target.substr(at, end - at) == "..") return bad("its target leads out of the container");
    at = end + 1;
  }
  out.read_only = how == "ro";
  return out;
}

Result<std::string> runtime_config(const Wanted& wanted, const ImageConfig& image) {
  std::vector<std::string> argv = wanted.argv;
  if (argv.empty()) {
    argv = image.entrypoint;
    argv.insert(argv.end(), image.command.begin(), image.command.end());
  }
  if (argv.empty()) return Error(Code::kInvalid, "there is no program to run: neither the task nor the image names one");
  std::string directory = wanted.directory;
  if (directory.empty()) directory = image.directory.empty() ? "/" : image.directory;
  json spaces = json::array({{{"type", "pid"}}, {{"type", "mount"}}});
  if (wanted.ipc) spaces.push_back({{"type", "ipc"}});
  if (wanted.net) spaces.push_back({{"type", "network"}});
  json capabilities = json::object();
  const auto names = launcher::capability_names(wanted.uid == 0 ? wanted.capabilities : 0);
  for (const char* set : {"bounding", "effective", "permitted"}) capabilities[set] = names;
  for (const char* set : {"inheritable", "ambient"}) capabilities[set] = json::array();
  json process = {{"terminal", false},
                  {"user", {{"uid", wanted.uid}, {"gid", wanted.gid}, {"umask", wanted.umask}, {"additionalGids", wanted.groups}}},
                  {"args", argv},
                  {"env", environment(wanted.env, image.env)},
                  {"cwd", directory},
                  {"noNewPrivileges", true},
                  {"rlimits", limits_now()},
                  {"capabilities", std::move(capabilities)}};
  json linux_part = {
      {"namespaces", std::move(spaces)},
      {"devices", BOURSE_TRY(devices_of(wanted))},
      {"maskedPaths", {"/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/sched_debug", "/proc/scsi", "/sys/firmware"}},
      {"readonlyPaths", {"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}}};
  if (!hooks::mutant("container.no_seccomp")) {
    json denied = json::array();
    for (const char* call : launcher::seccomp_denied()) denied.push_back(call);
    json rule = {{"names", std::move(denied)}, {"action", "SCMP_ACT_ERRNO"}, {"errnoRet", EPERM}};
    linux_part["seccomp"] = {{"defaultAction", "SCMP_ACT_ALLOW"}, {"syscalls", json::array({std::move(rule)})}};
  }
  json root = {{"path", "rootfs"}, {"readonly", !wanted.writable}};
  const json config = {{"ociVersion", "1.0.2"},
                       {"root", std::move(root)},
                       {"process", std::move(process)},
                       {"mounts", mounts_of(wanted)},
                       {"linux", std::move(linux_part)}};
  // Words that are not UTF-8 cannot be told to a runtime.
  const std::string text = config.dump(1, ' ', false, json::error_handler_t::replace);
  if (text.find("\xef\xbf\xbd") != std::string::npos)
    return Error(Code::kInvalid,
                 "an argument, variable or path of the task is not UTF-8, which a container's configuration must be");
  return text + "\n";
}

}  // namespace bourse::container
