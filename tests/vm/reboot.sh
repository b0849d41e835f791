#!/bin/bash
# A host that loses power and comes back, for real: the state is on a disk, the kernel has another boot id. Two boots of one disk: the first
# ends in a reset without a word to anybody, the second looks what is left. Run by all.sh.
. /tests/lib.sh
mkdir -p /state && mount -t ext4 /dev/vda /state || { not_ok "the disk is there" "$(ls /dev/vd* 2>&1)"; exit 1; }
export BOURSE_DIR=/state/cluster HOME=/root SUBMIT_EXPORT=NONE
cd /state || exit 1
up() {
  if bourse up --set agent.probes=hwloc --set agent.reprobe=0 >/tmp/up.log 2>&1; then
    ok "a cluster comes up $1"
  else
    not_ok "a cluster comes up $1" "$(tail -5 /tmp/up.log | tr '\n' ' ')"
    cat "$BOURSE_DIR"/log/* | tail -20
    exit 1
  fi
}
field() { bourse history -j "$1" --format "$2" -n 2>/dev/null | tail -1 | tr -d ' '; }
state() { bourse jobs "$1" --format state -n 2>/dev/null | tail -1 | tr -d ' '; }
running() { [ "$(state "$1")" = RUNNING ]; }
ended() { case $(state "$1") in COMPLETED | FAILED | NODE_FAIL | CANCELLED) ;; *) false ;; esac; }

if [ ! -e boot_id ]; then
  up "before the reset"
  submit --wait -Q -n 1 --mem 32M -o /dev/null --wrap 'exit 5'
  # One that may start again says where it has been; one must not.
  again=$(submit --parsable --requeue -n 1 --mem 32M -o again.out --open-mode=append --wrap 'echo "boot $(cat /proc/sys/kernel/random/boot_id)"; [ -e /state/second ] && exit 7; exec sleep 3000')
  never=$(submit --parsable --no-requeue -n 1 --mem 32M -o /dev/null --wrap 'exec sleep 3000')
  check "jobs run before it" until_true 60 running "$never"
  check "both of them" until_true 60 running "$again"
  check "and have written" until_true 20 grep -q boot again.out
  echo "$again $never" >ids
  sync # the output of the job; what Bourse has promised, it has flushed itself
  cat /proc/sys/kernel/random/boot_id >boot_id
  sync boot_id ids again.out
  waiting=$(submit --parsable -n 1 -c 4 --mem 32M -o /state/waiting.out --wrap 'echo ran') # acknowledged is kept: nothing of it is flushed by us
  echo "$waiting" >/dev/ttyS0
  echo "vm: cut"
  echo b >/proc/sysrq-trigger
  sleep 60
fi

read -r again never <ids
[ "$(cat boot_id)" != "$(cat /proc/sys/kernel/random/boot_id)" ] && ok "it is another boot" || not_ok "it is another boot" "$(cat boot_id)"
touch second
up "after it"
check "the one that must not start again is ended" until_true 60 ended "$never"
same "as lost with its host" NODE_FAIL "$(state "$never")"
case $(bourse jobs "$never" --format reason -n; cat "$BOURSE_DIR"/log/*) in *"host rebooted"*) ok "and that is said" ;; *) not_ok "and that is said" "$(bourse jobs "$never" | tail -3)" ;; esac
check "the other one starts again" until_true 90 ended "$again"
same "and its exit code is that of the second time" "7:0" "$(field "$again" exit)"
same "it ran once in each boot" "2 2" "$(grep -c boot again.out) $(sort -u again.out | grep -c boot)"
same "what had ended before is as it was" "5:0" "$(field 1 exit)"
waited() { [ "$(cat waiting.out 2>/dev/null)" = ran ]; }
check "a job whose number had been told just before the power went is there and runs" until_true 60 waited
same "no group of the first boot's tasks is left" 0 "$(find /sys/fs/cgroup -path '*bourse*' -name 't[0-9]*' -type d 2>/dev/null | while read -r d; do [ -s "$d/cgroup.procs" ] && echo x; done | wc -l)"
check "the cluster ends" bourse down
umount /state
