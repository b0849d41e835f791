#!/bin/bash
# make bench: every benchmark in tests/bench, each printing ratios against a peer or a limit measured in the same run.
# BENCH=NAME runs one. Absolute figures are goals, printed beside a calibration loop of the same run.
set -u
: "${B:=build/release}"
export B BOURSE_BIN="$PWD/$B/bin"
echo "machine: $(nproc) cores, $(uname -m), kernel $(uname -r), load $(cut -d' ' -f1-3 /proc/loadavg)"
status=0
for bench in "$@" tests/bench/*_bench.sh; do
  [ -e "$bench" ] || continue
  name=$(basename "$bench" | sed 's/\..*//')
  case "$name" in *"${BENCH:-}"*) ;; *) continue ;; esac
  printf '\n=== %s\n' "$name"
  case "$bench" in
    *.sh) bash "$bench" ;;
    *) "$bench" ;;
  esac || status=1
done
exit $status
