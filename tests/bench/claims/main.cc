// make bench-claims: what is claimed, on which work, against what, what was measured, and whether it is so. Minutes; with --quick
// seconds, on less.
#include <fmt/format.h>

#include <chrono>

#include "common/world/command_line.h"
#include "common/world/files.h"
#include "tests/bench/claims/claim.h"

int main(int argc, char** argv) {
  using namespace bourse;
  claims::Options options;
  std::string only;
  CommandLine line("Runs the experiments behind what Bourse claims of its policies, and says what held.", "claims");
  line.flag("--quick", options.quick, "seconds: fewer logs, their first jobs, fewer seeds");
  line.option("--directory", options.directory, "writes claims.md and claims.svg there");
  line.option("--only", only, "learners, orders, fairness, packing, quota or elastic");
  if (const int status = line.parse(argc, argv); status >= 0) return status;
  if (!options.directory.empty())
    if (auto made = make_directories(options.directory); !made) return fmt::print(stderr, "claims: {}\n", made.error().text()), 1;
  const auto began = std::chrono::steady_clock::now();
  claims::Table table;
  const struct {
    const char* name;
    void (*run)(claims::Table&, const claims::Options&);
  } parts[] = {{"elastic", claims::elastic}, {"quota", claims::quota},     {"learners", claims::learners},
               {"orders", claims::orders},   {"packing", claims::packing}, {"fairness", claims::fairness}};
  for (const auto& part : parts)
    if (only.empty() || only == part.name) part.run(table, options);
  fmt::print("\n{}\n{:.0f} s\n", table.text(), std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
  if (!options.directory.empty())
    if (auto written = write_file(options.directory + "/claims.md", table.markdown(), 0644); !written)
      return fmt::print(stderr, "claims: {}\n", written.error().text()), 1;
  return 0;
}
