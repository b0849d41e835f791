#include "frameworks/batch/tool_sockets.h"

#include <sys/stat.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "common/world/local_listener.h"
#include "common/world/log.h"
#include "frameworks/batch/protocol.h"

namespace bourse::batch {
namespace {

constexpr std::string_view kLocal = "unix://";
// A listener's peers have numbers of its own; outside they are told apart by the listener's place.
constexpr std::uint64_t kPeerBits = 56;
constexpr std::uint64_t kPeerMask = (std::uint64_t{1} << kPeerBits) - 1;

constexpr int kRefusalsLogged = 10;  // a minute
constexpr Duration kRefusalsWindow = seconds(60);

struct Socket {
  std::unique_ptr<LocalListener> local;  // one of the two
  std::unique_ptr<Listener> remote;
};

}  // namespace

struct ToolSockets::Impl {
  Reactor& reactor;
  std::unique_ptr<Context> context;  // made for the first ZeroMQ endpoint
  KeyPair keys;
  bool keyed = false;
  std::vector<Socket> sockets;
  std::function<void(PeerId, const Frame&)> request_callback;
  std::function<void(PeerId)> gone_callback;

  Duration window{0};
  int logged = 0;
  std::uint64_t unlogged = 0;

  explicit Impl(Reactor& r) : reactor(r) {}

  static PeerId outer(std::size_t place, PeerId peer) {
    return PeerId((static_cast<std::uint64_t>(place) << kPeerBits) | (peer.value & kPeerMask));
  }

  void request(std::size_t place, const Frame& frame) {
    if (request_callback) request_callback(outer(place, frame.peer), frame);
  }
  void gone(PeerId peer) {
    if (gone_callback) gone_callback(peer);
  }

  // Anybody on the host can make these lines: so many a minute, and how many there were.
  std::string refused(const std::string& path, const Frame& peer, const Error& why) {
    const Duration now = real_time().mono;
    if (window + kRefusalsWindow < now) {
      if (unlogged > 0) log_event(LogLevel::kWarn, "tools_refused", {{"socket", path}, {"not_logged", std::to_string(unlogged)}});
      window = now, logged = 0, unlogged = 0;
    }
    if (logged++ < kRefusalsLogged)
      log_event(LogLevel::kWarn, "tool_refused",
                {{"socket", path}, {"uid", std::to_string(peer.uid)}, {"pid", std::to_string(peer.pid)}, {"reason", why.text()}});
    else
      ++unlogged;
    return encode(ToolReply{kBatchProtocol, 0, RequestRefused{why.code(), "the connection is closed: " + why.text()}});
  }

  Result<> open_local(const std::string& path) {
    LocalLimits limits;
    limits.message_bytes_max = kRequestBytesMax;
    limits.unread_bytes_max = kReplyBytesMax;
    auto listener = std::make_unique<LocalListener>(reactor, limits);
    const std::size_t place = sockets.size();
    listener->on_frame([this, place](const Frame& frame) { request(place, frame); });
    listener->on_gone([this, place](PeerId peer) { gone(outer(place, peer)); });
    listener->on_refused([this, path](const Frame& peer, const Error& why) { return refused(path, peer, why); });
    BOURSE_TRY(listener->listen(path));
    sockets.push_back({std::move(listener), nullptr});
    return {};
  }

  Result<> open_remote(const std::string& endpoint, const std::string& key_directory, const std::string& framework) {
    if (!context) context = std::make_unique<Context>();
    const bool tcp = endpoint.starts_with("tcp://");
    const std::string key_file = key_directory + "/framework=" + framework;
    if (tcp && !keyed && access(key_file.c_str(), F_OK) == 0) {
      keys = BOURSE_TRY(read_key_file(key_file));
      context->set_keyring(BOURSE_TRY(Keyring::read(key_directory)));
      keyed = true;
    }
    SocketLimits limits;
    limits.message_bytes_max = static_cast<std::int64_t>(kRequestBytesMax);
    limits.ipc_mode = 0666;  // the kernel says who asks, here as well
    auto listener = std::make_unique<Listener>(*context, reactor, limits);
    BOURSE_TRY(listener->bind(endpoint, tcp && keyed ? &keys : nullptr));
    const std::size_t place = sockets.size();
    listener->on_frame([this, place](const Frame& frame) { request(place, frame); });
    sockets.push_back({nullptr, std::move(listener)});
    return {};
  }

  // What does not fit would never come: said instead of it.
  static std::string fitting(std::string bytes, std::size_t most) {
    if (bytes.size() <= most) return bytes;
    const auto reply = decode_reply(bytes);
    return encode(ToolReply{kBatchProtocol, reply ? reply->tag : 0,
                            RequestRefused{Code::kLimit, "the answer has " + std::to_string(bytes.size()) + " bytes, the most is " +
                                                             std::to_string(most) + "; ask for less at once"}});
  }
};

ToolSockets::ToolSockets(Reactor& reactor) : impl_(std::make_unique<Impl>(reactor)) {}
ToolSockets::~ToolSockets() { impl_->sockets.clear(); }

Result<> ToolSockets::open(const std::string& endpoint, const std::string& key_directory, const std::string& framework) {
  const bool local = endpoint.starts_with(kLocal);
  BOURSE_TRY(local ? impl_->open_local(endpoint.substr(kLocal.size())) : impl_->open_remote(endpoint, key_directory, framework));
  const Socket& socket = impl_->sockets.back();
  log_event(LogLevel::kInfo, "listening", {{"endpoint", socket.remote ? socket.remote->endpoint() : endpoint}});
  return {};
}

Result<> ToolSockets::read_keys(const std::string& key_directory) {
  if (!impl_->keyed) return {};
  impl_->context->set_keyring(BOURSE_TRY(Keyring::read(key_directory)));
  for (const Socket& socket : impl_->sockets)
    if (socket.remote) socket.remote->recheck_keys();
  return {};
}

void ToolSockets::on_request(std::function<void(PeerId, const Frame&)> callback) { impl_->request_callback = std::move(callback); }
void ToolSockets::on_gone(std::function<void(PeerId)> callback) { impl_->gone_callback = std::move(callback); }

void ToolSockets::send(PeerId peer, std::string bytes) {
  const auto place = static_cast<std::size_t>(peer.value >> kPeerBits);
  BOURSE_ASSERT(place < impl_->sockets.size(), "an answer to peer " + std::to_string(peer.value));
  const Socket& socket = impl_->sockets[place];
  const PeerId inner(peer.value & kPeerMask);
  // ZeroMQ has one limit for both directions.
  bytes = Impl::fitting(std::move(bytes), socket.local ? kReplyBytesMax : kRequestBytesMax);
  if (socket.local) {
    (void)socket.local->send(inner, std::move(bytes));
    return;
  }
  if (socket.remote->send(inner, std::move(bytes))) return;
  log_event(LogLevel::kDebug, "reply_dropped", {{"peer", std::to_string(peer.value)}});
  impl_->gone(peer);
}

}  // namespace bourse::batch
