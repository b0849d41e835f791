// The transport with real sockets: what must arrive does, what must not does not.
#include "common/world/transport.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <zmq.h>

#include <cstring>
#include <fstream>
#include <optional>

#include "tests/world/support.h"

namespace bourse {
namespace {

using test::run_until;
using test::TempDir;

struct Got {
  PeerId peer;
  std::string identity, bytes;
  std::int64_t uid = -1, gid = -1, pid = -1;
};

// A listener that remembers what came, and a reactor for it.
struct Server {
  Reactor& reactor;
  Listener listener;
  std::vector<Got> got;
  bool echo = false;
  Server(Context& context, Reactor& r, SocketLimits limits = {}) : reactor(r), listener(context, r, limits) {
    listener.on_frame([this](const Frame& f) {
      got.push_back({f.peer, f.identity, std::string(f.bytes), f.uid, f.gid, f.pid});
      if (echo) (void)listener.send(f.peer, "re: " + std::string(f.bytes));
    });
  }
  [[nodiscard]] bool has(std::size_t count) {
    return run_until(reactor, [&] { return got.size() >= count; });
  }
};

struct Client {
  Connection connection;
  std::vector<std::string> got;
  Client(Context& context, Reactor& reactor, SocketLimits limits = {}) : connection(context, reactor, limits) {
    connection.on_frame([this](std::string_view bytes) { got.emplace_back(bytes); });
  }
};

struct TransportTest : testing::Test {
  Context context;
  Reactor reactor;
  TempDir dir;
  KeyPair server_keys = make_key_pair(), good = make_key_pair(), bad = make_key_pair();

  void allow_good(const std::string& identity = "agent:h1") {
    Keyring ring;
    ring.allow(good.public_key, identity);
    context.set_keyring(ring);
  }
};

TEST_F(TransportTest, CarriesBothWaysOverEveryTransport) {
  for (const std::string& where : {std::string("inproc://a"), "ipc://" + (dir / "s"), std::string("tcp://127.0.0.1:0")}) {
    SCOPED_TRACE(where);
    Server server(context, reactor);
    server.echo = true;
    ASSERT_TRUE(server.listener.bind(where, nullptr, true));
    Client client(context, reactor);
    ASSERT_TRUE(client.connection.connect(server.listener.endpoint(), nullptr, ""));
    ASSERT_TRUE(client.connection.send("one"));
    ASSERT_TRUE(client.connection.send(std::string(100'000, 'x')));  // above what is copied
    ASSERT_TRUE(run_until(reactor, [&] { return client.got.size() == 2; }));
    EXPECT_EQ(client.got[0], "re: one");
    EXPECT_EQ(client.got[1], "re: " + std::string(100'000, 'x'));
    EXPECT_EQ(server.got[0].peer, server.got[1].peer);
    EXPECT_EQ(server.got[0].identity, "");
  }
}

TEST_F(TransportTest, AFreePortIsChosenAndReported) {
  Server server(context, reactor);
  ASSERT_TRUE(server.listener.bind("tcp://127.0.0.1:*", nullptr, true));
  EXPECT_TRUE(server.listener.endpoint().starts_with("tcp://127.0.0.1:"));
  EXPECT_NE(server.listener.endpoint(), "tcp://127.0.0.1:*");
}

TEST_F(TransportTest, TcpWithoutKeysIsRefusedBeyondLoopback) {
  Listener listener(context, reactor, {});
  auto bound = listener.bind("tcp://0.0.0.0:*", nullptr, true);
  ASSERT_FALSE(bound);
  EXPECT_EQ(bound.error().code(), Code::kDenied);
  bound = listener.bind("tcp://127.0.0.1:*", nullptr, false);
  ASSERT_FALSE(bound);
  EXPECT_EQ(bound.error().code(), Code::kDenied);
  Connection connection(context, reactor, {});
  auto connected = connection.connect("tcp://192.0.2.1:7400", nullptr, "");
  ASSERT_FALSE(connected);
  EXPECT_EQ(connected.error().code(), Code::kDenied);
}

TEST_F(TransportTest, EndpointsThatMeanNothingAreNamed) {
  Listener listener(context, reactor, {});
  for (const char* text :
       {"", "h1:7400", "tcp://", "tcp://h", "tcp://127.0.0.1:x", "tcp://127.0.0.1:70000", "ipc://", "http://h:1"}) {
    auto bound = listener.bind(text, &server_keys);
    ASSERT_FALSE(bound) << text;
    EXPECT_EQ(bound.error().code(), Code::kInvalid) << text;
    EXPECT_NE(bound.error().text().find(text), std::string::npos) << bound.error().text();
  }
  Connection connection(context, reactor, {});
  EXPECT_FALSE(connection.connect("tcp://127.0.0.1:0", nullptr, ""));
}

TEST_F(TransportTest, APortInUseIsBusy) {
  Server first(context, reactor), second(context, reactor);
  ASSERT_TRUE(first.listener.bind("tcp://127.0.0.1:*", nullptr, true));
  const auto bound = second.listener.bind(first.listener.endpoint(), nullptr, true);
  ASSERT_FALSE(bound);
  EXPECT_EQ(bound.error().code(), Code::kBusy);
}

TEST_F(TransportTest, AnAllowedKeyBringsItsIdentity) {
  allow_good();
  for (const std::string& where : {std::string("tcp://127.0.0.1:*"), "ipc://" + (dir / "s")}) {
    SCOPED_TRACE(where);
    Server server(context, reactor);
    server.echo = true;
    ASSERT_TRUE(server.listener.bind(where, &server_keys));
    Client client(context, reactor);
    ASSERT_TRUE(client.connection.connect(server.listener.endpoint(), &good, server_keys.public_key));
    ASSERT_TRUE(client.connection.send("hello"));
    ASSERT_TRUE(run_until(reactor, [&] { return client.got.size() == 1; }));
    EXPECT_EQ(server.got[0].identity, "agent:h1");
  }
}

TEST_F(TransportTest, AKeyThatIsNotAllowedIsRefused) {
  allow_good();
  Server server(context, reactor);
  ASSERT_TRUE(server.listener.bind("tcp://127.0.0.1:*", &server_keys));
  Client client(context, reactor);
  ASSERT_TRUE(client.connection.connect(server.listener.endpoint(), &bad, server_keys.public_key));
  (void)client.connection.send("let me in");
  ASSERT_TRUE(run_until(reactor, [&] { return context.refused_handshakes() > 0; }));
  Client allowed(context, reactor);
  ASSERT_TRUE(allowed.connection.connect(server.listener.endpoint(), &good, server_keys.public_key));
  ASSERT_TRUE(allowed.connection.send("me"));
  ASSERT_TRUE(server.has(1));
  EXPECT_EQ(server.got[0].bytes, "me");
}

TEST_F(TransportTest, APeerWithoutKeysOrWithAWrongServerKeyGetsNothingThrough) {
  allow_good();
  Server server(context, reactor);
  ASSERT_TRUE(server.listener.bind("tcp://127.0.0.1:*", &server_keys));
  Client plain(context, reactor), misled(context, reactor), right(context, reactor);
  ASSERT_TRUE(plain.connection.connect(server.listener.endpoint(), nullptr, ""));
  ASSERT_TRUE(misled.connection.connect(server.listener.endpoint(), &good, bad.public_key));
  (void)plain.connection.send("plain");
  (void)misled.connection.send("misled");
  ASSERT_TRUE(right.connection.connect(server.listener.endpoint(), &good, server_keys.public_key));
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(right.connection.send("right"));
    ASSERT_TRUE(server.has(static_cast<std::size_t>(i) + 1));
  }
  for (const Got& g : server.got) EXPECT_EQ(g.bytes, "right");
}

TEST_F(TransportTest, ARevokedKeyStopsAtItsNextMessageAndAReturnedOneGoesOn) {
  allow_good();
  Server server(context, reactor);
  ASSERT_TRUE(server.listener.bind("tcp://127.0.0.1:*", &server_keys));
  Client client(context, reactor);
  ASSERT_TRUE(client.connection.connect(server.listener.endpoint(), &good, server_keys.public_key));
  ASSERT_TRUE(client.connection.send("before"));
  ASSERT_TRUE(server.has(1));
  const PeerId peer = server.got[0].peer;

  context.set_keyring({});
  ASSERT_TRUE(client.connection.send("after"));
  ASSERT_TRUE(run_until(reactor, [&] { return server.listener.dropped() == 1; }));
  EXPECT_EQ(server.got.size(), 1U);
  EXPECT_FALSE(server.listener.send(peer, "secret"));

  allow_good("agent:h2");
  ASSERT_TRUE(client.connection.send("again"));
  ASSERT_TRUE(server.has(2));
  EXPECT_EQ(server.got[1].bytes, "again");
  EXPECT_EQ(server.got[1].identity, "agent:h2");
  EXPECT_TRUE(client.got.empty());
}

TEST_F(TransportTest, ARevokedKeysPeerIsForgottenAtOnceAndOnlyIt) {
  Keyring ring;
  ring.allow(good.public_key, "agent:h1");
  ring.allow(bad.public_key, "framework:f", "physics");
  context.set_keyring(ring);
  Server server(context, reactor);
  std::vector<std::pair<PeerId, std::string>> lost;
  server.listener.on_lost([&](PeerId peer, const std::string& why) { lost.emplace_back(peer, why); });
  ASSERT_TRUE(server.listener.bind("tcp://127.0.0.1:*", &server_keys));
  Client one(context, reactor), two(context, reactor);
  ASSERT_TRUE(one.connection.connect(server.listener.endpoint(), &good, server_keys.public_key));
  ASSERT_TRUE(one.connection.send("one"));
  ASSERT_TRUE(server.has(1));
  ASSERT_TRUE(two.connection.connect(server.listener.endpoint(), &bad, server_keys.public_key));
  ASSERT_TRUE(two.connection.send("two"));
  ASSERT_TRUE(server.has(2));
  context.set_keyring(ring);
  server.listener.recheck_keys();
  EXPECT_TRUE(lost.empty()) << "nothing has changed";
  Keyring less;
  less.allow(bad.public_key, "framework:f", "physics");
  context.set_keyring(less);
  server.listener.recheck_keys();
  ASSERT_EQ(lost.size(), 1U);
  EXPECT_EQ(lost[0].first, server.got[0].peer);
  EXPECT_NE(lost[0].second.find("revoked"), std::string::npos);
  EXPECT_FALSE(server.listener.send(server.got[0].peer, "secret"));
  EXPECT_TRUE(server.listener.send(server.got[1].peer, "fine"));
  Keyring other;
  other.allow(bad.public_key, "framework:f", "chemistry");
  context.set_keyring(other);
  server.listener.recheck_keys();
  ASSERT_EQ(lost.size(), 2U) << "the same key with other rights is another peer";
  ASSERT_TRUE(two.connection.send("again"));
  ASSERT_TRUE(server.has(3));
  EXPECT_NE(server.got[2].peer, server.got[1].peer);
}

TEST_F(TransportTest, AFloodIsCutAndTheOthersAreServed) {
  SocketLimits limits;
  limits.frames_per_second = 100;
  limits.bytes_per_second = 1'000'000;
  limits.burst = seconds(1);
  for (const bool large : {false, true}) {
    Server server(context, reactor, limits);
    std::string why;
    PeerId flooder;
    server.listener.on_lost([&](PeerId peer, const std::string& text) { flooder = peer, why = text; });
    ASSERT_TRUE(server.listener.bind("tcp://127.0.0.1:*", nullptr, true));
    Client bad_one(context, reactor), good_one(context, reactor);
    ASSERT_TRUE(bad_one.connection.connect(server.listener.endpoint(), nullptr, ""));
    ASSERT_TRUE(good_one.connection.connect(server.listener.endpoint(), nullptr, ""));
    ASSERT_TRUE(bad_one.connection.send("hello"));
    ASSERT_TRUE(server.has(1));
    const PeerId bad_peer = server.got[0].peer;
    const bool cut = run_until(reactor, [&] {
      for (int i = 0; i < 50; ++i) (void)bad_one.connection.send(std::string(large ? 200'000 : 10, 'x'));
      return !why.empty();
    });
    ASSERT_TRUE(cut);
    EXPECT_EQ(flooder, bad_peer);
    EXPECT_NE(why.find(large ? "bytes" : "messages"), std::string::npos) << why;
    EXPECT_EQ(server.listener.floods(), 1U);
    const std::size_t before = server.got.size();
    ASSERT_TRUE(good_one.connection.send("still here"));
    ASSERT_TRUE(run_until(reactor, [&] { return server.got.size() > before; }));
    EXPECT_EQ(server.got.back().bytes, "still here");
    EXPECT_FALSE(server.listener.send(bad_peer, "anything"));
  }
}

TEST_F(TransportTest, WhoWasCutForAFloodIsCutOnItsNextConnectionToo) {
  allow_good();
  SocketLimits limits;
  limits.frames_per_second = 10;
  limits.burst = seconds(1);
  Server server(context, reactor, limits);
  ASSERT_TRUE(server.listener.bind("tcp://127.0.0.1:*", &server_keys));
  {
    Client first(context, reactor);
    ASSERT_TRUE(first.connection.connect(server.listener.endpoint(), &good, server_keys.public_key));
    ASSERT_TRUE(run_until(reactor, [&] {
      (void)first.connection.send("x");
      return server.listener.floods() == 1;
    }));
  }
  const std::size_t before = server.got.size();
  const std::uint64_t dropped = server.listener.dropped();
  Client second(context, reactor);
  ASSERT_TRUE(second.connection.connect(server.listener.endpoint(), &good, server_keys.public_key));
  ASSERT_TRUE(run_until(reactor, [&] {
    (void)second.connection.send("y");
    return server.listener.dropped() > dropped + 3;
  }));
  for (std::size_t i = before; i < server.got.size(); ++i) EXPECT_NE(server.got[i].bytes, "y");
}

TEST_F(TransportTest, StrikesCutOnlyWhoGoesOn) {
  Server server(context, reactor);
  ASSERT_TRUE(server.listener.bind("ipc://" + (dir / "s"), nullptr));
  Client client(context, reactor);
  ASSERT_TRUE(client.connection.connect(server.listener.endpoint(), nullptr, ""));
  ASSERT_TRUE(client.connection.send("x"));
  ASSERT_TRUE(server.has(1));
  const PeerId peer = server.got[0].peer;
  for (std::uint32_t i = 0; i < kStrikesBurst - 1; ++i) ASSERT_FALSE(server.listener.strike(peer)) << i;
  bool cut = false;
  for (int i = 0; i < 100 && !cut; ++i) cut = server.listener.strike(peer);
  EXPECT_TRUE(cut);
  ASSERT_TRUE(client.connection.send("y"));
  ASSERT_TRUE(run_until(reactor, [&] { return server.listener.dropped() == 1; }));
}

// What waits for a peer that does not read is bounded by its bytes, far below its number of messages.
TEST_F(TransportTest, ASlowPeersQueueIsBoundedByItsBytes) {
  SocketLimits limits;
  limits.unread_bytes_max = 10 * 1024 * 1024;
  Server server(context, reactor, limits);
  ASSERT_TRUE(server.listener.bind("tcp://127.0.0.1:*", nullptr, true));
  // A peer that says hello and then never reads: libzmq reads one message for it, and the rest stays with the kernel and with us.
  Context other;
  SocketLimits tiny;
  tiny.high_water_mark = 1;
  Client lazy(other, reactor, tiny), good_one(context, reactor);
  ASSERT_TRUE(lazy.connection.connect(server.listener.endpoint(), nullptr, ""));
  ASSERT_TRUE(lazy.connection.send("lazy"));
  ASSERT_TRUE(server.has(1));
  const PeerId peer = server.got[0].peer;
  // Its own loop is not turned while we send, so no more than its one message and the kernel's buffers are taken.
  std::size_t sent = 0;
  while (sent < 2'000 && server.listener.send(peer, std::string(256 * 1024, 'x'))) ++sent;
  EXPECT_LT(sent, 2'000U) << "500 MB would be in memory";
  EXPECT_GT(sent, 10U);
  ASSERT_TRUE(good_one.connection.connect(server.listener.endpoint(), nullptr, ""));
  ASSERT_TRUE(good_one.connection.send("good"));
  ASSERT_TRUE(run_until(reactor, [&] { return server.got.back().bytes == "good"; }));
  EXPECT_TRUE(server.listener.send(server.got.back().peer, std::string(256 * 1024, 'y'))) << "another peer has room";
}

TEST_F(TransportTest, AnOversizedMessageIsRefusedAtBothEnds) {
  SocketLimits small;
  small.message_bytes_max = 1000;
  Server server(context, reactor, small);
  ASSERT_TRUE(server.listener.bind("tcp://127.0.0.1:*", nullptr, true));
  Client careful(context, reactor, small), careless(context, reactor);
  ASSERT_TRUE(careful.connection.connect(server.listener.endpoint(), nullptr, ""));
  ASSERT_TRUE(careless.connection.connect(server.listener.endpoint(), nullptr, ""));
  EXPECT_FALSE(careful.connection.send(std::string(1001, 'x')));
  ASSERT_TRUE(careless.connection.send("small"));
  ASSERT_TRUE(server.has(1));
  ASSERT_TRUE(careless.connection.send(std::string(1001, 'x')));  // cuts its connection, and only its
  ASSERT_TRUE(careful.connection.send(std::string(1000, 'y')));
  ASSERT_TRUE(server.has(2));
  EXPECT_EQ(server.got[1].bytes, std::string(1000, 'y'));
  // It comes back as another peer.
  ASSERT_TRUE(run_until(reactor, [&] {
    (void)careless.connection.send("back");
    return server.got.size() > 2;
  }));
  EXPECT_EQ(server.got[2].bytes, "back");
  EXPECT_NE(server.got[2].peer, server.got[0].peer);
  EXPECT_FALSE(server.listener.send(server.got[1].peer, std::string(1001, 'z')));
}

TEST_F(TransportTest, AFullQueueIsReportedAndHurtsNobodyElse) {
  SocketLimits few;
  few.high_water_mark = 10;
  Server server(context, reactor, few);
  ASSERT_TRUE(server.listener.bind("tcp://127.0.0.1:*", nullptr, true));
  Reactor asleep;  // never turned: its client does not read
  Client slow(context, asleep, few), quick(context, reactor);
  ASSERT_TRUE(slow.connection.connect(server.listener.endpoint(), nullptr, ""));
  ASSERT_TRUE(slow.connection.send("slow"));
  ASSERT_TRUE(run_until(reactor, [&] {
    asleep.turn(Duration{0});  // as long as its first message is not out
    return !server.got.empty();
  }));
  ASSERT_TRUE(quick.connection.connect(server.listener.endpoint(), nullptr, ""));
  ASSERT_TRUE(quick.connection.send("quick"));
  ASSERT_TRUE(server.has(2));
  int sent = 0;
  while (sent < 20'000 && server.listener.send(server.got[0].peer, std::string(64 * 1024, 'x'))) ++sent;
  EXPECT_LT(sent, 20'000);
  EXPECT_TRUE(server.listener.send(server.got[1].peer, "you are fine"));
  EXPECT_TRUE(run_until(reactor, [&] { return !quick.got.empty(); }));
}

TEST_F(TransportTest, NothingIsSentToAPeerThatIsGoneOrUnknown) {
  Server server(context, reactor);
  ASSERT_TRUE(server.listener.bind("tcp://127.0.0.1:*", nullptr, true));
  EXPECT_FALSE(server.listener.send(PeerId(77), "who?"));
  auto client = std::make_unique<Client>(context, reactor);
  ASSERT_TRUE(client->connection.connect(server.listener.endpoint(), nullptr, ""));
  ASSERT_TRUE(client->connection.send("hello"));
  ASSERT_TRUE(server.has(1));
  client.reset();
  EXPECT_TRUE(run_until(reactor, [&] { return !server.listener.send(server.got[0].peer, "still there?"); }));
}

TEST_F(TransportTest, ReconnectGetsThroughAndAnHoursQueueDoesNot) {
  auto server = std::make_unique<Server>(context, reactor);
  ASSERT_TRUE(server->listener.bind("tcp://127.0.0.1:*", nullptr, true));
  const std::string where = server->listener.endpoint();
  Client client(context, reactor);
  ASSERT_TRUE(client.connection.connect(where, nullptr, ""));
  ASSERT_TRUE(client.connection.send("first"));
  ASSERT_TRUE(server->has(1));
  server.reset();
  // While it is down, sends are refused rather than kept.
  ASSERT_TRUE(run_until(reactor, [&] { return !client.connection.send("stale"); }));
  server = std::make_unique<Server>(context, reactor);
  ASSERT_TRUE(server->listener.bind(where, nullptr, true));
  ASSERT_TRUE(run_until(reactor, [&] {
    (void)client.connection.send("fresh");
    return !server->got.empty();
  }));
  EXPECT_EQ(server->got[0].bytes, "fresh");
}

TEST_F(TransportTest, MessagesSentBeforeTheServerListensArriveOnceItDoes) {
  Client client(context, reactor);
  ASSERT_TRUE(client.connection.connect("ipc://" + (dir / "late"), nullptr, ""));
  std::size_t kept = 0;
  while (client.connection.send(std::to_string(kept)) && kept < 1000) ++kept;
  EXPECT_EQ(kept, kEarlyMax);
  Server server(context, reactor);
  ASSERT_TRUE(server.listener.bind("ipc://" + (dir / "late"), nullptr));
  ASSERT_TRUE(server.has(kept));
  for (std::size_t i = 0; i < kept; ++i) EXPECT_EQ(server.got[i].bytes, std::to_string(i));
}

TEST_F(TransportTest, IpcTellsWhoTheOtherProcessIs) {
  Server server(context, reactor);
  ASSERT_TRUE(server.listener.bind("ipc://" + (dir / "s"), nullptr));
  Client here(context, reactor);
  ASSERT_TRUE(here.connection.connect(server.listener.endpoint(), nullptr, ""));
  ASSERT_TRUE(here.connection.send("hello"));
  ASSERT_TRUE(server.has(1));
  EXPECT_EQ(server.got[0].uid, static_cast<std::int64_t>(getuid()));
  EXPECT_EQ(server.got[0].gid, static_cast<std::int64_t>(getgid()));
  EXPECT_EQ(server.got[0].pid, static_cast<std::int64_t>(getpid()));
}

TEST_F(TransportTest, IpcSocketsAreClosedToOthersUnlessOpenedOrKeyed) {
  struct stat st {};
  for (const auto& [mode, keys, expected] : {std::tuple{0600U, false, 0600U}, {0666U, false, 0666U}, {0600U, true, 0666U}}) {
    SocketLimits limits;
    limits.ipc_mode = mode;
    Server server(context, reactor, limits);
    ASSERT_TRUE(server.listener.bind("ipc://" + (dir / "m"), keys ? &server_keys : nullptr));
    ASSERT_EQ(stat((dir / "m").c_str(), &st), 0);
    EXPECT_EQ(st.st_mode & 0777, expected);
  }
}

TEST_F(TransportTest, ACutPeerIsNotHeardUntilItConnectsAnew) {
  Server server(context, reactor);
  ASSERT_TRUE(server.listener.bind("inproc://cut", nullptr));
  Client client(context, reactor);
  ASSERT_TRUE(client.connection.connect("inproc://cut", nullptr, ""));
  ASSERT_TRUE(client.connection.send("one"));
  ASSERT_TRUE(server.has(1));
  server.listener.cut(server.got[0].peer);
  EXPECT_FALSE(server.listener.send(server.got[0].peer, "no"));
  ASSERT_TRUE(client.connection.send("two"));
  ASSERT_TRUE(run_until(reactor, [&] { return server.listener.dropped() == 1; }));
  client.connection.close();
  ASSERT_TRUE(client.connection.connect("inproc://cut", nullptr, ""));
  ASSERT_TRUE(client.connection.send("three"));
  ASSERT_TRUE(server.has(2));
  EXPECT_EQ(server.got[1].bytes, "three");
  EXPECT_NE(server.got[1].peer, server.got[0].peer);
}

TEST_F(TransportTest, TheTableOfPeersIsBoundedAndForgetsTheSilentOnes) {
  SocketLimits limits;
  limits.peers_max = 2;
  Server server(context, reactor, limits);
  ASSERT_TRUE(server.listener.bind("inproc://many", nullptr));
  Client a(context, reactor), b(context, reactor), c(context, reactor);
  const auto say = [&](Client& client, const std::string& what) {
    const std::size_t before = server.got.size();
    ASSERT_TRUE(client.connection.send(what));
    ASSERT_TRUE(server.has(before + 1));
  };
  for (Client* client : {&a, &b, &c}) ASSERT_TRUE(client->connection.connect("inproc://many", nullptr, ""));
  say(a, "a");
  say(b, "b");
  say(a, "a again");
  say(c, "c");  // b was silent for longest
  EXPECT_TRUE(server.listener.send(server.got[0].peer, "a"));
  EXPECT_FALSE(server.listener.send(server.got[1].peer, "b"));
  EXPECT_TRUE(server.listener.send(server.got[3].peer, "c"));
}

// --- ZMQ_FD is edge-triggered ------------------------------------------------------------------------------------------------

TEST_F(TransportTest, QueuedMessagesAreReadThoughTheDescriptorStaysSilent) {
  Server server(context, reactor);
  server.listener.set_batch(1);  // one a turn: the other two have no edge of their own
  ASSERT_TRUE(server.listener.bind("inproc://trap", nullptr));
  Client client(context, reactor);
  ASSERT_TRUE(client.connection.connect("inproc://trap", nullptr, ""));
  for (const char* text : {"1", "2", "3"}) ASSERT_TRUE(client.connection.send(text));
  EXPECT_TRUE(server.has(3));
}

TEST_F(TransportTest, AMessageWhoseEdgeASendSwallowedIsStillRead) {
  Server server(context, reactor);
  ASSERT_TRUE(server.listener.bind("inproc://swallow", nullptr));
  Reactor other;
  Client client(context, other);
  ASSERT_TRUE(client.connection.connect("inproc://swallow", nullptr, ""));
  ASSERT_TRUE(client.connection.send("hello"));
  ASSERT_TRUE(server.has(1));
  for (std::size_t round = 0; round < 20; ++round) {
    ASSERT_TRUE(run_until(other, [&] { return client.got.size() == round; }));
    while (other.turn(Duration{0}) && client.got.size() < round) {}
    ASSERT_TRUE(server.listener.send(server.got[0].peer, "news"));
    // libzmq looks into the mailbox from a send only if it has not for some 3 million ticks: this is no wait for a result.
    const Duration start = real_time().mono;
    while (real_time().mono - start < milliseconds(5)) reactor.turn(milliseconds(5));
    ASSERT_TRUE(client.connection.send("busy"));  // takes the mailbox's signal with it
    ASSERT_TRUE(run_until(
        other, [&] { return client.got.size() == round + 1; }, seconds(5)))
        << "round " << round;
  }
}

TEST_F(TransportTest, AnIdleSocketDoesNotWakeTheLoop) {
  allow_good();
  Server server(context, reactor);
  server.echo = true;
  ASSERT_TRUE(server.listener.bind("tcp://127.0.0.1:*", &server_keys));
  Client client(context, reactor);
  ASSERT_TRUE(client.connection.connect(server.listener.endpoint(), &good, server_keys.public_key));
  ASSERT_TRUE(client.connection.send("hello"));
  ASSERT_TRUE(run_until(reactor, [&] { return client.got.size() == 1; }));
  bool over = false;
  reactor.after(milliseconds(300), [&] { over = true; });
  int turns = 0;
  while (!over) {
    reactor.turn(Duration::max());
    ++turns;
  }
  EXPECT_LE(turns, 10);  // the echo's own last words, and the timer
}

// --- hostile bytes -----------------------------------------------------------------------------------------------------------

int raw_connect(const std::string& endpoint) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1))));
  inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return -1;
  return fd;
}

TEST_F(TransportTest, GarbageOnTheWireHarmsNobody) {
  allow_good();
  for (const bool keys : {true, false}) {
    SCOPED_TRACE(keys);
    Server server(context, reactor);
    ASSERT_TRUE(server.listener.bind("tcp://127.0.0.1:*", keys ? &server_keys : nullptr, true));
    std::vector<std::string> pieces = {"GET / HTTP/1.0\r\n\r\n", std::string(1, '\xff'), std::string(64, '\0'),
                                       std::string(10'000, '\xff')};
    std::string greeting("\xff\0\0\0\0\0\0\0\x01\x7f\x03\0", 12);  // ZMTP 3.0, then nonsense
    greeting += std::string("NULL") + std::string(48, '\0');
    pieces.push_back(greeting);
    pieces.push_back(greeting + std::string("\x04\xff\x05READY\xff\xff\xff\xff", 13));
    pieces.push_back(std::string("\x01\0\x7fhello", 8));  // ZMTP 1.0
    std::uint32_t x = 2463534242U;
    for (int i = 0; i < 50; ++i) {
      std::string noise;
      for (int j = 0; j < 200; ++j) {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        noise.push_back(static_cast<char>(x));
      }
      pieces.push_back((i % 2 == 0 ? "" : greeting) + noise);
    }
    std::vector<int> fds;
    for (const std::string& piece : pieces) {
      const int fd = raw_connect(server.listener.endpoint());
      ASSERT_GE(fd, 0);
      (void)!send(fd, piece.data(), piece.size(), MSG_NOSIGNAL);
      fds.push_back(fd);
    }
    Client client(context, reactor);
    ASSERT_TRUE(client.connection.connect(server.listener.endpoint(), keys ? &good : nullptr, keys ? server_keys.public_key : ""));
    ASSERT_TRUE(client.connection.send("I am real"));
    ASSERT_TRUE(run_until(reactor, [&] {
      for (const Got& g : server.got)
        if (g.bytes == "I am real") return true;
      return false;
    }));
    EXPECT_TRUE(!keys || server.got.size() == 1);
    for (const int fd : fds) close(fd);
  }
}

// A client of another make: chooses its routing id, sends several parts.
struct RawDealer {
  void* context = zmq_ctx_new();
  void* socket = zmq_socket(context, ZMQ_DEALER);
  RawDealer(const std::string& routing_id, const KeyPair& keys, const std::string& server_key, const std::string& endpoint) {
    const int none = 0;
    zmq_setsockopt(socket, ZMQ_LINGER, &none, sizeof none);
    zmq_setsockopt(socket, ZMQ_ROUTING_ID, routing_id.data(), routing_id.size());
    zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, server_key.c_str(), 41);
    zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, keys.public_key.c_str(), 41);
    zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, keys.secret_key.c_str(), 41);
    EXPECT_EQ(zmq_connect(socket, endpoint.c_str()), 0);
  }
  ~RawDealer() {
    zmq_close(socket);
    zmq_ctx_term(context);
  }
  void say(const std::string& text, bool more = false) {
    EXPECT_GE(zmq_send(socket, text.data(), text.size(), more ? ZMQ_SNDMORE : 0), 0);
  }
};

TEST_F(TransportTest, AStolenRoutingIdStealsNoIdentity) {
  Keyring ring;
  ring.allow(good.public_key, "operator:root");
  ring.allow(bad.public_key, "reader:guest");
  context.set_keyring(ring);
  Server server(context, reactor);
  ASSERT_TRUE(server.listener.bind("tcp://127.0.0.1:*", &server_keys));
  {
    RawDealer first("same", good, server_keys.public_key, server.listener.endpoint());
    first.say("mine");
    ASSERT_TRUE(server.has(1));
  }
  RawDealer second("same", bad, server_keys.public_key, server.listener.endpoint());
  ASSERT_TRUE(run_until(reactor, [&] {
    second.say("mine too");  // refused while the first lives on in the server's socket
    return server.got.size() > 1;
  }));
  EXPECT_EQ(server.got[0].identity, "operator:root");
  EXPECT_EQ(server.got[1].identity, "reader:guest");
  EXPECT_NE(server.got[0].peer, server.got[1].peer);
  EXPECT_FALSE(server.listener.send(server.got[0].peer, "for root only"));
}

TEST_F(TransportTest, SeveralPartsAreDroppedAndCounted) {
  allow_good();
  Server server(context, reactor);
  ASSERT_TRUE(server.listener.bind("tcp://127.0.0.1:*", &server_keys));
  RawDealer raw("x", good, server_keys.public_key, server.listener.endpoint());
  raw.say("a", true);
  raw.say("b", true);
  raw.say("c");
  raw.say("single");
  ASSERT_TRUE(server.has(1));
  EXPECT_EQ(server.got[0].bytes, "single");
  EXPECT_EQ(server.listener.dropped(), 1U);
}

// --- keys --------------------------------------------------------------------------------------------------------------------

TEST_F(TransportTest, KeyFilesAreReadBackAndGuarded) {
  const std::string path = dir / "agent=h1";
  ASSERT_TRUE(write_key_files(path, good));
  const auto back = read_key_file(path);
  ASSERT_TRUE(back) << back.error().text();
  EXPECT_EQ(back->public_key, good.public_key);
  EXPECT_EQ(back->secret_key, good.secret_key);
  EXPECT_EQ(*read_public_key(path + ".pub"), good.public_key);
  EXPECT_EQ(write_key_files(path, bad).error().code(), Code::kExists);
  ASSERT_EQ(chmod(path.c_str(), 0640), 0);
  EXPECT_EQ(read_key_file(path).error().code(), Code::kDenied);
  EXPECT_EQ(read_key_file(dir / "none").error().code(), Code::kNotFound);
  std::ofstream(dir / "odd") << "# a key\npublic = \"short\"\n";
  const auto odd = read_public_key(dir / "odd");
  ASSERT_FALSE(odd);
  EXPECT_NE(odd.error().text().find("odd:2:"), std::string::npos) << odd.error().text();
}

TEST_F(TransportTest, AKeyNamesTheRolesThatItIsFor) {
  const KeyPair keys = make_key_pair();
  ASSERT_TRUE(write_key_files(dir / "framework=f", keys, "physics,chemistry/solid"));
  const auto ring = Keyring::read(dir.path());
  ASSERT_TRUE(ring) << ring.error().text();
  ASSERT_NE(ring->find(keys.public_key), nullptr);
  EXPECT_EQ(ring->find(keys.public_key)->identity, "framework:f");
  EXPECT_EQ(ring->find(keys.public_key)->roles, "physics,chemistry/solid");
  std::ofstream(dir / "framework=g.pub") << "public = \"" << make_key_pair().public_key << "\"\nroles = physics\n";
  const auto broken = Keyring::read(dir.path());
  ASSERT_FALSE(broken);
  EXPECT_NE(broken.error().text().find("framework=g.pub:2: "), std::string::npos) << broken.error().text();
}

TEST_F(TransportTest, AKeyringIsADirectoryOfNamedKeys) {
  ASSERT_TRUE(write_key_files(dir / "agent=h1", good));
  ASSERT_TRUE(write_key_files(dir / "operator=ann", bad));
  ASSERT_TRUE(write_key_files(dir / "master", server_keys));  // the master's own may lie there: it allows nobody
  auto ring = Keyring::read(dir.path());
  ASSERT_TRUE(ring) << ring.error().text();
  EXPECT_EQ(ring->identity(good.public_key), "agent:h1");
  EXPECT_EQ(ring->identity(bad.public_key), "operator:ann");
  EXPECT_EQ(ring->identity(server_keys.public_key), "");

  std::ofstream(dir / "reader=twice.pub") << "public = \"" << good.public_key << "\"\n";
  ring = Keyring::read(dir.path());
  ASSERT_FALSE(ring);
  EXPECT_NE(ring.error().text().find("agent:h1"), std::string::npos) << ring.error().text();
  ASSERT_EQ(unlink((dir / "reader=twice.pub").c_str()), 0);

  std::ofstream(dir / "ann.pub") << "public = \"" << make_key_pair().public_key << "\"\n";
  EXPECT_EQ(Keyring::read(dir.path()).error().code(), Code::kInvalid);
  ASSERT_EQ(unlink((dir / "ann.pub").c_str()), 0);

  ASSERT_EQ(chmod((dir / "agent=h1.pub").c_str(), 0666), 0);
  EXPECT_EQ(Keyring::read(dir.path()).error().code(), Code::kDenied);
  EXPECT_EQ(Keyring::read(dir / "none").error().code(), Code::kNotFound);
}

}  // namespace
}  // namespace bourse
