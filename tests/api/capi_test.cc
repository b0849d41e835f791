// The C API against a master of a few lines: real ZeroMQ with CURVE over tcp on loopback, the real wire, the public header only
// on the near side.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <set>
#include <thread>

#include "bourse/framework.h"
#include "common/wire/wire.h"
#include "common/world/transport.h"

extern "C" {
int c99_codes_are_distinct_and_have_text(void);
int c99_builds_everything(void);
int c99_null_arguments(void);
}

namespace bourse::test {
namespace {

struct TemporaryDirectory {
  std::string path;
  TemporaryDirectory() {
    const char* base = getenv("TMPDIR");
    std::string pattern = std::string(base ? base : "/tmp") + "/bourse-api-XXXXXX";
    path = mkdtemp(pattern.data());
  }
  ~TemporaryDirectory() {
    for (const char* name : {"/key", "/key.pub", "/incarnation", "/bourse.conf"}) unlink((path + name).c_str());
    rmdir(path.c_str());
  }
};

// Answers hellos; keeps what it hears; says what it is told to. Turned by the test, on the same thread.
struct FakeMaster {
  TemporaryDirectory dir;
  KeyPair server = make_key_pair(), framework = make_key_pair();
  Reactor reactor;
  Context context;
  Listener listener{context, reactor, SocketLimits{}};
  std::vector<Message> heard;
  std::set<std::string> identities;
  PeerId peer;
  bool answer = true;
  Epoch epoch{3};

  FakeMaster() {
    EXPECT_TRUE(write_key_files(dir.path + "/key", framework));
    Keyring keyring;
    keyring.allow(framework.public_key, "framework:f");
    context.set_keyring(std::move(keyring));
    auto bound = listener.bind("tcp://127.0.0.1:*", &server);
    EXPECT_TRUE(bound) << (bound ? "" : bound.error().text());
    listener.on_frame([this](const Frame& frame) {
      auto message = wire::decode(frame.bytes);
      ASSERT_TRUE(message);
      peer = frame.peer;
      identities.insert(frame.identity);
      if (answer && std::holds_alternative<FrameworkHello>(message->body)) {
        Welcome w;
        w.cluster = "loop";
        w.heartbeat = seconds(5);
        w.peer_timeout = seconds(30);
        say(w);
      }
      heard.push_back(*std::move(message));
    });
  }
  void say(Body body) { EXPECT_TRUE(listener.send(peer, wire::encode(Message{epoch, Incarnation(1), {}, std::move(body)}))); }
  void turn() { reactor.turn(milliseconds(1)); }
  template <class T>
  std::vector<T> messages() const {
    std::vector<T> out;
    for (const auto& m : heard)
      if (const auto* t = std::get_if<T>(&m.body)) out.push_back(*t);
    return out;
  }
};

struct Heard {
  int ups = 0, downs = 0, woken = 0, idles = 0;
  std::vector<uint64_t> offers, slices;
  std::vector<std::string> tasks, lines;
  int refused = 0;
  std::function<void(bourse_client*)> in_offer, in_task;
  bool freed_seen = false;
};

struct Capi : ::testing::Test {
  FakeMaster master;
  Heard heard;
  std::string endpoint = master.listener.endpoint(), key_file = master.dir.path + "/key";
  const char* endpoints[2] = {endpoint.c_str(), nullptr};
  bourse_client_options options{};
  bourse_callbacks callbacks{};
  bourse_client* client = nullptr;
  char error[256] = "";

  Capi() {
    options.size = sizeof options;
    options.framework = "f";
    options.endpoints = endpoints;
    options.server_key = master.server.public_key.c_str();
    options.key_file = key_file.c_str();
    options.incarnation = 4;
    options.error = error;
    options.error_size = sizeof error;
    callbacks.size = sizeof callbacks;
    callbacks.user = &heard;
    callbacks.up = [](void* u, bourse_client*, const bourse_up_event* e) {
      EXPECT_STREQ(e->cluster, "loop");
      EXPECT_EQ(e->size, sizeof *e);
      ++static_cast<Heard*>(u)->ups;
    };
    callbacks.down = [](void* u, bourse_client*, const bourse_down_event*) { ++static_cast<Heard*>(u)->downs; };
    callbacks.refused = [](void* u, bourse_client*, const bourse_refused_event* e) { static_cast<Heard*>(u)->refused = e->code; };
    callbacks.offer = [](void* u, bourse_client* c, const bourse_offer* o) {
      auto* h = static_cast<Heard*>(u);
      h->offers.push_back(bourse_offer_id(o));
      if (h->in_offer) h->in_offer(c);
    };
    callbacks.slice = [](void* u, bourse_client*, const bourse_slice_event* e) {
      static_cast<Heard*>(u)->slices.push_back(e->slice);
    };
    callbacks.task = [](void* u, bourse_client* c, const bourse_task_event* e) {
      auto* h = static_cast<Heard*>(u);
      h->tasks.push_back(std::string(e->task) + ":" + std::to_string(e->state) + ":" + std::to_string(e->exit_code));
      if (h->in_task) h->in_task(c);
    };
    callbacks.woken = [](void* u, bourse_client*) { ++static_cast<Heard*>(u)->woken; };
    callbacks.idle = [](void* u, bourse_client*) { ++static_cast<Heard*>(u)->idles; };
    callbacks.log = [](void* u, int32_t, const char* line) { static_cast<Heard*>(u)->lines.emplace_back(line); };
  }
  ~Capi() override { bourse_client_free(client); }

  void open() { ASSERT_EQ(bourse_client_open(&options, &callbacks, &client), 0) << error; }
  bool readable(int timeout_ms) const {
    pollfd p{bourse_client_fd(client), POLLIN, 0};
    return poll(&p, 1, timeout_ms) == 1;
  }
  // Until `done`, the program's loop: poll, dispatch only when readable.
  template <class F>
  bool until(F done, int limit_ms = 10'000) {
    const auto deadline = real_time().mono + milliseconds(limit_ms);
    while (!done()) {
      if (real_time().mono > deadline) return false;
      master.turn();
      if (readable(1)) { EXPECT_GE(bourse_client_dispatch(client, 0), 0); }
    }
    return true;
  }
  void up() {
    open();
    ASSERT_TRUE(until([&] { return heard.ups == 1; }));
  }
  static StatusUpdate status(std::uint64_t sequence, const std::string& task, TaskState state) {
    StatusUpdate s;
    s.agent = AgentId("h1");
    s.framework = FrameworkId("f");
    s.stream = StreamId(9);
    s.sequence = Sequence(sequence);
    s.slice = {FrameworkId("f"), 1};
    s.status.task = TaskId(task);
    s.status.state = state;
    s.status.exit_code = 3;
    return s;
  }
};

TEST(CapiC99, CodesBuildersAndNulls) {
  EXPECT_TRUE(c99_codes_are_distinct_and_have_text());
  EXPECT_EQ(c99_builds_everything(), 0) << "line of capi_c99.c";
  EXPECT_EQ(c99_null_arguments(), 0) << "line of capi_c99.c";
}

TEST(CapiC99, CodesMirrorTheLibrarysOwn) {
  for (int i = 0; i <= static_cast<int>(Code::kUnsupported); ++i) EXPECT_STRNE(bourse_strerror(-i), "unknown error") << i;
  EXPECT_EQ(BOURSE_E_GONE, -static_cast<int>(Code::kGone));
  EXPECT_EQ(BOURSE_E_UNSUPPORTED, -static_cast<int>(Code::kUnsupported));
  EXPECT_EQ(BOURSE_TASK_NEVER_STARTED, static_cast<int>(TaskState::kNeverStarted));
  EXPECT_EQ(BOURSE_SLICE_GANG_ABORTED, static_cast<int>(SliceEnd::kGangAborted));
  EXPECT_EQ(BOURSE_OFFER_DEMAND_GONE, static_cast<int>(OfferEnd::kDemandGone));
  EXPECT_EQ(BOURSE_DECLINE_OTHER, static_cast<int>(DeclineReason::kOther));
  EXPECT_EQ(BOURSE_AGENT_REMOVED, static_cast<int>(AgentFacts::State::kRemoved));
  EXPECT_EQ(BOURSE_KERNEL, static_cast<int>(TaskKind::kKernel));
  EXPECT_EQ(BOURSE_ABSENT, static_cast<int>(Constraint::Op::kAbsent));
}

TEST_F(Capi, DemandOfferAcceptLaunchStatusAckOverCurve) {
  up();
  EXPECT_EQ(master.identities, std::set<std::string>{"framework:f"});
  EXPECT_EQ(bourse_client_incarnation(client), 4u);
  bourse_shape* shape = nullptr;
  bourse_demand* demand = nullptr;
  ASSERT_EQ(bourse_shape_new(&shape), 0);
  ASSERT_EQ(bourse_shape_cpus(shape, 1500), 0);
  ASSERT_EQ(bourse_demand_new(&demand), 0);
  ASSERT_EQ(bourse_demand_add(demand, 1, shape, 2, 0, 0), 0);
  ASSERT_EQ(bourse_client_demand(client, demand), 0);
  ASSERT_TRUE(until([&] { return !master.messages<Demand>().empty(); }));
  EXPECT_EQ(master.messages<Demand>()[0].lines.at(0).shape.cpus, MilliCpus{1500});

  Offer offer;
  offer.id = OfferId(11);
  offer.generation = Generation(2);
  offer.agent = AgentId("h1");
  offer.resources.cpus = MilliCpus{4000};
  offer.ttl = seconds(10);
  master.say(Offers{{offer}});
  ASSERT_TRUE(until([&] { return heard.offers.size() == 1; }));

  bourse_accept* accept = nullptr;
  uint64_t slice = 0, sequence = 0;
  ASSERT_EQ(bourse_client_slice_number(client, &slice), 0);
  ASSERT_EQ(bourse_accept_new(&accept), 0);
  ASSERT_EQ(bourse_accept_offer(accept, 11, 2, 0), 0);
  ASSERT_EQ(bourse_accept_slice(accept, slice, shape, 0, 1), 0);
  ASSERT_EQ(bourse_client_accept(client, accept, &sequence), 0);
  EXPECT_EQ(sequence, 1u);
  bourse_task_spec* spec = nullptr;
  ASSERT_EQ(bourse_task_spec_new(&spec), 0);
  EXPECT_EQ(bourse_client_launch(client, "h1", slice, "t", spec), BOURSE_E_INVALID) << "nothing to run";
  EXPECT_STRNE(bourse_client_error(client), "");
  ASSERT_EQ(bourse_task_spec_arg(spec, "true"), 0);
  ASSERT_EQ(bourse_client_launch(client, "h1", slice, "t", spec), 0);
  ASSERT_TRUE(until([&] { return !master.messages<Launch>().empty(); }));
  EXPECT_EQ(master.messages<Launch>()[0].slice, (SliceId{FrameworkId("f"), slice}));

  master.say(status(1, "t", TaskState::kExited));
  ASSERT_TRUE(until([&] { return heard.tasks.size() == 1; }));
  EXPECT_EQ(heard.tasks[0], "t:2:3");
  ASSERT_EQ(bourse_client_ack(client, "h1", 9, 1), 0);
  ASSERT_TRUE(until([&] { return !master.messages<StatusAck>().empty(); }));
  EXPECT_EQ(master.messages<StatusAck>()[0].through, Sequence(1));
  bourse_shape_free(shape);
  bourse_demand_free(demand);
  bourse_accept_free(accept);
  bourse_task_spec_free(spec);
}

TEST_F(Capi, DescriptorIsLevelTriggeredWithThreeMessagesQueued) {
  up();
  for (std::uint64_t i = 1; i <= 3; ++i) master.say(status(i, "t" + std::to_string(i), TaskState::kExited));
  for (int i = 0; i < 20; ++i) master.turn();
  // One event a dispatch. Whatever is left must show by itself, without another message and without a timer.
  for (std::size_t i = 1; i <= 3; ++i) {
    while (heard.tasks.size() < i) {
      ASSERT_TRUE(readable(3'000)) << "silent with work left, after " << heard.tasks.size();
      const std::size_t before = heard.tasks.size();
      ASSERT_LE(bourse_client_dispatch(client, 1), 1);
      ASSERT_LE(heard.tasks.size(), before + 1);
    }
    if (i < 3) { EXPECT_TRUE(readable(0) || readable(3'000)); }
  }
  EXPECT_EQ(heard.idles, 2) << "once after up, once after the last";
}

TEST_F(Capi, DescriptorRestsWhenThereIsNothingToDo) {
  up();
  for (int i = 0; i < 200 && readable(1); ++i) bourse_client_dispatch(client, 0);
  EXPECT_FALSE(readable(50));
}

TEST_F(Capi, WakeFromAnotherThreadReachesRun) {
  up();
  callbacks = {};
  std::atomic<int> woken{0};
  std::thread other([&] {
    for (int i = 0; i < 3; ++i) bourse_client_wake(client);
    woken = 1;
  });
  other.join();
  ASSERT_TRUE(readable(1'000));
  EXPECT_GE(bourse_client_dispatch(client, 0), 1);
  EXPECT_EQ(heard.woken, 1) << "several wakes may become one";
}

TEST_F(Capi, RunReturnsAfterStopAndStopBeforeRunIsRemembered) {
  up();
  ASSERT_EQ(bourse_client_stop(client), 0);
  ASSERT_EQ(bourse_client_run(client), 0);
  master.say(Offers{{[] {
    Offer o;
    o.id = OfferId(1);
    o.agent = AgentId("h1");
    o.ttl = seconds(10);
    return o;
  }()}});
  for (int i = 0; i < 20; ++i) master.turn();
  heard.in_offer = [](bourse_client* c) {
    EXPECT_EQ(bourse_client_run(c), BOURSE_E_BUSY);
    EXPECT_EQ(bourse_client_dispatch(c, 0), BOURSE_E_BUSY);
    EXPECT_EQ(bourse_client_stop(c), 0);
  };
  ASSERT_EQ(bourse_client_run(client), 0);
  EXPECT_EQ(heard.offers.size(), 1u);
}

TEST_F(Capi, FreeInsideACallbackEndsDispatchAndNoCallbackFollows) {
  up();
  heard.in_task = [](bourse_client* c) {
    bourse_client_free(c);
    uint64_t number = 77;
    EXPECT_EQ(bourse_client_slice_number(c, &number), BOURSE_E_GONE);
    EXPECT_EQ(number, 77u) << "out parameters are untouched on failure";
  };
  for (std::uint64_t i = 1; i <= 3; ++i) master.say(status(i, "t", TaskState::kExited));
  for (int i = 0; i < 20; ++i) master.turn();
  while (heard.tasks.empty()) {
    ASSERT_TRUE(readable(3'000));
    ASSERT_GE(bourse_client_dispatch(client, 0), 0);
  }
  client = nullptr;
  EXPECT_EQ(heard.tasks.size(), 1u);
}

TEST_F(Capi, AutomaticAcksFollowTheCallback) {
  options.automatic_acks = 1;
  up();
  master.say(status(1, "t", TaskState::kExited));
  ASSERT_TRUE(until([&] { return !master.messages<StatusAck>().empty(); }));
  EXPECT_EQ(heard.tasks.size(), 1u);
}

// One that listens on the socket of a real system, but whose process is stopped: it accepts and says nothing.
TEST_F(Capi, FindsTheLeaderBehindAStoppedAndAStandbyMaster) {
  FakeMaster standby;
  Listener listener(standby.context, standby.reactor, SocketLimits{});
  Keyring keyring;
  keyring.allow(master.framework.public_key, "framework:f");
  standby.context.set_keyring(std::move(keyring));
  ASSERT_TRUE(listener.bind("tcp://127.0.0.1:*", &master.server));
  int asked = 0;
  listener.on_frame([&](const Frame& frame) {
    ++asked;
    Message no{Epoch(1), Incarnation(1), {}, Refused{Code::kBusy, "does not lead", true, endpoint}};
    EXPECT_TRUE(listener.send(frame.peer, wire::encode(no)));
  });
  const int stopped = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(stopped, reinterpret_cast<const sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(stopped, 16), 0);
  ASSERT_EQ(getsockname(stopped, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const std::string all = "tcp://127.0.0.1:" + std::to_string(ntohs(address.sin_port)) + ", " + listener.endpoint();
  const char* list[] = {all.c_str(), nullptr};
  options.endpoints = list;
  open();
  const bool found = until([&] {
    standby.turn();
    return heard.ups == 1;
  });
  EXPECT_TRUE(found);
  EXPECT_GE(asked, 1);
  EXPECT_EQ(heard.downs, 0);
  close(stopped);
}

TEST_F(Capi, RefusedIsFinal) {
  master.answer = false;
  open();
  ASSERT_TRUE(until([&] { return !master.messages<FrameworkHello>().empty(); }));
  master.say(Refused{Code::kVersion, "too old"});
  ASSERT_TRUE(until([&] { return heard.refused != 0; }));
  EXPECT_EQ(heard.refused, BOURSE_E_VERSION);
  EXPECT_EQ(bourse_client_explain(client, 1, 1), BOURSE_E_GONE);
  EXPECT_EQ(bourse_client_dispatch(client, 0), 0) << "still harmless";
}

TEST_F(Capi, ErrorPathsSayWhyAndChangeNothing) {
  up();
  bourse_accept* accept = nullptr;
  bourse_shape* shape = nullptr;
  ASSERT_EQ(bourse_accept_new(&accept), 0);
  ASSERT_EQ(bourse_shape_new(&shape), 0);
  uint64_t sequence = 55;
  EXPECT_EQ(bourse_client_accept(client, accept, &sequence), BOURSE_E_INVALID);
  EXPECT_STREQ(bourse_client_error(client), "accept: no offer in it");
  bourse_accept_offer(accept, 1, 1, 0);
  EXPECT_EQ(bourse_client_accept(client, accept, &sequence), BOURSE_E_INVALID);
  bourse_accept_slice(accept, 9, shape, 0, 0);
  bourse_accept_slice(accept, 9, shape, 0, 0);
  EXPECT_EQ(bourse_client_accept(client, accept, &sequence), BOURSE_E_INVALID);
  EXPECT_STREQ(bourse_client_error(client), "accept: slice 9 is in it twice");
  EXPECT_EQ(sequence, 55u);
  const uint64_t offers[] = {1};
  EXPECT_EQ(bourse_client_decline(client, offers, 1, 99, nullptr, 0), BOURSE_E_INVALID);
  EXPECT_EQ(bourse_client_decline(client, nullptr, 1, 0, nullptr, 0), BOURSE_E_INVALID);
  EXPECT_EQ(bourse_client_decline(client, offers, 1, 0, nullptr, -1), BOURSE_E_INVALID);
  EXPECT_EQ(bourse_client_kill(client, "h 1", "t", nullptr), BOURSE_E_INVALID);
  EXPECT_EQ(bourse_client_kill(client, "h1", "", nullptr), BOURSE_E_INVALID);
  bourse_kill_options kill{};
  EXPECT_EQ(bourse_client_kill(client, "h1", "t", &kill), BOURSE_E_INVALID) << "no size";
  kill.size = sizeof kill;
  kill.signal = 99;
  EXPECT_EQ(bourse_client_kill(client, "h1", "t", &kill), BOURSE_E_INVALID);
  EXPECT_EQ(bourse_client_release(client, 0, 0), BOURSE_E_INVALID);
  EXPECT_EQ(bourse_client_release(client, 1, -1), BOURSE_E_INVALID);
  EXPECT_EQ(bourse_client_ack(client, nullptr, 1, 1), BOURSE_E_INVALID);
  EXPECT_EQ(bourse_client_reconcile(client, "h1", nullptr, 1), BOURSE_E_INVALID);
  const char* bad[] = {"good", "not good"};
  EXPECT_EQ(bourse_client_declare_lost(client, "h1", bad, 2), BOURSE_E_INVALID);
  EXPECT_EQ(bourse_client_demand(client, nullptr), BOURSE_E_INVALID);
  EXPECT_EQ(bourse_client_launch(client, "h1", 1, "t", nullptr), BOURSE_E_INVALID);
  EXPECT_EQ(bourse_client_dispatch(client, -1), BOURSE_E_INVALID);
  for (int i = 0; i < 20; ++i) master.turn();
  EXPECT_EQ(master.heard.size(), 1u) << "only the hello";
  bourse_accept_free(accept);
  bourse_shape_free(shape);
}

TEST_F(Capi, OpenRefusesBadOptionsWithASentence) {
  auto attempt = [&](auto change) {
    bourse_client_options o = options;
    change(o);
    error[0] = '\0';
    bourse_client* c = nullptr;
    const int rc = bourse_client_open(&o, &callbacks, &c);
    EXPECT_EQ(c, nullptr);
    return rc;
  };
  EXPECT_EQ(attempt([](auto& o) { o.size = 0; }), BOURSE_E_INVALID);
  EXPECT_EQ(attempt([](auto& o) { o.framework = nullptr; }), BOURSE_E_INVALID);
  EXPECT_STRNE(error, "");
  EXPECT_EQ(attempt([](auto& o) { o.framework = "two words"; }), BOURSE_E_INVALID);
  EXPECT_EQ(attempt([](auto& o) { o.role = "../x"; }), BOURSE_E_INVALID);
  EXPECT_EQ(attempt([](auto& o) { o.failover_timeout = -1; }), BOURSE_E_INVALID);
  EXPECT_EQ(attempt([](auto& o) { o.key_file = "/nonexistent/key"; }), BOURSE_E_NOT_FOUND);
  EXPECT_EQ(attempt([](auto& o) { o.key_file = ""; }), BOURSE_E_DENIED) << "a server with a key wants ours";
  const char* typo[] = {endpoint.c_str(), "tpc://x:1", nullptr};
  EXPECT_EQ(attempt([&](auto& o) { o.endpoints = typo; }), BOURSE_E_INVALID);
  EXPECT_NE(std::string(error).find("tpc"), std::string::npos) << error;
  EXPECT_EQ(attempt([](auto& o) {
              o.config = "";
              o.endpoints = nullptr;
            }),
            BOURSE_E_NOT_FOUND);
  EXPECT_EQ(attempt([&](auto& o) { o.incarnation = std::uint64_t{1} << 41; }), BOURSE_E_INVALID);
  ASSERT_EQ(chmod(key_file.c_str(), 0644), 0);
  EXPECT_EQ(attempt([](auto&) {}), BOURSE_E_DENIED) << "a secret that all can read";
}

TEST_F(Capi, ShorterAndLongerStructsAreTaken) {
  struct {
    bourse_client_options options;
    char later[64];
  } longer{};
  longer.options = options;
  longer.options.size = sizeof longer;
  ASSERT_EQ(bourse_client_open(&longer.options, &callbacks, &client), 0) << error;
  bourse_client_free(client);
  client = nullptr;
  longer.later[63] = 1;
  EXPECT_EQ(bourse_client_open(&longer.options, &callbacks, &client), BOURSE_E_UNSUPPORTED);
  EXPECT_EQ(client, nullptr);
  bourse_callbacks few = callbacks;  // of an older program: nothing after `task`
  few.size = offsetof(bourse_callbacks, agents);
  ASSERT_EQ(bourse_client_open(&options, &few, &client), 0) << error;
  ASSERT_TRUE(until([&] { return heard.ups == 1; }));
  EXPECT_EQ(heard.idles, 0);
}

TEST_F(Capi, StateDirectoryCountsLives) {
  options.incarnation = 0;
  options.state_dir = master.dir.path.c_str();
  open();
  const uint64_t first = bourse_client_incarnation(client);
  bourse_client_free(client);
  open();
  EXPECT_GT(bourse_client_incarnation(client), first);
}

TEST_F(Capi, ALifeThatFollowsAtOnceHasAHigherNumberAlsoWithoutAStateDirectory) {
  options.incarnation = 0;
  open();
  const std::uint64_t first = bourse_client_incarnation(client);
  bourse_client_free(client);
  client = nullptr;
  usleep(20'000);  // less than it takes to start a program
  open();
  EXPECT_GT(bourse_client_incarnation(client), first);
}

TEST_F(Capi, TheChildOfAForkIsRefusedAndDoesNoHarm) {
  up();
  const pid_t child = fork();
  if (child == 0) {
    uint64_t number = 0;
    const bool good = bourse_client_slice_number(client, &number) == BOURSE_E_FORK &&
                      bourse_client_dispatch(client, 0) == BOURSE_E_FORK && bourse_client_fd(client) == BOURSE_E_FORK &&
                      bourse_client_wake(client) == BOURSE_E_FORK;
    bourse_client_free(client);
    _exit(good ? 0 : 1);
  }
  int status_of_child = 0;
  ASSERT_EQ(waitpid(child, &status_of_child, 0), child);
  EXPECT_EQ(status_of_child, 0);
  master.say(status(1, "t", TaskState::kExited));
  EXPECT_TRUE(until([&] { return heard.tasks.size() == 1; }));
}

TEST_F(Capi, GarbageFromTheMasterIsLoggedAndIgnored) {
  up();
  ASSERT_TRUE(master.listener.send(master.peer, "not a message"));
  master.say(status(1, "t", TaskState::kExited));
  ASSERT_TRUE(until([&] { return heard.tasks.size() == 1; }));
  bool logged = false;
  for (const auto& line : heard.lines) logged = logged || line.find("event=frame_refused") != std::string::npos;
  EXPECT_TRUE(logged);
}

// Time of a call besides the socket's, as a figure for people; asserted only to be of the right order.
TEST_F(Capi, LaunchAndAckCostLittle) {
  up();
  SliceUp slice;
  slice.agent = AgentId("h1");
  slice.spec.id = {FrameworkId("f"), 1};
  master.say(slice);
  ASSERT_TRUE(until([&] { return heard.slices.size() == 1; }));
  bourse_task_spec* spec = nullptr;
  ASSERT_EQ(bourse_task_spec_new(&spec), 0);
  bourse_task_spec_arg(spec, "true");
  bourse_task_spec_env(spec, "PATH=/usr/bin:/bin");
  constexpr int kCalls = 5'000;
  auto cpu = [] {  // of this thread: other programs on the machine do not count
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return Duration(t.tv_sec * 1'000'000 + t.tv_nsec / 1'000);
  };
  const auto begin = cpu();
  for (int i = 0; i < kCalls; ++i) ASSERT_EQ(bourse_client_launch(client, "h1", 1, ("t." + std::to_string(i)).c_str(), spec), 0);
  const auto took = cpu() - begin;
  std::printf("launch, with its send: %.2f us of CPU a call\n", static_cast<double>(took.count()) / kCalls);
  EXPECT_LT(took, seconds(2));
  bourse_task_spec_free(spec);
}

std::string folder_of_library() {
  char path[4096];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof path);
  std::string self(path, n > 0 ? static_cast<std::size_t>(n) : 0);
  for (int i = 0; i < 3; ++i) self = self.substr(0, self.rfind('/'));  // BUILD/tests/bin/api
  return self;
}

std::set<std::string> lines_of(const std::string& command) {
  std::set<std::string> out;
  FILE* pipe = popen(command.c_str(), "r");
  char line[512];
  while (pipe && fgets(line, sizeof line, pipe)) out.insert(std::string(line, strcspn(line, "\n")));
  if (pipe) pclose(pipe);
  return out;
}

TEST(CapiLibrary, ExportsWhatTheHeaderDeclaresAndNothingElse) {
  const std::string library = folder_of_library() + "/libbourse.so";
  if (access(library.c_str(), R_OK) != 0) {
    // make check has built it: it may not be missing there.
    if (std::getenv("BOURSE_BIN") == nullptr) GTEST_SKIP() << library << " is not built: make all";
    FAIL() << library << " is not built";
  }
  std::set<std::string> exported =
      lines_of("nm -D --defined-only --with-symbol-versions " + library + " | awk '$2 == \"T\" { print $3 }'");
  std::set<std::string> declared;
  std::ifstream header("frameworks/api/include/bourse/framework.h");
  ASSERT_TRUE(header) << "run from the top of the tree";
  bool open = false;
  for (std::string line; std::getline(header, line);) {
    open = line.starts_with("BOURSE_API");
    if (!open) continue;
    const auto paren = line.find('(');
    if (paren == std::string::npos) continue;
    auto begin = line.find_last_of(" *", paren) + 1;
    declared.insert(line.substr(begin, paren - begin) + "@@BOURSE_0.1");
  }
  EXPECT_GT(declared.size(), 100u);
  EXPECT_EQ(exported, declared);
  EXPECT_TRUE(lines_of("nm -D --defined-only " + library + " | awk '$2 != \"T\" && $2 != \"A\" { print $3 }'").empty());
}

}  // namespace
}  // namespace bourse::test
