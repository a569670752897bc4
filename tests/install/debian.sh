#!/bin/sh
# Makes Debian's packages of a build and looks at them: their names and files, the symbols file against the library's
# exports, lintian's errors, and, where a chroot can be made, installation, a run and removal in a bare Debian 12.
#
#   sh tests/install/debian.sh BUILD-FOLDER
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/tests/install/system.sh"
build=$1
command -v dpkg-deb >/dev/null || { echo "debian: no dpkg here, nothing tried"; exit 77; }
work=$(mktemp -d /var/tmp/tile-debian.XXXXXX)
mounted=""
finish() {
  [ -z "$mounted" ] || umount "$mounted" || umount -l "$mounted"
  rm -rf --one-file-system "$work"
}
trap finish EXIT

# Packages that are only looked at are compressed quickly.
cpack --config "$build/CPackConfig.cmake" -G DEB -B "$work" -D CPACK_DEBIAN_COMPRESSION_TYPE=gzip >"$work/log" 2>&1 || { tail -n 20 "$work/log" >&2; exit 1; }
set -- "$work"/*.deb
[ $# -eq 3 ] || { echo "debian: $# packages, not 3: $*" >&2; exit 1; }
library=$(echo "$work"/libtile[0-9]*.deb)
for package; do
  dpkg-deb --info "$package" >"$package.info"
  dpkg-deb --contents "$package" | awk '{ print $6 }' >"$package.files"
  du -k "$package" | awk -v name="$(basename "$package")" '{ print "debian: " name ", " $1 " KiB" }'
done

# The library alone has the library, and its symbols file says what it exports.
grep -qE '/libtile\.so\.[0-9.]+$' "$library.files"
if grep -qE '/libtile\.so$|\.h$' "$library.files"; then
  echo "debian: files of development in the library's package" >&2
  exit 1
fi
dpkg-deb --control "$library" "$work/control"
dpkg-deb --extract "$library" "$work/tree"
so=$(find "$work/tree" -name 'libtile.so.*.*.*')
soname=$(objdump -p "$so" | awk '$1 == "SONAME" { print $2 }')
head -n 1 "$work/control/symbols" | grep -q "^$soname libtile"
awk '/@TILE_0 / { sub(/@.*/, "", $1); print $1 }' "$work/control/symbols" | grep -v '^TILE_0$' | LC_ALL=C sort >"$work/said"
nm -D --defined-only --extern-only "$so" | awk '$3 ~ /@TILE_0$/ && $2 != "A" { sub(/@.*/, "", $3); print $3 }' | LC_ALL=C sort >"$work/exports"
diff -u "$work/exports" "$work/said"
echo "debian: the symbols file fits the library"

# Each program has its manual page.
tools=$(echo "$work"/tile-tools*.deb)
for page in tile.1.gz tile-run.1.gz tile-bench.1.gz tile-bench-run.1.gz; do
  grep -q "/usr/share/man/man1/$page\$" "$tools.files" || { echo "debian: no page $page" >&2; exit 1; }
done
echo "debian: the programs have manual pages"
# The documents stand beside the first of them, which links to the others.
for document in README.md core/language/tile/GUIDE.md; do
  grep -q "/usr/share/doc/TileJIT/$document\$" "$tools.files" || { echo "debian: no $document" >&2; exit 1; }
done

if command -v lintian >/dev/null; then
  lintian --tag-display-limit 0 "$work"/*.deb >"$work/lintian" 2>&1 || true
  if grep '^E:' "$work/lintian"; then
    echo "debian: lintian found errors" >&2
    exit 1
  fi
  echo "debian: no errors of lintian, $(grep -c '^W:' "$work/lintian" || true) warnings"
else
  echo "debian: no lintian here (third_party/install.sh --tools): its checks are left out"
fi

if [ "${TILE_DEBIAN_CHROOT:-no}" != yes ] || ! can_make_system; then
  echo "debian: not installed in a bare system (TILE_DEBIAN_CHROOT=yes, root and debootstrap do that)"
  exit 0
fi
system=$work/system
make_system bookworm "$system"
for entry in sources.list sources.list.d auth.conf.d apt.conf apt.conf.d trusted.gpg.d keyrings; do
  rm -rf "$system/etc/apt/${entry:?}"
  [ ! -e "/etc/apt/$entry" ] || cp -rL "/etc/apt/$entry" "$system/etc/apt/"
done
mkdir -p "$system/etc/ssl/certs" "$system/usr/share/keyrings" "$system/srv/packages"
cp -r /usr/share/keyrings/. "$system/usr/share/keyrings/"
[ ! -f /etc/ssl/certs/ca-certificates.crt ] || cp /etc/ssl/certs/ca-certificates.crt "$system/etc/ssl/certs/"
cp -L /etc/resolv.conf /etc/hosts "$system/etc/"
cp "$work"/*.deb "$system/srv/packages/"
mount -t proc proc "$system/proc"
mounted=$system/proc
in_system() { chroot "$system" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive sh -euc "$1"; }
in_system 'apt-get -qq update; dpkg-query -W >/srv/before
  apt-get -qq install -y --no-install-recommends /srv/packages/*.deb >/dev/null
  printf "%s\n" "function (A[N]) -> (B) { B = A * 2; }" >/tmp/twice.tile
  tile run /tmp/twice.tile --in A=iota:3 --out B=- && ldconfig -p | grep -q libtile.so
  apt-get -qq purge -y libtile0.2 libtile-dev tile-tools >/dev/null
  ! ls /usr/lib/libtile* /usr/lib/*/libtile* /usr/bin/tile /usr/share/tile /usr/include/tile 2>/dev/null'
echo "debian: installed, run and removed in a bare Debian 12"
