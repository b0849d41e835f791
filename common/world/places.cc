// Where a cluster's files are. Apart from config.cc, so that a tool that reads no configuration brings no parser with it.
#include <unistd.h>

#include <cstdlib>

#include "common/world/config.h"

namespace bourse {

Places Places::find() {
  const char* named = std::getenv("BOURSE_DIR");  // NOLINT(concurrency-mt-unsafe)
  std::string dir = named == nullptr ? "" : named;
  if (dir.empty() && access("/etc/bourse/bourse.conf", F_OK) != 0) {
    const char* home = std::getenv("HOME");  // NOLINT(concurrency-mt-unsafe)
    if (home != nullptr && *home != 0 && access((std::string(home) + "/.bourse/bourse.conf").c_str(), F_OK) == 0)
      dir = std::string(home) + "/.bourse";
  }
  if (dir.empty()) return {"/etc/bourse/bourse.conf", "/etc/bourse/keys", "/run/bourse", "/var/lib/bourse", "/var/log/bourse"};
  return {dir + "/bourse.conf", dir + "/keys", dir + "/run", dir + "/state", dir + "/log"};
}

}  // namespace bourse
