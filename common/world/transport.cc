#include "common/world/transport.h"

#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <deque>
#include <list>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>
#include <zmq.hpp>

#include "common/core/hooks.h"
#include "common/world/spawn.h"
#include "common/world/thread.h"

namespace bourse {
namespace {

constexpr int kHandshakeMs = 10'000;
constexpr int kReconnectFirstMs = 100, kReconnectMaxMs = 2'000;
constexpr int kUnacknowledgedMs = 30'000;  // TCP gives a silent peer up after this, which frees its queue
constexpr int kBacklog = 4096;
constexpr int kBatchDefault = 256;
constexpr std::size_t kCopyMax = 4096;  // larger bodies are handed to ZeroMQ without a copy
constexpr rlim_t kDescriptorsMax = 262'144;
constexpr std::size_t kPenaltiesMax = 4096;  // keys; beyond, all are let in again

struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const noexcept { return std::hash<std::string_view>()(text); }
};

struct Endpoint {
  enum class Kind { kTcp, kIpc, kInproc } kind = Kind::kTcp;
  std::string text;  // as ZeroMQ wants it
  std::string path;  // ipc
  bool loopback = false, ipv6 = false;
};

Result<Endpoint> parse_endpoint(const std::string& text, bool to_bind) {
  Endpoint out;
  out.text = text;
  if (text.starts_with("inproc://") && text.size() > 9) {
    out.kind = Endpoint::Kind::kInproc;
    return out;
  }
  if (text.starts_with("ipc://") && text.size() > 6) {
    out.kind = Endpoint::Kind::kIpc;
    out.path = text.substr(6);
    if (out.path.size() > 107) return Error(Code::kInvalid, "endpoint " + text + ": a socket's path has at most 107 characters");
    return out;
  }
  const auto colon = text.rfind(':');
  if (!text.starts_with("tcp://") || colon < 7)
    return Error(Code::kInvalid, "endpoint `" + text + "': expected tcp://HOST:PORT, ipc://PATH or inproc://NAME");
  const std::string host = text.substr(6, colon - 6);
  const std::string port = text.substr(colon + 1);
  unsigned number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  const bool any_port = port == "*" || port == "0";
  if (!any_port && (error != std::errc() || end != port.data() + port.size() || number == 0 || number > 65535))
    return Error(Code::kInvalid, "endpoint " + text + ": `" + port + "' is not a port (1 to 65535)");
  if (any_port && !to_bind) return Error(Code::kInvalid, "endpoint " + text + ": a port is needed to connect to");
  if (any_port) out.text = "tcp://" + host + ":*";
  out.loopback = host.starts_with("127.") || host == "localhost" || host == "[::1]";
  out.ipv6 = host.starts_with("[");
  return out;
}

Error zmq_failure(const std::string& what, int code) {
  const Code kind = code == EADDRINUSE ? Code::kBusy : code == EACCES ? Code::kDenied : Code::kIo;
  return Error(kind, what + ": " + zmq_strerror(code));
}

// Bytes of large messages that ZeroMQ's own thread has not handed on yet: of one peer, and of all of its listener. They outlive both.
using Unread = std::shared_ptr<std::atomic<std::int64_t>>;

struct Large {
  std::string bytes;
  Unread peer, all;
};

void free_large(void*, void* hint) {
  auto* large = static_cast<Large*>(hint);
  const auto size = static_cast<std::int64_t>(large->bytes.size());
  if (large->peer) *large->peer -= size;
  if (large->all) *large->all -= size;
  delete large;
}

void make_message(zmq_msg_t& message, std::string bytes, const Unread& peer = {}, const Unread& all = {}) {
  int rc = 0;
  if (bytes.size() <= kCopyMax) {
    rc = zmq_msg_init_size(&message, bytes.size());
    BOURSE_ASSERT(rc == 0, "zmq_msg_init_size: out of memory");
    std::memcpy(zmq_msg_data(&message), bytes.data(), bytes.size());
    return;
  }
  const auto size = static_cast<std::int64_t>(bytes.size());
  if (peer) *peer += size;
  if (all) *all += size;
  auto* owned = new Large{std::move(bytes), peer, all};
  rc = zmq_msg_init_data(&message, owned->bytes.data(), owned->bytes.size(), free_large, owned);
  BOURSE_ASSERT(rc == 0, "zmq_msg_init_data: out of memory");
}

// What a peer may still send: refilled at `rate` a second, up to `burst` of it. In millionths, so that no time is lost.
class Bucket {
 public:
  bool take(Duration now, std::int64_t amount, std::int64_t rate, Duration burst) {
    if (rate == 0) return true;
    const std::int64_t most = rate * burst.count();
    left_ = fresh_ ? most : std::min(most, left_ + std::clamp(now - at_, Duration(0), burst).count() * rate);
    fresh_ = false;
    at_ = now;
    left_ -= amount * 1'000'000;
    return left_ >= 0;
  }

 private:
  std::int64_t left_ = 0;
  Duration at_{0};
  bool fresh_ = true;
};

// A received message part that closes itself.
struct Part {
  zmq_msg_t raw;
  Part() { zmq_msg_init(&raw); }
  ~Part() { zmq_msg_close(&raw); }
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;
  [[nodiscard]] std::string_view view() { return {static_cast<const char*>(zmq_msg_data(&raw)), zmq_msg_size(&raw)}; }
  [[nodiscard]] bool more() const { return zmq_msg_more(&raw) != 0; }
  [[nodiscard]] bool take(zmq::socket_t& socket) {
    int rc = 0;
    do rc = zmq_msg_recv(&raw, socket.handle(), ZMQ_DONTWAIT);
    while (rc < 0 && errno == EINTR);
    return rc >= 0;
  }
  [[nodiscard]] std::string_view property(const char* name) const {
    const char* value = zmq_msg_gets(&raw, name);
    return value == nullptr ? std::string_view() : std::string_view(value);
  }
};

bool put(zmq::socket_t& socket, zmq_msg_t& message, int flags) {
  int rc = 0;
  do rc = zmq_msg_send(&message, socket.handle(), flags | ZMQ_DONTWAIT);
  while (rc < 0 && errno == EINTR);
  if (rc < 0) {
    const int code = errno;
    zmq_msg_close(&message);
    errno = code;
  }
  return rc >= 0;
}

void set_common(zmq::socket_t& socket, const SocketLimits& limits, const Endpoint& endpoint) {
  socket.set(zmq::sockopt::linger, 0);
  socket.set(zmq::sockopt::sndhwm, limits.high_water_mark);
  socket.set(zmq::sockopt::rcvhwm, limits.high_water_mark);
  socket.set(zmq::sockopt::maxmsgsize, limits.message_bytes_max);
  socket.set(zmq::sockopt::handshake_ivl, kHandshakeMs);
  socket.set(zmq::sockopt::heartbeat_ivl, 0);  // the protocol has its own
  if (endpoint.ipv6) socket.set(zmq::sockopt::ipv6, true);
  if (endpoint.kind != Endpoint::Kind::kTcp) return;
  // The kernel notices hosts that vanished without a word, so that their connections do not pile up. Costs us no wake-up.
  socket.set(zmq::sockopt::tcp_keepalive, 1);
  socket.set(zmq::sockopt::tcp_keepalive_idle, 60);
  socket.set(zmq::sockopt::tcp_keepalive_intvl, 15);
  socket.set(zmq::sockopt::tcp_keepalive_cnt, 4);
  socket.set(zmq::sockopt::tcp_maxrt, kUnacknowledgedMs);
}

// "ADDRESS:UID:GID:PID", as libzmq writes Peer-Address on an AF_UNIX connection on Linux.
bool parse_credentials(std::string_view text, Frame& out) {
  std::int64_t* const fields[] = {&out.pid, &out.gid, &out.uid};
  for (std::int64_t* field : fields) {
    const auto colon = text.rfind(':');
    if (colon == std::string_view::npos) return false;
    const std::string_view digits = text.substr(colon + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), *field);
    if (error != std::errc() || end != digits.data() + digits.size()) return false;
    text = text.substr(0, colon);
  }
  return true;
}

}  // namespace

KeyPair make_key_pair() {
  char public_key[41] = {}, secret_key[41] = {};
  const int rc = zmq_curve_keypair(public_key, secret_key);
  BOURSE_ASSERT(rc == 0, "libzmq was built without CURVE");
  return {public_key, secret_key};
}

// --- context and ZAP -------------------------------------------------------------------------------------------------------

struct Context::Impl {
  zmq::context_t zmq;
  std::mutex mutex;
  Keyring keyring;                        // guarded by mutex
  std::atomic<std::uint64_t> version{1};  // of the keyring: identities looked up under an older one are stale
  std::atomic<std::uint64_t> refused{0};
  std::atomic<int> sockets{0};
  std::thread zap;

  Keyring::Entry entry(const std::string& key) {
    std::lock_guard lock(mutex);
    const Keyring::Entry* found = keyring.find(key);
    return found == nullptr ? Keyring::Entry{} : *found;
  }

  // ZAP (ZeroMQ RFC 27). User-Id is the client's public key, so that who that is can be asked again for each message.
  void serve_zap(zmq::socket_t& socket) {
    try {
      while (true) {
        zmq::message_t frames[8];
        std::size_t count = 0;
        bool more = true;
        while (more) {
          zmq::message_t frame;
          if (!socket.recv(frame, zmq::recv_flags::none)) return;
          more = frame.more();
          if (count < 8) frames[count++] = std::move(frame);
        }
        // version, request id, domain, address, routing id, mechanism, credentials
        std::string key;
        bool good =
            count == 7 && frames[0].to_string_view() == "1.0" && frames[5].to_string_view() == "CURVE" && frames[6].size() == 32;
        if (good) {
          char text[41] = {};
          zmq_z85_encode(text, static_cast<const std::uint8_t*>(frames[6].data()), 32);
          key = text;
          good = !entry(key).identity.empty();
        }
        if (!good) ++refused;
        const std::string id = count > 1 ? frames[1].to_string() : std::string();
        const std::string reply[] = {"1.0",           id, good ? "200" : "400", good ? "OK" : "this key is not allowed here",
                                     good ? key : "", ""};
        for (std::size_t i = 0; i < 6; ++i)
          (void)socket.send(zmq::buffer(reply[i]), i < 5 ? zmq::send_flags::sndmore : zmq::send_flags::none);
      }
    } catch (const zmq::error_t&) {  // ETERM: the context is being closed
    }
    socket.close();
  }
};

Context::Context() : impl_(std::make_unique<Impl>()) {
  // A master holds a descriptor a peer; the usual soft limit of 1024 would be met by the thousandth agent. Children get the
  // old limit back from spawn().
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    spawn_keeps_descriptor_limit(limit.rlim_cur);
    limit.rlim_cur = std::max(limit.rlim_cur, std::min(limit.rlim_max, kDescriptorsMax));
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  impl_->zmq.set(zmq::ctxopt::max_sockets, 65'535);
  zmq::socket_t zap(impl_->zmq, zmq::socket_type::rep);
  zap.set(zmq::sockopt::linger, 0);
  zap.bind("inproc://zeromq.zap.01");
  impl_->zap = quiet_thread([im = impl_.get(), socket = std::move(zap)]() mutable { im->serve_zap(socket); });
}

Context::~Context() {
  BOURSE_ASSERT(impl_->sockets == 0, "a Listener or Connection outlives its Context");
  impl_->zmq.shutdown();
  impl_->zap.join();
  impl_->zmq.close();
}

void Context::set_keyring(Keyring keyring) {
  {
    std::lock_guard lock(impl_->mutex);
    impl_->keyring = std::move(keyring);
  }
  ++impl_->version;
}

std::uint64_t Context::refused_handshakes() const { return impl_->refused; }

// --- listener --------------------------------------------------------------------------------------------------------------

struct Listener::Impl {
  struct Peer {
    PeerId id;
    std::string routing_id;
    std::string who;  // User-Id, or Peer-Address: fixed for the life of a connection
    Keyring::Entry entry;
    std::uint64_t keyring_version = 0;
    std::int64_t uid = -1, gid = -1, pid = -1;
    bool cut = false;
    Duration cut_until{0};  // not 0: until then, and then it is another peer
    std::string address;
    Bucket frames, bytes, strikes;
    Unread unread = std::make_shared<std::atomic<std::int64_t>>(0);
  };
  using Peers = std::list<Peer>;  // the one that was silent for longest first

  Context::Impl& context;
  Reactor& reactor;
  SocketLimits limits;
  zmq::socket_t socket;
  bool bound = false, curve = false, ipc = false;
  std::string endpoint;
  Reactor::WatchId watch = 0;
  std::function<void(const Frame&)> callback;
  int batch = kBatchDefault;

  Peers peers;
  std::unordered_map<std::string, Peers::iterator, TextHash, std::equal_to<>> by_routing_id;
  std::unordered_map<std::uint64_t, Peers::iterator> by_id;
  std::uint64_t next_peer = kFirstPeer;

  std::uint64_t dropped = 0, floods = 0;
  std::function<void(PeerId, const std::string&)> lost_callback;
  std::map<std::string, Duration, std::less<>> penalties;  // by key: until when what it sends on any connection is dropped
  Unread unread = std::make_shared<std::atomic<std::int64_t>>(0);
  Duration now{0};  // of this turn
  bool pump_due = false;
  // Outlives us in deferred callbacks.
  std::shared_ptr<Impl*> self = std::make_shared<Impl*>(this);

  Impl(Context::Impl& c, Reactor& r, SocketLimits l) : context(c), reactor(r), limits(l) { ++context.sockets; }
  ~Impl() {
    *self = nullptr;
    if (watch != 0) reactor.unwatch(watch);
    socket.close();
    --context.sockets;
  }

  Peers::iterator make_peer(std::string_view routing_id, std::string_view who, std::string_view address) {
    if (peers.size() >= limits.peers_max) forget(peers.begin());
    auto it = peers.emplace(peers.end());
    it->id = PeerId(next_peer++);
    it->routing_id = routing_id;
    it->who = who;
    if (!ipc) it->address = address;  // libzmq gives it without the port
    if (const auto penalty = penalties.find(who); penalty != penalties.end() && !who.empty()) {
      if (now < penalty->second)
        it->cut = true, it->cut_until = penalty->second;
      else
        penalties.erase(penalty);
    }
    if (ipc) {
      Frame credentials;
      if (parse_credentials(who, credentials)) {
        it->uid = credentials.uid;
        it->gid = credentials.gid;
        it->pid = credentials.pid;
      }
    }
    by_routing_id[it->routing_id] = it;
    by_id[it->id.value] = it;
    return it;
  }

  void forget(Peers::iterator it) {
    by_routing_id.erase(it->routing_id);
    by_id.erase(it->id.value);
    peers.erase(it);
  }

  // A routing id alone proves nothing: a client may choose it, also one that a peer which is gone had. What the handshake
  // proved must be the same too, else it is another peer.
  Peers::iterator find_peer(std::string_view routing_id, std::string_view who, const Part& body) {
    auto found = by_routing_id.find(routing_id);
    if (found == by_routing_id.end()) return make_peer(routing_id, who, body.property("Peer-Address"));
    auto it = found->second;
    if (it->who != who || (it->cut_until.count() != 0 && now >= it->cut_until)) {
      forget(it);
      return make_peer(routing_id, who, body.property("Peer-Address"));
    }
    peers.splice(peers.end(), peers, it);
    return it;
  }

  // True when the peer's key is still allowed. See "Cutting a ZeroMQ peer".
  bool refresh_identity(Peer& peer) {
    if (!curve) return true;
    const std::uint64_t version = context.version.load(std::memory_order_acquire);
    if (peer.keyring_version != version && !(peer.keyring_version != 0 && hooks::mutant("transport.recheck_key"))) {
      peer.entry = context.entry(peer.who);
      peer.keyring_version = version;
    }
    return !peer.entry.identity.empty();
  }

  void lost(PeerId id, const std::string& why) {
    if (lost_callback) lost_callback(id, why);
  }

  // Until it has been quiet for a while, nothing of it is looked at: neither on this connection nor, where a key says who it is, on others.
  void cut_for_flood(Peer& peer, const std::string& why) {
    ++floods;
    peer.cut = true;
    peer.cut_until = now + kCutPause;
    if (penalties.size() >= kPenaltiesMax) penalties.clear();
    if (curve) penalties[peer.who] = peer.cut_until;
    lost(peer.id, why);
  }

  bool within_limits(Peer& peer, std::size_t bytes) {
    if (hooks::mutant("transport.no_rate_limit")) return true;
    const bool few = peer.frames.take(now, 1, limits.frames_per_second, limits.burst);
    const bool small = peer.bytes.take(now, static_cast<std::int64_t>(bytes), limits.bytes_per_second, limits.burst);
    if (few && small) return true;
    cut_for_flood(peer, few ? "it sent more bytes than a peer may" : "it sent more messages than a peer may");
    return false;
  }

  void receive(Part& routing_id, Part& body) {
    const char* const property = curve ? "User-Id" : "Peer-Address";
    const auto it = find_peer(routing_id.view(), curve || ipc ? body.property(property) : std::string_view(), body);
    if ((it->cut && !hooks::mutant("transport.cut")) || !refresh_identity(*it) || !within_limits(*it, body.view().size())) {
      ++dropped;
      return;
    }
    if (!callback) return;
    Frame frame;
    frame.peer = it->id;
    frame.identity = it->entry.identity;
    frame.roles = it->entry.roles;
    frame.address = it->address;
    frame.uid = it->uid;
    frame.gid = it->gid;
    frame.pid = it->pid;
    frame.bytes = body.view();
    callback(frame);
  }

  // ZMQ_FD is edge-triggered, and a send may swallow its edge: so we read until ZeroMQ says there is nothing, and after any
  // send look again before the loop sleeps.
  void pump() {
    const auto alive = self;
    now = real_time().mono;
    for (int handled = 0; handled < batch; ++handled) {
      Part routing_id;
      if (!routing_id.take(socket)) return;
      if (!routing_id.more()) continue;
      Part body;
      if (!body.take(socket)) return;
      if (body.more()) {  // nobody of ours sends more than one part
        ++dropped;
        while (body.more() && body.take(socket)) {}
        continue;
      }
      receive(routing_id, body);
      if (*alive == nullptr) return;
    }
    if (!hooks::mutant("transport.drain")) pump_later();
  }

  void pump_later() {
    if (pump_due) return;
    pump_due = true;
    reactor.defer([weak = self] {
      if (*weak == nullptr) return;
      (*weak)->pump_due = false;
      (*weak)->pump();
    });
  }

  static constexpr std::uint64_t kFirstPeer = 2;  // 1 is kMasterPeer
};

Listener::Listener(Context& context, Reactor& reactor, SocketLimits limits)
    : impl_(std::make_unique<Impl>(*context.impl(), reactor, limits)) {}
Listener::~Listener() = default;

Result<> Listener::bind(const std::string& endpoint, const KeyPair* keys, bool allow_plain) {
  Impl& im = *impl_;
  BOURSE_ASSERT(!im.bound, "bind twice: " + endpoint);
  const Endpoint where = BOURSE_TRY(parse_endpoint(endpoint, true));
  if (where.kind == Endpoint::Kind::kTcp && keys == nullptr && !(where.loopback && allow_plain))
    return Error(Code::kDenied, "bind " + endpoint + ": tcp needs a key; give one, or listen on ipc or loopback");
  const char* step = "bind ";
  try {
    im.socket = zmq::socket_t(im.context.zmq, zmq::socket_type::router);
    set_common(im.socket, im.limits, where);
    im.socket.set(zmq::sockopt::router_mandatory, true);
    im.socket.set(zmq::sockopt::backlog, kBacklog);
    im.curve = keys != nullptr && where.kind != Endpoint::Kind::kInproc;
    im.ipc = where.kind == Endpoint::Kind::kIpc;
    if (im.curve) {
      step = "keys for ";
      im.socket.set(zmq::sockopt::curve_server, true);
      im.socket.set(zmq::sockopt::curve_publickey, keys->public_key);
      im.socket.set(zmq::sockopt::curve_secretkey, keys->secret_key);
      step = "bind ";
    }
    // Made closed, then opened as far as it may be: never open for a moment.
    const mode_t before = umask(0177);
    int failure = 0;
    try {
      im.socket.bind(where.text);
    } catch (const zmq::error_t& error) { failure = error.num(); }
    umask(before);
    if (failure != 0) {
      im.socket.close();
      return zmq_failure("bind " + endpoint, failure);
    }
    im.endpoint = im.socket.get(zmq::sockopt::last_endpoint);
    if (im.ipc && chmod(where.path.c_str(), im.curve ? 0666 : im.limits.ipc_mode) != 0) return errno_error("chmod " + where.path);
  } catch (const zmq::error_t& error) {
    im.socket.close();
    return zmq_failure(step + endpoint, error.num());
  }
  im.bound = true;
  im.watch = im.reactor.watch(im.socket.get(zmq::sockopt::fd), EPOLLIN, [&im](std::uint32_t) { im.pump(); });
  im.pump_later();  // inproc peers may have written before we had a descriptor
  return {};
}

std::string Listener::endpoint() const { return impl_->endpoint; }
void Listener::on_frame(std::function<void(const Frame&)> callback) { impl_->callback = std::move(callback); }
std::uint64_t Listener::dropped() const { return impl_->dropped; }
void Listener::set_batch(int frames) { impl_->batch = std::max(frames, 1); }

bool Listener::send(PeerId peer, std::string bytes) {
  Impl& im = *impl_;
  const auto found = im.by_id.find(peer.value);
  if (found == im.by_id.end() || found->second->cut) return false;
  Impl::Peer& to = *found->second;
  if (!im.refresh_identity(to)) return false;
  if (static_cast<std::int64_t>(bytes.size()) > im.limits.message_bytes_max) return false;
  if (bytes.size() > kCopyMax && !hooks::mutant("transport.no_unread_limit")) {
    const std::int64_t unread = *to.unread;
    if (unread > im.limits.unread_bytes_max || (unread > 0 && *im.unread > kUnreadTotalMax)) return false;
  }
  zmq_msg_t head;
  const int rc = zmq_msg_init_size(&head, to.routing_id.size());
  BOURSE_ASSERT(rc == 0, "zmq_msg_init_size: out of memory");
  std::memcpy(zmq_msg_data(&head), to.routing_id.data(), to.routing_id.size());
  if (!hooks::mutant("transport.recheck_after_send")) im.pump_later();
  if (!put(im.socket, head, ZMQ_SNDMORE)) {
    if (errno == EHOSTUNREACH) im.forget(found->second);  // it can only come back as another peer
    return false;
  }
  zmq_msg_t body;
  make_message(body, std::move(bytes), to.unread, im.unread);
  return put(im.socket, body, 0);
}

void Listener::cut(PeerId peer) {
  const auto found = impl_->by_id.find(peer.value);
  if (found != impl_->by_id.end()) found->second->cut = true;
}

bool Listener::strike(PeerId peer) {
  const auto found = impl_->by_id.find(peer.value);
  if (found == impl_->by_id.end() || hooks::mutant("transport.no_strikes")) return false;
  Impl::Peer& it = *found->second;
  if (it.cut || it.strikes.take(real_time().mono, 1, kStrikesPerSecond, seconds(kStrikesBurst / kStrikesPerSecond))) return it.cut;
  impl_->cut_for_flood(it, "it sent too much that nobody of ours sends");
  return true;
}

void Listener::recheck_keys() {
  Impl& im = *impl_;
  if (!im.curve) return;
  std::vector<PeerId> gone;
  for (Impl::Peer& peer : im.peers) {
    const Keyring::Entry before = peer.entry;
    if (peer.keyring_version != 0 && (!im.refresh_identity(peer) || peer.entry != before)) gone.push_back(peer.id);
  }
  for (const PeerId id : gone) {
    const auto found = im.by_id.find(id.value);
    if (found == im.by_id.end()) continue;
    const bool allowed = !found->second->entry.identity.empty();
    im.forget(found->second);
    im.lost(id, allowed ? "its key has another meaning now" : "its key was revoked");
  }
}

void Listener::on_lost(std::function<void(PeerId, const std::string&)> callback) { impl_->lost_callback = std::move(callback); }
std::size_t Listener::peers() const { return impl_->peers.size(); }
std::uint64_t Listener::floods() const { return impl_->floods; }

// --- connection ------------------------------------------------------------------------------------------------------------

struct Connection::Impl {
  Context::Impl& context;
  Reactor& reactor;
  SocketLimits limits;
  zmq::socket_t socket;
  bool open = false;
  // Until the first connect is through, messages wait here; later ones are refused instead while the connection is down, so
  // that a peer that returns after an hour is not handed an hour's messages.
  bool established = false;
  std::deque<std::string> early;
  Reactor::WatchId watch = 0;
  std::function<void(std::string_view)> callback;
  std::function<void(bool)> state_callback;
  bool up = false;
  bool pump_due = false;
  std::shared_ptr<Impl*> self = std::make_shared<Impl*>(this);
  std::uint64_t life = 0;  // of the socket: a callback may close it and open another

  Impl(Context::Impl& c, Reactor& r, SocketLimits l) : context(c), reactor(r), limits(l) { ++context.sockets; }
  ~Impl() {
    *self = nullptr;
    close();
    --context.sockets;
  }

  void close() {
    if (watch != 0) reactor.unwatch(watch);
    watch = 0;
    socket.close();
    open = established = up = false;
    early.clear();
    ++life;
  }

  // On failure `bytes` is as it was.
  bool put_now(std::string& bytes) {
    zmq_msg_t message;
    make_message(message, std::move(bytes));
    int rc = 0;
    do rc = zmq_msg_send(&message, socket.handle(), ZMQ_DONTWAIT);
    while (rc < 0 && errno == EINTR);
    if (rc >= 0) return true;
    bytes.assign(static_cast<const char*>(zmq_msg_data(&message)), zmq_msg_size(&message));
    zmq_msg_close(&message);
    return false;
  }

  void flush_early() {
    while (!early.empty()) {
      if (!put_now(early.front())) return;
      early.pop_front();
      established = true;
    }
  }

  // With ZMQ_IMMEDIATE a DEALER has a pipe, and so can be written to, from the end of the handshake until the connection breaks.
  void look_at_state() {
    if (!state_callback || !open) return;
    const int events = socket.get(zmq::sockopt::events);
    if ((events & ZMQ_POLLIN) != 0) pump_later();  // it came after we had read all there was, and looking has taken its edge
    const bool now = (events & ZMQ_POLLOUT) != 0;
    if (now == up) return;
    up = now;
    state_callback(now);
  }

  void pump() {
    const auto alive = self;
    read();
    if (*alive != nullptr) look_at_state();
  }

  void read() {  // as Listener's pump
    if (!open) return;
    const auto alive = self;
    const std::uint64_t this_life = life;
    for (int handled = 0; handled < kBatchDefault; ++handled) {
      Part body;
      if (!body.take(socket)) {
        if (early.empty()) return;
        flush_early();
        // A send in flush_early may have taken notice of new input.
        if ((socket.get(zmq::sockopt::events) & ZMQ_POLLIN) != 0) pump_later();
        return;
      }
      established = true;
      if (body.more()) {
        while (body.more() && body.take(socket)) {}
        continue;
      }
      if (callback) callback(body.view());
      if (*alive == nullptr || life != this_life) return;
    }
    flush_early();
    if (!hooks::mutant("transport.drain")) pump_later();
  }

  void pump_later() {
    if (pump_due) return;
    pump_due = true;
    reactor.defer([weak = self] {
      if (*weak == nullptr) return;
      (*weak)->pump_due = false;
      (*weak)->pump();
    });
  }
};

Connection::Connection(Context& context, Reactor& reactor, SocketLimits limits)
    : impl_(std::make_unique<Impl>(*context.impl(), reactor, limits)) {}
Connection::~Connection() = default;

Result<> Connection::connect(const std::string& endpoint, const KeyPair* keys, const std::string& server_key) {
  Impl& im = *impl_;
  BOURSE_ASSERT(!im.open, "connect twice: " + endpoint);
  const Endpoint where = BOURSE_TRY(parse_endpoint(endpoint, false));
  const bool curve = !server_key.empty() && where.kind != Endpoint::Kind::kInproc;
  if (where.kind == Endpoint::Kind::kTcp && !curve && !where.loopback)
    return Error(Code::kDenied, "connect " + endpoint + ": tcp to another host needs the server's key");
  if (curve && keys == nullptr) return Error(Code::kDenied, "connect " + endpoint + ": a key of our own is needed");
  const char* step = "connect ";
  try {
    im.socket = zmq::socket_t(im.context.zmq, zmq::socket_type::dealer);
    set_common(im.socket, im.limits, where);
    im.socket.set(zmq::sockopt::immediate, true);
    im.socket.set(zmq::sockopt::reconnect_ivl, kReconnectFirstMs);
    im.socket.set(zmq::sockopt::reconnect_ivl_max, kReconnectMaxMs);
    if (curve) {
      step = "keys for ";
      im.socket.set(zmq::sockopt::curve_serverkey, server_key);
      im.socket.set(zmq::sockopt::curve_publickey, keys->public_key);
      im.socket.set(zmq::sockopt::curve_secretkey, keys->secret_key);
      step = "connect ";
    }
    im.socket.connect(where.text);
    im.watch = im.reactor.watch(im.socket.get(zmq::sockopt::fd), EPOLLIN, [&im](std::uint32_t) { im.pump(); });
  } catch (const zmq::error_t& error) {
    im.close();
    return zmq_failure(step + endpoint, error.num());
  }
  im.open = true;
  im.pump_later();
  return {};
}

void Connection::close() { impl_->close(); }
void Connection::on_frame(std::function<void(std::string_view)> callback) { impl_->callback = std::move(callback); }
void Connection::on_state(std::function<void(bool up)> callback) { impl_->state_callback = std::move(callback); }

bool Connection::send(std::string bytes) {
  Impl& im = *impl_;
  if (!im.open || static_cast<std::int64_t>(bytes.size()) > im.limits.message_bytes_max) return false;
  if (!hooks::mutant("transport.recheck_after_send")) im.pump_later();
  if (im.early.empty()) {
    if (im.put_now(bytes)) {
      im.established = true;
      return true;
    }
    if (im.established) return false;
  }
  if (im.early.size() >= kEarlyMax) return false;
  im.early.push_back(std::move(bytes));
  return true;
}

}  // namespace bourse
