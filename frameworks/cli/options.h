// The option grammar of `submit` and its Slurm front: one table serves the command line, directives and the environment.
//
// Accepted spellings: --name=value, --name value, --flag, -n value, -nvalue, -n=value, bundled flags (-HQ), and any unambiguous
// prefix of a long name (scripts in the wild rely on it). An unknown or ambiguous one is an error that names the nearest.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/core/result.h"

namespace bourse::cli {

struct OptionDef {
  std::string_view name;                                                // long, without dashes
  char letter = 0;                                                      // short; 0: none
  enum class Arg { kNone, kRequired, kOptional } arg = Arg::kRequired;  // kOptional only as --name=value
  std::string_view alias_of;                                            // another spelling of that option
  std::string_view value;                                               // for help: "TIME"
  std::string_view help;                                                // "" : accepted and ignored where `note` says why
  std::string_view note;  // what is done instead, for options that are accepted without effect
};

struct Setting {
  std::string name;  // canonical long name
  std::string value;
  std::string origin;  // "command line", "job.sh:3", "SBATCH_TIMELIMIT"
};

struct Parsed {
  std::vector<Setting> settings;      // in order; later ones win
  std::vector<std::string> operands;  // from the first word that is no option
};

// `stop_after`: names of options that end option parsing (--exec takes the rest of the line as operands).
Result<Parsed> parse_options(const std::vector<OptionDef>& table, const std::vector<std::string>& words, const std::string& origin,
                             bool allow_operands, std::string_view stop_after = "");

// One line of shell-like words: blanks separate, '...' and "..." group, a blank followed by # begins a comment.
Result<std::vector<std::string>> split_words(std::string_view line);

std::string usage(const std::vector<OptionDef>& table);  // two aligned columns

}  // namespace bourse::cli
