#include "frameworks/cli/console_url.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "common/world/files.h"

namespace bourse::cli {
namespace {

constexpr const char* kName = "/console.url";
constexpr std::size_t kUrlBytesMax = 256;
constexpr int kLooks = 50;  // somebody who only asks holds the lock for a moment
constexpr int kLookAgainMs = 10;

}  // namespace

ToldUrl::~ToldUrl() {
  if (fd_ < 0) return;
  unlink(path_.c_str());
  close(fd_);
}

Result<ToldUrl> tell_console_url(const std::string& run_directory, const std::string& url) {
  const std::string path = run_directory + kName;
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return errno_error("open " + path);
  for (int i = 0; flock(fd, LOCK_EX | LOCK_NB) != 0; ++i) {
    if (errno == EWOULDBLOCK && i < kLooks) {
      poll(nullptr, 0, kLookAgainMs);
      continue;
    }
    close(fd);
    return Error(Code::kBusy, "another bourse-console serves this cluster: " + path + " is locked");
  }
  if (ftruncate(fd, 0) != 0 || !write_all(fd, url + "\n")) {
    Error error = errno_error("write " + path);
    close(fd);
    return error;
  }
  return ToldUrl(path, fd);
}

std::string console_url(const std::string& run_directory) {
  const std::string path = run_directory + kName;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return "";
  const bool abandoned = flock(fd, LOCK_SH | LOCK_NB) == 0;
  close(fd);
  const auto text = read_file(path, kUrlBytesMax);
  if (abandoned || !text) return "";
  return text->substr(0, text->find('\n'));
}

}  // namespace bourse::cli
