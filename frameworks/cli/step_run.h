// Runs processes inside a job's slices and has their output, input and signals here: what srun and `bourse step` share.
//
// Each process is one step request to the batch framework; what it runs is the relay (step_io.h), which comes back to the desk of
// this process. The framework may restart meanwhile: a request has a key and is found again. When this process dies, the
// framework ends what it asked for.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/core/result.h"
#include "frameworks/batch/protocol.h"
#include "frameworks/cli/step_desk.h"

namespace bourse::cli {

struct StepProcess {
  std::string host;
  int node = 0;                   // of the step
  std::vector<std::string> argv;  // the command
  std::vector<std::string> env;   // over this process's own
  MilliCpus cpus;                 // of the job that it counts with, waiting until they are free; 0: none (StepRequest.cpus)
  std::string in, out, err;       // files that are opened where it runs; "" : through here
};

struct StepPlan {
  std::string program = "bourse step";  // who speaks on stderr
  batch::JobSelector job;
  std::vector<StepProcess> processes;
  std::string directory;    // "" : this one's
  bool inherit = true;      // this process's environment
  bool label = false;       // "3: " in front of every line
  bool terminal = false;    // one process, on a terminal of its own, with this one's behind it
  bool quiet = false;       // no word about how processes ended
  bool unbuffered = false;  // not line by line
  enum class Input { kAll, kNone, kOne } input = Input::kAll;
  std::size_t input_to = 0;       // kOne
  bool kill_on_bad_exit = false;  // of one: all others are ended
  Duration wait{0};               // after the first end the others have so long; 0: no limit
  Duration limit = kNoLimit;      // for all
  int in = 0, out = 1, err = 2;   // descriptors of this process
};

// The highest exit status of all; 128 + signal for one that died of a signal. kStepUnreachable, and a word, where it could not run.
constexpr int kStepUnreachable = 255;
int run_steps(StepDesk& desk, const std::string& cluster_dir, const StepPlan& plan);

// The relay of this installation: first words of what a step runs.
std::vector<std::string> relay_command();

}  // namespace bourse::cli
