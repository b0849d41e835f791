#include "frameworks/console/http.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <list>
#include <map>
#include <optional>

#include "common/core/hooks.h"

namespace bourse::console {
namespace {

constexpr int kBacklog = 128;
constexpr unsigned kSpareConnections = 64;  // between what we allow and what the library does: room for those being cut
constexpr std::string_view kGet = "GET", kHead = "HEAD";

// What every answer says. Pages may add to it, not take away.
constexpr std::pair<const char*, const char*> kHeaders[] = {
    {"Cache-Control", "no-store"},      {"X-Content-Type-Options", "nosniff"},           {"X-Frame-Options", "DENY"},
    {"Referrer-Policy", "no-referrer"}, {"Cross-Origin-Resource-Policy", "same-origin"},
};
constexpr const char* kNoContent = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

Answer plain(int status, const std::string& text) {
  Answer answer;
  answer.status = status;
  answer.body = std::make_shared<const std::string>(text + "\n");
  return answer;
}

struct Socket {
  sockaddr_storage storage{};
  socklen_t size = 0;
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

std::optional<Socket> socket_address(const ListenAddress& address) {
  Socket s;
  if (address.v6) {
    auto& in6 = reinterpret_cast<sockaddr_in6&>(s.storage);
    in6.sin6_family = AF_INET6, in6.sin6_port = htons(address.port), s.size = sizeof in6;
    if (inet_pton(AF_INET6, address.host.c_str(), &in6.sin6_addr) != 1) return std::nullopt;
  } else {
    auto& in = reinterpret_cast<sockaddr_in&>(s.storage);
    in.sin_family = AF_INET, in.sin_port = htons(address.port), s.size = sizeof in;
    if (inet_pton(AF_INET, address.host.c_str(), &in.sin_addr) != 1) return std::nullopt;
  }
  return s;
}

Result<int> listening_socket(ListenAddress& address, const std::string& text) {
  auto where = socket_address(address);
  BOURSE_ASSERT(where.has_value(), address.host);
  const int fd = socket(where->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return errno_error("socket");
  const int one = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (address.v6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one);
  if (bind(fd, where->get(), where->size) != 0 || listen(fd, kBacklog) != 0 || getsockname(fd, where->get(), &where->size) != 0) {
    Error error = errno_error("listen on " + text);
    close(fd);
    return error;
  }
  address.port = ntohs(address.v6 ? reinterpret_cast<sockaddr_in6&>(where->storage).sin6_port
                                  : reinterpret_cast<sockaddr_in&>(where->storage).sin_port);
  return fd;
}

}  // namespace

Result<ListenAddress> parse_listen(const std::string& text, bool allow_remote) {
  const auto bad = [&] {
    return Error(Code::kInvalid,
                 "console.listen: `" + text + "' is no numeric address with a port, such as 127.0.0.1:7480 or [::1]:0");
  };
  ListenAddress address;
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon + 1 == text.size()) return bad();
  address.host = text.substr(0, colon);
  const char *begin = text.data() + colon + 1, *end = text.data() + text.size();
  const auto [at, error] = std::from_chars(begin, end, address.port);
  if (error != std::errc{} || at != end) return bad();
  if (address.host.size() > 2 && address.host.front() == '[' && address.host.back() == ']') {
    address.v6 = true;
    address.host = address.host.substr(1, address.host.size() - 2);
  }
  auto where = socket_address(address);
  if (!where) return bad();
  address.loopback = address.v6 ? IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<sockaddr_in6&>(where->storage).sin6_addr)
                                : (ntohl(reinterpret_cast<sockaddr_in&>(where->storage).sin_addr.s_addr) >> 24) == IN_LOOPBACKNET;
  if (!address.loopback && !allow_remote && !hooks::mutant("console.listens_anywhere"))
    return Error(Code::kDenied,
                 "console.listen: " + text +
                     " can be reached from elsewhere, and the console asks nobody who he is. Let it listen on 127.0.0.1 "
                     "behind a proxy that does; or, where everybody may see the cluster, set console.allow_remote");
  return address;
}

bool host_allowed(std::string_view header, const ListenAddress& address, const std::vector<std::string>& hosts) {
  if (hooks::mutant("console.any_host")) return true;
  // Without the port. An address in brackets has colons of its own.
  std::string_view name = header;
  if (const std::size_t colon = name.rfind(':'); colon != std::string_view::npos && name.find(']', colon) == std::string_view::npos)
    name = name.substr(0, colon);
  std::string lower(name);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  if (address.loopback && (lower == "localhost" || lower == "127.0.0.1" || lower == "[::1]")) return true;
  // Nobody's name can be an address, so one that was typed is no trick.
  if (lower == (address.v6 ? "[" + address.host + "]" : address.host)) return true;
  return std::any_of(hosts.begin(), hosts.end(), [&](const std::string& host) { return host == "*" || host == lower; });
}

struct HttpServer::Impl {
  struct Peer {
    MHD_Connection* connection;
    int fd;
    Duration since;
  };

  Reactor& reactor;
  Handler handler;
  ListenAddress address;
  std::vector<std::string> hosts;
  MHD_Daemon* daemon = nullptr;
  Reactor::WatchId watch = 0;
  Reactor::TimerId timer = 0;
  std::list<Peer> peers;  // those that were heard longest ago are first
  std::map<MHD_Connection*, std::list<Peer>::iterator> by_connection;
  std::uint64_t requests = 0, refused = 0, cut = 0;

  explicit Impl(Reactor& r) : reactor(r) {}
  ~Impl() {
    if (watch != 0) reactor.unwatch(watch);
    if (timer != 0) reactor.cancel(timer);
    if (daemon != nullptr) MHD_stop_daemon(daemon);
  }

  // --- what the library calls ---
  static void on_connection(void* self, MHD_Connection* connection, void**, MHD_ConnectionNotificationCode code) {
    Impl& im = *static_cast<Impl*>(self);
    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
      const auto found = im.by_connection.find(connection);
      if (found == im.by_connection.end()) return;
      im.peers.erase(found->second);
      im.by_connection.erase(found);
      return;
    }
    const MHD_ConnectionInfo* info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    im.peers.push_back({connection, info == nullptr ? -1 : info->connect_fd, real_time().mono});
    im.by_connection[connection] = std::prev(im.peers.end());
    if (im.peers.size() > kConnectionsMax) im.end(im.peers.front());
  }

  static void on_completed(void* self, MHD_Connection* connection, void**, MHD_RequestTerminationCode) {
    Impl& im = *static_cast<Impl*>(self);
    const auto found = im.by_connection.find(connection);
    if (found == im.by_connection.end()) return;
    found->second->since = real_time().mono;
    im.peers.splice(im.peers.end(), im.peers, found->second);
  }

  static MHD_Result on_request(void* self, MHD_Connection* connection, const char* url, const char* method, const char*,
                               const char*, size_t*, void**) {
    return static_cast<Impl*>(self)->answer(connection, url, method);
  }

  // The library closes it when it next looks at it: the socket says end of file.
  void end(Peer& peer) {
    if (peer.fd < 0) return;
    shutdown(peer.fd, SHUT_RDWR);
    peer.fd = -1;
    ++cut;
  }

  MHD_Result answer(MHD_Connection* connection, std::string_view url, std::string_view method) {
    const char* host = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);
    const char* length = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    const char* coding = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_TRANSFER_ENCODING);
    Answer a;
    if (method != kGet && method != kHead) {
      a = plain(MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD: there is nothing to change here");
      a.headers.emplace_back(MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    } else if (coding != nullptr || (length != nullptr && std::string_view(length) != "0")) {
      a = plain(MHD_HTTP_CONTENT_TOO_LARGE, "a request with a body");
      a.headers.emplace_back(MHD_HTTP_HEADER_CONNECTION, "close");
    } else if (host != nullptr && !host_allowed(host, address, hosts)) {
      a = plain(MHD_HTTP_MISDIRECTED_REQUEST, "this console does not go by that name; name it in console.hosts");
    } else {
      a = handler(url);
    }
    ++(a.status == MHD_HTTP_OK ? requests : refused);
    return respond(connection, a);
  }

  static MHD_Result respond(MHD_Connection* connection, const Answer& a) {
    auto* body = new std::shared_ptr<const std::string>(a.body);
    // The library does not change it: the parameter is void* for its other modes.
    void* bytes = const_cast<char*>((*body)->data());
    MHD_Response* response = MHD_create_response_from_buffer_with_free_callback_cls(
        (*body)->size(), bytes, [](void* held) { delete static_cast<std::shared_ptr<const std::string>*>(held); }, body);
    if (response == nullptr) {
      delete body;
      return MHD_NO;
    }
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, a.type.c_str());
    for (const auto& [name, value] : kHeaders) MHD_add_response_header(response, name, value);
    bool policy = false;
    for (const auto& [name, value] : a.headers) {
      MHD_add_response_header(response, name.c_str(), value.c_str());
      policy = policy || name == "Content-Security-Policy";
    }
    if (!policy) MHD_add_response_header(response, "Content-Security-Policy", kNoContent);
    const MHD_Result done = MHD_queue_response(connection, static_cast<unsigned>(a.status), response);
    MHD_destroy_response(response);
    return done;
  }

  // --- what the reactor calls ---
  void run() {
    if (timer != 0) reactor.cancel(timer);
    timer = 0;
    const Duration now = real_time().mono;
    if (!hooks::mutant("console.waits_for_ever"))
      for (Peer& peer : peers)
        if (now - peer.since >= kConnectionTime) end(peer);
    // At its limit the library no longer listens, and looks whether there is room again only when it is run.
    for (std::size_t before = SIZE_MAX; peers.size() < before;) {
      before = peers.size();
      MHD_run(daemon);
    }
    Duration wait = kConnectionTime;
    bool any = false;
    MHD_UNSIGNED_LONG_LONG most = 0;
    if (MHD_get_timeout(daemon, &most) == MHD_YES) {
      any = true;
      wait = std::min(wait, Duration(std::chrono::milliseconds(std::min<MHD_UNSIGNED_LONG_LONG>(most, 60'000))));
    }
    for (const Peer& peer : peers)
      if (peer.fd >= 0) {  // the first that is not being ended already is due first
        any = true;
        wait = std::min(wait, std::max(peer.since + kConnectionTime - now, Duration{0}));
        break;
      }
    if (!any) return;
    timer = reactor.after(wait, [this] {
      timer = 0;
      run();
    });
  }
};

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() = default;

Result<std::unique_ptr<HttpServer>> HttpServer::open(Reactor& reactor, const HttpOptions& options, Handler handler) {
  auto impl = std::make_unique<Impl>(reactor);
  Impl& im = *impl;
  im.address = BOURSE_TRY(parse_listen(options.listen, options.allow_remote));
  im.hosts = options.hosts;
  im.handler = std::move(handler);
  const int fd = BOURSE_TRY(listening_socket(im.address, options.listen));
  im.daemon = MHD_start_daemon(MHD_USE_EPOLL, 0, nullptr, nullptr, &Impl::on_request, &im, MHD_OPTION_LISTEN_SOCKET, fd,
                               MHD_OPTION_CONNECTION_LIMIT, static_cast<unsigned>(kConnectionsMax) + kSpareConnections,
                               MHD_OPTION_CONNECTION_TIMEOUT, static_cast<unsigned>(kConnectionTime / seconds(1)),
                               MHD_OPTION_CONNECTION_MEMORY_LIMIT, kRequestBytesMax, MHD_OPTION_STRICT_FOR_CLIENT, 1,
                               MHD_OPTION_NOTIFY_CONNECTION, &Impl::on_connection, &im, MHD_OPTION_NOTIFY_COMPLETED,
                               &Impl::on_completed, &im, MHD_OPTION_END);
  if (im.daemon == nullptr) {
    close(fd);
    return Error(Code::kIo, "the HTTP server does not start");
  }
  const MHD_DaemonInfo* info = MHD_get_daemon_info(im.daemon, MHD_DAEMON_INFO_EPOLL_FD);
  BOURSE_ASSERT(info != nullptr && info->epoll_fd >= 0, "an epoll daemon has a descriptor");
  im.watch = reactor.watch(info->epoll_fd, EPOLLIN, [&im](std::uint32_t) { im.run(); });
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

std::string HttpServer::url() const {
  const ListenAddress& a = impl_->address;
  return "http://" + (a.v6 ? "[" + a.host + "]" : a.host) + ":" + std::to_string(a.port) + "/";
}
std::uint64_t HttpServer::requests() const { return impl_->requests; }
std::uint64_t HttpServer::refused() const { return impl_->refused; }
std::uint64_t HttpServer::cut() const { return impl_->cut; }
std::size_t HttpServer::connections() const { return impl_->peers.size(); }

}  // namespace bourse::console
