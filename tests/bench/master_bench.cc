// Messages a second through the real bourse-master on loopback, against a raw libzmq ROUTER that passes on messages of the same sizes
// between the same two peers; and launches a second end to end with 100 simulated agents over real sockets.
//
// Through the master: a framework launches, an agent answers each launch with the task's end, the framework acknowledges that: three
// messages of a launch, each received and sent by the master, which checks whose slice it is. Raw: a process with one ROUTER that takes the
// same three messages and sends each to the other peer, without looking inside. Each is run kRounds times in turn and the best of each
// counts, since other work on the machine only ever slows one down. Both without encryption; what CURVE costs, transport_bench shows.
//
// End to end: the agents are the real agent actor, each with a connection of its own, in one process; only their host is pretended (tasks
// end at once). The framework is one of the C API. Needs bourse-master in $BOURSE_BIN.
#include <bourse/framework.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/agent.h"
#include "agent/mock_host.h"
#include "common/wire/wire.h"
#include "common/world/driver.h"
#include "common/world/log.h"
#include "common/world/transport.h"
#include "tests/bench/cpu_use.h"

extern char** environ;

namespace {

using namespace bourse;  // NOLINT: a program, not a header

constexpr int kLaunches = 20'000, kWindow = 100, kRounds = 3, kAgents = 100, kInFlight = 4, kTasks = 30'000;
constexpr std::int64_t kGiB = std::int64_t{1} << 30;
constexpr Duration kPatience = seconds(60);

std::string g_bin, g_dir;

double seconds_since(Duration start) { return static_cast<double>((real_time().mono - start).count()) / 1e6; }

std::set<pid_t> g_children;

[[noreturn]] void die(const std::string& why) {
  fmt::print(stderr, "master_bench: {}\n", why);
  for (const pid_t pid : g_children) kill(pid, SIGKILL);
  std::_Exit(1);
}

// --- processes

class Process {
 public:
  explicit Process(pid_t pid) : pid_(pid) { g_children.insert(pid); }
  ~Process() {
    kill(pid_, SIGTERM);
    waitpid(pid_, nullptr, 0);
    g_children.erase(pid_);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

 private:
  pid_t pid_;
};

// A master of its own, without keys, on loopback.
struct RealMaster {
  std::string directory, endpoint;
  std::unique_ptr<Process> process;
  explicit RealMaster(const std::string& name) : directory(g_dir + "/" + name) {
    std::filesystem::create_directories(directory);
    std::ofstream(directory + "/bourse.conf") << "[master]\nlisten = \"tcp://127.0.0.1:0\"\n";
    const std::string program = g_bin + "/bourse-master", config = directory + "/bourse.conf", state = directory + "/state",
                      log = directory + "/log";
    const char* const argv[] = {"bourse-master", "--config", config.c_str(), "--state", state.c_str(), nullptr};
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 2, log.c_str(), O_WRONLY | O_CREAT, 0600);
    setenv("BOURSE_DIR", directory.c_str(), 1);
    pid_t pid = 0;
    if (posix_spawn(&pid, program.c_str(), &files, nullptr, const_cast<char* const*>(argv), environ) != 0)
      die("cannot run " + program);
    posix_spawn_file_actions_destroy(&files);
    process = std::make_unique<Process>(pid);
    const Duration begun = real_time().mono;
    while (endpoint.empty()) {
      if (real_time().mono - begun > kPatience) die("the master does not come up, see " + log);
      usleep(20'000);
      std::ifstream in(log);
      const std::string text{std::istreambuf_iterator<char>(in), {}};
      const auto at = text.find("event=listening endpoint=");
      if (at == std::string::npos || text.find("event=leading") == std::string::npos) continue;
      endpoint = text.substr(at + 25, text.find_first_of(" \n", at + 25) - at - 25);
    }
  }
};

// --- through the master, message by message

TaskSpec task_spec() {
  TaskSpec spec;
  spec.user = "root";
  spec.argv = {"mock:0"};
  spec.directory = "/";
  return spec;
}

struct Peers {
  Context context;
  Reactor reactor;
  Connection agent{context, reactor, {}}, framework{context, reactor, {}};
  Epoch epoch;
  bool agent_up = false, slice_up = false;
  int started = 0, ended = 0;
  std::size_t sizes[3] = {};  // of the three messages
  std::string payload = wire::encode_task(task_spec());
  Sequence sequence, accepts;
  const SliceId slice{FrameworkId("load"), 1};

  explicit Peers(const std::string& endpoint) {
    agent.on_frame([this](std::string_view bytes) { at_agent(bytes); });
    framework.on_frame([this](std::string_view bytes) { at_framework(bytes); });
    if (!agent.connect(endpoint, nullptr, "") || !framework.connect(endpoint, nullptr, "")) die("cannot connect to " + endpoint);
    AgentHello hello;
    hello.agent = AgentId("a1");
    hello.incarnation = Incarnation(1);
    hello.boot_id = "bench";
    hello.inventory.version = Version(1);
    hello.inventory.total.cpus = MilliCpus(8000);
    hello.inventory.total.mem = Bytes(64 * kGiB);
    hello.inventory.total.numa = {{0, MilliCpus(8000), Bytes(64 * kGiB)}};
    say(agent, std::move(hello));
    until([this] { return agent_up; }, "the agent is not welcome");
    FrameworkHello us;
    us.framework = slice.framework;
    us.role = RoleName("load");
    us.incarnation = Incarnation(1);
    say(framework, std::move(us));
    until([this] { return slice_up; }, "there is no slice");
  }
  void until(const std::function<bool()>& done, const std::string& why) {
    const Duration begun = real_time().mono;
    while (!done()) {
      if (real_time().mono - begun > kPatience) die(why);
      reactor.turn(milliseconds(100));
    }
  }
  std::size_t say(Connection& from, Body body) {
    std::string bytes = wire::encode(Message{epoch, Incarnation(1), {}, std::move(body)});
    const std::size_t size = bytes.size();
    if (!from.send(std::move(bytes))) die("a full queue");
    return size;
  }
  void at_agent(std::string_view bytes) {
    auto message = wire::decode(bytes);
    if (!message) die(message.error().text());
    epoch = std::max(epoch, message->epoch);
    if (std::holds_alternative<Welcome>(message->body)) agent_up = true;
    if (const auto* carve = std::get_if<CarveSlices>(&message->body))
      for (const SliceSpec& spec : carve->slices) say(agent, SliceUp{AgentId("a1"), spec, {}});
    if (const auto* launch = std::get_if<Launch>(&message->body)) {
      StatusUpdate update;
      update.agent = AgentId("a1");
      update.framework = launch->slice.framework;
      update.stream = StreamId(1);
      update.sequence = sequence = sequence.next();
      update.slice = launch->slice;
      update.status.task = launch->task;
      update.status.state = TaskState::kExited;
      update.first = sequence;
      sizes[1] = say(agent, std::move(update));
    }
  }
  void at_framework(std::string_view bytes) {
    auto message = wire::decode(bytes);
    if (!message) die(message.error().text());
    epoch = std::max(epoch, message->epoch);
    if (std::holds_alternative<Welcome>(message->body)) {
      Demand demand;
      demand.version = Version(1);
      DemandLine line;
      line.id = 1, line.count = 1;
      line.shape.cpus = MilliCpus(1000), line.shape.mem = Bytes(kGiB);
      demand.lines.push_back(line);
      say(framework, std::move(demand));
    }
    if (const auto* offers = std::get_if<Offers>(&message->body); offers != nullptr && accepts.value == 0) {
      Accept accept;
      accept.sequence = accepts = accepts.next();
      Shape shape;
      shape.cpus = MilliCpus(1000), shape.mem = Bytes(kGiB);
      accept.items.push_back({offers->offers.at(0).id, offers->offers.at(0).generation, {{1, shape, Duration(0), 1}}, false});
      say(framework, std::move(accept));
    }
    if (std::holds_alternative<SliceUp>(message->body)) slice_up = true;
    if (const auto* update = std::get_if<StatusUpdate>(&message->body)) {
      ++ended;
      sizes[2] = say(framework, StatusAck{update->agent, update->framework, update->stream, update->sequence});
      if (started < kLaunches) launch();
    }
    if (const auto* refused = std::get_if<LaunchRefused>(&message->body)) die("a launch is refused: " + refused->reason);
  }
  void launch() { sizes[0] = say(framework, Launch{AgentId("a1"), slice, TaskId("t" + std::to_string(++started)), payload}); }
  double rate() {
    const Duration begun = real_time().mono;
    while (started < kWindow) launch();
    until([this] { return ended == kLaunches; }, "launches do not end");
    return 3 * kLaunches / seconds_since(begun);
  }
};

// --- raw

int raw_router(int ready) {
  void* context = zmq_ctx_new();
  void* router = zmq_socket(context, ZMQ_ROUTER);
  zmq_bind(router, "tcp://127.0.0.1:*");
  char endpoint[256] = {};
  std::size_t size = sizeof endpoint;
  zmq_getsockopt(router, ZMQ_LAST_ENDPOINT, endpoint, &size);
  if (write(ready, endpoint, sizeof endpoint) != sizeof endpoint) return 1;
  std::vector<std::string> peers;
  for (;;) {
    zmq_msg_t id, body;
    zmq_msg_init(&id);
    zmq_msg_init(&body);
    if (zmq_msg_recv(&id, router, 0) < 0 || zmq_msg_recv(&body, router, 0) < 0) return 0;
    const std::string from(static_cast<const char*>(zmq_msg_data(&id)), zmq_msg_size(&id));
    if (peers.size() < 2 && std::find(peers.begin(), peers.end(), from) == peers.end()) {
      peers.push_back(from);
      if (peers.size() == 2)
        for (const std::string& peer : peers) {
          zmq_send(router, peer.data(), peer.size(), ZMQ_SNDMORE);
          zmq_send(router, "go", 2, 0);
        }
      continue;
    }
    const std::string& to = from == peers[0] ? peers[1] : peers[0];
    zmq_send(router, to.data(), to.size(), ZMQ_SNDMORE);
    zmq_msg_send(&body, router, 0);
  }
}

double raw(const std::size_t (&sizes)[3]) {
  int ready[2];
  if (pipe(ready) != 0) die("pipe");
  const pid_t pid = fork();
  if (pid == 0) std::_Exit(raw_router(ready[1]));
  const Process router(pid);
  char endpoint[256] = {};
  if (read(ready[0], endpoint, sizeof endpoint) != sizeof endpoint) die("no raw router");
  close(ready[0]), close(ready[1]);
  void* context = zmq_ctx_new();
  void* agent = zmq_socket(context, ZMQ_DEALER);
  void* framework = zmq_socket(context, ZMQ_DEALER);
  const int zero = 0;
  for (void* s : {agent, framework}) {
    zmq_setsockopt(s, ZMQ_LINGER, &zero, sizeof zero);
    zmq_connect(s, endpoint);
    zmq_send(s, "hello", 5, 0);
  }
  const std::string launch(sizes[0], 'l'), status(sizes[1], 's'), ack(sizes[2], 'a');
  int started = 0, ended = 0, greeted = 0;
  Duration begun{0};
  while (ended < kLaunches) {
    zmq_pollitem_t items[] = {{agent, 0, ZMQ_POLLIN, 0}, {framework, 0, ZMQ_POLLIN, 0}};
    zmq_poll(items, 2, 1000);
    zmq_msg_t body;
    zmq_msg_init(&body);
    const auto greeting = [&] {
      if (zmq_msg_size(&body) != 2) return false;
      if (++greeted == 2) {
        begun = real_time().mono;
        for (; started < kWindow; ++started) zmq_send(framework, launch.data(), launch.size(), 0);
      }
      return true;
    };
    while (zmq_msg_recv(&body, agent, ZMQ_DONTWAIT) >= 0)
      if (!greeting() && zmq_msg_size(&body) == launch.size()) zmq_send(agent, status.data(), status.size(), 0);
    while (zmq_msg_recv(&body, framework, ZMQ_DONTWAIT) >= 0) {
      if (greeting()) continue;
      ++ended;
      zmq_send(framework, ack.data(), ack.size(), 0);
      if (started < kLaunches) ++started, zmq_send(framework, launch.data(), launch.size(), 0);
    }
    zmq_msg_close(&body);
  }
  const double rate = 3 * kLaunches / seconds_since(begun);
  zmq_close(agent), zmq_close(framework);
  zmq_ctx_term(context);
  return rate;
}

// --- a hundred agents

struct Member {
  std::unique_ptr<MasterLink> link;
  std::unique_ptr<Agent> agent;
  std::unique_ptr<MockHost> host;
  std::unique_ptr<Driver> driver;
};

Inventory inventory() {
  Inventory inv;
  inv.version = Version(1);
  inv.topology.type = "machine";
  TopologyNode node{"numa", 0, "", 64 * kGiB, {}, {}};
  for (std::uint32_t core = 0; core < 16; ++core) {
    TopologyNode c{"core", core, "", 0, {}, {}};
    c.children.push_back({"pu", core, "", 0, {}, {}});
    node.children.push_back(std::move(c));
  }
  inv.topology.children.push_back(std::move(node));
  inv.total.cpus = MilliCpus(16'000);
  inv.total.mem = Bytes(64 * kGiB);
  inv.total.numa = {{0, MilliCpus(16'000), Bytes(64 * kGiB)}};
  return inv;
}

int agents(const std::string& endpoint) {
  log_init("bench", LogLevel::kError);
  Reactor reactor;
  Context context;
  std::vector<std::unique_ptr<Member>> members;
  for (int i = 0; i < kAgents; ++i) {
    members.push_back(std::make_unique<Member>());
    Member& m = *members.back();
    AgentOptions options;
    options.id = AgentId(fmt::format("a{:03}", i));
    options.boot_id = "bench";
    options.settings.probes = {"hwloc"};
    m.agent = std::make_unique<Agent>(std::move(options));
    auto prober = std::make_unique<Prober>(reactor, "/nonexistent", ProbeInputs{});
    prober->prime("hwloc", inventory());
    m.host = std::make_unique<MockHost>(reactor, std::move(prober), [&m](Event event) { m.driver->post(std::move(event)); });
    m.link = std::make_unique<MasterLink>(context, reactor, std::vector<std::string>{endpoint}, nullptr, "");
    m.link->on_lost([&m] { m.driver->post(PeerLost{kMasterPeer}); });
    m.link->on_message([&m](Message message) { m.driver->post(Received{kMasterPeer, {}, std::move(message)}); });
    Driver::Hooks hooks;
    hooks.send = [&m](PeerId, const Message& message) { m.link->send(message); };
    hooks.reconnect = [&m](const std::string& leader) { m.link->next(leader); };
    hooks.host = [&m](const HostAction& action) { m.host->execute(action); };
    m.driver = std::make_unique<Driver>(reactor, *m.agent, std::move(hooks));
    if (!m.link->connect()) return 1;
    m.driver->post(Started{Incarnation(1), {}, {}});
    m.host->start();
  }
  reactor.run();
  return 0;
}

struct Load {
  bourse_client* client = nullptr;
  bourse_shape* shape = nullptr;
  bourse_task_spec* spec = nullptr;
  std::vector<std::pair<std::string, std::uint64_t>> slices;
  int launched = 0, ended = 0;

  void launch(const char* agent, std::uint64_t slice) {
    const std::string task = "t" + std::to_string(++launched);
    if (bourse_client_launch(client, agent, slice, task.c_str(), spec) != 0) die(bourse_client_error(client));
  }
  bool turn_until(const std::function<bool()>& done) const {
    const Duration begun = real_time().mono;
    pollfd p{bourse_client_fd(client), POLLIN, 0};
    while (!done()) {
      if (real_time().mono - begun > kPatience) return false;
      poll(&p, 1, 100);
      bourse_client_dispatch(client, 0);
    }
    return true;
  }
};

bourse_callbacks callbacks(Load& load) {
  bourse_callbacks c{};
  c.size = sizeof c;
  c.user = &load;
  c.offer = [](void* user, bourse_client* client, const bourse_offer* offer) {
    auto& l = *static_cast<Load*>(user);
    std::uint64_t slice = 0;
    bourse_accept* accept = nullptr;
    if (bourse_client_slice_number(client, &slice) != 0 || bourse_accept_new(&accept) != 0) die("accept");
    bourse_accept_offer(accept, bourse_offer_id(offer), bourse_offer_generation(offer), 0);
    bourse_accept_slice(accept, slice, l.shape, 0, 1);
    bourse_client_accept(client, accept, nullptr);
    bourse_accept_free(accept);
  };
  c.slice = [](void* user, bourse_client*, const bourse_slice_event* e) {
    static_cast<Load*>(user)->slices.emplace_back(e->agent, e->slice);
  };
  c.task = [](void* user, bourse_client*, const bourse_task_event* e) {
    auto& l = *static_cast<Load*>(user);
    if (e->state < BOURSE_TASK_EXITED) return;
    if (e->state != BOURSE_TASK_EXITED) die(std::string("a task fails: ") + e->message);
    ++l.ended;
    if (l.launched < kTasks) l.launch(e->agent, e->slice);
  };
  return c;
}

double launches() {
  const RealMaster master("launches");
  const pid_t pid = fork();
  if (pid == 0) std::_Exit(agents(master.endpoint));
  const Process herd(pid);
  Load load;
  char error[512] = "";
  const char* const endpoints[] = {master.endpoint.c_str(), nullptr};
  bourse_client_options options{};
  options.size = sizeof options, options.framework = "load", options.config = "", options.endpoints = endpoints;
  options.server_key = "", options.key_file = "", options.incarnation = 1, options.automatic_acks = 1;
  options.error = error, options.error_size = sizeof error;
  const bourse_callbacks calls = callbacks(load);
  if (bourse_client_open(&options, &calls, &load.client) != 0) die(error);
  bourse_shape_new(&load.shape);
  bourse_shape_cpus(load.shape, 16'000);  // a whole agent
  bourse_shape_memory(load.shape, kGiB);
  bourse_task_spec_new(&load.spec);
  bourse_task_spec_arg(load.spec, "mock:0");
  bourse_task_spec_user(load.spec, "root", 0, 0);
  bourse_task_spec_directory(load.spec, "/");
  bourse_demand* demand = nullptr;
  bourse_demand_new(&demand);
  bourse_demand_add(demand, 1, load.shape, kAgents, 0, 0);
  bourse_client_demand(load.client, demand);
  bourse_demand_free(demand);
  if (!load.turn_until([&] { return load.slices.size() == kAgents; }))
    die(fmt::format("{} of {} slices", load.slices.size(), kAgents));
  const Duration begun = real_time().mono;  // each end brings the next one
  for (const auto& [agent, slice] : load.slices)
    for (int i = 0; i < kInFlight; ++i) load.launch(agent.c_str(), slice);
  if (!load.turn_until([&] { return load.ended == kTasks; })) die(fmt::format("{} of {} ended", load.ended, kTasks));
  const double rate = kTasks / seconds_since(begun);
  bourse_task_spec_free(load.spec);
  bourse_shape_free(load.shape);
  bourse_client_free(load.client);
  return rate;
}

}  // namespace

int main() {
  const char* bin = std::getenv("BOURSE_BIN");
  if (bin == nullptr) die("set BOURSE_BIN to the directory of the built programs");
  g_bin = bin;
  char name[] = "/tmp/bourse-master-bench-XXXXXX";
  if (mkdtemp(name) == nullptr) die("no temporary directory");
  g_dir = name;
  signal(SIGPIPE, SIG_IGN);
  double through = 0, bare = 0, cpu_us = 1e9;
  std::size_t sizes[3] = {};
  for (int round = 0; round < kRounds; ++round) {
    {
      const RealMaster master("through-" + std::to_string(round));
      Peers peers(master.endpoint);
      const std::int64_t before = bench::cpu_use(master.directory)["master"];
      through = std::max(through, peers.rate());
      cpu_us = std::min(cpu_us, static_cast<double>(bench::cpu_use(master.directory)["master"] - before) / 1e3 / (3 * kLaunches));
      std::copy(std::begin(peers.sizes), std::end(peers.sizes), std::begin(sizes));
    }
    bare = std::max(bare, raw(sizes));
  }
  fmt::print(
      "messages through the master, of {}, {} and {} bytes, {} launches under way: {:.0f}/s, raw ROUTER between two DEALERs "
      "{:.0f}/s, ratio {:.2f} (goal 0.20: {}); CPU of the master for each {:.1f} us\n",
      sizes[0], sizes[1], sizes[2], kWindow, through, bare, through / bare, through >= 0.20 * bare ? "met" : "not met", cpu_us);
  const double rate = launches();
  fmt::print(
      "launches with {} simulated agents over real sockets, {} under way: {:.0f}/s; three messages of each: ratio {:.2f} to the "
      "raw ROUTER (goal 0.10: {})\n",
      kAgents, kAgents * kInFlight, rate, 3 * rate / bare, 3 * rate >= 0.10 * bare ? "met" : "not met");
  std::filesystem::remove_all(g_dir);
  return 0;
}
