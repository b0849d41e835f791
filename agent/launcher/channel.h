// One end of the packet socket between agent and launcher. Used by both; blocking only where it says so. Any one thread.
#pragma once

#include <deque>
#include <memory>
#include <string>

#include "agent/launcher/protocol.h"
#include "common/core/result.h"

namespace bourse::launcher {

constexpr std::size_t kPacketBytesKept = 256 * 1024;         // memory of a larger one is given back
constexpr std::size_t kOutboundBytesMax = 64 * 1024 * 1024;  // waiting for a slow peer; more, and the connection is given up

// STATE/launcher.sock, with buffers that take the largest packet. kNotFound, kGone: nobody listens, start the keeper.
Result<int> connect_launcher(const std::string& state_dir);
Result<int> listen_launcher(const std::string& state_dir);  // removes a socket that nobody listens on
void size_buffers(int fd);

class Channel {
 public:
  Channel() = default;
  explicit Channel(int fd);
  ~Channel();
  Channel(Channel&& other) noexcept;
  Channel& operator=(Channel&& other) noexcept;
  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] bool open() const { return fd_ >= 0; }
  void close();

  // Sends now or keeps it for flush(). kGone: the peer is away; kLimit: it reads too slowly, or the packet is too large.
  Result<> send(const Packet& packet);
  Result<> flush();
  [[nodiscard]] bool waiting() const { return !out_.empty(); }  // wants to know when fd is writable
  // kBusy: nothing there now. kGone: closed. kCorrupt: a packet that is none; the next one may be fine.
  Result<Packet> receive();

 private:
  int fd_ = -1;
  std::deque<std::string> out_;
  std::size_t out_bytes_ = 0;
  std::unique_ptr<char[]> buffer_;
};

}  // namespace bourse::launcher
