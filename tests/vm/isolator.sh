#!/bin/bash
# Isolators on a real cgroup v2 hierarchy. What the others of isolator_cgroup_test.cc look at is version 1's.
. /tests/lib.sh
gtest 'IsolatorCalls.AreIdempotent:IsolatorCalls.Recover*:IsolatorLimits.TaskIsBound*:IsolatorHost.ATask*:IsolatorHost.Slices*:IsolatorHost.ASoft*:DiskLimits.*:NumaBinding.*' 180
