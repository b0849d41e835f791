#!/bin/bash
#SBATCH -J shorty   
#SBATCH -p main  
#SBATCH -N 1 
#SBATCH -n 1
#SBATCH -c 1 
#SBATCH -t 10
#SBATCH -o shorty.out
what="$1"
shift
echo "what=$what rest=$*"
echo "cpus=$SLURM_CPUS_PER_TASK nodes=$SLURM_NNODES"
