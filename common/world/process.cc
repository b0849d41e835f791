// A process's own affairs: its incarnation and saying that it is ready. See driver.h.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "common/world/driver.h"
#include "common/world/files.h"
#include "common/world/log.h"

namespace bourse {

Result<Incarnation> next_incarnation(const std::string& state_dir) {
  BOURSE_TRY(make_directories(state_dir, 0700));
  const std::string path = state_dir + "/incarnation";
  std::uint64_t last = 0;
  const auto content = read_file(path, 64);
  if (content) {
    const auto [end, error] = std::from_chars(content->data(), content->data() + content->size(), last);
    if (error != std::errc() || std::string_view(end) != "\n")
      return Error(Code::kCorrupt, path + " does not hold a number; remove it to start from the clock");
  } else if (content.error().code() != Code::kNotFound) {
    return content.error();
  }
  const auto clock = static_cast<std::uint64_t>(std::max<std::int64_t>(real_time().wall.count() / 1'000'000, 1));
  const std::uint64_t next = std::max(last + 1, clock);
  BOURSE_TRY(write_file(path, std::to_string(next) + "\n", 0600));
  return Incarnation(next);
}

void announce_ready(int ready_fd) {
  if (ready_fd >= 0) {
    if (!write_all(ready_fd, "\n"))
      log_event(LogLevel::kWarn, "ready_not_written", {{"fd", std::to_string(ready_fd)}, {"action", "ignoring"}});
    close(ready_fd);
  }
  const char* socket_path = std::getenv("NOTIFY_SOCKET");  // NOLINT(concurrency-mt-unsafe)
  sockaddr_un address{};
  if (socket_path == nullptr || std::strlen(socket_path) < 2 || std::strlen(socket_path) >= sizeof address.sun_path) return;
  address.sun_family = AF_UNIX;
  const std::size_t length = std::strlen(socket_path);
  std::memcpy(address.sun_path, socket_path, length);
  if (address.sun_path[0] == '@') address.sun_path[0] = 0;  // the abstract name space
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  (void)sendto(fd, "READY=1", 7, MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&address),
               static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length));
  close(fd);
}

}  // namespace bourse
