#include "frameworks/cli/script.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/core/units.h"
#include "frameworks/cli/options.h"

namespace bourse::cli {
namespace {

// A script has no NUL byte; looking at the head is enough to tell a binary, and cheap for a script that is too large anyway.
constexpr std::size_t kHeadBytes = 4096;

}  // namespace

Result<std::vector<Directive>> find_directives(std::string_view text, const std::string& name) {
  std::vector<Directive> found;
  int line_number = 0;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    ++line_number;
    const std::size_t first = line.find_first_not_of(" \t\r");
    if (first == std::string_view::npos) continue;
    if (line[first] != '#') break;
    for (const std::string_view prefix : {"#SUBMIT", "#SBATCH"}) {
      if (!line.starts_with(prefix) || line.size() == prefix.size()) continue;
      if (line[prefix.size()] != ' ' && line[prefix.size()] != '\t') continue;
      auto words = split_words(line.substr(prefix.size()));
      if (!words) return std::move(words).error().add(fmt::format("{}:{}", name, line_number));
      if (!words->empty()) found.push_back({line_number, std::move(*words)});
    }
  }
  return found;
}

Result<Script> check_script(std::string path, std::string text, std::uint64_t bytes_max) {
  const std::string shown = path.empty() ? "standard input" : path;
  if (text.size() > bytes_max)
    return Error(Code::kLimit, fmt::format("{}: the script is larger than {}; put data in files and name them in the script", shown,
                                           format_size(Bytes(static_cast<std::int64_t>(bytes_max)))));
  if (text.empty()) return Error(Code::kInvalid, fmt::format("{}: the script is empty", shown));
  if (std::string_view(text).substr(0, kHeadBytes).find('\0') != std::string_view::npos)
    return Error(
        Code::kInvalid,
        fmt::format("{}: this is a binary, not a script; to run a program use `submit --exec {}' or --wrap", shown, shown));
  if (!text.starts_with("#!"))
    return Error(Code::kInvalid,
                 fmt::format("{}: the first line must begin with #! and name an interpreter, for example #!/bin/bash", shown));
  Script script;
  script.directives = BOURSE_TRY(find_directives(text, shown));
  script.path = std::move(path);
  script.text = std::move(text);
  return script;
}

Result<Script> read_script(const std::string& path, std::uint64_t bytes_max) {
  const int fd = path == "-" ? dup(STDIN_FILENO) : open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno_error(path);
  std::string text;
  struct stat st {};
  const bool is_directory = fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
  ssize_t got = is_directory ? -1 : 1;
  std::string chunk(64 * 1024, '\0');
  while (got > 0 && text.size() <= bytes_max) {
    got = read(fd, chunk.data(), chunk.size());
    if (got > 0) text.append(chunk, 0, static_cast<std::size_t>(got));
  }
  Error error = errno_error(path);
  close(fd);
  if (is_directory) return Error(Code::kInvalid, fmt::format("{}: is a directory, not a script", path));
  if (got < 0) return error;
  return check_script(path == "-" ? "" : path, std::move(text), bytes_max);
}

Script wrap_script(const std::string& command) {
  Script script;
  script.text = "#!/bin/sh\n" + command + "\n";
  return script;
}

}  // namespace bourse::cli
