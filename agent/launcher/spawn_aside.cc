#include "agent/launcher/spawn_aside.h"

#include <signal.h>
#include <spawn.h>

#include <cstdio>
#include <cstring>

extern char** environ;

namespace bourse::launcher {

void spawn_aside(const std::vector<std::string>& words) {
  std::vector<char*> argv;
  for (const auto& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, argv[0], nullptr, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  if (error == 0) return;
  std::string line;
  for (const auto& word : words) line += (line.empty() ? "" : " ") + word;
  std::fprintf(stderr, "bourse-launcher: cannot be started: %s: %s\n", line.c_str(), std::strerror(error));
}

}  // namespace bourse::launcher
