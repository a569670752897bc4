#!/bin/sh
# Tries a wheel of `build.sh --static`: its size, the systems and Pythons that it is for, the bill of materials inside, and,
# for each Python, a clean environment in which it is installed and used, with the times.
#
#   sh tests/install/wheel.sh WHEEL [PYTHON...]
#
# Without PYTHONs those of PATH from 3.10. auditwheel and abi3audit are those of .python/ (sh third_party/install.sh
# --python); NumPy and nanobind-backend come from the package index.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
wheel=$(realpath "$1")
shift
tools=$root/.python/bin
work=$(mktemp -d /var/tmp/tile-wheel.XXXXXX)
trap 'rm -rf "$work"' EXIT
fail() { echo "wheel: $*" >&2; exit 1; }

bytes=$(stat -c %s "$wheel")
echo "wheel: $(basename "$wheel") takes $bytes bytes"
[ "$bytes" -le 20000000 ] || fail "more than 20 MB"

PATH=$tools:$PATH "$tools/auditwheel" show "$wheel" >"$work/audit"
minor=$(tr '\n' ' ' <"$work/audit" | grep -oE 'manylinux_2_[0-9]+' | head -n 1 | cut -d _ -f 3)
echo "wheel: for glibc 2.$minor and newer"
[ "${minor:-99}" -le 34 ] || { cat "$work/audit" >&2; fail "asks for a glibc newer than 2.34"; }
"$tools/abi3audit" --strict "$wheel" >"$work/abi" 2>&1 || { cat "$work/abi" >&2; fail "not of the stable interface"; }

"$tools/python" -m zipfile -e "$wheel" "$work/unpacked"
PYTHONPATH=$work/unpacked "$tools/python" -m pytest -q -p no:cacheprovider "$root/tests/python/test_package.py"

if [ $# -eq 0 ]; then
  for version in 3.10 3.11 3.12 3.13 3.14; do
    "python$version" -c 'import venv' 2>/dev/null && set -- "$@" "python$version"
  done
fi
[ $# -gt 0 ] || fail "no Python to try it with"
printf 'function (A[N]) -> (B) { B = A * 2; }\n' >"$work/twice.tile"
for python; do
  "$python" -m venv "$work/venv"
  begin=$(date +%s.%N)
  "$work/venv/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir "$wheel" numpy
  (cd "$work" && TILE_CACHE=off "$work/venv/bin/python" "$root/tests/install/first_result.py")
  end=$(date +%s.%N)
  (cd "$work" && TILE_CACHE=off "$work/venv/bin/python" "$root/tests/install/first_result.py" --all "$("$python" --version)" \
    "$(echo "$end $begin" | awk '{ printf "%.1f", $1 - $2 }')")
  [ "$("$work/venv/bin/tile" run "$work/twice.tile" --in A=iota:3 --out B=-)" = "[0, 2, 4]" ] || fail "tile run prints something else"
  "$work/venv/bin/tile-bench" list >/dev/null
  rm -rf "$work/venv"
done
