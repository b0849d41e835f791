// Who users are: MUNGE, and the accounts that libvirt and we need. See "User identity".
#include "agent/doctor/check.h"

namespace bourse::doctor {

void identity(const Host& host, Report report) {
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
