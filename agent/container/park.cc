#include "agent/container/park.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace bourse::container {
namespace {

constexpr int kFailed = 125;
constexpr std::size_t kMessageMax = 192 * 1024;  // bourse-wait's

struct Claim {
  std::uint32_t umask = 0, argc = 0, envc = 0, unused = 0;
  std::uint64_t limits[RLIMIT_NLIMITS][2] = {};
};

std::string why(const char* what) { return std::string(what) + ": " + std::strerror(errno); }

bool address_of(const std::string& path, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return false;
  std::memcpy(address.sun_path, path.data(), path.size());
  return true;
}

// One message with descriptors 0 to 2 of `fds`, or without where there are none.
bool send_message(int to, const std::string& bytes, const std::array<int, 3>* fds) {
  char control[CMSG_SPACE(3 * sizeof(int))] = {};
  iovec part{const_cast<char*>(bytes.data()), bytes.size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (fds != nullptr) {
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(3 * sizeof(int));
    std::memcpy(CMSG_DATA(rights), fds->data(), 3 * sizeof(int));
  }
  return sendmsg(to, &header, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

// With the descriptors that came, or the pid of who sent it. False: the other side is gone, or it is no such message.
bool receive_message(int from, std::string& bytes, std::array<int, 3>* fds, pid_t* sender) {
  bytes.resize(kMessageMax);
  char control[256];
  iovec part{bytes.data(), bytes.size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  ssize_t size = 0;
  while ((size = recvmsg(from, &header, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR) {}
  if (size <= 0 || (header.msg_flags & MSG_TRUNC) != 0) return false;
  bytes.resize(static_cast<std::size_t>(size));
  bool have_fds = false;
  for (cmsghdr* each = CMSG_FIRSTHDR(&header); each != nullptr; each = CMSG_NXTHDR(&header, each)) {
    if (each->cmsg_level != SOL_SOCKET) continue;
    if (each->cmsg_type == SCM_RIGHTS && fds != nullptr && each->cmsg_len == CMSG_LEN(3 * sizeof(int))) {
      std::memcpy(fds->data(), CMSG_DATA(each), 3 * sizeof(int));
      have_fds = true;
    }
    if (each->cmsg_type == SCM_CREDENTIALS && sender != nullptr) {
      ucred who{};
      std::memcpy(&who, CMSG_DATA(each), sizeof who);
      *sender = who.pid;
    }
  }
  return fds == nullptr || have_fds;
}

int exit_code(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

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

// The groups that we are in, by each controller's tree.
bool bring_into_own_groups(pid_t pid) {
  std::ifstream own("/proc/self/cgroup");
  std::string line;
  bool all = true;
  while (std::getline(own, line)) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (controllers.compare(0, 5, "name=") == 0) continue;
    std::string mount = "/sys/fs/cgroup/" + controllers;
    if (controllers.empty())
      mount = access("/sys/fs/cgroup/cgroup.controllers", F_OK) == 0 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/unified";
    if (access(mount.c_str(), F_OK) != 0) continue;
    std::ofstream procs(mount + path + "/cgroup.procs");
    procs << pid << std::flush;
    all = all && procs.good();
  }
  return all;
}

// Raised from outside, where we may; what is to be lowered, bourse-wait does itself.
void give_own_limits(pid_t pid, Claim& head) {
  for (int resource = 0; resource < RLIMIT_NLIMITS; ++resource) {
    struct rlimit limit {};
    if (getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0) continue;
    (void)prlimit(pid, static_cast<__rlimit_resource>(resource), &limit, nullptr);
    head.limits[resource][0] = limit.rlim_cur;
    head.limits[resource][1] = limit.rlim_max;
  }
  std::ifstream own("/proc/self/oom_score_adj");
  std::string score;
  if (std::getline(own, score)) std::ofstream("/proc/" + std::to_string(pid) + "/oom_score_adj") << score;
}

pid_t g_inside = 0;
void pass_on(int number) { kill(g_inside, number); }

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
  std::string bytes;
  pid_t inside = 0;
  if (!receive_message(channel[0], bytes, nullptr, &inside) || bytes != "R" || inside <= 0)
    fail("the container ended before it could wait for a task", child);
  std::printf("ready %d\n", inside);
  std::fflush(stdout);
  // Until somebody claims it, the end of our standard input is the end of it all.
  int claimer = -1;
  std::array<int, 3> fds{-1, -1, -1};
  while (claimer < 0) {
    pollfd wait[3] = {{0, POLLIN, 0}, {listener, POLLIN, 0}, {channel[0], POLLIN, 0}};
    if (poll(wait, 3, -1) < 0) continue;
    if ((wait[0].revents & (POLLIN | POLLHUP | POLLERR)) != 0) {
      char byte = 0;
      if (read(0, &byte, 1) <= 0) leave(child, scratch, socket, 0);
    }
    if (wait[2].revents != 0) fail("the container ended while it waited", child);
    if ((wait[1].revents & POLLIN) == 0) continue;
    const int peer = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (peer < 0) continue;
    const auto pid_bytes = std::string(reinterpret_cast<const char*>(&inside), sizeof inside);
    if (send_message(peer, pid_bytes, nullptr) && receive_message(peer, bytes, &fds, nullptr)) {
      claimer = peer;
    } else {
      close(peer);
    }
  }
  close(listener);
  unlink(socket.c_str());
  if (!send_message(channel[0], bytes, &fds)) fail(why("claim"), child);
  for (const int fd : fds) close(fd);
  close(channel[0]);
  // A claimer that is killed takes its container with it.
  const int ending = static_cast<int>(syscall(SYS_pidfd_open, child, 0));
  for (;;) {
    int status = 0;
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended == child) {
      const int code = exit_code(status);
      send_message(claimer, std::string(reinterpret_cast<const char*>(&code), sizeof code), nullptr);
      leave(0, scratch, socket, 0);
    }
    pollfd wait[2] = {{claimer, POLLIN, 0}, {ending, POLLIN, 0}};
    if (poll(wait, 2, ending < 0 ? 50 : -1) > 0 && wait[0].revents != 0) leave(child, scratch, socket, 0);
  }
}

std::string claim(const std::string& socket, const Wanted& wanted) {
  sockaddr_un address;
  if (!address_of(socket, address)) return socket + " is too long for a socket";
  Claim head;
  head.umask = wanted.umask;
  head.argc = static_cast<std::uint32_t>(wanted.argv.size());
  head.envc = static_cast<std::uint32_t>(wanted.env.size());
  std::string bytes(reinterpret_cast<const char*>(&head), sizeof head);
  for (const auto* list : {&wanted.argv, &wanted.env})
    for (const std::string& word : *list) bytes.append(word.c_str(), word.size() + 1);
  if (wanted.argv.empty()) return "the image names the program";
  if (bytes.size() > kMessageMax) return "argv and environment are larger than one message";
  const int peer = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (peer < 0 || connect(peer, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return why("connect");
  std::string pid_bytes;
  pid_t inside = 0;
  if (!receive_message(peer, pid_bytes, nullptr, nullptr) || pid_bytes.size() != sizeof inside) return "it has gone";
  std::memcpy(&inside, pid_bytes.data(), sizeof inside);
  if (!bring_into_own_groups(inside)) {
    close(peer);
    kill(inside, SIGKILL);  // it may be in some of them: nobody else may have it now
    return "it cannot be brought into the task's cgroups";
  }
  give_own_limits(inside, head);
  std::memcpy(bytes.data(), &head, sizeof head);
  g_inside = inside;
  struct sigaction action {};
  action.sa_handler = pass_on;
  action.sa_flags = SA_RESTART;
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGCONT, SIGWINCH})
    sigaction(number, &action, nullptr);
  const std::array<int, 3> stdio = {0, 1, 2};
  if (!send_message(peer, bytes, &stdio)) {
    kill(inside, SIGKILL);
    return why("claim");
  }
  std::string answer;
  int code = kFailed;
  if (receive_message(peer, answer, nullptr, nullptr) && answer.size() == sizeof code)
    std::memcpy(&code, answer.data(), sizeof code);
  _exit(code);
}

}  // namespace bourse::container
