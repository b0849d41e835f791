// The filter of system calls: see confine.h. The only user of libseccomp, so that the agent need not link it.
#include <seccomp.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "agent/launcher/confine.h"
#include "common/core/hooks.h"

namespace bourse::launcher {

namespace {

int filter_file = -1;

}  // namespace

Result<const std::vector<sock_filter>*> seccomp_filter() {
  static std::vector<sock_filter> program;
  if (!program.empty()) return &program;
  scmp_filter_ctx context = seccomp_init(SCMP_ACT_ALLOW);
  if (context == nullptr) return Error(Code::kLimit, "libseccomp: no memory");
  // A tree instead of a list: at each attachment the kernel tries the filter on every system call that there is, with interrupts off.
  (void)seccomp_attr_set(context, SCMP_FLTATR_CTL_OPTIMIZE, 2);
  const int file = memfd_create("seccomp", MFD_CLOEXEC);
  int error = file < 0 ? errno : 0;
  for (const char* name : seccomp_denied()) {
    if (hooks::mutant("launcher.no_seccomp")) break;
    const int call = seccomp_syscall_resolve_name(name);
    if (call == __NR_SCMP_ERROR) continue;  // not a call of this architecture
    if (error == 0) error = -seccomp_rule_add(context, SCMP_ACT_ERRNO(EPERM), call, 0);
  }
  if (error == 0) error = -seccomp_export_bpf(context, file);
  seccomp_release(context);
  const off_t size = error == 0 ? lseek(file, 0, SEEK_END) : 0;
  if (error == 0 && size > 0) {
    program.resize(static_cast<std::size_t>(size) / sizeof(sock_filter));
    if (pread(file, program.data(), static_cast<std::size_t>(size), 0) != size) program.clear();
  }
  if (program.empty() && file >= 0) close(file);
  if (!program.empty()) filter_file = file;
  if (program.empty()) return Error(Code::kIo, "the filter of system calls cannot be made: error " + std::to_string(error));
  return &program;
}

int seccomp_file() { return filter_file; }

}  // namespace bourse::launcher
