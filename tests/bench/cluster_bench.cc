// End to end on real processes: short jobs a second, submits a second, submit to first line, each as a ratio to a limit of this
// machine that is measured in the same run (forking /bin/true; fdatasync), alternating where that is cheap.
//
// Needs the built programs in $BOURSE_BIN. Makes its own clusters in a temporary directory and ends them.
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "frameworks/batch/records.h"
#include "frameworks/batch/store.h"
#include "frameworks/cli/batch_client.h"
#include "tests/bench/cpu_use.h"

namespace {

using namespace bourse;  // NOLINT: a program, not a header
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::string output_of(const std::string& command) {
  std::string out;
  FILE* pipe = popen(command.c_str(), "r");
  std::array<char, 4096> chunk{};
  while (pipe != nullptr && std::fgets(chunk.data(), chunk.size(), pipe) != nullptr) out += chunk.data();
  if (pipe != nullptr) pclose(pipe);
  return out;
}

std::string g_bin, g_tools, g_dir;

bool shell(const std::string& command) { return std::system(command.c_str()) == 0; }

// Processes a second that this host can fork, exec and reap at all, as many in flight as there are cores.
double fork_rate(int count) {
  const std::string line = output_of(fmt::format("{}/forkrate {} /bin/true", g_tools, count));
  const std::size_t at = line.find("\"rate\"");
  return at == std::string::npos ? 0 : std::atof(line.c_str() + line.find(':', at) + 1);
}

// Microseconds of CPU that one of those costs.
double fork_cost() {
  const std::string line = output_of(fmt::format("{}/forkrate 500 /bin/true", g_tools));
  const std::size_t at = line.find("\"cpu_ms\"");
  return at == std::string::npos ? 0 : 1000 * std::atof(line.c_str() + line.find(':', at) + 1);
}

// Flushes a second of a small append, on the disk where the queue is kept.
double flush_rate() {
  const std::string path = g_dir + "/flush.probe";
  const int fd = open(path.c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
  const std::string block(512, 'x');
  int done = 0;
  const auto start = Clock::now();
  while (seconds_since(start) < 1.0) {
    if (write(fd, block.data(), block.size()) < 0 || fdatasync(fd) != 0) break;
    ++done;
  }
  close(fd);
  unlink(path.c_str());
  return done / seconds_since(start);
}

batch::JobSpec spec_of(std::vector<std::string> argv) {
  batch::JobSpec spec;
  spec.name = "bench";
  spec.args = std::move(argv);
  spec.env = {"PATH=/usr/bin:/bin"};
  spec.directory = "/tmp";
  spec.submit_dir = "/tmp";
  spec.stdout_path = "/dev/null";
  spec.uid = getuid(), spec.gid = getgid();
  spec.user = "root";
  spec.cpus_per_task = 1;
  spec.mem_per_node = 64LL << 20;
  return spec;
}

struct ClusterUp {
  explicit ClusterUp(const std::string& settings) {
    setenv("BOURSE_DIR", (g_dir + "/cluster").c_str(), 1);
    if (!shell(fmt::format("{}/bourse up {} >{}/up.log 2>&1", g_bin, settings, g_dir))) {
      fmt::print("the cluster does not come up: {}\n", output_of("tail -5 " + g_dir + "/up.log"));
      std::exit(1);
    }
  }
  ~ClusterUp() {
    if (!shell(fmt::format("{}/bourse down >/dev/null 2>&1", g_bin))) fmt::print("bourse down failed\n");
  }
};

std::unique_ptr<cli::BatchClient> client() {
  auto opened = cli::BatchClient::open("");
  if (!opened) {
    fmt::print("{}\n", opened.error().text());
    std::exit(1);
  }
  return std::move(*opened);
}

std::uint64_t ended(cli::BatchClient& c) {
  auto summary = cli::call<batch::SummaryReply>(c, batch::SummaryRequest{});
  return summary ? summary->ended_total : 0;
}

// Jobs a second from the submission of one array until all have ended.
double burst(cli::BatchClient& c, std::uint32_t jobs) {
  batch::JobSpec spec = spec_of({"/bin/true"});
  spec.array = fmt::format("1-{}", jobs);
  const std::uint64_t before = ended(c);
  const auto start = Clock::now();
  auto reply = cli::call<batch::SubmitReply>(c, batch::SubmitRequest{{{"", spec}}, false});
  if (!reply || reply->items.empty() || reply->items[0].code != Code::kOk) {
    fmt::print("submit failed: {}\n", reply ? reply->items[0].reason : reply.error().text());
    return 0;
  }
  while (ended(c) < before + jobs && seconds_since(start) < 120) usleep(20'000);
  return jobs / seconds_since(start);
}

std::string_view verdict(bool met) { return met ? "met" : "NOT met"; }

void report(std::string_view what, double ours, std::string_view unit, double limit, std::string_view limit_name, double goal) {
  const double ratio = limit > 0 ? ours / limit : 0;
  fmt::print("{:<52} {:>9.1f} {:<9} {:>9.1f} {:<22} ratio {:.2f} (goal {:.2f}: {})\n", what, ours, unit, limit, limit_name, ratio,
             goal, verdict(ratio >= goal));
}

double median(std::vector<double> v) {
  std::ranges::sort(v);
  return v.empty() ? 0 : v[v.size() / 2];
}

std::string cluster_dir() { return g_dir + "/cluster"; }

// What the cluster's programs used of the CPU for each job between two looks, in microseconds.
std::string cpu_of_a_job(const std::map<std::string, std::int64_t>& before, const std::map<std::string, std::int64_t>& after,
                         double jobs) {
  std::string text;
  double ours = 0;
  for (const auto& [name, ns] : after) {
    const auto was = before.find(name);
    const double us = static_cast<double>(ns - (was == before.end() ? 0 : was->second)) / 1000 / jobs;
    if (name != "tasks") ours += us;
    text += fmt::format("{}{} {:.0f}", text.empty() ? "" : ", ", name, us);
  }
  return fmt::format("{}; ours {:.0f} us", text, ours);
}

void short_jobs(std::string_view what, const std::string& settings, double goal) {
  ClusterUp cluster(settings);
  auto c = client();
  burst(*c, 100);  // warm
  std::vector<double> ratios, ours, limits;
  const auto before = bench::cpu_use(cluster_dir());
  for (int round = 0; round < 3; ++round) {
    limits.push_back(fork_rate(800));
    ours.push_back(burst(*c, 800));
    ratios.push_back(ours.back() / limits.back());
  }
  const auto after = bench::cpu_use(cluster_dir());
  fmt::print("{:<52} {:>9.1f} {:<9} {:>9.1f} {:<22} ratio {:.2f} (goal {:.2f}: {})\n", what, median(ours), "jobs/s", median(limits),
             "forks/s of this host", median(ratios), goal, verdict(median(ratios) >= goal));
  fmt::print("  CPU of a job, us: {}; a fork and exec alone {:.0f}\n", cpu_of_a_job(before, after, 2400), fork_cost());
}

// Ended jobs of the past, written through the store's own interface while no framework runs.
bool fill_history(std::uint64_t first, std::uint64_t last) {
  std::vector<std::string> records, ignored;
  auto store = batch::Store::open(cluster_dir() + "/state/batch/queue.db", ignored);
  if (!store) {
    fmt::print("{}\n", store.error().text());
    return false;
  }
  for (std::uint64_t id = first; id <= last; ++id) {
    batch::JobInfo info;
    info.id = batch::JobId(id), info.name = "past", info.user = "root", info.state = batch::JobState::kCompleted, info.full = true;
    info.started = seconds(1'700'000'000 + static_cast<std::int64_t>(id)), info.ended = info.started + seconds(1);
    records.push_back(encode(batch::Record(batch::EndRecord{info.id, 0, 0, info.state, true, id, encode_info(info)})));
    if (records.size() < 10'000 && id != last) continue;
    if (auto kept = (*store)->append_now(records); !kept) {
      fmt::print("{}\n", kept.error().text());
      return false;
    }
    records.clear();
  }
  return true;
}

// The same burst with more and more history behind it.
void history() {
  { ClusterUp once("--set batch.history_keep=36500d"); }  // makes the directory
  std::uint64_t filled = 0, base = 0;
  double first = 0;
  for (const std::uint64_t size : {1'000ULL, 100'000ULL, 1'000'000ULL}) {
    base += 10'000'000;  // above the numbers of all jobs so far
    if (!fill_history(base, base + (size - filled) - 1)) return;
    filled = size;
    ClusterUp cluster("");
    auto c = client();
    burst(*c, 200);  // warm
    std::vector<double> ratios;
    const auto before = bench::cpu_use(cluster_dir());
    for (int round = 0; round < 3; ++round) {
      const double limit = fork_rate(400);
      ratios.push_back(burst(*c, 400) / limit);
    }
    const auto after = bench::cpu_use(cluster_dir());
    if (first == 0) first = median(ratios);
    fmt::print("short jobs with {:>9} jobs of history {:>16} ratio {:.2f} to forks/s; {:.2f} of the first (goal 0.90: {})\n", size,
               "", median(ratios), median(ratios) / first, verdict(median(ratios) / first >= 0.9));
    fmt::print("  CPU of a job, us: {}\n", cpu_of_a_job(before, after, 1200));
  }
}

// What the programs use while 100,000 jobs wait for an agent that is busy.
void idle() {
  ClusterUp cluster("");
  auto c = client();
  batch::JobSpec spec = spec_of({"/bin/sleep", "600"});
  spec.exclusive = true;
  (void)cli::call<batch::SubmitReply>(*c, batch::SubmitRequest{{{"", spec}}, false});
  constexpr int kJobs = 100'000, kAtOnce = 500;
  spec = spec_of({"/bin/true"});
  for (int i = 0; i < kJobs; i += kAtOnce) {
    batch::SubmitRequest request;
    for (int k = 0; k < kAtOnce; ++k) {
      spec.name = "idle" + std::to_string(k % 100);
      request.items.push_back({"", spec});
    }
    if (auto reply = cli::call<batch::SubmitReply>(*c, std::move(request)); !reply || reply->items.back().code != Code::kOk) {
      fmt::print("submit: {}\n", reply ? reply->items.back().reason : reply.error().text());
      return;
    }
  }
  sleep(5);
  const auto before = bench::cpu_use(cluster_dir());
  const auto start = Clock::now();
  sleep(20);
  const auto after = bench::cpu_use(cluster_dir());
  const double ns = seconds_since(start) * 1e9;
  for (const char* name : {"master", "batch", "agent"}) {
    const double percent = 100 * static_cast<double>(after.at(name) - before.at(name)) / ns;
    fmt::print("idle CPU of {:<7} with 100,000 pending jobs {:>17.3f} % of a core (goal 0.100: {})\n", name, percent,
               verdict(percent < 0.1));
  }
  batch::CancelRequest cancel;
  cancel.filter.users = {"root"};
  (void)cli::call<batch::ChangeReply>(*c, cancel, seconds(60));
}

double submit_rate(std::size_t connections, std::size_t depth, double for_seconds) {
  std::vector<std::unique_ptr<cli::BatchClient>> clients;
  for (std::size_t i = 0; i < connections; ++i) clients.push_back(client());
  batch::JobSpec spec = spec_of({"/bin/true"});
  spec.hold = true;
  std::uint64_t done = 0;
  const auto start = Clock::now();
  std::vector<std::size_t> open(connections, 0);
  while (seconds_since(start) < for_seconds) {
    for (std::size_t i = 0; i < connections; ++i) {
      for (; open[i] < depth; ++open[i]) clients[i]->send(batch::SubmitRequest{{{"", spec}}, false});
    }
    for (std::size_t i = 0; i < connections; ++i) {
      auto reply = clients[i]->next(seconds(10));
      if (!reply) return 0;
      --open[i];
      ++done;
    }
  }
  const double rate = static_cast<double>(done) / seconds_since(start);
  for (std::size_t i = 0; i < connections; ++i)
    for (; open[i] > 0; --open[i]) (void)clients[i]->next(seconds(10));
  batch::CancelRequest cancel;
  cancel.filter.names = {"bench"};
  auto gone = cli::call<batch::ChangeReply>(*clients[0], cancel, seconds(60));
  if (!gone) fmt::print("cancel: {}\n", gone.error().text());
  return rate;
}

// Times a second that `argv` can be started and waited for, one after another, without a shell between. 0: it fails.
double command_rate(std::vector<std::string> argv, double for_seconds) {
  std::vector<char*> words;
  for (std::string& word : argv) words.push_back(word.data());
  words.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) posix_spawn_file_actions_addopen(&files, fd, "/dev/null", O_WRONLY, 0);
  int done = 0, status = 0;
  const auto start = Clock::now();
  while (status == 0 && seconds_since(start) < for_seconds) {
    pid_t pid = 0;
    if (posix_spawn(&pid, words[0], &files, nullptr, words.data(), environ) != 0 || waitpid(pid, &status, 0) != pid) status = -1;
    ++done;
  }
  posix_spawn_file_actions_destroy(&files);
  return status == 0 ? done / seconds_since(start) : 0;
}

// Seconds from one thread's write to another's return from read, when that slept: what each hand-over costs on this host.
double wake_cost() {
  const int there = eventfd(0, EFD_CLOEXEC), back = eventfd(0, EFD_CLOEXEC);
  constexpr int kRounds = 1000;
  std::thread other([&] {
    std::uint64_t count = 0;
    for (int i = 0; i < kRounds && read(there, &count, sizeof count) > 0; ++i) (void)!write(back, &count, sizeof count);
  });
  const auto start = Clock::now();
  std::uint64_t one = 1;
  for (int i = 0; i < kRounds; ++i) (void)!write(there, &one, sizeof one), (void)!read(back, &one, sizeof one);
  const double taken = seconds_since(start) / (2.0 * kRounds);
  other.join();
  close(there), close(back);
  return taken;
}

void submits() {
  ClusterUp cluster("");
  // Turn by turn: what the disk does, and how long a thread that wakes has to wait for a core, changes from second to second.
  std::vector<double> flushes, singles, ratios, bounds, commands, asks, starts;
  for (int round = 0; round < 5; ++round) {
    flushes.push_back(flush_rate());
    singles.push_back(submit_rate(1, 1, 1));
    ratios.push_back(singles.back() / flushes.back());
    // Tool, framework, its writer, framework, tool: each waits for the one before.
    bounds.push_back(1 / (1 / flushes.back() + 4 * wake_cost()));
    commands.push_back(command_rate({g_bin + "/submit", "-H", "-Q", "-o", "/dev/null", "--exec", "/bin/true"}, 1));
    asks.push_back(command_rate({g_bin + "/submit", "--test-only", "-o", "/dev/null", "--exec", "/bin/true"}, 1));
    starts.push_back(command_rate({"/bin/true"}, 0.5));
  }
  fmt::print("{:<52} {:>9.1f} {:<9} {:>9.1f} {:<22} ratio {:.2f} (goal {:.2f}: {})\n", "submit, one at a time, durable",
             median(singles), "/s", median(flushes), "fdatasync/s", median(ratios), 0.8, verdict(median(ratios) >= 0.8));
  report("the same, of what a flush and four wake-ups leave", median(singles), "/s", median(bounds), "flushes and wake-ups/s", 0.8);
  report("submit, 64 deep on one connection", submit_rate(1, 64, 3), "/s", 440, "Slurm's API (there)", 5);
  report("submit, 8 connections, 64 deep", submit_rate(8, 64, 3), "/s", 840, "Slurm's API (there)", 8);
  report("submit as a command, one after another, durable", median(commands), "/s", 45, "sbatch (there)", 1);
  // A start and a flush must each be waited for: no command that does both can be faster than that.
  report("the same, of what /bin/true and fdatasync leave", median(commands), "/s", 1 / (1 / median(starts) + 1 / median(flushes)),
         "starts and flushes/s", 0.5);
  report("submit --test-only as a command: nothing is flushed", median(asks), "/s", median(starts), "/bin/true/s", 0.4);
}

void latency() {
  ClusterUp cluster("");
  auto c = client();
  const std::string fifo = g_dir + "/first.line";
  if (mkfifo(fifo.c_str(), 0600) != 0) return;
  const int fd = open(fifo.c_str(), O_RDWR | O_CLOEXEC);
  batch::JobSpec spec = spec_of({});
  spec.script = fmt::format("#!/bin/sh\necho line >{}\n", fifo);
  std::vector<double> taken;
  for (int i = 0; i < 60; ++i) {
    const auto start = Clock::now();
    auto reply = cli::call<batch::SubmitReply>(*c, batch::SubmitRequest{{{"", spec}}, false});
    if (!reply || reply->items.size() != 1 || reply->items[0].code != Code::kOk) {
      fmt::print("submit: {}\n", reply ? reply->items[0].reason : reply.error().text());
      break;
    }
    std::array<char, 16> line{};
    if (read(fd, line.data(), line.size()) <= 0) break;
    taken.push_back(seconds_since(start) * 1000);
    // Chained: the next is submitted as soon as this one has ended, as a workflow does.
    batch::QueueRequest queue;
    while (true) {
      auto left = cli::call<batch::QueueReply>(*c, queue);
      if (!left || left->rows.empty()) break;
      usleep(2000);
    }
  }
  close(fd);
  unlink(fifo.c_str());
  std::ranges::sort(taken);
  if (taken.empty()) return;
  fmt::print("{:<52} p50 {:.1f} ms, p99 {:.1f} ms; goal p50 {:.0f} ms: {} (1/40 of tuned Slurm's 920 ms; Flux 46-49 ms)\n",
             "submit to the job's first line, idle cluster", taken[taken.size() / 2], taken[taken.size() * 99 / 100], 920.0 / 40,
             verdict(taken[taken.size() / 2] <= 920.0 / 40));
}

}  // namespace

int main(int argc, char** argv) {
  const char* bin = std::getenv("BOURSE_BIN");
  if (bin == nullptr) {
    fmt::print(stderr, "cluster_bench: set BOURSE_BIN to the directory of the built programs\n");
    return 2;
  }
  g_bin = bin;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  g_tools = std::filesystem::path(bin).parent_path().string() + "/tests/tools";
  std::string pattern = "/tmp/bourse-bench.XXXXXX";
  if (mkdtemp(pattern.data()) == nullptr) return 1;
  g_dir = pattern;
  const std::string only = argc > 1 ? argv[1] : "";
  const auto wanted = [&](std::string_view name) { return only.empty() || only == name; };
  if (wanted("short")) short_jobs("short jobs into existing slices, isolation on", "", 0.8);
  if (wanted("slices")) short_jobs("short jobs, a slice made for each", "--set batch.slice_reuse=false", 0.6);
  if (wanted("submit")) submits();
  if (wanted("latency")) latency();
  if (wanted("history")) history();
  if (wanted("idle")) idle();
  std::filesystem::remove_all(g_dir);
  return 0;
}
