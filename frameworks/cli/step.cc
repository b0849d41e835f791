// bourse step: run a command inside a job's slice; bourse rsh: the same, called as mpirun calls ssh; bourse hostnames.
#include <fmt/format.h>

#include <cstdlib>

#include "common/core/hostlist.h"
#include "common/world/command_line.h"
#include "frameworks/cli/commands.h"
#include "frameworks/cli/step_run.h"

namespace bourse::cli {
namespace {

constexpr int kExitUsage = 2;

int fail(std::string_view command, const Error& error, int status) {
  fmt::print(stderr, "bourse {}: {}\n", command, error.text());
  return status;
}

int run(std::string_view command, batch::JobSelector job, StepProcess process, const std::string& directory,
        const std::string& dir) {
  StepPlan plan;
  plan.program = fmt::format("bourse {}", command);
  plan.job = std::move(job);
  plan.directory = directory;
  plan.quiet = true;  // the status says it, as ssh's does
  plan.processes.push_back(std::move(process));
  auto desk = StepDesk::open(false);
  if (!desk) return fail(command, desk.error(), kStepUnreachable);
  return run_steps(**desk, dir, plan);
}

Result<batch::JobSelector> own_job() {
  const char* id = std::getenv("SUBMIT_JOB_ID");
  if (id == nullptr) return Error(Code::kInvalid, "not inside a job (SUBMIT_JOB_ID is not set); name one with --job");
  return batch::parse_selector(id);
}

}  // namespace

int step_main(int argc, char** argv) {
  CommandLine app("Run a command inside a running job, on one of its hosts", "bourse step");
  std::string dir, job, directory;
  StepProcess process;
  app.option("--dir", dir, "Directory of the cluster; default $BOURSE_DIR");
  app.option("-j,--job", job, "The job; default: the one this runs in");
  app.option("-w,--host", process.host, "One of the job's hosts; default: its first");
  app.option("-D,--chdir", directory, "Working directory; default: the current one");
  app.rest("COMMAND", process.argv, "Command and arguments");
  if (const int status = app.parse(argc, argv); status >= 0) return status;
  auto selector = job.empty() ? own_job() : batch::parse_selector(job);
  if (!selector) return fail("step", selector.error(), kExitUsage);
  return run("step", *selector, std::move(process), directory, dir);
}

int rsh_main(int argc, char** argv) {
  const std::string_view first = argc == 2 ? argv[1] : "";
  if (first == "-h" || first == "--help") {
    fmt::print(
        "Usage: bourse rsh HOST COMMAND...\n\nRuns a command on one of the hosts of the job it is called in, as ssh would. See "
        "bourse-rsh(1).\n");
    return 0;
  }
  StepProcess process;
  int at = 1;
  while (at < argc && argv[at][0] == '-') ++at;  // ssh's flags (-x, -n) mean nothing here
  if (at + 1 >= argc) return fail("rsh", Error(Code::kInvalid, "usage: bourse rsh HOST COMMAND..."), kExitUsage);
  process.host = argv[at++];
  std::string line;
  for (; at < argc; ++at) line += (line.empty() ? "" : " ") + std::string(argv[at]);
  process.argv = {"/bin/sh", "-c", line};  // as ssh: the words are joined and a shell takes them apart
  auto selector = own_job();
  if (!selector) return fail("rsh", selector.error(), kExitUsage);
  return run("rsh", *selector, std::move(process), "", "");
}

int hostnames_main(int argc, char** argv) {
  std::string list;
  for (int i = 1; i < argc; ++i) list += (list.empty() ? "" : ",") + std::string(argv[i]);
  if (list == "-h" || list == "--help") {
    fmt::print(
        "Usage: bourse hostnames [HOSTLIST]\n\nPrints the hosts of a list such as h[1-4,7], one a line; default: those of the job "
        "it runs in.\n");
    return 0;
  }
  const char* own = std::getenv("SUBMIT_JOB_NODELIST");
  if (list.empty() && own != nullptr) list = own;
  if (list.empty()) return fail("hostnames", Error(Code::kInvalid, "name a host list"), kExitUsage);
  auto hosts = expand_hosts(list);
  if (!hosts) return fail("hostnames", hosts.error(), kExitUsage);
  for (const std::string& host : *hosts) fmt::print("{}\n", host);
  return 0;
}

}  // namespace bourse::cli
