#include "common/world/spawn.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <map>

extern char** environ;  // NOLINT: POSIX's own

namespace bourse {
namespace {

std::atomic<rlim_t> kept_descriptors{0};

// Everything the child needs, made before the fork: between fork and exec it must not allocate.
struct Plan {
  std::vector<std::string> text;  // owns what the pointers show
  std::vector<char*> argv, env;
  std::string program;
  const SpawnOptions* options = nullptr;
  rlim_t descriptors = 0;
  std::vector<int> moved;  // scratch for `pass`
};

struct Failure {  // what the child could not do, read by the parent from a pipe
  int code = 0;
  int step = 0;
};
constexpr const char* kSteps[] = {"", "chdir ", "open ", "open ", "open ", "pass descriptor to ", "exec "};

std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const char* path = getenv("PATH");  // NOLINT(concurrency-mt-unsafe)
  std::string list = path == nullptr ? "/usr/local/bin:/usr/bin:/bin" : path;
  for (std::size_t begin = 0; begin <= list.size();) {
    std::size_t end = list.find(':', begin);
    if (end == std::string::npos) end = list.size();
    const std::string candidate = list.substr(begin, end - begin) + "/" + name;
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
    begin = end + 1;
  }
  return name;
}

Plan make_plan(const SpawnOptions& options) {
  Plan plan;
  plan.options = &options;
  plan.program = find_program(options.argv.front());
  plan.descriptors = kept_descriptors;
  plan.moved.resize(options.pass.size());
  std::map<std::string, std::string> env;
  for (char** e = environ; e != nullptr && *e != nullptr; ++e) {
    const std::string item = *e;
    env[item.substr(0, item.find('='))] = item;
  }
  for (const std::string& item : options.env) {
    const auto equals = item.find('=');
    if (equals == std::string::npos) env.erase(item);
    if (equals != std::string::npos) env[item.substr(0, equals)] = item;
  }
  plan.text.reserve(options.argv.size() + env.size());  // pointers into it must stay
  for (const std::string& word : options.argv) plan.argv.push_back(plan.text.emplace_back(word).data());
  for (const auto& [name, item] : env) plan.env.push_back(plan.text.emplace_back(item).data());
  plan.argv.push_back(nullptr);
  plan.env.push_back(nullptr);
  return plan;
}

bool put_at(int fd, int number) {  // dup2 clears close-on-exec, but not onto itself
  if (fd == number) return fcntl(fd, F_SETFD, 0) == 0;
  return dup2(fd, number) == number;
}

bool open_at(const std::string& path, int flags, int number) {
  if (path.empty()) return true;
  const int fd = open(path.c_str(), flags, 0640);
  if (fd < 0) return false;
  if (fd == number) return true;
  const bool good = dup2(fd, number) == number;
  close(fd);
  return good;
}

// In the child. Only async-signal-safe calls. Returns the step that failed, with errno.
int prepare_and_exec(Plan& plan, int report) {
  const SpawnOptions& options = *plan.options;
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action {};
    action.sa_handler = SIG_DFL;
    sigaction(signal, &action, nullptr);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  if (options.own_session) setsid();
  if (options.death_signal != 0) prctl(PR_SET_PDEATHSIG, options.death_signal);
  if (plan.descriptors != 0) {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
      limit.rlim_cur = std::min(plan.descriptors, limit.rlim_max);
      setrlimit(RLIMIT_NOFILE, &limit);
    }
  }
  // Out of the way first, so that one target cannot overwrite another's source.
  for (std::size_t i = 0; i < options.pass.size(); ++i) {
    plan.moved[i] = fcntl(options.pass[i].first, F_DUPFD_CLOEXEC, 200);
    if (plan.moved[i] < 0) return 5;
  }
  if (!open_at(options.stdin_path, O_RDONLY, 0)) return 2;
  if (!open_at(options.stdout_path, O_WRONLY | O_CREAT | O_APPEND, 1)) return 3;
  if (!open_at(options.stderr_path, O_WRONLY | O_CREAT | O_APPEND, 2)) return 4;
  syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC);
  for (std::size_t i = 0; i < options.pass.size(); ++i)
    if (options.pass[i].second == report || !put_at(plan.moved[i], options.pass[i].second)) return 5;
  if (!options.directory.empty() && chdir(options.directory.c_str()) != 0) return 1;
  execve(plan.program.c_str(), plan.argv.data(), plan.env.data());
  return 6;
}

[[noreturn]] void run_child(Plan& plan, int report) {
  Failure failure;
  failure.step = prepare_and_exec(plan, report);
  failure.code = errno;
  (void)!write(report, &failure, sizeof failure);
  _exit(127);
}

Result<pid_t> start(const SpawnOptions& options, bool detached) {
  if (options.argv.empty()) return Error(Code::kInvalid, "no program to start");
  Plan plan = make_plan(options);
  int pipe_fds[2];
  if (pipe2(pipe_fds, O_CLOEXEC) != 0) return errno_error("pipe");
  const int report = fcntl(pipe_fds[1], F_DUPFD_CLOEXEC, 100);  // above what `pass` names
  close(pipe_fds[1]);
  if (report < 0) {
    close(pipe_fds[0]);
    return errno_error("pipe");
  }
  // No handler of ours may run in the child.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pid_t pid = fork();
  if (pid == 0) {
    if (detached) {
      setsid();
      const pid_t grandchild = fork();
      if (grandchild > 0) _exit(0);
      const pid_t me = grandchild < 0 ? -1 : getpid();
      (void)!write(report, &me, sizeof me);
      if (grandchild < 0) _exit(1);
    }
    run_child(plan, report);
  }
  const int code = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  close(report);
  if (pid < 0) {
    close(pipe_fds[0]);
    errno = code;
    return errno_error("fork");
  }
  const auto read_all = [&](void* into, std::size_t size) {
    std::size_t got = 0;
    while (got < size) {
      const ssize_t n = read(pipe_fds[0], static_cast<char*>(into) + got, size - got);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;
      got += static_cast<std::size_t>(n);
    }
    return got == size;
  };
  const auto reap = [child = pid] {
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  };
  Failure failure;
  bool lost = false;
  if (detached) {
    lost = !read_all(&pid, sizeof pid) || pid < 0;
    reap();
  }
  const bool failed = !lost && read_all(&failure, sizeof failure);
  if (failed && !detached) reap();
  close(pipe_fds[0]);
  if (lost) return Error(Code::kIo, "fork: the intermediate process failed");
  if (!failed) return pid;
  const std::string what[] = {
      "", options.directory, options.stdin_path, options.stdout_path, options.stderr_path, options.argv.front(), plan.program};
  errno = failure.code;
  return errno_error(kSteps[failure.step] + what[failure.step]);
}

}  // namespace

void spawn_keeps_descriptor_limit(rlim_t soft) {
  rlim_t none = 0;
  kept_descriptors.compare_exchange_strong(none, soft);
}

Result<pid_t> spawn(const SpawnOptions& options) { return start(options, false); }
Result<pid_t> spawn_detached(const SpawnOptions& options) { return start(options, true); }

std::string own_directory() {
  char path[PATH_MAX];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof path);
  if (n <= 0) return ".";
  const std::string text(path, static_cast<std::size_t>(n));
  return text.substr(0, text.rfind('/'));
}

std::string slurm_commands_directory() {
  const std::string own = own_directory();
  for (const std::string& directory : {own + "/slurm", own + "/../libexec/bourse/slurm"})
    if (access((directory + "/srun").c_str(), X_OK) == 0) return std::filesystem::weakly_canonical(directory).string();
  return "";
}

}  // namespace bourse
