#include "common/world/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace bourse {

std::string directory_of(const std::string& path) {
  const auto slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

Result<std::string> read_file(const std::string& path, std::size_t max) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno_error("open " + path);
  std::string content;
  char buffer[65536];
  while (true) {
    const ssize_t n = read(fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      Error error = errno_error("read " + path);
      close(fd);
      return error;
    }
    if (n == 0) break;
    content.append(buffer, static_cast<std::size_t>(n));
    if (content.size() > max) {
      close(fd);
      return Error(Code::kLimit, path + " has more than " + std::to_string(max) + " bytes");
    }
  }
  close(fd);
  return content;
}

Result<> flush_directory_of(const std::string& path) {
  const std::string directory = directory_of(path);
  const int fd = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return errno_error("open " + directory);
  const int rc = fsync(fd);
  Error error = errno_error("fsync " + directory);
  close(fd);
  if (rc != 0) return error;
  return {};
}

Result<> write_file(const std::string& path, std::string_view content, unsigned mode) {
  const std::string next = path + ".tmp";
  unlink(next.c_str());  // of a crash; O_EXCL below keeps us from writing through a link somebody planted
  const int fd = open(next.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (fd < 0) return errno_error("create " + next);
  const bool written = write_all(fd, content) && fchmod(fd, mode) == 0 && fsync(fd) == 0;
  Error error = errno_error("write " + next);
  close(fd);
  if (written && rename(next.c_str(), path.c_str()) == 0) return flush_directory_of(path);
  if (written) error = errno_error("rename " + next);
  unlink(next.c_str());
  return error;
}

Result<> make_directories(const std::string& path, unsigned mode) {
  if (path.empty()) return Error(Code::kInvalid, "directory name is empty");
  for (std::size_t at = 0; at != std::string::npos;) {
    at = path.find('/', at + 1);
    const std::string part = path.substr(0, at);
    if (part.empty() || mkdir(part.c_str(), mode) == 0 || errno == EEXIST) continue;
    struct stat st {};
    const int code = errno;  // EROFS, EACCES: fine where it is there already
    if (stat(part.c_str(), &st) == 0 && S_ISDIR(st.st_mode)) continue;
    errno = code;
    return errno_error("mkdir " + part);
  }
  struct stat st {};
  if (stat(path.c_str(), &st) != 0 || !S_ISDIR(st.st_mode)) return Error(Code::kIo, path + " is not a directory");
  return {};
}

}  // namespace bourse
