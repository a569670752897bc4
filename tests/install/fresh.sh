#!/bin/sh
# Runs the README's commands on a bare Debian 12: debootstrap makes one in a folder, with this machine's own apt
# configuration, a clean clone of the committed tree goes in, and each command runs there under chroot.
#
#   sh tests/install/fresh.sh [COMMAND...]     needs root; each COMMAND is one argument; the README's two by default
#
# TILE_FRESH_DIR keeps the system in a folder of your choice; otherwise it is made in /var/tmp and removed.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/tests/install/system.sh"

can_make_system || { echo "fresh: needs root and debootstrap (third_party/install.sh --tools)" >&2; exit 1; }

if [ -n "${TILE_FRESH_DIR:-}" ]; then
  system=$TILE_FRESH_DIR
else
  system=$(mktemp -d /var/tmp/tile-fresh.XXXXXX)
fi
mounted=""
finish() {
  for place in $mounted; do umount "$place" 2>/dev/null || umount -l "$place"; done
  [ -n "${TILE_FRESH_DIR:-}" ] || rm -rf --one-file-system "$system"
}
trap finish EXIT
trap 'exit 1' INT TERM

echo "fresh: a bare Debian 12 in $system"
make_system bookworm "$system"

# How to reach the archive: sources, keys, proxies, certificates, resolver.
rm -rf "$system/etc/apt/sources.list" "$system/etc/apt/sources.list.d"
for entry in sources.list sources.list.d auth.conf.d apt.conf apt.conf.d trusted.gpg.d keyrings; do
  [ ! -e "/etc/apt/$entry" ] || cp -rL "/etc/apt/$entry" "$system/etc/apt/"
done
mkdir -p "$system/usr/share/keyrings" "$system/etc/ssl/certs"
cp -r /usr/share/keyrings/. "$system/usr/share/keyrings/"
[ ! -f /etc/ssl/certs/ca-certificates.crt ] || cp /etc/ssl/certs/ca-certificates.crt "$system/etc/ssl/certs/"
cp -L /etc/resolv.conf /etc/hosts "$system/etc/"

attach() { # TYPE PLACE
  mkdir -p "$system/$2"
  mount -t "$1" tile-fresh "$system/$2"
  mounted="$system/$2 $mounted"
}
attach proc proc
attach sysfs sys
attach devtmpfs dev
attach devpts dev/pts
attach tmpfs dev/shm

rm -rf "$system/srv/tile"
git -c safe.directory='*' clone -q --no-hardlinks "file://$root" "$system/srv/tile"

[ $# -gt 0 ] || set -- "sh third_party/demo.sh" "sh third_party/test.sh"
for command in "$@"; do
  printf 'fresh: $ %s\n' "$command"
  begin=$(date +%s)
  chroot "$system" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 TERM=dumb \
    sh -c "cd /srv/tile && $command"
  printf 'fresh: done in %s s: %s\n' "$(($(date +%s) - begin))" "$command"
done
