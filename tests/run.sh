#!/bin/sh
# Runs every test and ends in one line "N passed, N failed, N skipped". B is the build directory, T an optional filter,
# arguments are GoogleTest binaries. Scripts under tests/*/ named *.test print "ok - NAME", "not ok - NAME: WHY" or
# "skip - NAME: WHY" a line; a script that exits non-zero without a "not ok" counts as one failure.
set -u
B=${B:-build/release}
T=${T:-}
# Two hundred kills and every crash point take half an hour and more.
[ -z "${SOAK:-}" ] || : "${TEST_TIMEOUT:=7200}"
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

# run_script SCRIPT LANE: says how it went, and adds "OK BAD SKIPPED" to the lane's file.
run_script() {
  log=$out/$2.log err=$out/$2.err
  began=$(date +%s)
  timeout "${TEST_TIMEOUT:-600}" bash "$1" >"$log" 2>"$err"
  rc=$?
  ok=$(grep -c '^ok - ' "$log") bad=$(grep -c '^not ok - ' "$log") skip=$(grep -c '^skip - ' "$log")
  if [ "$rc" != 0 ] && [ "$bad" = 0 ]; then bad=1; echo "not ok - $1 ended with status $rc"; fi
  if [ $((ok + bad + skip)) = 0 ]; then bad=1; echo "not ok - $1 said nothing"; fi
  case $1 in
    tests/vm/*) if [ "$skip" != 0 ] && [ -z "${SAN:-}" ] && can_isolate; then
      echo "not ok - $1: skipped on a machine that can isolate"
      bad=$((bad + skip)) skip=0
    fi ;;
  esac
  if [ "$bad" != 0 ]; then grep -v '^ok - ' "$log"; tail -30 "$err"; fi
  [ "$skip" = 0 ] || grep '^skip - ' "$log"
  echo "$ok $bad $skip" >>"$out/$2.sums"
  printf '%-40s %5d passed %3d failed %3d skipped %5d s\n' "${1#tests/}" "$ok" "$bad" "$skip" $(($(date +%s) - began))
}
# Scripts that mostly wait (for a lease to end, a reader to be cut, a second to pass) say so in a line, and run beside the others.
waits() { grep -q '^# Waits more than it works\.$' "$1"; }
lane() { # LANE: runs those of its kind
  for script in tests/*/*.test; do
    [ -e "$script" ] || continue
    case "$script" in *"$T"*) ;; *) continue ;; esac
    if waits "$script"; then [ "$1" = waiting ] || continue; else [ "$1" = working ] || continue; fi
    run_script "$script" "$1"
  done
}
: >"$out/waiting.sums" >"$out/working.sums"
lane waiting >"$out/waiting.said" 2>&1 &
waiting=$!
trap 'pkill -TERM -P $waiting; kill $waiting; exit 130' INT TERM
lane working
wait $waiting
cat "$out/waiting.said"
while read -r ok bad skip; do
  passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + skip))
done <<SUMS
$(cat "$out/waiting.sums" "$out/working.sums")
SUMS

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
