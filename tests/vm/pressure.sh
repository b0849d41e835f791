#!/bin/bash
# A memory storm: who owns a slice, who is critical and who borrows fight for one GiB of a real kernel's memory, with a whole cluster
# around them. Nobody who owns his memory may be ended, those who borrow go in the order of their priorities, and the host answers.
. /tests/lib.sh
export BOURSE_DIR=/tmp/cluster HOME=/root
hog=/build/tests/tools/hog
cd /tmp || exit 1

available() { awk '/^MemAvailable/ { print int($2 / 1024) }' /proc/meminfo; }
field() { bourse agents --json 2>/dev/null | sed -n "s/.*\"$1\": *\"\\([^\"]*\\)\".*/\\1/p" | head -1; }
state() { bourse jobs "$1" --format state -n 2>/dev/null | tail -1 | tr -d ' '; }
running() { [ "$(state "$1")" = RUNNING ]; }
pid() { pgrep -f "^$hog $1 " | head -1; }
lends() { case $(field lends) in "" | *mem=0*) return 1 ;; *) [ "$(field lends | sed 's/.*mem=\([0-9]*\)MiB.*/\1/')" -ge 448 ] ;; esac; }
evictions() { grep -h 'event=evicted' "$BOURSE_DIR"/log/*agent*; }

total=$(awk '/^MemTotal/ { print int($2 / 1024) }' /proc/meminfo)
if bourse up --set agent.oversubscribe=true --set agent.oversubscribe_every=1s --set agent.oversubscribe_settle=3s \
  --set agent.oversubscribe_window=10s --set agent.oversubscribe_keep=5 --set agent.reprobe=0 \
  --set agent.reserve_mem=$((total - 1024))MiB --set agent.probes=hwloc --set batch.slice_idle=0s >/tmp/up.log 2>&1; then
  ok "a cluster comes up in the guest"
else
  not_ok "a cluster comes up in the guest" "$(tail -5 /tmp/up.log | tr '\n' ' ')"
  cat "$BOURSE_DIR"/log/* 2>/dev/null | tail -20
  exit 1
fi

# All but one GiB is taken away, evenly from both nodes.
mkdir -p /ballast && mount -t tmpfs -o size=2g ballast /ballast
rest=$((($(available) - 1024) / 2))
[ $rest -gt 0 ] && {
  taskset -c 0 dd if=/dev/zero of=/ballast/0 bs=1M count=$rest 2>/dev/null
  taskset -c 7 dd if=/dev/zero of=/ballast/1 bs=1M count=$rest 2>/dev/null
}
echo "vm: $(available) MiB are left for everybody"

export SUBMIT_EXPORT=NONE
owner=$(submit --parsable -J owner -n 1 -c 6 --mem 600M -o owner.out --wrap "$hog 30 0; until [ -e /tmp/storm ]; do sleep 0.3; done; exec $hog 540 600")
critical=$(submit --parsable -J critical -n 1 --mem 200M -o critical.out --wrap "exec $hog 150 600")
check "who owns his memory runs" until_true 60 running "$owner"
check "who is critical runs" until_true 60 running "$critical"
until_true 60 pid 150
echo -500 >"/proc/$(pid 150)/oom_score_adj"
critical_pid=$(pid 150)
check "what the owner does not use is lent" until_true 90 lends
echo "vm: lends $(field lends)"

jobs=()
for nice in 10 30 20 0; do
  jobs+=("$(submit --parsable -J "borrows$nice" --revocable --no-requeue --nice=$nice -n 1 --mem 110M -o "b$nice.out" --wrap "exec $hog 100 600")")
done
all_run() { for job in "${jobs[@]}"; do running "$job" || return 1; done; }
if until_true 120 all_run; then ok "four jobs borrow"; else not_ok "four jobs borrow" "$(bourse queue | tr '\n' ';') $(bourse why "${jobs[3]}" | tr '\n' ';') $(field figures) $(field lent)"; fi
hogs_ready() { [ "$(cat b*.out 2>/dev/null | grep -c ready)" = 4 ]; }
until_true 60 hogs_ready
lent=$(cat /sys/fs/cgroup/bourse*/lent/memory.max /sys/fs/cgroup/*/bourse*/lent/memory.max 2>/dev/null | head -1)
case $lent in '' | max) not_ok "all that borrow have one hard limit together" "memory.max is '$lent'" ;; *) ok "all that borrow have one hard limit together" ;; esac
scores=$(for p in $(pgrep -f "^$hog 100 "); do cat "/proc/$p/oom_score_adj"; done | sort -n | tr '\n' ' ')
same "the kernel would take the least important first" "900 910 920 930 " "$scores"
evictions >/tmp/before 2>/dev/null
same "nobody has been ended before the storm" 0 "$(wc -l </tmp/before)"

# --- the storm -----------------------------------------------------------------------------------------------------------------
: >/tmp/storm
worst=0
one_gone() { [ "$(evictions | wc -l)" -ge 1 ]; }
deadline=$((SECONDS + 120))
until { one_gone && grep -q ready owner.out && [ "$(grep -c ready owner.out)" -ge 2 ]; } || [ $SECONDS -ge $deadline ]; do
  begun=$(date +%s%N)
  bourse queue -n >/dev/null 2>&1 || worst=999999
  took=$((($(date +%s%N) - begun) / 1000000))
  [ $took -gt $worst ] && worst=$took
done
echo "vm: the slowest answer of the queue during the storm took $worst ms"
evictions
if [ $worst -lt 15000 ]; then ok "the host answers all the time"; else not_ok "the host answers all the time" "an answer took $worst ms"; fi
check "borrowers are ended for the owner's sake" one_gone
same "the owner has all the memory that he paid for" 2 "$(grep -c ready owner.out)"
same "the owner runs on" RUNNING "$(state "$owner")"
same "who is critical runs on" RUNNING "$(state "$critical")"
same "it is the same process" "$critical_pid" "$(pid 150)"
killed=$(dmesg | grep -E 'Killed process|oom-kill:' | grep -cE "hog 540|,task=hog,pid=($critical_pid|$(pid 540))," )
same "the kernel ended none of them either" 0 "$killed"
order=$(evictions | sed -n 's/.*priority \(-*[0-9]*\) is the lowest.*/\1/p' | tr '\n' ' ')
wanted=$(printf '%s\n' -30 -20 -10 0 | head -"$(evictions | wc -l)" | tr '\n' ' ')
same "they go by priority, the lowest first" "$wanted" "$order"
same "the first to go is told so" PREEMPTED "$(state "${jobs[1]}")"
reason=$(evictions | head -1)
case $reason in *"memory pressure of the "*": some avg10 is "*", the limit is 60"*) ok "with the figures" ;; *) not_ok "with the figures" "$reason" ;; esac

bourse cancel "$owner" "$critical" "${jobs[@]}" >/dev/null 2>&1
check "the cluster ends" bourse down
umount /ballast
