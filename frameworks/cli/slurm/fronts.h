// Slurm's commands by name, for scripts and tools that call them: links to `bourse` in a directory of their own (see Makefile), which
// the batch framework puts in front of a job's PATH. What they print and how they end is Slurm 22.05's, as srun(1), squeue(1),
// scancel(1), sinfo(1), sacct(1), scontrol(1), salloc(1) have it; bourse-slurm(1) says what they leave out.
#pragma once

#include <string_view>

namespace bourse::cli {

using Main = int (*)(int argc, char** argv);
// The front of that name (argv[0] without its directory), or nullptr.
Main slurm_front(std::string_view name);

int srun_main(int argc, char** argv);
int salloc_main(int argc, char** argv);
int squeue_main(int argc, char** argv);
int scancel_main(int argc, char** argv);
int sinfo_main(int argc, char** argv);
int sacct_main(int argc, char** argv);
int scontrol_main(int argc, char** argv);

}  // namespace bourse::cli
