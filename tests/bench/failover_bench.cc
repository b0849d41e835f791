// How long a failover of the masters takes with many agents and tasks: from the election to every agent registered and every task
// accounted for, over real sockets with a CURVE key for each agent.
//
// The masters are the real programs. The agents are the real agent actor, each with its own connection and key, in a few processes;
// only their host is pretended: slices are carved and tasks run at once. A framework of the C API owns the tasks and reconciles
// them. BOURSE_BENCH_AGENTS (10000), BOURSE_BENCH_TASKS (10 an agent), BOURSE_BENCH_ROUNDS (3) scale it.
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "agent/agent.h"
#include "bourse/framework.h"
#include "common/wire/wire.h"
#include "common/world/config.h"
#include "common/world/driver.h"
#include "common/world/files.h"
#include "common/world/log.h"
#include "common/world/transport.h"

namespace {

using namespace bourse;  // NOLINT: a program, not a header

constexpr int kWorkers = 4;
constexpr Duration kPatience = seconds(180);
constexpr std::size_t kAgentsMost = 50'000;

struct Shared {  // between this process and those with the agents
  std::atomic<bool> go{false};
  std::atomic<int> prepared{0};
  std::array<std::atomic<std::uint64_t>, kAgentsMost> epoch{};  // under which each agent is registered
};

std::string g_bin, g_dir;
std::size_t g_agents = 10'000, g_tasks = 10;

std::string agent_name(std::size_t i) { return fmt::format("s{:05}", i); }

std::string output_of(const std::string& command) {
  std::string out;
  FILE* pipe = popen(command.c_str(), "r");
  std::array<char, 4096> chunk{};
  while (pipe != nullptr && std::fgets(chunk.data(), chunk.size(), pipe) != nullptr) out += chunk.data();
  if (pipe != nullptr) pclose(pipe);
  return out;
}

[[noreturn]] void die(const std::string& why) {
  fmt::print("failover: {}\n", why);
  (void)std::system(fmt::format("BOURSE_DIR={0}/cluster {1}/bourse down >/dev/null 2>&1", g_dir, g_bin).c_str());
  std::filesystem::remove_all(g_dir);
  std::_Exit(1);
}

Inventory machine() {  // two nodes of 32 cores: an ordinary host
  Inventory inventory;
  inventory.version = Version(1);
  inventory.topology.type = "machine";
  std::uint32_t pu = 0;
  for (std::uint32_t node = 0; node < 2; ++node) {
    TopologyNode numa;
    numa.type = "numa";
    numa.index = node;
    numa.amount = 128LL << 30;
    for (std::uint32_t c = 0; c < 32; ++c) {
      TopologyNode core, unit;
      core.type = "core";
      core.index = pu;
      unit.type = "pu";
      unit.index = pu++;
      core.children.push_back(unit);
      numa.children.push_back(core);
    }
    inventory.topology.children.push_back(numa);
    inventory.total.numa.push_back({node, MilliCpus{32'000}, Bytes{128LL << 30}});
  }
  inventory.total.cpus = MilliCpus{64'000};
  inventory.total.mem = Bytes{256LL << 30};
  return inventory;
}

// One agent: the actor, its driver, its connection.
class Simulated {
 public:
  Simulated(Reactor& reactor, Shared& shared, std::size_t number) : reactor_(reactor), shared_(shared), number_(number) {
    AgentOptions options;
    options.id = AgentId(agent_name(number));
    options.boot_id = "boot";
    options.settings.probes = {"hwloc"};
    options.masters = 3;
    agent_ = std::make_unique<Agent>(std::move(options));
    Driver::Hooks hooks;
    hooks.send = [this](PeerId, const Message& message) {
      if (link_) link_->send(message);
    };
    hooks.reconnect = [this](const std::string& leader) {
      if (link_) link_->next(leader);
    };
    hooks.masters = [this](const std::vector<std::string>& all) {
      if (link_) link_->learn(all);
    };
    hooks.host = [this](const HostAction& action) { act(action); };
    driver_ = std::make_unique<Driver>(reactor, *agent_, std::move(hooks));
  }

  // A slice with tasks that run, as if a leader long ago had ordered them.
  void prepare() {
    driver_->post(Started{Incarnation(1), {}, {}});
    driver_->post(HostTasks{});
    hear(Welcome{kProtocolVersion, "bench", std::chrono::hours(1), std::chrono::hours(2), {}});
    const AgentId id(agent_name(number_));
    SliceSpec slice;
    slice.id = {FrameworkId("load"), number_ + 1};
    slice.resources.cpus = MilliCpus{16'000};
    slice.resources.mem = Bytes{32LL << 30};
    slice.resources.numa = {{0, slice.resources.cpus, slice.resources.mem}};
    slice.role = "load";
    hear(CarveSlices{{slice}});
    TaskSpec spec;
    spec.user = "root";
    spec.argv = {"sleep", "1000"};
    const std::string payload = wire::encode_task(spec);
    for (std::size_t t = 0; t < g_tasks; ++t) hear(Launch{id, slice.id, TaskId(fmt::format("{}.{}", number_, t)), payload});
  }

  void connect(Context& context, const std::vector<std::string>& masters, const KeyPair& keys, const std::string& server) {
    link_ = std::make_unique<MasterLink>(context, reactor_, masters, &keys, server);
    link_->on_lost([this] { driver_->post(PeerLost{kMasterPeer}); });
    link_->on_message([this](Message message) {
      if (std::holds_alternative<Welcome>(message.body)) shared_.epoch[number_] = message.epoch.value;
      driver_->post(Received{kMasterPeer, {}, std::move(message)});
    });
    if (auto connected = link_->connect(); !connected) die(connected.error().text());
    hear(Refused{Code::kGone, "say hello first"});
  }
  [[nodiscard]] std::size_t running() const { return agent_->view().active.size(); }

 private:
  void hear(Body body) { driver_->post(Received{kMasterPeer, {}, Message{Epoch(0), {}, {}, std::move(body)}}); }
  void act(const HostAction& action) {
    if (const auto* probe = std::get_if<RunProbe>(&action)) driver_->post(ProbeDone{probe->probe, machine(), {}});
    if (const auto* carve = std::get_if<CarveSlice>(&action)) driver_->post(SliceCarved{carve->spec.id, {}});
    if (const auto* erase = std::get_if<EraseSlice>(&action)) driver_->post(SliceErased{erase->slice});
    if (const auto* start = std::get_if<StartTask>(&action)) driver_->post(TaskStarted{start->task, 100});
  }

  Reactor& reactor_;
  Shared& shared_;
  std::size_t number_;
  std::unique_ptr<Agent> agent_;
  std::unique_ptr<MasterLink> link_;
  std::unique_ptr<Driver> driver_;
};

[[noreturn]] void worker(Shared& shared, int which, const std::vector<KeyPair>& keys) {
  log_init("agents", LogLevel::kError);
  Reactor reactor;
  std::vector<std::unique_ptr<Simulated>> agents;
  for (std::size_t i = static_cast<std::size_t>(which); i < g_agents; i += kWorkers) {
    agents.push_back(std::make_unique<Simulated>(reactor, shared, i));
    agents.back()->prepare();
    if (agents.back()->running() != g_tasks) {
      fmt::print("failover: a simulated agent runs {} of {} tasks\n", agents.back()->running(), g_tasks);
      std::_Exit(1);
    }
  }
  ++shared.prepared;
  while (!shared.go) usleep(10'000);
  const auto config = Config::read(g_dir + "/cluster/bourse.conf", {});
  const auto server = read_public_key(g_dir + "/cluster/keys/master.pub");
  if (!config || !server) std::_Exit(1);
  Context context;
  for (std::size_t i = 0; i < agents.size(); ++i) {
    agents[i]->connect(context, config->list("cluster", "masters"), keys[static_cast<std::size_t>(which) + i * kWorkers], *server);
    if (i % 50 == 0) reactor.turn(Duration(0));
  }
  reactor.run();
  std::_Exit(0);
}

struct Framework {
  bourse_client* client = nullptr;
  std::atomic<std::size_t> heard{0};  // different tasks since forget()
  std::vector<std::atomic<bool>> seen;
  std::atomic<int> lost{0};
  std::thread thread;

  Framework() : seen(g_agents * g_tasks) {
    bourse_callbacks callbacks{};
    callbacks.size = sizeof callbacks;
    callbacks.user = this;
    callbacks.task = [](void* user, bourse_client*, const bourse_task_event* e) {
      auto* self = static_cast<Framework*>(user);
      std::size_t agent = 0, task = 0;
      if (std::sscanf(e->task, "%zu.%zu", &agent, &task) != 2 || agent * g_tasks + task >= self->seen.size()) return;
      if (e->state != BOURSE_TASK_RUNNING) ++self->lost;
      if (!self->seen[agent * g_tasks + task].exchange(true)) ++self->heard;
    };
    char error[512] = "";
    bourse_client_options options{};
    options.size = sizeof options;
    options.framework = "load";
    options.automatic_acks = 1;
    options.error = error;
    options.error_size = sizeof error;
    if (bourse_client_open(&options, &callbacks, &client) != 0) die(std::string("the framework: ") + error);
    thread = std::thread([this] { bourse_client_run(client); });
  }
  void forget() {
    for (auto& one : seen) one = false;
    heard = 0;
  }
};

double ms(Duration d) { return static_cast<double>(d.count()) / 1e3; }

std::size_t registered(const Shared& shared, std::uint64_t epoch) {
  std::size_t n = 0;
  for (std::size_t i = 0; i < g_agents; ++i) n += shared.epoch[i].load(std::memory_order_relaxed) == epoch ? 1 : 0;
  return n;
}

std::uint64_t newest(const Shared& shared) {
  std::uint64_t epoch = 0;
  for (std::size_t i = 0; i < g_agents; ++i) epoch = std::max(epoch, shared.epoch[i].load(std::memory_order_relaxed));
  return epoch;
}

// When the leader of that epoch said that it leads: wall clock, from the logs.
Duration led_at(std::uint64_t epoch) {
  for (const auto& entry : std::filesystem::directory_iterator(g_dir + "/cluster/log")) {
    std::ifstream in(entry.path());
    for (std::string line; std::getline(in, line);) {
      if (line.find("event=leading ") == std::string::npos || line.find(fmt::format(" epoch={} ", epoch)) == std::string::npos)
        continue;
      std::tm parts{};
      int us = 0;
      if (std::sscanf(line.c_str(), "%d-%d-%dT%d:%d:%d.%dZ", &parts.tm_year, &parts.tm_mon, &parts.tm_mday, &parts.tm_hour,
                      &parts.tm_min, &parts.tm_sec, &us) != 7)
        continue;
      parts.tm_year -= 1900, parts.tm_mon -= 1;
      return seconds(timegm(&parts)) + microseconds(us);
    }
  }
  return Duration(0);
}

pid_t leader_pid() {
  const std::string text = output_of(fmt::format("{}/bourse status --json 2>/dev/null", g_bin));
  const auto at = text.find("\"pid\":");
  return at == std::string::npos ? 0 : std::atoi(text.c_str() + at + 6);
}

long resident_kib(pid_t pid) {
  std::ifstream in(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("VmRSS:")) return std::atol(line.c_str() + 6);
  return 0;
}

// Waits until every agent is registered under `epoch` at least, and every task heard of. Wall times of both.
struct Done {
  std::uint64_t epoch = 0;
  Duration agents{0}, tasks{0};
};
Done await(const Shared& shared, const Framework& framework, std::uint64_t after) {
  Done done;
  const Duration end = real_time().mono + kPatience;
  while (done.agents == Duration(0) || done.tasks == Duration(0)) {
    if (real_time().mono > end)
      die(fmt::format("not done in {}: {} of {} agents are registered, {} of {} tasks heard of", format_duration(kPatience),
                      registered(shared, newest(shared)), g_agents, framework.heard.load(), g_agents * g_tasks));
    usleep(2'000);
    const std::uint64_t epoch = newest(shared);
    if (epoch != done.epoch) done = {epoch, Duration(0), Duration(0)};  // another leader on the way
    if (epoch <= after) continue;
    if (done.agents == Duration(0) && registered(shared, epoch) == g_agents) done.agents = real_time().wall;
    if (done.tasks == Duration(0) && framework.heard == g_agents * g_tasks) done.tasks = real_time().wall;
  }
  return done;
}

std::size_t number_from(const char* name, std::size_t otherwise) {
  const char* text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  return text == nullptr ? otherwise : static_cast<std::size_t>(std::atol(text));
}

}  // namespace

int main() {
  const char* bin = std::getenv("BOURSE_BIN");
  if (bin == nullptr) {
    fmt::print(stderr, "failover_bench: set BOURSE_BIN to the directory of the built programs\n");
    return 2;
  }
  g_bin = bin;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  g_agents = std::clamp<std::size_t>(number_from("BOURSE_BENCH_AGENTS", g_agents), 1, kAgentsMost);
  g_tasks = std::clamp<std::size_t>(number_from("BOURSE_BENCH_TASKS", g_tasks), 1, 16);
  const std::size_t rounds = number_from("BOURSE_BENCH_ROUNDS", 3);
  std::string pattern = "/tmp/bourse-bench.XXXXXX";
  if (mkdtemp(pattern.data()) == nullptr) return 1;
  g_dir = pattern;
  setenv("BOURSE_DIR", (g_dir + "/cluster").c_str(), 1);

  auto* shared = static_cast<Shared*>(mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  if (shared == MAP_FAILED) return 1;
  new (shared) Shared();
  const std::string keys_directory = g_dir + "/cluster/keys";
  std::filesystem::create_directories(keys_directory);
  std::vector<KeyPair> keys;
  for (std::size_t i = 0; i < g_agents; ++i) {
    keys.push_back(make_key_pair());
    if (!write_file(keys_directory + "/" + key_file_name("agent:" + agent_name(i)) + ".pub",
                    "public = \"" + keys.back().public_key + "\"\n", 0644))
      die("keys cannot be written");
  }
  if (!write_key_files(keys_directory + "/" + key_file_name("framework:load"), make_key_pair())) die("keys cannot be written");

  std::vector<pid_t> workers;
  for (int i = 0; i < kWorkers; ++i) {
    const pid_t pid = fork();
    if (pid == 0) worker(*shared, i, keys);
    workers.push_back(pid);
  }
  const auto end_workers = [&workers] {
    for (const pid_t pid : workers) kill(pid, SIGKILL);
    for (const pid_t pid : workers) waitpid(pid, nullptr, 0);
  };
  while (shared->prepared < kWorkers) {
    for (const pid_t pid : workers)
      if (waitpid(pid, nullptr, WNOHANG) == pid) die("a process with simulated agents ended");
    usleep(10'000);
  }
  if (std::system(fmt::format("{}/bourse up --masters 3 --agents 1 >{}/up.log 2>&1", g_bin, g_dir).c_str()) != 0) {
    end_workers();
    die("the cluster does not come up: " + output_of("tail -5 " + g_dir + "/up.log"));
  }

  fmt::print("{} simulated agents in {} processes, {} tasks, CURVE; three masters on this machine\n", g_agents, kWorkers,
             g_agents * g_tasks);
  const Duration began = real_time().wall;
  shared->go = true;
  Framework framework;
  Done last = await(*shared, framework, 0);
  fmt::print("{:<56} {:>8.0f} ms, all tasks known {:>8.0f} ms\n", "first registration of all", ms(last.agents - began),
             ms(last.tasks - began));
  const long kib = resident_kib(leader_pid());
  fmt::print("{:<56} {:>8.0f} KiB ({} KiB)\n", "memory of the leader, by agent with its tasks",
             static_cast<double>(kib) / static_cast<double>(g_agents), kib);
  bool met = true;
  for (std::size_t round = 1; round <= rounds; ++round) {
    framework.forget();
    const pid_t pid = leader_pid();
    if (pid <= 0) {
      end_workers();
      die("no leader to kill");
    }
    const Duration killed = real_time().wall;
    kill(pid, SIGKILL);
    const Done now = await(*shared, framework, last.epoch);
    const Duration led = led_at(now.epoch);
    last = now;
    const Duration all = std::max(now.agents, now.tasks) - led;
    met = met && all < seconds(5);
    fmt::print(
        "failover {}: kill to election {:>6.0f} ms; from the election: all agents registered {:>6.0f} ms, all tasks known {:>6.0f} "
        "ms "
        "(goal 5000 ms: {})\n",
        round, ms(led - killed), ms(now.agents - led), ms(now.tasks - led), all < seconds(5) ? "met" : "NOT met");
    for (int i = 0;
         i < 1000 && output_of(fmt::format("{}/bourse status --json 2>/dev/null", g_bin)).find("unreachable") != std::string::npos;
         ++i)
      usleep(20'000);  // until the one that was killed is back: a majority is needed for the next
  }
  fmt::print("statuses other than running: {} (0 is right)\n", framework.lost.load());
  bourse_client_stop(framework.client);
  bourse_client_wake(framework.client);
  end_workers();
  framework.thread.join();
  if (std::system(fmt::format("{}/bourse down >/dev/null 2>&1", g_bin).c_str()) != 0) fmt::print("bourse down failed\n");
  std::filesystem::remove_all(g_dir);
  return framework.lost == 0 ? 0 : 1;
}
