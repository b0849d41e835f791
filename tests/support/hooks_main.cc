// The main of every test binary. BOURSE_MUTANT disables mechanisms here as it does in the programs, so that `make check-mutants`
// sees which tests notice.
#include <gtest/gtest.h>

#include <cstdlib>

#include "common/core/hooks.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  bourse::hooks::init(nullptr, std::getenv("BOURSE_MUTANT"));  // NOLINT(concurrency-mt-unsafe)
  return RUN_ALL_TESTS();
}
