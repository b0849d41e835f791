#!/bin/bash
# Containers by a real crun, on cgroup v2. Layouts of umoci are the host's test, which has that.
. /tests/lib.sh
gtest 'ContainerTask.*-ContainerTask.RunsALayout*:ContainerTask.AnImageIs*' 400
