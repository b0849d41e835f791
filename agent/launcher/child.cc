#include "agent/launcher/child.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "agent/launcher/init.h"
#include "common/core/hooks.h"

namespace bourse::launcher {

namespace {

enum class Stage : std::uint8_t {
  kClone,
  kCgroup,
  kSession,
  kOom,
  kRlimit,
  kGroups,
  kDirectory,
  kStdin,
  kStdout,
  kStderr,
  kNamespaces,
  kTmp,
  kShm,
  kLoopback,
  kRecord,
  kPrivileges,
  kSeccomp,
  kUser,
  kInit,
  kExec
};

// What the child sees. Plain pointers only, made by the parent.
struct Plan {
  const int* zero_fds;
  std::size_t zero_count;
  const gid_t* groups;
  std::size_t group_count;
  bool privileged;
  uid_t uid;
  gid_t gid;
  mode_t umask;
  const char* directory;
  const char *in, *out, *err;  // null: /dev/null; err null: with out
  int out_flags, err_flags;
  bool record;
  int null_fd, log_fd;
  const char* prefix;
  std::size_t prefix_size;
  const char* suffix;
  std::size_t suffix_size;
  int namespaces;  // CLONE_NEW*
  bool tmp_in_memory;
  const char* tmp_dir;  // else null
  bool new_privileges, becomes_user, drop_capabilities;
  std::uint64_t capabilities;
  struct sock_fprog filter;  // len 0: none
  int init_file;             // executed instead of the programs; -1: none
  int filter_file;           // for an init, which takes it from kFilterFile; -1: none
  const char* oom;           // written to oom_score_adj; null: left as it is
  std::size_t oom_size;
  const Rlimit* rlimits;
  std::size_t rlimit_count;
  struct rlimit descriptors;
  char* const* argv;
  char* const* envp;
  const char* const* programs;  // tried in turn; ends in null
  std::int64_t ticks_per_second;
  // Written by the child.
  Stage stage;
  int error;
  bool recorded;
  std::int64_t ticks;
  char line[640];
};

// Raw, because the wrapper of glibc would make all threads of the process follow.
long raw(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0) { return syscall(number, a, b, c, d, e); }

[[noreturn]] void give_up(Plan& plan, Stage stage) {
  plan.stage = stage;
  plan.error = errno;
  _exit(127);
}

char* put_number(char* at, std::int64_t value) {
  char digits[24];
  int n = 0;
  do {
    digits[n++] = static_cast<char>('0' + value % 10);
    value /= 10;
  } while (value > 0);
  while (n > 0) *at++ = digits[--n];
  return at;
}

void write_record(Plan& plan) {
  struct timespec now {};
  clock_gettime(CLOCK_BOOTTIME, &now);
  plan.ticks = now.tv_sec * plan.ticks_per_second + now.tv_nsec / (1'000'000'000 / plan.ticks_per_second);
  char* at = plan.line;
  std::memcpy(at, plan.prefix, plan.prefix_size);
  at = put_number(at + plan.prefix_size, raw(SYS_getpid));
  *at++ = ' ';
  at = put_number(at, plan.ticks);
  std::memcpy(at, plan.suffix, plan.suffix_size);
  at += plan.suffix_size;
  if (!plan.record) return;
  const auto size = static_cast<std::size_t>(at - plan.line);
  const ssize_t n = write(plan.log_fd, plan.line, size);
  if (n == static_cast<ssize_t>(size)) {
    plan.recorded = true;
    return;
  }
  if (n > 0) (void)!write(plan.log_fd, "\n", 1);
  if (n >= 0) errno = ENOSPC;
  give_up(plan, Stage::kRecord);
}

// Not blocking in open: a pipe without a reader must not hold up the host. ENXIO tells of it.
int open_file(Plan& plan, const char* path, int flags, Stage stage) {
  const int fd = open(path, flags | O_NOCTTY | O_NONBLOCK | O_CLOEXEC, 0666);
  if (fd < 0 || fcntl(fd, F_SETFL, (flags & O_APPEND)) < 0) give_up(plan, stage);
  return fd;
}

void open_files(Plan& plan) {
  const int in = plan.in ? open_file(plan, plan.in, O_RDONLY, Stage::kStdin) : plan.null_fd;
  const int out = plan.out ? open_file(plan, plan.out, plan.out_flags, Stage::kStdout) : plan.null_fd;
  const int err = plan.err ? open_file(plan, plan.err, plan.err_flags, Stage::kStderr) : out;
  if (dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0) give_up(plan, Stage::kStdout);
}

// Nothing that is mounted here is seen outside, and it goes with the last process of the namespace. What the host mounts later is
// seen here.
void enter_namespaces(Plan& plan) {
  if (plan.namespaces == 0) return;
  if (plan.privileged) raw(SYS_setfsuid, 0);  // what is mounted is ours; the user may not be able to reach it
  if (unshare(plan.namespaces) < 0) give_up(plan, Stage::kNamespaces);
  if ((plan.namespaces & CLONE_NEWNS) != 0 && mount("none", "/", nullptr, MS_REC | MS_SLAVE, nullptr) < 0)
    give_up(plan, Stage::kNamespaces);
  constexpr unsigned long kFlags = MS_NOSUID | MS_NODEV;
  // Where one mount hides the directory itself, the other is taken from the first. A host need not have a /var/tmp.
  const char* from = plan.tmp_dir;
  for (const char* where : {"/var/tmp", "/tmp"}) {
    if (plan.tmp_in_memory && mount("tmpfs", where, "tmpfs", kFlags, "mode=1777") < 0 && errno != ENOENT)
      give_up(plan, Stage::kTmp);
    if (!from) continue;
    if (mount(from, where, nullptr, MS_BIND, nullptr) == 0) {
      from = where;
    } else if (errno != ENOENT) {
      give_up(plan, Stage::kTmp);
    }
  }
  if ((plan.namespaces & CLONE_NEWIPC) != 0 && mount("shm", "/dev/shm", "tmpfs", kFlags, "mode=1777") < 0)
    give_up(plan, Stage::kShm);
  if ((plan.namespaces & CLONE_NEWNET) == 0) return;
  struct ifreq loopback {};
  std::memcpy(loopback.ifr_name, "lo", 3);
  loopback.ifr_flags = IFF_UP;
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &loopback) < 0) give_up(plan, Stage::kLoopback);
  close(fd);
}

void filter_calls(Plan& plan) {
  if (plan.filter.len == 0) return;
  if (raw(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, reinterpret_cast<long>(&plan.filter)) < 0) give_up(plan, Stage::kSeccomp);
}

// A task of root gets back at exec what is in this set, and no more. One of a user has none, and with no_new_privs never gets any.
void drop_capabilities(Plan& plan) {
  for (int one = 0; one < 64; ++one) {
    if ((plan.capabilities >> one & 1) != 0) continue;
    if (prctl(PR_CAPBSET_DROP, one, 0, 0, 0) == 0) continue;
    if (errno == EINVAL) break;  // there are no more
    give_up(plan, Stage::kPrivileges);
  }
}

[[noreturn, gnu::noinline]] void child_main(Plan& plan) {
  for (std::size_t i = 0; i < plan.zero_count; ++i) {
    if (write(plan.zero_fds[i], "0", 1) != 1) give_up(plan, Stage::kCgroup);
  }
  if (setsid() < 0) give_up(plan, Stage::kSession);
  if (plan.oom != nullptr) {  // as root: nobody else may lower it again
    const int file = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (file < 0 || write(file, plan.oom, plan.oom_size) < 0) give_up(plan, Stage::kOom);
    close(file);
  }
  (void)setrlimit(RLIMIT_NOFILE, &plan.descriptors);
  for (std::size_t i = 0; i < plan.rlimit_count; ++i) {
    const struct rlimit limit { plan.rlimits[i].soft, plan.rlimits[i].hard };
    if (raw(SYS_setrlimit, plan.rlimits[i].resource, reinterpret_cast<long>(&limit)) < 0) give_up(plan, Stage::kRlimit);
  }
  umask(plan.umask);
  if (plan.privileged) {
    if (raw(SYS_setgroups, static_cast<long>(plan.group_count), reinterpret_cast<long>(plan.groups)) < 0 ||
        raw(SYS_setresgid, plan.gid, plan.gid, plan.gid) < 0) {
      give_up(plan, Stage::kGroups);
    }
    raw(SYS_setfsuid, plan.uid);
  }
  if (plan.directory && chdir(plan.directory) < 0) give_up(plan, Stage::kDirectory);
  open_files(plan);
  enter_namespaces(plan);
  if (!plan.new_privileges && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) give_up(plan, Stage::kPrivileges);
  write_record(plan);
  if (plan.filter_file >= 0 && dup2(plan.filter_file, kFilterFile) < 0) give_up(plan, Stage::kSeccomp);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  // Without no_new_privs only root may filter; with it the order does not matter.
  if (plan.becomes_user) filter_calls(plan);
  if (plan.drop_capabilities) drop_capabilities(plan);
  if (plan.privileged && plan.becomes_user && raw(SYS_setresuid, plan.uid, plan.uid, plan.uid) < 0) give_up(plan, Stage::kUser);
  if (plan.init_file >= 0) {  // not by its path, which a private /tmp could hide
    raw(SYS_execveat, plan.init_file, reinterpret_cast<long>(""), reinterpret_cast<long>(plan.argv),
        reinterpret_cast<long>(plan.envp), AT_EMPTY_PATH);
    give_up(plan, Stage::kInit);
  }
  int worst = ENOENT;
  for (const char* const* program = plan.programs; *program; ++program) {
    execve(*program, plan.argv, plan.envp);
    if (errno == ENOENT || errno == ENOTDIR) continue;
    worst = errno;
    if (errno != EACCES) break;
  }
  errno = worst;
  give_up(plan, Stage::kExec);
}

// As vfork(2), with a cgroup to be born in: the child runs on the parent's stack below this frame while the parent waits.
// The system call is made in place, since the child must not return through a wrapper's frame that it then overwrites.
[[gnu::noinline]] long clone_and_run(struct clone_args* args, Plan* plan) {
#if defined(__x86_64__)
  long result = SYS_clone3;
  asm volatile("syscall" : "+a"(result) : "D"(args), "S"(sizeof(struct clone_args)) : "rcx", "r11", "memory");
#elif defined(__aarch64__)
  register long number asm("x8") = SYS_clone3;
  register long result asm("x0") = reinterpret_cast<long>(args);
  register long size asm("x1") = sizeof(struct clone_args);
  asm volatile("svc #0" : "+r"(result) : "r"(number), "r"(size) : "memory");
#else
#error "clone3 in place is written for x86-64 and arm64 only"
#endif
  if (result == 0) child_main(*plan);
  return result;
}

const char* or_null(const std::string& text) { return text.empty() ? nullptr : text.c_str(); }

// argv[0] as execvp looks for it, in the task's own PATH.
std::vector<std::string> program_paths(const TaskSpec& spec) {
  const std::string& name = spec.argv.front();
  if (name.find('/') != std::string::npos) return {name};
  std::string path = "/usr/local/bin:/usr/bin:/bin";
  for (const auto& variable : spec.env) {
    if (variable.rfind("PATH=", 0) == 0) path = variable.substr(5);
  }
  std::vector<std::string> out;
  for (std::size_t at = 0; at <= path.size();) {
    const auto end = std::min(path.find(':', at), path.size());
    const std::string dir = path.substr(at, end - at);
    out.push_back((dir.empty() ? "." : dir) + "/" + name);
    at = end + 1;
  }
  return out;
}

// What is meant by ENOENT for a file that is there: the program that should run it is not.
std::string missing_interpreter(const std::string& program) {
  const int fd = open(program.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return {};
  char head[256] = {};
  const ssize_t n = read(fd, head, sizeof head - 1);
  close(fd);
  if (n >= 4 && std::memcmp(head, "\177ELF", 4) == 0) return "the loader it asks for does not exist on this host";
  if (n < 3 || head[0] != '#' || head[1] != '!') return {};
  std::string line(head + 2, std::strcspn(head + 2, "\n"));
  line.erase(0, line.find_first_not_of(" \t"));
  line.resize(std::min(line.size(), line.find_first_of(" \t")));
  const bool dos = !line.empty() && line.back() == '\r';
  if (dos) line.pop_back();
  return "its interpreter \"" + line + "\" does not exist on this host" +
         (dos ? "; the file has DOS line ends, which become part of that name" : "");
}

std::string describe(const Plan& plan, const TaskSpec& spec, const std::vector<std::string>& programs) {
  const std::string why = std::strerror(plan.error);
  switch (plan.stage) {
    case Stage::kClone:
      return "clone: " + why;
    case Stage::kCgroup:
      return "enter cgroup: " + why;
    case Stage::kSession:
      return "setsid: " + why;
    case Stage::kOom:
      return "set its oom_score_adj to " + std::string(plan.oom) + ": " + why;
    case Stage::kRlimit:
      return "set resource limits: " + why;
    case Stage::kGroups:
      return "set groups of gid " + std::to_string(spec.gid) + ": " + why;
    case Stage::kDirectory:
      return "chdir " + spec.directory + ": " + why;
    case Stage::kStdin:
      return "open input " + spec.stdin_path + ": " + why;
    case Stage::kStdout:
      return "open output " + spec.stdout_path + ": " + why;
    case Stage::kStderr:
      return "open error output " + spec.stderr_path + ": " + why;
    case Stage::kNamespaces:
      return "make its namespaces: " + why;
    case Stage::kTmp:
      return "mount its /tmp: " + why;
    case Stage::kShm:
      return "mount its /dev/shm: " + why;
    case Stage::kLoopback:
      return "bring up its loopback: " + why;
    case Stage::kSeccomp:
      return "filter its system calls: " + why;
    case Stage::kRecord:
      return "append to the exit log: " + why;
    case Stage::kPrivileges:
      return "drop privileges: " + why;
    case Stage::kUser:
      return "become uid " + std::to_string(spec.uid) + ": " + why;
    case Stage::kInit:
      return "exec bourse-init: " + why;
    case Stage::kExec:
      break;
  }
  const std::string& name = spec.argv.front();
  const std::string exec = "exec " + name + ": ";
  if (plan.error == ENOENT && (plan.tmp_in_memory || plan.tmp_dir != nullptr)) {
    for (const auto& program : programs)
      if (program.compare(0, 5, "/tmp/") == 0 || program.compare(0, 9, "/var/tmp/") == 0)
        return exec + "the host's /tmp and /var/tmp are hidden from a task with a private /tmp";
  }
  if (plan.error == ENOENT) {
    for (const auto& program : programs) {
      const bool relative = program.front() != '/';
      const std::string reason =
          missing_interpreter(relative && !spec.directory.empty() ? spec.directory + "/" + program : program);
      if (!reason.empty()) return exec + reason;
    }
    if (programs.size() > 1 || programs.front() != name) return exec + "not found in PATH";
  }
  if (plan.error == ENOEXEC) return exec + "neither a program for this host nor a script: it has no \"#!\" line";
  return exec + why;
}

}  // namespace

Launched launch(const Launch& what, LaunchFailed& failed) {
  const TaskSpec& spec = *what.spec;
  failed = {};
  if (spec.argv.empty() || spec.argv.front().empty()) {
    failed.reason = "there is no program to run: argv is empty";
    return {};
  }
  std::vector<char*> argv, envp;
  for (const auto& word : spec.argv) argv.push_back(const_cast<char*>(word.c_str()));
  const bool init = what.confine.pid && !what.stays_root;
  std::vector<std::string> guarded;  // see kVariable
  if ((init || what.stays_root) && !hooks::mutant("launcher.bare_environment")) {
    for (const auto& variable : spec.env) guarded.push_back(std::string(kVariable) + variable);
    for (const std::string name : {"BOURSE_CRASH_AT", "BOURSE_MUTANT"})  // ours reach it
      if (const char* value = std::getenv(name.c_str())) guarded.push_back(name + "=" + value);
  }
  for (const auto& variable : guarded.empty() ? spec.env : guarded) envp.push_back(const_cast<char*>(variable.c_str()));
  if (!what.marker.empty()) envp.push_back(const_cast<char*>(what.marker.c_str()));
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  const auto programs = program_paths(spec);
  std::vector<const char*> paths;
  for (const auto& program : programs) paths.push_back(program.c_str());
  paths.push_back(nullptr);

  // With an init the child executes that, which then tries the programs.
  const Confine& confine = what.confine;
  const std::vector<sock_filter>* filter = nullptr;
  if (confine.seccomp && !what.stays_root) {
    auto made = seccomp_filter();
    if (!made) {
      failed.reason = made.error().text();
      return {};
    }
    filter = *made;
  }
  struct File {
    int fd = -1;
    ~File() {
      if (fd >= 0) close(fd);
    }
  } init_file;
  if (init && (init_file.fd = open(what.init.c_str(), O_PATH | O_CLOEXEC)) < 0) {
    failed.reason = "open " + what.init + ": " + std::strerror(errno);
    return {};
  }
  BOURSE_ASSERT(init_file.fd != kFilterFile, "a launcher has that open for good");
  const bool drops = what.privileged && !confine.all_capabilities && (spec.uid == 0 || confine.new_privileges) && !what.stays_root;
  std::vector<std::string> init_words;
  if (init) {
    init_words = {what.init, what.privileged ? std::to_string(spec.uid) : "-", filter ? std::to_string(kFilterFile) : "-",
                  drops ? std::to_string(confine.capabilities) : "-", std::to_string(programs.size())};
    init_words.insert(init_words.end(), programs.begin(), programs.end());
    std::vector<char*> words;
    for (auto& word : init_words) words.push_back(word.data());
    argv.insert(argv.begin(), words.begin(), words.end());
  }

  const bool one_file = spec.stderr_path.empty() || spec.stderr_path == spec.stdout_path;
  const int flags = O_WRONLY | O_CREAT | (spec.append_output ? O_APPEND : O_TRUNC);
  static const long ticks_per_second = sysconf(_SC_CLK_TCK);
  Plan plan{};
  plan.zero_fds = what.entry.write_zero.data();
  plan.zero_count = what.entry.write_zero.size();
  plan.groups = what.groups.data();
  plan.group_count = what.groups.size();
  plan.privileged = what.privileged;
  plan.uid = spec.uid;
  plan.becomes_user = !init && !what.stays_root;
  plan.new_privileges = confine.new_privileges || what.stays_root;
  plan.drop_capabilities = drops && !init;
  plan.capabilities = confine.capabilities;
  plan.tmp_in_memory = confine.tmp == Confine::Tmp::kMemory && !what.stays_root;
  plan.tmp_dir = confine.tmp == Confine::Tmp::kDisk && !what.stays_root ? or_null(what.tmp_dir) : nullptr;
  plan.init_file = init_file.fd;
  plan.filter_file = -1;
  if (filter && init) plan.filter_file = seccomp_file();
  if (filter && !init) {
    plan.filter.len = static_cast<unsigned short>(filter->size());
    plan.filter.filter = const_cast<sock_filter*>(filter->data());
  }
  if (!what.stays_root) {
    const bool mounts = confine.pid || confine.ipc || plan.tmp_in_memory || plan.tmp_dir != nullptr;
    plan.namespaces = (mounts ? CLONE_NEWNS : 0) | (confine.pid ? CLONE_NEWPID : 0) | (confine.ipc ? CLONE_NEWIPC : 0) |
                      (confine.net ? CLONE_NEWNET : 0);
    if (hooks::mutant("launcher.no_namespaces")) plan.namespaces &= ~(CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWNET);
  }
  plan.gid = spec.gid;
  plan.umask = spec.umask;
  plan.directory = or_null(spec.directory);
  plan.in = or_null(spec.stdin_path);
  plan.out = or_null(spec.stdout_path);
  plan.err = one_file ? nullptr : or_null(spec.stderr_path);
  plan.out_flags = flags | (one_file ? O_APPEND : 0);
  plan.err_flags = flags;
  plan.record = !hooks::mutant("launcher.no_start_record");
  plan.null_fd = what.null_fd;
  plan.log_fd = what.log_fd;
  plan.prefix = what.record_prefix.data();
  plan.prefix_size = what.record_prefix.size();
  plan.suffix = what.record_suffix.data();
  plan.suffix_size = what.record_suffix.size();
  plan.oom = or_null(what.oom_score_adj);
  plan.oom_size = what.oom_score_adj.size();
  plan.rlimits = spec.rlimits.data();
  plan.rlimit_count = spec.rlimits.size();
  plan.descriptors = what.descriptors;
  plan.argv = argv.data();
  plan.envp = envp.data();
  plan.programs = paths.data();
  plan.ticks_per_second = ticks_per_second;
  BOURSE_ASSERT(plan.prefix_size + plan.suffix_size + 48 <= sizeof plan.line, what.record_prefix);

  struct clone_args args {};
  args.flags = CLONE_VM | CLONE_VFORK;
  args.exit_signal = SIGCHLD;
  if (what.entry.clone_into >= 0) {
    args.flags |= CLONE_INTO_CGROUP;
    args.cgroup = static_cast<std::uint64_t>(what.entry.clone_into);
  }
  const long pid = clone_and_run(&args, &plan);
  if (pid < 0) {
    plan.error = static_cast<int>(-pid);
    failed.leaf_gone = plan.error == ENODEV || plan.error == ENOENT;
    failed.reason = describe(plan, spec, programs);
    return {};
  }
  if (plan.error == 0) return {static_cast<pid_t>(pid), plan.ticks};
  int status = 0;
  while (waitpid(static_cast<pid_t>(pid), &status, 0) < 0 && errno == EINTR) {}
  failed.reason = describe(plan, spec, programs);
  failed.leaf_gone = plan.stage == Stage::kCgroup && (plan.error == ENODEV || plan.error == ENOENT);
  failed.recorded = plan.recorded ? static_cast<pid_t>(pid) : 0;
  return {};
}

}  // namespace bourse::launcher
