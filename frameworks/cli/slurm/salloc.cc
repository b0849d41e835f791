// salloc(1) of Slurm: a job made for a shell that runs here.
#include <fmt/format.h>
#include <pwd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "common/core/hostlist.h"
#include "frameworks/batch/layout.h"
#include "frameworks/cli/slurm/fronts.h"
#include "frameworks/cli/slurm/held_job.h"
#include "frameworks/cli/slurm/step_options.h"

namespace bourse::cli {
namespace {

std::string shell() {
  if (const char* named = std::getenv("SHELL"); named != nullptr && *named != 0) return named;
  const passwd* entry = getpwuid(getuid());
  return entry != nullptr && *entry->pw_shell != 0 ? entry->pw_shell : "/bin/sh";
}

void set_environment(const batch::JobInfo& job, std::uint32_t cpus_per_task) {
  const auto hosts = expand_hosts(job.node_list);
  const auto nodes = hosts ? static_cast<std::uint32_t>(hosts->size()) : job.nodes;
  const auto set = [](const std::string& name, const std::string& value) {
    setenv(("SLURM_" + name).c_str(), value.c_str(), 1);
    setenv(("SUBMIT_" + name).c_str(), value.c_str(), 1);
  };
  const std::string id = std::to_string(job.id.value);
  set("JOB_ID", id), set("JOBID", id), set("JOB_NAME", job.name);
  set("JOB_NODELIST", job.node_list), set("NODELIST", job.node_list);
  set("JOB_NUM_NODES", std::to_string(nodes)), set("NNODES", std::to_string(nodes));
  set("NTASKS", std::to_string(job.tasks)), set("NPROCS", std::to_string(job.tasks));
  set("TASKS_PER_NODE", batch::compress_counts(batch::spread_tasks(job.tasks, nodes)));
  if (cpus_per_task != 0) set("CPUS_PER_TASK", std::to_string(cpus_per_task));
  std::array<char, 4096> here{};
  if (getcwd(here.data(), here.size()) != nullptr) set("SUBMIT_DIR", here.data());
}

}  // namespace

int salloc_main(int argc, char** argv) {
  auto settings = StepSettings::read("salloc", {argv + 1, argv + argc});
  if (!settings) {
    fmt::print(stderr, "salloc: error: {}\n", settings.error().text());
    return 255;
  }
  if (settings->has("help")) {
    fmt::print(
        "Usage: salloc [OPTIONS] [COMMAND [ARGUMENT...]]\n\nMakes a job, runs COMMAND (default: a shell) here while it lasts. See "
        "bourse-slurm(1).\n\n{}",
        usage(step_table()));
    return 0;
  }
  if (settings->has("version")) {
    fmt::print("salloc (Bourse) {}\n", BOURSE_VERSION);
    return 0;
  }
  auto desk = StepDesk::open(false);
  if (!desk) {
    fmt::print(stderr, "salloc: error: {}\n", desk.error().text());
    return 1;
  }
  HeldJob::Wish wish{"salloc", settings->for_submit(), settings->text("cluster"), kNoLimit, settings->has("quiet")};
  if (!settings->has("job-name")) wish.words.emplace_back("--job-name=interactive");
  if (settings->has("immediate"))
    wish.patience = seconds(settings->text("immediate").empty() ? 1 : std::atoi(settings->text("immediate").c_str()));
  auto job = HeldJob::start(**desk, wish);
  if (!job) {
    fmt::print(stderr, "salloc: error: {}\n", job.error().text());
    return 1;
  }
  const batch::JobInfo& info = (*job)->info();
  if (!wish.quiet) fmt::print(stderr, "salloc: Granted job allocation {}\n", info.id.value);
  std::vector<std::string> command = settings->command();
  if (command.empty()) command = {shell()};
  const std::string cpus = settings->text("cpus-per-task");
  set_environment(info, cpus.empty() ? 0 : static_cast<std::uint32_t>(std::atoi(cpus.c_str())));
  if (const std::string dir = settings->text("cluster"); !dir.empty()) setenv("BOURSE_DIR", dir.c_str(), 1);

  std::vector<char*> words;
  for (std::string& word : command) words.push_back(word.data());
  words.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    execvp(words[0], words.data());
    fmt::print(stderr, "salloc: error: {}: {}\n", words[0], strerror(errno));
    _exit(errno == ENOENT ? 127 : 126);
  }
  int status = 1;
  if (child < 0) {
    fmt::print(stderr, "salloc: error: fork: {}\n", strerror(errno));
  } else {
    Reactor& reactor = (*desk)->reactor();
    bool over = false;
    // The terminal's signals are the command's; others are passed on.
    for (const int ignored : {SIGINT, SIGQUIT, SIGTSTP}) std::signal(ignored, SIG_IGN);
    for (const int passed : {SIGTERM, SIGHUP}) reactor.on_signal(passed, [child, passed] { kill(child, passed); });
    reactor.on_exit(child, [&](int how) {
      status = WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
      over = true;
    });
    while (!over && reactor.turn(kNoLimit)) {}
  }
  (*job)->end(status);
  if (!wish.quiet) fmt::print(stderr, "salloc: Relinquishing job allocation {}\n", info.id.value);
  return status;
}

}  // namespace bourse::cli
