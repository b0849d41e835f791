#include "agent/launcher/confine.h"

#include <linux/capability.h>

#include <algorithm>
#include <cctype>
#include <charconv>

#include "common/core/hooks.h"

namespace bourse::launcher {

namespace {

constexpr const char* kCapabilities[] = {"chown",
                                         "dac_override",
                                         "dac_read_search",
                                         "fowner",
                                         "fsetid",
                                         "kill",
                                         "setgid",
                                         "setuid",
                                         "setpcap",
                                         "linux_immutable",
                                         "net_bind_service",
                                         "net_broadcast",
                                         "net_admin",
                                         "net_raw",
                                         "ipc_lock",
                                         "ipc_owner",
                                         "sys_module",
                                         "sys_rawio",
                                         "sys_chroot",
                                         "sys_ptrace",
                                         "sys_pacct",
                                         "sys_admin",
                                         "sys_boot",
                                         "sys_nice",
                                         "sys_resource",
                                         "sys_time",
                                         "sys_tty_config",
                                         "mknod",
                                         "lease",
                                         "audit_write",
                                         "audit_control",
                                         "setfcap",
                                         "mac_override",
                                         "mac_admin",
                                         "syslog",
                                         "wake_alarm",
                                         "block_suspend",
                                         "audit_read",
                                         "perfmon",
                                         "bpf",
                                         "checkpoint_restore"};

constexpr const char* kTmpWords[] = {"shared", "memory", "disk"};

}  // namespace

std::uint64_t usual_capabilities() {
  std::uint64_t set = 0;
  for (const int one : {CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER, CAP_FSETID, CAP_KILL, CAP_SETGID, CAP_SETUID, CAP_SETPCAP,
                        CAP_NET_BIND_SERVICE, CAP_SYS_CHROOT, CAP_AUDIT_WRITE, CAP_SETFCAP})
    set |= std::uint64_t{1} << one;
  return set;
}

Result<std::uint64_t> parse_capabilities(const std::vector<std::string>& names) {
  std::uint64_t set = 0;
  for (std::string name : names) {
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (name.compare(0, 4, "cap_") == 0) name.erase(0, 4);
    const auto* found = std::find(std::begin(kCapabilities), std::end(kCapabilities), name);
    if (found == std::end(kCapabilities)) return Error(Code::kInvalid, "`" + name + "' is not a capability; see capabilities(7)");
    set |= std::uint64_t{1} << (found - std::begin(kCapabilities));
  }
  return set;
}

std::vector<std::string> capability_names(std::uint64_t set) {
  std::vector<std::string> out;
  for (std::size_t one = 0; one < std::size(kCapabilities); ++one) {
    if ((set >> one & 1U) == 0) continue;
    std::string name = std::string("cap_") + kCapabilities[one];
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    out.push_back(std::move(name));
  }
  return out;
}

Result<> restrict(Confine& confine, std::string_view word) {
  if (word == "private-tmp" || word == "private-tmp=disk") {
    if (confine.tmp == Confine::Tmp::kShared) confine.tmp = Confine::Tmp::kDisk;
  } else if (word == "private-tmp=memory") {
    confine.tmp = Confine::Tmp::kMemory;
  } else if (word == "pid") {
    confine.pid = true;
  } else if (word == "ipc") {
    confine.ipc = true;
  } else if (word == "net") {
    confine.net = true;
  } else if (word == "seccomp") {
    confine.seccomp = true;
  } else {
    return Error(Code::kInvalid,
                 "`" + std::string(word.substr(0, 64)) +
                     "' is not a kind of isolation: there are private-tmp, private-tmp=memory, pid, ipc, net, seccomp");
  }
  return {};
}

std::string to_words(const Confine& confine) {
  std::string out;
  if (confine.tmp != Confine::Tmp::kShared) out += std::string(" tmp=") + kTmpWords[static_cast<int>(confine.tmp)];
  for (const auto& [word, on] : {std::pair{" pid", confine.pid}, std::pair{" ipc", confine.ipc}, std::pair{" net", confine.net},
                                 std::pair{" new-privileges", confine.new_privileges}, std::pair{" seccomp", confine.seccomp}})
    if (on) out += word;
  if (confine.image_bytes != 0) out += " image=" + std::to_string(confine.image_bytes);
  out += " caps=" + (confine.all_capabilities ? "all" : std::to_string(confine.capabilities));
  return out;
}

Result<> read_word(Confine& confine, std::string_view word) {
  const auto bad = [&] { return Error(Code::kCorrupt, "start: malformed \"" + std::string(word.substr(0, 32)) + "\""); };
  if (word.compare(0, 4, "tmp=") == 0) {
    const auto* found = std::find(std::begin(kTmpWords), std::end(kTmpWords), word.substr(4));
    if (found == std::end(kTmpWords)) return bad();
    confine.tmp = static_cast<Confine::Tmp>(found - std::begin(kTmpWords));
    return {};
  }
  const auto number = [&](std::string_view text, std::uint64_t& out) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
    return error == std::errc() && end == text.data() + text.size() ? Result<>() : bad();
  };
  if (word.compare(0, 6, "image=") == 0) return number(word.substr(6), confine.image_bytes);
  if (word.compare(0, 5, "caps=") == 0) {
    confine.all_capabilities = word.substr(5) == "all";
    return confine.all_capabilities ? Result<>() : number(word.substr(5), confine.capabilities);
  }
  if (word == "new-privileges") {
    confine.new_privileges = true;
    return {};
  }
  return word == "pid" || word == "ipc" || word == "net" || word == "seccomp" ? restrict(confine, word) : bad();
}

const std::vector<const char*>& seccomp_denied() {
  static const std::vector<const char*> names = {"acct",           "add_key",
                                                 "adjtimex",       "bpf",
                                                 "clock_adjtime",  "clock_settime",
                                                 "create_module",  "delete_module",
                                                 "finit_module",   "fsconfig",
                                                 "fsmount",        "fsopen",
                                                 "fspick",         "get_kernel_syms",
                                                 "init_module",    "ioperm",
                                                 "iopl",           "kexec_file_load",
                                                 "kexec_load",     "keyctl",
                                                 "lookup_dcookie", "mount",
                                                 "mount_setattr",  "move_mount",
                                                 "nfsservctl",     "open_by_handle_at",
                                                 "open_tree",      "perf_event_open",
                                                 "pivot_root",     "query_module",
                                                 "quotactl",       "quotactl_fd",
                                                 "reboot",         "request_key",
                                                 "setdomainname",  "sethostname",
                                                 "settimeofday",   "stime",
                                                 "swapoff",        "swapon",
                                                 "sysfs",          "syslog",
                                                 "umount",         "umount2",
                                                 "uselib",         "userfaultfd",
                                                 "ustat",          "vhangup"};
  return names;
}

}  // namespace bourse::launcher
