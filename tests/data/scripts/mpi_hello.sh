#!/bin/bash
#SBATCH --job-name=mpi
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --time=5
#SBATCH --output=mpi.out
cat > hello.c <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
  int rank, size, sum;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  printf("rank %d of %d on %s sum %d\n", rank, size, getenv("SLURMD_NODENAME") ? getenv("SLURMD_NODENAME") : "?", sum);
  MPI_Finalize();
  return 0;
}
C
sed -i '1i #include <stdlib.h>' hello.c
mpicc hello.c -o hello || exit 3
mpirun ./hello
