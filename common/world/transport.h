// ZeroMQ behind two small classes. zmq.hpp is included by transport.cc alone.
//
// CURVE on every tcp socket, and on ipc where keys are given; a ZAP handler (one per Context) decides by public key. Routing
// ids stay random; a PeerId is this process's own name for a connection. A peer is cut by forgetting its routing id and
// dropping its frames until it connects anew. See "Cutting a ZeroMQ peer". Every socket has a high-water mark and a message
// size limit; a full queue towards a peer is reported, not waited for.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/core/ids.h"
#include "common/core/result.h"
#include "common/world/reactor.h"

namespace bourse {

struct KeyPair {  // Z85 text, 40 characters each
  std::string public_key, secret_key;
};
KeyPair make_key_pair();
// A key file: two lines, `public = "..."`, `secret = "..."`; the secret's file must not be readable by others (kDenied). The .pub of a
// framework may have a third, `roles = "physics,chemistry"`: it may act for these and those below them, and no others.
Result<KeyPair> read_key_file(const std::string& path);
// path (0600) and path + ".pub" (0644); kExists
Result<> write_key_files(const std::string& path, const KeyPair& keys, const std::string& roles = {});
Result<std::string> read_key_roles(const std::string& path);   // of a .pub; "": it names none
Result<std::string> read_public_key(const std::string& path);  // of either file; a server's .pub for Connection
std::string key_file_name(const std::string& identity);        // "agent:h1" -> "agent=h1"

// Who may connect: public key -> identity "agent:h1", "framework:batch", "operator:NAME", "reader:NAME", "master:NAME".
// The directory holds one file per key, named IDENTITY.pub with ':' as '='. Files of other kinds, and
// master.pub and batch.sign.pub (keys that are nobody's to come in with, and often lie there too), are passed over. Read again with set_keyring.
class Keyring {
 public:
  static Result<Keyring> read(const std::string& directory);
  struct Entry {
    std::string identity, roles;
    bool operator==(const Entry&) const = default;
  };
  void allow(const std::string& public_key, const std::string& identity, const std::string& roles = {});
  [[nodiscard]] std::string identity(const std::string& public_key) const;  // "" when not allowed
  [[nodiscard]] const Entry* find(const std::string& public_key) const;     // null when not allowed
  [[nodiscard]] const std::map<std::string, Entry>& keys() const { return keys_; }

 private:
  std::map<std::string, Entry> keys_;
};

constexpr std::size_t kPeersMax = 200'000;

struct SocketLimits {
  int high_water_mark = 10'000;  // messages a peer
  std::int64_t message_bytes_max = 8 * 1024 * 1024;
  // Who may connect to an ipc socket without keys: 0600 is the owner only; 0666 everyone, and the caller judges by Frame.uid.
  // With keys it is always 0666, since the key decides.
  unsigned ipc_mode = 0600;
  std::size_t peers_max = kPeersMax;  // a listener's table; past it the peer silent for longest is forgotten
  // What one peer of a listener may send in the long run, and `burst` of it at once; past that it is cut for kCutPause. 0: any amount.
  std::uint32_t frames_per_second = 0;
  std::int64_t bytes_per_second = 0;
  Duration burst = seconds(5);
  // Of large messages (over 4 KiB) that its connection has not taken yet; past that it counts as full, as it does at high_water_mark.
  std::int64_t unread_bytes_max = 64 * 1024 * 1024;
};
constexpr Duration kCutPause = seconds(10);
constexpr std::uint32_t kStrikesPerSecond = 10, kStrikesBurst = 100;
constexpr std::int64_t kUnreadTotalMax = std::int64_t{1} << 30;  // of all peers of a listener: beyond, who has any unread is full
constexpr std::size_t kEarlyMax = 64;  // messages that a Connection keeps while its first connect is under way

struct Frame {
  PeerId peer;
  std::string identity;                       // from the keyring; "" where the socket has no keys
  std::int64_t uid = -1, gid = -1, pid = -1;  // of the other end of an ipc socket
  std::string_view bytes;                     // valid during the callback
  std::string address;                        // of the other end of a tcp socket, without its port
  std::string roles;                          // of its key; "": any
};

class Context {  // one per process; owns the I/O thread and the ZAP handler
 public:
  Context();
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  void set_keyring(Keyring keyring);                       // live; revocation acts on the next message
  [[nodiscard]] std::uint64_t refused_handshakes() const;  // keys that were not allowed, so far
  struct Impl;
  Impl* impl() { return impl_.get(); }

 private:
  std::unique_ptr<Impl> impl_;
};

// ROUTER. Peers appear with their first message.
class Listener {
 public:
  Listener(Context& context, Reactor& reactor, SocketLimits limits);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  // tcp://HOST:PORT (PORT * or 0: any free one), ipc://PATH, inproc://NAME. tcp needs `keys`: kDenied without, unless
  // HOST is loopback and allow_plain is set.
  Result<> bind(const std::string& endpoint, const KeyPair* keys, bool allow_plain = false);
  [[nodiscard]] std::string endpoint() const;  // as bound, with the real port
  void on_frame(std::function<void(const Frame&)> callback);
  // False: no such peer, or its queue is full; the message was not sent. The caller decides whether to cut.
  bool send(PeerId peer, std::string bytes);
  void cut(PeerId peer);
  // It sent something that nobody of ours sends. True: that was once too often, it is cut for kCutPause (and on_lost is called).
  bool strike(PeerId peer);
  // Peers whose key is no longer allowed, or now means somebody else, are forgotten at once; on_lost tells. After set_keyring.
  void recheck_keys();
  void on_lost(std::function<void(PeerId, const std::string& why)> callback);  // may send, not cut
  [[nodiscard]] std::size_t peers() const;
  [[nodiscard]] std::uint64_t floods() const;  // peers that were cut for what they sent, so far
  // Bounds what one turn handles, so that timers and other sockets get their share.
  void set_batch(int frames);
  [[nodiscard]] std::uint64_t dropped() const;  // frames of cut peers, of revoked keys, and such as nobody of ours sends

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// DEALER to one endpoint. Reconnects by itself; messages may be lost across that, which is why sessions start with a hello.
class Connection {
 public:
  Connection(Context& context, Reactor& reactor, SocketLimits limits);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  // server_key empty: plain (ipc, inproc, or loopback of a cluster without keys).
  Result<> connect(const std::string& endpoint, const KeyPair* keys, const std::string& server_key);
  void close();  // drops what is queued; connect may follow
  void on_frame(std::function<void(std::string_view)> callback);
  // Whether the other side can be reached: true when the handshake is through, false when the connection broke (it is tried
  // again by itself), or when the queue is full, which for a session comes to the same. Not called for close().
  void on_state(std::function<void(bool up)> callback);
  bool send(std::string bytes);  // false: queue full or not connected

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bourse
