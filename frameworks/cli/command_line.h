// What the commands on CLI11 share: --dir, exit statuses, one form of complaint. Includes CLI11; for .cc files.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <string>

#include "frameworks/cli/complain.h"

namespace bourse::cli {

// -1: go on. Else the exit status: 0 after --help, 2 for wrong use.
inline int parse(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
    return -1;
  } catch (const CLI::ParseError& error) { return app.exit(error) == 0 ? 0 : 2; }
}

// --dir D, which is BOURSE_DIR=D.
inline void add_directory(CLI::App& app) {
  app.add_option_function<std::string>(
      "--dir", [](const std::string& dir) { setenv("BOURSE_DIR", dir.c_str(), 1); },  // NOLINT(concurrency-mt-unsafe)
      "Directory of the cluster (default: $BOURSE_DIR)");
}

}  // namespace bourse::cli
