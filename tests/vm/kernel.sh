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
