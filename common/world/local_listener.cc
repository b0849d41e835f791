#include "common/world/local_listener.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/core/hooks.h"
#include "common/world/local_client.h"
#include "common/world/local_frame.h"

namespace bourse {
namespace {

constexpr int kBacklog = 4096;
constexpr int kAcceptsPerTurn = 64;
constexpr int kReadsPerTurn = 4;     // of kReadBytes, for one peer; then the others have their turn
constexpr int kFramesPerTurn = 256;  // as well
constexpr std::size_t kReadBytes = 64 * 1024;
constexpr std::size_t kKeptBytes = 256 * 1024;  // of an output buffer that is empty
constexpr Duration kSweepEvery = seconds(5);
constexpr Duration kAcceptAgain = seconds(1);  // no descriptor was left
constexpr std::uint64_t kFirstPeer = 2;        // 1 is kMasterPeer

}  // namespace

struct LocalListener::Impl {
  struct Peer {
    PeerId id;
    int fd = -1;
    Reactor::WatchId watch = 0;
    std::uint32_t events = 0;  // that are watched
    std::int64_t uid = -1, gid = -1, pid = -1;
    FrameReader in;
    std::string out;
    std::size_t out_at = 0;
    std::size_t charged = 0;           // to its user
    Duration begun{0}, stalled{0};     // since when a frame is incomplete; since when it has read nothing. 0: not so
    bool known = false, gone = false;  // known: a frame of it was handed on
    bool flush_due = false;
    explicit Peer(std::size_t message_bytes_max) : in(message_bytes_max) {}
    [[nodiscard]] std::size_t unread() const { return out.size() - out_at; }
  };
  struct User {
    std::size_t peers = 0, bytes = 0;
  };

  Reactor& reactor;
  LocalLimits limits;
  int fd = -1;
  std::string path;
  dev_t device = 0;
  ino_t inode = 0;
  Reactor::WatchId watch = 0;
  Reactor::TimerId accept_timer = 0, sweep_timer = 0;
  bool sweeping = false, accept_paused = false, tidy_due = false, flush_due = false;
  std::function<void(const Frame&)> frame_callback;
  std::function<void(PeerId)> gone_callback;
  std::function<std::string(const Frame&, const Error&)> refused_callback;

  std::unordered_map<std::uint64_t, std::unique_ptr<Peer>> peers;
  std::map<std::int64_t, User> users;
  std::vector<std::unique_ptr<Peer>> graveyard;  // until no callback can be using them
  std::vector<PeerId> to_flush;
  std::uint64_t next_peer = kFirstPeer;
  // Outlives us in deferred callbacks.
  std::shared_ptr<Impl*> self = std::make_shared<Impl*>(this);

  Impl(Reactor& r, LocalLimits l) : reactor(r), limits(l) {}
  ~Impl() {
    *self = nullptr;
    for (auto& [id, peer] : peers) {
      reactor.unwatch(peer->watch);
      close(peer->fd);
    }
    if (accept_paused) reactor.cancel(accept_timer);
    if (sweeping) reactor.cancel(sweep_timer);
    if (watch != 0) reactor.unwatch(watch);
    struct stat now {};
    // Ours still, and not already a successor's.
    if (fd >= 0 && !path.empty() && lstat(path.c_str(), &now) == 0 && now.st_dev == device && now.st_ino == inode)
      unlink(path.c_str());
    if (fd >= 0) close(fd);
  }

  static Frame frame_of(const Peer& peer) {
    Frame frame;
    frame.peer = peer.id;
    frame.uid = peer.uid, frame.gid = peer.gid, frame.pid = peer.pid;
    return frame;
  }

  // --- coming and going ---

  void accept_some() {
    for (int i = 0; i < kAcceptsPerTurn; ++i) {
      const int peer_fd = accept4(fd, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (peer_fd < 0) {
        if (errno == EINTR || errno == ECONNABORTED) continue;
        if (errno != EAGAIN) pause_accept();
        return;
      }
      admit(peer_fd);
    }
  }

  // Without a descriptor the one who waits stays readable for ever: we look again in a while instead of spinning.
  void pause_accept() {
    accept_paused = true;
    reactor.rearm(watch, 0);
    if (refused_callback) (void)refused_callback(Frame{}, errno_error("accept"));
    accept_timer = reactor.after(kAcceptAgain, [this] {
      accept_paused = false;
      reactor.rearm(watch, EPOLLIN);
    });
  }

  void admit(int peer_fd) {
    auto peer = std::make_unique<Peer>(limits.message_bytes_max);
    peer->id = PeerId(next_peer++);
    peer->fd = peer_fd;
    ucred credentials{};
    socklen_t size = sizeof credentials;
    if (getsockopt(peer_fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
      close(peer_fd);
      return;
    }
    peer->uid = credentials.uid, peer->gid = credentials.gid, peer->pid = credentials.pid;
    const auto user = users.find(peer->uid);
    const bool full = peers.size() >= limits.peers_max;
    const bool many = peer->uid != 0 && user != users.end() && user->second.peers >= limits.peers_per_user_max;
    if ((full && peer->uid != 0) || many) {
      tell_last(*peer, Error(Code::kLimit, full ? "too many programs are connected at this time (" +
                                                      std::to_string(limits.peers_max) + "); try again"
                                                : "this user has " + std::to_string(limits.peers_per_user_max) +
                                                      " connections open, which is the most"));
      close(peer_fd);
      return;
    }
    ++users[peer->uid].peers;
    peer->events = EPOLLIN | EPOLLRDHUP;
    Peer* const raw = peer.get();
    raw->watch = reactor.watch(peer_fd, raw->events, [this, raw](std::uint32_t events) { happened(*raw, events); });
    peers.emplace(raw->id.value, std::move(peer));
  }

  // The last word may get lost where the peer has left no room for it: it is closed either way.
  void tell_last(const Peer& peer, const Error& why) {
    const std::string body = refused_callback ? refused_callback(frame_of(peer), why) : std::string();
    if (body.empty() || peer.unread() > 0) return;
    const std::string bytes = local_head(body.size()) + body;
    (void)::send(peer.fd, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  }

  void refuse(Peer& peer, const Error& why) {
    if (peer.gone) return;
    tell_last(peer, why);
    drop(peer);
  }

  void drop(Peer& peer) {
    if (std::exchange(peer.gone, true)) return;
    reactor.unwatch(peer.watch);
    close(peer.fd);
    const auto user = users.find(peer.uid);
    user->second.bytes -= peer.charged;
    if (--user->second.peers == 0) users.erase(user);
    const auto it = peers.find(peer.id.value);
    graveyard.push_back(std::move(it->second));
    peers.erase(it);
    if (std::exchange(tidy_due, true)) return;
    reactor.defer([weak = self] {
      if (*weak != nullptr) (*weak)->tidy();
    });
  }

  void tidy() {
    tidy_due = false;
    const auto alive = self;
    const auto dead = std::exchange(graveyard, {});
    for (const auto& peer : dead) {
      if (peer->known && gone_callback) gone_callback(peer->id);
      if (*alive == nullptr) return;
    }
  }

  // --- limits ---

  // What a peer holds here is its user's. False: too much, and it is closed.
  bool charge(Peer& peer) {
    const std::size_t held = peer.in.held() + peer.unread();
    User& user = users[peer.uid];
    user.bytes = user.bytes - peer.charged + held;
    peer.charged = held;
    if (held > 0) sweep_soon();
    if (user.bytes <= limits.user_bytes_max) return true;
    refuse(peer, Error(Code::kLimit, "messages of this user that are half sent or not read take more than " +
                                         std::to_string(limits.user_bytes_max) + " bytes"));
    return false;
  }

  void sweep_soon() {
    if (std::exchange(sweeping, true)) return;
    sweep_timer = reactor.after(std::min({kSweepEvery, limits.frame_time, limits.stall_time}), [this] {
      sweeping = false;
      sweep();
    });
  }

  void sweep() {
    const Duration now = real_time().mono;
    std::vector<PeerId> slow;
    for (const auto& [id, peer] : peers) {
      if (peer->charged > 0) sweep_soon();
      if ((peer->begun != Duration(0) && peer->begun + limits.frame_time < now) ||
          (peer->stalled != Duration(0) && peer->stalled + limits.stall_time < now))
        slow.push_back(peer->id);
    }
    for (const PeerId id : slow) {
      const auto it = peers.find(id.value);
      if (it == peers.end()) continue;
      Peer& peer = *it->second;
      refuse(peer, peer.unread() > 0
                       ? Error(Code::kTimeout, "it has not read its answers for " + format_duration(limits.stall_time))
                       : Error(Code::kTimeout, "a message it began was not whole after " + format_duration(limits.frame_time)));
    }
  }

  // --- bytes ---

  [[nodiscard]] bool paused(const Peer& peer) const { return peer.unread() >= limits.pause_bytes && !hooks::mutant("local.pause"); }

  void set_events(Peer& peer) {
    const std::uint32_t wanted =
        (paused(peer) ? 0U : std::uint32_t{EPOLLIN} | EPOLLRDHUP) | (peer.unread() > 0 ? std::uint32_t{EPOLLOUT} : 0U);
    if (wanted == peer.events) return;
    peer.events = wanted;
    reactor.rearm(peer.watch, wanted);
  }

  void happened(Peer& peer, std::uint32_t events) {
    if ((events & (EPOLLERR | EPOLLHUP)) != 0) return drop(peer);
    if ((events & EPOLLOUT) != 0) flush(peer);
    if (!peer.gone && (events & (EPOLLIN | EPOLLRDHUP)) != 0) read_some(peer);
  }

  void read_some(Peer& peer) {
    std::array<char, kReadBytes> chunk;  // NOLINT: filled by the kernel
    for (int i = 0; i < kReadsPerTurn && !peer.gone && !paused(peer); ++i) {
      const ssize_t n = recv(peer.fd, chunk.data(), chunk.size(), MSG_DONTWAIT);
      if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
      // Who has closed its side waits for no answer: so much is agreed with LocalClient.
      if (n <= 0) return drop(peer);
      peer.in.add({chunk.data(), static_cast<std::size_t>(n)});
      deliver(peer);
      if (static_cast<std::size_t>(n) < chunk.size()) return;
    }
  }

  void deliver(Peer& peer) {
    const auto alive = self;
    bool more = true;
    for (int i = 0; i < kFramesPerTurn && !paused(peer); ++i) {
      auto body = peer.in.next();
      if (!body) return refuse(peer, body.error());
      more = body->has_value();
      if (!more) break;
      peer.begun = Duration(0);
      peer.known = true;
      Frame frame = frame_of(peer);
      frame.bytes = **body;
      if (frame_callback) frame_callback(frame);
      if (*alive == nullptr || peer.gone) return;
    }
    if (peer.in.held() == 0)
      peer.begun = Duration(0);
    else if (!more && peer.begun == Duration(0))
      peer.begun = real_time().mono;
    if (!charge(peer)) return;
    set_events(peer);
    if (more && peer.in.held() > 0 && !paused(peer)) deliver_later(peer.id);
  }

  void deliver_later(PeerId id) {
    reactor.defer([weak = self, id] {
      if (*weak == nullptr) return;
      const auto it = (*weak)->peers.find(id.value);
      if (it != (*weak)->peers.end()) (*weak)->deliver(*it->second);
    });
  }

  bool send(PeerId id, const std::string& body) {
    const auto it = peers.find(id.value);
    if (it == peers.end()) return false;
    Peer& peer = *it->second;
    if (peer.unread() > 0 && peer.unread() + body.size() > limits.unread_bytes_max) {
      refuse(peer, Error(Code::kLimit, "it does not read its answers: " + std::to_string(peer.unread()) + " bytes wait"));
      return false;
    }
    peer.out += local_head(body.size());
    peer.out += body;
    // Many answers often become ready at once: one system call takes them all.
    if (!std::exchange(peer.flush_due, true)) to_flush.push_back(id);
    if (!std::exchange(flush_due, true))
      reactor.defer([weak = self] {
        if (*weak != nullptr) (*weak)->flush_all();
      });
    return true;
  }

  void flush_all() {
    flush_due = false;
    for (const PeerId id : std::exchange(to_flush, {})) {
      const auto it = peers.find(id.value);
      if (it == peers.end()) continue;
      it->second->flush_due = false;
      flush(*it->second);
    }
  }

  void flush(Peer& peer) {
    const bool was_paused = (peer.events & EPOLLIN) == 0;
    bool progress = false;
    while (peer.unread() > 0) {
      const ssize_t n = ::send(peer.fd, peer.out.data() + peer.out_at, peer.unread(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) break;
      if (n < 0) return drop(peer);
      peer.out_at += static_cast<std::size_t>(n);
      progress = true;
    }
    if (peer.unread() == 0) {
      if (peer.out.capacity() > kKeptBytes) peer.out = std::string();
      peer.out.clear(), peer.out_at = 0;
      peer.stalled = Duration(0);
    } else {
      if (peer.out_at > limits.pause_bytes) peer.out.erase(0, std::exchange(peer.out_at, 0));
      if (progress || peer.stalled == Duration(0)) peer.stalled = real_time().mono;
    }
    if ((peer.unread() > 0 || peer.charged > 0) && !charge(peer)) return;
    set_events(peer);
    if (was_paused && !paused(peer) && peer.in.held() > 0) deliver_later(peer.id);
  }
};

LocalListener::LocalListener(Reactor& reactor, LocalLimits limits) : impl_(std::make_unique<Impl>(reactor, limits)) {}
LocalListener::~LocalListener() = default;

Result<> LocalListener::listen(const std::string& path) {
  Impl& im = *impl_;
  BOURSE_ASSERT(im.fd < 0, "listen twice: " + path);
  // Made under another name, opened to everybody, then moved over what is there: no moment without a socket or with a closed one.
  const std::string made = path + "~";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (made.size() >= sizeof address.sun_path)
    return Error(Code::kInvalid,
                 path + ": a socket's path has at most " + std::to_string(sizeof address.sun_path - 2) + " characters");
  made.copy(address.sun_path, made.size());
  if (LocalClient::connect(path, 0)) return Error(Code::kBusy, path + ": another process serves this socket");
  struct stat there {};
  if (lstat(path.c_str(), &there) == 0 && !S_ISSOCK(there.st_mode))
    return Error(Code::kExists, path + ": is there and no socket; it is left alone");
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return errno_error("socket");
  unlink(made.c_str());
  const auto failed = [&](const std::string& what) {
    Error error = errno_error(what);
    close(fd);
    unlink(made.c_str());
    return error;
  };
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return failed("bind " + made);
  struct stat own {};
  if (lstat(made.c_str(), &own) != 0 || chmod(made.c_str(), 0666) != 0) return failed("chmod " + made);
  if (::listen(fd, kBacklog) != 0) return failed("listen " + made);
  if (rename(made.c_str(), path.c_str()) != 0) return failed("rename " + made + " to " + path);
  im.fd = fd, im.path = path, im.device = own.st_dev, im.inode = own.st_ino;
  im.watch = im.reactor.watch(fd, EPOLLIN, [&im](std::uint32_t) { im.accept_some(); });
  return {};
}

void LocalListener::on_frame(std::function<void(const Frame&)> callback) { impl_->frame_callback = std::move(callback); }
void LocalListener::on_gone(std::function<void(PeerId)> callback) { impl_->gone_callback = std::move(callback); }
void LocalListener::on_refused(std::function<std::string(const Frame&, const Error&)> callback) {
  impl_->refused_callback = std::move(callback);
}
bool LocalListener::send(PeerId peer, std::string body) { return impl_->send(peer, body); }
std::size_t LocalListener::peers() const { return impl_->peers.size(); }

}  // namespace bourse
