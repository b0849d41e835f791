#!/bin/bash
# A memory storm: who owns a slice, who is critical and who borrows fight for less than a GiB of a real kernel's memory, with a whole cluster
# around them. Nobody who owns his memory may be ended, those who borrow go in the order of their priorities, and the host answers.
#
# Two stages. First the owner is slow for want of memory: the agent ends the one who matters least, and nobody else once it is better. (The
# guest has neither swap nor a disk, so a small memory.high of the owner stands for the thrashing.) Then memory is gone at once, faster
# than any pressure can be measured: the kernel takes those who borrow in the same order.
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

# All but 960 MiB is taken away. (One node, numa=off: else the kernel ends who borrows on one while there is room on the other.)
mkdir -p /ballast && mount -t tmpfs -o size=2g ballast /ballast
rest=$(($(available) - 960))
[ $rest -gt 0 ] && dd if=/dev/zero of=/ballast/0 bs=1M count=$rest 2>/dev/null
echo "vm: $(available) MiB are left for everybody"

export SUBMIT_EXPORT=NONE
owner=$(submit --parsable -J owner -n 1 -c 6 --mem 600M -o owner.out \
  --wrap "$hog 30 0; until [ -e /tmp/thirst ]; do sleep 0.3; done; $hog 40 0; until [ -e /tmp/storm ]; do sleep 0.3; done; exec $hog 585 600")
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


# --- slow for want of memory ---------------------------------------------------------------------------------------------------
first_gone() { [ "$(evictions | wc -l)" -ge 1 ]; }
high=$(dirname "$(grep -lx $((600 << 20)) /sys/fs/cgroup/bourse*/batch*/memory.max | head -1)")/memory.high
echo 16M >"$high"
: >/tmp/thirst
check "borrowers are ended for the owner's sake" until_true 90 first_gone
cat "$(dirname "$high")/memory.pressure"
echo max >"$high"
reason=$(evictions | head -1)
echo "vm: $reason"
case $reason in *"memory pressure of the "*": some avg10 is "*", the limit is 60"*) ok "with the figures" ;; *) not_ok "with the figures" "$reason" ;; esac
case $reason in *"priority -30 is the lowest"*) ok "who matters least goes" ;; *) not_ok "who matters least goes" "$reason" ;; esac
told() { [ "$(state "${jobs[1]}")" = PREEMPTED ]; }
until_true 20 told || true
same "who goes is told so" PREEMPTED "$(state "${jobs[1]}")"
twice() { [ "$(grep -c ready owner.out)" = 2 ]; }
check "the owner gets on" until_true 30 twice
sleep 3 # two seconds after the first the agent looks whether it has helped
evictions >/tmp/before
sleep 12
same "nobody else goes once it is better" "$(wc -l </tmp/before)" "$(evictions | wc -l)"

# --- the storm -----------------------------------------------------------------------------------------------------------------
: >/tmp/storm
worst=0
deadline=$((SECONDS + 90))
until [ "$(grep -c ready owner.out)" -ge 3 ] || [ $SECONDS -ge $deadline ]; do
  begun=$(date +%s%N)
  bourse queue -n >/dev/null 2>&1 || worst=999999
  took=$((($(date +%s%N) - begun) / 1000000))
  [ $took -gt $worst ] && worst=$took
done
echo "vm: the slowest answer of the queue during the storm took $worst ms"
evictions
dmesg | grep -E 'oom-kill:|Killed process' | sed 's/^/vm: /'
if [ $worst -lt 15000 ]; then ok "the host answers all the time"; else not_ok "the host answers all the time" "an answer took $worst ms"; fi
same "the owner has all the memory that he paid for" 3 "$(grep -c ready owner.out)"
same "the owner runs on" RUNNING "$(state "$owner")"
same "who is critical runs on" RUNNING "$(state "$critical")"
same "it is the same process" "$critical_pid" "$(pid 150)"
# By the kernel or by the agent; some have gone already.
gone=$(dmesg | sed -n 's/.*Out of memory: Killed process .* oom_score_adj:\([0-9-]*\)$/\1/p' | uniq | tr '\n' ' ')
more=$(evictions | sed '1d' | sed -n 's/.*priority \(-*[0-9]*\) is the lowest.*/\1/p' | tr '\n' ' ')
echo "vm: the kernel ended $gone, the agent $more"
# shellcheck disable=SC2086
if [ "$gone" = "$(printf '%s\n' $gone | sort -rn | tr '\n' ' ' | sed 's/^ $//')" ] && ! printf '%s\n' $gone | grep -qvE '^9[012]0$|^$'; then
  ok "the kernel takes none but those who borrow, the least important first"
else
  not_ok "the kernel takes none but those who borrow, the least important first" "$gone"
fi
# shellcheck disable=SC2086
same "so does the agent" "$(printf '%s\n' $more | sort -n | tr '\n' ' ' | sed 's/^ $//')" "$more"
if [ -n "$gone$more" ]; then ok "somebody had to go"; else not_ok "somebody had to go"; fi

bourse cancel "$owner" "$critical" "${jobs[@]}" >/dev/null 2>&1
check "the cluster ends" bourse down
umount /ballast
