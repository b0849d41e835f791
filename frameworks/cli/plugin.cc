// `bourse plugin`: what a plugin says of itself, whether it keeps to bourse/plugin.h, and which policies there are.
//
// Everything that runs a plugin's code runs in a child, so that a crash or an endless loop is a line in the report.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <functional>
#include <string>

#include "common/world/command_line.h"
#include "common/world/log.h"
#include "common/world/reactor.h"
#include "frameworks/cli/commands.h"
#include "frameworks/cli/complain.h"
#include "frameworks/cli/scratch.h"
#include "plugins/policy/builtin.h"
#include "plugins/policy/conformance.h"
#include "plugins/policy/loader.h"

namespace bourse::cli {

namespace {

constexpr const char* kProgram = "bourse plugin";

class Clocks final : public policy::Guard {
 public:
  void enter(const policy::Choice&) override {}
  void leave() override {}
  std::int64_t wall_ns() override { return read(CLOCK_MONOTONIC); }
  std::int64_t cpu_ns() override { return read(CLOCK_THREAD_CPUTIME_ID); }

 private:
  static std::int64_t read(clockid_t clock) {
    timespec t{};
    clock_gettime(clock, &t);
    return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
  }
};

// Runs `body` in a child that writes lines to us. How it ended: "" where it exited by itself; `last` is its last line.
struct Watched {
  std::string died;
  int status = 0;
};
Watched watch(Duration limit, const std::function<int(int fd)>& body, const std::function<void(const std::string& line)>& on_line) {
  int pipe_fds[2];
  Watched out;
  if (pipe2(pipe_fds, O_CLOEXEC) != 0) return {"pipe: " + std::string(std::strerror(errno)), 1};  // NOLINT(concurrency-mt-unsafe)
  std::fflush(nullptr);
  const pid_t pid = fork();
  if (pid < 0) return {"fork: " + std::string(std::strerror(errno)), 1};  // NOLINT(concurrency-mt-unsafe)
  if (pid == 0) {
    close(pipe_fds[0]);
    const rlimit none{0, 0};
    setrlimit(RLIMIT_CORE, &none);
    std::_Exit(body(pipe_fds[1]));
  }
  close(pipe_fds[1]);
  std::string rest;
  const Duration end = real_time().mono + limit;
  bool late = false;
  while (true) {
    const Duration left = end - real_time().mono;
    pollfd wait{pipe_fds[0], POLLIN, 0};
    const int ready = left > Duration{0} ? poll(&wait, 1, static_cast<int>(left.count() / 1000 + 1)) : 0;
    if (ready < 0 && errno == EINTR) continue;
    char buffer[4096];
    const ssize_t n = ready > 0 ? read(pipe_fds[0], buffer, sizeof buffer) : 0;
    if (ready <= 0) late = true;
    if (n <= 0) break;
    rest.append(buffer, static_cast<std::size_t>(n));
    for (std::size_t at = 0; (at = rest.find('\n')) != std::string::npos; rest.erase(0, at + 1)) on_line(rest.substr(0, at));
  }
  close(pipe_fds[0]);
  if (late) kill(pid, SIGKILL);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
  if (late) {
    out.died = "did not come back within " + format_duration(limit);
  } else if (WIFSIGNALED(status)) {
    out.died = "crashed: " + std::string(strsignal(WTERMSIG(status)));  // NOLINT(concurrency-mt-unsafe)
  }
  out.status = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
  return out;
}

void put(int fd, const std::string& line) {
  const std::string text = line + "\n";
  std::size_t at = 0;
  while (at < text.size()) {
    const ssize_t n = write(fd, text.data() + at, text.size() - at);
    if (n < 0 && errno != EINTR) return;
    if (n > 0) at += static_cast<std::size_t>(n);
  }
}

int info(const std::string& file) {
  bool any = false;
  const Scratch scratch;
  const Watched end = watch(
      seconds(20),
      [&](int fd) {
        auto plugin = Plugin::load(file, "", {kProgram, scratch.path});
        if (!plugin) {
          put(fd, "!" + plugin.error().text());
          return 1;
        }
        const bourse_plugin& e = (*plugin)->entry();
        put(fd, fmt::format("name       {}\nkind       {}\nversion    {}\nabi        {}.{}\ndigest     {}", e.name, e.kind,
                            e.version, e.abi_major, e.abi_minor, (*plugin)->digest()));
        if (auto found = (*plugin)->get(BOURSE_POLICY_1, sizeof(bourse_policy_1)); found) {
          const auto& t = *static_cast<const bourse_policy_1*>(*found);
          std::string can;
          for (const auto& [there, word] :
               {std::pair(t.rank != nullptr, "ranks"), std::pair(t.begin != nullptr, "walks"),
                std::pair(t.score != nullptr, "scores"), std::pair(t.feedback != nullptr, "hears feedback"),
                std::pair(t.save != nullptr, "keeps state")})
            if (there) can += (can.empty() ? "" : ", ") + std::string(word);
          put(fd, fmt::format("interface  {}: {}", BOURSE_POLICY_1, can));
        }
        return 0;
      },
      [&](const std::string& line) {
        any = true;
        if (line.starts_with("!"))
          fmt::print(stderr, "{}: {}\n", kProgram, line.substr(1));
        else
          fmt::print("{}\n", line);
      });
  if (!end.died.empty()) fmt::print(stderr, "{}: {} {}\n", kProgram, file, any ? "ended badly: " + end.died : end.died);
  return end.died.empty() ? end.status : 1;
}

int check(const std::string& spec_text, std::uint32_t snapshots, std::uint64_t seed, Duration budget, Duration limit) {
  const auto spec = policy::parse(spec_text);
  if (!spec) return complain(kProgram, spec.error(), 2);
  std::string running = "load: the file, its owner, its entry";
  std::uint32_t passed = 0, failed = 0;
  const Scratch scratch;
  const Watched end = watch(
      limit,
      [&](int fd) {
        Clocks clocks;
        policy::Loader loader(kProgram, scratch.path);
        log_init(kProgram, LogLevel::kError);
        put(fd, ">" + running);
        auto choice = loader.take(spec_text);
        if (!choice) {
          put(fd, "-" + choice.error().text());
          return 1;
        }
        put(fd, "+");
        policy::Conformance how;
        how.seed = seed;
        how.snapshots = snapshots;
        how.budget = budget;
        how.guard = &clocks;
        how.begins = [&](const std::string& name) { put(fd, ">" + name); };
        how.ends = [&](const std::string&, const std::string& why) { put(fd, why.empty() ? "+" : "-" + why); };
        return policy::check_policy(*choice, how) ? 0 : 1;
      },
      [&](const std::string& line) {
        if (line.starts_with(">")) running = line.substr(1);
        if (line.starts_with("+")) fmt::print("ok - {}\n", running), ++passed;
        if (line.starts_with("-")) fmt::print("not ok - {}: {}\n", running, line.substr(1)), ++failed;
        if (!line.starts_with(">")) running.clear();
        std::fflush(stdout);
      });
  if (!end.died.empty()) fmt::print("not ok - {}: {}\n", running.empty() ? "ending" : running, end.died), ++failed;
  fmt::print("{} passed, {} failed\n", passed, failed);
  return failed == 0 && end.status == 0 ? 0 : 1;
}

int list() {
  for (const policy::Builtin& builtin : policy::builtins()) fmt::print("{:<10} {}\n", builtin.name, builtin.help);
  return 0;
}

}  // namespace

int plugin_main(int argc, char** argv) {
  CommandLine app("Shows and checks plugins. See bourse-policy(7).", kProgram);
  std::string word, file, budget = "50ms", limit = "5m";
  std::uint32_t snapshots = 10'000;
  std::uint64_t seed = 1;
  app.option("action", word, "check, info or list").required().one_of({"check", "info", "list"}).shown_as("check|info|list");
  app.option("file", file, "the plugin, or a policy's name; with :key=value,... its parameters").shown_as("FILE.so");
  app.option("--snapshots", snapshots, "random snapshots of a cluster to try (10000)").shown_as("N");
  app.option("--seed", seed, "of what is random").shown_as("N");
  app.option("--budget", budget, "time for one ranking, scoring or walk (50ms)").shown_as("TIME");
  app.option("--limit", limit, "time for all of it, after which it counts as looping (5m)").shown_as("TIME");
  if (const int status = app.parse(argc, argv); status >= 0) return status;
  const auto budget_time = parse_duration(budget), limit_time = parse_duration(limit);
  if (!budget_time) return complain(kProgram, budget_time.error(), 2);
  if (!limit_time) return complain(kProgram, limit_time.error(), 2);
  if (word == "list") return list();
  if (file.empty()) return complain(kProgram, Error(Code::kInvalid, word + " needs a file"), 2);
  // A file beside us is a path too; only names of policies that come with us are not.
  const std::string name = file.substr(0, file.find(':'));
  if (name.find('/') == std::string::npos && (word == "info" || policy::find_builtin(name) == nullptr)) file.insert(0, "./");
  return word == "info" ? info(file) : check(file, snapshots, seed, *budget_time, *limit_time);
}

}  // namespace bourse::cli
