#!/usr/bin/env python3
#SBATCH --job-name=py
#SBATCH --time=5
#SBATCH --output=py.out
import os
import sys

print("python job", os.environ["SLURM_JOB_ID"], "args", sys.argv[1:])
sys.exit(7)
