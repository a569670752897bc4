#!/bin/sh
# Runs the README's commands on a bare Debian 12: debootstrap makes one in a folder, with this machine's own apt
# configuration, a clean clone of the committed tree goes in, and each command runs there under chroot.
#
#   sh tests/install/fresh.sh [COMMAND...]     needs root; each COMMAND is one argument; the README's two by default
#
# TILE_FRESH_DIR keeps the system in a folder of your choice; otherwise it is made in /var/tmp and removed.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
suite=bookworm

[ "$(id -u)" -eq 0 ] || { echo "fresh: needs root" >&2; exit 1; }
command -v debootstrap >/dev/null || { echo "fresh: needs debootstrap (third_party/install.sh --tools)" >&2; exit 1; }

if [ -n "${TILE_FRESH_DIR:-}" ]; then
  system=$TILE_FRESH_DIR
  mkdir -p "$system"
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

# The mirror is the one that this machine's apt uses for the suite.
mirror=$(apt-get indextargets --format '$(CODENAME) $(REPO_URI)' 'Created-By: Packages' |
  awk -v suite="$suite" '$1 == suite { print $2; exit }')
[ -n "$mirror" ] || { echo "fresh: this machine's apt has no source for $suite" >&2; exit 1; }

if [ ! -x "$system/usr/bin/apt-get" ]; then
  echo "fresh: bootstrapping $suite"
  debootstrap --variant=minbase "$suite" "$system" "$mirror" >"$system.log" 2>&1 ||
    { tail -n 20 "$system.log" >&2; exit 1; }
  rm -f "$system.log"
fi

# How to reach the mirror: sources, keys, proxies, certificates, resolver.
rm -rf "$system/etc/apt/sources.list" "$system/etc/apt/sources.list.d"
for entry in sources.list sources.list.d auth.conf.d apt.conf apt.conf.d trusted.gpg.d keyrings; do
  if [ -e "/etc/apt/$entry" ]; then
    mkdir -p "$system/etc/apt/$entry" 2>/dev/null || true
    [ -d "/etc/apt/$entry" ] || rmdir "$system/etc/apt/$entry" 2>/dev/null || true
    cp -rL "/etc/apt/$entry" "$system/etc/apt/"
  fi
done
mkdir -p "$system/usr/share/keyrings" "$system/etc/ssl/certs"
cp -r /usr/share/keyrings/. "$system/usr/share/keyrings/"
[ ! -f /etc/ssl/certs/ca-certificates.crt ] || cp /etc/ssl/certs/ca-certificates.crt "$system/etc/ssl/certs/"
cp -L /etc/resolv.conf "$system/etc/resolv.conf"
cp -L /etc/hosts "$system/etc/hosts"

mkdir -p "$system/proc" "$system/sys" "$system/dev"
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
