#include "frameworks/cli/commands.h"

int main(int argc, char** argv) { return bourse::cli::submit_main(argc, argv); }
