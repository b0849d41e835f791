// A directory of our own for as long as this lives, such as for the copies that a plugin's loader makes.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace bourse::cli {

struct Scratch {
  std::string path;  // "": there is none
  Scratch() {
    const char* base = getenv("TMPDIR");  // NOLINT(concurrency-mt-unsafe)
    path = std::string(base == nullptr || *base == 0 ? "/tmp" : base) + "/bourse-plugin-XXXXXX";
    if (mkdtemp(path.data()) == nullptr) path.clear();
  }
  ~Scratch() {
    std::error_code ignored;
    if (!path.empty()) std::filesystem::remove_all(path, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
};

}  // namespace bourse::cli
