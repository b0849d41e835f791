// srun's options, salloc's with them: the table, and what was given.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/core/result.h"
#include "frameworks/cli/options.h"

namespace bourse::cli {

const std::vector<OptionDef>& step_table();

class StepSettings {
 public:
  // Command line over SLURM_NAME of the environment, for those that srun(1) reads from there. kInvalid names the option.
  static Result<StepSettings> read(std::string_view program, const std::vector<std::string>& words);

  [[nodiscard]] bool has(std::string_view name) const { return settings_.find(name) != settings_.end(); }
  [[nodiscard]] std::string text(std::string_view name) const;  // "" where it was not given
  [[nodiscard]] const std::vector<std::string>& command() const { return command_; }

  // Each task's command: the same, or with --multi-prog what its file says.
  [[nodiscard]] Result<std::vector<std::vector<std::string>>> commands(std::size_t tasks) const;
  // Does a task get this process's environment? --export=NONE and --export=A,B do not.
  [[nodiscard]] bool inherits() const;
  // `own` and what --export adds to it.
  [[nodiscard]] std::vector<std::string> exported(std::vector<std::string> own) const;
  // The options that describe an allocation, as submit(1) takes them.
  [[nodiscard]] std::vector<std::string> for_submit() const;

 private:
  std::map<std::string, std::string, std::less<>> settings_;
  std::vector<std::string> command_;
};

}  // namespace bourse::cli
