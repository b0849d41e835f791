#!/bin/bash
# What tasks find and how they end, and the launcher's crash points, with leaves of cgroup v2.
. /tests/lib.sh
gtest 'LauncherTask.*:LauncherDeath.AtItsCrashPoints*:LauncherDeath.LogOf*' 400
