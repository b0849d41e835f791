#include "agent/container/park.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "agent/isolators/cgroup_files.h"
#include "agent/launcher/confine.h"
#include "common/core/hooks.h"

namespace bourse::container {
namespace {

constexpr int kFailed = 125;
constexpr const char* kFree = ".free";  // wait.c's
constexpr int kAnswerMs = 2000;         // for a claimer to say that it is one
constexpr int kEndMs = 2000;            // for the container to end by itself

std::string why(const char* what) { return std::string(what) + ": " + std::strerror(errno); }

bool address_of(const std::string& path, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return false;
  std::memcpy(address.sun_path, path.data(), path.size());
  return true;
}

// The first word of bourse-wait, and its pid. False: the other side is gone, or it said something else.
bool hear_waiter(int from, pid_t* sender) {
  char word[2] = {}, control[256];
  iovec part{word, sizeof word};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  ssize_t size = 0;
  while ((size = recvmsg(from, &header, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR) {}
  if (size != 1 || word[0] != 'R') return false;
  for (cmsghdr* each = CMSG_FIRSTHDR(&header); each != nullptr; each = CMSG_NXTHDR(&header, each)) {
    if (each->cmsg_level != SOL_SOCKET || each->cmsg_type != SCM_CREDENTIALS) continue;
    ucred who{};
    std::memcpy(&who, CMSG_DATA(each), sizeof who);
    *sender = who.pid;
  }
  return *sender > 0;
}

// What a claimer has to know, in a file that says by being there that the container is to be had: struct waiter of wait.c, and the filter
// that the container's process has.
Result<> offer(const std::string& path, pid_t inside) {
  const std::vector<sock_filter> none;
  const auto* filter = hooks::mutant("container.no_seccomp") ? &none : BOURSE_TRY(launcher::seccomp_filter());
  const auto stat = cgroup::read_file("/proc/" + std::to_string(inside) + "/stat");
  // Field 22 of proc(5)'s stat, counted from the last ')' as the command before it may hold anything.
  std::size_t at = stat ? stat->rfind(')') : std::string::npos;
  for (int field = 2; field < 22 && at != std::string::npos; ++field) at = stat->find(' ', at + 1);
  if (at == std::string::npos) return Error(Code::kGone, "the container has ended");
  const std::uint64_t started = std::strtoull(stat->c_str() + at, nullptr, 10);
  const std::int32_t pid = inside;
  const auto instructions = static_cast<std::uint32_t>(filter->size());
  std::string out(reinterpret_cast<const char*>(&started), sizeof started);
  out.append(reinterpret_cast<const char*>(&pid), sizeof pid);
  out.append(reinterpret_cast<const char*>(&instructions), sizeof instructions);
  if (!filter->empty()) out.append(reinterpret_cast<const char*>(filter->data()), filter->size() * sizeof(sock_filter));
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  const bool written = fd >= 0 && write(fd, out.data(), out.size()) == static_cast<ssize_t>(out.size());
  if (fd >= 0) close(fd);
  return written ? Result<>() : errno_error("write " + path);
}

// Waits for the word of a claimer, who has removed the file by then. False: it has gone, or it was none.
bool is_claimer(int peer) {
  char word = 0;
  pollfd said{peer, POLLIN, 0};
  return poll(&said, 1, kAnswerMs) == 1 && recv(peer, &word, 1, 0) == 1 && word == 'C';
}

// The container goes with its directory; what is mounted there is seen by us alone and goes with us.
[[noreturn]] void leave(pid_t child, const std::string& scratch, const std::string& socket, int code) {
  if (child > 0) {
    kill(child, SIGKILL);
    while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {}
  }
  unlink(socket.c_str());
  std::error_code error;
  std::filesystem::remove(scratch + "/config.json",
                          error);  // the rest is busy until our mounts have gone: who keeps the pool removes it
  _exit(code);
}

}  // namespace

void hold(const std::string& socket, const std::vector<std::string>& runtime, const std::string& scratch) {
  const auto fail = [&](const std::string& text, pid_t child = 0) {
    std::fprintf(stderr, "bourse-container: %s\n", text.c_str());
    leave(child, scratch, socket, kFailed);
  };
  // Who clears up after dead agents sees by it that the directory is in use.
  const int lock = open(scratch.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock < 0 || flock(lock, LOCK_EX | LOCK_NB) != 0) fail(why(("lock " + scratch).c_str()));
  int channel[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channel) != 0) fail(why("socketpair"));
  const int on = 1;
  setsockopt(channel[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
  sockaddr_un address;
  if (!address_of(socket, address)) fail(socket + " is too long for a socket");
  const int listener = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  unlink(socket.c_str());
  const mode_t mask = umask(0077);
  if (listener < 0 || bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 || listen(listener, 4) != 0)
    fail(why(("listen at " + socket).c_str()));
  umask(mask);
  std::vector<char*> words;
  for (const std::string& word : runtime) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const pid_t child = fork();
  if (child < 0) fail(why("fork"));
  if (child == 0) {
    const int null = open("/dev/null", O_RDWR);
    dup2(null, 0), dup2(null, 1);
    if (channel[1] == kWaitChannel) {
      fcntl(kWaitChannel, F_SETFD, 0);
    } else {
      dup2(channel[1], kWaitChannel);
    }
    umask(0);
    execvp(words[0], words.data());
    std::fprintf(stderr, "bourse-container: %s cannot be run: %s\n", words[0], std::strerror(errno));
    _exit(kFailed);
  }
  close(channel[1]);
  pid_t inside = 0;
  if (!hear_waiter(channel[0], &inside)) fail("the container ended before it could wait for a task", child);
  const std::string free = socket + kFree;
  if (auto offered = offer(free, inside); !offered) fail(offered.error().text(), child);
  std::printf("ready %d\n", inside);
  std::fflush(stdout);
  // Until somebody claims it, the end of our standard input is the end of it all.
  bool kept = true;
  int claimer = -1;
  while (claimer < 0) {
    pollfd wait[3] = {{listener, POLLIN, 0}, {channel[0], POLLIN, 0}, {kept ? 0 : -1, POLLIN, 0}};
    const int ready = poll(wait, 3, kept ? -1 : kAnswerMs);
    if (ready < 0) continue;
    if (wait[1].revents != 0) {
      unlink(free.c_str());
      fail("the container ended while it waited", child);
    }
    char byte = 0;
    if ((wait[2].revents & (POLLIN | POLLHUP | POLLERR)) != 0 && read(0, &byte, 1) <= 0) {
      if (unlink(free.c_str()) == 0) leave(child, scratch, socket, 0);
      kept = false;  // a claimer was quicker: it has yet to say so
    } else if (ready == 0) {
      leave(child, scratch, socket, 0);  // and never did
    }
    if ((wait[0].revents & POLLIN) == 0) continue;
    const int peer = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (peer >= 0 && is_claimer(peer)) {
      claimer = peer;
    } else if (peer >= 0) {
      close(peer);
      if (access(free.c_str(), F_OK) != 0) leave(child, scratch, socket, 0);  // it has ended half-way
    }
  }
  close(listener);
  unlink(socket.c_str());
  // Until the claimer ends, however it does: its task runs in there, and what that leaves ends with process 1.
  for (pollfd wait[2] = {{claimer, POLLIN, 0}, {channel[0], POLLIN, 0}};
       poll(wait, 2, -1) < 0 || (wait[0].revents == 0 && wait[1].revents == 0);) {}
  close(channel[0]);
  const int ending = static_cast<int>(syscall(SYS_pidfd_open, child, 0));
  pollfd end{ending, POLLIN, 0};
  if (ending >= 0) (void)poll(&end, 1, kEndMs);
  leave(child, scratch, socket, 0);
}

}  // namespace bourse::container
