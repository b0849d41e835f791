// Directories of tasks that need one on disk (a private /tmp, a container's writable layer): STATE/scratch/NAME, made before the
// start and removed after the end. Removing may take long, so rm(1) does it, as a child of whoever asks; what is being removed
// has another name at once. Owned by the launcher, one thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <set>
#include <string>

#include "common/core/result.h"

namespace bourse::launcher {

class Scratch {
 public:
  explicit Scratch(std::string directory) : directory_(std::move(directory)) {}
  // An empty directory for this task that belongs to the user, closed to others. One that is there is emptied first.
  Result<std::string> make(const std::string& task, uid_t uid, gid_t gid);
  // A word that is kept with the directory, over restarts: of a guest, its hypervisor. "" where there is none.
  Result<> mark(const std::string& task, const std::string& word);
  [[nodiscard]] std::string mark_of(const std::string& task) const;
  void drop(const std::string& task);  // one that never was is fine
  // After a restart: those of these tasks are theirs, others are removed.
  void recover(const std::set<std::string>& tasks);

 private:
  void remove(const std::string& path);
  static std::string file_name(const std::string& task);

  std::string directory_;
  std::set<std::string> made_;  // by file name
  std::uint64_t removed_ = 0;
};

}  // namespace bourse::launcher
