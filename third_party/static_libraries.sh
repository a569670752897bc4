#!/bin/sh
# Builds what the portable build links statically and Debian has not as position-independent archives, from the sources of
# Debian's own packages: oneTBB (Debian ships the shared library only), libpng and libjpeg-turbo (the archives are not
# position-independent, so that no shared library can hold them).
#
#   sh third_party/static_libraries.sh PREFIX
#
# The sources come through apt with the machine's own configuration, the signatures checked by apt.
set -eu
prefix=$1
codename=$(. /etc/os-release && printf %s "$VERSION_CODENAME")
missing=""
for library in tbb png jpeg; do
  [ -f "$prefix/lib/lib$library.a" ] || missing="$missing $library"
done
[ -n "$missing" ] || exit 0

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

# made LIBRARY PACKAGE DEFINITION...: fetches the package's source, builds it and installs it into the prefix.
made() {
  library=$1 package=$2
  shift 2
  case " $missing " in *" $library "*) ;; *) return 0 ;; esac
  mkdir "$work/$library"
  # A mirror of security updates may lack the newest source: then the release's own.
  (cd "$work/$library" && { apt_sources source "$package" >/dev/null 2>&1 ||
      apt_sources source "$package/$codename" >/dev/null; })
  source=$(find "$work/$library" -mindepth 1 -maxdepth 1 -type d | head -n 1)
  cmake -S "$source" -B "$work/$library/build" -G Ninja -Wno-dev -DCMAKE_BUILD_TYPE=Release -DCMAKE_POSITION_INDEPENDENT_CODE=ON \
    -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_C_VISIBILITY_PRESET=hidden \
    -DCMAKE_CXX_VISIBILITY_PRESET=hidden "$@" >/dev/null 2>&1
  cmake --build "$work/$library/build" --target install >/dev/null
  printf 'static_libraries: %s\n' "$prefix/lib/lib$library.a"
}
made tbb onetbb -DBUILD_SHARED_LIBS=OFF -DTBB_TEST=OFF -DTBB_STRICT=OFF -DTBB_DISABLE_HWLOC_AUTOMATIC_SEARCH=ON \
  -DTBBMALLOC_BUILD=OFF
made png libpng1.6 -DPNG_SHARED=OFF -DPNG_TESTS=OFF
# Without assembly, for which a further assembler would be needed: pictures are read and written once in a run.
made jpeg libjpeg-turbo -DCMAKE_INSTALL_LIBDIR="$prefix/lib" -DENABLE_SHARED=OFF -DWITH_SIMD=OFF -DWITH_TURBOJPEG=OFF
