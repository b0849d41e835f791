// This process as one that submits jobs: whose it is, where it is, what its jobs inherit.
#pragma once

#include <string>

#include "frameworks/cli/submit_options.h"

namespace bourse::cli {

Submitter this_process();
// Unique enough for one user's submissions within a day, which is how long the framework remembers it.
std::string submission_key();

}  // namespace bourse::cli
