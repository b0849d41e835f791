// Artifacts of tasks, as files: each once, under its digest, for all tasks that name it.
//
// STATE/artifacts/sha256-HEX, mode 0555, so that every user may read and execute it. Written beside and renamed; checked against the
// digest when it arrives, and once more in each life of the agent before it is used (a power loss may leave half a file).
// When they take more than the limit, the longest unused go; the last kRecent used stay. Owned by Host; blocking, but small.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/core/result.h"
#include "common/core/task.h"
#include "common/core/units.h"

namespace bourse {

class ArtifactStore {
 public:
  static constexpr Bytes kBytesMax{1024LL * 1024 * 1024};
  static constexpr std::uint64_t kRecent = 64;

  static Result<ArtifactStore> open(const std::string& directory, Bytes limit = kBytesMax);
  // The file's path. kInvalid: the bytes are not what the digest says; kNotFound: no bytes came and none are here.
  Result<std::string> keep(const Artifact& artifact);
  // Keeps all artifacts of a task, puts their paths in place of "{artifact:NAME}" in argv, and drops their bytes.
  Result<> resolve(TaskSpec& spec);
  [[nodiscard]] Bytes bytes() const { return bytes_; }
  // Directories above that others may not pass through: tasks of other users will not reach their scripts.
  [[nodiscard]] std::vector<std::string> closed_directories() const;

 private:
  struct File {
    Bytes size;
    std::uint64_t used = 0;
    bool checked = false;
  };
  void evict();

  std::string directory_;
  Bytes limit_, bytes_;
  std::uint64_t uses_ = 0;
  std::map<std::string, File> files_;  // by file name
};

}  // namespace bourse
