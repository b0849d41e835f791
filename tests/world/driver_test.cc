// The driver's promises to an actor (common/core/actor.h), the link to the masters, and a process's beginnings.
#include "common/world/driver.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstring>

#include "common/core/hooks.h"
#include "common/wire/wire.h"
#include "common/world/files.h"
#include "common/world/transport.h"
#include "tests/world/support.h"

namespace bourse {
namespace {

using test::run_until;
using test::TempDir;

Message heartbeat(std::int64_t n) { return {Epoch(1), Incarnation(1), "", Heartbeat{microseconds(n)}}; }
std::string number_of(const Message& message) { return std::to_string(std::get<Heartbeat>(message.body).wall.count()); }

std::string describe(const Event& event) {
  if (std::get_if<Started>(&event) != nullptr) return "started";
  if (const auto* e = std::get_if<Durable>(&event)) return "durable " + std::to_string(e->ticket);
  if (const auto* e = std::get_if<AppendFailed>(&event)) return "failed " + std::to_string(e->ticket) + ": " + e->reason;
  if (const auto* e = std::get_if<TimerFired>(&event)) return "timer " + e->key.name;
  if (const auto* e = std::get_if<PeerLost>(&event)) return "lost " + std::to_string(e->peer.value);
  return "other";
}

// An actor that does what the test says, and a driver whose every deed is noted in one list.
struct DriverTest : testing::Test, Actor {
  Reactor reactor;
  std::vector<std::string> notes;
  std::function<void(const Event&, Actions&)> behaviour = [](const Event&, Actions&) {};
  std::vector<LogFile::Done> held;
  std::unique_ptr<Driver> driver;

  void step(Time, const Event& event, Actions& out) override {
    notes.push_back(describe(event));
    behaviour(event, out);
  }
  Driver::Hooks hooks(bool own_appends) {
    Driver::Hooks h;
    h.send = [this](PeerId, const Message& m) { notes.push_back("send " + number_of(m)); };
    h.reply = [this](PeerId, const std::string& payload) { notes.push_back("reply " + payload); };
    h.cut = [this](PeerId peer) { notes.push_back("cut " + std::to_string(peer.value)); };
    h.reconnect = [this](const std::string& leader) { notes.push_back("reconnect" + (leader.empty() ? "" : " to " + leader)); };
    h.host = [this](const HostAction&) { notes.push_back("host"); };
    h.session = [this](const SessionCommand&) { notes.push_back("session"); };
    h.stop = [this] { notes.push_back("stop"); };
    if (own_appends)
      h.append = [this](const std::vector<Append>& appends, const std::string&, LogFile::Done done) {
        notes.push_back("append " + std::to_string(appends.size()));
        held.push_back(std::move(done));
      };
    return h;
  }
  void start(bool own_appends = true) { driver = std::make_unique<Driver>(reactor, *this, hooks(own_appends)); }
  using Notes = std::vector<std::string>;
};

TEST_F(DriverTest, HoldsWhatAStepSaysUntilItsRecordsAreSafe) {
  behaviour = [](const Event& event, Actions& out) {
    if (std::get_if<Started>(&event) == nullptr) return;
    out.append(Safety::kPower, "r");
    out.send(PeerId(1), heartbeat(7));
    out.replies.push_back({PeerId(1), "yes"});
    out.session.emplace_back(EndSession{});
    out.host.emplace_back(RunProbe{"hwloc"});
    out.cut.push_back(PeerId(9));
    out.reconnect = true;
    out.stop = true;
  };
  start();
  driver->post(Started{});
  EXPECT_EQ(notes, (Notes{"started", "append 1", "host"}));
  notes.clear();
  held[0](Result<>());
  EXPECT_EQ(notes, (Notes{"session", "send 7", "reply yes", "cut 9", "reconnect", "stop", "durable 1"}));
}

TEST_F(DriverTest, DropsWhatAStepSaysWhenItsRecordsCannotBeKept) {
  behaviour = [](const Event& event, Actions& out) {
    if (std::get_if<Started>(&event) == nullptr) return;
    out.append(Safety::kPower, "r");
    out.send(PeerId(1), heartbeat(7));
  };
  start();
  driver->post(Started{});
  held[0](Error(Code::kIo, "No space left on device"));
  EXPECT_EQ(notes, (Notes{"started", "append 1", "failed 1: No space left on device"}));
}

TEST_F(DriverTest, AStepWithoutRecordsIsNotHeldUp) {
  behaviour = [](const Event& event, Actions& out) {
    if (std::get_if<Started>(&event) != nullptr) out.append(Safety::kPower, "r");
    if (std::get_if<PeerLost>(&event) != nullptr) out.send(PeerId(1), heartbeat(2));
  };
  start();
  driver->post(Started{});
  driver->post(PeerLost{PeerId(5)});
  EXPECT_EQ(notes, (Notes{"started", "append 1", "lost 5", "send 2"}));
}

TEST_F(DriverTest, AnEventPostedWithinAStepWaitsItsTurn) {
  behaviour = [this](const Event& event, Actions& out) {
    if (std::get_if<Started>(&event) == nullptr) return;
    driver->post(PeerLost{PeerId(1)});
    out.send(PeerId(1), heartbeat(1));
  };
  start();
  driver->post(Started{});
  EXPECT_EQ(notes, (Notes{"started", "send 1", "lost 1"}));
  EXPECT_EQ(driver->steps(), 2U);
}

TEST_F(DriverTest, TimersFireOnceMoveWhenArmedAgainAndNeverAfterADisarm) {
  bool over = false;
  behaviour = [&](const Event& event, Actions& out) {
    if (std::get_if<Started>(&event) != nullptr) {
      out.arm({1, 0, "gone"}, milliseconds(1));
      out.arm({1, 0, "moved"}, milliseconds(1));
      out.arm({1, 0, "moved"}, milliseconds(30));
      out.arm({1, 0, "killer"}, milliseconds(10));
      out.arm({1, 0, "victim"}, milliseconds(10));
      out.disarm({1, 0, "gone"});
    }
    const auto* fired = std::get_if<TimerFired>(&event);
    if (fired != nullptr && fired->key.name == "killer") out.disarm({1, 0, "victim"});
    if (fired != nullptr && fired->key.name == "moved") over = true;
  };
  start();
  driver->post(Started{});
  ASSERT_TRUE(run_until(reactor, [&] { return over; }));
  EXPECT_EQ(notes, (Notes{"started", "timer killer", "timer moved"}));
}

TEST_F(DriverTest, NothingReachesAnActorWhoseDriverIsGone) {
  behaviour = [](const Event& event, Actions& out) {
    if (std::get_if<Started>(&event) == nullptr) return;
    out.append(Safety::kPower, "r");
    out.arm({1, 0, "t"}, milliseconds(1));
  };
  start();
  driver->post(Started{});
  driver.reset();
  held[0](Result<>());
  bool over = false;
  reactor.after(milliseconds(10), [&] { over = true; });
  ASSERT_TRUE(run_until(reactor, [&] { return over; }));
  EXPECT_EQ(notes, (Notes{"started", "append 1"}));
}

TEST_F(DriverTest, WithALogFileSendsLeaveAfterTheFlushAndCompactionKeepsTheOrder) {
  TempDir dir;
  LogFile::Content content;
  auto log = LogFile::open(dir / "log", content);
  ASSERT_TRUE(log);
  std::uint64_t flushes_at_send = 0;
  int durable = 0;
  behaviour = [&](const Event& event, Actions& out) {
    if (std::get_if<Durable>(&event) != nullptr) {
      if (++durable == 1) flushes_at_send = (*log)->flushes();
      return;
    }
    out.append(Safety::kPower, "record");
    out.send(PeerId(1), heartbeat(static_cast<std::int64_t>(out.ticket)));
    if (out.ticket == 3) out.compact = "snapshot";
  };
  start(false);
  driver->use_log(log->get());
  driver->post(Started{});
  driver->post(PeerLost{PeerId(1)});
  driver->post(PeerLost{PeerId(2)});
  EXPECT_EQ(notes, (Notes{"started", "lost 1", "lost 2"}));  // nothing sent yet
  ASSERT_TRUE(run_until(reactor, [&] { return durable == 3; }));
  EXPECT_GE(flushes_at_send, 1U);
  notes.erase(notes.begin(), notes.begin() + 3);
  EXPECT_EQ(notes, (Notes{"send 1", "durable 1", "send 2", "durable 2", "send 3", "durable 3"}));
  log->reset();
  ASSERT_TRUE(LogFile::open(dir / "log", content));
  EXPECT_EQ(content.snapshot, "snapshot");
  EXPECT_TRUE(content.records.empty());
}

// What an agent says of its tasks is a stream: a message that waits while the next ones leave tears a gap into it.
TEST_F(DriverTest, CompactionDoesNotLetLaterSendsOvertake) {
  TempDir dir;
  LogFile::Content content;
  auto log = LogFile::open(dir / "log", content);
  ASSERT_TRUE(log);
  behaviour = [&](const Event& event, Actions& out) {
    if (std::get_if<PeerLost>(&event) == nullptr) return;
    out.append(Safety::kProcess, "record");
    out.send(PeerId(1), heartbeat(static_cast<std::int64_t>(std::get<PeerLost>(event).peer.value)));
    if (std::get<PeerLost>(event).peer == PeerId(2)) out.compact = "snapshot";
  };
  start(false);
  driver->use_log(log->get());
  for (const std::uint64_t n : {1, 2, 3}) driver->post(PeerLost{PeerId(n)});
  ASSERT_TRUE(run_until(
      reactor, [&] { return std::ranges::count_if(notes, [](const std::string& n) { return n.starts_with("send"); }) == 3; }));
  std::erase_if(notes, [](const std::string& n) { return !n.starts_with("send"); });
  EXPECT_EQ(notes, (Notes{"send 1", "send 2", "send 3"}));
}

// --- master link -------------------------------------------------------------------------------------------------------------

TEST(MasterLink, CarriesVerifiedMessagesCountsOthersAndGoesToTheNext) {
  Context context;
  Reactor reactor;
  Listener first(context, reactor, {}), second(context, reactor, {});
  ASSERT_TRUE(first.bind("inproc://m1", nullptr));
  ASSERT_TRUE(second.bind("inproc://m2", nullptr));
  std::string at_first, at_second;
  first.on_frame([&](const Frame& f) {
    at_first = number_of(*wire::decode(f.bytes));
    (void)first.send(f.peer, "garbage");
    (void)first.send(f.peer, wire::encode(heartbeat(100)));
  });
  second.on_frame([&](const Frame& f) { at_second = number_of(*wire::decode(f.bytes)); });
  MasterLink link(context, reactor, {"inproc://m1", "inproc://m2"}, nullptr, "");
  std::vector<std::string> got;
  link.on_message([&](const Message& m) { got.push_back(number_of(m)); });
  ASSERT_TRUE(link.connect());
  testing::internal::CaptureStderr();
  link.send(heartbeat(1));
  ASSERT_TRUE(run_until(reactor, [&] { return got.size() == 1; }));
  EXPECT_NE(testing::internal::GetCapturedStderr().find("event=frame_refused from=inproc://m1"), std::string::npos);
  EXPECT_EQ(at_first, "1");
  EXPECT_EQ(got[0], "100");
  link.next();
  link.send(heartbeat(2));
  ASSERT_TRUE(run_until(reactor, [&] { return at_second == "2"; }));
  link.next();  // and round again
  link.send(heartbeat(3));
  ASSERT_TRUE(run_until(reactor, [&] { return at_first == "3"; }));
}

TEST(MasterLink, AFullQueueEndsTheSessionOnceAndTheNextConnectSendsAgain) {
  TempDir dir;
  Context context;
  Reactor reactor;
  Listener there(context, reactor, {});
  ASSERT_TRUE(there.bind("inproc://there", nullptr));
  std::string got;
  there.on_frame([&](const Frame& f) { got = number_of(*wire::decode(f.bytes)); });
  SocketLimits tiny;
  tiny.high_water_mark = 1;
  MasterLink link(context, reactor, {"ipc://" + dir / "nobody", "inproc://there"}, nullptr, "", tiny);
  int lost = 0;
  link.on_lost([&] { ++lost; });
  ASSERT_TRUE(link.connect());
  testing::internal::CaptureStderr();
  for (int i = 0; i < 200; ++i) link.send(heartbeat(i));
  EXPECT_EQ(lost, 0);  // not from within send
  ASSERT_TRUE(run_until(reactor, [&] { return lost > 0; }));
  link.send(heartbeat(200));
  (void)reactor.turn(Duration(0));
  EXPECT_EQ(lost, 1);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("event=send_queue_full"), std::string::npos);
  link.next();
  link.send(heartbeat(201));
  ASSERT_TRUE(run_until(reactor, [&] { return got == "201"; }));
}

TEST(MasterLink, ABrokenConnectionIsToldAtOnce) {
  Context context;
  Reactor reactor;
  auto master = std::make_unique<Listener>(context, reactor, SocketLimits{});
  ASSERT_TRUE(master->bind("tcp://127.0.0.1:*", nullptr, true));
  int heard = 0, lost = 0;
  master->on_frame([&](const Frame&) { ++heard; });
  MasterLink link(context, reactor, {master->endpoint()}, nullptr, "");
  link.on_lost([&] { ++lost; });
  ASSERT_TRUE(link.connect());
  link.send(heartbeat(1));
  ASSERT_TRUE(run_until(reactor, [&] { return heard == 1; }));
  EXPECT_EQ(lost, 0);
  const std::string endpoint = master->endpoint();
  master.reset();
  ASSERT_TRUE(run_until(reactor, [&] { return lost == 1; }));
  // It comes back: the link does not speak by itself, since a session must begin with a hello.
  master = std::make_unique<Listener>(context, reactor, SocketLimits{});
  ASSERT_TRUE(run_until(reactor, [&] { return bool(master->bind(endpoint, nullptr, true)); }));
  master->on_frame([&](const Frame&) { ++heard; });
  link.send(heartbeat(2));
  link.next();
  link.send(heartbeat(3));
  ASSERT_TRUE(run_until(reactor, [&] { return heard == 2; }));
  EXPECT_EQ(lost, 1);
}

// A stopped process: its kernel accepts the connection, and then nothing comes.
TEST(MasterLink, AMasterThatAcceptsAndSaysNothingIsGivenUp) {
  const int stopped = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(stopped, reinterpret_cast<const sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(stopped, 16), 0);
  ASSERT_EQ(getsockname(stopped, reinterpret_cast<sockaddr*>(&address), &size), 0);
  Context context;
  Reactor reactor;
  Listener there(context, reactor, {});
  ASSERT_TRUE(there.bind("tcp://127.0.0.1:*", nullptr, true));
  int heard = 0, lost = 0;
  there.on_frame([&](const Frame&) { ++heard; });
  MasterLink link(context, reactor, {"tcp://127.0.0.1:" + std::to_string(ntohs(address.sin_port)), there.endpoint()}, nullptr, "");
  link.on_lost([&] {
    ++lost;
    link.next();
    link.send(heartbeat(2));
  });
  ASSERT_TRUE(link.connect());
  const Duration began = real_time().mono;
  link.send(heartbeat(1));
  ASSERT_TRUE(run_until(reactor, [&] { return heard == 1; }));
  EXPECT_EQ(lost, 1);
  EXPECT_GE(real_time().mono - began, MasterLink::kConnectWait);
  close(stopped);
}

TEST(MasterLink, GoesWhereItIsSentAndRemembersWhatItLearned) {
  Context context;
  Reactor reactor;
  MasterLink link(context, reactor, {"inproc://m1", "inproc://m2"}, nullptr, "");
  ASSERT_TRUE(link.connect());
  EXPECT_EQ(link.endpoint(), "inproc://m1");
  link.next("inproc://m3");  // added since our configuration was written
  EXPECT_EQ(link.endpoint(), "inproc://m3");
  link.learn({"inproc://m2", "inproc://m3", "inproc://m4"});
  EXPECT_EQ(link.endpoint(), "inproc://m3") << "to learn is not to move";
  EXPECT_EQ(link.endpoints(), (std::vector<std::string>{"inproc://m2", "inproc://m3", "inproc://m4", "inproc://m1"}))
      << "what a person configured stays, behind what the leader says";
  link.next();
  EXPECT_EQ(link.endpoint(), "inproc://m4");
  std::vector<std::string> many;
  for (std::size_t i = 0; i < 2 * kMastersMax; ++i) many.push_back("inproc://x" + std::to_string(i));
  link.learn(many);
  EXPECT_EQ(link.endpoints().size(), kMastersMax);
  EXPECT_EQ(link.endpoint(), "inproc://m4");
  for (int i = 0; i < 200; ++i) link.next("inproc://y" + std::to_string(i));
  EXPECT_EQ(link.endpoints().size(), kMastersMax);
}

TEST(MasterLink, AListWithAnEndpointThatIsNoneIsRefusedBeforeAnythingIsTried) {
  Context context;
  Reactor reactor;
  MasterLink link(context, reactor, {"inproc://m1", "tpc://m2:7400"}, nullptr, "");
  const auto connected = link.connect();
  ASSERT_FALSE(connected);
  EXPECT_NE(connected.error().text().find("tpc://m2:7400"), std::string::npos);
}

// --- process -----------------------------------------------------------------------------------------------------------------

TEST(Incarnation, GrowsWithEachLifeAndIsNeverBehindTheClock) {
  TempDir dir;
  const auto wall = static_cast<std::uint64_t>(real_time().wall.count() / 1'000'000);
  const auto first = next_incarnation(dir / "state");
  ASSERT_TRUE(first) << first.error().text();
  EXPECT_GE(first->value, wall);
  const auto second = next_incarnation(dir / "state");
  ASSERT_TRUE(second);
  EXPECT_GT(second->value, first->value);
  ASSERT_TRUE(write_file(dir / "state/incarnation", "99999999999\n"));  // the clock has stepped back since
  EXPECT_EQ(next_incarnation(dir / "state")->value, 100'000'000'000U);
  ASSERT_TRUE(write_file(dir / "state/incarnation", "soon\n"));
  EXPECT_EQ(next_incarnation(dir / "state").error().code(), Code::kCorrupt);
}

TEST(AnnounceReady, WritesANewlineAndTellsTheServiceManager) {
  TempDir dir;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, (dir / "n").c_str(), sizeof address.sun_path - 1);
  const int manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(bind(manager, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  setenv("NOTIFY_SOCKET", address.sun_path, 1);  // NOLINT(concurrency-mt-unsafe)
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  announce_ready(pipe_fds[1]);
  unsetenv("NOTIFY_SOCKET");  // NOLINT(concurrency-mt-unsafe)
  char text[16] = {};
  EXPECT_EQ(read(pipe_fds[0], text, sizeof text), 1);
  EXPECT_EQ(text[0], '\n');
  EXPECT_EQ(read(pipe_fds[0], text, sizeof text), 0);  // closed
  EXPECT_EQ(recv(manager, text, sizeof text, MSG_DONTWAIT), 7);
  EXPECT_EQ(std::string(text, 7), "READY=1");
  close(pipe_fds[0]);
  close(manager);
  announce_ready(-1);  // nobody asked
}

}  // namespace
}  // namespace bourse
