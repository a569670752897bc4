#!/bin/sh
# Compares the library's binary interface with that of the last release, stored in tests/install/abi: within a minor
# version nothing may go or change, between minor versions it may.
#
#   sh tests/install/abi.sh LIBRARY HEADERS         compares; exits with 77 where abidiff is not installed
#   sh tests/install/abi.sh LIBRARY HEADERS store   writes the file of this version
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
library=$1 headers=$2 store=${3:-}
folder=$root/tests/install/abi

command -v abidw >/dev/null && command -v abidiff >/dev/null || {
  echo "abi: no abidiff here (Debian's abigail-tools): not compared"
  exit 77
}
version=$(sed -n 's/^#define TILE_VERSION_\(MAJOR\|MINOR\) \([0-9]*\)$/\2/p' "$headers/tile/tile.h" | paste -sd.)
known=$folder/libtile-$version.abi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Types come from a small program with debugging information that uses the headers alone: the library's own build need
# not have any.
{
  echo '#include <tile/tile.h>'
  sed -n 's/^TILE_API .*[ *]\(tile_[a-z0-9_]*\)(.*/\1/p; s/^  *\(tile_[a-z0-9_]*\)($/\1/p' "$headers/tile/tile.h" | LC_ALL=C sort -u |
    awk '{ print "__typeof__(" $1 ")* take_" $1 "(void) { return " $1 "; }" }'
} >"$work/interface.c"
cc -g -fPIC -shared -I"$headers" -o "$work/libinterface.so" "$work/interface.c" "$library" -Wl,-rpath,"$(dirname "$library")"
abidw --no-corpus-path --no-comp-dir-path --no-show-locs "$work/libinterface.so" >"$work/now.abi"
nm -D --defined-only --extern-only "$library" | awk '$2 != "A" { sub(/@@?/, " ", $3); print $3 }' | LC_ALL=C sort >"$work/exports"

if [ "$store" = store ]; then
  mkdir -p "$folder"
  cp "$work/now.abi" "$known"
  cp "$work/exports" "$folder/libtile-$version.exports"
  echo "abi: stored $known"
  exit 0
fi
[ -f "$known" ] || { echo "abi: nothing is stored for version $version; a release stores it: sh $0 … store" >&2; exit 1; }
gone=$(LC_ALL=C comm -23 "$folder/libtile-$version.exports" "$work/exports")
[ -z "$gone" ] || { echo "abi: no longer exported: $gone" >&2; exit 1; }
# 4: there are differences; 8: some are incompatible; 1, 2: no comparison. Structs that begin with their size may grow at
# their end; what is in them stays where and what it is.
status=0
abidiff --no-added-syms "$known" "$work/now.abi" >"$work/report" || status=$?
if [ $((status & 11)) -ne 0 ] ||
  grep -qE 'member (change|deletion)|enumerator (change|deletion)|name changed|parameter [0-9]+ .* was |entity changed' "$work/report"; then
  cat "$work/report" >&2
  echo "abi: another interface than version $version has" >&2
  exit 1
fi
echo "abi: as version $version"
