// A job script as a user wrote it: read, checked, and its directives found.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/core/result.h"

namespace bourse::cli {

struct Directive {
  int line = 0;                    // 1-based
  std::vector<std::string> words;  // after the prefix
};

struct Script {
  std::string path;  // as given; "" when it came from --wrap
  std::string text;
  std::vector<Directive> directives;
};

// Directives are lines that begin exactly with "#SUBMIT" or "#SBATCH" and a blank, before the first line that is neither
// blank nor a comment. "##SBATCH" and "# #SBATCH" are comments. Several options a line; " #" begins a trailing comment.
Result<std::vector<Directive>> find_directives(std::string_view text, const std::string& name);

// kInvalid, with what to do, for a binary, an empty file, a file without "#!"; kLimit over `bytes_max`; kIo.
Result<Script> read_script(const std::string& path, std::uint64_t bytes_max);
Result<Script> check_script(std::string path, std::string text, std::uint64_t bytes_max);
Script wrap_script(const std::string& command);  // "#!/bin/sh" and the command

}  // namespace bourse::cli
