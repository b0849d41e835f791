// bourse demo: a cluster, a job, its result, and everything gone again.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "common/core/units.h"
#include "common/world/command_line.h"
#include "common/world/files.h"
#include "common/world/spawn.h"
#include "frameworks/cli/cluster.h"
#include "frameworks/cli/commands.h"
#include "frameworks/cli/complain.h"

namespace bourse::cli {
namespace {

volatile std::sig_atomic_t interrupted = 0;
void on_interrupt(int) { interrupted = 1; }

constexpr std::string_view kScript = R"sh(#!/bin/sh
#SUBMIT --job-name=sum
#SUBMIT --output=sum.out
#SUBMIT --ntasks=1 --mem=64M --time=1:00
echo "job $SUBMIT_JOB_ID runs on $(hostname) as $(id -un)"
i=0 sum=0
while [ $i -lt 1000 ]; do i=$((i + 1)); sum=$((sum + i)); done
sleep 1
echo "the sum of 1 to 1000 is $sum"
)sh";
constexpr std::string_view kExpected = "the sum of 1 to 1000 is 500500";

struct Demo {
  std::string dir, work;
  Cluster cluster;

  // A command as a user would type it, its output where ours goes. Its exit status, or -1.
  int run(std::vector<std::string> words) const {
    std::string line;
    for (const std::string& word : words) line += " " + word;
    fmt::print("\n${}\n", line);
    std::fflush(stdout);
    const auto pid = begin(std::move(words), "");
    return pid ? finish(*pid) : -1;
  }
  Result<pid_t> begin(std::vector<std::string> words, const std::string& output) const {
    SpawnOptions options;
    words[0] = own_directory() + "/" + words[0];
    options.argv = std::move(words);
    options.env = {"BOURSE_DIR=" + dir};
    options.directory = work;
    options.stdout_path = output;
    options.death_signal = SIGTERM;
    return spawn(options);
  }
  static int finish(pid_t pid) {
    int status = 0;
    while (waitpid(pid, &status, 0) < 0) {
      if (errno != EINTR) return -1;
      if (interrupted != 0) kill(pid, SIGTERM);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
};

Result<> show_job(const Demo& demo) {
  BOURSE_TRY(write_file(demo.work + "/sum.sh", kScript, 0755));
  fmt::print("\nA job is a script. Lines that begin with #SUBMIT say what it needs:\n\n{}", kScript);
  fmt::print(
      "\n`submit' puts it into the queue, which is on disk, and prints its number. The batch framework asks the master for\n"
      "resources, gets an offer of an agent's, and the agent starts the script in a slice of its own. Here submit waits for it.\n");
  fmt::print("\n$ submit --wait sum.sh &\n");
  std::fflush(stdout);
  const auto submit = BOURSE_TRY(demo.begin({"submit", "--wait", "sum.sh"}, ""));
  for (int i = 0; i < 300 && interrupted == 0 && access((demo.work + "/sum.out").c_str(), F_OK) != 0; ++i) {
    int status = 0;
    if (waitpid(submit, &status, WNOHANG) == submit)
      return Error(Code::kGone, fmt::format("submit ended with status {}", WEXITSTATUS(status)));
    usleep(20'000);
  }
  if (demo.run({"bourse", "queue"}) != 0) return Error(Code::kGone, "bourse queue failed");
  const int status = Demo::finish(submit);
  if (interrupted != 0) return Error(Code::kGone, "interrupted");
  if (status != 0) return Error(Code::kGone, fmt::format("the job ended with status {}", status));
  const std::string output = BOURSE_TRY(read_file(demo.work + "/sum.out"));
  fmt::print("\nThe job has ended. Its output is where the script said:\n\n$ cat sum.out\n{}", output);
  if (output.find(kExpected) == std::string::npos) return Error(Code::kCorrupt, "the job's output is not what it must be");
  fmt::print("\nWhat it used is kept in the accounting:\n");
  if (demo.run({"bourse", "history"}) != 0) return Error(Code::kGone, "bourse history failed");
  if (demo.run({"bourse", "status"}) != 0) return Error(Code::kGone, "bourse status failed");
  return {};
}

Result<> take_down(Demo& demo, pid_t supervisor) {
  if (kill(supervisor, SIGTERM) != 0 && errno != ESRCH) return errno_error("end the supervisor");
  (void)Demo::finish(supervisor);
  std::error_code error;
  if (access(demo.dir.c_str(), F_OK) != 0) return {};
  // The supervisor did not get to it.
  Result<> ended = end_cluster(demo.cluster, seconds(60));
  std::filesystem::remove_all(demo.dir, error);
  return ended;
}

}  // namespace

int demo_main(int argc, char** argv) {
  const std::string program = "bourse demo";
  ClusterWish wish;
  std::string timeout_text = "30s";
  CommandLine app("Starts a cluster in a temporary directory, runs a job, shows its result, and takes everything down.", program);
  app.option("--set", wish.overrides, "section.key=value for the cluster").one_each();
  app.option("--timeout", timeout_text, "How long the cluster may take until it is ready (default: 30s)");
  if (const int status = app.parse(argc, argv); status >= 0) return status;
  const auto timeout = parse_duration(timeout_text, seconds(1));
  if (!timeout) return complain(program, Error(timeout.error()).add("--timeout"), 2);

  Demo demo;
  const char* base = std::getenv("TMPDIR");  // NOLINT(concurrency-mt-unsafe)
  demo.dir = std::string(base == nullptr || *base == 0 ? "/tmp" : base) + "/bourse-demo-XXXXXX";
  if (demo.dir.size() > kDirectoryBytesMax) demo.dir = "/tmp/bourse-demo-XXXXXX";
  if (mkdtemp(demo.dir.data()) == nullptr) return complain(program, errno_error("make a directory " + demo.dir));
  const auto where = cluster_directory(demo.dir);
  if (!where) return complain(program, where.error());
  wish.dir = demo.dir = *where;
  demo.work = demo.dir + "/work";
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &action, nullptr);

  std::error_code ignored;
  const auto fail = [&](const Error& error, int status) {
    std::filesystem::remove_all(demo.dir, ignored);
    return complain(program, error, status);
  };
  auto cluster = prepare_cluster(wish);
  if (!cluster) return fail(cluster.error(), cluster.error().code() == Code::kInvalid ? 2 : 1);
  demo.cluster = *cluster;
  if (const auto made = make_directories(demo.work); !made) return fail(made.error(), 1);
  fmt::print("Starting a cluster in {}: a master, an agent for this machine, the batch framework; each with a key of its own.\n",
             demo.dir);
  std::fflush(stdout);
  auto started = start_supervisor(demo.cluster, true);
  if (!started) return fail(started.error(), 1);
  Result<> done = await_ready(demo.cluster, *started, *timeout);
  if (done) {
    fmt::print("It is ready.\n");
    done = show_job(demo);
  }
  if (!done) fmt::print(stderr, "\n{}: {}\n{}", program, done.error().text(), interrupted != 0 ? "" : last_words(demo.cluster, 8));
  fmt::print("\nTaking everything down.\n");
  std::fflush(stdout);
  const Result<> ended = take_down(demo, started->supervisor);
  if (!ended) return complain(program, ended.error());
  if (!done) return 1;
  fmt::print("\nThat was all of it: nothing is left running, and {} is gone. To keep a cluster: bourse up.\n", demo.dir);
  return 0;
}

}  // namespace bourse::cli
