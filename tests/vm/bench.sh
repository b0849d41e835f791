#!/bin/bash
# Starts by the launcher with cgroups of version 2, where the host has version 1: tests/bench/v2_bench.sh reads the lines. No test.
cd / && mkdir -p /build/tests/bench && B=/build BENCH_N=60 BENCH_NO_KINDS=1 /build/tests/bench/launcher_bench
