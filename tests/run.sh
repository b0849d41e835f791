#!/bin/sh
# Runs every test and ends in one line "N passed, N failed, N skipped". B is the build directory, T an optional filter,
# arguments are GoogleTest binaries. Scripts under tests/*/ named *.test print "ok - NAME", "not ok - NAME: WHY" or
# "skip - NAME: WHY" a line; a script that exits non-zero without a "not ok" counts as one failure.
set -u
B=${B:-build/release}
T=${T:-}
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES  # jobs inherit our environment, and some of them are makes
# Random seeds: a slice here, hours of them in `make soak`.
export BOURSE_SIM_SECONDS="${BOURSE_SIM_SECONDS:-$([ -n "${SOAK:-}" ] && echo 600 || echo 10)}"
export B BOURSE_BIN="$PWD/$B/bin"
case "${SAN:-}" in *thread*) export TSAN_OPTIONS="suppressions=$PWD/tests/tsan.supp ${TSAN_OPTIONS:-}" ;; esac
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
passed=0 failed=0 skipped=0
# A machine that can isolate has no excuse for an isolation test that did not run. BOURSE_ALLOW_DEGRADED=1: for other machines.
can_isolate() {
  [ -z "${BOURSE_ALLOW_DEGRADED:-}" ] && [ "$(id -u)" = 0 ] &&
    { [ -w /sys/fs/cgroup/cgroup.procs ] || [ -w /sys/fs/cgroup/memory/cgroup.procs ]; }
}

for bin in "$@"; do
  name=${bin##*/}
  began=$(date +%s)
  timeout "${TEST_TIMEOUT:-1200}" "$bin" --gtest_brief=0 --gtest_color=no ${T:+--gtest_filter="*$T*"} >"$out/log" 2>&1
  rc=$?
  ok=$(grep -c '^\[       OK \]' "$out/log")
  bad=$(grep -cE '^\[  FAILED  \] .* \([0-9]+ ms\)$' "$out/log")
  skip=$(grep -cE '^\[  SKIPPED \] .* \([0-9]+ ms\)$' "$out/log")
  if [ "$rc" != 0 ] && [ "$bad" = 0 ]; then bad=1; echo "tests/$name ended with status $rc"; tail -40 "$out/log"; fi
  if [ -z "$T" ] && [ $((ok + bad + skip)) = 0 ]; then bad=1; echo "tests/$name ran no test"; fi
  unisolated=$(grep -cE '^\[  SKIPPED \] (Isolator|Launcher|Container)[^ ]* \([0-9]+ ms\)$' "$out/log")
  if [ "$unisolated" != 0 ] && can_isolate; then
    echo "tests/$name: $unisolated isolation tests were skipped on a machine that can isolate"
    bad=$((bad + unisolated)) skip=$((skip - unisolated))
  fi
  if [ "$bad" != 0 ]; then grep -vE '^\[( RUN      |       OK )\]' "$out/log" | tail -120; fi
  if [ "$skip" != 0 ]; then grep -B3 -E '^\[  SKIPPED \] .* \([0-9]+ ms\)$' "$out/log" | grep -v '^\[ RUN'; fi
  passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + skip))
  printf '%-40s %5d passed %3d failed %3d skipped %5d s\n' "$name" "$ok" "$bad" "$skip" $(($(date +%s) - began))
done

for script in tests/*/*.test; do
  [ -e "$script" ] || continue
  case "$script" in *"$T"*) ;; *) continue ;; esac
  began=$(date +%s)
  timeout "${TEST_TIMEOUT:-600}" bash "$script" >"$out/log" 2>"$out/err"
  rc=$?
  ok=$(grep -c '^ok - ' "$out/log") bad=$(grep -c '^not ok - ' "$out/log") skip=$(grep -c '^skip - ' "$out/log")
  if [ "$rc" != 0 ] && [ "$bad" = 0 ]; then bad=1; echo "not ok - $script ended with status $rc"; fi
  if [ $((ok + bad + skip)) = 0 ]; then bad=1; echo "not ok - $script said nothing"; fi
  case $script in
    tests/vm/*) if [ "$skip" != 0 ] && [ -z "${SAN:-}" ] && can_isolate; then
      echo "not ok - $script: skipped on a machine that can isolate"
      bad=$((bad + skip)) skip=0
    fi ;;
  esac
  if [ "$bad" != 0 ]; then grep -v '^ok - ' "$out/log"; tail -30 "$out/err"; fi
  [ "$skip" = 0 ] || grep '^skip - ' "$out/log"
  passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + skip))
  printf '%-40s %5d passed %3d failed %3d skipped %5d s\n' "${script#tests/}" "$ok" "$bad" "$skip" $(($(date +%s) - began))
done

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
