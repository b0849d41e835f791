// The command `bourse simulate`. See commands.h for the conventions.
#pragma once

namespace bourse::cli {

int simulate_main(int argc, char** argv);

}  // namespace bourse::cli
