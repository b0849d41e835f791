#!/bin/sh
#SBATCH --array=0-7
#SBATCH --time=48:00:00
#SBATCH --output=log_%A_%a.txt
#SBATCH --export=ALL
#SBATCH --mail-type=end
#SBATCH --mail-user=someone@example.org
echo "member $SLURM_ARRAY_TASK_ID"
exit 0
