#include "agent/microvm/park.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "agent/microvm/running_guest.h"

namespace bourse::microvm {
namespace {

constexpr int kAnswerMs = 5'000;
constexpr std::string_view kClaim = "claim", kYes = "yes";

// A socket, listening at `path` or connected to who does.
Result<int> at_socket(const std::string& path, bool listens) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return Error(Code::kInvalid, path + " is too long for a socket");
  std::memcpy(address.sun_path, path.data(), path.size());
  const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno_error("socket");
  const auto* name = reinterpret_cast<const sockaddr*>(&address);
  bool fine = false;
  if (listens) {
    unlink(path.c_str());
    const mode_t mask = umask(0077);
    fine = bind(fd, name, sizeof address) == 0 && listen(fd, 4) == 0;
    umask(mask);
  } else {
    fine = connect(fd, name, sizeof address) == 0;
  }
  if (fine) return fd;
  Error error = errno_error(path);
  close(fd);
  return error;
}

bool tell(int peer, std::string_view text) {
  return send(peer, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
}
std::string hear(int peer) {
  char text[512];
  pollfd wait{peer, POLLIN, 0};
  const ssize_t n = poll(&wait, 1, kAnswerMs) > 0 ? recv(peer, text, sizeof text, 0) : -1;
  return n > 0 ? std::string(text, static_cast<std::size_t>(n)) : std::string();
}

struct Peer {
  int fd = -1;
  ~Peer() {
    if (fd >= 0) close(fd);
  }
};

Result<> hold(const Arguments& arguments) {
  // Who clears up after dead agents sees by it that the directory is in use.
  const Peer lock{open(arguments.scratch.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (lock.fd < 0 || flock(lock.fd, LOCK_EX | LOCK_NB) != 0) return errno_error("lock " + arguments.scratch);
  RunningGuest guest(arguments);
  if (!BOURSE_TRY(guest.boot_ahead(STDIN_FILENO))) return {};
  Peer listener{BOURSE_TRY(at_socket(arguments.park, true))};
  std::printf("ready %d\n", guest.emulator());
  std::fflush(stdout);
  Peer claimer;
  while (claimer.fd < 0) {
    pollfd fds[4] = {
        {STDIN_FILENO, POLLIN, 0}, {listener.fd, POLLIN, 0}, {guest.ending(), POLLIN, 0}, {guest.console(), POLLIN, 0}};
    if (poll(fds, 4, -1) < 0) continue;
    char byte = 0;
    if (fds[0].revents != 0 && read(STDIN_FILENO, &byte, 1) <= 0) break;
    if (fds[2].revents != 0) {
      guest.has_ended();
      unlink(arguments.park.c_str());
      return Error(Code::kGone, "the guest ended while it waited");
    }
    if (fds[3].revents != 0) guest.read_console();
    if (fds[1].revents == 0) continue;
    const int peer = accept4(listener.fd, nullptr, nullptr, SOCK_CLOEXEC);
    if (peer < 0) continue;
    if (tell(peer, guest.place()) && hear(peer) == kClaim) {
      claimer.fd = peer;
    } else {
      close(peer);
    }
  }
  unlink(arguments.park.c_str());
  if (claimer.fd < 0) return {};
  guest.let_go_console();
  if (!tell(claimer.fd, kYes)) return {};
  pollfd fds[2] = {{claimer.fd, POLLIN, 0}, {guest.ending(), POLLIN, 0}};
  while (poll(fds, 2, -1) <= 0) {}
  if (fds[1].revents != 0) guest.has_ended();
  return {};
}

}  // namespace

int park(const Arguments& arguments) {
  (void)sweep(arguments.uri);  // what another holder, killed, has left
  if (auto held = hold(arguments); !held) {
    std::fprintf(stderr, "bourse-microvm: %s\n", held.error().text().c_str());
    return kFailed;
  }
  return 0;
}

std::optional<int> claim(const Arguments& arguments, char** env) {
  auto socket = at_socket(arguments.warm, false);
  if (!socket) return std::nullopt;
  const Peer holder{*socket};
  const auto task = task_of(arguments, env);
  if (!task || claim_text(*task).size() > kClaimMax) return std::nullopt;
  RunningGuest guest(arguments);
  if (!guest.find(hear(holder.fd))) return std::nullopt;
  if (!tell(holder.fd, kClaim) || hear(holder.fd) != kYes) return std::nullopt;
  if (auto taken = guest.take(*task); !taken) {
    std::fprintf(stderr, "bourse-microvm: %s\n", taken.error().text().c_str());
    return kFailed;
  }
  return guest.wait();
}

}  // namespace bourse::microvm
