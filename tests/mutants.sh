#!/bin/bash
# make check-mutants: with a mechanism disabled (BOURSE_MUTANT), the test named for it must fail, and without that it must pass.
# A mutant that survives means that the test proves nothing. Lines of tests/mutants.txt: MUTANT  GTEST-BINARY:FILTER | SCRIPT[:ROW], where
# the row `soak' is all of a script, as `make soak' runs it.
# M=TEXT: only mutants whose name contains it. ONLY="NAME ...": only these.
set -u
: "${B:=build/release}"
export B BOURSE_BIN="$PWD/$B/bin"
unset BOURSE_MUTANT BOURSE_CRASH_AT
passed=0 failed=0 skipped=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT
declare -A clean  # WHERE -> how it ends with nothing disabled: "passed", "skipped" or why it cannot be used

run() { # run WHERE: its exit status
  case "$1" in
    *.test) timeout 300 bash "$1" ;;
    *.test:soak) SOAK=1 timeout 900 bash "${1%%:*}" ;;
    *.test:*) ROWS=${1#*:} timeout 300 bash "${1%%:*}" ;;
    *) timeout 300 "$B/tests/bin/${1%%:*}" --gtest_filter="${1#*:}" --gtest_color=no ;;
  esac >"$log" 2>&1 </dev/null
}
# A script that goes wrong may still end with 0; its lines say so.
failing() { ! run "$1" || grep -q '^not ok' "$log"; }
try_clean() {
  if failing "$1"; then
    echo "fails even with nothing disabled"
  elif [ "${1#*.test}" = "$1" ] && ! grep -q '^\[ RUN ' "$log"; then
    echo "matches no test"
  elif grep -qE '^\[  SKIPPED \]|^skip - ' "$log"; then
    echo skipped
  else
    echo passed
  fi
}

mapfile -t lines < <(grep -vE '^(#|$)' tests/mutants.txt)

not_ok() {
  echo "not ok - $1"
  failed=$((failed + 1))
}

for line in "${lines[@]}"; do
  read -r mutant where <<<"$line"
  case "$mutant" in *"${M:-}"*) ;; *) continue ;; esac
  [ -z "${ONLY:-}" ] || case " $ONLY " in *" $mutant "*) ;; *) continue ;; esac
  [ -n "${clean[$where]:-}" ] || clean[$where]=$(try_clean "$where")
  case ${clean[$where]} in
    passed) ;;
    skipped)
      echo "skip - $mutant: this machine cannot run $where"
      skipped=$((skipped + 1))
      continue
      ;;
    *)
      not_ok "$mutant: $where ${clean[$where]}"
      continue
      ;;
  esac
  if BOURSE_MUTANT=$mutant failing "$where"; then
    echo "ok - $mutant is noticed by $where"
    passed=$((passed + 1))
  else
    not_ok "$mutant survived $where"
  fi
done

# What is disabled nowhere is a name that nobody uses any more.
for line in "${lines[@]}"; do
  read -r mutant where <<<"$line"
  grep -rqF "hooks::mutant(\"$mutant\")" --include='*.cc' --include='*.h' common master agent frameworks plugins ||
    not_ok "$mutant is in tests/mutants.txt and nowhere in the code"
done

if [ "$skipped" = 0 ]; then echo "$passed passed, $failed failed"; else echo "$passed passed, $failed failed, $skipped skipped"; fi
[ "$failed" = 0 ]
