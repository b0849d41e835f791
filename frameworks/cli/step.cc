// bourse step: run a command inside a job's slice; bourse rsh: the same, called as mpirun calls ssh; bourse hostnames.
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

#include "common/core/hostlist.h"
#include "common/world/command_line.h"
#include "common/world/reactor.h"
#include "frameworks/cli/batch_client.h"
#include "frameworks/cli/commands.h"
#include "frameworks/cli/job_text.h"

extern char** environ;

namespace bourse::cli {
namespace {

constexpr int kExitUsage = 2, kExitUnreachable = 255;  // 255: what ssh says when it cannot connect

constexpr int kReconnectsMax = 60;  // a second apart

// The connection was lost, rather than the request refused.
bool is_loss(Code code) { return code == Code::kTimeout || code == Code::kIo || code == Code::kNotFound || code == Code::kGone; }

int fail(std::string_view command, const Error& error, int status) {
  fmt::print(stderr, "bourse {}: {}\n", command, error.text());
  return status;
}

// A path that the step's process can open to write where this process writes: its terminal or pipe is not on the other host,
// so output goes through files only when it is one; else it is appended to the job's own output.
std::string output_path(int fd) {
  std::array<char, 4096> path{};
  const std::string link = fmt::format("/proc/self/fd/{}", fd);
  const ssize_t n = readlink(link.c_str(), path.data(), path.size() - 1);
  return n > 0 && path[0] == '/' ? std::string(path.data(), static_cast<std::size_t>(n)) : "";
}

int run(std::string_view command, batch::StepRequest request, const std::string& dir) {
  for (char** variable = environ; *variable != nullptr; ++variable) request.env.emplace_back(*variable);
  std::array<char, 4096> here{};
  if (request.directory.empty() && getcwd(here.data(), here.size()) != nullptr) request.directory = here.data();
  request.stdout_path = output_path(STDOUT_FILENO);
  request.stderr_path = output_path(STDERR_FILENO);
  // The same key each time: when the framework restarts meanwhile, the step is found again instead of started twice.
  const Time now = real_time();
  request.key = fmt::format("{:x}-{:x}-{:x}", getpid(), now.wall.count(), now.mono.count());
  auto client = BatchClient::open(dir);
  if (!client) return fail(command, client.error(), kExitUnreachable);
  auto reply = call<batch::StepReply>(**client, request, kNoLimit);
  const auto again = [&] { return reply ? reply->code == Code::kBusy : is_loss(reply.error().code()); };
  for (int lost = 0; again() && lost < kReconnectsMax; ++lost) {
    sleep(1);  // lint-ok: a tool, not an actor
    if ((*client)->reconnect()) reply = call<batch::StepReply>(**client, request, kNoLimit);
  }
  if (!reply) return fail(command, reply.error(), kExitUnreachable);
  if (reply->code != Code::kOk) return fail(command, Error(reply->code, reply->reason), kExitUnreachable);
  return reply->exit_signal != 0 ? 128 + reply->exit_signal : reply->exit_code;
}

Result<batch::JobSelector> own_job() {
  const char* id = std::getenv("SUBMIT_JOB_ID");
  if (id == nullptr) return Error(Code::kInvalid, "not inside a job (SUBMIT_JOB_ID is not set); name one with --job");
  return batch::parse_selector(id);
}

}  // namespace

int step_main(int argc, char** argv) {
  CommandLine app("Run a command inside a running job, on one of its hosts", "bourse step");
  std::string dir, job;
  batch::StepRequest request;
  app.option("--dir", dir, "Directory of the cluster; default $BOURSE_DIR");
  app.option("-j,--job", job, "The job; default: the one this runs in");
  app.option("-w,--host", request.node, "One of the job's hosts; default: its first");
  app.option("-D,--chdir", request.directory, "Working directory; default: the current one");
  app.rest("COMMAND", request.argv, "Command and arguments");
  if (const int status = app.parse(argc, argv); status >= 0) return status;
  auto selector = job.empty() ? own_job() : batch::parse_selector(job);
  if (!selector) return fail("step", selector.error(), kExitUsage);
  request.job = *selector;
  return run("step", std::move(request), dir);
}

int rsh_main(int argc, char** argv) {
  const std::string_view first = argc == 2 ? argv[1] : "";
  if (first == "-h" || first == "--help") {
    fmt::print(
        "Usage: bourse rsh HOST COMMAND...\n\nRuns a command on one of the hosts of the job it is called in, as ssh would. See "
        "bourse-rsh(1).\n");
    return 0;
  }
  batch::StepRequest request;
  int at = 1;
  while (at < argc && argv[at][0] == '-') ++at;  // ssh's flags (-x, -n) mean nothing here
  if (at + 1 >= argc) return fail("rsh", Error(Code::kInvalid, "usage: bourse rsh HOST COMMAND..."), kExitUsage);
  request.node = argv[at++];
  std::string line;
  for (; at < argc; ++at) line += (line.empty() ? "" : " ") + std::string(argv[at]);
  request.argv = {"/bin/sh", "-c", line};  // as ssh: the words are joined and a shell takes them apart
  auto selector = own_job();
  if (!selector) return fail("rsh", selector.error(), kExitUsage);
  request.job = *selector;
  return run("rsh", std::move(request), "");
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
