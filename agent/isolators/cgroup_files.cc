#include "agent/isolators/cgroup_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

namespace bourse::cgroup {

namespace {

std::string_view next_word(std::string_view& line, char end = ' ') {
  const auto stop = line.find(end);
  const std::string_view word = line.substr(0, stop);
  line.remove_prefix(stop == std::string_view::npos ? line.size() : stop + 1);
  return word;
}

std::int64_t number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end != text.data() ? value : -1;
}

}  // namespace

Mounts find_mounts(const std::string& mounts_file) {
  Mounts mounts;
  const auto text = read_file(mounts_file);
  if (!text) return mounts;
  std::string_view rest = *text;
  while (!rest.empty()) {
    std::string_view line = next_word(rest, '\n');
    next_word(line);
    const std::string_view where = next_word(line);
    const std::string_view type = next_word(line);
    std::string_view options = next_word(line);
    if (type == "cgroup2" && mounts.v2.empty()) mounts.v2 = std::string(where);
    if (type != "cgroup") continue;
    while (!options.empty()) {
      const std::string_view option = next_word(options, ',');
      for (const std::string_view c : {"cpu", "cpuset", "cpuacct", "memory", "pids", "freezer", "blkio", "devices"}) {
        if (option == c) mounts.v1.emplace(std::string(c), std::string(where));
      }
    }
  }
  return mounts;
}

Result<> make_dir(const std::string& path) {
  if (mkdir(path.c_str(), 0755) == 0 || errno == EEXIST) return {};
  return errno_error("mkdir " + path);
}

Result<> remove_dir(const std::string& path) {
  if (rmdir(path.c_str()) == 0 || errno == ENOENT) return {};
  if (errno == EBUSY) return Error(Code::kBusy, "rmdir " + path + ": processes or sub-groups are still in it");
  return errno_error("rmdir " + path);
}

Result<> write_file(const std::string& path, std::string_view text) {
  const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return errno_error("open " + path);
  const ssize_t n = write(fd, text.data(), text.size());
  const int error = errno;
  close(fd);
  errno = error;
  if (n == static_cast<ssize_t>(text.size())) return {};
  if (error == EBUSY) return Error(Code::kBusy, "write \"" + std::string(text) + "\" to " + path + ": busy");
  return errno_error("write \"" + std::string(text) + "\" to " + path);
}

Result<std::string> read_file(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno_error("open " + path);
  std::string out;
  char buffer[4096];
  ssize_t n = 0;
  while ((n = read(fd, buffer, sizeof buffer)) > 0) out.append(buffer, static_cast<std::size_t>(n));
  const int error = errno;
  close(fd);
  errno = error;
  if (n < 0) return errno_error("read " + path);
  return out;
}

Result<std::string> read_kept(int& fd, const std::string& path, bool writable) {
  if (fd < 0) fd = open(path.c_str(), (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);
  if (fd < 0) return errno_error("open " + path);
  char buffer[4096];
  const ssize_t n = pread(fd, buffer, sizeof buffer, 0);
  if (n < 0) return errno_error("read " + path);
  return std::string(buffer, static_cast<std::size_t>(n));
}

std::int64_t to_number(std::string_view text) { return number(text); }

std::int64_t read_number(const std::string& path) {
  const auto text = read_file(path);
  return text ? number(*text) : -1;
}

std::int64_t value_of(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    std::string_view line = next_word(text, '\n');
    if (next_word(line) == key) return number(line);
  }
  return -1;
}

std::vector<std::string> children(const std::string& path) {
  std::vector<std::string> names;
  DIR* dir = opendir(path.c_str());
  if (!dir) return names;
  while (const dirent* entry = readdir(dir)) {
    if (entry->d_name[0] != '.' && entry->d_type == DT_DIR) names.emplace_back(entry->d_name);
  }
  closedir(dir);
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<pid_t> members(const std::string& path) {
  std::vector<pid_t> pids;
  const auto text = read_file(path + "/cgroup.procs");
  if (!text) return pids;
  std::string_view rest = *text;
  while (!rest.empty()) {
    const auto pid = number(next_word(rest, '\n'));
    if (pid > 0) pids.push_back(static_cast<pid_t>(pid));  // 0: a process of another pid namespace
  }
  return pids;
}

bool exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

std::string list_text(const std::vector<std::uint32_t>& set) {
  std::string out;
  for (const auto n : set) out += (out.empty() ? "" : ",") + std::to_string(n);
  return out;
}

std::vector<std::uint32_t> parse_list(std::string_view text) {
  constexpr std::int64_t kMost = 65'536;
  std::vector<std::uint32_t> out;
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  while (!text.empty()) {
    std::string_view range = next_word(text, ',');
    const std::int64_t first = number(next_word(range, '-'));
    const std::int64_t last = range.empty() ? first : number(range);
    for (std::int64_t n = first; n >= 0 && n <= last && n < kMost; ++n) out.push_back(static_cast<std::uint32_t>(n));
  }
  std::sort(out.begin(), out.end());
  return out;
}

void kill_round(const std::string& path) {
  if (write_file(path + "/cgroup.kill", "1")) return;
  for (const auto& name : children(path)) kill_round(path + "/" + name);
  // Frozen processes cannot fork, so that one round reaches all of them.
  const bool frozen = static_cast<bool>(write_file(path + "/freezer.state", "FROZEN"));
  for (const auto pid : members(path)) ::kill(pid, SIGKILL);
  if (frozen) (void)write_file(path + "/freezer.state", "THAWED");
}

bool is_empty(const std::string& path) {
  const auto events = read_file(path + "/cgroup.events");
  if (events) return value_of(*events, "populated") == 0;
  if (!members(path).empty()) return false;
  const auto names = children(path);
  return std::all_of(names.begin(), names.end(), [&](const std::string& name) { return is_empty(path + "/" + name); });
}

}  // namespace bourse::cgroup
