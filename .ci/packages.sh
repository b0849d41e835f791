#!/bin/sh
# packages.sh STAMP PACKAGE...: installs what Debian lacks of the packages, saying so first, and writes STAMP.
# Not allowed to (not root, no sudo, or NO_INSTALL=1): prints the one line to run and fails.
set -eu
stamp=$1
shift
missing=
for p in "$@"; do
  case $(dpkg-query -W -f '${db:Status-Abbrev}' "$p" 2>/dev/null || true) in
    ii*) ;;
    *) missing="$missing $p" ;;
  esac
done
if [ -n "$missing" ]; then
  line="apt-get install -y --no-install-recommends$missing"
  if [ -n "${NO_INSTALL:-}" ]; then
    echo "bourse: missing Debian packages; run: $line" >&2
    exit 1
  elif [ "$(id -u)" = 0 ]; then
    run=
  elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
    run=sudo
  else
    echo "bourse: missing Debian packages, and this user may not install them; run as root: $line" >&2
    exit 1
  fi
  echo "bourse: installing Debian packages:$missing" >&2
  # A machine whose package lists are old or absent is told nothing by a plain install; refresh once on failure.
  DEBIAN_FRONTEND=noninteractive $run $line >build/apt.log 2>&1 || {
    $run apt-get update >build/apt.log 2>&1 && DEBIAN_FRONTEND=noninteractive $run $line >>build/apt.log 2>&1
  } || { tail -5 build/apt.log >&2; echo "bourse: that failed; whole output in build/apt.log" >&2; exit 1; }
fi
echo "# made by .ci/packages.sh: all packages are here" >"$stamp"
