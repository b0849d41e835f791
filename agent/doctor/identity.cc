// Who users are: MUNGE, and the accounts that libvirt and we need. See "User identity".
#include "agent/doctor/check.h"

namespace bourse::doctor {

namespace {

// What the launcher asks of tasks' users; the usual place only. See bourse-launcher(8).
void launcher_rules(const Host& host, Report& report) {
  constexpr const char* kRules = "/etc/bourse/launcher.conf";
  const auto mode = host.files.mode(kRules);
  if (!mode) return;  // the default: a framework's word is taken
  if (mode->uid != 0 || (mode->bits & 0022U) != 0) {
    report.add("launcher.conf", Level::kError, mode->uid != 0 ? "uid " + std::to_string(mode->uid) : "writable",
               "Others than root can change what proof a task's user needs, so the launcher does not read it: no task is started.",
               std::string("chown root:root ") + kRules + " && chmod go-w " + kRules);
    return;
  }
  report.add("launcher.conf", Level::kOk, "present",
             "The launcher asks for proof of users as this file says, and only root can change it.");
}

}  // namespace

void identity(const Host& host, Report report) {
  launcher_rules(host, report);
  constexpr const char* kSocket = "/run/munge/munge.socket.2";
  constexpr const char* kKey = "/etc/munge/munge.key";
  const bool socket = host.files.exists(kSocket), runs = !host.files.processes("munged").empty();
  const auto key = host.files.mode(kKey);
  if (!socket && !runs && !key) {
    report.add("munge", Level::kNote, "absent",
               "Users are known by the local socket only: submit works on the host of the batch framework, and from other hosts "
               "not at all. "
               "Sites with several login hosts use MUNGE.",
               "apt-get install munge, and bring the same /etc/munge/munge.key to every host");
    return;
  }
  if (!runs || !socket)
    report.add("munge", Level::kWarning, runs ? "no socket" : "does not run",
               "MUNGE is installed but no credential can be made or checked: submits from other hosts are refused.",
               "systemctl enable --now munge");
  else
    report.add("munge", Level::kOk, "running", "Credentials of users can be made and checked.");
  if (!key) {
    report.add("munge.key", Level::kWarning, "absent", "munged does not start without its key.",
               "bring /etc/munge/munge.key from a host that has it (mode 0400, owner munge); on the first one: mungekey --create");
  } else if ((key->bits & 0077U) != 0) {
    char text[16];
    std::snprintf(text, sizeof text, "%04o", key->bits);
    report.add("munge.key", Level::kError, text,
               "Others than its owner can read the key, and so pretend to be any user on every host.",
               "chmod 0400 /etc/munge/munge.key; then make a new one and bring it to every host");
  } else {
    report.add("munge.key", Level::kOk, "present", "Only its owner can read it.");
  }
}

}  // namespace bourse::doctor
