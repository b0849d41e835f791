#!/bin/bash
# make vm-check: every test of tests/vm in one guest, and a last line that counts.
set -u
: "${B:=build/release}"
tests=()
for file in tests/vm/*.sh; do
  name=${file##*/}
  case ${name%.sh} in all | image | lib | run | rdma | pressure | reboot | bench) ;; *) tests+=("${name%.sh}") ;; esac
done
out=$(bash tests/vm/run.sh "${VM_SECONDS:-1200}" "${tests[@]}")
# More who borrow than four cores hold; and soft-RoCE is in the kernel with all modules only: two further boots.
out+=$'\n'$(VM_CORES=4 VM_APPEND=numa=off bash tests/vm/run.sh 500 pressure)
# The same disk in two boots, the first of which is cut short.
disk=$(mktemp) && truncate -s 512M "$disk" && /sbin/mkfs.ext4 -q -F "$disk"
for _ in 1 2; do out+=$'\n'$(VM_OPTIONS="-drive file=$disk,format=raw,if=virtio" bash tests/vm/run.sh 300 reboot); done
rm -f "$disk"
out+=$'\n'$(VM_DIR="$B/vm-rdma" bash tests/vm/run.sh 400 rdma)
printf '%s\n' "$out"
failed=$(grep -c '^not ok' <<<"$out")
echo "$(grep -c '^ok' <<<"$out") passed, $failed failed, $(grep -c '^skip' <<<"$out") skipped"
[ "$failed" = 0 ]
