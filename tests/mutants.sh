#!/bin/bash
# make check-mutants: with a mechanism disabled (BOURSE_MUTANT), the test named for it must fail. A mutant that survives
# means that the test proves nothing. Lines of tests/mutants.txt: MUTANT  GTEST-BINARY:FILTER | SCRIPT
set -u
: "${B:=build/release}"
export B BOURSE_BIN="$PWD/$B/bin"
killed=0 survived=0 broken=0
while read -r mutant where; do
  case "$mutant" in '' | '#'*) continue ;; esac
  case "$mutant" in *"${M:-}"*) ;; *) continue ;; esac
  log=$(mktemp)
  case "$where" in
    *.test) run() { timeout 300 bash "$where"; } ;;
    *) run() { timeout 300 "$B/tests/bin/${where%%:*}" --gtest_filter="${where#*:}" --gtest_brief=1; } ;;
  esac
  if [ "${where%.test}" = "$where" ] && ! "$B/tests/bin/${where%%:*}" --gtest_list_tests --gtest_filter="${where#*:}" 2>/dev/null | grep -q '^  '; then
    echo "not ok - $mutant: no test matches $where"
    broken=$((broken + 1))
  elif BOURSE_MUTANT=$mutant run >"$log" 2>&1; then
    echo "not ok - $mutant survived $where"
    survived=$((survived + 1))
  else
    echo "ok - $mutant is noticed by $where"
    killed=$((killed + 1))
  fi
  rm -f "$log"
done <tests/mutants.txt
echo "$killed passed, $((survived + broken)) failed"
[ $((survived + broken)) = 0 ]
