#include "frameworks/cli/slurm/step_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>

#include "common/core/hostlist.h"
#include "frameworks/cli/submit_options.h"

extern char** environ;

namespace bourse::cli {
namespace {

// What describes an allocation: handed to submit(1) where there is none yet.
constexpr std::array kOfTheJob = {
    "nodes",         "ntasks",   "ntasks-per-node", "cpus-per-task", "mem",        "mem-per-cpu", "time", "partition",
    "account",       "qos",      "constraint",      "nodelist",      "exclude",    "gres",        "gpus", "gpus-per-node",
    "gpus-per-task", "job-name", "reservation",     "begin",         "dependency", "comment",     "nice", "priority",
    "exclusive",     "chdir",    "licenses",        "hint"};

// Those that srun reads from the environment inside a job are few: the rest of SLURM_* describes the job, not a wish.
struct FromEnvironment {
  const char* variable;
  const char* option;
};
constexpr std::array kFromEnvironment = {
    FromEnvironment{"SLURM_LABELIO", "label"},     FromEnvironment{"SLURM_UNBUFFEREDIO", "unbuffered"},
    FromEnvironment{"SLURM_STDOUTMODE", "output"}, FromEnvironment{"SLURM_STDERRMODE", "error"},
    FromEnvironment{"SLURM_STDINMODE", "input"},   FromEnvironment{"SLURM_KILL_BAD_EXIT", "kill-on-bad-exit"},
    FromEnvironment{"SLURM_WAIT", "wait"},         FromEnvironment{"SLURM_OPEN_MODE", "open-mode"},
    FromEnvironment{"SLURM_EXACT", "exact"},       FromEnvironment{"SLURM_OVERLAP", "overlap"},
    FromEnvironment{"SLURM_MPI_TYPE", "mpi"},      FromEnvironment{"SLURM_DISTRIBUTION", "distribution"}};

}  // namespace

const std::vector<OptionDef>& step_table() {
  using enum OptionDef::Arg;
  static const std::vector<OptionDef> table = {
      // name, letter, arg, alias of, value, help, note
      {"ntasks", 'n', kRequired, "", "N", "tasks; default: the job's", ""},
      {"nodes", 'N', kRequired, "", "MIN[-MAX]", "hosts of the job to use; default: all, at most one a task", ""},
      {"ntasks-per-node", 0, kRequired, "", "N", "tasks on each host", ""},
      {"tasks-per-node", 0, kRequired, "ntasks-per-node", "", "", ""},
      {"cpus-per-task", 'c', kRequired, "", "N", "cores of each task", ""},
      {"nodelist", 'w', kRequired, "", "HOSTS", "on these hosts: h[1-4,7]", ""},
      {"exclude", 'x', kRequired, "", "HOSTS", "on none of these", ""},
      {"relative", 'r', kRequired, "", "N", "from the job's N-th host on, counted from 0", ""},
      {"distribution", 'm', kRequired, "", "block|cyclic", "how ranks go to hosts; default block", ""},
      {"exact", 0, kNone, "", "", "wait until the tasks' cores are free of other such steps of the job", ""},
      {"exclusive", 0, kOptional, "", "", "inside a job the same as --exact; else whole hosts", ""},
      {"overlap", 0, kNone, "", "", "wait for nobody; so is every step without --exact", ""},
      {"jobid", 0, kRequired, "", "ID", "inside that job; default: the one this runs in", ""},
      {"chdir", 'D', kRequired, "", "DIR", "working directory; default: the current one", ""},
      {"output", 'o', kRequired, "", "PATTERN",
       "file for standard output; with %t, %n or %N one for each task; none, all, or a rank", ""},
      {"error", 'e', kRequired, "", "PATTERN", "the same for standard error; default: with the output", ""},
      {"input", 'i', kRequired, "", "PATTERN", "file for standard input; none, all, or a rank; default: all get this one's", ""},
      {"open-mode", 0, kRequired, "", "append|truncate", "how output files are opened", ""},
      {"label", 'l', kNone, "", "", "every line begins with its task's rank", ""},
      {"unbuffered", 'u', kNone, "", "", "pass output on as it comes, not line by line", ""},
      {"pty", 0, kOptional, "", "", "one task, on a terminal of its own", ""},
      {"kill-on-bad-exit", 'K', kOptional, "", "0|1", "end all when one ends with another status than 0", ""},
      {"wait", 'W', kRequired, "", "SECONDS", "end all so long after the first has ended", ""},
      {"time", 't', kRequired, "", "TIME", "time limit of the step", ""},
      {"export", 0, kRequired, "", "ALL|NONE|NAME[=V],...", "environment that the tasks get; default ALL", ""},
      {"multi-prog", 0, kNone, "", "", "COMMAND is a file: ranks and the command for them, a line each", ""},
      {"mpi", 0, kRequired, "", "none|list", "tasks are started without PMI: mpirun starts MPI programs", ""},
      {"quiet", 'Q', kNone, "", "", "no word about waiting for resources", ""},
      {"disable-status", 'X', kNone, "", "", "no word about how tasks ended", ""},
      {"immediate", 'I', kOptional, "", "SECONDS", "outside a job: give up when it does not start so soon (1)", ""},
      {"job-name", 'J', kRequired, "", "NAME", "name of the job that is made; inside a job: accepted", ""},
      {"mem", 0, kRequired, "", "SIZE", "memory on each host of the job that is made", ""},
      {"mem-per-cpu", 0, kRequired, "", "SIZE", "memory for each core of it", ""},
      {"partition", 'p', kRequired, "", "NAME", "of the job that is made", ""},
      {"account", 'A', kRequired, "", "NAME", "of the job that is made", ""},
      {"qos", 'q', kRequired, "", "NAME", "of the job that is made", ""},
      {"constraint", 'C', kRequired, "", "EXPR", "labels of its hosts", ""},
      {"gres", 0, kRequired, "", "KIND[:TYPE]:N", "devices on each host of it", ""},
      {"gpus", 'G', kRequired, "", "[TYPE:]N", "GPUs for the whole of it", ""},
      {"gpus-per-node", 0, kRequired, "", "[TYPE:]N", "GPUs on each host of it", ""},
      {"gpus-per-task", 0, kRequired, "", "[TYPE:]N", "GPUs for each task of it", ""},
      {"reservation", 0, kRequired, "", "NAME", "of the job that is made", ""},
      {"begin", 'b', kRequired, "", "WHEN", "not before", ""},
      {"dependency", 'd', kRequired, "", "TYPE:ID", "of the job that is made", ""},
      {"nice", 0, kOptional, "", "N", "of the job that is made", ""},
      {"priority", 0, kRequired, "", "N", "of the job that is made", ""},
      {"comment", 0, kRequired, "", "TEXT", "of the job that is made", ""},
      {"licenses", 'L', kRequired, "", "NAME", "of the job that is made", ""},
      {"hint", 0, kRequired, "", "", "", "accepted; whole cores are handed out where there are enough"},
      {"verbose", 'v', kNone, "", "", "", "accepted"},
      {"cpu-bind", 0, kRequired, "", "", "",
       "accepted; tasks run on the cores of the job on their host, and bind themselves there"},
      {"mem-bind", 0, kRequired, "", "", "", "accepted; memory is bound to the NUMA node of the job's cores"},
      {"gpu-bind", 0, kRequired, "", "", "", "accepted; a task sees the devices of the job on its host"},
      {"accel-bind", 0, kRequired, "", "", "", "accepted; without effect"},
      {"ntasks-per-core", 0, kRequired, "", "N", "", "accepted; without effect"},
      {"ntasks-per-socket", 0, kRequired, "", "N", "", "accepted; without effect"},
      {"ntasks-per-gpu", 0, kRequired, "", "N", "", "accepted; without effect"},
      {"cpus-per-gpu", 0, kRequired, "", "N", "", "accepted; without effect"},
      {"mem-per-gpu", 0, kRequired, "", "SIZE", "", "accepted; without effect"},
      {"threads-per-core", 0, kRequired, "", "N", "", "accepted; without effect"},
      {"extra-node-info", 'B', kRequired, "", "", "", "accepted; without effect"},
      {"threads", 'T', kRequired, "", "N", "", "accepted; without effect"},
      {"oversubscribe", 's', kNone, "", "", "", "accepted; without effect"},
      {"overcommit", 'O', kNone, "", "", "", "accepted; without effect"},
      {"no-kill", 'k', kNone, "", "", "", "accepted; without effect"},
      {"propagate", 0, kOptional, "", "", "", "accepted; limits always travel with the job"},
      {"resv-ports", 0, kOptional, "", "", "", "accepted; without effect"},
      {"network", 0, kRequired, "", "", "", "accepted; without effect"},
      {"profile", 0, kRequired, "", "", "", "accepted; without effect"},
      {"cpu-freq", 0, kRequired, "", "", "", "accepted; without effect"},
      {"wait-all-nodes", 0, kRequired, "", "", "", "accepted; a job always starts with all its hosts"},
      {"mail-type", 0, kRequired, "", "", "", "accepted; mail is not sent"},
      {"mail-user", 0, kRequired, "", "", "", "accepted; mail is not sent"},
      {"requeue", 0, kNone, "", "", "", "accepted; without effect"},
      {"no-requeue", 0, kNone, "", "", "", "accepted; without effect"},
      {"cluster", 0, kRequired, "", "DIR", "directory of the cluster; default $BOURSE_DIR", ""},
      {"help", 'h', kNone, "", "", "show this", ""},
      {"version", 'V', kNone, "", "", "show the version", ""},
  };
  return table;
}

Result<StepSettings> StepSettings::read(std::string_view program, const std::vector<std::string>& words) {
  StepSettings s;
  if (program == "srun")
    for (const FromEnvironment& from : kFromEnvironment)
      if (const char* value = std::getenv(from.variable); value != nullptr) s.settings_[from.option] = value;
  Parsed parsed = BOURSE_TRY(parse_options(step_table(), words, "command line", true));
  for (Setting& setting : parsed.settings) s.settings_[setting.name] = std::move(setting.value);
  s.command_ = std::move(parsed.operands);
  return s;
}

std::string StepSettings::text(std::string_view name) const {
  const auto it = settings_.find(name);
  return it == settings_.end() ? "" : it->second;
}

Result<std::vector<std::vector<std::string>>> StepSettings::commands(std::size_t tasks) const {
  std::vector<std::vector<std::string>> all(tasks, command_);
  if (!has("multi-prog")) return all;
  std::ifstream file(command_.front());
  if (!file) return errno_error(command_.front());
  std::vector<bool> given(tasks, false);
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    const auto where = [&] { return fmt::format("{}:{}", command_.front(), number); };
    auto words = split_words(line);
    if (!words) return std::move(words).error().add(where());
    if (words->empty()) continue;
    const std::string ranks = words->front() == "*" ? fmt::format("0-{}", tasks - 1) : words->front();
    auto set = IndexSet::parse(ranks);
    if (!set) return std::move(set).error().add(where());
    if (words->size() < 2) return Error(Code::kInvalid, where() + ": no command behind the ranks");
    for (std::uint64_t at = 0; at < set->size() && set->at(at) < tasks; ++at) {
      const auto rank = static_cast<std::size_t>(set->at(at));
      if (words->front() == "*" && given[rank]) continue;
      if (given[rank]) return Error(Code::kInvalid, fmt::format("{}: task {} has a command already", where(), rank));
      given[rank] = true;
      all[rank].assign(words->begin() + 1, words->end());
      for (std::string& word : all[rank])
        for (const auto& [mark, value] : {std::pair<std::string, std::uint64_t>{"%t", rank}, {"%o", at}})
          for (std::size_t found = word.find(mark); found != std::string::npos; found = word.find(mark))
            word.replace(found, mark.size(), std::to_string(value));
    }
  }
  for (std::size_t rank = 0; rank < tasks; ++rank)
    if (!given[rank]) return Error(Code::kInvalid, fmt::format("{}: no command for task {}", command_.front(), rank));
  return all;
}

bool StepSettings::inherits() const {
  if (!has("export")) return true;
  const std::string what = "," + text("export") + ",";
  return what.find(",ALL,") != std::string::npos;
}

std::vector<std::string> StepSettings::exported(std::vector<std::string> own) const {
  if (!inherits())
    for (char** variable = environ; *variable != nullptr; ++variable) {
      const std::string_view word = *variable;
      const std::string name(word.substr(0, word.find('=')));
      const bool same = std::ranges::any_of(own, [&](const std::string& o) { return o.starts_with(name + "="); });
      if (!same && (word.starts_with("SLURM_") || word.starts_with("SUBMIT_") || name == "PATH" || name == "HOME" ||
                    name == "USER" || name == "SHELL" || name == "BOURSE_DIR"))
        own.emplace_back(word);
    }
  std::string what = text("export") + ",";
  for (std::size_t comma = what.find(','); comma != std::string::npos; comma = what.find(',')) {
    const std::string word = what.substr(0, comma);
    what.erase(0, comma + 1);
    if (word.empty() || word == "ALL" || word == "NONE") continue;
    const char* value = word.find('=') == std::string::npos ? std::getenv(word.c_str()) : nullptr;
    if (word.find('=') != std::string::npos)
      own.push_back(word);
    else if (value != nullptr)
      own.push_back(word + "=" + value);
  }
  return own;
}

std::vector<std::string> StepSettings::for_submit() const {
  std::vector<std::string> words;
  for (const char* name : kOfTheJob) {
    if (!has(name)) continue;
    const std::string value = text(name);
    words.push_back(value.empty() ? fmt::format("--{}", name) : fmt::format("--{}={}", name, value));
  }
  return words;
}

}  // namespace bourse::cli
