#include "common/world/local_client.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "common/world/reactor.h"

namespace bourse {
namespace {

constexpr time_t kConnectSeconds = 10;  // the listener's queue of new connections may be full
constexpr std::size_t kReadBytes = 64 * 1024;

Duration deadline(Duration timeout) { return timeout == kNoLimit ? kNoLimit : real_time().mono + timeout; }
Error closed() { return Error(Code::kGone, "the other side closed the connection"); }

}  // namespace

Result<LocalClient> LocalClient::connect(const std::string& path, std::size_t answer_bytes_max) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return Error(Code::kInvalid, path + ": the path is too long for a socket");
  path.copy(address.sun_path, path.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno_error("socket");
  LocalClient client(fd, answer_bytes_max);
  const timeval limit{kConnectSeconds, 0};
  (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  int rc = 0;
  do rc = ::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address);
  while (rc < 0 && errno == EINTR);
  if (rc == 0) return client;
  const int reason = errno;
  const std::string text = errno_error(path).text();
  switch (reason) {
    case ENOENT:
    case ENOTDIR:
      return Error(Code::kNotFound, text);
    case ECONNREFUSED:
    case EAGAIN:
      return Error(Code::kBusy, text);
    case EACCES:
    case EPERM:
      return Error(Code::kDenied, text);
    default:
      return Error(Code::kIo, text);
  }
}

LocalClient::~LocalClient() {
  if (fd_ >= 0) close(fd_);
}

LocalClient::LocalClient(LocalClient&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), in_(std::move(other.in_)), early_(std::move(other.early_)) {}

Result<> LocalClient::wait(short events, Duration until) {
  while (true) {
    int ms = -1;
    if (until != kNoLimit) {
      const Duration left = until - real_time().mono;
      if (left <= Duration(0)) return Error(Code::kTimeout, "no answer in time");
      ms = static_cast<int>(std::min<Duration::rep>((left.count() + 999) / 1000, 1'000'000));
    }
    pollfd poll_fd{fd_, events, 0};
    const int n = poll(&poll_fd, 1, ms);
    if (n > 0) return {};
    if (n < 0 && errno != EINTR) return errno_error("poll");
  }
}

Result<bool> LocalClient::take() {
  std::array<char, kReadBytes> chunk;  // NOLINT: filled by the kernel
  const ssize_t n = recv(fd_, chunk.data(), chunk.size(), MSG_DONTWAIT);
  if (n == 0) return closed();
  if (n < 0) {
    if (errno == EAGAIN || errno == EINTR) return false;
    if (errno == ECONNRESET) return closed();
    return errno_error("receive");
  }
  in_.add({chunk.data(), static_cast<std::size_t>(n)});
  return true;
}

Result<> LocalClient::send(std::string_view body, Duration timeout) {
  std::string bytes = local_head(body.size());
  bytes += body;
  const Duration until = deadline(timeout);
  std::size_t at = 0;
  while (at < bytes.size()) {
    const ssize_t n = ::send(fd_, bytes.data() + at, bytes.size() - at, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n >= 0) {
      at += static_cast<std::size_t>(n);
      continue;
    }
    if (errno == EINTR) continue;
    if (errno == EPIPE || errno == ECONNRESET) return closed();
    if (errno != EAGAIN) return errno_error("send");
    BOURSE_TRY(wait(POLLIN | POLLOUT, until));
    // It may not read on before its answers have been taken.
    if (!BOURSE_TRY(take())) continue;
    while (auto body_here = BOURSE_TRY(in_.next())) early_.emplace_back(*body_here);
  }
  return {};
}

Result<std::string> LocalClient::receive(Duration timeout) {
  if (!early_.empty()) {
    std::string body = std::move(early_.front());
    early_.pop_front();
    return body;
  }
  const Duration until = deadline(timeout);
  while (true) {
    if (auto body = BOURSE_TRY(in_.next())) return std::string(*body);
    BOURSE_TRY(wait(POLLIN, until));
    BOURSE_TRY(take());
  }
}

}  // namespace bourse
