// The console's HTTP server: GET and HEAD of a few things, nothing else. HTTP itself is libmicrohttpd's, in http.cc alone.
//
// On the reactor's thread; no thread of its own. What a stranger can do to it is bounded: connections, bytes of a request, time of a
// connection. When there are too many connections, the one that has been silent for longest goes. See SECURITY CONSIDERATIONS in bourse-console(8).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/core/result.h"
#include "common/world/reactor.h"

namespace bourse::console {

constexpr std::size_t kConnectionsMax = 256;
constexpr std::size_t kRequestBytesMax = 16 * 1024;  // of the head; a body is refused unread
constexpr Duration kConnectionTime = seconds(20);    // from connect, or the answer before, to the end of the next answer

struct Answer {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::shared_ptr<const std::string> body;  // shared with the answers that are on their way
  std::vector<std::pair<std::string, std::string>> headers;
};

struct HttpOptions {
  std::string listen;              // "127.0.0.1:7480", "[::1]:0"
  bool allow_remote = false;       // whether it may be another address than loopback
  std::vector<std::string> hosts;  // names, besides its own address, under which it may be asked for; "*": any
};

// A numeric address and a port. kInvalid: it is none; kDenied: others than this host could reach it, and may not.
struct ListenAddress {
  std::string host;  // without brackets
  std::uint16_t port = 0;
  bool v6 = false, loopback = false;
};
Result<ListenAddress> parse_listen(const std::string& text, bool allow_remote);

// Whether the Host header names us. A page of a stranger, whose name leads to 127.0.0.1 after it was loaded, may not read the
// cluster with the help of somebody's browser (DNS rebinding).
bool host_allowed(std::string_view header, const ListenAddress& address, const std::vector<std::string>& hosts);

class HttpServer {
 public:
  using Handler = std::function<Answer(std::string_view path)>;
  static Result<std::unique_ptr<HttpServer>> open(Reactor& reactor, const HttpOptions& options, Handler handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  [[nodiscard]] std::string url() const;  // with the real port
  [[nodiscard]] std::uint64_t requests() const;
  [[nodiscard]] std::uint64_t refused() const;
  [[nodiscard]] std::uint64_t cut() const;
  [[nodiscard]] std::size_t connections() const;

 private:
  struct Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace bourse::console
