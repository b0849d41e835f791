#!/bin/bash
# The guest is what the other tests take it for.
. /tests/lib.sh
same "cgroup v2 is the only hierarchy" "cgroup2" "$(awk '$3 ~ /^cgroup/ { print $3 }' /proc/mounts)"
for controller in cpu cpuset memory io pids; do
  check "controller $controller is offered" grep -qw "$controller" /sys/fs/cgroup/cgroup.controllers
done
check "pressure is measured" grep -q '^some avg10=' /proc/pressure/memory
same "there are two NUMA nodes" "0-1" "$(cat /sys/devices/system/node/online)"
same "there are four cores" 4 "$(nproc)"
# Its processors and memory as the kernel has them, by the probe.
bourse probe --probe hwloc >/tmp/probe.out 2>&1
same "the probe finds both sockets, both nodes and all cores" "2 2 4" "$(grep -c '^ *package' /tmp/probe.out) $(grep -c '^ *numa [01] ' /tmp/probe.out) $(grep -c ' core [0-9]*: cpus' /tmp/probe.out)"
same "and the memory of each node" "$(for n in 0 1; do awk '/MemTotal/ { print $4 }' /sys/devices/system/node/node$n/meminfo; done | tr '\n' ' ')" \
  "$(sed -n 's/^ *numa [01] \([0-9]*\)KiB.*/\1/p' /tmp/probe.out | tr '\n' ' ')"
