// A plain Unix stream socket for the tools of this host: no library, no thread, no handshake; the kernel says who connects.
//
// Everybody may connect (the file is 0666): what a peer may do is judged by its uid, as it was when it connected. Frames as in
// local_frame.h. No peer can hold up another or make this process grow: what one sends and does not finish, does not read, or keeps
// open is limited, for it and for its user. Owned by a program's main, used on the reactor's thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/world/transport.h"

namespace bourse {

struct LocalLimits {
  std::size_t message_bytes_max = 8 * 1024 * 1024;  // one that comes
  std::size_t unread_bytes_max = 64 * 1024 * 1024;  // answers that a peer has not read; past that it is closed
  std::size_t pause_bytes = 1024 * 1024;            // no more of its requests are read while that much is unread
  std::size_t user_bytes_max = 256 * 1024 * 1024;   // both, of all connections of one user
  std::size_t peers_max = 8192;                     // connections
  std::size_t peers_per_user_max = 4096;            // root's are not counted, so that it can always look
  Duration frame_time = seconds(30);                // from a message's first byte to its last
  Duration stall_time = seconds(60);                // answers lie there and it reads none of them
};

class LocalListener {
 public:
  LocalListener(Reactor& reactor, LocalLimits limits);
  ~LocalListener();  // takes its file away
  LocalListener(const LocalListener&) = delete;
  LocalListener& operator=(const LocalListener&) = delete;

  // A file that a dead process left is replaced. kBusy: a living one serves it.
  Result<> listen(const std::string& path);
  void on_frame(std::function<void(const Frame&)> callback);
  void on_gone(std::function<void(PeerId)> callback);  // of whom a frame had come; not from within send
  // It is closed for something it did, or too many are connected. What is returned is sent to it as a last message, where not empty.
  void on_refused(std::function<std::string(const Frame& peer, const Error& why)> callback);
  // Sent before the loop next sleeps. False: there is no such peer (any more); on_gone tells, or has told.
  bool send(PeerId peer, std::string body);
  [[nodiscard]] std::size_t peers() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bourse
