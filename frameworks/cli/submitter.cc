#include "frameworks/cli/submitter.h"

#include <fmt/format.h>
#include <pwd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

#include "common/world/reactor.h"

extern char** environ;

namespace bourse::cli {
namespace {

constexpr std::array kLimits = {RLIMIT_CORE,  RLIMIT_DATA, RLIMIT_FSIZE, RLIMIT_MEMLOCK, RLIMIT_NOFILE,
                                RLIMIT_NPROC, RLIMIT_RSS,  RLIMIT_STACK, RLIMIT_AS};

}  // namespace

Submitter this_process() {
  Submitter who;
  who.uid = getuid(), who.gid = getgid();
  if (const passwd* entry = getpwuid(who.uid)) who.user = entry->pw_name;
  std::array<char, 4096> directory{};
  // The shell's name for it (with its symbolic links) is the one the user expects to see again.
  const char* pwd = std::getenv("PWD");
  struct stat a {
  }, b{};
  if (pwd != nullptr && stat(pwd, &a) == 0 && stat(".", &b) == 0 && a.st_ino == b.st_ino && a.st_dev == b.st_dev)
    who.directory = pwd;
  else if (getcwd(directory.data(), directory.size()) != nullptr)
    who.directory = directory.data();
  for (char** variable = environ; *variable != nullptr; ++variable) who.environment.emplace_back(*variable);
  who.umask = umask(0);
  umask(who.umask);
  for (const auto limit : kLimits) {
    rlimit value{};
    if (getrlimit(limit, &value) == 0) who.rlimits.push_back({static_cast<std::int32_t>(limit), value.rlim_cur, value.rlim_max});
  }
  who.wall_now = real_time().wall;
  return who;
}

std::string submission_key() {
  std::array<char, 64> host{};
  gethostname(host.data(), host.size() - 1);
  return fmt::format("{}.{}.{}", host.data(), getpid(), real_time().wall.count());
}

}  // namespace bourse::cli
