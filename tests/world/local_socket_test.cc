// The plain Unix socket of the tools with real sockets: frames, credentials, and what a peer cannot do to the others.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <array>
#include <fstream>
#include <thread>

#include "common/world/local_client.h"
#include "common/world/local_listener.h"
#include "tests/world/support.h"

namespace bourse {
namespace {

using test::run_until;
using test::TempDir;

// --- frames --------------------------------------------------------------------------------------------------------

std::string framed(std::string_view body) { return local_head(body.size()) + std::string(body); }

std::vector<std::string> read_all(FrameReader& reader) {
  std::vector<std::string> out;
  while (true) {
    auto body = reader.next();
    if (!body || !*body) return out;
    out.emplace_back(**body);
  }
}

TEST(LocalFrame, HeadIsWhatTheHeaderSays) {
  EXPECT_EQ(local_head(0x01020304), std::string("Brs\x01\x04\x03\x02\x01"));
  EXPECT_EQ(local_head(0).size(), kLocalHeadBytes);
}

TEST(LocalFrame, ComeOutWholeHoweverTheBytesAreCut) {
  const std::vector<std::string> bodies = {"", "a", std::string(70'000, 'x'), std::string("\0Brs\x01", 5)};
  std::string stream;
  for (const std::string& body : bodies) stream += framed(body);
  for (const std::size_t piece :
       {std::size_t{1}, std::size_t{3}, std::size_t{7}, std::size_t{8}, std::size_t{4096}, stream.size()}) {
    FrameReader reader(100'000);
    std::vector<std::string> got;
    for (std::size_t at = 0; at < stream.size(); at += piece) {
      reader.add(std::string_view(stream).substr(at, piece));
      for (std::string& body : read_all(reader)) got.push_back(std::move(body));
    }
    EXPECT_EQ(got, bodies) << "pieces of " << piece;
    EXPECT_EQ(reader.held(), 0U);
  }
}

TEST(LocalFrame, RefuseWhatIsNoFrameByItsFirstByte) {
  for (const std::string& bytes : {std::string("\xff"), std::string("GET / HTTP/1.0"), std::string("BrX\x01")}) {
    FrameReader reader(100);
    reader.add(bytes);
    auto next = reader.next();
    ASSERT_FALSE(next) << bytes;
    EXPECT_EQ(next.error().code(), Code::kCorrupt);
  }
}

TEST(LocalFrame, NameTheVersionOfAnotherFraming) {
  FrameReader reader(100);
  reader.add("Brs\x07");
  auto next = reader.next();
  ASSERT_FALSE(next);
  EXPECT_EQ(next.error().code(), Code::kVersion);
  EXPECT_NE(next.error().text().find("version 7"), std::string::npos) << next.error().text();
}

TEST(LocalFrame, RefuseABodyThatIsTooLargeBeforeItIsThere) {
  FrameReader reader(100);
  reader.add(framed(std::string(100, 'x')));
  EXPECT_EQ(read_all(reader).size(), 1U);
  reader.add(local_head(101));
  auto next = reader.next();
  ASSERT_FALSE(next);
  EXPECT_EQ(next.error().code(), Code::kLimit);
}

// --- both ends -----------------------------------------------------------------------------------------------------

struct Got {
  PeerId peer;
  std::string bytes;
  std::int64_t uid, gid, pid;
};

struct Server {
  Reactor& reactor;
  LocalListener listener;
  std::vector<Got> got;
  std::vector<PeerId> gone;
  std::vector<Error> refused;
  std::string answer = "echo";  // "": none
  Server(Reactor& r, LocalLimits limits = {}) : reactor(r), listener(r, limits) {
    listener.on_frame([this](const Frame& f) {
      got.push_back({f.peer, std::string(f.bytes), f.uid, f.gid, f.pid});
      if (answer == "echo")
        (void)listener.send(f.peer, "re: " + std::string(f.bytes));
      else if (!answer.empty())
        (void)listener.send(f.peer, answer);
    });
    listener.on_gone([this](PeerId peer) { gone.push_back(peer); });
    listener.on_refused([this](const Frame&, const Error& why) {
      refused.push_back(why);
      return "farewell: " + why.text();
    });
  }
};

struct LocalSocketTest : testing::Test {
  TempDir dir;
  Reactor reactor;
  std::string path = dir / "s.sock";

  // A connection by hand, which may say anything.
  int raw() const {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, path.size());
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    return fd;
  }
  // What is there, until the other side has closed it.
  std::string rest(int fd) {
    std::string out;
    std::array<char, 4096> chunk{};
    EXPECT_TRUE(run_until(reactor, [&] {
      const ssize_t n = recv(fd, chunk.data(), chunk.size(), MSG_DONTWAIT);
      if (n > 0) out.append(chunk.data(), static_cast<std::size_t>(n));
      return n == 0 || (n < 0 && errno == ECONNRESET);
    }));
    return out;
  }
  // The client blocks, so the loop runs in a thread of its own meanwhile.
  template <class Body>
  void while_serving(Body body) {
    std::thread client([&] {
      body();
      reactor.wake([this] { reactor.stop(); });
    });
    reactor.run();
    client.join();
  }
};

TEST_F(LocalSocketTest, CarriesRequestsAndAnswersWithTheCallersIdentity) {
  Server server(reactor);
  ASSERT_TRUE(server.listener.listen(path));
  while_serving([&] {
    auto client = LocalClient::connect(path, 1 << 20);
    ASSERT_TRUE(client) << client.error().text();
    for (const std::string& body : {std::string("one"), std::string(), std::string(900'000, 'x')}) {
      ASSERT_TRUE(client->send(body, seconds(10)));
      auto answer = client->receive(seconds(10));
      ASSERT_TRUE(answer) << answer.error().text();
      EXPECT_EQ(*answer, "re: " + body);
    }
  });
  ASSERT_EQ(server.got.size(), 3U);
  EXPECT_EQ(server.got[0].uid, static_cast<std::int64_t>(getuid()));
  EXPECT_EQ(server.got[0].gid, static_cast<std::int64_t>(getgid()));
  EXPECT_EQ(server.got[0].pid, static_cast<std::int64_t>(getpid()));
}

TEST_F(LocalSocketTest, ServesManyRequestsThatWereSentAtOnceInOrder) {
  Server server(reactor);
  ASSERT_TRUE(server.listener.listen(path));
  while_serving([&] {
    auto client = LocalClient::connect(path, 1 << 20);
    ASSERT_TRUE(client);
    for (int i = 0; i < 5000; ++i) ASSERT_TRUE(client->send(std::to_string(i), seconds(10)));
    for (int i = 0; i < 5000; ++i) {
      auto answer = client->receive(seconds(10));
      ASSERT_TRUE(answer) << answer.error().text();
      ASSERT_EQ(*answer, "re: " + std::to_string(i));
    }
  });
}

TEST_F(LocalSocketTest, EverybodyMayConnectAndNoFileIsLeft) {
  {
    Server server(reactor);
    ASSERT_TRUE(server.listener.listen(path));
    struct stat st {};
    ASSERT_EQ(stat(path.c_str(), &st), 0);
    EXPECT_EQ(st.st_mode & 0777, 0666U);
    EXPECT_NE(access((path + "~").c_str(), F_OK), 0);
  }
  EXPECT_NE(access(path.c_str(), F_OK), 0);
}

TEST_F(LocalSocketTest, ReplacesTheFileOfADeadProcessAndNotThatOfALivingOne) {
  EXPECT_EQ(test::in_child([&] {
              Reactor other;
              LocalListener listener(other, {});
              const bool ok = bool(listener.listen(path));
              _exit(ok ? 0 : 1);  // without its destructor, as if killed
              return 1;
            }),
            0);
  ASSERT_EQ(access(path.c_str(), F_OK), 0);
  auto refused = LocalClient::connect(path, 100);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kBusy);
  Server server(reactor);
  ASSERT_TRUE(server.listener.listen(path));
  LocalListener second(reactor, {});
  auto busy = second.listen(path);
  ASSERT_FALSE(busy);
  EXPECT_EQ(busy.error().code(), Code::kBusy);
}

TEST_F(LocalSocketTest, LeavesAFileThatIsNoSocketAlone) {
  std::ofstream(path) << "precious";
  LocalListener listener(reactor, {});
  auto done = listener.listen(path);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code(), Code::kExists);
  std::string content;
  std::ifstream(path) >> content;
  EXPECT_EQ(content, "precious");
}

TEST_F(LocalSocketTest, TellsWhatIsMissing) {
  auto none = LocalClient::connect(dir / "no/where", 100);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code(), Code::kNotFound);
  auto far = LocalClient::connect("/" + std::string(200, 'x'), 100);
  ASSERT_FALSE(far);
  EXPECT_EQ(far.error().code(), Code::kInvalid);
  LocalListener listener(reactor, {});
  EXPECT_FALSE(listener.listen("/" + std::string(200, 'x')));
}

// --- peers that do not behave --------------------------------------------------------------------------------------

TEST_F(LocalSocketTest, GarbageIsToldAndClosedAndHarmsNobody) {
  Server server(reactor);
  ASSERT_TRUE(server.listener.listen(path));
  const int fd = raw();
  ASSERT_EQ(send(fd, "GET / HTTP/1.0\r\n", 16, 0), 16);
  const std::string said = rest(fd);
  close(fd);
  EXPECT_NE(said.find("farewell: it does not speak the protocol"), std::string::npos) << said;
  ASSERT_EQ(server.refused.size(), 1U);
  EXPECT_TRUE(server.got.empty());
  EXPECT_TRUE(server.gone.empty());  // nobody knew it
  while_serving([&] {
    auto client = LocalClient::connect(path, 1000);
    ASSERT_TRUE(client && client->send("x", seconds(5)) && client->receive(seconds(5)));
  });
}

TEST_F(LocalSocketTest, AMessageThatIsTooLargeIsRefusedInWords) {
  LocalLimits limits;
  limits.message_bytes_max = 1000;
  Server server(reactor, limits);
  ASSERT_TRUE(server.listener.listen(path));
  while_serving([&] {
    auto client = LocalClient::connect(path, 1000);
    ASSERT_TRUE(client);
    (void)client->send(std::string(3'000'000, 'x'), seconds(10));  // it may be closed before all is sent
    auto answer = client->receive(seconds(10));
    ASSERT_TRUE(answer) << answer.error().text();
    EXPECT_EQ(*answer, "farewell: a message of 3000000 bytes; the most is 1000");
    auto closed = client->receive(seconds(10));
    ASSERT_FALSE(closed);
    EXPECT_EQ(closed.error().code(), Code::kGone);
  });
}

TEST_F(LocalSocketTest, APeerThatGoesIsToldOnce) {
  Server server(reactor);
  ASSERT_TRUE(server.listener.listen(path));
  const int fd = raw();
  const std::string bytes = framed("hello");
  ASSERT_EQ(send(fd, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  ASSERT_TRUE(run_until(reactor, [&] { return server.got.size() == 1; }));
  close(fd);
  ASSERT_TRUE(run_until(reactor, [&] { return !server.gone.empty(); }));
  EXPECT_EQ(server.gone, std::vector<PeerId>{server.got[0].peer});
  EXPECT_FALSE(server.listener.send(server.got[0].peer, "late"));
  EXPECT_EQ(server.listener.peers(), 0U);
}

TEST_F(LocalSocketTest, AMessageThatIsNeverFinishedIsGivenUp) {
  LocalLimits limits;
  limits.frame_time = milliseconds(50);
  Server server(reactor, limits);
  ASSERT_TRUE(server.listener.listen(path));
  const int idle = raw(), half = raw();
  const std::string bytes = framed("hello");
  ASSERT_EQ(send(half, bytes.data(), bytes.size() - 1, 0), static_cast<ssize_t>(bytes.size() - 1));
  const std::string said = rest(half);
  EXPECT_NE(said.find("was not whole after 50ms"), std::string::npos) << said;
  close(half);
  // Who has not begun one may wait as long as he likes.
  EXPECT_EQ(server.listener.peers(), 1U);
  ASSERT_EQ(send(idle, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  EXPECT_TRUE(run_until(reactor, [&] { return server.got.size() == 1; }));
  close(idle);
}

TEST_F(LocalSocketTest, WhoDoesNotReadIsNotReadEither) {
  LocalLimits limits;
  limits.pause_bytes = 100'000;
  Server server(reactor, limits);
  server.answer = std::string(10'000, 'a');
  ASSERT_TRUE(server.listener.listen(path));
  const int fd = raw();
  const std::string bytes = framed("more");
  constexpr int kAsked = 2000;
  std::string all;
  for (int i = 0; i < kAsked; ++i) all += bytes;
  ASSERT_EQ(send(fd, all.data(), all.size(), 0), static_cast<ssize_t>(all.size()));
  // Each is answered or not asked yet: what it has not read stays bounded, though all its requests have long been sent.
  ASSERT_TRUE(run_until(reactor, [&] { return !server.got.empty(); }));
  for (int i = 0; i < 200; ++i) reactor.turn(milliseconds(1));
  EXPECT_LT(server.got.size(), 200U);
  // It reads after all, and gets every one.
  std::size_t bytes_read = 0;
  std::array<char, 65536> chunk{};
  EXPECT_TRUE(run_until(reactor, [&] {
    for (ssize_t n = 1; n > 0; bytes_read += n > 0 ? static_cast<std::size_t>(n) : 0)
      n = recv(fd, chunk.data(), chunk.size(), MSG_DONTWAIT);
    return bytes_read >= kAsked * (server.answer.size() + kLocalHeadBytes);
  }));
  EXPECT_EQ(server.got.size(), static_cast<std::size_t>(kAsked));
  close(fd);
}

TEST_F(LocalSocketTest, WhoNeverReadsIsClosedInTheEnd) {
  LocalLimits limits;
  limits.stall_time = milliseconds(50);
  Server server(reactor, limits);
  server.answer = std::string(3'000'000, 'a');
  ASSERT_TRUE(server.listener.listen(path));
  const int fd = raw();
  const std::string bytes = framed("x");
  ASSERT_EQ(send(fd, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  ASSERT_TRUE(run_until(reactor, [&] { return !server.gone.empty(); }));
  ASSERT_EQ(server.refused.size(), 1U);
  EXPECT_NE(server.refused[0].text().find("has not read its answers"), std::string::npos);
  close(fd);
}

TEST_F(LocalSocketTest, AnswersBeyondTheLimitCloseTheOneWhoDoesNotReadThem) {
  LocalLimits limits;
  limits.unread_bytes_max = 5'000'000;
  Server server(reactor, limits);
  server.answer = "";
  ASSERT_TRUE(server.listener.listen(path));
  const int fd = raw();
  const std::string bytes = framed("x");
  ASSERT_EQ(send(fd, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  ASSERT_TRUE(run_until(reactor, [&] { return server.got.size() == 1; }));
  int taken = 0;
  while (server.listener.send(server.got[0].peer, std::string(1'000'000, 'a'))) ASSERT_LT(++taken, 7);
  ASSERT_TRUE(run_until(reactor, [&] { return server.gone.size() == 1; }));
  close(fd);
}

TEST_F(LocalSocketTest, AClientThatSendsWhileTheOtherDoesNotReadTakesItsAnswersMeanwhile) {
  LocalLimits limits;
  limits.pause_bytes = 10'000;
  Server server(reactor, limits);
  server.answer = std::string(20'000, 'a');
  ASSERT_TRUE(server.listener.listen(path));
  while_serving([&] {
    auto client = LocalClient::connect(path, 1 << 20);
    ASSERT_TRUE(client);
    const std::string body(2000, 'q');
    for (int i = 0; i < 1000; ++i) ASSERT_TRUE(client->send(body, seconds(10))) << i;
    for (int i = 0; i < 1000; ++i) ASSERT_TRUE(client->receive(seconds(10))) << i;
  });
}

TEST_F(LocalSocketTest, OneUsersBytesAreCountedOverAllItsConnections) {
  LocalLimits limits;
  limits.user_bytes_max = 100'000;
  Server server(reactor, limits);
  ASSERT_TRUE(server.listener.listen(path));
  const std::string half = local_head(1'000'000) + std::string(30'000, 'x');
  std::vector<int> fds;
  for (int i = 0; i < 4; ++i) {
    fds.push_back(raw());
    ASSERT_EQ(send(fds.back(), half.data(), half.size(), 0), static_cast<ssize_t>(half.size()));
  }
  ASSERT_TRUE(run_until(reactor, [&] { return !server.refused.empty(); }));
  EXPECT_EQ(server.refused[0].code(), Code::kLimit);
  EXPECT_EQ(server.listener.peers(), 3U);
  for (const int fd : fds) close(fd);
}

TEST_F(LocalSocketTest, ConnectionsAreCounted) {
  // As another user, since root's are not: in a child, with as many connections as it gets.
  if (getuid() != 0) GTEST_SKIP() << "needs root to become two users";
  LocalLimits limits;
  limits.peers_per_user_max = 2;
  Server server(reactor, limits);
  ASSERT_TRUE(server.listener.listen(path));
  chmod(dir.path().c_str(), 0755);
  int said[2] = {};
  ASSERT_EQ(pipe(said), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    if (setgid(65534) != 0 || setuid(65534) != 0) _exit(9);
    std::vector<LocalClient> clients;
    char result = 'r';
    for (int i = 0; i < 3; ++i) {
      auto client = LocalClient::connect(path, 1000);
      if (!client) _exit(8);
      clients.push_back(std::move(*client));
    }
    auto answer = clients[2].receive(seconds(10));
    result = answer && answer->find("2 connections open") != std::string::npos ? 'y' : 'n';
    (void)!write(said[1], &result, 1);
    _exit(0);
  }
  reactor.watch(said[0], 1 /* EPOLLIN */, [&](std::uint32_t) { reactor.stop(); });
  reactor.run();
  char result = 0;
  ASSERT_EQ(read(said[0], &result, 1), 1);
  EXPECT_EQ(result, 'y');
  int status = 0;
  waitpid(pid, &status, 0);
  ASSERT_EQ(server.refused.size(), 1U);
  close(said[0]), close(said[1]);
}

TEST_F(LocalSocketTest, TheListenerMayGoWhileItsPeersAreConnected) {
  auto server = std::make_unique<Server>(reactor);
  ASSERT_TRUE(server->listener.listen(path));
  const int fd = raw();
  const std::string bytes = framed("x");
  ASSERT_EQ(send(fd, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  ASSERT_TRUE(run_until(reactor, [&] { return server->got.size() == 1; }));
  (void)server->listener.send(server->got[0].peer, "not flushed yet");
  server.reset();
  for (int i = 0; i < 3; ++i) reactor.turn(milliseconds(1));
  rest(fd);
  close(fd);
}

}  // namespace
}  // namespace bourse
