// bourse(1): finds the command and hands over.
#include <fmt/format.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "common/world/config.h"
#include "frameworks/cli/commands.h"
#include "frameworks/cli/slurm/fronts.h"

namespace {

struct Command {
  std::string_view name;
  int (*run)(int argc, char** argv);
  std::string_view help;  // "": not shown
};

using namespace bourse::cli;  // NOLINT: the table below is all there is

constexpr std::array kCommands = {
    Command{"up", up_main, "start a cluster on this machine, to keep"},
    Command{"down", down_main, "end it, leaving nothing behind"},
    Command{"demo", demo_main, "start a cluster, run a job, show its result, end it"},
    Command{"status", status_main, "leader, masters, agents and frameworks"},
    Command{"agents", agents_main, "hosts as the master sees them"},
    Command{"frameworks", frameworks_main, "frameworks as the master sees them"},
    Command{"probe", probe_main, "what this host has, and how that is known"},
    Command{"roles", roles_main, "accounts: weights, limits and what is used"},
    Command{"offers", offers_main, "open offers"},
    Command{"slices", slices_main, "what frameworks have on which agent"},
    Command{"events", events_main, "what happened lately; --follow waits for more"},
    Command{"cordon", cordon_main, "keep new work from agents"},
    Command{"uncordon", uncordon_main, "let it come again"},
    Command{"reprobe", reprobe_main, "have agents look at their hardware again"},
    Command{"reload", reload_main, "have the master, or agents, read their configuration again"},
    Command{"drain", drain_main, "empty agents, by a deadline"},
    Command{"undrain", undrain_main, "end that"},
    Command{"label", label_main, "set labels on agents"},
    Command{"role", role_main, "set a role's weight, priority and guarantee"},
    Command{"limit", limit_main, "set a role's hard limits"},
    Command{"reserve", reserve_main, "keep agents, or a part of each, for a role, for a time"},
    Command{"maintenance", maintenance_main, "plan when agents are closed"},
    Command{"remove", remove_main, "forget an agent, a framework or a role"},
    Command{"master", master_main, "list masters, add one, remove one"},
    Command{"key", key_main, "make, list, allow and revoke keys"},
    Command{"queue", queue_main, "jobs that wait or run"},
    Command{"jobs", jobs_main, "everything that is known of a job"},
    Command{"cancel", cancel_main, "end jobs"},
    Command{"hold", hold_main, "keep waiting jobs from starting"},
    Command{"release", release_main, "let held jobs start"},
    Command{"requeue", requeue_main, "put running jobs back in the queue"},
    Command{"history", history_main, "jobs that have ended"},
    Command{"nodes", nodes_main, "hosts as jobs see them"},
    Command{"why", why_main, "why a job does not start, or how it ended"},
    Command{"top", top_main, "the cluster's work at a glance"},
    Command{"step", step_main, "run a command inside a running job"},
    Command{"rsh", rsh_main, "the same, called as mpirun calls ssh"},
    Command{"hostnames", hostnames_main, "expand a host list"},
    Command{"simulate", simulate_main, "replay a workload trace in virtual time"},
    Command{"doctor", doctor_main, "check this host's settings and say how to mend them"},
    Command{"plugin", plugin_main, "show and check plugins, list policies"},
    Command{"supervise", supervise_main, ""},
    Command{"credential", credential_main, ""},
    Command{"relay", relay_main, ""},
};

void usage(FILE* to) {
  fmt::print(to, "Usage: bourse COMMAND [OPTIONS]\n\n");
  for (const Command& command : kCommands)
    if (!command.help.empty()) fmt::print(to, "  {:<11} {}\n", command.name, command.help);
  fmt::print(to, "\n`bourse COMMAND --help' shows a command's options; see bourse(1). To submit a job: submit(1).\n");
}

}  // namespace

int main(int argc, char** argv) {
  // Under this name it is `bourse rsh`: programs that start others by ssh take a path, not a command with a word.
  const std::string_view called = argv[0];
  const std::string_view name = called.substr(called.rfind('/') + 1);
  if (name == "bourse-rsh") return rsh_main(argc, argv);
  if (const auto front = slurm_front(name)) return front(argc, argv);
  if (argc < 2) {
    usage(stderr);
    return 2;
  }
  const std::string_view word = argv[1];
  if (word == "--help" || word == "-h" || word == "help") {
    usage(stdout);
    return 0;
  }
  if (word == "--version" || word == "-V") {
    fmt::print("bourse {}\n", BOURSE_VERSION);
    return 0;
  }
  for (const Command& command : kCommands)
    if (command.name == word) return command.run(argc - 1, argv + 1);
  std::vector<std::string> known;
  for (const Command& command : kCommands)
    if (!command.help.empty()) known.emplace_back(command.name);
  const std::string near = bourse::nearest_word(word, known);
  fmt::print(stderr, "bourse: there is no command `{}'{}\n", word,
             near.empty() ? "; see bourse --help" : fmt::format("; did you mean {}?", near));
  return 2;
}
