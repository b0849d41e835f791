// The HTTP server with real sockets. What needs many connections or long waits is in tests/cluster/console.test.
#include "frameworks/console/http.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace bourse::console {
namespace {

class HttpTest : public testing::Test {
 protected:
  HttpTest() {
    auto opened = HttpServer::open(reactor, {"127.0.0.1:0", false, {}}, [](std::string_view path) {
      Answer a;
      a.status = path == "/" ? 200 : 404;
      a.body = std::make_shared<const std::string>(path == "/big" ? std::string(3'000'000, 'x') : "hello\n");
      return a;
    });
    EXPECT_TRUE(opened) << opened.error().text();
    server = std::move(*opened);
  }
  // All that comes in answer to these bytes until the server closes, or nothing more comes for a while.
  std::string ask(const std::string& bytes) {
    const std::string url = server->url();
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(url.substr(url.rfind(':') + 1))));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
    std::string got;
    const Duration end = real_time().mono + seconds(3);
    while (real_time().mono < end) {
      reactor.turn(std::chrono::milliseconds(10));
      char buffer[65536];
      const ssize_t n = recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
      if (n == 0) break;
      if (n > 0) got.append(buffer, static_cast<std::size_t>(n));
    }
    close(fd);
    for (int i = 0; i < 20 && server->connections() > 0; ++i) reactor.turn(std::chrono::milliseconds(10));
    return got;
  }
  std::string get(const std::string& line, const std::string& headers = "Host: localhost\r\n") {
    return ask(line + " HTTP/1.1\r\n" + headers + "Connection: close\r\n\r\n");
  }

  Reactor reactor;
  std::unique_ptr<HttpServer> server;
};

TEST_F(HttpTest, AnswersGetWithTheHeadersThatKeepBrowsersHonest) {
  const std::string got = get("GET /");
  EXPECT_TRUE(got.starts_with("HTTP/1.1 200 ")) << got;
  EXPECT_TRUE(got.ends_with("\r\n\r\nhello\n")) << got;
  for (const char* header : {"Content-Security-Policy: default-src 'none'", "X-Content-Type-Options: nosniff",
                             "X-Frame-Options: DENY", "Referrer-Policy: no-referrer", "Cache-Control: no-store"})
    EXPECT_NE(got.find(header), std::string::npos) << header;
  EXPECT_EQ(server->requests(), 1U);
}

TEST_F(HttpTest, HeadIsGetWithoutTheBody) {
  const std::string got = get("HEAD /");
  EXPECT_TRUE(got.starts_with("HTTP/1.1 200 ")) << got;
  EXPECT_NE(got.find("Content-Length: 6\r\n"), std::string::npos);
  EXPECT_TRUE(got.ends_with("\r\n\r\n"));
}

TEST_F(HttpTest, NothingElseIsAllowed) {
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "CONNECT", "NONSENSE"})
    EXPECT_NE(get(std::string(method) + " /").find(" 405 "), std::string::npos) << method;
  EXPECT_NE(get("GET /", "Host: localhost\r\nContent-Length: 5\r\n").find(" 413 "), std::string::npos);
  EXPECT_NE(get("GET /", "Host: localhost\r\nTransfer-Encoding: chunked\r\n").find(" 413 "), std::string::npos);
  EXPECT_NE(get("GET /nothing").find(" 404 "), std::string::npos);
  EXPECT_EQ(server->requests(), 0U);
}

TEST_F(HttpTest, AnotherNameIsRefused) {
  EXPECT_NE(get("GET /", "Host: evil.example\r\n").find(" 421 "), std::string::npos);
  EXPECT_NE(get("GET /", "Host: localhost.evil.example:80\r\n").find(" 421 "), std::string::npos);
  EXPECT_NE(get("GET /", "Host: 127.0.0.1:80\r\n").find(" 200 "), std::string::npos);
}

TEST_F(HttpTest, GarbageAndLongHeadsAreRefused) {
  const std::string garbage = ask("\x16\x03\x01 no http at all\r\n\r\n");
  EXPECT_TRUE(garbage.empty() || garbage.find(" 400 ") != std::string::npos || garbage.find(" 505 ") != std::string::npos)
      << garbage;
  const std::string uri = get("GET /" + std::string(2 * kRequestBytesMax, 'a'));
  EXPECT_TRUE(uri.empty() || uri.find(" 414 ") != std::string::npos || uri.find(" 431 ") != std::string::npos) << uri;
  const std::string head = get("GET /", "Host: localhost\r\nX: " + std::string(2 * kRequestBytesMax, 'a') + "\r\n");
  EXPECT_TRUE(head.empty() || head.find(" 431 ") != std::string::npos || head.find(" 413 ") != std::string::npos) << head;
  EXPECT_NE(get("GET /").find(" 200 "), std::string::npos) << "and the server goes on";
}

TEST_F(HttpTest, ALongAnswerComesWhole) { EXPECT_GT(get("GET /big").size(), 3'000'000U); }

TEST(HttpListen, OnlyLoopbackWithoutLeave) {
  for (const char* text : {"127.0.0.1:80", "127.9.9.9:0", "[::1]:80"}) {
    const auto address = parse_listen(text, false);
    ASSERT_TRUE(address) << text;
    EXPECT_TRUE(address->loopback) << text;
  }
  for (const char* text : {"0.0.0.0:80", "10.0.0.1:80", "[::]:80", "[::ffff:127.0.0.1]:80", "[fe80::1]:80"}) {
    const auto address = parse_listen(text, false);
    ASSERT_FALSE(address) << text;
    EXPECT_EQ(address.error().code(), Code::kDenied) << text;
    EXPECT_TRUE(parse_listen(text, true)) << text;
  }
  for (const char* text : {"", ":80", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:80x", "localhost:80",
                           "::1:80", "[127.0.0.1]:80", "127.1:80"}) {
    const auto address = parse_listen(text, true);
    ASSERT_FALSE(address) << text;
    EXPECT_EQ(address.error().code(), Code::kInvalid) << text;
  }
}

TEST(HttpHost, OwnAddressAndNamedOnes) {
  const ListenAddress local{"127.0.0.1", 80, false, true}, remote{"10.0.0.1", 80, false, false}, six{"::1", 80, true, true};
  EXPECT_TRUE(host_allowed("LocalHost:7480", local, {}));
  EXPECT_TRUE(host_allowed("[::1]:7480", six, {}));
  EXPECT_TRUE(host_allowed("[::1]", six, {}));
  EXPECT_FALSE(host_allowed("localhost", remote, {}));
  EXPECT_TRUE(host_allowed("10.0.0.1", remote, {}));
  EXPECT_FALSE(host_allowed("bourse.example.org", local, {}));
  EXPECT_TRUE(host_allowed("bourse.example.org:443", local, {"bourse.example.org"}));
  EXPECT_TRUE(host_allowed("any.where", local, {"*"}));
  EXPECT_FALSE(host_allowed("", local, {}));
}

}  // namespace
}  // namespace bourse::console
