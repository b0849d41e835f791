#!/bin/bash
#SBATCH --ntasks=1
#SBATCH --time=5:00
##SBATCH --partition=nowhere
#SBATCH --output=chain-%j.out
n=${job_number:-1}
echo "link $n"
if [ "$n" -lt 3 ]; then
  next=$((n + 1))
  id=$(sbatch --export=ALL,job_number=$next -d afterok:$SLURM_JOB_ID "$CHAIN_SCRIPT" | awk '{print $4}')
  echo "next $id"
fi
