// bourse up and down.
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "common/core/units.h"
#include "common/world/command_line.h"
#include "common/world/config.h"
#include "frameworks/cli/cluster.h"
#include "frameworks/cli/commands.h"
#include "frameworks/cli/complain.h"
#include "frameworks/cli/console_url.h"
#include "frameworks/cli/master_client.h"

namespace bourse::cli {
namespace {

constexpr int kExitNotReady = 3;

Result<Duration> timeout_of(const std::string& text) { return parse_duration(text, seconds(1)); }

// How to reach it from the next shell line; nothing to say where every tool looks by itself.
std::string export_line(const std::string& dir) {
  unsetenv("BOURSE_DIR");  // NOLINT(concurrency-mt-unsafe)
  return Places::find().config == dir + "/bourse.conf" ? "" : "  export BOURSE_DIR=" + dir + "\n";
}

void welcome(const Cluster& cluster) {
  const std::size_t n = cluster.agents.size();
  std::string masters = "master at " + cluster.masters.front().endpoint;
  if (cluster.masters.size() > 1) masters = std::to_string(cluster.masters.size()) + " masters";
  fmt::print("The cluster in {} is up: {}, {} agent{}, batch.\n", cluster.dir, masters, n, n == 1 ? "" : "s");
  if (n > 1)
    fmt::print(
        "The {} agents are all on this machine: each offers its {} hardware threads, so work on several of them shares them.\n", n,
        std::thread::hardware_concurrency());
  if (const std::string url = console_url(cluster.dir + "/run"); !url.empty()) fmt::print("Its console is at {}\n", url);
  fmt::print("Next:\n{}  submit --wrap='echo hello from $(hostname)'\n  bourse queue\n  bourse status\n  bourse down\n",
             export_line(cluster.dir));
}

}  // namespace

int up_main(int argc, char** argv) {
  const std::string program = "bourse up";
  ClusterWish wish;
  std::string dir, timeout_text = "30s";
  CommandLine app("Starts a cluster on this machine, to keep, and returns when it is ready.", program);
  app.option("--dir", dir, "Its directory (default: $BOURSE_DIR, else ~/.bourse)");
  app.option("--agents", wish.agents, "Agents, all on this machine (default: as before, else 1)").between(1, kLocalAgentsMax);
  app.option("--masters", wish.masters,
             "Masters that take over from each other, an odd number; only for a new cluster (default: 1)")
      .between(1, kLocalMastersMax);
  app.option("--set", wish.overrides, "section.key=value, kept in its bourse.conf").one_each();
  app.option("--timeout", timeout_text, "How long it may take until all is ready (default: 30s)");
  if (const int status = app.parse(argc, argv); status >= 0) return status;
  if (wish.masters > 1 && wish.masters % 2 == 0) {
    return complain(program,
                    Error(Code::kInvalid, fmt::format("--masters: {} can lose no more of them than {}; choose an odd number",
                                                      wish.masters, wish.masters - 1)),
                    2);
  }
  const auto timeout = timeout_of(timeout_text);
  if (!timeout) return complain(program, Error(timeout.error()).add("--timeout"), 2);
  const auto where = cluster_directory(dir);
  if (!where) return complain(program, where.error(), 2);
  wish.dir = *where;

  const auto running = supervisor_of(wish.dir);
  if (running) {
    fmt::print("The cluster in {} is running already (supervisor pid {}).\n", wish.dir, *running);
    if (wish.agents > 0 || wish.masters > 0 || !wish.overrides.empty())
      fmt::print("--agents, --masters and --set were not looked at; they need `bourse down' first.\n");
    return 0;
  }
  if (running.error().code() != Code::kNotFound) return complain(program, running.error());
  const auto cluster = prepare_cluster(wish);
  if (!cluster) return complain(program, cluster.error(), cluster.error().code() == Code::kInvalid ? 2 : 1);
  auto started = start_supervisor(*cluster, false);
  if (!started) return complain(program, started.error());
  const auto ready = await_ready(*cluster, *started, *timeout);
  if (ready) {
    welcome(*cluster);
    return 0;
  }
  fmt::print(stderr, "{}: the cluster did not get ready: {}\n{}", program, ready.error().text(), last_words(*cluster, 5));
  const auto ended = end_cluster(*cluster, seconds(60));
  if (!ended) return complain(program, Error(ended.error()).add("and could not be ended"));
  return ready.error().code() == Code::kTimeout ? kExitNotReady : 1;
}

int down_main(int argc, char** argv) {
  const std::string program = "bourse down";
  std::string dir, timeout_text = "90s";
  bool remove = false;
  CommandLine app("Ends a cluster on this machine and its tasks. What is in its queue stays for the next `bourse up`.", program);
  app.option("--dir", dir, "Its directory (default: $BOURSE_DIR, else ~/.bourse)");
  app.option("--timeout", timeout_text, "How long it may take (default: 90s)");
  app.flag("--remove", remove, "Remove the directory too: queue, history, keys, logs");
  if (const int status = app.parse(argc, argv); status >= 0) return status;
  const auto timeout = timeout_of(timeout_text);
  if (!timeout) return complain(program, Error(timeout.error()).add("--timeout"), 2);
  const auto where = cluster_directory(dir);
  if (!where) return complain(program, where.error(), 2);
  const auto cluster = load_cluster(*where);
  if (!cluster) return complain(program, cluster.error());
  const bool ran = bool(supervisor_of(*where));
  const auto ended = end_cluster(*cluster, *timeout);
  if (!ended) return complain(program, ended.error());
  fmt::print("The cluster in {} {}.\n", *where, ran ? "is down" : "was not running; nothing is left of it");
  if (!remove) return 0;
  std::error_code error;
  std::filesystem::remove_all(*where, error);
  if (error) return complain(program, Error(Code::kIo, "remove " + *where + ": " + error.message()));
  return 0;
}

}  // namespace bourse::cli
