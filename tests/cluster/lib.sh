# Sourced by the tests that drive real processes. Run from the top of the tree by tests/run.sh, which sets B and BOURSE_BIN.
#
# Each test makes a cluster of its own in a temporary directory and must leave nothing behind: cluster_end checks that.
set -u
: "${B:=build/release}" "${BOURSE_BIN:=$PWD/$B/bin}"
export PATH="$BOURSE_BIN:$PATH"
unset BOURSE_DIR SUBMIT_OPTIONS
TREE=$PWD
WORK=$(mktemp -d "${TMPDIR:-/tmp}/bourse-test.XXXXXX")
chmod 755 "$WORK"
export BOURSE_DIR="$WORK/cluster"
failures=0

ok() { echo "ok - $1"; }
not_ok() {
  echo "not ok - $1: ${2:-}"
  failures=$((failures + 1))
}
skip() { echo "skip - $1: $2"; }

# same NAME WANTED GOT
same() {
  if [ "$2" = "$3" ]; then ok "$1"; else not_ok "$1" "wanted \`$2', got \`$3'"; fi
}
# matches NAME PATTERN TEXT   (extended regular expression, anywhere in the text)
matches() {
  if printf '%s\n' "$3" | grep -qE -- "$2"; then ok "$1"; else not_ok "$1" "wanted /$2/, got \`$(printf '%s' "$3" | head -c 600)'"; fi
}

# until_true SECONDS COMMAND...: waits for a condition, never for a time.
until_true() {
  local deadline=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $deadline ] || return 1
    sleep 0.05
  done
}

cluster_up() {
  if ! bourse up "$@" >"$WORK/up.log" 2>&1; then
    not_ok "cluster comes up" "$(tail -5 "$WORK/up.log")"
    cluster_end
    exit 1
  fi
}

# pid_of PROGRAM [PATTERN]: processes of this test's cluster.
pid_of() { pgrep -f -- "^[^ ]*$1 .*$BOURSE_DIR${2:+.*$2}"; }

# A number in [0, N), uniform, from the seed that the test printed.
random_below() { awk -v n="$1" -v s="$((RANDOM * 32768 + RANDOM))" 'BEGIN { srand(s); print int(rand() * n) }'; }

job_state() { bourse jobs "$1" --format state -n 2>>"$WORK/tools.err" | tail -1 | tr -d ' '; }
ended() { case $(job_state "$1") in PENDING | CONFIGURING | RUNNING | COMPLETING | "") return 1 ;; esac; }
running() { [ "$(job_state "$1")" = RUNNING ]; }
queue_empty() { [ -z "$(bourse queue -n 2>/dev/null || echo unreachable)" ]; }

cluster_end() {
  bourse down >"$WORK/down.log" 2>&1
  local left
  left=$(pgrep -f -- "bourse-[a-z]+ .*$BOURSE_DIR")
  if [ -n "$left" ]; then
    # shellcheck disable=SC2086
    not_ok "nothing is left running" "$(ps -o pid=,args= -p ${left//$'\n'/,} | head -5)"
    # shellcheck disable=SC2086
    kill -9 $left 2>/dev/null
  fi
  if [ "$failures" != 0 ]; then
    for log in "$WORK/tools.err" "$BOURSE_DIR"/log/*; do
      [ -e "$log" ] || continue
      echo "--- ${log##*/}" >&2
      tail -n 15 "$log" >&2
    done
    [ -z "${KEEP:-}" ] || { echo "kept: $WORK" >&2; exit 1; }
  fi
  rm -rf "$WORK"
}
finish() {
  cluster_end
  [ "$failures" = 0 ]
  exit
}
