// bourse-launcher: the small root program that starts tasks. Links neither ZeroMQ nor anything that parses the network.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "agent/launcher/keeper.h"
#include "agent/launcher/launcher.h"
#include "common/core/hooks.h"
#include "common/world/log.h"

namespace {

constexpr const char* kUsage =
    "usage: bourse-launcher --state DIR [--cgroup-root NAME] [--no-isolation] [--identity FILE] [--keeper]\n"
    "Starts tasks for bourse-agent. The agent runs it as: bourse-launcher --keeper --state DIR\n"
    "  --state DIR         where launcher.sock and the exit log are\n"
    "  --cgroup-root NAME  sub-group for all slices (default bourse)\n"
    "  --no-isolation      do not use cgroups\n"
    "  --identity FILE     what proof of its user a task needs\n"
    "  --keeper            be the parent of a launcher, and start it again when it ends\n";

bool parse_inherited(std::string_view text, bourse::launcher::Inherited& out) {
  for (int* fd : {&out.listener, &out.lock, &out.nudge}) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *fd);
    if (error != std::errc() || *fd < 3) return false;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (!text.empty() && text.front() == ',') text.remove_prefix(1);
  }
  return text.empty();
}

int usage(const std::string& why) {
  std::fprintf(stderr, "bourse-launcher: %s\n%s", why.c_str(), kUsage);
  return 2;
}

// 0, 1 and 2 are open, and what we inherited from whoever started the agent does not reach tasks.
void settle() {
  for (int fd = open("/dev/null", O_RDWR); fd >= 0; fd = open("/dev/null", O_RDWR)) {
    if (fd <= 2) continue;
    close(fd);
    break;
  }
  for (int s = 1; s < NSIG; ++s) signal(s, SIG_DFL);
  umask(022);
  (void)!chdir("/");
}

}  // namespace

int main(int argc, char** argv) {
  bourse::log_init("bourse-launcher", bourse::LogLevel::kInfo);
  bourse::launcher::Options options;
  bool keeper = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const bool more = i + 1 < argc;
    if (word == "--help") {
      std::fputs(kUsage, stdout);
      return 0;
    } else if (word == "--version") {
      std::puts("bourse-launcher " BOURSE_VERSION);
      return 0;
    } else if (word == "--state" && more) {
      options.state_dir = argv[++i];
    } else if (word == "--cgroup-root" && more) {
      options.cgroup_root = argv[++i];
    } else if (word == "--identity" && more) {
      options.identity = argv[++i];
    } else if (word == "--inherit" && more) {
      if (!parse_inherited(argv[++i], options.inherited)) return usage("--inherit is for its own use");
    } else if (word == "--no-isolation") {
      options.isolation = false;
    } else if (word == "--keeper") {
      keeper = true;
    } else {
      return usage("unknown option or missing value: " + std::string(word));
    }
  }
  if (options.state_dir.empty() || options.state_dir.front() != '/') return usage("--state needs an absolute directory");
  const auto& root = options.cgroup_root;
  if (root.empty() ||
      root.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") != std::string::npos ||
      root.front() == '.') {
    return usage("--cgroup-root must be one plain name");
  }
  bourse::hooks::init(std::getenv("BOURSE_CRASH_AT"), std::getenv("BOURSE_MUTANT"));
  if (!bourse::hooks::active().empty()) {
    std::fprintf(stderr, "bourse-launcher: testing hooks are on: %s\n", bourse::hooks::active().c_str());
  }
  settle();
  // On its own it has no keeper; it makes itself one, which then starts the launcher.
  if (keeper || options.inherited.listener < 0) return bourse::launcher::run_keeper(options);
  return bourse::launcher::Launcher(options).run();
}
