#include "frameworks/cli/credential.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "common/world/files.h"
#include "common/world/spawn.h"

extern char** environ;

namespace bourse::cli {
namespace {

// Beside this program, else where PATH says.
std::string maker() {
  const std::string beside = own_directory() + "/bourse";
  return access(beside.c_str(), X_OK) == 0 ? beside : "bourse";
}

struct Pipe {
  int read = -1, write = -1;
  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) == 0) read = ends[0], write = ends[1];
  }
  ~Pipe() { close_read(), close_write(); }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void close_read() {
    if (read >= 0) close(read);
    read = -1;
  }
  void close_write() {
    if (write >= 0) close(write);
    write = -1;
  }
};

}  // namespace

bool wants_credential(Code code, const std::string& reason) { return code == Code::kDenied && reason == batch::kCredentialNeeded; }

Result<> add_credential(batch::RequestBody& body) {
  batch::ToolRequest request;
  request.body = body;
  const std::string bytes = batch::encode(request);
  Pipe in, out;
  if (in.read < 0 || out.read < 0) return errno_error("pipe");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.read, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out.write, STDOUT_FILENO);
  const std::string program = maker();
  const char* const argv[] = {"bourse", "credential", nullptr};
  pid_t pid = 0;
  const int failure = posix_spawnp(&pid, program.c_str(), &actions, nullptr, const_cast<char* const*>(argv), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failure != 0) return Error(Code::kIo, "cannot run " + program + ": " + std::strerror(failure));
  in.close_read(), out.close_write();
  (void)write_all(in.write, bytes);  // that it failed, its status says; it reads all before it writes
  in.close_write();
  std::string made;
  std::array<char, 4096> buffer{};
  for (ssize_t n = 0; (n = read(out.read, buffer.data(), buffer.size())) > 0 && made.size() <= batch::kCredentialBytesMax;)
    made.append(buffer.data(), static_cast<std::size_t>(n));
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
  while (!made.empty() && made.back() == '\n') made.pop_back();
  if (status != 0 || made.empty()) return Error(Code::kDenied, "no credential could be made for it");  // bourse has said why
  if (auto* submit = std::get_if<batch::SubmitRequest>(&body)) submit->items.at(0).spec.credential = made;
  if (auto* step = std::get_if<batch::StepRequest>(&body)) step->credential = made;
  return {};
}

}  // namespace bourse::cli
