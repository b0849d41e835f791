#include "agent/artifacts.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <tuple>

#include "common/world/digest.h"
#include "common/world/files.h"

namespace bourse {
namespace {

constexpr std::string_view kScheme = "sha256:";
constexpr std::size_t kHexDigits = 64;
constexpr std::size_t kFileMax = 256UL * 1024 * 1024;

// "sha256:HEX" -> "sha256-HEX"; "" where it is not a digest. Only such names ever become paths.
std::string file_name(const std::string& digest) {
  if (digest.size() != kScheme.size() + kHexDigits || digest.compare(0, kScheme.size(), kScheme) != 0) return {};
  const std::string hex = digest.substr(kScheme.size());
  if (hex.find_first_not_of("0123456789abcdef") != std::string::npos) return {};
  return "sha256-" + hex;
}

}  // namespace

Result<ArtifactStore> ArtifactStore::open(const std::string& directory, Bytes limit) {
  ArtifactStore store;
  store.directory_ = directory;
  store.limit_ = limit;
  BOURSE_TRY(make_directories(directory, 0711));
  DIR* dir = opendir(directory.c_str());
  if (dir == nullptr) return errno_error("open " + directory);
  struct Found {
    timespec modified;
    std::string name;
    Bytes size;
  };
  std::vector<Found> found;
  while (const dirent* entry = readdir(dir)) {
    const std::string name = entry->d_name;
    const std::string path = directory + "/" + name;
    struct stat st;
    if (name.compare(0, 5, ".tmp-") == 0) unlink(path.c_str());  // of a life that ended while writing it
    if (name.compare(0, 7, "sha256-") != 0 || stat(path.c_str(), &st) != 0) continue;
    found.push_back({st.st_mtim, name, Bytes{st.st_size}});
  }
  closedir(dir);
  std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
    return std::tie(a.modified.tv_sec, a.modified.tv_nsec, a.name) < std::tie(b.modified.tv_sec, b.modified.tv_nsec, b.name);
  });
  for (const Found& one : found) {
    store.files_[one.name] = File{one.size, ++store.uses_, false};
    store.bytes_.value += one.size.value;
  }
  return store;
}

Result<std::string> ArtifactStore::keep(const Artifact& artifact) {
  const std::string name = file_name(artifact.digest);
  if (name.empty())
    return Error(Code::kInvalid, "artifact " + artifact.name + ": '" + artifact.digest + "' is not a sha256 digest");
  std::string path = directory_ + "/" + name;
  if (const auto it = files_.find(name); it != files_.end()) {
    if (!it->second.checked) {
      const auto content = read_file(path, kFileMax);
      it->second.checked = content && "sha256-" + sha256_hex(*content) == name;
    }
    if (it->second.checked) {
      it->second.used = ++uses_;
      return path;
    }
    unlink(path.c_str());
    bytes_.value -= it->second.size.value;
    files_.erase(it);
  }
  if (artifact.inline_bytes.empty() && artifact.digest.substr(kScheme.size()) != sha256_hex({}))
    return Error(Code::kNotFound,
                 "artifact " + artifact.name + " (" + artifact.digest + ") is not on this agent and did not come with the task");
  if ("sha256-" + sha256_hex(artifact.inline_bytes) != name)
    return Error(Code::kInvalid, "artifact " + artifact.name + " is not what its digest " + artifact.digest + " says");
  const std::string beside = directory_ + "/.tmp-" + name;
  unlink(beside.c_str());
  const int fd = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return errno_error("write " + beside);
  const bool written = write_all(fd, artifact.inline_bytes) && fchmod(fd, 0555) == 0;
  if (!written || rename(beside.c_str(), path.c_str()) != 0) {
    Error error = errno_error("write " + path);
    ::close(fd);
    unlink(beside.c_str());
    return error;
  }
  ::close(fd);
  files_[name] = File{Bytes{static_cast<std::int64_t>(artifact.inline_bytes.size())}, ++uses_, true};
  bytes_.value += static_cast<std::int64_t>(artifact.inline_bytes.size());
  evict();
  return path;
}

void ArtifactStore::evict() {
  while (bytes_ > limit_) {
    auto oldest = files_.end();
    for (auto it = files_.begin(); it != files_.end(); ++it)
      if (oldest == files_.end() || it->second.used < oldest->second.used) oldest = it;
    if (oldest == files_.end() || oldest->second.used + kRecent > uses_) return;
    unlink((directory_ + "/" + oldest->first).c_str());
    bytes_.value -= oldest->second.size.value;
    files_.erase(oldest);
  }
}

Result<> ArtifactStore::resolve(TaskSpec& spec) {
  for (const Artifact& artifact : spec.artifacts) {
    const std::string path = BOURSE_TRY(keep(artifact));
    const std::string hole = "{artifact:" + artifact.name + "}";
    for (std::string& word : spec.argv)
      if (word == hole) word = path;
  }
  for (const std::string& word : spec.argv)
    if (word.compare(0, 10, "{artifact:") == 0 && word.back() == '}')
      return Error(Code::kInvalid, "the task names " + word + " but brings no such artifact");
  spec.artifacts.clear();
  return {};
}

std::vector<std::string> ArtifactStore::closed_directories() const {
  std::vector<std::string> closed;
  for (std::string path = directory_; !path.empty() && path != "/" && path != "."; path = directory_of(path)) {
    struct stat st;
    if (stat(path.c_str(), &st) == 0 && (st.st_mode & S_IXOTH) == 0) closed.push_back(path);
  }
  return closed;
}

}  // namespace bourse
