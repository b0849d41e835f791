#include <cstdlib>

#include "common/core/hooks.h"
#include "frameworks/cli/commands.h"

int main(int argc, char** argv) {
  bourse::hooks::init(nullptr, std::getenv("BOURSE_MUTANT"));  // NOLINT(concurrency-mt-unsafe)
  return bourse::cli::submit_main(argc, argv);
}
