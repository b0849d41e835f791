// The keeper: parent of the launcher and subreaper. Reaps what a dead launcher leaves, appends how it ended, starts the next
// launcher. Parses nothing, and allocates nothing after its start. See "Keeper".
//
// What happens when one dies:
//   launcher  its tasks become the keeper's children. The keeper starts another launcher, which reads the log, and nudges it
//             (an eventfd) after each end that it appends. New tasks are the new launcher's.
//   keeper    the launcher is told by the kernel (PR_SET_PDEATHSIG), closes what it is doing and executes itself as the keeper:
//             same process, so its tasks stay its children, and the same descriptors, so the agent's next connection is
//             accepted as soon as the new launcher runs. This is then as if the launcher had died under a keeper.
//   both      at once: the tasks run on, but their ends are nobody's. The agent starts a new keeper; the launcher watches the
//             tasks by pidfd and reports them with known = false.
// So a task outlives with its exit code the death of either. A task that has outlived one death has one ancestor left that
// knows it; losing that one too (not at once, but during the same task) is "both".
//
// There is one keeper a state directory: STATE/launcher.lock is locked by a descriptor which keeper and launcher share.
//
// An end is appended before it is reaped: up to then the pid cannot be used again, and a keeper or launcher killed between
// the two leaves a zombie whose end is found again. The first record of an end counts.
//
// A launcher that is stopped or hangs, and so lets the lease of tasks with fence = lease pass (lease.h), is killed by the keeper; the next
// one ends them.
//
// SIGTERM is the orderly end of both: all tasks are killed, all slices removed, then the processes are gone. Only the agent's
// operator does that (bourse down); an agent that stops leaves them running.
#pragma once

#include <string>

#include "common/core/result.h"

namespace bourse::launcher {

struct Inherited {
  int listener = -1;  // STATE/launcher.sock
  int lock = -1;      // STATE/launcher.lock
  int nudge = -1;     // eventfd, keeper to launcher: the log has grown
};

struct Options {
  std::string state_dir;
  std::string cgroup_root = "bourse";
  bool isolation = true;
  std::string identity;  // file that says what proof of its user a task needs; "": none
  Inherited inherited;   // given by the parent, or by the process itself before it became the keeper
};

// Returns the exit status of the process. kOk at once where another keeper or launcher serves this directory already.
int run_keeper(const Options& options);

// Replaces this process by a keeper. Returns only if that fails.
void become_keeper(const Options& options);

std::string exit_log_path(const std::string& state_dir);

}  // namespace bourse::launcher
