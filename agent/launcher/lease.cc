#include "agent/launcher/lease.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace bourse::launcher {

std::int64_t lease_grace_ms(const TaskSpec& spec) {
  return spec.fence_lease ? std::chrono::duration_cast<milliseconds>(std::max(spec.kill_grace, Duration(0))).count() : -1;
}

LeasePage::~LeasePage() {
  if (page_ != &own_) munmap(page_, sizeof(Page));
}

Result<> LeasePage::open(const std::string& state_dir) {
  const std::string path = state_dir + "/lease";
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return errno_error("open " + path);
  // Not sparse: a write to the page must not fail later.
  const int failure = posix_fallocate(fd, 0, sizeof(Page));
  void* at = failure == 0 ? mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
  if (failure != 0) errno = failure;
  const bool mapped = at != MAP_FAILED;
  Error error = mapped ? Error(Code::kIo, "") : errno_error("map " + path);
  close(fd);
  if (!mapped) return error;
  page_ = static_cast<Page*>(at);
  return {};
}

}  // namespace bourse::launcher
