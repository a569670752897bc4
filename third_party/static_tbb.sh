#!/bin/sh
# Builds oneTBB as a static library from the source of Debian's own package: Debian ships only the shared one.
#
#   sh third_party/static_tbb.sh PREFIX
#
# The source comes through apt with the machine's own configuration, the signature checked by apt.
set -eu
prefix=$1
[ ! -f "$prefix/lib/libtbb.a" ] || exit 0

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
mkdir -p "$work/lists/partial" "$work/parts"

# The machine's sources, asked for as source packages, in lists of our own: nothing of the system changes.
for file in /etc/apt/sources.list.d/*.sources; do
  [ -f "$file" ] && sed 's/^Types:.*/Types: deb-src/' "$file" >"$work/parts/$(basename "$file")"
done
for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
  [ -f "$file" ] && sed 's/^deb /deb-src /' "$file" >"$work/parts/$(basename "$file" .list).list"
done
apt_sources() {
  apt-get -qq -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$work/parts" \
    -o Dir::State::lists="$work/lists" -o APT::Sandbox::User=root "$@"
}
apt_sources update
(cd "$work" && apt_sources source onetbb >/dev/null)

source=$(find "$work" -maxdepth 1 -type d -name 'onetbb-*' | head -n 1)
cmake -S "$source" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF -DTBB_TEST=OFF \
  -DTBB_STRICT=OFF -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_INSTALL_PREFIX="$prefix" \
  -DCMAKE_CXX_VISIBILITY_PRESET=hidden -DTBB_DISABLE_HWLOC_AUTOMATIC_SEARCH=ON -DTBBMALLOC_BUILD=OFF >/dev/null
cmake --build "$work/build" --target install >/dev/null
printf 'static_tbb: %s\n' "$prefix/lib/libtbb.a"
