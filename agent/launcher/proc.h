// What keeper and launcher ask the kernel.
#pragma once

#include <time.h>

#include <cstdint>
#include <string>

#include "agent/isolators/cgroup_files.h"

namespace bourse::launcher {

inline std::int64_t now_ms() {
  struct timespec now {};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
}

// "" where it cannot be read.
inline std::string read_text(const std::string& path) {
  // Not by a stream: of a process that ends meanwhile it cannot be read to its end, and a stream throws.
  auto text = cgroup::read_file(path);
  return text ? *std::move(text) : std::string();
}

}  // namespace bourse::launcher
