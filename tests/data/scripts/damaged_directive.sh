#!/bin/bash -l
#SBATCH -J UPPER
#S BATCH -A nobody
#SBATCH -o Upper.o%j
#SBATCH -e Upper.e%j
#SBATCH -t 00:10:00
#SBATCH -N 1
#SBATCH --exclusive
#SBATCH --gpu-bind=none
echo "to output"
echo "to error" >&2
