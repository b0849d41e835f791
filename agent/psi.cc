#include "agent/psi.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "agent/isolators/cgroup_files.h"
#include "common/world/files.h"
#include "common/world/log.h"

namespace bourse {
namespace {

constexpr std::size_t kFileMax = 4096;

// What a test gives instead of the kernel's is a plain file, which no epoll takes.
bool pollable(int fd) {
  const int set = epoll_create1(EPOLL_CLOEXEC);
  epoll_event event{};
  event.events = EPOLLPRI;
  const bool can = set >= 0 && epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0;
  if (set >= 0) close(set);
  return can;
}

}  // namespace

Result<std::int32_t> parse_pressure(std::string_view text) {
  constexpr std::string_view kStart = "some avg10=";
  const std::size_t at = text.find(kStart);
  const Error bad(Code::kCorrupt, "no line \"some avg10=\" in it");
  if (at == std::string_view::npos || (at != 0 && text[at - 1] != '\n')) return bad;
  text.remove_prefix(at + kStart.size());
  std::int32_t whole = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, whole);
  if (error != std::errc() || whole < 0 || whole > 100) return bad;
  std::int32_t tenths = 0;
  if (end + 1 < last && *end == '.' && end[1] >= '0' && end[1] <= '9') tenths = end[1] - '0';
  return whole * 10 + tenths;
}

std::vector<std::pair<std::string, std::string>> pressure_files(const std::string& root, const std::string& cgroup_root) {
  std::vector<std::pair<std::string, std::string>> files = {{"host", (root == "/" ? "" : root) + "/proc/pressure/memory"}};
  if (const std::string v2 = cgroup::find_mounts().v2; !v2.empty())
    files.emplace_back("slices", v2 + "/" + cgroup_root + "/memory.pressure");
  return files;
}

PsiWatch::PsiWatch(Reactor& reactor, std::vector<std::pair<std::string, std::string>> files, Post post)
    : reactor_(reactor), post_(std::move(post)) {
  for (auto& [scope, path] : files) files_.push_back({std::move(scope), std::move(path), -1, 0, false});
  for (File& file : files_) install(file);
}

PsiWatch::~PsiWatch() {
  for (File& file : files_) drop(file);
}

std::size_t PsiWatch::triggers() const {
  return static_cast<std::size_t>(std::count_if(files_.begin(), files_.end(), [](const File& f) { return f.fd >= 0; }));
}

void PsiWatch::install(File& file) {
  if (file.fd >= 0 || file.refused) return;
  const int fd = open(file.path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT) return;             // not there yet
  const auto set = [fd](std::string_view trigger) {  // with its NUL, as the kernel's own example writes it
    const std::string text(trigger);
    return write(fd, text.c_str(), text.size() + 1) == static_cast<ssize_t>(text.size() + 1);
  };
  if (fd < 0 || !pollable(fd) || (!set(kTrigger) && !set(kSlowTrigger))) {
    log_event(LogLevel::kWarn, "no_pressure_trigger",
              {{"file", file.path}, {"reason", errno_error("trigger").text()}, {"then", "its averages are read instead"}});
    if (fd >= 0) close(fd);
    file.refused = true;
    return;
  }
  file.fd = fd;
  file.watch = reactor_.watch(fd, EPOLLPRI, [this, &file](std::uint32_t events) {
    if ((events & EPOLLERR) != 0) return drop(file);  // its group has been removed; sample() finds the next one
    read(file, true);
  });
}

void PsiWatch::drop(File& file) {
  if (file.fd < 0) return;
  reactor_.unwatch(file.watch);
  close(file.fd);
  file.fd = -1;
}

void PsiWatch::read(const File& file, bool trigger) {
  const auto text = read_file(file.path, kFileMax);
  if (!text) return;
  const auto permille = parse_pressure(*text);
  if (!permille) return;
  post_(PressureSample{*permille, file.scope, trigger});
}

void PsiWatch::sample() {
  for (File& file : files_) {
    install(file);
    read(file, false);
  }
}

}  // namespace bourse
