// A munged of a test's own, in a directory of its own, ended with it.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

extern char** environ;

namespace bourse::test {

class Munged {
 public:
  Munged() {
    if (mkdtemp(dir_.data()) == nullptr) std::abort();
    chmod(dir_.c_str(), 0755);
    std::ofstream(dir_ + "/key") << std::string(64, 'k') << getpid();
    chmod((dir_ + "/key").c_str(), 0600);
    const std::string socket = "--socket=" + socket_path(), key = "--key-file=" + dir_ + "/key",
                      log = "--log-file=" + dir_ + "/log", file = "--pid-file=" + dir_ + "/pid",
                      seed = "--seed-file=" + dir_ + "/seed";
    const char* const argv[] = {"munged",    "--foreground", "--force",    socket.c_str(), key.c_str(),
                                log.c_str(), file.c_str(),   seed.c_str(), nullptr};
    posix_spawn_file_actions_t quiet;
    posix_spawn_file_actions_init(&quiet);
    posix_spawn_file_actions_addopen(&quiet, 2, "/dev/null", O_WRONLY, 0);
    if (posix_spawn(&pid_, kProgram, &quiet, nullptr, const_cast<char* const*>(argv), environ) != 0) pid_ = 0;
    posix_spawn_file_actions_destroy(&quiet);
    for (int i = 0; pid_ != 0 && i < 400 && access(socket_path().c_str(), F_OK) != 0; ++i) usleep(50'000);
  }
  ~Munged() {
    if (pid_ != 0) {
      kill(pid_, SIGTERM);
      waitpid(pid_, nullptr, 0);
    }
    std::filesystem::remove_all(dir_);
  }
  Munged(const Munged&) = delete;
  Munged& operator=(const Munged&) = delete;
  static bool installed() { return access(kProgram, X_OK) == 0; }
  [[nodiscard]] std::string socket_path() const { return dir_ + "/socket"; }

 private:
  static constexpr const char* kProgram = "/usr/sbin/munged";
  std::string dir_ = "/tmp/bourse-munged-XXXXXX";
  pid_t pid_ = 0;
};

}  // namespace bourse::test
