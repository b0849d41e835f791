#!/bin/bash
# How soon a task runs in a virtual machine: from the start of its first process to the first byte that its program writes, when the guest
# is made for it and when it has been booted ahead. A real libvirtd, a busybox initramfs; KVM where the host has it.
set -u
: "${B:=build/release}" "${BOURSE_BIN:=$PWD/$B/bin}"
. tests/support/libvirtd.sh
. tests/support/guests.sh
tmp=$(mktemp -d)
chmod 711 "$tmp"
trap 'libvirtd_stop "$tmp/libvirtd" 2>/dev/null; rm -rf "$tmp"' EXIT
guests_prepare || { echo "microvm: $GUESTS_WHY"; exit 0; }
libvirtd_start "$tmp/libvirtd" || { echo "microvm: $LIBVIRTD_WHY"; exit 0; }
guests_initramfs /bin/busybox "$tmp/initrd"
: "${COLD:=5}" "${WARM:=10}"
vm() { "$BOURSE_BIN/bourse-microvm" --scratch "$1" --uri "$LIBVIRTD_URI" --kernel "$GUESTS_KERNEL" --initrd "$tmp/initrd" "${@:2}"; }
first_byte() { # ARGUMENTS...: ms until the program has written
  local begun
  begun=$(date +%s%N)
  vm "$tmp/scratch" "$@" -- echo x 2>>"$tmp/err" | { head -c 1 >/dev/null; echo $((($(date +%s%N) - begun) / 1000000)) >>"$tmp/ms"; cat >/dev/null; }
}
told() { # NAME: of what is in ms
  sort -n "$tmp/ms" | awk -v name="$1" '{ a[NR] = $1 } END { p = int(NR * 0.99 + 0.999); if (p > NR) p = NR;
    printf "microvm %-5s n %3d  p50_ms %6d  p99_ms %6d  worst_ms %6d\n", name, NR, a[int((NR + 1) / 2)], a[p], a[NR] }'
  rm "$tmp/ms"
}
for _ in $(seq "$COLD"); do
  rm -rf "$tmp/scratch" && mkdir -m 711 "$tmp/scratch"
  first_byte
done
cold=$(sort -n "$tmp/ms" | sed -n "$(((COLD + 1) / 2))p")
told cold
: >"$tmp/boot"
for _ in $(seq "$WARM"); do
  rm -rf "$tmp/scratch" "$tmp/warm" "$tmp/hold" "$tmp/ready" && mkdir -m 711 "$tmp/scratch" "$tmp/warm" && mkfifo "$tmp/hold"
  exec 9<>"$tmp/hold"
  vm "$tmp/warm" --park "$tmp/warm/socket" --mem $((512 << 20)) --cpus "$(nproc)" <"$tmp/hold" >"$tmp/ready" 2>>"$tmp/err" 9<&- &
  holder=$!
  until grep -qs ready "$tmp/ready" || ! kill -0 $holder 2>/dev/null; do sleep 0.1; done
  grep -qs ready "$tmp/ready" || { echo "microvm: no guest waits: $(tail -3 "$tmp/err")"; exit 1; }
  awk '/^Private/ { kib += $2 } END { print kib }' "/proc/$(awk '{ print $2 }' "$tmp/ready")/smaps_rollup" >>"$tmp/boot"
  first_byte --warm "$tmp/warm/socket"
  exec 9<&-
  wait $holder
done
warm=$(sort -n "$tmp/ms" | sed -n "$(((WARM + 1) / 2))p")
told warm
awk -v cold="$cold" -v warm="$warm" '{ kib += $1 } END {
  printf "microvm warm is %.0f times as soon as cold; a guest of 512 MiB that waits has %.0f MiB of its own\n", cold / (warm > 0 ? warm : 1), kib / NR / 1024 }' "$tmp/boot"
