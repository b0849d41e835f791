// An agent with 5,000 tasks asleep: what each costs in memory, how soon a new agent knows them all again, what probes and an idle agent
// cost. Real processes, a cluster of its own; one line a figure. How fast warm instances are had: launcher_bench, microvm_bench.
#include <bourse/framework.h>
#include <dirent.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "tests/bench/cpu_use.h"

namespace {

using Clock = std::chrono::steady_clock;
constexpr int kTasks = 5000;
constexpr std::int64_t kMib = 1024 * 1024;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }
std::string g_bin, g_dir;
bool shell(const std::string& command) { return std::system(command.c_str()) == 0; }
std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

// Processes of this cluster: "agent", "launcher", "keeper".
std::vector<int> pids(const std::string& what) {
  std::vector<int> out;
  DIR* dir = opendir("/proc");
  while (const dirent* entry = dir == nullptr ? nullptr : readdir(dir)) {
    if (entry->d_name[0] < '0' || entry->d_name[0] > '9') continue;
    std::string line = text_of(std::string("/proc/") + entry->d_name + "/cmdline");
    if (line.find(g_dir) == std::string::npos) continue;
    std::replace(line.begin(), line.end(), '\0', ' ');
    const std::string first = line.substr(0, line.find(' '));
    const bool launcher = first.ends_with("bourse-launcher"), keeper = line.find(" --keeper ") != std::string::npos;
    if ((what == "agent" && first.ends_with("bourse-agent")) || (what == "launcher" && launcher && !keeper) ||
        (what == "keeper" && launcher && keeper))
      out.push_back(std::atoi(entry->d_name));
  }
  if (dir != nullptr) closedir(dir);
  return out;
}

// Memory of its own, in KiB: what would be free without it.
std::int64_t own_memory(const std::string& what) {
  std::int64_t sum = 0;
  for (const int pid : pids(what)) {
    const std::string text = text_of("/proc/" + std::to_string(pid) + "/smaps_rollup");
    for (const char* key : {"Private_Clean:", "Private_Dirty:"})
      if (const auto at = text.find(key); at != std::string::npos) sum += std::atoll(text.c_str() + at + 14);
  }
  return sum;
}

struct Framework {
  bourse_client* client = nullptr;
  bourse_shape* shape = nullptr;
  std::uint64_t slice = 0;
  std::string agent;
  std::set<std::string> running, reported;
  int ended = 0;
  bool up = false, gone = false;

  void publish(std::uint32_t count) const {
    bourse_demand* demand = nullptr;
    if (bourse_demand_new(&demand) != 0) return;
    if (count > 0) bourse_demand_add(demand, 1, shape, count, 0, 0);
    bourse_client_demand(client, demand);
    bourse_demand_free(demand);
  }
  void start(int number) const {
    bourse_task_spec* spec = nullptr;
    if (bourse_task_spec_new(&spec) != 0) return;
    for (const char* word : {"/bin/sleep", "1000"}) bourse_task_spec_arg(spec, word);
    bourse_task_spec_user(spec, "root", 0, 0);
    bourse_task_spec_directory(spec, "/");
    if (bourse_client_launch(client, agent.c_str(), slice, ("sleep." + std::to_string(number)).c_str(), spec) != 0)
      fmt::print("launch: {}\n", bourse_client_error(client));
    bourse_task_spec_free(spec);
  }
  bool turn_until(double limit, const std::function<bool()>& done) const {
    const auto begun = Clock::now();
    pollfd p{bourse_client_fd(client), POLLIN, 0};
    while (!done()) {
      if (seconds_since(begun) > limit) return false;
      poll(&p, 1, 100);
      bourse_client_dispatch(client, 0);
    }
    return true;
  }
};

bourse_callbacks callbacks(Framework& f) {
  bourse_callbacks c{};
  c.size = sizeof c;
  c.user = &f;
  c.offer = [](void* u, bourse_client* client, const bourse_offer* offer) {
    auto& fw = *static_cast<Framework*>(u);
    std::uint64_t id = bourse_offer_id(offer);
    bourse_accept* accept = nullptr;
    if (fw.slice != 0 || bourse_client_slice_number(client, &fw.slice) != 0 || bourse_accept_new(&accept) != 0) {
      bourse_client_decline(client, &id, 1, BOURSE_DECLINE_NO_WORK, nullptr, 0);
      return;
    }
    bourse_accept_offer(accept, id, bourse_offer_generation(offer), 0);
    bourse_accept_slice(accept, fw.slice, fw.shape, 0, 1);
    bourse_client_accept(client, accept, nullptr);
    bourse_accept_free(accept);
  };
  c.slice = [](void* u, bourse_client*, const bourse_slice_event* e) {
    auto& fw = *static_cast<Framework*>(u);
    fw.agent = e->agent, fw.up = true;
  };
  c.slice_lost = [](void* u, bourse_client*, const bourse_slice_lost_event*) { static_cast<Framework*>(u)->gone = true; };
  c.task = [](void* u, bourse_client*, const bourse_task_event* e) {
    auto& fw = *static_cast<Framework*>(u);
    if (e->state == BOURSE_TASK_RUNNING) fw.running.insert(e->task), fw.reported.insert(e->task);
    if (e->state >= BOURSE_TASK_EXITED) fw.running.erase(e->task), ++fw.ended;
  };
  return c;
}

void live_tasks() {
  Framework f;
  char error[512] = "";
  bourse_client_options options{};
  options.size = sizeof options, options.framework = "bench", options.automatic_acks = 1, options.error = error,
  options.error_size = sizeof error;
  const std::string config = g_dir + "/cluster/bourse.conf";
  options.config = config.c_str();
  const bourse_callbacks calls = callbacks(f);
  if (bourse_client_open(&options, &calls, &f.client) != 0) return fmt::print("client: {}\n", error);
  bourse_shape_new(&f.shape);
  bourse_shape_cpus(f.shape, 500);
  bourse_shape_memory(f.shape, 8192 * kMib);
  f.publish(1);
  if (!f.turn_until(30, [&] { return f.up; })) return fmt::print("no slice in 30 s\n");
  f.publish(0);
  const std::array<std::int64_t, 3> before = {own_memory("agent"), own_memory("launcher"), own_memory("keeper")};
  const auto begun = Clock::now();
  for (int i = 0; i < kTasks; ++i) f.start(i);
  if (!f.turn_until(120, [&] { return f.running.size() == kTasks; })) return fmt::print("only {} run\n", f.running.size());
  fmt::print("{} tasks asleep at one time, started in {:.1f} s ({:.0f} a second)\n", kTasks, seconds_since(begun),
             kTasks / seconds_since(begun));
  const char* names[] = {"agent", "launcher", "keeper"};
  for (int i = 0; i < 3; ++i)
    fmt::print("memory of the {:<8} with no task {:>29} KiB\n", names[i], before[static_cast<std::size_t>(i)]);
  for (int i = 0; i < 3; ++i)
    fmt::print("memory of the {:<8} for each of them {:>24.0f} bytes\n", names[i],
               static_cast<double>(own_memory(names[i]) - before[static_cast<std::size_t>(i)]) * 1024 / kTasks);
  // Idle with all of them: nothing happens but heartbeats.
  sleep(2);
  const auto cpu = bourse::bench::cpu_use(g_dir);
  const auto idle = Clock::now();
  sleep(15);
  const auto later = bourse::bench::cpu_use(g_dir);
  const double ns = seconds_since(idle) * 1e9;
  for (const char* name : {"agent", "launcher"})
    fmt::print("idle CPU of the {:<8} with {} tasks {:>15.3f} % of a core (goal 0.100: {})\n", name, kTasks,
               100 * static_cast<double>(later.at(name) - cpu.at(name)) / ns,
               100 * static_cast<double>(later.at(name) - cpu.at(name)) / ns < 0.1 ? "met" : "NOT met");
  // A new agent: until it has been welcomed, and until each task has been told of again on request.
  const std::vector<int> old = pids("agent");
  f.reported.clear();
  const auto killed = Clock::now();
  for (const int pid : old) kill(pid, SIGKILL);
  while (pids("agent").empty() || pids("agent") == old) usleep(5000);
  const double another = seconds_since(killed);
  std::vector<std::string> names_of;
  std::vector<const char*> words;
  for (int i = 0; i < kTasks; ++i) names_of.push_back("sleep." + std::to_string(i));
  for (const std::string& name : names_of) words.push_back(name.c_str());
  auto asked = Clock::now() - std::chrono::seconds(10);
  const bool all = f.turn_until(60, [&] {
    if (seconds_since(asked) > 0.5)
      bourse_client_reconcile(f.client, f.agent.c_str(), words.data(), words.size()), asked = Clock::now();
    return f.reported.size() == kTasks;
  });
  fmt::print("agent killed with {} tasks: another process after {:.2f} s, every task told of again after {:.2f} s{}\n", kTasks,
             another, seconds_since(killed), all ? "" : fmt::format(" (only {} of them)", f.reported.size()));
  const auto end = Clock::now();
  bourse_client_release(f.client, f.slice, 0);
  f.turn_until(120, [&] { return f.gone; });
  fmt::print("all {} ended and the slice given back in {:.1f} s\n", kTasks, seconds_since(end));
  bourse_client_goodbye(f.client, 1);
  bourse_client_dispatch(f.client, 0);
  bourse_client_free(f.client);
  bourse_shape_free(f.shape);
}

}  // namespace

int main() {
  const char* build = std::getenv("B");
  char cwd[4096];
  if (getcwd(cwd, sizeof cwd) == nullptr) return 1;
  g_bin = std::string(cwd) + "/" + (build == nullptr ? "build/release" : build) + "/bin";
  char name[] = "/tmp/bourse-agent-bench-XXXXXX";
  g_dir = mkdtemp(name);
  chmod(g_dir.c_str(), 0755);
  setenv("BOURSE_DIR", (g_dir + "/cluster").c_str(), 1);
  if (!shell(g_bin + "/bourse up --set agent.reprobe=0 --set agent.max_pids=20000 >" + g_dir + "/up.log 2>&1")) {
    fmt::print("the cluster does not come up: {}\n", text_of(g_dir + "/up.log"));
    return 1;
  }
  if (shell(g_bin + "/bourse key new framework:bench >/dev/null")) live_tasks();
  (void)shell(g_bin + "/bourse down >/dev/null 2>&1");
  (void)shell("rm -rf " + g_dir);
  return 0;
}
