#include "agent/launcher/channel.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace bourse::launcher {

namespace {

Result<sockaddr_un> address(const std::string& state_dir) {
  sockaddr_un out{};
  out.sun_family = AF_UNIX;
  const std::string path = state_dir + "/launcher.sock";
  if (path.size() >= sizeof out.sun_path) return Error(Code::kLimit, path + ": longer than a socket's path may be");
  std::memcpy(out.sun_path, path.c_str(), path.size() + 1);
  return out;
}

}  // namespace

void size_buffers(int fd) {
  // A packet needs twice its size in the sender's buffer. Forced where we are root; else as much as we may.
  const int bytes = static_cast<int>(kPacketBytesMax) + 64 * 1024;
  if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes) != 0) {
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
  }
}

Result<int> connect_launcher(const std::string& state_dir) {
  const sockaddr_un where = BOURSE_TRY(address(state_dir));
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return errno_error("socket");
  size_buffers(fd);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&where), sizeof where) == 0) return fd;
  const int error = errno;
  ::close(fd);
  errno = error;
  Error e = errno_error(std::string("connect ") + where.sun_path);
  if (error == ENOENT) return Error(Code::kNotFound, e.text());
  if (error == ECONNREFUSED) return Error(Code::kGone, e.text());
  if (error == EAGAIN) return Error(Code::kBusy, e.text());
  return e;
}

Result<int> listen_launcher(const std::string& state_dir) {
  const sockaddr_un where = BOURSE_TRY(address(state_dir));
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return errno_error("socket");
  unlink(where.sun_path);
  const bool ok = bind(fd, reinterpret_cast<const sockaddr*>(&where), sizeof where) == 0 && listen(fd, 8) == 0;
  if (ok) return fd;
  Error error = errno_error(std::string("listen on ") + where.sun_path);
  ::close(fd);
  return error;
}

Channel::Channel(int fd) : fd_(fd) {}
Channel::~Channel() { close(); }
Channel::Channel(Channel&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      out_(std::move(other.out_)),
      out_bytes_(other.out_bytes_),
      buffer_(std::move(other.buffer_)) {}
Channel& Channel::operator=(Channel&& other) noexcept {
  close();
  fd_ = std::exchange(other.fd_, -1);
  out_ = std::move(other.out_);
  out_bytes_ = other.out_bytes_;
  buffer_ = std::move(other.buffer_);
  return *this;
}

void Channel::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
  out_.clear();
  out_bytes_ = 0;
}

Result<> Channel::send(const Packet& packet) {
  if (fd_ < 0) return Error(Code::kGone, "launcher channel: closed");
  std::string bytes = encode(packet);
  if (bytes.size() > kPacketBytesMax) return Error(Code::kLimit, "launcher packet: larger than 4 MiB");
  if (out_bytes_ + bytes.size() > kOutboundBytesMax) return Error(Code::kLimit, "launcher channel: the peer reads too slowly");
  out_bytes_ += bytes.size();
  out_.push_back(std::move(bytes));
  return out_.size() == 1 ? flush() : Result<>();
}

Result<> Channel::flush() {
  while (!out_.empty()) {
    const std::string& bytes = out_.front();
    const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == ENOBUFS)) return {};
    if (n < 0) return Error(Code::kGone, errno_error("launcher channel: send").text());
    out_bytes_ -= bytes.size();
    out_.pop_front();
  }
  return {};
}

Result<Packet> Channel::receive() {
  if (fd_ < 0) return Error(Code::kGone, "launcher channel: closed");
  // Large enough for the largest, so that one call does. Not touched, its pages are not there; those of a large packet are given back.
  if (!buffer_) buffer_.reset(new char[kPacketBytesMax]);
  for (;;) {
    const ssize_t size = recv(fd_, buffer_.get(), kPacketBytesMax, MSG_TRUNC | MSG_DONTWAIT);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) return Error(Code::kBusy, "launcher channel: nothing there");
    if (size < 0) return Error(Code::kGone, errno_error("launcher channel: receive").text());
    if (size == 0) return Error(Code::kGone, "launcher channel: closed by the peer");
    if (static_cast<std::size_t>(size) > kPacketBytesMax) return Error(Code::kCorrupt, "launcher packet: larger than 4 MiB");
    auto packet = decode(std::string_view(buffer_.get(), static_cast<std::size_t>(size)));
    if (static_cast<std::size_t>(size) > kPacketBytesKept) buffer_.reset();
    if (!packet) return Error(Code::kCorrupt, packet.error().text());
    return packet;
  }
}

}  // namespace bourse::launcher
