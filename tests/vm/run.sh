#!/bin/bash
# run.sh SECONDS TEST...: boots the image in $VM_DIR (default: $B/vm) and runs tests/vm/TEST.sh in it, in one boot. Their "ok - ", "not ok - " and
# "skip - " lines go to standard output; a guest that does not come to its end in time is a failure, with its last words.
#
# The guest: 4 cores on 2 sockets ($VM_CORES on each: 2), 2 NUMA nodes of 1 GiB, cgroup v2 only, pressure stall information on. Without KVM.
set -u
: "${B:=build/release}"
: "${VM_DIR:=$B/vm}" "${VM_CORES:=2}"
limit=$1
shift
tests=$(IFS=,; echo "$*")
log=$(mktemp) raw=$(mktemp)
boot() {
  qemu-system-x86_64 -M q35 -cpu max -accel tcg,thread=multi -m 2048 -smp $((VM_CORES * 2)),sockets=2,cores="$VM_CORES" \
    -object memory-backend-ram,id=m0,size=1024M -object memory-backend-ram,id=m1,size=1024M \
    -numa node,nodeid=0,cpus=0-$((VM_CORES - 1)),memdev=m0 -numa node,nodeid=1,cpus=$VM_CORES-$((VM_CORES * 2 - 1)),memdev=m1 \
    -kernel "$VM_DIR/vmlinuz" -initrd "$VM_DIR/initramfs" \
    -append "console=ttyS0 psi=1 loglevel=3 panic=-1 cgroup_no_v1=all random.trust_cpu=on bourse.tests=$tests ${VM_APPEND:-}" \
    ${VM_OPTIONS:-} -display none -monitor none -serial "file:$raw" -nic none -no-reboot </dev/null >"$raw.err" 2>&1 &
  guest=$!
  local end=$((SECONDS + limit)) last=0
  while kill -0 "$guest" 2>/dev/null && [ $SECONDS -lt $end ]; do
    grep -qE '^vm: (done|cut)' "$raw" && last=$((last + 1))
    [ $last -lt 20 ] || break  # it has said all, and will not end
    ! stuck || break
    sleep 0.25
  done
  kill -9 "$guest" 2>/dev/null
  wait "$guest" 2>/dev/null
}
# The guest's kernel says that one of its processors stands still in a worker of its own, for minutes: seen in three boots of twenty on a
# busy host, once ahead of all tests, with several emulated processors on fewer real ones. The guest is booted again; three times in a
# row is a failure.
stuck() { grep -q 'watchdog: BUG: soft lockup' "$raw"; }
trap 'kill -9 "$guest" 2>/dev/null; rm -f "$log" "$raw" "$raw.err"' EXIT
for again in 1 2 3; do
  boot
  stuck || break
  echo "# boot $again: $(grep -m1 'soft lockup' "$raw" | tr -d '\r')" >&2
done
tr -d '\r' <"$raw" >"$log"
grep -E '^(ok|not ok|skip) - ' "$log"
[ -z "${VM_VERBOSE:-}" ] || grep -vE '^(ok|not ok|skip) - ' "$log" >&2
if ! grep -qE '^vm: (done|cut)' "$log"; then
  echo "not ok - the guest runs its tests to the end: no end within $limit s"
  cat "$raw.err" >&2
  tail -40 "$log" | sed 's/^ok - /# ok - /' >&2
elif grep -q '^not ok' "$log"; then
  grep -vE '^(ok|skip) - ' "$log" | tail -60 >&2
fi
