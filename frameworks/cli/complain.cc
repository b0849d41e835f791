#include "frameworks/cli/complain.h"

#include <cstdio>

namespace bourse::cli {

int complain(const std::string& program, const Error& error, int status) {
  std::fprintf(stderr, "%s: %s\n", program.c_str(), error.text().c_str());
  return status;
}

}  // namespace bourse::cli
