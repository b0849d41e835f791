#include "agent/launcher/exit_log.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <optional>

namespace bourse::launcher {

namespace {

std::string_view take_word(std::string_view& line) {
  const auto space = line.find(' ');
  const std::string_view word = line.substr(0, space);
  line.remove_prefix(space == std::string_view::npos ? line.size() : space + 1);
  return word;
}

bool take_number(std::string_view& line, std::int64_t& out) {
  const std::string_view word = take_word(line);
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), out);
  return error == std::errc() && end == word.data() + word.size() && !word.empty();
}

std::string start_line(const TaskKey& key, const ExitLog::Task& t) {
  return start_prefix(key, t.slice) + std::to_string(t.pid) + " " + std::to_string(t.ticks) +
         start_suffix(t.leaf, t.lease_grace_ms);
}

std::string end_line(const ExitLog::Task& t) {
  return "E " + std::to_string(t.pid) + " " + std::to_string(t.wait_status) + " " + std::to_string(t.cpu.count()) +
         (t.out_of_memory ? " 1 " : " 0 ") + std::to_string(t.mem_peak.value) + "\n";
}

Result<> write_all(int fd, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t n = write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return errno_error("write " + path);
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

}  // namespace

std::string start_prefix(const TaskKey& key, const SliceId& slice) { return "S " + key_word(key) + " " + slice_word(slice) + " "; }
std::string start_suffix(const std::string& leaf, std::int64_t lease_grace_ms) {
  return " " + (leaf.empty() ? "-" : leaf) + (lease_grace_ms < 0 ? "" : " lease=" + std::to_string(lease_grace_ms)) + "\n";
}

EndWriter::~EndWriter() {
  if (fd_ >= 0) close(fd_);
}

bool EndWriter::append(pid_t pid, int wait_status, std::int64_t cpu_us) {
  char line[128];
  const int length = std::snprintf(line, sizeof line, "E %d %d %lld 0 0\n", pid, wait_status, static_cast<long long>(cpu_us));
  for (int attempt = 0; attempt < 8; ++attempt) {
    if (fd_ < 0) fd_ = open(path_, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (fd_ < 0) return errno == ENOENT;  // no launcher has run yet: there are no tasks whose end could matter
    // The launcher may have put another file in its place; it holds the lock while it does.
    struct stat now {};
    const bool current = flock(fd_, LOCK_EX) == 0 && fstat(fd_, &now) == 0 && now.st_nlink != 0;
    if (current) {
      const ssize_t n = write(fd_, line, static_cast<std::size_t>(length));
      if (n > 0 && n < length) (void)!write(fd_, "\n", 1);
      flock(fd_, LOCK_UN);
      return n == length;
    }
    close(fd_);
    fd_ = -1;
  }
  return false;
}

ExitLog::~ExitLog() {
  if (fd_ >= 0) close(fd_);
}

Result<> ExitLog::begin() {
  const int fd = ::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) return errno_error("open " + path_);
  if (fd_ >= 0) close(fd_);
  fd_ = fd;
  read_to_ = 0;
  return {};
}

Result<std::unique_ptr<ExitLog>> ExitLog::open(const std::string& path, const std::string& boot_id) {
  std::unique_ptr<ExitLog> log(new ExitLog(path, boot_id));
  BOURSE_TRY(log->begin());
  std::string head(4096, '\0');
  const ssize_t n = pread(log->fd_, head.data(), head.size(), 0);
  if (n < 0) return errno_error("read " + path);
  head.resize(static_cast<std::size_t>(n));
  const auto line_end = head.find('\n');
  const std::string want = "B " + boot_id;
  if (n > 0 && head.substr(0, line_end) != want) {
    log->rebooted_ = true;
    if (rename(path.c_str(), (path + ".old").c_str()) != 0) return errno_error("rename " + path);
    BOURSE_TRY(log->begin());
  }
  if (n == 0 || log->rebooted_) {
    BOURSE_TRY(log->append(want + "\n"));
    return log;
  }
  log->read_new();
  if (log->bytes() > log->read_to_) BOURSE_TRY(log->append("\n"));  // a torn tail: shut it off
  return log;
}

std::int64_t ExitLog::bytes() const {
  struct stat now {};
  return fstat(fd_, &now) == 0 ? now.st_size : 0;
}

Result<> ExitLog::append(std::string_view line) {
  std::string text(glued_ ? "\n" : "");
  text += line;
  const ssize_t n = write(fd_, text.data(), text.size());
  if (n == static_cast<ssize_t>(text.size())) {
    glued_ = false;
    return {};
  }
  if (n > 0) glued_ = true;
  if (n >= 0) errno = ENOSPC;
  return errno_error("append to " + path_);
}

std::vector<TaskKey> ExitLog::last_in_leaf() const {
  std::map<std::pair<SliceId, std::string>, std::pair<std::uint64_t, TaskKey>> last;
  for (const auto& [key, t] : tasks_) {
    auto& entry = last[{t.slice, t.leaf}];
    if (t.order > entry.first) entry = {t.order, key};
  }
  std::vector<TaskKey> out;
  for (auto& [where, entry] : last) out.push_back(std::move(entry.second));
  return out;
}

ExitLog::Task* ExitLog::find(const TaskKey& key) {
  const auto it = tasks_.find(key);
  return it == tasks_.end() ? nullptr : &it->second;
}

const TaskKey* ExitLog::running(pid_t pid) const {
  const auto it = by_pid_.find(pid);
  return it == by_pid_.end() ? nullptr : &it->second;
}

void ExitLog::started(const TaskKey& key, Task task) {
  by_pid_[task.pid] = key;
  task.order = ++starts_;
  tasks_[key] = std::move(task);
}

Result<> ExitLog::ended(const TaskKey& key, int wait_status, Duration cpu, bool out_of_memory, Bytes mem_peak) {
  Task* t = find(key);
  if (!t) return Error(Code::kNotFound, "exit log: no such task");
  t->how = How::kEnded;
  t->wait_status = wait_status;
  t->cpu = cpu;
  t->out_of_memory = out_of_memory;
  t->mem_peak = mem_peak;
  by_pid_.erase(t->pid);
  return append(end_line(*t));
}

Result<> ExitLog::resources(const TaskKey& key, Duration cpu, bool out_of_memory, Bytes mem_peak) {
  Task* t = find(key);
  if (!t) return Error(Code::kNotFound, "exit log: no such task");
  t->cpu = cpu;
  t->out_of_memory = out_of_memory;
  t->mem_peak = mem_peak;
  return append("R " + key_word(key) + " " + std::to_string(cpu.count()) + (out_of_memory ? " 1 " : " 0 ") +
                std::to_string(mem_peak.value) + "\n");
}

Result<> ExitLog::unknown(const TaskKey& key) {
  Task* t = find(key);
  if (!t) return Error(Code::kNotFound, "exit log: no such task");
  t->how = How::kUnknown;
  by_pid_.erase(t->pid);
  return append("U " + key_word(key) + "\n");
}

Result<> ExitLog::fenced(const TaskKey& key) {
  Task* t = find(key);
  if (!t) return Error(Code::kNotFound, "exit log: no such task");
  t->fenced = true;
  return append("N " + key_word(key) + "\n");
}

Result<> ExitLog::failed(const TaskKey& key, pid_t pid, std::string_view reason) {
  by_pid_.erase(pid);
  tasks_.erase(key);
  return append("X " + key_word(key) + " " + std::string(reason) + "\n");
}

Result<> ExitLog::forget(const std::vector<TaskKey>& keys) {
  std::string lines;
  for (const TaskKey& key : keys) {
    const auto it = tasks_.find(key);
    if (it == tasks_.end()) continue;
    by_pid_.erase(it->second.pid);
    tasks_.erase(it);
    lines += "F " + key_word(key) + "\n";
  }
  return lines.empty() ? Result<>() : append(lines);
}

// A line that cannot be read is passed over: it is what is left of a record that was cut short, and its writer was told.
void ExitLog::apply(std::string_view line, std::vector<TaskKey>& ended) {
  const std::string_view kind = take_word(line);
  std::int64_t pid = 0, a = 0, b = 0, c = 0, d = 0;
  if (kind == "E") {
    if (!take_number(line, pid) || !take_number(line, a) || !take_number(line, b) || !take_number(line, c) ||
        !take_number(line, d)) {
      return;
    }
    const auto it = by_pid_.find(static_cast<pid_t>(pid));
    if (it == by_pid_.end()) return;  // of no task, or the second record of one end
    Task& t = tasks_[it->second];
    if (t.how == How::kRunning) {
      t.how = How::kEnded;
      t.wait_status = static_cast<int>(a);
      t.cpu = Duration(b);
      t.out_of_memory = c != 0;
      t.mem_peak = Bytes{d};
      ended.push_back(it->second);
    }
    by_pid_.erase(it);
    return;
  }
  if (kind != "S" && kind != "F" && kind != "X" && kind != "U" && kind != "R" && kind != "N") return;
  const auto key = parse_key_word(take_word(line));
  if (!key) return;
  if (kind == "S") {
    const auto slice = parse_slice_word(take_word(line));
    if (!slice || !take_number(line, pid) || !take_number(line, a)) return;
    Task& old = tasks_[*key];
    if (old.pid == pid && old.ticks == a) {
      by_pid_[old.pid] = *key;  // our own, read back: up to its E, which follows, records of this pid are its own
      return;
    }
    old = Task{};
    old.order = ++starts_;
    old.slice = *slice;
    old.pid = static_cast<pid_t>(pid);
    old.ticks = a;
    const std::string_view leaf = take_word(line);
    old.leaf = leaf == "-" ? "" : std::string(leaf);
    if (line.starts_with("lease=")) {
      line.remove_prefix(6);
      if (take_number(line, b)) old.lease_grace_ms = b;
    }
    by_pid_[old.pid] = *key;
    return;
  }
  const auto it = tasks_.find(*key);
  if (it == tasks_.end()) return;
  Task& t = it->second;
  if (kind == "U") {
    t.how = How::kUnknown;
    by_pid_.erase(t.pid);
  } else if (kind == "N") {
    t.fenced = true;
  } else if (kind == "R") {
    if (!take_number(line, b) || !take_number(line, c) || !take_number(line, d)) return;
    t.cpu = Duration(b);
    t.out_of_memory = c != 0;
    t.mem_peak = Bytes{d};
  } else {
    by_pid_.erase(t.pid);
    tasks_.erase(it);
  }
}

std::vector<TaskKey> ExitLog::read_new() {
  std::vector<TaskKey> ended = std::move(late_);
  late_.clear();
  if (bytes() <= read_to_) return ended;
  std::string buffer(16 * 1024, '\0');
  std::string line;
  std::int64_t at = read_to_;
  for (;;) {
    const ssize_t n = pread(fd_, buffer.data(), buffer.size(), at);
    if (n <= 0) break;
    at += n;
    std::string_view rest(buffer.data(), static_cast<std::size_t>(n));
    for (auto end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
      line += rest.substr(0, end);
      rest.remove_prefix(end + 1);
      apply(line, ended);
      read_to_ += static_cast<std::int64_t>(line.size()) + 1;
      line.clear();
    }
    line += rest;
  }
  std::erase_if(ended, [&](const TaskKey& key) { return tasks_.count(key) == 0; });  // forgotten since
  return ended;
}

Result<> ExitLog::tidy() {
  const std::int64_t size = bytes();
  if (size < static_cast<std::int64_t>(kLogBytesLeast) || size < 2 * last_size_) return {};
  return rewrite();
}

Result<> ExitLog::rewrite() {
  // Under the lock nobody else appends; what the keeper has appended so far is taken over.
  if (flock(fd_, LOCK_EX) != 0) return errno_error("lock " + path_);
  late_ = read_new();
  std::string text = "B " + boot_id_ + "\n";
  const std::string fresh = path_ + ".new";
  const auto make = [&]() -> Result<> {
    std::vector<std::pair<std::uint64_t, const TaskKey*>> in_order;
    for (const auto& [key, t] : tasks_) in_order.emplace_back(t.order, &key);
    std::sort(in_order.begin(), in_order.end());
    for (const auto& [order, name] : in_order) {
      const TaskKey& key = *name;
      const Task& t = tasks_.at(key);
      text += start_line(key, t);
      if (t.fenced) text += "N " + key_word(key) + "\n";
      if (t.how == How::kEnded) text += end_line(t);
      if (t.how == How::kUnknown) text += "U " + key_word(key) + "\n";
    }
    const int fd = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) return errno_error("open " + fresh);
    auto written = write_all(fd, text, fresh);
    close(fd);
    if (written && rename(fresh.c_str(), path_.c_str()) != 0) written = errno_error("rename " + fresh);
    if (!written) unlink(fresh.c_str());
    return written;
  };
  auto made = make();
  flock(fd_, LOCK_UN);  // a keeper that waited sees that this file has no name any more
  if (!made) {
    last_size_ = bytes();  // not again at once
    return made;
  }
  BOURSE_TRY(begin());
  glued_ = false;
  read_to_ = last_size_ = static_cast<std::int64_t>(text.size());
  return {};
}

}  // namespace bourse::launcher
