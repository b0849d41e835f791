#!/bin/bash
#SBATCH --job-name=steps
# #SBATCH --array=0-999
#SBATCH --oversubscribe
#SBATCH --exclude=nohost[1,3-4]
#SBATCH --time=0-01:00:00
#SBATCH --output=steps_%A_%a.out
# #SBATCH --mail-type=ALL
echo "$SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_COUNT in $SLURM_ARRAY_JOB_ID"
