// Memory pressure as the kernel measures it (PSI): of the host, and of the tree of our slices where there is a v2 tree.
//
// A trigger `some 600000 1000000` (tasks stood still for 0.6 s of one second) in each file wakes us through the reactor; between triggers
// sample() reads the averages. A file without triggers (an older kernel, no rights, a test's plain file) is read only. Used by
// the agent's Host on the reactor's thread. See "Pressure".
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/core/event.h"
#include "common/core/result.h"
#include "common/world/reactor.h"

namespace bourse {

// The line "some avg10=12.34 ..." in permille; kCorrupt where there is none.
Result<std::int32_t> parse_pressure(std::string_view text);

class PsiWatch {
 public:
  static constexpr std::string_view kTrigger = "some 600000 1000000";
  static constexpr std::string_view kSlowTrigger = "some 1200000 2000000";  // what it takes from who is not CAP_SYS_RESOURCE

  using Post = std::function<void(PressureSample)>;
  // (scope, path of a memory pressure file). One that is not there yet is looked for again at each sample().
  PsiWatch(Reactor& reactor, std::vector<std::pair<std::string, std::string>> files, Post post);
  ~PsiWatch();
  PsiWatch(const PsiWatch&) = delete;
  PsiWatch& operator=(const PsiWatch&) = delete;

  void sample();  // posts one PressureSample for each file that can be read
  [[nodiscard]] std::size_t triggers() const;

 private:
  struct File {
    std::string scope, path;
    int fd = -1;
    Reactor::WatchId watch = 0;
    bool refused = false;  // it takes no trigger; said once
  };
  void install(File& file);
  void drop(File& file);
  void read(const File& file, bool trigger);

  Reactor& reactor_;
  std::vector<File> files_;
  Post post_;
};

// The files of this host: "host", and "slices" where a v2 tree has `cgroup_root`. `root`: before /proc, of tests; "" is the host's own.
std::vector<std::pair<std::string, std::string>> pressure_files(const std::string& root, const std::string& cgroup_root);

}  // namespace bourse
