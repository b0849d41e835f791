#!/bin/bash
#SBATCH --job-name=omp
#SBATCH --cpus-per-task=2
#SBATCH --time=5
#SBATCH --output=omp.out
cat > omp.c <<'C'
#include <omp.h>
#include <stdio.h>
int main(void) {
  double sum = 0;
#pragma omp parallel for reduction(+ : sum)
  for (int i = 1; i <= 1000000; ++i) sum += 1.0 / i / i;
  printf("threads %d sum %.6f\n", omp_get_max_threads(), sum);
  return 0;
}
C
gcc -O2 -fopenmp omp.c -o omp || exit 3
export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK
./omp
