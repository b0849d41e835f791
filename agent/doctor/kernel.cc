// The kernel: its age, how many processes, threads and files it allows, PSI, namespaces, seccomp.
#include <charconv>

#include <algorithm>

#include "agent/doctor/check.h"

namespace bourse::doctor {
namespace {

constexpr std::int64_t kPidMax = 4'194'304;  // the most that a 64-bit kernel takes
constexpr std::int64_t kThreadsLeast = 32'768, kFilesLeast = 200'000;

struct Release {
  int major = 0, minor = 0;
  auto operator<=>(const Release&) const = default;
};
std::optional<Release> parse_release(const std::string& text) {
  Release r;
  const char* end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, r.major);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != '.') return std::nullopt;
  if (std::from_chars(first.ptr + 1, end, r.minor).ec != std::errc()) return std::nullopt;
  return r;
}

void release(const Host& host, Report& report) {
  const auto text = sysctl_text(host, "kernel.osrelease");
  const auto r = text ? parse_release(*text) : std::nullopt;
  if (!r) return;
  constexpr const char* kCheck = "kernel.osrelease";
  constexpr const char* kMend = "install a newer kernel";
  if (*r < Release{5, 3})
    report.add(kCheck, Level::kError, *text,
               "Tasks are started by clone3(2) and watched by pidfd_open(2), which came with Linux 5.3.", kMend);
  else if (*r < Release{5, 7})
    report.add(
        kCheck, Level::kWarning, *text,
        "Tasks cannot be born in their cgroup (CLONE_INTO_CGROUP, Linux 5.7), which cgroup v2 needs for starts without a gap.",
        kMend);
  else if (*r < Release{5, 14})
    report.add(kCheck, Level::kNote, *text,
               "No cgroup.kill (Linux 5.14): a task that forks faster than it is killed takes several rounds to end.", kMend);
  else
    report.add(kCheck, Level::kOk, *text, "New enough for all that Bourse uses.");
}

void pids(const Host& host, Report& report) {
  if (const auto value = sysctl_number(host, "kernel.pid_max")) {
    const std::string found = std::to_string(*value);
    if (*value <= host.options.max_pids)
      report.add(
          "kernel.pid_max", Level::kWarning, found,
          "One slice may have " + std::to_string(host.options.max_pids) +
              " processes and threads (agent.max_pids), and so can use up the numbers of the whole host: then nothing forks.",
          set_sysctl("kernel.pid_max", std::to_string(kPidMax)));
    else
      report.add("kernel.pid_max", Level::kOk, found, "More than one slice alone can use up.");
  }
  if (const auto value = sysctl_number(host, "kernel.threads-max")) {
    const std::string found = std::to_string(*value);
    if (*value < kThreadsLeast)
      report.add("kernel.threads-max", Level::kWarning, found,
                 "All tasks of this host together may have only " + found + " threads; beyond that fork fails with EAGAIN.",
                 set_sysctl("kernel.threads-max", std::to_string(4 * kThreadsLeast)));
    else
      report.add("kernel.threads-max", Level::kOk, found, "Enough for all tasks together.");
  }
}

void open_files(const Host& host, Report& report) {
  const auto most = sysctl_number(host, "fs.file-max");
  if (!most) return;
  const std::string found = std::to_string(*most);
  const auto used_text = words_of(host.files.text("/proc/sys/fs/file-nr").value_or(""));
  const std::int64_t used = used_text.empty() ? 0 : whole_number(used_text[0]).value_or(0);
  if (used > *most / 10 * 8)
    report.add("fs.file-max", Level::kError, found,
               std::to_string(used) + " files are open already; at the limit every open on this host fails.",
               set_sysctl("fs.file-max", std::to_string(std::max(*most * 2, kFilesLeast * 5))));
  else if (*most < kFilesLeast)
    report.add("fs.file-max", Level::kWarning, found, "All tasks of this host together may have only " + found + " files open.",
               set_sysctl("fs.file-max", std::to_string(kFilesLeast * 5)));
  else
    report.add("fs.file-max", Level::kOk, found, std::to_string(used) + " are open.");
}

void pressure(const Host& host, Report& report) {
  // With psi=0 the files are there, but reading them fails.
  const auto text = host.files.text("/proc/pressure/memory");
  if (text && text->compare(0, 4, "some") == 0) {
    report.add("psi", Level::kOk, text->substr(0, text->find('\n')), "The kernel measures pressure.");
    return;
  }
  report.add("psi", Level::kWarning, host.files.exists("/proc/pressure") ? "disabled" : "absent",
             "The kernel does not measure pressure, so a host under memory pressure is not noticed and revocable tasks are not "
             "ended in time: "
             "do not turn oversubscription on.",
             "add psi=1 to the kernel's command line (GRUB_CMDLINE_LINUX in /etc/default/grub, then update-grub) and reboot");
}

void namespaces(const Host& host, Report& report) {
  std::string absent;
  for (const char* name : {"pid", "mnt", "ipc", "net", "user"})
    if (!host.files.exists("/proc/self/ns/" + std::string(name))) absent += (absent.empty() ? "" : " ") + std::string(name);
  if (!absent.empty()) {
    report.add("namespaces", Level::kWarning, "no " + absent,
               "This kernel lacks namespaces of these kinds; tasks share them with the host.",
               "use a kernel built with CONFIG_NAMESPACES");
    return;
  }
  const auto most = sysctl_number(host, "user.max_user_namespaces");
  const auto debian = sysctl_number(host, "kernel.unprivileged_userns_clone");
  const auto apparmor = sysctl_number(host, "kernel.apparmor_restrict_unprivileged_userns");
  constexpr std::string_view kWhat =
      "The launcher makes namespaces as root and is not hindered; but users' own rootless containers (podman, apptainer) do not "
      "start "
      "inside tasks.";
  if (most && *most == 0)
    report.add("user.max_user_namespaces", Level::kNote, "0", std::string(kWhat), set_sysctl("user.max_user_namespaces", "15000"));
  else if (debian && *debian == 0)
    report.add("kernel.unprivileged_userns_clone", Level::kNote, "0", std::string(kWhat),
               set_sysctl("kernel.unprivileged_userns_clone", "1"));
  else if (apparmor && *apparmor == 1)
    report.add("kernel.apparmor_restrict_unprivileged_userns", Level::kNote, "1", std::string(kWhat),
               set_sysctl("kernel.apparmor_restrict_unprivileged_userns", "0"));
  else
    report.add("user.max_user_namespaces", Level::kOk, most ? std::to_string(*most) : "not limited",
               "All kinds of namespaces can be made, also by users.");
}

void seccomp(const Host& host, Report& report) {
  const auto actions = sysctl_text(host, "kernel.seccomp.actions_avail");
  if (actions)
    report.add("kernel.seccomp.actions_avail", Level::kOk, *actions, "System calls of tasks can be filtered.");
  else
    report.add("kernel.seccomp.actions_avail", Level::kWarning, "absent", "System calls of tasks cannot be filtered.",
               "use a kernel built with CONFIG_SECCOMP_FILTER");
}

}  // namespace

void kernel(const Host& host, Report report) {
  release(host, report);
  pids(host, report);
  open_files(host, report);
  pressure(host, report);
  namespaces(host, report);
  seccomp(host, report);
}

}  // namespace bourse::doctor
