# Sourced by the tests that run in the guest.
set -u
ok() { echo "ok - vm: $1"; }
not_ok() { echo "not ok - vm: $1: ${2:-}"; }
check() { # check NAME COMMAND...: its output, where it fails, is the reason
  local name=$1 out
  shift
  if out=$("$@" 2>&1); then ok "$name"; else not_ok "$name" "$(echo "$*: $out" | head -c 400 | tr '\n' ' ')"; fi
}
same() { if [ "$2" = "$3" ]; then ok "$1"; else not_ok "$1" "wanted \`$2', got \`$3'"; fi; }

# Waits for a condition, never for a time.
until_true() { # SECONDS COMMAND...
  local deadline=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $deadline ] || return 1
    sleep 0.3
  done
}

# gtest FILTER [MOST-SECONDS]: each test of the agent's binary is a line of its own; one that was skipped has failed, for this
# machine can isolate.
gtest() {
  local log=/tmp/gtest.log rc
  cd / && timeout -k 3 "${2:-120}" /build/tests/bin/agent --gtest_filter="$1" --gtest_color=no >$log 2>&1 &
  local tests=$!
  ( # where it stands, if it does not come to an end
    sleep $((${2:-120} - 20))
    echo "vm: still in $(sed -n 's/^\[ RUN      \] //p' $log | tail -1)"
    for process in /proc/[0-9]*; do
      grep -qE '^(State:.[DR]|Name:.(agent|timeout))' "$process/status" 2>/dev/null &&
        echo "vm: $(tr '\0' ' ' <"$process/cmdline" | head -c 80) $(sed -n 's/^State:.//p' "$process/status"): $(tr '\n' ' ' <"$process/stack" 2>/dev/null)"
    done
  ) &
  local watcher=$!
  wait $tests
  rc=$?
  kill $watcher 2>/dev/null
  sed -n 's/^\[       OK \] \([^ ]*\) .*/ok - vm: \1/p; s/^\[  FAILED  \] \([^ ]*\) (.*/not ok - vm: \1: failed/p; s/^\[  SKIPPED \] \([^ ]*\) (.*/not ok - vm: \1: skipped on a machine that can isolate/p' $log
  grep -q '^\[ RUN ' $log || echo "not ok - vm: $1: matches no test"
  if [ $rc != 0 ]; then
    grep -q '^\[  FAILED  \]' $log || echo "not ok - vm: $1: ended with status $rc"
    grep -vE '^\[ +(RUN|OK) ' $log | tail -60
  fi
}
