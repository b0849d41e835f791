// Every option of `submit`: its table, and what its value means. From words to a JobSpec; nothing is sent here.
//
// Precedence, as Slurm's users know it: command line, then the environment (SUBMIT_NAME, then SBATCH_NAME), then directives.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/core/result.h"
#include "frameworks/batch/job.h"
#include "frameworks/cli/options.h"
#include "frameworks/cli/script.h"

namespace bourse::cli {

const std::vector<OptionDef>& submit_table();

// Who is submitting, and from where; read once by the program, given by tests.
struct Submitter {
  std::string user;
  std::uint32_t uid = 0, gid = 0;
  std::string directory;
  std::vector<std::string> environment;  // "NAME=value"
  std::uint32_t umask = 0022;
  std::vector<Rlimit> rlimits;
  Duration wall_now{0};  // for --begin
};

struct Submission {
  batch::JobSpec job;
  bool parsable = false, wait = false, test_only = false, quiet = false, verbose = false;
  std::string cluster_dir;
  std::vector<std::string> ignored;  // "--hint: cores are always handed out whole"; told with --verbose
};

// `words` is the command line without the program's name. Reads the script it names.
Result<Submission> read_submission(const std::vector<std::string>& words, const Submitter& who, std::uint64_t script_bytes_max,
                                   std::string_view default_output);

// --begin: "now+1hour", "now+90", "16:00", "teatime", "tomorrow", "2026-12-01", "2026-12-01T08:00[:00]". Wall time.
Result<Duration> parse_begin(std::string_view text, Duration wall_now);

// --signal: [B:]NAME|NUMBER[@SECONDS]
struct SignalAsk {
  int signal = 0;
  bool shell_only = false;
  Duration before = seconds(60);
};
Result<SignalAsk> parse_signal(std::string_view text);
Result<int> parse_signal_name(std::string_view text);  // "USR1", "SIGUSR1", "10"

}  // namespace bourse::cli
