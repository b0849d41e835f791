#!/bin/bash
# RDMA for real, without an adapter: soft-RoCE over a network device of the guest's own. The probe finds it, jobs that ask for it get its
# verbs device and may lock memory, two of them talk over it, and one that did not ask cannot open it. Wants the kernel with all modules.
. /tests/lib.sh
export BOURSE_DIR=/tmp/cluster HOME=/root
cd /tmp || exit 1

check "a network device is made" ip link add roce0 type dummy
ip addr add 192.0.2.1/24 dev roce0 && ip link set roce0 up
check "soft-RoCE is put on it" rdma link add rxe0 type rxe netdev roce0
check "its verbs device is there" test -c /dev/infiniband/uverbs0
check "its port is active" until_true 20 grep -q ACTIVE /sys/class/infiniband/rxe0/ports/1/state
# Which of its GIDs is the one of RoCE v2 with that address.
gid=
for i in 0 1 2 3; do
  case $(cat /sys/class/infiniband/rxe0/ports/1/gids/$i 2>/dev/null) in *c000:0201) gid=$i ;; esac
done
check "it has a GID for its address" test -n "$gid"

if bourse up --set agent.probes=hwloc,rdma --set agent.reprobe=0 >/tmp/up.log 2>&1; then
  ok "a cluster comes up in the guest"
else
  not_ok "a cluster comes up in the guest" "$(tail -5 /tmp/up.log | tr '\n' ' ')"
  exit 1
fi
bourse probe >/tmp/probe.out 2>&1
check "the probe finds the adapter" grep -q 'nic/rdma' /tmp/probe.out
grep 'rdma' /tmp/probe.out

export SUBMIT_EXPORT=NONE
job() { submit --wait "$@"; }
job -n 1 --mem 64M -o without.out --wrap 'ulimit -l; cat </dev/infiniband/uverbs0 2>&1; true'
case $(cat without.out) in *"not permitted"*) ok "a job that did not ask cannot open the device" ;; *) not_ok "a job that did not ask cannot open the device" "$(cat without.out)" ;; esac
job -n 1 --mem 64M --gres 'nic/rdma{bandwidth=10}:1' -o with.out --wrap 'ulimit -l; echo "$BOURSE_DEVICES"; ibv_devinfo -d rxe0 2>&1 | grep -E "state|hca_id"'
same "a job that asked may lock any amount of memory" unlimited "$(head -1 with.out)"
case $(cat with.out) in *PORT_ACTIVE*) ok "and opens the device" ;; *) not_ok "and opens the device" "$(cat with.out)" ;; esac
[ "$(head -1 without.out)" != unlimited ] && ok "who did not ask keeps his limit" || not_ok "who did not ask keeps his limit" "unlimited"

server=$(submit --parsable -n 1 --mem 64M --gres 'nic/rdma{bandwidth=10}:1' -o server.out --wrap "exec ibv_rc_pingpong -d rxe0 -g $gid -n 200")
listens() { netstat -ltn | grep -q ':18515 '; }
check "the first of two waits for the other" until_true 60 listens
job -n 1 --mem 64M --gres 'nic/rdma{bandwidth=10}:1' -o client.out --wrap "exec ibv_rc_pingpong -d rxe0 -g $gid -n 200 127.0.0.1"
same "two jobs talk over it" 0 $?
check "and both have sent all" grep -q 'iters in' client.out
cat client.out
ended() { [ "$(bourse jobs "$server" --format state -n 2>/dev/null | tail -1 | tr -d ' ')" = COMPLETED ]; }
check "the other side has seen its end too" until_true 60 ended
check "the cluster ends" bourse down
