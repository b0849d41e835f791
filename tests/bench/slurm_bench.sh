#!/bin/bash
# The peer on this machine, in the same run: Slurm by a script that brings it up without systemd (PEERS names its folder).
# Users do not have that folder; without it this says so and the other benchmarks stand alone.
set -u
peer="${PEERS:-../shared/peers}/slurm-peer.sh"
if [ ! -x "$peer" ]; then
  echo "no peer: $peer is not there; set PEERS to compare with Slurm"
  exit 0
fi
for profile in ${SLURM_PROFILES:-tuned epilog}; do
  echo "--- Slurm, profile $profile"
  PROFILE=$profile REPS=1 SLURM_PEER_DIR=/tmp/bourse-bench-slurm BENCH_OUT=/tmp/bourse-bench-slurm.jsonl "$peer" bench ${SLURM_GROUPS:-submit throughput latency} 2>&1 | tail -25
done
