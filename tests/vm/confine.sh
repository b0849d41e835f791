#!/bin/bash
# Namespaces, privileges and system calls of tasks, and groups that others remove or crashes leave half made, on cgroup v2.
. /tests/lib.sh
gtest 'LauncherConfine.*:IsolatorHost.WhatATask*:IsolatorHost.GroupsThat*:IsolatorHost.ACrash*' 400
