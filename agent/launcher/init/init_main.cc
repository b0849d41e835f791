// bourse-init: the parent of a task in a PID namespace. Run by the launcher's child, as root; drops to the user at once.
//
//   P  this process, outside the namespace: passes on signals that the launcher sends to the task's first process, and ends as the
//      task ended, by the same signal or with the same code, so that whoever waits for it learns the truth
//   I    process 1 in the namespace: mounts /proc, reaps orphans, ends with the task, and the kernel ends the rest
//   T      the task
// A process 1 ignores signals it has no handler for, even SIGKILL of its own: so it cannot be the task. See "Keeper".
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/launcher/init.h"

namespace {

using bourse::launcher::kPassOn;

struct Arguments {
  bool privileged = false;
  uid_t uid = 0;
  bool drop_capabilities = false;
  uint64_t capabilities = 0;  // that stay
  int seccomp = -1;           // descriptor of the filter's instructions
  char** programs = nullptr;
  int program_count = 0;
  char** argv = nullptr;
};

[[noreturn]] void fail(const char* what, const char* which = "") {
  fprintf(stderr, "bourse-init: %s%s: %s\n", what, which, strerror(errno));
  _exit(127);
}

// bourse-init UID|- SECCOMP-FD|- CAPABILITIES|- COUNT PROGRAM... ARGV...
Arguments parse(int argc, char** argv) {
  Arguments out;
  if (argc < 7) {
    fputs("bourse-init is run by bourse-launcher\n", stderr);
    _exit(2);
  }
  if (strcmp(argv[1], "-") != 0) {
    out.privileged = true;
    out.uid = static_cast<uid_t>(strtoul(argv[1], nullptr, 10));
  }
  if (strcmp(argv[2], "-") != 0) out.seccomp = atoi(argv[2]);
  if (strcmp(argv[3], "-") != 0) {
    out.drop_capabilities = true;
    out.capabilities = strtoull(argv[3], nullptr, 10);
  }
  out.program_count = atoi(argv[4]);
  if (out.program_count < 1 || argc < 6 + out.program_count) _exit(2);
  out.programs = argv + 5;
  out.argv = argv + 5 + out.program_count;
  return out;
}

void become_user(const Arguments& arguments) {
  if (arguments.privileged && syscall(SYS_setresuid, arguments.uid, arguments.uid, arguments.uid) != 0) fail("setresuid");
}

void filter_calls(int file) {
  if (file < 0) return;
  static sock_filter instructions[BPF_MAXINSNS];
  const ssize_t size = pread(file, instructions, sizeof instructions, 0);
  const sock_fprog program = {static_cast<unsigned short>(size / static_cast<ssize_t>(sizeof *instructions)), instructions};
  if (size <= 0 || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0) fail("seccomp");
  close(file);
}

[[noreturn]] void run_task(const Arguments& arguments) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  if (setsid() < 0) fail("setsid");
  filter_calls(arguments.seccomp);
  for (int one = 0; arguments.drop_capabilities && one < 64; ++one) {
    if ((arguments.capabilities >> one & 1) != 0 || prctl(PR_CAPBSET_DROP, one, 0, 0, 0) == 0) continue;
    if (errno == EINVAL) break;  // there are no more
    fail("capabilities");
  }
  become_user(arguments);
  const std::vector<char*> environment = bourse::launcher::task_environment(environ);
  int worst = ENOENT;
  for (int i = 0; i < arguments.program_count; ++i) {
    execve(arguments.programs[i], arguments.argv, environment.data());
    if (errno == ENOENT || errno == ENOTDIR) continue;
    worst = errno;
    if (errno != EACCES) break;
  }
  errno = worst;
  fail("exec ", arguments.argv[0]);
}

[[noreturn]] void be_first(const Arguments& arguments, int report, int signals) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_NAME, "bourse-init");
  if (arguments.privileged && mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0) fail("mount /proc");
  const pid_t task = fork();
  if (task < 0) fail("fork");
  if (task == 0) run_task(arguments);
  become_user(arguments);
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // a change of the user takes it away
  if (getppid() != 0) _exit(0);      // 0: a parent outside the namespace; else it is gone already
  if (arguments.seccomp >= 0) close(arguments.seccomp);
  for (;;) {
    int status = 0;
    const pid_t pid = waitpid(-1, &status, WNOHANG);
    if (pid == task || (pid < 0 && errno == ECHILD)) {
      (void)!write(report, &status, sizeof status);
      _exit(0);
    }
    if (pid > 0) continue;
    signalfd_siginfo info{};
    if (read(signals, &info, sizeof info) != sizeof info) continue;
    if (info.ssi_code == SI_QUEUE && info.ssi_int == kPassOn) kill(task, static_cast<int>(info.ssi_signo));
  }
}

[[noreturn]] void end_as(int status) {
  if (WIFEXITED(status)) _exit(WEXITSTATUS(status));
  const int signal = WTERMSIG(status);
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);  // the task has left its own
  ::signal(signal, SIG_DFL);
  sigset_t all;
  sigemptyset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  kill(getpid(), signal);
  _exit(128 + signal);
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = parse(argc, argv);
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  const int signals = signalfd(-1, &all, SFD_CLOEXEC);
  int report[2];
  if (signals < 0 || pipe2(report, O_CLOEXEC) != 0) fail("prepare");
  const pid_t first = fork();
  if (first < 0) fail("fork");
  if (first == 0) {
    close(report[0]);
    be_first(arguments, report[1], signals);
  }
  close(report[1]);
  become_user(arguments);
  prctl(PR_SET_NAME, "bourse-init");
  for (;;) {
    signalfd_siginfo info{};
    if (read(signals, &info, sizeof info) != sizeof info) continue;
    if (info.ssi_signo == SIGCHLD) {
      int status = 0;
      if (waitpid(first, &status, WNOHANG) != first) continue;
      int of_task = 0;
      if (read(report[0], &of_task, sizeof of_task) == sizeof of_task) end_as(of_task);
      end_as(status);  // it was killed before it could say
    }
    if (info.ssi_code != SI_QUEUE || info.ssi_int != kPassOn) continue;
    union sigval value {};
    value.sival_int = kPassOn;
    sigqueue(first, static_cast<int>(info.ssi_signo), value);
  }
}
