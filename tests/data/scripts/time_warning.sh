#!/bin/bash
# Wants to be told before its time is up, and saves its state then.
#SBATCH --job-name=saver
#SBATCH --ntasks=1
# the limit is generous on purpose
#SBATCH --time=0-00:00:06

#SBATCH --signal=B:USR1@4
#SBATCH --output=%x-%j.out

save() {
  echo "saved at step $step"
  kill "$worker"
  exit 0
}
trap save USR1

step=0
sleep 300 &
worker=$!
step=1
echo "working"
wait "$worker"
echo "this line is never reached"
