#!/bin/sh
# Lint: format, bans, man pages. With --tidy FLAGS: clang-tidy on the files that differ from the last commit on main.
set -u
fail=0
files=$(git ls-files -co --exclude-standard '*.cc' '*.h' '*.c' 2>/dev/null)
[ -n "$files" ] || files=$(find common master agent frameworks plugins tests -name '*.cc' -o -name '*.h' -o -name '*.c')

if [ "${1:-}" = --tidy ]; then
  changed=$({ git diff --name-only --diff-filter=d HEAD~1 -- '*.cc'; git ls-files -o --exclude-standard -- '*.cc'; } 2>/dev/null)
  [ -n "$changed" ] || { echo "tidy: nothing changed"; exit 0; }
  # shellcheck disable=SC2086
  clang-tidy --quiet $changed -- $2 || fail=1
  exit $fail
fi

# shellcheck disable=SC2086
if command -v clang-format >/dev/null 2>&1; then
  bad=$(clang-format --dry-run $files 2>&1 | sed -n 's/^\([^:]*\):.*warning.*/\1/p' | sort -u)
  [ -z "$bad" ] || { echo "lint: not formatted (make format):" $bad; fail=1; }
fi

ban() {  # ban PATTERN WHY PATH...
  pattern=$1 why=$2
  shift 2
  hits=$(grep -rnE --include='*.cc' --include='*.h' "$pattern" "$@" 2>/dev/null | grep -v 'lint-ok')
  [ -z "$hits" ] || { printf 'lint: %s\n%s\n' "$why" "$hits"; fail=1; }
}
actors="common/core common/sim master/*.h $(ls master/*.cc 2>/dev/null | grep -v main.cc) agent/*.h $(ls agent/*.cc 2>/dev/null | grep -v main.cc) frameworks/api/client.h frameworks/api/client.cc"
# See "Determinism" and DESIGN §3: an actor has no clock, randomness, thread.
# shellcheck disable=SC2086
ban '(steady_clock|system_clock|high_resolution_clock)::now|[^_a-z]time\(NULL\)|[^_a-z]time\(nullptr\)|std::random_device|[^_a-z]rand\(\)|std::thread|usleep\(|sleep_for' \
  'clock, randomness or thread in an actor' $actors
# See "Thin".
ban '#include "frameworks/' 'master includes a framework' master
ban '[^_a-zA-Z](job|Job|bitstream|nvidia|image)[^_a-zA-Z]' 'master names a kind of work' master
# What is known of one maker's hardware is known to its probe only.
ban '([Nn][Vv][Ii][Dd][Ii][Aa]|[Aa]scend[^i]|[Aa]mdgpu|[Hh]uawei|[Xx]ilinx)' 'a vendor is named outside of the probes' agent/*.h agent/*.cc agent/helper master
ban 'zmq\.hpp|<zmq\.h>' 'zmq outside the transport' master agent frameworks common/core common/wire common/sim plugins
# See "One client".
ban '#include "frameworks/api/' 'a framework includes more of the library than its public header' frameworks/batch
# shellcheck disable=SC2086
missing=$(awk -f .ci/includes.awk $files)
[ -z "$missing" ] || { printf 'lint: includes\n%s\n' "$missing"; fail=1; }
big=$(wc -l $files | awk '$1 > 800 && $2 != "total" { print "  " $2 ": " $1 " lines" }')
[ -z "$big" ] || { printf 'lint: over 800 lines, split by noun:\n%s\n' "$big"; fail=1; }

if command -v mandoc >/dev/null 2>&1; then
  for m in man/*.[1-8]; do
    [ -e "$m" ] || continue
    out=$(mandoc -T lint -W warning "$m" 2>&1) || { printf 'lint: %s\n' "$out"; fail=1; }
  done
fi
[ $fail = 0 ] && echo "lint: clean"
exit $fail
