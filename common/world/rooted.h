// The files of a host below a root: what /proc, /sys and /dev say, read as text. Absent and unreadable are told apart from empty.
//
// Used by the doctor and by probes that read sysfs, so that both can be shown another machine's tree. No state but the root.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace bourse {

class Rooted {
 public:
  explicit Rooted(std::string root) : root_(root == "/" ? std::string() : std::move(root)) {}
  [[nodiscard]] const std::string& root() const { return root_; }
  [[nodiscard]] bool real() const { return root_.empty(); }
  [[nodiscard]] std::string path(std::string_view path) const { return root_ + std::string(path); }

  // Without white space at the end; at most kTextMax bytes. Nothing: it cannot be read.
  static constexpr std::size_t kTextMax = 1024 * 1024;
  [[nodiscard]] std::optional<std::string> text(std::string_view path) const;
  // A whole decimal number, alone in the file. Nothing: there is none, or it does not fit.
  [[nodiscard]] std::optional<std::int64_t> number(std::string_view path) const;
  [[nodiscard]] bool exists(std::string_view path) const;
  [[nodiscard]] std::vector<std::string> names(std::string_view directory) const;  // sorted, without . and ..; empty: none
  // Permission bits and owner, links followed.
  struct Mode {
    unsigned bits = 0;
    uid_t uid = 0;
    gid_t gid = 0;
    bool character_device = false;
  };
  [[nodiscard]] std::optional<Mode> mode(std::string_view path) const;
  // Where a symbolic link leads: the last part of it ("../../../0000:3b:00.0" -> "0000:3b:00.0"). Empty: it is none.
  [[nodiscard]] std::string link_name(std::string_view path) const;
  // Processes whose command name (up to 15 bytes) is this, by number.
  [[nodiscard]] std::vector<pid_t> processes(std::string_view name) const;

 private:
  std::string root_;
};

// Words of a text, split at white space.
std::vector<std::string> words_of(std::string_view text);
// A whole decimal number.
std::optional<std::int64_t> whole_number(std::string_view text);

}  // namespace bourse
