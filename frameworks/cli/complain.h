// One form of complaint for the commands: "bourse up: what is wrong", and the exit status to end with.
#pragma once

#include <string>

#include "common/core/result.h"

namespace bourse::cli {

int complain(const std::string& program, const Error& error, int status = 1);

}  // namespace bourse::cli
