#!/bin/sh
# Tries the portable tarball: unpacked in a folder with a space in its name it needs nothing but the C library, a C host
# builds against it, and, where a chroot can be made, program and host run on a newer Debian than the one that built it.
#
#   sh tests/install/portable.sh TARBALL
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/tests/install/system.sh"
work=$(mktemp -d /var/tmp/tile-portable.XXXXXX)
trap 'rm -rf --one-file-system "$work"' EXIT

bytes=$(stat -c %s "$1")
echo "portable: $1 takes $bytes bytes"
[ "$bytes" -le 25000000 ] || { echo "portable: more than 25 MB" >&2; exit 1; }

mkdir "$work/some where"
tar -xJf "$1" -C "$work/some where" --strip-components=1
cd "$work/some where"

for file in bin/* lib/libtile.so; do
  needed=$(objdump -p "$file" | awk '$1 == "NEEDED" { print $2 }' |
    grep -vE '^(lib(c|m|dl|pthread|rt)\.so\.[0-9]+|ld-linux-x86-64\.so\.2|libtile\.so\.[0-9.]+)$' || true)
  [ -z "$needed" ] || { echo "portable: $file needs" $needed >&2; exit 1; }
done

flags=$(PKG_CONFIG_PATH="$PWD/lib/pkgconfig" pkg-config --cflags --libs tile)
eval "cc -std=c99 -o bin/host '$root/tests/install/host/host.c' $flags -Wl,-rpath,'\$ORIGIN/../lib'"
bin/host
bin/tile conform "$root"/tests/conformance/*.json
bin/tile-bench list >/dev/null

if command -v gdb >/dev/null; then
  printf 'function (A[N]) -> (O) {\n  O = exp(A);\n}\n' >lines.tile
  TILE_CACHE=off TILE_GDB=1 gdb -nx -batch -iex 'set breakpoint pending on' -iex 'set debuginfod enabled off' \
    -ex 'break lines.tile:2' -ex run -ex 'backtrace 1' \
    --args bin/tile run lines.tile --in A=ones:64 --backend cpu >lines.log 2>&1 || true
  if ! grep -q 'ptrace.*not permitted' lines.log; then
    grep -q '^#0 .*lines.tile:2 ' lines.log || { cat lines.log >&2; echo "portable: gdb finds no kernel" >&2; exit 1; }
    echo "portable: gdb stops in kernels"
  fi
fi

if ! can_make_system; then
  echo "portable: no root or no debootstrap, not tried on a newer system"
  exit 0
fi
make_system trixie "$work/system"
cp -r "$work/some where" "$work/system/opt/tile"
cp -r "$root/tests/conformance" "$work/system/opt/"
chroot "$work/system" /usr/bin/env -i HOME=/root PATH=/usr/bin:/bin sh -c \
  'ldd --version | head -n 1; mount -t proc proc /proc; /opt/tile/bin/host && /opt/tile/bin/tile conform /opt/conformance/*.json
   status=$?; umount /proc; exit $status'
echo "portable: runs on a newer system"
