// Starts per second through the launcher, against this host's own rate of fork and exec, in alternating rounds of one run.
//
// Prints one JSON object a line: ratio into one existing slice (target 0.8), with a slice made and removed for each task
// (target 0.6), the launcher's and keeper's memory a live task with 1,000 tasks asleep, and the time of a task that does nothing by kind
// of isolation. Needs root; B names the build.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "agent/launcher/channel.h"

using namespace bourse;
using namespace bourse::launcher;
namespace fs = std::filesystem;

namespace {

double now() {
  struct timespec t {};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
}

pid_t g_keeper = 0;

[[noreturn]] void die(const std::string& why) {
  std::fprintf(stderr, "launcher_bench: %s\n", why.c_str());
  if (g_keeper > 0) kill(g_keeper, SIGTERM), waitpid(g_keeper, nullptr, 0);
  std::exit(1);
}

Packet next(Channel& channel) {
  for (;;) {
    auto packet = channel.receive();
    if (packet) return *std::move(packet);
    if (packet.error().code() != Code::kBusy) die(packet.error().text());
    pollfd p{channel.fd(), POLLIN, 0};
    if (poll(&p, 1, 30'000) <= 0) die("the launcher does not answer");
  }
}

template <class P>
P expect(Channel& channel) {
  for (;;) {
    Packet packet = next(channel);
    if (auto* failed = std::get_if<StartFailed>(&packet)) die(failed->reason);
    if (auto* prepared = std::get_if<Prepared>(&packet); prepared && !prepared->error.empty()) die(prepared->error);
    if (auto* p = std::get_if<P>(&packet)) return *p;
  }
}

void must(const Result<>& result) {
  if (!result) die(result.error().text());
}

TaskSpec spec(std::vector<std::string> argv) {
  TaskSpec s;
  s.argv = std::move(argv);
  s.uid = 65534;
  s.gid = 65534;
  s.directory = "/";
  return s;
}

SliceLimits limits() {
  SliceLimits l;
  l.cpus = MilliCpus{1000};
  l.mem = Bytes{256LL * 1024 * 1024};
  l.cpuset = {0};
  l.pids = 4096;
  return l;
}

std::uint64_t g_number = 0;
TaskKey new_task() { return {FrameworkId("bench"), TaskId(std::to_string(++g_number))}; }
SliceId new_slice() { return {FrameworkId("bench"), ++g_number}; }

SliceLimits whole() {  // as much as the baseline has: all cores
  SliceLimits l = limits();
  const auto cores = static_cast<std::uint32_t>(sysconf(_SC_NPROCESSORS_ONLN));
  l.cpus = MilliCpus{1000LL * cores};
  l.cpuset.clear();
  for (std::uint32_t i = 0; i < cores; ++i) l.cpuset.push_back(i);
  return l;
}

double into_one_slice(Channel& channel, int n, int in_flight) {
  const SliceId slice = new_slice();
  must(channel.send(Prepare{slice, whole()}));
  expect<Prepared>(channel);
  const double begin = now();
  int started = 0, ended = 0;
  while (ended < n) {
    while (started < n && started - ended < in_flight) {
      must(channel.send(Start{new_task(), slice, spec({"/bin/true"})}));
      started++;
    }
    const Ended end = expect<Ended>(channel);
    if (end.wait_status != 0) die("/bin/true failed");
    must(channel.send(Forget{end.task}));
    ended++;
  }
  const double rate = n / (now() - begin);
  must(channel.send(Release{slice}));
  expect<Released>(channel);
  return rate;
}

double slice_a_task(Channel& channel, int n, int in_flight) {
  struct Pair {
    SliceId slice;
    TaskKey task;
  };
  std::vector<Pair> live;
  const double begin = now();
  int started = 0, released = 0;
  while (released < n) {
    while (started < n && started - released < in_flight) {
      live.push_back({new_slice(), new_task()});
      must(channel.send(Prepare{live.back().slice, whole()}));
      must(channel.send(Start{live.back().task, live.back().slice, spec({"/bin/true"})}));
      started++;
    }
    const Packet packet = next(channel);
    if (const auto* failed = std::get_if<StartFailed>(&packet)) die(failed->reason);
    if (const auto* end = std::get_if<Ended>(&packet)) {
      const auto it = std::find_if(live.begin(), live.end(), [&](const Pair& p) { return p.task == end->task; });
      must(channel.send(Forget{it->task}));
      must(channel.send(Release{it->slice}));
      live.erase(it);
    }
    if (std::holds_alternative<Released>(packet)) released++;
  }
  return n / (now() - begin);
}

// CPU time of a process and of the children that it has reaped, in ms.
double cpu_ms(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string text((std::istreambuf_iterator<char>(in)), {});
  long u = 0, s = 0, cu = 0, cs = 0;
  const auto at = text.rfind(')');
  if (at == std::string::npos ||
      std::sscanf(text.c_str() + at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %ld %ld %ld %ld", &u, &s, &cu, &cs) != 4) {
    return 0;
  }
  return static_cast<double>(u + s + cu + cs) * 1e3 / static_cast<double>(sysconf(_SC_CLK_TCK));
}

struct Baseline {
  double rate = 0, cpu = 0;
};

Baseline forkrate(const std::string& tool, int n) {
  FILE* pipe = popen((tool + " " + std::to_string(n)).c_str(), "r");
  char line[256] = {};
  if (!pipe || !std::fgets(line, sizeof line, pipe)) die("cannot run " + tool);
  pclose(pipe);
  const char* at = std::strstr(line, "\"rate\":");
  const char* cpu = std::strstr(line, "\"cpu_ms\":");
  return {at ? std::atof(at + 7) : 0, cpu ? std::atof(cpu + 9) : 0};
}

long kib_of(pid_t pid, const char* field) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/smaps_rollup");
  std::string line;
  while (std::getline(in, line)) {
    if (line.rfind(field, 0) == 0) return std::atol(line.c_str() + std::strlen(field));
  }
  return 0;
}

pid_t child_of(pid_t parent) {
  std::ifstream in("/proc/" + std::to_string(parent) + "/task/" + std::to_string(parent) + "/children");
  pid_t pid = 0;
  in >> pid;
  return pid;
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

// A container that waits for a task, as the agent keeps them; "" where it does not come. Its holder ends with the task.
std::string parked(const std::string& build, const std::string& dir, const std::string& image, const TaskSpec& task) {
  static int number = 0;
  const std::string scratch = dir + "/warm" + std::to_string(++number), socket = scratch + "/socket";
  fs::create_directory(scratch);
  int in[2], out[2];
  if (pipe(in) != 0 || pipe(out) != 0) return "";
  const std::string uid = std::to_string(task.uid), gid = std::to_string(task.gid), images = dir + "/images";
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(in[0], 0), dup2(out[1], 1);
    for (const int fd : {in[0], in[1], out[0], out[1]}) close(fd);
    execl((build + "/bin/bourse-container").c_str(), "bourse-container", "--scratch", scratch.c_str(), "--images", images.c_str(),
          "--image", image.c_str(), "--uid", uid.c_str(), "--gid", gid.c_str(), "--park", socket.c_str(), nullptr);
    _exit(127);
  }
  close(in[0]), close(out[1]);
  char byte = 0;
  bool ready = false;
  while (!ready && read(out[0], &byte, 1) == 1) ready = byte == '\n';
  close(out[0]);
  fcntl(in[1], F_SETFD, FD_CLOEXEC);  // stays open: its end would be that of the container
  return ready ? socket : "";
}

// One after the other, from the start to the end of a program that does nothing: what each kind of isolation costs a task.
void confined(Channel& channel, const std::string& build, const std::string& dir, int n) {
  const std::string image = dir + "/image";
  fs::create_directories(image + "/bin");
  std::error_code error;
  fs::copy_file("/bin/busybox", image + "/bin/true", error);
  fs::permissions(dir, fs::perms(0755));
  Confine none, tmp, memory, pid, net, seccomp;
  tmp.tmp = Confine::Tmp::kDisk, memory.tmp = Confine::Tmp::kMemory, pid.pid = true, net.net = true, seccomp.seccomp = true;
  struct Kind {
    const char* name;
    Confine confine;
    bool container = false, warm = false;
  };
  const SliceId slice = new_slice();
  must(channel.send(Prepare{slice, whole()}));
  expect<Prepared>(channel);
  double process = 0;
  for (const Kind& kind :
       {Kind{"process", none}, Kind{"private_tmp_disk", tmp}, Kind{"private_tmp_memory", memory}, Kind{"pid", pid},
        Kind{"net", net}, Kind{"seccomp", seccomp}, Kind{"container", none, true}, Kind{"container_warm", none, true, true}}) {
    if (kind.container && error) continue;
    std::vector<double> ms;
    const int times = std::min(n, 100);
    for (int i = 0; i < times; ++i) {
      TaskSpec task = spec({"/bin/true"});
      if (kind.container) task.kind = TaskKind::kContainer, task.image = image;
      std::string waits;
      if (kind.warm && (waits = parked(build, dir, image, task)).empty()) die("no warm container");
      const double begin = now();
      must(channel.send(Start{new_task(), slice, task, kind.confine, {}, {}, waits}));
      const Ended end = expect<Ended>(channel);
      if (end.wait_status != 0) die(std::string(kind.name) + ": /bin/true failed");
      ms.push_back((now() - begin) * 1e3);
      must(channel.send(Forget{end.task}));
    }
    std::sort(ms.begin(), ms.end());
    const double middle = ms[ms.size() / 2];
    if (process == 0) process = middle;
    std::printf("{\"bench\":\"launcher.confined\",\"kind\":\"%s\",\"p50_ms\":%.2f,\"p99_ms\":%.2f,\"of_a_process\":%.2f}\n",
                kind.name, middle, ms[(ms.size() - 1) * 99 / 100], middle / process);
  }
  must(channel.send(Release{slice}));
  expect<Released>(channel);
}

}  // namespace

int main() {
  const std::string build = std::getenv("B") ? std::getenv("B") : "build/release";
  const int n = std::getenv("BENCH_N") ? std::atoi(std::getenv("BENCH_N")) : 300;
  const int rounds = 5, in_flight = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)) + 1;
  char dir[] = "/tmp/bourse-bench-XXXXXX";
  if (geteuid() != 0 || !mkdtemp(dir)) die("needs root and a temporary directory");
  const std::string root = std::string("bourse-bench-") + (dir + sizeof dir - 7);
  const pid_t keeper = fork();
  if (keeper == 0) {
    execl((build + "/bin/bourse-launcher").c_str(), "bourse-launcher", "--keeper", "--state", dir, "--cgroup-root", root.c_str(),
          std::getenv("BENCH_NO_ISOLATION") ? "--no-isolation" : nullptr, nullptr);
    _exit(127);
  }
  g_keeper = keeper;
  Result<int> fd = Error(Code::kBusy, "");
  for (int i = 0; i < 500 && !fd; ++i) {
    fd = connect_launcher(dir);
    if (!fd) usleep(10'000);
  }
  if (!fd) die(fd.error().text());
  Channel channel(*fd);
  must(channel.send(Hello{}));
  const State state = expect<State>(channel);

  // Rates are wall time, and mean little on a machine that does other things; CPU time a task is the steadier figure.
  const pid_t launcher = child_of(keeper);
  std::vector<double> baseline, one, each, baseline_cpu, one_cpu, each_cpu;
  const auto measure = [&](auto run, std::vector<double>& rate, std::vector<double>& cpu) {
    const Baseline base = forkrate(build + "/tests/tools/forkrate", n);
    baseline.push_back(base.rate);
    baseline_cpu.push_back(base.cpu);
    const double before = cpu_ms(launcher);
    rate.push_back(run(channel, n, in_flight));
    cpu.push_back((cpu_ms(launcher) - before) / n);
  };
  for (int i = 0; i < rounds; ++i) {
    measure(into_one_slice, one, one_cpu);
    measure(slice_a_task, each, each_cpu);
  }
  const double base = median(baseline), base_cpu = median(baseline_cpu);
  const auto print = [&](const char* what, double rate, double cpu, double target) {
    std::printf(
        "{\"bench\":\"%s\",\"isolation\":\"%s\",\"rate\":%.1f,\"baseline\":%.1f,\"ratio\":%.3f,\"target\":%.1f,"
        "\"cpu_ms\":%.2f,\"baseline_cpu_ms\":%.2f,\"cpu_ratio\":%.3f}\n",
        what, state.isolation.c_str(), rate, base, rate / base, target, cpu, base_cpu, base_cpu / cpu);
  };
  print("launcher.start", median(one), median(one_cpu), 0.8);
  print("launcher.start_with_slice", median(each), median(each_cpu), 0.6);

  const long empty = kib_of(launcher, "Pss:") + kib_of(keeper, "Pss:");
  const SliceId slice = new_slice();
  SliceLimits roomy = whole();
  roomy.mem = Bytes{0};
  must(channel.send(Prepare{slice, roomy}));
  expect<Prepared>(channel);
  const int live = std::min(4 * n, 1000);
  for (int i = 0; i < live; ++i) {
    must(channel.send(Start{new_task(), slice, spec({"/bin/sleep", "1000"})}));
    expect<StartedTask>(channel);
  }
  const long full = kib_of(launcher, "Pss:") + kib_of(keeper, "Pss:");
  std::printf(
      "{\"bench\":\"launcher.memory\",\"tasks\":%d,\"pss_kib_empty\":%ld,\"pss_kib\":%ld,\"rss_kib_launcher\":%ld,"
      "\"rss_kib_keeper\":%ld,\"bytes_a_task\":%ld}\n",
      live, empty, full, kib_of(launcher, "Rss:"), kib_of(keeper, "Rss:"), (full - empty) * 1024 / live);
  if (std::getenv("BENCH_NO_KINDS") == nullptr) confined(channel, build, dir, n);
  while (waitpid(-1, nullptr, WNOHANG) > 0) {}
  kill(keeper, SIGTERM);
  int status = 0;
  waitpid(keeper, &status, 0);
  fs::remove_all(dir);
  return status == 0 ? 0 : 1;
}
