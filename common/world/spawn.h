// Starts another program. The child gets default signal dispositions, an empty signal mask, the descriptors named here and
// no others. Used for long-lived children (launcher and its keeper, the programs of `bourse up`), not for tasks.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "common/core/result.h"

namespace bourse {

struct SpawnOptions {
  std::vector<std::string> argv;  // argv[0] with a slash: a path; without: looked up in PATH
  std::vector<std::string> env;   // "NAME=value", over ours; "NAME" alone takes it out
  std::string directory;          // empty: ours
  // Empty: ours. Output files are made where absent (0640) and appended to.
  std::string stdin_path = "/dev/null", stdout_path, stderr_path;
  bool own_session = false;               // setsid: no terminal, and its signals do not reach it
  int death_signal = 0;                   // sent to it when our thread that spawned it ends (prctl PR_SET_PDEATHSIG); 0: none
  std::vector<std::pair<int, int>> pass;  // {descriptor here, number there}; stdio may be given here too
};

// Returns once the program has been executed, or says why it was not ("exec /x: No such file or directory"). The child is
// ours to reap: Reactor::on_exit.
Result<pid_t> spawn(const SpawnOptions& options);
// The same, but it belongs to init (or the nearest subreaper) from the start: nobody here reaps it. Implies own_session.
Result<pid_t> spawn_detached(const SpawnOptions& options);

// Children start with this soft limit of descriptors, though this process has raised its own. First call counts.
void spawn_keeps_descriptor_limit(rlim_t soft);

// argv[0]'s directory, for finding the programs beside this one: /proc/self/exe.
std::string own_directory();

// Where links named as Slurm's commands lie: beside this program in a build, else where they are installed; "": nowhere. The batch
// framework puts it in front of a job's PATH.
std::string slurm_commands_directory();

}  // namespace bourse
