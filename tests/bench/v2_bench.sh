#!/bin/bash
# launcher_bench on a real cgroup v2 hierarchy: in the virtual machine of tests/vm, with the baseline measured there in the same run. The
# machine is emulated where there is no KVM for it, so only the ratios say something.
set -u
: "${B:=build/release}"
[ -x "$B/tests/bench/launcher_bench" ] && [ -x "$B/tests/bin/agent" ] || { echo "v2: make bench builds what this needs, and $B/tests/bin/agent"; exit 0; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
B=$B VM_BENCH=1 bash tests/vm/image.sh "$dir" || exit 1
B=$B VM_DIR=$dir VM_VERBOSE=1 bash tests/vm/run.sh "${VM_SECONDS:-420}" bench 2>&1 | grep -E '"bench"|^not ok|launcher_bench:' | awk '!seen[$0]++'
