#!/bin/bash
#SBATCH --job-name=trainer          # shown in the queue
#SBATCH --nodes=1                   # hosts
#SBATCH --ntasks-per-node=1         # crucial: one launcher per host
#SBATCH --cpus-per-task=2           # cores
#SBATCH --hint=nomultithread
#SBATCH --time 100:00:00            # maximum run time
#SBATCH --output=%x-%j.out          # output file
#SBATCH --qos=long

set -e
[ -f "$HOME/site-settings-that-may-be-missing" ] && source "$HOME/site-settings-that-may-be-missing"
export MASTER_HOST=${SLURM_JOB_NODELIST%%,*}
echo "launching on $SLURM_NNODES host(s), $SLURM_CPUS_PER_TASK cores each, rank $SLURM_PROCID"
echo "done"
